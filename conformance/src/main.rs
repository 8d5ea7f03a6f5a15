//! Runs the ONNX backend tests (`onnx/backend/test/data/node` of the onnx package, `tools/fetch.py onnx`).
//!
//! `serinette-conformance FOLDER [--filter TEXT] [--expect FILE] [--plain] [--list]`
//!
//! A test is a folder with `model.onnx` and folders `test_data_set_N` of `input_J.pb` and `output_J.pb`. Each is compiled, run on
//! the host and compared (relative 1e-3, absolute 1e-7, as the ONNX runner does). The last line is `N passed, N failed, N
//! skipped`. With `--expect`, the failures must be exactly those that the file lists, one a line with its reason.

mod compare;
mod expect;
mod test;

use clap::Parser;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::path::PathBuf;
use std::process::ExitCode;
use test::Outcome;

/// Run the ONNX backend tests of a folder
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder that holds the tests
    folder: PathBuf,
    /// Only tests whose name has this text in it
    #[arg(long, default_value = "")]
    filter: String,
    /// Leave out the `_expanded` tests, which spell an op out in simpler ones
    #[arg(long)]
    plain: bool,
    /// Failures expected: `NAME: REASON` a line
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Print every test, not only those that fail
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let folder = &arguments.folder;
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut tests: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("model.onnx").is_file())
        .filter(|p| name(p).contains(&arguments.filter))
        .filter(|p| !arguments.plain || !name(p).contains("_expanded"))
        .collect();
    tests.sort();
    if tests.is_empty() {
        return Err(format!("{}: no tests", folder.display()));
    }
    let mut expected = match &arguments.expect {
        Some(file) => expect::read(file)?,
        None => Default::default(),
    };
    // A panic is a failure of its test, and its message belongs to the test's line.
    std::panic::set_hook(Box::new(|_| ()));
    let outcomes: Vec<(String, Outcome)> = tests.par_iter().map(|p| (name(p), test::run(p))).collect();
    let (mut passed, mut failed, mut skipped, mut surprises) = (0, 0, 0, 0);
    for (name, outcome) in &outcomes {
        let reason = expected.remove(name);
        let (text, surprise) = match (outcome, &reason) {
            (Outcome::Passed { .. }, Some(_)) => ("passed, but is expected to fail".into(), true),
            (Outcome::Passed { fixed, .. }, None) if fixed.is_empty() => ("passed".into(), false),
            (Outcome::Passed { fixed, .. }, None) => {
                (format!("passed, with {} fixed at compile time", fixed.join(", ")), false)
            }
            (Outcome::Failed(why), Some(reason)) => (format!("failed as expected ({reason}): {why}"), false),
            (Outcome::Failed(why), None) => (format!("failed: {why}"), true),
            (Outcome::Skipped(why), _) => (format!("skipped: {why}"), false),
        };
        match outcome {
            Outcome::Passed { .. } => passed += 1,
            Outcome::Failed(_) => failed += 1,
            Outcome::Skipped(_) => skipped += 1,
        }
        surprises += usize::from(surprise);
        if arguments.list || surprise {
            println!("{name}: {text}");
        }
    }
    if arguments.filter.is_empty() && !arguments.plain {
        for name in expected.keys() {
            println!("{name}: expected to fail, but there is no such test");
            surprises += 1;
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(surprises == 0)
}

fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
