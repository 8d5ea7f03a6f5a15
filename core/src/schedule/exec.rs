//! The executor: walks the steps of an entry over memory that the caller owns.

use super::bind::{Bindings, BoundValue, Place};
use super::error::{Error, Reason};
use super::record::*;
use crate::shape::Shape;
use crate::{MAX_DEPTH, MAX_INPUTS, MAX_OUTPUTS, NONE};
use core::cell::Cell;
use core::fmt;
use heapless::Vec;

/// Most arenas that a plan may have.
pub const MAX_ARENAS: usize = 8;

/// A host kernel: computes one step. It is right for every shape that the op's shape rule accepts, and safe for
/// any other.
pub type Kernel = fn(&StepView<'_>, Operands<'_>) -> Result<(), KernelError>;

/// Why a kernel gave up: operands that contradict the op's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelError {
    /// What was compared.
    pub what: &'static str,
    /// What the kernel wants.
    pub expected: u64,
    /// What it was given.
    pub found: u64,
}

impl KernelError {
    /// `what` should be `expected` but is `found`.
    pub const fn new(what: &'static str, expected: usize, found: usize) -> KernelError {
        KernelError { what, expected: expected as u64, found: found as u64 }
    }
}

impl From<crate::op::AttrError> for KernelError {
    fn from(e: crate::op::AttrError) -> KernelError {
        KernelError { what: e.field, expected: e.expected, found: e.found }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

impl core::error::Error for KernelError {}

/// What a kernel knows about its step besides the operands' bytes.
pub struct StepView<'a> {
    /// Number of the step in the program.
    pub step: u32,
    /// Attribute bytes.
    pub attrs: &'a [u8],
    /// Shapes of the inputs; `None` for absent ones.
    pub inputs: &'a [Option<Shape>],
    /// Shapes of the outputs.
    pub outputs: &'a [Shape],
    /// Where bad indices are noted.
    pub fault: &'a Fault,
    /// Values of dimension expressions, counters included.
    pub expr: &'a dyn Fn(u32) -> Option<u64>,
}

impl StepView<'_> {
    /// Shape of input `i`.
    pub fn input(&self, i: usize) -> Result<Shape, KernelError> {
        self.inputs
            .get(i)
            .copied()
            .flatten()
            .ok_or_else(|| KernelError::new("inputs", i + 1, self.inputs.len()))
    }

    /// Shape of output `i`.
    pub fn output(&self, i: usize) -> Result<Shape, KernelError> {
        self.outputs.get(i).copied().ok_or_else(|| KernelError::new("outputs", i + 1, self.outputs.len()))
    }

    /// The attribute record.
    pub fn attributes<A: crate::op::Attributes>(&self) -> Result<A, KernelError> {
        Ok(crate::op::attributes(self.attrs)?)
    }
}

/// The sticky fault word: 0, or 1 + the highest step that met an index out of range.
#[derive(Debug, Default)]
pub struct Fault(Cell<u32>);

impl Fault {
    /// Notes that `step` met an index out of range.
    pub fn bad_index(&self, step: u32) {
        self.0.set(self.0.get().max(step.saturating_add(1)));
    }

    /// The highest step that met an index out of range, if any did.
    pub fn step(&self) -> Option<u32> {
        self.0.get().checked_sub(1)
    }
}

/// One input of a step.
#[derive(Clone, Copy, Default)]
enum Input<'m> {
    #[default]
    Absent,
    Bytes(&'m [u8]),
    /// The same range as this output.
    InPlace(u8),
}

/// The bytes of a step's operands, each exactly as long as its tensor.
pub struct Operands<'m> {
    inputs: Vec<Input<'m>, MAX_INPUTS>,
    outputs: [&'m mut [u8]; MAX_OUTPUTS],
    scratch: &'m mut [u8],
}

impl<'m> Operands<'m> {
    /// Input `i` as elements. An error where it is absent, stored in place, or not of this element size.
    pub fn input<T: bytemuck::AnyBitPattern>(&self, i: usize) -> Result<&'m [T], KernelError> {
        match self.inputs.get(i) {
            Some(Input::Bytes(b)) => cast(b),
            _ => Err(KernelError::new("input with its own memory", i + 1, self.inputs.len())),
        }
    }

    /// Input `i` as elements, `None` where it is absent.
    pub fn optional<T: bytemuck::AnyBitPattern>(&self, i: usize) -> Result<Option<&'m [T]>, KernelError> {
        match self.inputs.get(i) {
            Some(Input::Absent) | None => Ok(None),
            _ => self.input(i).map(Some),
        }
    }

    /// The output whose memory input `i` shares, if it does.
    pub fn in_place(&self, i: usize) -> Option<usize> {
        match self.inputs.get(i) {
            Some(Input::InPlace(o)) => Some(usize::from(*o)),
            _ => None,
        }
    }

    /// Output `o` as elements. Can be taken once.
    pub fn output<T: bytemuck::Pod>(&mut self, o: usize) -> Result<&'m mut [T], KernelError> {
        let bytes = core::mem::take(
            self.outputs.get_mut(o).ok_or_else(|| KernelError::new("outputs", o + 1, MAX_OUTPUTS))?,
        );
        let len = bytes.len();
        bytemuck::try_cast_slice_mut(bytes)
            .map_err(|_| KernelError::new("bytes of an output as elements", core::mem::size_of::<T>(), len))
    }

    /// The scratch memory; empty where the step has none. Can be taken once.
    pub fn scratch<T: bytemuck::Pod>(&mut self) -> &'m mut [T] {
        let bytes = core::mem::take(&mut self.scratch);
        let whole = bytes.len() / core::mem::size_of::<T>() * core::mem::size_of::<T>();
        bytemuck::try_cast_slice_mut(bytes.get_mut(..whole).unwrap_or(&mut [])).unwrap_or(&mut [])
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }
}

fn cast<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T], KernelError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| {
        KernelError::new("bytes of an input as elements", core::mem::size_of::<T>(), bytes.len())
    })
}

/// The memory of a session: one slice for each arena of the plan and one for each weight section.
pub struct Memory<'a, 'b> {
    /// Arenas, in the plan's order; at least as long as the plan says and aligned as it says.
    pub arenas: &'a mut [&'b mut [u8]],
    /// Weight sections, in the program's order.
    pub weights: &'a [&'a [u8]],
}

/// Whether an entry has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There are steps left.
    Running,
    /// The entry has ended.
    Done,
}

/// A region that is being run.
#[derive(Clone, Copy)]
struct Frame {
    /// The `If` or `Loop` step.
    open: u32,
    /// Its `End`.
    end: u32,
    /// Loop: trips still allowed.
    trips: u64,
}

/// Runs one entry step by step. It keeps no reference to memory, so a caller can look at an arena between polls.
pub struct Executor<'a> {
    bindings: Bindings<'a>,
    kernels: &'a [Kernel],
    step: u32,
    end: u32,
    frames: Vec<Frame, MAX_DEPTH>,
    counters: Vec<(u32, u64), MAX_DEPTH>,
    fault: Fault,
}

impl<'a> Executor<'a> {
    /// An executor at the start of `entry`. `kernels[s]` computes the steps of signature `s`.
    pub fn new(bindings: Bindings<'a>, kernels: &'a [Kernel], entry: u32) -> Result<Executor<'a>, Error> {
        let program = bindings.program();
        let e = program.entries.get(entry)?;
        let (signatures, have) = (program.signatures.len(), kernels.len());
        if have < signatures {
            return Err(Error::header(Reason::KernelTable, 0, signatures as u64, have as u64));
        }
        Ok(Executor {
            bindings,
            kernels,
            step: e.first_step,
            end: e.first_step.saturating_add(e.steps),
            frames: Vec::new(),
            counters: Vec::new(),
            fault: Fault::default(),
        })
    }

    /// Runs at most `max_steps` steps. After an error the run cannot go on; state may be half-written.
    pub fn poll(&mut self, memory: &mut Memory<'_, '_>, max_steps: u32) -> Result<Progress, Error> {
        self.check_memory(memory)?;
        for _ in 0..max_steps {
            if self.step >= self.end {
                return Ok(Progress::Done);
            }
            let step = self.bindings.program().steps.get(self.step)?;
            match step.kind {
                step_kind::OP => {
                    self.run_op(memory, step)?;
                    self.step += 1;
                }
                step_kind::IF => self.enter_if(memory, step)?,
                // The first arm has ended: go on behind the region.
                step_kind::ELSE => self.leave(step.link)?,
                step_kind::LOOP => self.enter_loop(memory, step)?,
                step_kind::END => self.end_region(memory, step)?,
                code => return Err(self.corrupt(u64::from(step_kind::END), u64::from(code))),
            }
        }
        Ok(if self.step >= self.end { Progress::Done } else { Progress::Running })
    }

    /// Runs to the end.
    pub fn run(&mut self, memory: &mut Memory<'_, '_>) -> Result<(), Error> {
        while self.poll(memory, u32::MAX)? == Progress::Running {}
        Ok(())
    }

    /// The step that runs next.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// The fault word.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    fn corrupt(&self, expected: u64, found: u64) -> Error {
        Error::at(Reason::Corrupt, SectionId::Steps, self.step, expected, found)
    }

    fn check_memory(&self, memory: &Memory<'_, '_>) -> Result<(), Error> {
        let (program, plan) = (self.bindings.program(), self.bindings.plan());
        for i in 0..plan.arenas[1] {
            let a = program.arena(plan, i)?;
            let have = memory.arenas.get(i as usize).map_or(0, |m| m.len() as u64);
            if have < a.bytes {
                return Err(Error::at(Reason::BufferSize, SectionId::Arenas, i, a.bytes, have));
            }
        }
        let (want, have) = (program.weights.len() as u64, memory.weights.len() as u64);
        if have < want {
            return Err(Error::header(Reason::BufferSize, 0, want, have));
        }
        Ok(())
    }

    fn run_op(&mut self, memory: &mut Memory<'_, '_>, step: &Step) -> Result<(), Error> {
        let program = self.bindings.program();
        let mut inputs: Vec<Option<BoundValue>, MAX_INPUTS> = Vec::new();
        let mut outputs: Vec<BoundValue, MAX_OUTPUTS> = Vec::new();
        let mut input_shapes: Vec<Option<Shape>, MAX_INPUTS> = Vec::new();
        let mut output_shapes: Vec<Shape, MAX_OUTPUTS> = Vec::new();
        let many = self.corrupt(MAX_INPUTS as u64, u64::from(step.inputs));
        for id in program.step_inputs(step)? {
            let v = if id == NONE { None } else { Some(self.bindings.value(id, &self.counters)?) };
            inputs.push(v).map_err(|_| many)?;
            input_shapes.push(v.map(|v| v.shape)).map_err(|_| many)?;
        }
        for id in program.step_outputs(step)? {
            let v = self.bindings.value(id, &self.counters)?;
            outputs.push(v).map_err(|_| many)?;
            output_shapes.push(v.shape).map_err(|_| many)?;
        }
        let scratch = self.bindings.scratch(self.step)?;
        let operands = borrow(memory, self.step, step, &inputs, &outputs, scratch)?;
        let kernel =
            self.kernels.get(step.link as usize).ok_or_else(|| self.corrupt(self.kernels.len() as u64, 0))?;
        let view = StepView {
            step: self.step,
            attrs: program.step_attrs(self.step, step)?,
            inputs: &input_shapes,
            outputs: &output_shapes,
            fault: &self.fault,
            expr: &|id| self.bindings.expr(id, &self.counters).ok(),
        };
        kernel(&view, operands)
            .map_err(|e| Error::at(Reason::Kernel, SectionId::Steps, self.step, e.expected, e.found))
    }

    fn enter_if(&mut self, memory: &Memory<'_, '_>, step: &Step) -> Result<(), Error> {
        let condition = self.bindings.program().step_inputs(step)?.next().unwrap_or(NONE);
        let taken = self.scalar(memory, condition)? != 0;
        let other = self.bindings.program().steps.get(step.link)?;
        let (open, end) = (self.step, if other.kind == step_kind::ELSE { other.link } else { step.link });
        self.enter(Frame { open, end, trips: 0 })?;
        // Behind the `Else`, or at the `End` where there is none.
        self.step = match (taken, other.kind) {
            (true, _) => open + 1,
            (false, step_kind::ELSE) => step.link + 1,
            (false, _) => step.link,
        };
        Ok(())
    }

    fn enter_loop(&mut self, memory: &Memory<'_, '_>, step: &Step) -> Result<(), Error> {
        let mut trips = self.bindings.expr(step.max_trips, &self.counters)?;
        let count = self.bindings.program().step_inputs(step)?.nth(1).unwrap_or(NONE);
        if count != NONE {
            trips = trips.min(u64::try_from(self.scalar(memory, count)?).unwrap_or(0));
        }
        self.enter(Frame { open: self.step, end: step.link, trips })?;
        self.counters.push((step.counter, 0)).map_err(|_| self.corrupt(MAX_DEPTH as u64, 0))?;
        self.start_trip(memory, step)
    }

    /// Goes into the body of the innermost loop, or behind it.
    fn start_trip(&mut self, memory: &Memory<'_, '_>, step: &Step) -> Result<(), Error> {
        let none = self.corrupt(1, 0);
        let condition = self.bindings.program().step_inputs(step)?.next().unwrap_or(NONE);
        let go = condition == NONE || self.scalar(memory, condition)? != 0;
        let frame = self.frames.last_mut().ok_or(none)?;
        if go && frame.trips > 0 {
            frame.trips -= 1;
            self.step = frame.open + 1;
            return Ok(());
        }
        let end = frame.end;
        self.counters.pop();
        self.leave(end)
    }

    fn end_region(&mut self, memory: &Memory<'_, '_>, end: &Step) -> Result<(), Error> {
        let open = self.bindings.program().steps.get(end.link)?;
        if open.kind != step_kind::LOOP {
            return self.leave(self.step);
        }
        if let Some((_, trip)) = self.counters.last_mut() {
            *trip += 1;
        }
        self.start_trip(memory, open)
    }

    fn enter(&mut self, frame: Frame) -> Result<(), Error> {
        self.frames.push(frame).map_err(|_| self.corrupt(MAX_DEPTH as u64, MAX_DEPTH as u64 + 1))
    }

    /// Continues behind the region that ends at `end`.
    fn leave(&mut self, end: u32) -> Result<(), Error> {
        match self.frames.pop() {
            Some(f) if f.end == end => {
                self.step = end.checked_add(1).ok_or_else(|| self.corrupt(0, u64::from(end)))?;
                Ok(())
            }
            f => Err(self.corrupt(f.map_or(0, |f| u64::from(f.end)), u64::from(end))),
        }
    }

    /// The first element of a bool, i32 or i64 value.
    fn scalar(&self, memory: &Memory<'_, '_>, value: u32) -> Result<i64, Error> {
        let v = self.bindings.value(value, &self.counters)?;
        let bytes = match v.place {
            Place::Arena { arena, offset } => memory.arenas.get(arena as usize).and_then(|a| a.get(offset..)),
            Place::Weights { section, offset } => {
                memory.weights.get(section as usize).and_then(|w| w.get(offset..))
            }
        };
        let bytes = bytes.and_then(|b| b.get(..v.bytes)).unwrap_or(&[]);
        match (v.dtype.size(), bytes) {
            (1, [b, ..]) => Ok(i64::from(*b)),
            (4, [a, b, c, d, ..]) => Ok(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
            (8, [a, b, c, d, e, f, g, h, ..]) => Ok(i64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
            (size, _) => {
                Err(Error::at(Reason::Condition, SectionId::Values, value, size as u64, bytes.len() as u64))
            }
        }
    }
}

/// A range that a step writes: an output (`index < MAX_OUTPUTS`) or the scratch (`index = MAX_OUTPUTS`).
#[derive(Clone, Copy)]
struct Written {
    arena: u32,
    offset: usize,
    bytes: usize,
    index: usize,
}

/// Splits the arenas around the written ranges; inputs lie in the gaps between, or are one of them.
fn borrow<'m>(
    memory: &'m mut Memory<'_, '_>,
    id: u32,
    step: &Step,
    inputs: &[Option<BoundValue>],
    outputs: &[BoundValue],
    scratch: Option<(u32, usize, usize)>,
) -> Result<Operands<'m>, Error> {
    let corrupt = |expected: usize, found: usize| {
        Error::at(Reason::Corrupt, SectionId::Steps, id, expected as u64, found as u64)
    };
    let mut written: Vec<Written, { MAX_OUTPUTS + 1 }> = Vec::new();
    for (index, v) in outputs.iter().enumerate() {
        let Place::Arena { arena, offset } = v.place else {
            return Err(Error::at(Reason::ReadOnly, SectionId::Steps, id, 0, index as u64));
        };
        written
            .push(Written { arena, offset, bytes: v.bytes, index })
            .map_err(|_| corrupt(MAX_OUTPUTS, index))?;
    }
    if let Some((arena, offset, bytes)) = scratch {
        let w = Written { arena, offset, bytes, index: MAX_OUTPUTS };
        written.push(w).map_err(|_| corrupt(MAX_OUTPUTS, MAX_OUTPUTS))?;
    }
    // Of two ranges with one start, the empty one comes first.
    // At most five ranges: an insertion sort is as fast as the library's, and 2 KB smaller.
    for i in 1..written.len() {
        for j in (1..=i).rev() {
            let key = |at: usize| written.get(at).map(|w: &Written| (w.arena, w.offset, w.bytes));
            if key(j - 1) <= key(j) {
                break;
            }
            written.swap(j - 1, j);
        }
    }

    let mut ranges: [&'m mut [u8]; MAX_OUTPUTS + 1] = Default::default();
    let mut gaps: Vec<(u32, usize, &'m [u8]), { MAX_OUTPUTS + 1 + MAX_ARENAS }> = Vec::new();
    for (arena, bytes) in memory.arenas.iter_mut().enumerate() {
        let (mut rest, mut start): (&'m mut [u8], usize) = (bytes, 0);
        for w in written.iter().filter(|w| w.arena as usize == arena) {
            let (before, after) = w
                .offset
                .checked_sub(start)
                .and_then(|n| core::mem::take(&mut rest).split_at_mut_checked(n))
                .ok_or_else(|| corrupt(start, w.offset))?;
            gaps.push((arena as u32, start, before)).map_err(|_| corrupt(MAX_ARENAS, arena))?;
            let (range, after) =
                after.split_at_mut_checked(w.bytes).ok_or_else(|| corrupt(w.offset, w.bytes))?;
            ranges[w.index] = range;
            (rest, start) = (after, w.offset + w.bytes);
        }
        gaps.push((arena as u32, start, rest)).map_err(|_| corrupt(MAX_ARENAS, arena))?;
    }

    let mut found: Vec<Input<'m>, MAX_INPUTS> = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let entry = match input {
            None => Input::Absent,
            Some(v) => {
                let shared = step.in_place.iter().position(|p| usize::from(*p) == i + 1);
                match (shared, v.place) {
                    (Some(o), place)
                        if outputs.get(o).is_some_and(|out| out.place == place && out.bytes == v.bytes) =>
                    {
                        Input::InPlace(o as u8)
                    }
                    (_, Place::Weights { section, offset }) => Input::Bytes(
                        memory
                            .weights
                            .get(section as usize)
                            .and_then(|w| w.get(offset..)?.get(..v.bytes))
                            .ok_or_else(|| corrupt(offset, v.bytes))?,
                    ),
                    (_, Place::Arena { arena, offset }) => Input::Bytes(
                        gaps.iter()
                            .filter(|(a, start, _)| *a == arena && *start <= offset)
                            .find_map(|(_, start, b)| b.get(offset - start..)?.get(..v.bytes))
                            .ok_or_else(|| corrupt(offset, v.bytes))?,
                    ),
                }
            }
        };
        found.push(entry).map_err(|_| corrupt(MAX_INPUTS, i))?;
    }
    let [a, b, c, d, scratch] = ranges;
    Ok(Operands { inputs: found, outputs: [a, b, c, d], scratch })
}

/// Runs one kernel on plain slices: what the op suite and constant folding use.
///
/// `inputs` pairs a shape with bytes (`None`: absent), `outputs` likewise. Alignment of the slices is the
/// caller's: a misaligned one is a [`KernelError`]. Gives whether an index was out of range.
pub fn call(
    kernel: Kernel,
    attrs: &[u8],
    inputs: &[Option<(Shape, &[u8])>],
    outputs: &mut [(Shape, &mut [u8])],
    scratch: &mut [u8],
    expr: &dyn Fn(u32) -> Option<u64>,
) -> Result<bool, KernelError> {
    call_in_place(kernel, attrs, inputs, [0; MAX_OUTPUTS], outputs, scratch, expr)
}

/// [`call`] with inputs that share the memory of an output: `in_place` is [`Step::in_place`]. The bytes of such an
/// input are those that the output holds at the start; the slice given for it is not looked at.
pub fn call_in_place(
    kernel: Kernel,
    attrs: &[u8],
    inputs: &[Option<(Shape, &[u8])>],
    in_place: [u8; MAX_OUTPUTS],
    outputs: &mut [(Shape, &mut [u8])],
    scratch: &mut [u8],
    expr: &dyn Fn(u32) -> Option<u64>,
) -> Result<bool, KernelError> {
    let mut shapes: Vec<Option<Shape>, MAX_INPUTS> = Vec::new();
    let mut found: Vec<Input<'_>, MAX_INPUTS> = Vec::new();
    let many = KernelError::new("operands", MAX_INPUTS, inputs.len());
    for (i, input) in inputs.iter().enumerate() {
        shapes.push(input.map(|(s, _)| s)).map_err(|_| many)?;
        let shared = in_place.iter().position(|p| usize::from(*p) == i + 1);
        let input = match (input, shared) {
            (None, _) => Input::Absent,
            (Some(_), Some(o)) => Input::InPlace(o as u8),
            (Some((_, bytes)), None) => Input::Bytes(bytes),
        };
        found.push(input).map_err(|_| many)?;
    }
    let mut out_shapes: Vec<Shape, MAX_OUTPUTS> = Vec::new();
    let mut ranges: [&mut [u8]; MAX_OUTPUTS] = Default::default();
    for ((s, b), range) in outputs.iter_mut().zip(&mut ranges) {
        out_shapes.push(*s).map_err(|_| many)?;
        *range = b;
    }
    let fault = Fault::default();
    let view = StepView { step: 0, attrs, inputs: &shapes, outputs: &out_shapes, fault: &fault, expr };
    kernel(&view, Operands { inputs: found, outputs: ranges, scratch })?;
    Ok(fault.step().is_some())
}
