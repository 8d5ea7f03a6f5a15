//! Binding: sizes become numbers, and every shape rule is checked on them.

use super::check::{Check, Reader};
use super::error::{Error, Reason};
use super::expr::evaluate_with;
use super::planned::PlanReader;
use super::program::Program;
use super::record::*;
use crate::dtype::DType;
use crate::op::{OpDescriptor, ShapeArgs};
use crate::shape::{Dim, Dims, Numbers, Shape};
use crate::wide;
use crate::{MAX_INPUTS, MAX_OUTPUTS, NONE};

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

    /// Runs a check, for a caller outside.
    fn checked<T>(&self, check: impl FnOnce(&PlanReader<'_, 'a>) -> Check<T>) -> Result<T, Error> {
        let r = &Reader::new(&self.program);
        r.finish(check(&PlanReader { r, plan: self.plan, exprs: self.exprs }))
    }

    /// The value of an expression; a counter symbol takes its trip from `counters`.
    pub fn expr(&self, id: u32, counters: &Counters) -> Result<u64, Error> {
        self.checked(|b| b.expr(id, counters))
    }

    /// Dimensions of a value as numbers.
    pub fn shape(&self, v: &Value) -> Result<Shape, Error> {
        self.checked(|b| {
            let mut shape = Shape::SCALAR;
            b.r.at(SectionId::Dims, v.dims);
            b.shape(v, &mut shape)?;
            Ok(shape)
        })
    }

    /// A value with its place, shape and size. `counters` are the loops running now: windows may follow them.
    pub fn value(&self, id: u32, counters: &Counters) -> Result<BoundValue, Error> {
        self.checked(|b| b.bound(id, counters))
    }

    /// The scratch range of a step: arena, offset and bytes; `None` without scratch.
    pub fn scratch(&self, step: u32) -> Result<Option<(u32, usize, usize)>, Error> {
        self.checked(|b| b.scratch(step))
    }
}

impl PlanReader<'_, '_> {
    /// [`Bindings::value`].
    pub(super) fn bound(&self, id: u32, counters: &Counters) -> Check<BoundValue> {
        let r = self.r;
        let v = r.value(id)?;
        r.at(SectionId::Values, id);
        let mut shape = Shape::SCALAR;
        let bytes = self.shape(v, &mut shape)?;
        let dtype = DType::from_code(v.dtype).unwrap_or(DType::U8);
        let root = if v.view == view::NONE { v } else { r.value(v.root)? };
        let skipped = match v.view {
            view::NONE | view::RESHAPE => 0,
            // Without elements it is nowhere; its start could even lie behind the slot.
            _ if bytes == 0 => 0,
            view::WINDOW | view::PART => {
                let mut start = self.expr(v.start, &[])?;
                if v.counter != NONE {
                    let trip = counters.iter().find(|(s, _)| *s == v.counter).map_or(0, |(_, t)| *t);
                    start = self.moved(start, trip, v)?;
                }
                let inner = shape.inner(usize::from(v.axis)).checked_mul(dtype.size());
                let start = self.number(start)?;
                inner.and_then(|n| start.checked_mul(n)).ok_or_else(|| self.overflow())?
            }
            code => return r.fail(Reason::Code, view::PART, code),
        };
        let mut start = root.data_offset;
        let mut arena = None;
        if root.role != role::CONSTANT && root.role != role::WEIGHT {
            let slot = self.value_slot(v.root)?;
            if slot == NONE {
                return r.fail(Reason::NoSlot, 0u32, NONE);
            }
            let slot = self.slot(slot)?;
            (start, arena) = (slot.offset, Some(slot.arena));
        }
        let offset = self.number(start)?.checked_add(skipped).ok_or_else(|| self.overflow())?;
        let place = match arena {
            Some(arena) => Place::Arena { arena, offset },
            None => Place::Weights { section: root.section, offset },
        };
        Ok(BoundValue { dtype, shape, place, bytes })
    }

    /// Where a window that starts at `start` is after `trips` trips.
    fn moved(&self, start: u64, trips: u64, v: &Value) -> Check<u64> {
        let stride = self.expr(v.counter_stride, &[])?;
        let moved = wide::mul(trips, stride).and_then(|d| d.checked_add(start));
        moved.ok_or_else(|| self.overflow())
    }

    /// [`Bindings::scratch`].
    pub(super) fn scratch(&self, step: u32) -> Check<Option<(u32, usize, usize)>> {
        let slot = self.scratch_slot(step)?;
        if slot == NONE {
            return Ok(None);
        }
        let s = self.slot(slot)?;
        self.r.at(SectionId::Slots, slot);
        Ok(Some((s.arena, self.number(s.offset)?, self.number(s.bytes)?)))
    }
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
    let r = &Reader::new(program);
    let plan = r.finish(numbers(r, ops, plan, symbols, exprs))?;
    Ok(Bindings { program: *program, plan, exprs })
}

/// Evaluates the expressions and checks everything on them; gives the plan.
fn numbers<'a>(
    r: &Reader<'_, 'a>,
    ops: &[&'static OpDescriptor],
    plan: u32,
    symbols: &[u64],
    exprs: &mut [u64],
) -> Check<&'a Plan> {
    let plan = r.get(&r.p.plans, plan)?;
    check_symbols(r, plan, symbols)?;
    evaluate_with(r, &|s| symbols.get(s as usize).copied(), exprs)?;
    let b = &PlanReader { r, plan, exprs };
    check_guards(b)?;
    for (id, v) in r.p.values.iter() {
        r.at(SectionId::Values, id);
        check_value(b, v)?;
    }
    for (id, s) in r.p.steps.iter().filter(|(_, s)| s.kind == step_kind::OP) {
        r.at(SectionId::Steps, id);
        check_step(b, ops, id, s)?;
    }
    Ok(plan)
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
            let at = Error::at(Reason::Shape, SectionId::Values, id, expected, found);
            return Err(Error { what: "rank of an input", ..at });
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
                let at = Error::at(Reason::Shape, SectionId::Values, id, *known, *d as u64);
                return Err(Error { what: "size shared by several inputs", ..at });
            }
        }
    }
    Ok(())
}

fn check_symbols(r: &Reader<'_, '_>, plan: &Plan, symbols: &[u64]) -> Check {
    if symbols.len() != r.p.symbols.len() {
        return r.fail_wide(Reason::BufferSize, r.p.symbols.count(), symbols.len() as u64);
    }
    for ((id, s), value) in r.p.symbols.iter().zip(symbols) {
        if s.kind == symbol_kind::COUNTER {
            continue;
        }
        let b = r.get(&r.p.bounds, plan.bounds[0].saturating_add(id))?;
        let (reason, expected) = if *value < b.low {
            (Reason::SizeBounds, b.low)
        } else if *value > b.high {
            (Reason::SizeBounds, b.high)
        } else if value.checked_rem(s.multiple_of) != Some(0) {
            (Reason::SizeMultiple, s.multiple_of)
        } else {
            continue;
        };
        return r.at(SectionId::Symbols, id).fail_wide(reason, expected, *value);
    }
    Ok(())
}

fn check_guards(b: &PlanReader<'_, '_>) -> Check {
    for (id, g) in b.r.p.guards.iter() {
        b.r.at(SectionId::Guards, id);
        let (x, y) = (b.expr(g.a, &[])?, b.expr(g.b, &[])?);
        b.r.code(1u32, g.relation)?;
        if x > y || (g.relation == 0 && x != y) {
            return b.r.fail_wide(Reason::Guard, y, x);
        }
    }
    Ok(())
}

/// Views lie within their roots, are contiguous, and start at whole words.
fn check_value(b: &PlanReader<'_, '_>, v: &Value) -> Check {
    let r = b.r;
    let (mut shape, mut whole) = (Shape::SCALAR, Shape::SCALAR);
    let bytes = b.shape(v, &mut shape)?;
    if v.view == view::NONE {
        return Ok(());
    }
    b.shape(r.value(v.root)?, &mut whole)?;
    if v.view == view::RESHAPE {
        let (expected, found) = (whole.elements(), shape.elements());
        return if expected == found {
            Ok(())
        } else {
            Err(r.explain(Reason::Shape, "elements of a reshaped view", expected as u64, found as u64))
        };
    }
    let axis = usize::from(v.axis);
    let same = |a: usize| whole.dim(a) == shape.dim(a);
    if whole.rank() != shape.rank()
        || axis >= shape.rank()
        || !(0..shape.rank()).all(|a| a == axis || same(a))
    {
        return r.fail(Reason::Window, whole.rank() as u32, shape.rank() as u32);
    }
    let start = b.expr(v.start, &[])?;
    let mut last = start;
    if v.counter != NONE {
        last = b.moved(start, loop_trips(b, v.counter)?.saturating_sub(1), v)?;
    }
    let (length, room) = (shape.dim(axis) as u64, whole.dim(axis) as u64);
    let end = last.checked_add(length).ok_or_else(|| b.overflow())?;
    if end > room {
        return r.fail_wide(Reason::Window, room, end);
    }
    // The last two bits of a product follow from those of its factors.
    let row = shape.inner(axis).wrapping_mul(size_of(v));
    let aligned = |n: u64| (n as usize).wrapping_mul(row).is_multiple_of(4);
    let starts_at_word = aligned(start) && (v.counter == NONE || aligned(b.expr(v.counter_stride, &[])?));
    let last_part = v.view == view::PART && u32::from(v.part) + 1 == u32::from(v.parts);
    let ends_at_word = v.view != view::PART || last_part || bytes.is_multiple_of(4);
    // With one element or none the strides do not matter.
    if shape.elements() > 0 && (shape.outer(axis) != 1 || !starts_at_word || !ends_at_word) {
        return r.fail_wide(Reason::ViewLayout, 1u32, shape.outer(axis) as u64);
    }
    Ok(())
}

fn size_of(v: &Value) -> usize {
    DType::from_code(v.dtype).map_or(0, DType::size)
}

/// The most trips of the loop that counts with `counter`.
fn loop_trips(b: &PlanReader<'_, '_>, counter: u32) -> Check<u64> {
    let symbol = b.r.symbol(counter)?;
    let step = b.r.step(symbol.source)?;
    if symbol.kind != symbol_kind::COUNTER || step.kind != step_kind::LOOP || step.counter != counter {
        return b.r.at(SectionId::Symbols, counter).fail(Reason::Counter, counter, step.counter);
    }
    b.expr(step.max_trips, &[])
}

/// The shape rule of a step, and equal sizes where results are stored in place.
fn check_step(b: &PlanReader<'_, '_>, ops: &[&'static OpDescriptor], id: u32, s: &Step) -> Check {
    let r = b.r;
    let op = r.op(ops, r.get(&r.p.signatures, s.link)?)?;
    let (ins, outs) = (r.inputs(s)?, r.outputs(s)?);
    let mut inputs = [None; MAX_INPUTS];
    for (space, v) in inputs.iter_mut().zip(ins) {
        if *v != NONE {
            dims(b, *v, space.insert(Dims::SCALAR))?;
        }
    }
    let mut declared = [Dims::SCALAR; MAX_OUTPUTS];
    for (space, v) in declared.iter_mut().zip(outs) {
        dims(b, *v, space)?;
    }
    let mut computed = declared;
    let args = ShapeArgs { attrs: r.attrs(id, s)?, inputs: inputs.get(..ins.len()).unwrap_or(&inputs) };
    let outputs = computed.get_mut(..outs.len()).unwrap_or(&mut []);
    (op.shape_rule)(&mut Numbers, &args, outputs)
        .map_err(|e| r.explain(Reason::Shape, e.what, e.expected, e.found))?;
    for (want, have) in outputs.iter().zip(&declared) {
        same_dims(r, want, have)?;
    }
    for (from, y) in s.in_place.iter().zip(&declared).filter(|(from, _)| **from != 0) {
        let x = inputs.get(usize::from(*from) - 1).and_then(|x| x.as_ref()).unwrap_or(&Dims::SCALAR);
        let (x, y) = (elements(x), elements(y));
        if x != y {
            return r.fail_wide(Reason::InPlace, y, x);
        }
    }
    Ok(())
}

fn elements(dims: &Dims) -> u64 {
    dims.as_slice().iter().fold(1, |n, d| wide::saturating_mul(n, d.0))
}

fn same_dims(r: &Reader<'_, '_>, want: &Dims, have: &Dims) -> Check {
    let fail = |what, w: u64, h: u64| Err(r.explain(Reason::Shape, what, w, h));
    if want.rank() != have.rank() {
        return fail("rank of an output", want.rank() as u64, have.rank() as u64);
    }
    for (w, h) in want.as_slice().iter().zip(have.as_slice()) {
        if w != h {
            return fail("dimension of an output", w.0, h.0);
        }
    }
    Ok(())
}

fn dims(b: &PlanReader<'_, '_>, value: u32, dims: &mut Dims) -> Check {
    let v = b.r.value(value)?;
    for e in b.r.dims(v)? {
        let d = b.expr(*e, &[])?;
        // The shape was made before, so there is room.
        let _ = dims.push(Dim(d));
    }
    Ok(())
}
