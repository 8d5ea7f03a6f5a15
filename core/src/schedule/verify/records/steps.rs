//! Steps: ops with their operands and attributes, and the edges of regions.

use super::super::super::check::{Check, Reader};
use super::super::super::error::Reason;
use super::super::super::record::*;
use super::super::MAX_ATTR_BYTES;
use super::{counter_of, size_expr};
use crate::dtype::DType;
use crate::op::OpDescriptor;
use crate::{MAX_DEPTH, NONE};
use heapless::Vec;

/// A region that is open while steps are read.
struct Open {
    step: u32,
    /// Whether its `Else` has come.
    second: bool,
}

/// The regions that are open, outermost first.
type Regions = Vec<Open, MAX_DEPTH>;

pub(super) fn steps(r: &Reader<'_, '_>, ops: &[&'static OpDescriptor]) -> Check {
    for (_, e) in r.p.entries.iter() {
        let mut open = Regions::new();
        for (id, step) in r.p.steps.part([e.first_step, e.steps]) {
            r.at(SectionId::Steps, id).code(step_kind::END, step.kind)?;
            if step.kind != step_kind::LOOP {
                r.none(step.max_trips)?;
                r.none(step.counter)?;
            }
            if step.kind == step_kind::OP {
                op_step(r, ops, &open, id, step)?;
            } else {
                region_edge(r, &mut open, id, step)?;
            }
        }
        if let Some(o) = open.last() {
            return r.at(SectionId::Steps, o.step).fail(Reason::Region, 0u32, open.len() as u32);
        }
    }
    Ok(())
}

fn op_step(r: &Reader<'_, '_>, ops: &[&'static OpDescriptor], open: &[Open], id: u32, step: &Step) -> Check {
    let sig = r.get(&r.p.signatures, step.link)?;
    r.code(2u32, step.scratch)?;
    let pair = |i: u8, o: u8| u32::from(i) << 8 | u32::from(o);
    let (want, have) = (pair(sig.inputs, sig.outputs), pair(step.inputs, step.outputs));
    if want != have {
        return r.fail(Reason::OperandCount, want, have);
    }
    for (v, t) in r.operands(step)?.iter().zip(&sig.dtypes) {
        let (mut found, mut counter) = (0, NONE);
        if *v != NONE {
            let value = r.value(*v)?;
            (found, counter) = (value.dtype, value.counter);
        }
        if found != *t {
            return r.fail(Reason::OperandType, *t, found);
        }
        active(r, open, counter)?;
    }
    let op = r.op(ops, sig)?;
    if !step.attrs.is_multiple_of(8) {
        return r.fail(Reason::Alignment, 8u32, step.attrs);
    }
    if step.attr_bytes > MAX_ATTR_BYTES {
        return r.fail(Reason::Bounded, MAX_ATTR_BYTES, step.attr_bytes);
    }
    let attrs = r.attrs(id, step)?;
    (op.check_attrs)(attrs).map_err(|e| r.explain(Reason::Attribute, e.field, e.expected, e.found))?;
    let mut result = Ok(());
    (op.attr_exprs)(attrs, &mut |e| {
        if result.is_ok() {
            result = attr_expr(r, open, e);
        }
    });
    result?;
    in_place(r, op, step)
}

/// An expression in attributes: it exists, and where it is a counter, its loop is open here.
fn attr_expr(r: &Reader<'_, '_>, open: &[Open], expr: u32) -> Check {
    r.within(expr, r.p.exprs.count())?;
    active(r, open, counter_of(r, expr)?)
}

/// The loop of a counter is open here; nothing where there is no counter.
#[inline(never)]
fn active(r: &Reader<'_, '_>, open: &[Open], counter: u32) -> Check {
    if counter == NONE {
        return Ok(());
    }
    let source = r.symbol(counter)?.source;
    if open.iter().any(|o| o.step == source) { Ok(()) } else { r.fail(Reason::Counter, source, counter) }
}

fn in_place(r: &Reader<'_, '_>, op: &OpDescriptor, step: &Step) -> Check {
    let (inputs, outputs) = (r.inputs(step)?, r.outputs(step)?);
    for (o, from) in step.in_place.iter().enumerate().filter(|(_, f)| **f != 0) {
        let i = usize::from(*from) - 1;
        let again = step.in_place.iter().filter(|f| *f == from).count() > 1;
        let fits = match (inputs.get(i), outputs.get(o)) {
            (Some(x), Some(y)) if !again && *x != NONE && op.allows_in_place(i, o) => {
                let (x, y) = (r.value(*x)?, r.value(*y)?);
                let whole = |v: &Value| matches!(v.view, view::NONE | view::RESHAPE);
                let constant = matches!(x.role, role::CONSTANT | role::WEIGHT);
                let kept = x.flags & value_flag::KEEP != 0;
                whole(x) && whole(y) && x.dtype == y.dtype && !constant && !kept
            }
            _ => false,
        };
        if !fits {
            return r.fail(Reason::InPlace, o as u32, *from);
        }
    }
    Ok(())
}

fn region_edge(r: &Reader<'_, '_>, open: &mut Regions, id: u32, step: &Step) -> Check {
    r.zero(u32::from(step.scratch) | u32::from_le_bytes(step.in_place))?;
    r.zero(step.attrs | step.attr_bytes)?;
    match step.kind {
        step_kind::IF | step_kind::LOOP => {
            if step.link <= id {
                return r.fail_wide(Reason::Region, u64::from(id) + 1, step.link);
            }
            if step.kind == step_kind::IF {
                if_operands(r, open, step)?
            } else {
                loop_operands(r, open, id, step)?
            }
            let region = Open { step: id, second: false };
            open.push(region).map_err(|_| r.refuse(Reason::Depth, MAX_DEPTH as u32, MAX_DEPTH as u32 + 1))
        }
        kind => {
            r.zero(u32::from(step.inputs) | u32::from(step.outputs) | step.operands)?;
            let Some(last) = open.last_mut() else { return r.fail(Reason::Region, 1u32, 0u32) };
            let opening = r.step(last.step)?;
            if kind == step_kind::ELSE {
                if last.second || opening.kind != step_kind::IF {
                    return r.fail(Reason::Region, 1u32, 0u32);
                }
                last.second = true;
                if opening.link != id || step.link <= id {
                    return r.fail(Reason::Region, id, step.link);
                }
                return Ok(());
            }
            if step.link != last.step {
                return r.fail(Reason::Region, last.step, step.link);
            }
            // The chain If → Else → End, or If/Loop → End, must lead here.
            let end = if last.second { r.step(opening.link)?.link } else { opening.link };
            if end != id {
                return r.fail(Reason::Region, end, id);
            }
            if opening.kind == step_kind::IF && !last.second && opening.outputs > 0 {
                return r.at(SectionId::Steps, last.step).fail(Reason::Region, 0u32, opening.outputs);
            }
            open.pop();
            Ok(())
        }
    }
}

fn if_operands(r: &Reader<'_, '_>, open: &[Open], step: &Step) -> Check {
    if step.inputs != 1 {
        return r.fail(Reason::OperandCount, 1u32, step.inputs);
    }
    for v in r.inputs(step)? {
        single(r, open, *v, true)?;
    }
    for v in r.outputs(step)? {
        region_value(r, *v)?;
    }
    Ok(())
}

fn loop_operands(r: &Reader<'_, '_>, open: &[Open], id: u32, step: &Step) -> Check {
    let want = u32::from(step.outputs) + 2;
    if u32::from(step.inputs) != want {
        return r.fail(Reason::OperandCount, want, step.inputs);
    }
    size_expr(r, step.max_trips)?;
    if step.counter != NONE {
        let counter = r.symbol(step.counter)?;
        if counter.kind != symbol_kind::COUNTER || counter.source != id {
            return r.fail(Reason::Counter, id, step.counter);
        }
    }
    let [condition, trips, carried @ ..] = r.inputs(step)? else { return Ok(()) };
    if *condition != NONE {
        single(r, open, *condition, true)?;
        if !carried.contains(condition) {
            return r.fail(Reason::Condition, 1u32, *condition);
        }
    }
    if *trips != NONE {
        single(r, open, *trips, false)?;
    }
    for (before, after) in carried.iter().zip(r.outputs(step)?) {
        let (x, y) = (region_value(r, *before)?, region_value(r, *after)?);
        if x.dtype != y.dtype || r.dims(x)? != r.dims(y)? {
            return r.fail(Reason::OperandType, x.dtype, y.dtype);
        }
    }
    Ok(())
}

/// A value with one element: a condition, or a trip count.
#[inline(never)]
fn single(r: &Reader<'_, '_>, open: &[Open], value: u32, condition: bool) -> Check {
    let v = r.value(value)?;
    active(r, open, v.counter)?;
    let one = |d: &u32| r.p.exprs.find(*d).is_some_and(|e| e.op == expr_op::CONSTANT && e.b == 1);
    let fits = match DType::from_code(v.dtype) {
        Some(DType::Bool) => condition,
        Some(DType::I32 | DType::I64) => !condition,
        _ => false,
    };
    if !fits || !r.dims(v)?.iter().all(one) {
        return r.fail(Reason::Condition, 1u32, value);
    }
    Ok(())
}

/// A result or carried value: an intermediate with memory of its own.
fn region_value<'p>(r: &Reader<'_, 'p>, value: u32) -> Check<&'p Value> {
    let v = r.value(value)?;
    if v.role != role::INTERMEDIATE || v.view != view::NONE {
        return r.fail(Reason::Role, role::INTERMEDIATE, v.role);
    }
    Ok(v)
}
