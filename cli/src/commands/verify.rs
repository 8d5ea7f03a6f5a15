//! `serinette verify`.

use crate::args::Verify;
use crate::failure::Failure;
use crate::{compile, device, facts, units};
use serinette::Model;
use serinette::core::op;
use serinette::core::schedule::{self, Limits, Live};
use std::io::Write;
use std::time::{Duration, Instant};

/// Proves a blob safe to run, compares digests, and runs the self-tests of the blob.
pub fn run(args: &Verify) -> Result<(), Failure> {
    let model = compile::open(&args.file)?;
    model.check_digests().map_err(|e| Failure::file(&args.file, e))?;
    let time = time(&model)?;
    let (program, report) = (model.program(), model.report());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: verified", args.file.display())?;
    let version = format!("{}.{}", program.header.major, program.header.minor);
    writeln!(out, "  format   {version}, {} of records", units::bytes(program.header.meta_bytes))?;
    writeln!(out, "  digest   {}", facts::hex(&program.header.digest))?;
    writeln!(out, "  weights  {} sections, digests match", program.weights.len())?;
    writeln!(
        out,
        "  steps    {}, at most {} in a run; {} entries, {} plans",
        units::count(program.steps.len() as u64),
        units::count(report.steps),
        program.entries.len(),
        program.plans.len()
    )?;
    writeln!(
        out,
        "  work     at most {} multiply-adds, {} moved",
        units::count(report.macs),
        units::bytes(report.bytes)
    )?;
    writeln!(out, "  time     {:.3} ms, {} live ranges", units::ms(time), report.max_live)?;
    self_tests(args, &model, &mut out)
}

/// Runs the self-tests on every device asked for; one that fails does not keep the others from running.
fn self_tests(args: &Verify, model: &Model, out: &mut dyn Write) -> Result<(), Failure> {
    if model.self_tests() == 0 {
        writeln!(out, "  tests    none in this blob")?;
        return Ok(());
    }
    let mut failures = Vec::new();
    for id in device::ids(std::slice::from_ref(&args.device)) {
        let opened = device::open(&id);
        let passed = opened.and_then(|d| model.run_self_tests(&d.device).map_err(Failure::from));
        match passed {
            Err(e) => failures.push(e.within(&id)),
            Ok(passed) => {
                for (i, p) in passed.iter().enumerate() {
                    let sizes: Vec<String> = p.sizes.iter().map(|(n, v)| format!("{n} {v}")).collect();
                    writeln!(
                        out,
                        "  test {i}   {} outputs of {} agree on {id}: {:.1e} apart at most, {:.1e} allowed ({})",
                        p.outputs,
                        p.entry,
                        p.deviation,
                        p.tolerance,
                        sizes.join(", ")
                    )?;
                }
            }
        }
    }
    let failures: Vec<&str> = failures.iter().map(Failure::message).collect();
    if failures.is_empty() { Ok(()) } else { Err(Failure::new(failures.join("\nserinette: "))) }
}

/// The time of one verification of records in memory: the best of five.
pub fn time(model: &Model) -> Result<Duration, Failure> {
    let program = model.program();
    let mut live = vec![Live::default(); program.header.max_live as usize];
    let mut exprs = vec![0; program.exprs.len()];
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        schedule::verify(program, op::ALL, &Limits::default(), &mut live, &mut exprs)?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
