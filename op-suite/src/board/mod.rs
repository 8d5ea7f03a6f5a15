//! The suite for devices that it cannot call: boards and emulators.
//!
//! [`write_vectors`] makes a file of every case, in every placement and with every size of scratch that matters; the
//! device runs it with `serinette_op_suite_runner` and makes a file of results; [`judge`] checks these with
//! [`crate::check`] against the expected values, and compares them with what the host's kernels gave for the same file,
//! because the reference kernels promise the same bits on every target. What a device cannot run stands in its own list
//! of
//! [`Expectations`].

mod expect;
mod memory;
mod results;
mod vectors;

pub use expect::Expectations;
pub use memory::run_here;
pub use results::{Verdict, judge};
pub use vectors::write_vectors;
