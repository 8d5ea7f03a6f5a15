//! The op suite on a board.
//!
//! ```text
//! board vectors FILE                        writes the vectors
//! board check RESULTS EXPECTATIONS          judges what the board made of them
//! ```

use serinette_core::op;
use serinette_host_kernels::registry;
use serinette_op_suite::board::{Expectations, judge, run_here, write_vectors};
use serinette_op_suite::{Case, cases};
use serinette_op_suite_runner::Device;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["vectors", file] => vectors(file).map(|()| true),
        ["check", results, expectations] => check(results, expectations),
        _ => Err("usage: board vectors FILE | board check RESULTS EXPECTATIONS".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// The cases of the ops that the board's image has kernels of.
fn small() -> Vec<Case> {
    cases().into_iter().filter(|c| c.op.0 <= registry::SMALL_CODES).collect()
}

fn vectors(file: &str) -> Result<(), Box<dyn Error>> {
    let mut to = BufWriter::new(File::create(file).map_err(|e| format!("{file}: {e}"))?);
    let cases = small();
    let runs = write_vectors(&cases, &mut to)?;
    to.flush()?;
    println!("{} cases, {runs} runs, {} bytes", cases.len(), fs::metadata(file)?.len());
    Ok(())
}

fn check(results: &str, expectations: &str) -> Result<bool, Box<dyn Error>> {
    let read = |file: &str| fs::read(file).map_err(|e| format!("{file}: {e}"));
    let list = String::from_utf8(read(expectations)?)?;
    let list = Expectations::parse(&list).map_err(|e| format!("{expectations}: {e}"))?;
    let cases = small();
    let verdict = judge(&cases, &read(results)?, &on_this_host(&cases)?)?;
    let wrong = list.compare(&verdict);
    println!("{verdict}");
    for ((op, limit), runs) in &verdict.refused {
        println!("  {op} {limit}: {runs}");
    }
    verdict.failures.iter().for_each(|f| eprintln!("{f}"));
    wrong.iter().for_each(|w| eprintln!("{expectations}: {w}"));
    Ok(verdict.failures.is_empty() && wrong.is_empty())
}

/// The results of the host's own kernels, whose bits every device with the same kernels must give.
fn on_this_host(cases: &[Case]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut vectors = Vec::new();
    write_vectors(cases, &mut vectors)?;
    let kernel = |s: &_| registry::find_small(s).map(|r| r.kernel);
    Ok(run_here(&vectors, 64 << 20, Device { ops: op::ALL, kernel: &kernel })?)
}
