//! From the waves of an entry to commands.
//!
//! Steps with kernels become dispatches; a barrier is recorded where a wave starts. A loop of a known number of trips
//! is unrolled. A condition that only the device knows becomes gates ([`super::control`]) where everything it guards
//! has kernels; otherwise the recording is cut there, the host reads the condition and goes on accordingly. A step
//! without a kernel cuts the recording too: its operands, and nothing else, are copied out and back.

mod regions;

use super::super::shown;
use super::control::{Control, GateId};
use super::layout::{Layout, Range, operand};
use crate::error::Error;
use serinette_core::schedule::bind::BoundValue;
use serinette_core::schedule::record::{SectionId, Step, step_kind};
use serinette_core::schedule::{self, Bindings, Reason};
use serinette_core::{DType, MAX_OUTPUTS, NONE, Shape};
use serinette_dispatch::{
    Command, Dispatch, LowerError, LowerStep, Operand, Shell, ShellError, Space, Target, Window,
};

/// Commands after which a recording is cut at the next barrier, so that a long entry is several submissions of bounded
/// length: watchdogs of drivers look at each one.
const MAX_COMMANDS: usize = 8192;

/// One end of a copy between the host and staging memory.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Input of the entry.
    Input(usize),
    /// Output of the entry.
    Output(usize),
    /// Host buffer of the recording.
    Buffer(usize),
    /// The fault word.
    Fault,
    /// A value shown to the caller.
    Tap { step: u32, value: u32, dtype: DType, shape: Shape },
}

/// A copy between the host and staging memory.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub staging: u64,
    pub bytes: usize,
    pub end: End,
}

/// Commands that are submitted together.
#[derive(Default)]
pub(super) struct Segment {
    pub commands: Vec<Command>,
    /// Commands that stand for a gate, to be replaced when all gates are known: position, gate, its window.
    gates: Vec<(usize, GateId, Window)>,
    /// Commands whose grid is a record of a gate: position, gate, number within the gate.
    guarded: Vec<(usize, GateId, u32)>,
    pub inputs: Vec<Copy>,
    pub outputs: Vec<Copy>,
    pub input_bytes: u64,
    pub output_bytes: u64,
}

/// An operand of a host step.
#[derive(Clone, Debug)]
pub(super) enum HostInput {
    Weights { section: u32, offset: usize, bytes: usize },
    Buffer(usize),
}

/// A step that runs on the host.
pub(super) struct HostStep {
    pub step: u32,
    pub kernel: u32,
    pub inputs: Vec<Option<(Shape, HostInput)>>,
    pub outputs: Vec<(Shape, usize)>,
    pub in_place: [u8; MAX_OUTPUTS],
    pub scratch: usize,
    pub counters: Vec<(u32, u64)>,
    /// Bytes copied out and back.
    pub copied: u64,
}

/// What a run does, in order.
pub(super) enum Item {
    Submit(Box<Segment>),
    Host(HostStep),
    /// The host reads the condition and takes an arm.
    If {
        condition: usize,
        then: Vec<Item>,
        otherwise: Vec<Item>,
    },
    /// The host reads condition and trip count before every trip.
    Loop {
        most: u64,
        trips: Option<usize>,
        condition: Option<usize>,
        check: Vec<Item>,
        bodies: Bodies,
    },
}

/// The bodies of a loop that the host drives.
pub(super) enum Bodies {
    Same(Vec<Item>),
    Each(Vec<Vec<Item>>),
}

/// All that a recording needs.
pub(super) struct EntryPlan {
    pub items: Vec<Item>,
    /// Sizes of the host buffers.
    pub buffers: Vec<usize>,
    /// Initial words of the control buffer.
    pub control: Vec<u32>,
    /// Records of the indirect buffer.
    pub records: u32,
    /// Kernels used.
    pub kernels: Vec<u16>,
    /// Outputs that are constants: output, section, offset.
    pub constants: Vec<(usize, u32, usize)>,
}

/// Which values a recording shows.
#[derive(Clone, Copy)]
pub(super) enum Taps<'a> {
    /// None.
    None,
    /// What steps give.
    All,
    /// These, whenever their memory is written.
    Of(&'a [u32]),
}

pub(super) struct Recorder<'a, S: Shell> {
    bindings: &'a Bindings<'a>,
    layout: &'a Layout,
    shell: &'a S,
    taps: Taps<'a>,
    wave_starts: Vec<bool>,
    counters: Vec<(u32, u64)>,
    items: Vec<Item>,
    segment: Segment,
    buffers: Vec<usize>,
    control: Control,
    kernels: Vec<u16>,
    gates: u64,
}

/// Where a step's lowering went.
enum Lowered {
    Dispatches(Vec<Dispatch>, Window, Window),
    NoKernel,
}

impl<'a, S: Shell> Recorder<'a, S> {
    pub(super) fn new(bindings: &'a Bindings<'a>, layout: &'a Layout, shell: &'a S, taps: Taps<'a>) -> Self {
        let program = bindings.program();
        let plan = bindings.plan();
        let mut wave_starts = vec![false; program.steps.len()];
        for i in 0..plan.waves[1] {
            if let Ok(w) = program.waves.get(plan.waves[0] + i)
                && let Some(s) = wave_starts.get_mut(w.first_step as usize)
            {
                *s = true;
            }
        }
        Recorder {
            bindings,
            layout,
            shell,
            taps,
            wave_starts,
            counters: Vec::new(),
            items: Vec::new(),
            segment: Segment::default(),
            buffers: Vec::new(),
            control: Control::default(),
            kernels: Vec::new(),
            gates: 0,
        }
    }

    pub(super) fn entry(mut self, id: u32) -> Result<EntryPlan, Error> {
        let program = *self.bindings.program();
        let entry = program.entries.get(id)?;
        self.segment.commands.push(Command::Clear { buffer: Target::Control, offset: 0, bytes: 4 });
        for (i, v) in program.entry_inputs(entry)?.enumerate() {
            let value = self.bindings.value(v, &[])?;
            let range = self.layout.range(&value)?;
            self.write(range, value.bytes, End::Input(i));
        }
        self.walk(entry.first_step, entry.first_step + entry.steps, None)?;
        let mut constants = Vec::new();
        self.barrier();
        for (i, v) in program.entry_outputs(entry)?.enumerate() {
            let value = self.bindings.value(v, &[])?;
            match value.place {
                schedule::bind::Place::Weights { section, offset } => constants.push((i, section, offset)),
                schedule::bind::Place::Arena { .. } => {
                    let range = self.layout.range(&value)?;
                    self.read(range, value.bytes, End::Output(i));
                }
            }
        }
        let at = self.segment.output_bytes;
        self.segment.commands.push(Command::Read { from: Target::Control, offset: 0, bytes: 4, to: at });
        self.segment.outputs.push(Copy { staging: at, bytes: 4, end: End::Fault });
        self.segment.output_bytes += 4;
        self.cut();

        let (control, gates, records) = self.control.finish();
        let mut items = self.items;
        regions::resolve(&mut items, &gates, self.shell, &mut self.kernels)?;
        self.kernels.sort_unstable();
        self.kernels.dedup();
        Ok(EntryPlan { items, buffers: self.buffers, control, records, kernels: self.kernels, constants })
    }

    // ---- copies ----

    fn write(&mut self, range: Range, bytes: usize, end: End) {
        if bytes == 0 {
            return;
        }
        let from = self.segment.input_bytes;
        let write = Command::Write { from, to: Target::Arena, offset: range.offset, bytes: range.bytes };
        self.segment.commands.push(write);
        self.segment.inputs.push(Copy { staging: from, bytes, end });
        self.segment.input_bytes += range.bytes;
    }

    fn read(&mut self, range: Range, bytes: usize, end: End) {
        let to = self.segment.output_bytes;
        if bytes > 0 {
            let read = Command::Read { from: Target::Arena, offset: range.offset, bytes: range.bytes, to };
            self.segment.commands.push(read);
        }
        self.segment.outputs.push(Copy { staging: to, bytes, end });
        self.segment.output_bytes += if bytes > 0 { range.bytes } else { 0 };
    }

    fn barrier(&mut self) {
        if self.segment.commands.len() >= MAX_COMMANDS {
            // The end of a submission is a barrier too.
            self.cut();
        } else if !matches!(self.segment.commands.last(), None | Some(Command::Barrier)) {
            self.segment.commands.push(Command::Barrier);
        }
    }

    /// Ends the current segment.
    fn cut(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        if !segment.commands.is_empty() {
            self.items.push(Item::Submit(Box::new(segment)));
        }
    }

    fn buffer(&mut self, bytes: usize) -> usize {
        self.buffers.push(bytes);
        self.buffers.len() - 1
    }

    /// Reads a scalar into a host buffer at the end of the current segment.
    fn fetch(&mut self, value: u32) -> Result<usize, Error> {
        let v = self.bindings.value(value, &self.counters)?;
        let (range, buffer) = (self.layout.range(&v)?, self.buffer(v.bytes));
        self.barrier();
        self.read(range, v.bytes, End::Buffer(buffer));
        Ok(buffer)
    }

    // ---- steps ----

    fn walk(&mut self, mut step: u32, end: u32, gate: Option<GateId>) -> Result<(), Error> {
        let program = *self.bindings.program();
        while step < end {
            let s = program.steps.get(step)?;
            if self.wave_starts.get(step as usize).copied().unwrap_or(true) {
                self.barrier();
            }
            step = match s.kind {
                step_kind::OP => {
                    self.op(step, s, gate)?;
                    step + 1
                }
                step_kind::IF => self.conditional(step, s, gate)?,
                step_kind::LOOP => {
                    let next = self.counted(step, s, gate)?;
                    if let Taps::Of(_) = self.taps {
                        self.tap(s.link, program.steps.get(s.link)?)?;
                    }
                    next
                }
                code => {
                    let (expected, found) = (u64::from(step_kind::LOOP), u64::from(code));
                    return Err(schedule::Error::at(
                        Reason::Corrupt,
                        SectionId::Steps,
                        step,
                        expected,
                        found,
                    )
                    .into());
                }
            };
        }
        Ok(())
    }

    fn bound(&self, value: u32) -> Result<Option<BoundValue>, Error> {
        Ok(if value == NONE { None } else { Some(self.bindings.value(value, &self.counters)?) })
    }

    fn lower(&self, step: u32, s: &Step) -> Result<Lowered, Error> {
        let program = self.bindings.program();
        let sig = program.signatures.get(s.link)?;
        let (mut inputs, mut outputs, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for v in program.step_inputs(s)? {
            let v = self.bound(v)?;
            let range = v.map(|v| self.layout.range(&v)).transpose()?;
            ranges.extend(range);
            inputs.push(v.zip(range));
        }
        for v in program.step_outputs(s)? {
            let v = self.bindings.value(v, &self.counters)?;
            let range = self.layout.range(&v)?;
            ranges.push(range);
            outputs.push((v, range));
        }
        let scratch = match self.bindings.scratch(step)? {
            Some((arena, offset, bytes)) => {
                let offset = self.layout.arena_offset(arena, offset)?;
                let range = Range { space: Space::Arena, offset, bytes: bytes as u64 };
                ranges.push(range);
                Some(range)
            }
            None => None,
        };
        let limit = |e: LowerError| Error::Device(shell_error(e));
        let arena = self.layout.window(Space::Arena, &ranges).map_err(limit)?;
        let weights = self.layout.window(Space::Weights, &ranges).map_err(limit)?;
        let place = |(v, r): &(BoundValue, Range)| {
            operand(v, r, if r.space == Space::Arena { &arena } else { &weights })
        };
        let inputs: Vec<Option<Operand>> = inputs.iter().map(|i| i.as_ref().map(place)).collect();
        let outputs: Vec<Operand> = outputs.iter().map(place).collect();
        let lower = LowerStep {
            step,
            op: sig.op,
            version: sig.version,
            attrs: program.step_attrs(step, s)?,
            inputs: &inputs,
            outputs: &outputs,
            scratch: scratch.map(|r| (r.offset - arena.offset, r.bytes)),
            expr: &|e| self.bindings.expr(e, &self.counters).ok(),
        };
        let mut dispatches = Vec::new();
        match self.shell.library().lower(&lower, self.shell.caps(), &mut |d| dispatches.push(d)) {
            Ok(()) => Ok(Lowered::Dispatches(dispatches, arena, weights)),
            Err(LowerError::NoKernel) => Ok(Lowered::NoKernel),
            Err(e) => Err(limit(e)),
        }
    }

    fn op(&mut self, step: u32, s: &Step, gate: Option<GateId>) -> Result<(), Error> {
        match self.lower(step, s)? {
            Lowered::Dispatches(dispatches, arena, weights) => {
                for d in dispatches {
                    if d.after_barrier {
                        self.barrier();
                    }
                    self.dispatch(d, arena, weights, gate);
                }
            }
            Lowered::NoKernel => self.on_host(step, s)?,
        }
        if self.tapped() { self.tap(step, s) } else { Ok(()) }
    }

    fn dispatch(&mut self, d: Dispatch, arena: Window, weights: Window, gate: Option<GateId>) {
        if d.grid.contains(&0) {
            return;
        }
        self.kernels.push(d.kernel);
        if let Some(g) = gate {
            let number = self.control.guard(g, d.grid);
            self.segment.guarded.push((self.segment.commands.len(), g, number));
        }
        self.segment.commands.push(Command::Dispatch { dispatch: d, arena, weights, indirect: None });
    }

    fn tapped(&self) -> bool {
        !matches!(self.taps, Taps::None)
    }

    /// Shows what a step has written.
    fn tap(&mut self, step: u32, s: &Step) -> Result<(), Error> {
        let wanted = if let Taps::Of(wanted) = self.taps { Some(wanted) } else { None };
        let values = shown(self.bindings.program(), s, wanted)?;
        if values.is_empty() {
            return Ok(());
        }
        for value in values {
            // Outside its loop, a window that follows the counter has no place.
            let counter = self.bindings.program().values.get(value)?.counter;
            if counter != NONE && !self.counters.iter().any(|(c, _)| *c == counter) {
                continue;
            }
            let v = self.bindings.value(value, &self.counters)?;
            let range = self.layout.range(&v)?;
            self.barrier();
            let end = End::Tap { step, value, dtype: v.dtype, shape: v.shape };
            self.read(range, v.bytes, end);
        }
        self.cut();
        Ok(())
    }

    fn on_host(&mut self, step: u32, s: &Step) -> Result<(), Error> {
        let program = *self.bindings.program();
        let mut host = HostStep {
            step,
            kernel: s.link,
            inputs: Vec::new(),
            outputs: Vec::new(),
            in_place: s.in_place,
            scratch: self.bindings.scratch(step)?.map_or(0, |(_, _, bytes)| bytes),
            counters: self.counters.clone(),
            copied: 0,
        };
        let mut results = Vec::new();
        for v in program.step_outputs(s)? {
            let v = self.bindings.value(v, &self.counters)?;
            let buffer = self.buffer(v.bytes);
            results.push((self.layout.range(&v)?, v.bytes, buffer));
            host.outputs.push((v.shape, buffer));
            host.copied += v.bytes as u64;
        }
        self.barrier();
        for (i, v) in program.step_inputs(s)?.enumerate() {
            let Some(v) = self.bound(v)? else {
                host.inputs.push(None);
                continue;
            };
            if let schedule::bind::Place::Weights { section, offset } = v.place {
                let input = HostInput::Weights { section, offset, bytes: v.bytes };
                host.inputs.push(Some((v.shape, input)));
                continue;
            }
            let shared = s.in_place.iter().position(|p| usize::from(*p) == i + 1);
            let shared = shared.and_then(|o| results.get(o)).map(|(_, _, buffer)| *buffer);
            let buffer = shared.unwrap_or_else(|| self.buffer(v.bytes));
            let range = self.layout.range(&v)?;
            self.read(range, v.bytes, End::Buffer(buffer));
            host.copied += v.bytes as u64;
            host.inputs.push(Some((v.shape, HostInput::Buffer(buffer))));
        }
        self.cut();
        self.items.push(Item::Host(host));
        for (range, bytes, buffer) in results {
            self.write(range, bytes, End::Buffer(buffer));
        }
        Ok(())
    }
}

fn shell_error(e: LowerError) -> ShellError {
    match e {
        LowerError::Limit { what, limit, needed } => ShellError::Limit { what, limit, needed },
        LowerError::Invalid(what) => ShellError::Invalid(what),
        LowerError::NoKernel => ShellError::Invalid("no kernel"),
    }
}
