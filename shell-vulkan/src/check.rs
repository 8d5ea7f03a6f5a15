//! Commands against buffers and limits, before anything is recorded.

use serinette_dispatch::{
    Command, DeviceCaps, Dispatch, Interface, KernelSource, MAX_PARAMS, ShellError, Target, Window,
};

use crate::physical::PUSH_BYTES;

/// Bytes of a record of the indirect buffer: three counts of workgroups.
pub(crate) const RECORD_BYTES: u64 = 12;

/// What the commands of a recording are checked against. Sizes in bytes.
pub(crate) struct Bounds<'a> {
    pub caps: &'a DeviceCaps,
    pub kernels: &'a [KernelSource],
    pub arena: u64,
    pub weights: Option<u64>,
    pub control: u64,
    pub indirect: Option<u64>,
    pub input: u64,
    pub output: u64,
}

impl Bounds<'_> {
    /// Checks the buffers themselves: kernels bind the control and the indirect buffer as a whole.
    pub fn buffers(&self) -> Result<(), ShellError> {
        at_most("control buffer bytes", self.caps.max_binding, self.control)?;
        at_most("indirect buffer bytes", self.caps.max_binding, self.indirect.unwrap_or(0))
    }

    /// Checks one command.
    pub fn command(&self, command: &Command) -> Result<(), ShellError> {
        match *command {
            Command::Barrier => Ok(()),
            Command::Write { from, to, offset, bytes } => {
                range("a write reads outside the input staging memory", self.input, from, bytes)?;
                range("a write goes outside its buffer", self.target(to), offset, bytes)
            }
            Command::Clear { buffer, offset, bytes } => {
                range("a clear goes outside its buffer", self.target(buffer), offset, bytes)
            }
            Command::Read { from, offset, bytes, to } => {
                range("a read reads outside its buffer", self.target(from), offset, bytes)?;
                range("a read goes outside the output staging memory", self.output, to, bytes)
            }
            Command::Dispatch { ref dispatch, arena, weights, indirect } => {
                self.dispatch(dispatch, arena, weights, indirect)
            }
        }
    }

    fn dispatch(
        &self,
        dispatch: &Dispatch,
        arena: Window,
        weights: Window,
        indirect: Option<u32>,
    ) -> Result<(), ShellError> {
        let Some(kernel) = self.kernels.get(usize::from(dispatch.kernel)) else {
            return Err(ShellError::Invalid("the library has no kernel of that number"));
        };
        if dispatch.param_words as usize > MAX_PARAMS {
            return Err(ShellError::Invalid("more parameter words than a dispatch has"));
        }
        let words = dispatch.param_words.max(kernel.param_words);
        at_most("parameter words of a dispatch", u64::from(PUSH_BYTES / 4), words.into())?;
        self.window("the window of the arena", self.arena, arena)?;
        match kernel.interface {
            Interface::Compute if weights.bytes > 0 => {
                let bytes =
                    self.weights.ok_or(ShellError::Invalid("a window of weights that are not there"))?;
                self.window("the window of the weights", bytes, weights)?;
            }
            Interface::Compute => {}
            Interface::Gate if self.indirect.is_none() => {
                return Err(ShellError::Invalid("a gate without an indirect buffer"));
            }
            Interface::Gate if indirect.is_some() => {
                return Err(ShellError::Invalid("a gate that takes its grid from the buffer it writes"));
            }
            Interface::Gate => {}
        }
        match indirect {
            Some(record) => {
                let bytes = self
                    .indirect
                    .ok_or(ShellError::Invalid("an indirect dispatch without an indirect buffer"))?;
                let what = "the record of an indirect dispatch lies outside the indirect buffer";
                range(what, bytes, u64::from(record) * RECORD_BYTES, RECORD_BYTES)
            }
            None => (0..3).try_for_each(|axis| {
                at_most("workgroups", self.caps.max_workgroups[axis].into(), dispatch.grid[axis].into())
            }),
        }
    }

    fn window(&self, what: &'static str, buffer: u64, window: Window) -> Result<(), ShellError> {
        if !window.offset.is_multiple_of(self.caps.window_align.into()) {
            return Err(ShellError::Invalid("a window that is not aligned as the device demands"));
        }
        at_most("bytes of a window", self.caps.max_binding, window.bytes)?;
        range(what, buffer, window.offset, window.bytes)
    }

    fn target(&self, target: Target) -> u64 {
        match target {
            Target::Arena => self.arena,
            Target::Control => self.control,
        }
    }
}

fn range(what: &'static str, buffer: u64, offset: u64, bytes: u64) -> Result<(), ShellError> {
    if !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
        return Err(ShellError::Invalid("offsets and lengths are multiples of 4"));
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= buffer => Ok(()),
        _ => Err(ShellError::Invalid(what)),
    }
}

fn at_most(what: &'static str, limit: u64, needed: u64) -> Result<(), ShellError> {
    if needed <= limit { Ok(()) } else { Err(ShellError::Limit { what, limit, needed }) }
}
