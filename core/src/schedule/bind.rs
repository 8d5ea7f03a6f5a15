//! Binding: sizes become numbers, and every shape rule is checked on them.

use super::error::{Error, Reason};
use super::expr::evaluate;
use super::program::Program;
use super::record::*;
use crate::dtype::DType;
use crate::op::{self, OpDescriptor, ShapeArgs};
use crate::shape::{Dim, Dims, Numbers, Shape};
use crate::{MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, NONE};

/// Where the bytes of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In an arena of the plan.
    Arena {
        /// Arena of the plan, from 0.
        arena: u32,
        /// First byte.
        offset: usize,
    },
    /// In a weight section.
    Weights {
        /// Weight section.
        section: u32,
        /// First byte in the section.
        offset: usize,
    },
}

/// A value with its sizes as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundValue {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Shape,
    /// Where it is.
    pub place: Place,
    /// How many bytes.
    pub bytes: usize,
}

/// The counters of the loops that are running: pairs of symbol and trip, outermost first.
pub type Counters = [(u32, u64)];

/// A program with a plan and all sizes fixed.
#[derive(Clone, Copy)]
pub struct Bindings<'a> {
    program: Program<'a>,
    plan: &'a Plan,
    exprs: &'a [u64],
}

impl<'a> Bindings<'a> {
    /// Bindings whose expression values were computed by [`bind`] before, for firmware with fixed sizes. Nothing is
    /// checked here: wrong values give error values during the run.
    pub fn precomputed(program: Program<'a>, plan: u32, exprs: &'a [u64]) -> Result<Bindings<'a>, Error> {
        let plan = program.plans.get(plan)?;
        Ok(Bindings { program, plan, exprs })
    }

    /// The program.
    pub fn program(&self) -> &Program<'a> {
        &self.program
    }

    /// The plan.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// The values of the expressions.
    pub fn exprs(&self) -> &'a [u64] {
        self.exprs
    }

    /// The value of an expression; a counter symbol takes its trip from `counters`.
    pub fn expr(&self, id: u32, counters: &Counters) -> Result<u64, Error> {
        let e = self.program.exprs.get(id)?;
        if e.op == expr_op::SYMBOL
            && let Some((_, trip)) = counters.iter().find(|(s, _)| *s == e.a)
        {
            return Ok(*trip);
        }
        self.exprs.get(id as usize).copied().ok_or_else(|| {
            Error::at(
                Reason::BufferSize,
                SectionId::Exprs,
                id,
                self.program.exprs.len() as u64,
                self.exprs.len() as u64,
            )
        })
    }

    /// Dimensions of a value as numbers.
    pub fn shape(&self, v: &Value) -> Result<Shape, Error> {
        let mut dims = [0usize; MAX_RANK];
        let rank = usize::from(v.rank);
        let space = dims.get_mut(..rank).ok_or_else(|| {
            Error::at(Reason::Code, SectionId::Values, v.dims, MAX_RANK as u64, u64::from(v.rank))
        })?;
        for (d, e) in space.iter_mut().zip(self.program.value_dims(v)?) {
            *d = to_usize(self.expr(e, &[])?, SectionId::Exprs, e)?;
        }
        // The rank fits: `space` was cut from eight dimensions.
        Ok(Shape::new(space).unwrap_or(Shape::SCALAR))
    }

    /// A value with its place, shape and size. `counters` are the loops running now: windows may follow them.
    pub fn value(&self, id: u32, counters: &Counters) -> Result<BoundValue, Error> {
        let v = self.program.values.get(id)?;
        let fail = |reason, expected, found| Error::at(reason, SectionId::Values, id, expected, found);
        let dtype = DType::from_code(v.dtype).ok_or_else(|| fail(Reason::DType, 15, u64::from(v.dtype)))?;
        let shape = self.shape(v)?;
        let overflow = fail(Reason::Overflow, usize::MAX as u64, u64::MAX);
        let bytes = bytes_of(&shape, dtype).ok_or(overflow)?;
        let root = if v.view == view::NONE { v } else { self.program.values.get(v.root)? };
        let skipped = match v.view {
            view::NONE | view::RESHAPE => 0,
            // Without elements it is nowhere; its start could even lie behind the slot.
            _ if bytes == 0 => 0,
            view::WINDOW | view::PART => {
                let mut start = self.expr(v.start, &[])?;
                if v.counter != NONE {
                    let trip = counters.iter().find(|(s, _)| *s == v.counter).map_or(0, |(_, t)| *t);
                    let stride = self.expr(v.counter_stride, &[])?;
                    start = trip.checked_mul(stride).and_then(|d| d.checked_add(start)).ok_or(overflow)?;
                }
                let start = to_usize(start, SectionId::Values, id)?;
                let inner = shape.inner(usize::from(v.axis)).checked_mul(dtype.size()).ok_or(overflow)?;
                start.checked_mul(inner).ok_or(overflow)?
            }
            code => return Err(fail(Reason::Code, u64::from(view::PART), u64::from(code))),
        };
        let place = if root.role == role::CONSTANT || root.role == role::WEIGHT {
            let offset = to_usize(root.data_offset, SectionId::Values, v.root)?;
            let offset = offset.checked_add(skipped).ok_or(overflow)?;
            Place::Weights { section: root.section, offset }
        } else {
            let slot = self.program.value_slot(self.plan, v.root)?;
            if slot == NONE {
                return Err(fail(Reason::NoSlot, 0, u64::from(NONE)));
            }
            let slot = self.program.slot(self.plan, slot)?;
            let offset = to_usize(slot.offset, SectionId::Values, v.root)?;
            Place::Arena { arena: slot.arena, offset: offset.checked_add(skipped).ok_or(overflow)? }
        };
        Ok(BoundValue { dtype, shape, place, bytes })
    }

    /// The scratch range of a step: arena, offset and bytes; `None` without scratch.
    pub fn scratch(&self, step: u32) -> Result<Option<(u32, usize, usize)>, Error> {
        let slot = self.program.scratch_slot(self.plan, step)?;
        if slot == NONE {
            return Ok(None);
        }
        let s = self.program.slot(self.plan, slot)?;
        let offset = to_usize(s.offset, SectionId::Slots, slot)?;
        Ok(Some((s.arena, offset, to_usize(s.bytes, SectionId::Slots, slot)?)))
    }
}

/// Bytes of a dense tensor; `None` on overflow.
pub(super) fn bytes_of(shape: &Shape, dtype: DType) -> Option<usize> {
    shape.dims().iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d))
}

pub(super) fn to_usize(v: u64, section: SectionId, index: u32) -> Result<usize, Error> {
    // Half the address space: sums of an offset and a size then cannot wrap.
    usize::try_from(v)
        .ok()
        .filter(|v| *v <= isize::MAX as usize)
        .ok_or_else(|| Error::at(Reason::Overflow, section, index, isize::MAX as u64, v))
}

/// Fixes the sizes: `symbols[s]` is the value of symbol `s` (counters are ignored), `exprs` receives the value of
/// every expression. Checks the plan's bounds, guards, views and the shape rule of every step. The program must
/// have been verified with the same table of ops.
pub fn bind<'a>(
    program: &Program<'a>,
    ops: &[&'static OpDescriptor],
    plan: u32,
    symbols: &[u64],
    exprs: &'a mut [u64],
) -> Result<Bindings<'a>, Error> {
    let plan_record = program.plans.get(plan)?;
    check_symbols(program, plan_record, symbols)?;
    evaluate(program, symbols, exprs)?;
    let bindings = Bindings { program: *program, plan: plan_record, exprs };
    check_guards(&bindings)?;
    for (id, v) in program.values.iter() {
        check_value(&bindings, id, v)?;
    }
    for (id, s) in program.steps.iter() {
        if s.kind == step_kind::OP {
            check_step(&bindings, ops, id, s)?;
        }
    }
    Ok(bindings)
}

/// Fills in the symbols that the shapes of an entry's inputs decide: every dimension that is a plain symbol.
/// `symbols[s]` is `None` where nothing decides it; two inputs that disagree are an error. [`bind`] checks the
/// dimensions that are other expressions; compare them with [`Bindings::shape`] afterwards.
pub fn solve_symbols(
    program: &Program<'_>,
    entry: &Entry,
    shapes: &[Option<Shape>],
    symbols: &mut [Option<u64>],
) -> Result<(), Error> {
    for (id, shape) in program.entry_inputs(entry)?.zip(shapes) {
        let (v, Some(shape)) = (program.values.get(id)?, shape) else { continue };
        if usize::from(v.rank) != shape.rank() {
            let (expected, found) = (u64::from(v.rank), shape.rank() as u64);
            return Err(Error::at(Reason::Shape("rank of an input"), SectionId::Values, id, expected, found));
        }
        for (e, d) in program.value_dims(v)?.zip(shape.dims()) {
            let e = program.exprs.get(e)?;
            if e.op != expr_op::SYMBOL {
                continue;
            }
            let missing =
                Error::at(Reason::Id, SectionId::Symbols, e.a, symbols.len() as u64, u64::from(e.a));
            let known = symbols.get_mut(e.a as usize).ok_or(missing)?.get_or_insert(*d as u64);
            if *known != *d as u64 {
                let reason = Reason::Shape("size shared by several inputs");
                return Err(Error::at(reason, SectionId::Values, id, *known, *d as u64));
            }
        }
    }
    Ok(())
}

fn check_symbols(program: &Program<'_>, plan: &Plan, symbols: &[u64]) -> Result<(), Error> {
    if symbols.len() != program.symbols.len() {
        let (expected, found) = (program.symbols.len() as u64, symbols.len() as u64);
        return Err(Error::header(Reason::BufferSize, 0, expected, found));
    }
    for ((id, s), value) in program.symbols.iter().zip(symbols) {
        if s.kind == symbol_kind::COUNTER {
            continue;
        }
        let b = program.bounds.get(plan.bounds[0].saturating_add(id))?;
        let fail = |reason, expected| Err(Error::at(reason, SectionId::Symbols, id, expected, *value));
        if *value < b.low {
            return fail(Reason::SizeBounds, b.low);
        }
        if *value > b.high {
            return fail(Reason::SizeBounds, b.high);
        }
        if value.checked_rem(s.multiple_of) != Some(0) {
            return fail(Reason::SizeMultiple, s.multiple_of);
        }
    }
    Ok(())
}

fn check_guards(b: &Bindings<'_>) -> Result<(), Error> {
    for (id, g) in b.program.guards.iter() {
        let (x, y) = (b.expr(g.a, &[])?, b.expr(g.b, &[])?);
        let holds = match g.relation {
            0 => x == y,
            1 => x <= y,
            code => return Err(Error::at(Reason::Code, SectionId::Guards, id, 1, u64::from(code))),
        };
        if !holds {
            return Err(Error::at(Reason::Guard, SectionId::Guards, id, y, x));
        }
    }
    Ok(())
}

/// Views lie within their roots, are contiguous, and start at whole words.
fn check_value(b: &Bindings<'_>, id: u32, v: &Value) -> Result<(), Error> {
    let fail = |reason, expected, found| Error::at(reason, SectionId::Values, id, expected, found);
    let shape = b.shape(v)?;
    let dtype = DType::from_code(v.dtype).ok_or_else(|| fail(Reason::DType, 15, u64::from(v.dtype)))?;
    let overflow = fail(Reason::Overflow, usize::MAX as u64, u64::MAX);
    let bytes = bytes_of(&shape, dtype).filter(|n| *n <= isize::MAX as usize).ok_or(overflow)?;
    if v.view == view::NONE {
        return Ok(());
    }
    let root = b.program.values.get(v.root)?;
    let whole = b.shape(root)?;
    if v.view == view::RESHAPE {
        let (expected, found) = (whole.elements(), shape.elements());
        return if expected == found {
            Ok(())
        } else {
            Err(fail(Reason::Shape("elements of a reshaped view"), expected as u64, found as u64))
        };
    }
    let axis = usize::from(v.axis);
    let same = |a: usize| whole.dim(a) == shape.dim(a);
    if whole.rank() != shape.rank()
        || axis >= shape.rank()
        || !(0..shape.rank()).all(|a| a == axis || same(a))
    {
        return Err(fail(Reason::Window, whole.rank() as u64, shape.rank() as u64));
    }
    let mut last = b.expr(v.start, &[])?;
    if v.counter != NONE {
        let trips = loop_trips(b, v.counter)?;
        let stride = b.expr(v.counter_stride, &[])?;
        let moved = stride.checked_mul(trips.saturating_sub(1)).ok_or(overflow)?;
        last = last.checked_add(moved).ok_or(overflow)?;
    }
    let end = last.checked_add(shape.dim(axis) as u64).ok_or(overflow)?;
    if end > whole.dim(axis) as u64 {
        return Err(fail(Reason::Window, whole.dim(axis) as u64, end));
    }
    let row = shape.inner(axis).saturating_mul(dtype.size());
    let step = row as u64;
    let aligned = |n: u64| n.wrapping_mul(step).is_multiple_of(4);
    let starts_at_word =
        aligned(b.expr(v.start, &[])?) && (v.counter == NONE || aligned(b.expr(v.counter_stride, &[])?));
    let last_part = v.view == view::PART && u32::from(v.part) + 1 == u32::from(v.parts);
    let ends_at_word = v.view != view::PART || last_part || bytes.is_multiple_of(4);
    // With one element or none the strides do not matter.
    if shape.elements() > 0 && (shape.outer(axis) != 1 || !starts_at_word || !ends_at_word) {
        return Err(fail(Reason::ViewLayout, 1, shape.outer(axis) as u64));
    }
    Ok(())
}

/// The most trips of the loop that counts with `counter`.
fn loop_trips(b: &Bindings<'_>, counter: u32) -> Result<u64, Error> {
    let symbol = b.program.symbols.get(counter)?;
    let step = b.program.steps.get(symbol.source)?;
    if symbol.kind != symbol_kind::COUNTER || step.kind != step_kind::LOOP || step.counter != counter {
        let (expected, found) = (u64::from(counter), u64::from(step.counter));
        return Err(Error::at(Reason::Counter, SectionId::Symbols, counter, expected, found));
    }
    b.expr(step.max_trips, &[])
}

/// The shape rule of a step, and equal sizes where results are stored in place.
fn check_step(b: &Bindings<'_>, ops: &[&'static OpDescriptor], id: u32, s: &Step) -> Result<(), Error> {
    let p = &b.program;
    let sig = p.signatures.get(s.link)?;
    let code = u64::from(sig.op) << 16 | u64::from(sig.version);
    let op = op::find(ops, sig.op, sig.version)
        .ok_or_else(|| Error::at(Reason::UnknownOp, SectionId::Steps, id, 0, code))?;
    let mut inputs = [None; MAX_INPUTS];
    for (space, v) in inputs.iter_mut().zip(p.step_inputs(s)?) {
        if v != NONE {
            *space = Some(dims(b, v)?);
        }
    }
    let mut declared = [Dims::SCALAR; MAX_OUTPUTS];
    for (space, v) in declared.iter_mut().zip(p.step_outputs(s)?) {
        *space = dims(b, v)?;
    }
    let mut computed = declared;
    let count = usize::from(s.outputs).min(MAX_OUTPUTS);
    let args = ShapeArgs {
        attrs: p.step_attrs(id, s)?,
        inputs: inputs.get(..usize::from(s.inputs)).unwrap_or(&inputs),
    };
    let outputs = computed.get_mut(..count).unwrap_or(&mut []);
    (op.shape_rule)(&mut Numbers, &args, outputs).map_err(|e| Error::shape(id, e))?;
    for (want, have) in computed.iter().zip(&declared).take(count) {
        if want.rank() != have.rank() {
            let (e, f) = (want.rank() as u64, have.rank() as u64);
            return Err(Error::at(Reason::Shape("rank of an output"), SectionId::Steps, id, e, f));
        }
        for (w, h) in want.as_slice().iter().zip(have.as_slice()) {
            if w != h {
                let reason = Reason::Shape("dimension of an output");
                return Err(Error::at(reason, SectionId::Steps, id, w.0, h.0));
            }
        }
    }
    for (o, from) in s.in_place.iter().enumerate().filter(|(_, i)| **i != 0) {
        let input = p.step_inputs(s)?.nth(usize::from(*from) - 1).unwrap_or(NONE);
        let output = p.step_outputs(s)?.nth(o).unwrap_or(NONE);
        let (x, y) = (b.shape(p.values.get(input)?)?, b.shape(p.values.get(output)?)?);
        if x.elements() != y.elements() {
            let (e, f) = (y.elements() as u64, x.elements() as u64);
            return Err(Error::at(Reason::InPlace, SectionId::Steps, id, e, f));
        }
    }
    Ok(())
}

fn dims(b: &Bindings<'_>, value: u32) -> Result<Dims, Error> {
    let mut dims = Dims::SCALAR;
    for d in b.shape(b.program.values.get(value)?)?.dims() {
        dims.push(Dim(*d as u64)).map_err(|e| Error::shape(value, e))?;
    }
    Ok(dims)
}
