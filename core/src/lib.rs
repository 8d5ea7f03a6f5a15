//! The core of Serinette: schedule blobs.
//!
//! A *schedule blob* (`.srn`) holds one device-neutral program (symbols, values, steps, entries) and any
//! number of memory plans for it. This crate describes the ops ([`op`]), reads and verifies blobs
//! ([`schedule`]), binds sizes, walks the steps over slices that the caller owns, and computes memory plans
//! ([`plan`]).
//!
//! It is `no_std`, never allocates and contains no unsafe code. Everything read from a blob is checked where
//! it is read, so a garbage blob gives an error value; the verifier only turns "an error some time during a
//! run" into "an error before the first run".
#![no_std]
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("schedule blobs are little-endian and read in place; big-endian targets are not supported");

#[cfg(test)]
extern crate std;

pub mod dtype;
pub mod op;
pub mod plan;
pub mod schedule;
pub mod shape;
mod wide;

/// Checked conversion between slices of bytes and of elements, for the source that `serinette-embed` emits.
#[doc(no_inline)]
pub use bytemuck::{try_cast_slice, try_cast_slice_mut};
pub use dtype::DType;
pub use shape::{Dim, Shape};

/// Most axes that a tensor may have.
pub const MAX_RANK: usize = 8;
/// Most inputs that one step may have.
pub const MAX_INPUTS: usize = 16;
/// Most outputs that one step may have.
pub const MAX_OUTPUTS: usize = 4;
/// Deepest nesting of `If` and `Loop` regions.
pub const MAX_DEPTH: usize = 8;
/// The id that stands for "no such record" wherever a record refers to another one.
pub const NONE: u32 = u32::MAX;
