//! The two streams, byte by byte. Everything is little-endian, as every target of the core is.
//!
//! Vectors: [`Vectors`], then for each run a [`Run`], its [`Operand`]s (inputs, then outputs), the attribute bytes, the
//! values of the dimension expressions as u64, and the bytes of the inputs that are present, without any padding.
//!
//! Results: [`Results`], then for each run an [`Outcome`] and the bytes of its outputs.

use bytemuck::{Pod, Zeroable};
use serinette_core::{MAX_OUTPUTS, MAX_RANK};

/// How both streams start.
pub const MAGIC: [u8; 8] = *b"SRNSUITE";
/// Version of the layout.
pub const VERSION: u32 = 1;

/// The head of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Vectors {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Runs that follow.
    pub runs: u32,
}

/// The head of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Results {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Outcomes that follow.
    pub runs: u32,
    /// Bytes that the device has for one case.
    pub memory: u64,
}

/// One case, in one placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Run {
    /// Code of the op.
    pub op: u16,
    /// Version of the op.
    pub version: u16,
    /// Number of inputs, absent ones included.
    pub inputs: u8,
    /// Number of outputs.
    pub outputs: u8,
    /// Code of the scratch class.
    pub scratch: u8,
    /// Zero.
    pub reserved: u8,
    /// For each output, 1 + the input that shares its memory, or 0.
    pub in_place: [u8; MAX_OUTPUTS],
    /// Bytes of the attribute record.
    pub attr_bytes: u32,
    /// Number of dimension expressions.
    pub exprs: u32,
}

/// One operand of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Operand {
    /// Dimensions, outermost first; zeros from `rank` on.
    pub dims: [u64; MAX_RANK],
    /// Bytes of the operand.
    pub bytes: u64,
    /// Code of the element type; 0 for an absent input.
    pub dtype: u8,
    /// Number of dimensions.
    pub rank: u8,
    /// Zeros.
    pub reserved: [u8; 6],
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Outcome {
    /// Code of a [`Status`].
    pub status: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of memory that the case takes, 0 where that is not known.
    pub needed: u64,
    /// What a check wanted.
    pub expected: u64,
    /// What it was given.
    pub found: u64,
    /// Bytes of all outputs, which follow.
    pub bytes: u64,
    /// What was compared: UTF-8, cut off or filled with zeros.
    pub what: [u8; 40],
}

/// The ways in which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Status {
    /// The outputs were computed.
    Done = 0,
    /// The outputs were computed; an index was out of range.
    Fault = 1,
    /// The case takes more memory than the device has for one.
    Memory = 2,
    /// A dimension does not fit the device's addresses.
    Address = 3,
    /// The device has no such op, or no kernel for it with these element types.
    Kernel = 4,
    /// The op does not accept these operands.
    Operands = 5,
    /// The op does not accept these attributes.
    Attributes = 6,
    /// The shape rule refuses the shapes, or computes others.
    Shape = 7,
    /// The kernel gave up.
    Refused = 8,
}

impl Status {
    const ALL: [Status; 9] = [
        Status::Done,
        Status::Fault,
        Status::Memory,
        Status::Address,
        Status::Kernel,
        Status::Operands,
        Status::Attributes,
        Status::Shape,
        Status::Refused,
    ];

    /// The status of a code.
    pub fn from_code(code: u32) -> Option<Status> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Whether there are outputs.
    pub fn has_outputs(self) -> bool {
        matches!(self, Status::Done | Status::Fault)
    }

    /// Whether the case was too much for the device, as opposed to wrong.
    pub fn is_limit(self) -> bool {
        matches!(self, Status::Memory | Status::Address | Status::Kernel)
    }

    /// As in lists of expectations.
    pub fn name(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Fault => "fault",
            Status::Memory => "memory",
            Status::Address => "address",
            Status::Kernel => "kernel",
            Status::Operands => "operands",
            Status::Attributes => "attributes",
            Status::Shape => "shape",
            Status::Refused => "refused",
        }
    }
}

impl Outcome {
    /// An outcome without outputs: `what` should be `expected` but is `found`.
    pub fn new(status: Status, what: &str, expected: u64, found: u64) -> Outcome {
        let mut text = [0; 40];
        // The names of the op table are ASCII: cutting one leaves text.
        text.iter_mut().zip(what.bytes()).for_each(|(t, b)| *t = b);
        Outcome { status: status as u32, reserved: 0, needed: 0, expected, found, bytes: 0, what: text }
    }

    /// What was compared.
    pub fn what(&self) -> &str {
        let end = self.what.iter().position(|b| *b == 0).unwrap_or(self.what.len());
        self.what.get(..end).and_then(|t| core::str::from_utf8(t).ok()).unwrap_or("")
    }
}
