//! Runs the cases of the op suite where the suite itself cannot live: on a board without an operating system.
//!
//! A host writes the cases as a stream of *vectors* (`serinette_op_suite::board`); firmware gives [`run`] a [`Link`] to
//! that stream, some memory, a table of ops and a way to find kernels, and sends back the stream of *results*. Whether
//! results are right is judged on the host: nothing here knows an expected value. The layout of both streams is in
//! [`wire`].
//!
//! One case is in memory at a time, with its operands, results and scratch. A case that does not fit is answered with
//! the bytes that it would take, and skipped.
#![no_std]
#![forbid(unsafe_code)]

mod carve;
mod job;
mod step;
pub mod wire;

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};
use core::fmt;
use serinette_core::op::OpDescriptor;
use serinette_core::schedule::Kernel;
use serinette_core::schedule::record::Signature;
use wire::{Results, Status, Vectors};

/// The streams to and from the host: files, a serial line, a debug probe.
pub trait Link {
    /// Fills `bytes` with what comes next in the vectors.
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), LinkError>;
    /// Appends `bytes` to the results.
    fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError>;
}

/// The other end is gone, or has no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkError;

/// Why the stream of vectors cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The link failed.
    Link,
    /// The stream is not one of vectors, or of another version: what was found.
    Version(u32),
    /// A run with impossible numbers of operands: its number.
    Operands(u32),
}

impl From<LinkError> for Error {
    fn from(_: LinkError) -> Error {
        Error::Link
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Link => f.write_str("the link to the host failed"),
            Error::Version(found) => write!(f, "vectors of version {found}, expected {}", wire::VERSION),
            Error::Operands(run) => write!(f, "run {run} has impossible numbers of operands"),
        }
    }
}

impl core::error::Error for Error {}

/// What a device is made of, as far as the suite sees it.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// The ops that it knows, ascending by code.
    pub ops: &'a [&'static OpDescriptor],
    /// The kernel for a signature.
    pub kernel: &'a dyn Fn(&Signature) -> Option<Kernel>,
}

/// How many runs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs in the stream.
    pub runs: u32,
    /// Runs whose kernel computed something.
    pub computed: u32,
}

/// Runs every case of the stream. `memory` holds one case at a time and is best aligned to 16 bytes.
pub fn run(link: &mut dyn Link, memory: &mut [u8], device: Device<'_>) -> Result<Tally, Error> {
    let mut head = Vectors::zeroed();
    link.read(bytes_of_mut(&mut head))?;
    if (head.magic, head.version) != (wire::MAGIC, wire::VERSION) {
        return Err(Error::Version(head.version));
    }
    let memory = carve::aligned(memory);
    let room = memory.len() as u64;
    let results = Results { magic: wire::MAGIC, version: wire::VERSION, runs: head.runs, memory: room };
    link.write(bytes_of(&results))?;

    let mut tally = Tally { runs: head.runs, computed: 0 };
    for number in 0..head.runs {
        let (mut outcome, outputs) = job::run(link, memory, device, number)?;
        outcome.bytes = outputs.iter().map(|o| o.len() as u64).sum();
        tally.computed += u32::from(Status::from_code(outcome.status).is_some_and(Status::has_outputs));
        link.write(bytes_of(&outcome))?;
        for bytes in &outputs {
            link.write(bytes)?;
        }
    }
    Ok(tally)
}
