//! The commands, one file each.

pub mod bench;
pub mod compare;
pub mod compile;
pub mod devices;
pub mod diff;
pub mod inspect;
pub mod run;
pub mod verify;

use crate::failure::Failure;
use serde::Serialize;
use std::io::Write;

/// Prints notes on standard error, where they do not disturb results.
fn tell(notes: &[String]) {
    for n in notes {
        eprintln!("note: {n}");
    }
}

/// Prints one JSON document.
fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
