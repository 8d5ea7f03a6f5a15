//! The contract between a kernel library, which knows ops and devices, and a shell, which knows a device and
//! nothing about ops.
//!
//! A library lowers a step into [`Dispatch`]es: a kernel, parameter words, a grid. A shell owns buffers and
//! pipelines, records [`Command`]s once and runs the recording as often as asked.
//!
//! # The kernel interface
//!
//! Every kernel sees one bind group:
//!
//! | binding | WGSL | [`Interface::Compute`] | [`Interface::Gate`] |
//! |---|---|---|---|
//! | 0 | `storage, read_write` | a window of the session's arena | the same |
//! | 1 | `storage, read` (gate: `read_write`) | a window of the model's weights | the indirect buffer |
//! | 2 | `storage, read_write` | the control buffer | the same |
//! | 3 | `uniform` | parameters, where the device has no immediates | the same |
//!
//! Bindings 0 and 1 are arrays of 32-bit words (`array<u32>`, or one other type declared by the kernel). Parameters
//! are up to 64 words: immediates (push constants) where the device has room, else a uniform buffer with the
//! same words. A kernel is given an operand as a *location word*: an offset in words from the start of its
//! window, with [`IN_WEIGHTS`] set where the operand lies in the weights.
#![no_std]

use core::fmt;
use core::time::Duration;
use serinette_core::{DType, Shape};

/// Bit of a location word: the operand lies in the weights (binding 1), not in the arena (binding 0).
pub const IN_WEIGHTS: u32 = 1 << 31;
/// Most parameter words of a dispatch.
pub const MAX_PARAMS: usize = 64;
/// Largest window of a buffer: word offsets stay below 2^29 and WebGPU implementations accept it.
pub const MAX_WINDOW: u64 = (2 << 30) - 256;
/// Word of the control buffer that holds the fault: 0, or 1 + the highest step with an index out of range
/// (`atomicMax`).
pub const FAULT_WORD: u32 = 0;
/// First word of the control buffer that holds flags of gates.
pub const FIRST_FLAG: u32 = 4;

/// What a device can do, as far as lowering needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCaps {
    /// Most workgroups along x, y, z.
    pub max_workgroups: [u32; 3],
    /// Most invocations in a workgroup.
    pub max_invocations: u32,
    /// Bytes of workgroup memory.
    pub shared_bytes: u32,
    /// Largest storage binding in bytes.
    pub max_binding: u64,
    /// Largest buffer in bytes.
    pub max_buffer: u64,
    /// Alignment of the start of a window in bytes.
    pub window_align: u32,
    /// Bytes of immediates (push constants); 0 where there are none.
    pub immediate_bytes: u32,
    /// Least and greatest subgroup size; 1, 1 where unknown.
    pub subgroup: [u32; 2],
    /// Whether the device shares memory with the host (uploads are plain writes).
    pub unified_memory: bool,
}

/// Which buffers a kernel binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Arena, weights, control.
    Compute,
    /// Arena, indirect buffer, control: writes the grids of conditional dispatches.
    Gate,
}

/// A kernel of a library: one expanded source in the two forms that shells take.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource {
    /// Name, unique in the library; labels pipelines and cache entries.
    pub name: &'static str,
    /// WGSL whose parameters are immediates (`var<immediate>`).
    pub wgsl_immediate: &'static str,
    /// WGSL whose parameters are a uniform at binding 3.
    pub wgsl_uniform: &'static str,
    /// SPIR-V 1.3 with the entry point `main`; parameters are push constants.
    pub spirv: &'static [u32],
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
    /// Parameter words, at most 32 (128 bytes are there on every Vulkan device).
    pub param_words: u32,
    /// Buffers bound.
    pub interface: Interface,
}

/// A buffer that an operand can lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The session's arena (work, state, params, derived).
    Arena,
    /// The model's weights.
    Weights,
}

/// An operand of a step that is being lowered.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Shape,
    /// Buffer.
    pub space: Space,
    /// Bytes from the start of the dispatch's window of that buffer; a multiple of 4.
    pub offset: u64,
}

impl Operand {
    /// The location word of the operand.
    pub fn location(&self) -> u32 {
        // Windows are below 2^31 bytes, so the word offset is below 2^29.
        (self.offset / 4) as u32 | if self.space == Space::Weights { IN_WEIGHTS } else { 0 }
    }
}

/// A step to be lowered, all sizes known.
pub struct LowerStep<'a> {
    /// Number of the step, for the fault word.
    pub step: u32,
    /// Op code.
    pub op: u16,
    /// Op version.
    pub version: u16,
    /// Attribute bytes.
    pub attrs: &'a [u8],
    /// Inputs; `None` where absent.
    pub inputs: &'a [Option<Operand>],
    /// Outputs.
    pub outputs: &'a [Operand],
    /// Scratch: byte offset in the arena window, and bytes.
    pub scratch: Option<(u64, u64)>,
    /// Values of dimension expressions, loop counters included.
    pub expr: &'a dyn Fn(u32) -> Option<u64>,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// Index in [`KernelLibrary::kernels`].
    pub kernel: u16,
    /// Workgroups along x, y, z; each at most the device's limit. Zero means nothing to do.
    pub grid: [u32; 3],
    /// Parameter words.
    pub params: [u32; MAX_PARAMS],
    /// How many of them the kernel reads.
    pub param_words: u32,
    /// Whether this dispatch reads what an earlier one of the same step wrote.
    pub after_barrier: bool,
}

/// A condition for later dispatches.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Location word of a bool in the arena (byte offset in the window, not words: bools are bytes); `None`: true.
    pub condition: Option<u32>,
    /// Location: byte offset of an i32 trip count in the arena window, and the trip that this gate opens: open
    /// while `trip < count`.
    pub trips: Option<(u32, u32)>,
    /// Opens when the condition is false.
    pub negate: bool,
    /// Control word of the flag of the enclosing gate; `None`: open.
    pub parent: Option<u32>,
    /// Control word that receives this gate's flag (1 open, 0 closed).
    pub flag: u32,
    /// First record of the indirect buffer (three words each) that this gate fills.
    pub first_record: u32,
    /// Records that it fills: with the words at `table + 3·i` of the control buffer when open, else zeros.
    pub records: u32,
    /// Control word where the grids of its records start.
    pub table: u32,
}

/// Why a step was not lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerError {
    /// The library has no kernel for this op and these element types; the step runs on the host.
    NoKernel,
    /// The device's limits do not allow it.
    Limit {
        /// Which limit.
        what: &'static str,
        /// The device's.
        limit: u64,
        /// What the step needs.
        needed: u64,
    },
    /// The operands contradict the op's description.
    Invalid(&'static str),
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LowerError::NoKernel => f.write_str("no kernel"),
            LowerError::Limit { what, limit, needed } => {
                write!(f, "{what}: needs {needed}, the limit is {limit}")
            }
            LowerError::Invalid(what) => write!(f, "invalid operands: {what}"),
        }
    }
}

impl core::error::Error for LowerError {}

/// Kernels, and the rules by which steps become dispatches.
///
/// # Safety
///
/// Kernels run without bounds checks. For every step that satisfies its op's shape rule and whose operands lie in
/// the buffers that are bound, the dispatches of [`lower`](Self::lower) must read only the operands and the
/// scratch, write only the outputs and the scratch (rounded up to whole words) and the fault word, and end.
pub unsafe trait KernelLibrary: Send + Sync {
    /// The kernels; dispatches name them by index.
    fn kernels(&self) -> &'static [KernelSource];

    /// Emits the dispatches of a step, in order.
    fn lower(
        &self,
        step: &LowerStep<'_>,
        caps: &DeviceCaps,
        emit: &mut dyn FnMut(Dispatch),
    ) -> Result<(), LowerError>;

    /// Emits the dispatch that evaluates a gate.
    fn gate(&self, gate: &Gate, caps: &DeviceCaps, emit: &mut dyn FnMut(Dispatch)) -> Result<(), LowerError>;
}

/// A part of a buffer that a dispatch binds. `offset` is a multiple of [`DeviceCaps::window_align`], `bytes` of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// First byte.
    pub offset: u64,
    /// Bytes, at most [`DeviceCaps::max_binding`] and [`MAX_WINDOW`].
    pub bytes: u64,
}

/// The buffers of a session that commands name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The arena.
    Arena,
    /// The control buffer.
    Control,
}

/// One command of a recording. Commands run in order; [`Command::Barrier`] makes the writes before it visible to
/// the commands after it, and without one dispatches may overlap.
// Nearly all commands are dispatches, so boxing them would cost more than it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// Copies from the recording's input staging memory (which `run` fills) into a buffer.
    Write {
        /// First byte in the staging memory; a multiple of 4.
        from: u64,
        /// Destination.
        to: Target,
        /// First byte there; a multiple of 4.
        offset: u64,
        /// Bytes, a multiple of 4.
        bytes: u64,
    },
    /// Sets bytes of a buffer to zero; offset and length are multiples of 4.
    Clear {
        /// Buffer.
        buffer: Target,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Launches a kernel.
    Dispatch {
        /// The launch.
        dispatch: Dispatch,
        /// Window of the arena.
        arena: Window,
        /// Window of the weights; `bytes` 0 where the model has none.
        weights: Window,
        /// Take the grid from this record of the indirect buffer (12 bytes each) instead of `dispatch.grid`.
        indirect: Option<u32>,
    },
    /// Everything before is finished and visible before anything after starts.
    Barrier,
    /// Copies from a buffer into the recording's output staging memory (which `run` reads).
    Read {
        /// Source.
        from: Target,
        /// First byte there; a multiple of 4.
        offset: u64,
        /// Bytes, a multiple of 4.
        bytes: u64,
        /// First byte in the staging memory; a multiple of 4.
        to: u64,
    },
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Read-only model data.
    Weights,
    /// Arena or control: read and written by kernels, source and target of copies.
    Storage,
    /// Grids of indirect dispatches.
    Indirect,
}

/// The buffers of a recording.
#[derive(Debug)]
pub struct Buffers<'a, B> {
    /// The session's arena.
    pub arena: &'a B,
    /// The model's weights; `None` where it has none.
    pub weights: Option<&'a B>,
    /// The session's control buffer.
    pub control: &'a B,
    /// The session's indirect buffer; `None` where no dispatch is conditional.
    pub indirect: Option<&'a B>,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimes {
    /// Time on the device from the first to the last command, where it can be measured.
    pub device: Option<Duration>,
}

/// Why a device could not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellError {
    /// There is no such device: no loader, no driver, no compute queue, or no device of that number.
    Unavailable(&'static str),
    /// Memory on the device or the host was not to be had.
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The device is gone. Reopen it; buffers and recordings are lost.
    DeviceLost,
    /// The work did not end in time. The device may still be busy with it; the session must be closed.
    Timeout,
    /// A limit of the device.
    Limit {
        /// Which.
        what: &'static str,
        /// The device's.
        limit: u64,
        /// What was asked for.
        needed: u64,
    },
    /// Ranges or sizes that contradict the contract of [`Shell`].
    Invalid(&'static str),
    /// A kernel that the driver refuses.
    Kernel(&'static str),
    /// Another failure of the driver: the call and its code.
    Driver {
        /// The call that failed.
        call: &'static str,
        /// The driver's code.
        code: i32,
    },
}

impl fmt::Display for ShellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShellError::Unavailable(why) => write!(f, "device unavailable: {why}"),
            ShellError::OutOfMemory { bytes } => write!(f, "out of memory: {bytes} bytes"),
            ShellError::DeviceLost => f.write_str("device lost"),
            ShellError::Timeout => f.write_str("the device did not finish in time"),
            ShellError::Limit { what, limit, needed } => {
                write!(f, "{what}: needs {needed}, the limit is {limit}")
            }
            ShellError::Invalid(what) => write!(f, "invalid request: {what}"),
            ShellError::Kernel(name) => write!(f, "the driver refuses kernel {name}"),
            ShellError::Driver { call, code } => write!(f, "{call} failed with code {code}"),
        }
    }
}

impl core::error::Error for ShellError {}

/// A device opened with a kernel library. Cloning gives another handle to the same device.
pub trait Shell: Clone + Send + Sync {
    /// Memory on the device, freed when dropped (after the work that uses it has ended).
    type Buffer: Send + Sync + 'static;
    /// A recorded run: commands, staging memory, descriptors. Keeps its buffers alive.
    type Recording: Send + 'static;

    /// The device's name, for people.
    fn name(&self) -> &str;

    /// Its limits.
    fn caps(&self) -> &DeviceCaps;

    /// The library that it was opened with.
    fn library(&self) -> &'static dyn KernelLibrary;

    /// A buffer of `bytes` (rounded up to a multiple of 4), zeroed.
    fn buffer(&self, bytes: u64, usage: Usage) -> Result<Self::Buffer, ShellError>;

    /// Writes bytes now; waits until they are there. `offset` and length are multiples of 4.
    fn upload(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), ShellError>;

    /// Reads bytes now. `offset` and length are multiples of 4.
    fn download(&self, buffer: &Self::Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), ShellError>;

    /// Makes the pipelines of these kernels (in parallel, through the cache) unless they are there already.
    fn load_kernels(&self, kernels: &[u16]) -> Result<(), ShellError>;

    /// Records commands. Their kernels are loaded if they are not.
    ///
    /// # Safety
    ///
    /// Every dispatch must have been emitted by [`library`](Self::library) for operands that lie inside its windows,
    /// and windows and ranges must lie inside the buffers given here. (Shells check ranges of copies and windows;
    /// they cannot check parameter words.)
    unsafe fn record(
        &self,
        buffers: Buffers<'_, Self::Buffer>,
        commands: &[Command],
        input_bytes: u64,
        output_bytes: u64,
    ) -> Result<Self::Recording, ShellError>;

    /// Runs a recording: `write` fills the input staging memory, the commands run, `read` sees the output staging
    /// memory. One submission, one wait of at most `timeout`.
    fn run(
        &self,
        recording: &mut Self::Recording,
        write: &mut dyn FnMut(&mut [u8]),
        read: &mut dyn FnMut(&[u8]),
        timeout: Duration,
    ) -> Result<RunTimes, ShellError>;
}
