//! The command line of Serinette. `docs/cli.md` describes commands, JSON and exit codes.

mod args;
mod commands;
mod compile;
mod device;
mod diff;
mod entry;
#[cfg_attr(not(feature = "compiler"), path = "explain/nothing.rs")]
mod explain;
mod facts;
mod failure;
mod files;
mod hint;
mod input;
mod memory;
mod output;
mod page;
mod profile;
mod self_test;
mod sizes;
mod steps;
mod tap;
mod tensor;
mod units;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no errors: clap knows the stream and the code. A closed stream changes nothing.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    let done = match &cli.command {
        Command::Compile(a) => commands::compile::run(a),
        Command::Run(a) => commands::run::run(a),
        Command::Verify(a) => commands::verify::run(a),
        Command::Inspect(a) => commands::inspect::run(a),
        Command::Bench(a) => commands::bench::run(a),
        Command::Devices(a) => commands::devices::run(a),
        Command::Compare(a) => commands::compare::run(a),
        Command::Diff(a) => commands::diff::run(a),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("serinette: {}", e.message());
            ExitCode::from(e.code())
        }
    }
}
