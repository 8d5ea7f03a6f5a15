//! Steps: ops with their operands and attributes, and the edges of regions.

use super::super::super::error::{Error, Reason};
use super::super::super::program::Program;
use super::super::super::record::*;
use super::super::MAX_ATTR_BYTES;
use super::{Check, code, fail, is_counter, none, size_expr, within, zero};
use crate::dtype::DType;
use crate::op::{self, OpDescriptor};
use crate::{MAX_DEPTH, NONE};
use heapless::Vec;

/// A region that is open while steps are read.
struct Open {
    step: u32,
    /// Whether its `Else` has come.
    second: bool,
}

pub(super) fn steps(p: &Program<'_>, ops: &[&'static OpDescriptor]) -> Check {
    let s = SectionId::Steps;
    for (_, e) in p.entries.iter() {
        let mut open: Vec<Open, MAX_DEPTH> = Vec::new();
        for (id, step) in p.steps.range(e.first_step, e.steps)? {
            code(s, id, step_kind::END, step.kind)?;
            if step.kind == step_kind::OP {
                op_step(p, ops, &open, id, step)?;
            } else {
                region_edge(p, &mut open, id, step)?;
            }
        }
        if let Some(o) = open.last() {
            return fail(Reason::Region, s, o.step, 0, open.len() as u64);
        }
    }
    Ok(())
}

fn op_step(p: &Program<'_>, ops: &[&'static OpDescriptor], open: &[Open], id: u32, step: &Step) -> Check {
    let s = SectionId::Steps;
    let sig = p.signatures.get(step.link)?;
    none(s, id, step.max_trips)?;
    none(s, id, step.counter)?;
    code(s, id, 2, step.scratch)?;
    if (step.inputs, step.outputs) != (sig.inputs, sig.outputs) {
        let pair = |i: u8, o: u8| u64::from(i) << 8 | u64::from(o);
        return fail(
            Reason::OperandCount,
            s,
            id,
            pair(sig.inputs, sig.outputs),
            pair(step.inputs, step.outputs),
        );
    }
    let operands = p.operands.range(step.operands, u32::from(step.inputs) + u32::from(step.outputs))?;
    for ((_, v), t) in operands.zip(&sig.dtypes) {
        if *v == NONE {
            if *t != 0 {
                return fail(Reason::OperandType, s, id, u64::from(*t), 0);
            }
            continue;
        }
        let value = p.values.get(*v)?;
        if value.dtype != *t {
            return fail(Reason::OperandType, s, id, u64::from(*t), u64::from(value.dtype));
        }
        if value.counter != NONE {
            active(p, open, id, value.counter)?;
        }
    }
    // The signature was found in the table before.
    let Some(op) = op::find(ops, sig.op, sig.version) else { return fail(Reason::UnknownOp, s, id, 0, 0) };
    if !step.attrs.is_multiple_of(8) {
        return fail(Reason::Alignment, s, id, 8, u64::from(step.attrs));
    }
    if step.attr_bytes > MAX_ATTR_BYTES {
        return fail(Reason::Bounded, s, id, u64::from(MAX_ATTR_BYTES), u64::from(step.attr_bytes));
    }
    let attrs = p.step_attrs(id, step)?;
    (op.check_attrs)(attrs).map_err(|e| Error::at(Reason::Attribute(e.field), s, id, e.expected, e.found))?;
    let mut result = Ok(());
    (op.attr_exprs)(attrs, &mut |e| {
        if result.is_ok() {
            result = attr_expr(p, open, id, e);
        }
    });
    result?;
    in_place(p, op, id, step)
}

/// An expression in attributes: it exists, and where it is a counter, its loop is open here.
fn attr_expr(p: &Program<'_>, open: &[Open], id: u32, expr: u32) -> Check {
    within(SectionId::Steps, id, expr, p.exprs.len())?;
    if is_counter(p, expr)? { active(p, open, id, p.exprs.get(expr)?.a) } else { Ok(()) }
}

fn active(p: &Program<'_>, open: &[Open], id: u32, counter: u32) -> Check {
    let source = p.symbols.get(counter)?.source;
    if open.iter().any(|o| o.step == source) {
        Ok(())
    } else {
        fail(Reason::Counter, SectionId::Steps, id, u64::from(source), u64::from(counter))
    }
}

fn in_place(p: &Program<'_>, op: &OpDescriptor, id: u32, step: &Step) -> Check {
    for (o, from) in step.in_place.iter().enumerate().filter(|(_, f)| **f != 0) {
        let wrong = fail(Reason::InPlace, SectionId::Steps, id, o as u64, u64::from(*from));
        let i = usize::from(*from) - 1;
        let again = step.in_place.iter().filter(|f| *f == from).count() > 1;
        let (Some(x), Some(y)) = (p.step_inputs(step)?.nth(i), p.step_outputs(step)?.nth(o)) else {
            return wrong;
        };
        if again || x == NONE || !op.allows_in_place(i, o) {
            return wrong;
        }
        let (x, y) = (p.values.get(x)?, p.values.get(y)?);
        let whole = |v: &Value| matches!(v.view, view::NONE | view::RESHAPE);
        let constant = matches!(x.role, role::CONSTANT | role::WEIGHT);
        if !whole(x) || !whole(y) || x.dtype != y.dtype || constant || x.flags & value_flag::KEEP != 0 {
            return wrong;
        }
    }
    Ok(())
}

fn region_edge(p: &Program<'_>, open: &mut Vec<Open, MAX_DEPTH>, id: u32, step: &Step) -> Check {
    let s = SectionId::Steps;
    zero(s, id, u64::from(step.scratch) | u64::from(u32::from_le_bytes(step.in_place)))?;
    zero(s, id, u64::from(step.attrs) | u64::from(step.attr_bytes))?;
    let partner = |expected: u32| {
        if step.link == expected {
            Ok(())
        } else {
            fail(Reason::Region, s, id, u64::from(expected), u64::from(step.link))
        }
    };
    if step.kind != step_kind::LOOP {
        none(s, id, step.max_trips)?;
        none(s, id, step.counter)?;
    }
    match step.kind {
        step_kind::IF | step_kind::LOOP => {
            if step.link <= id {
                return fail(Reason::Region, s, id, u64::from(id) + 1, u64::from(step.link));
            }
            if step.kind == step_kind::IF {
                if_operands(p, open, id, step)?
            } else {
                loop_operands(p, open, id, step)?
            }
            let deep = open.len() as u64 + 1;
            open.push(Open { step: id, second: false })
                .map_err(|_| Error::at(Reason::Depth, s, id, MAX_DEPTH as u64, deep))
        }
        step_kind::ELSE => {
            zero(s, id, u64::from(step.inputs) | u64::from(step.outputs) | u64::from(step.operands))?;
            match open.last_mut() {
                Some(o) if !o.second && p.steps.get(o.step)?.kind == step_kind::IF => {
                    o.second = true;
                    if p.steps.get(o.step)?.link != id || step.link <= id {
                        return fail(Reason::Region, s, id, u64::from(id), u64::from(step.link));
                    }
                    Ok(())
                }
                _ => fail(Reason::Region, s, id, 1, 0),
            }
        }
        _ => {
            zero(s, id, u64::from(step.inputs) | u64::from(step.outputs) | u64::from(step.operands))?;
            let Some(o) = open.pop() else { return fail(Reason::Region, s, id, 1, 0) };
            partner(o.step)?;
            let opening = p.steps.get(o.step)?;
            // The chain If → Else → End, or If/Loop → End, must lead here.
            let last = if o.second { p.steps.get(opening.link)?.link } else { opening.link };
            if last != id {
                return fail(Reason::Region, s, id, u64::from(last), u64::from(id));
            }
            if opening.kind == step_kind::IF && !o.second && opening.outputs > 0 {
                return fail(Reason::Region, s, o.step, 0, u64::from(opening.outputs));
            }
            Ok(())
        }
    }
}

fn if_operands(p: &Program<'_>, open: &[Open], id: u32, step: &Step) -> Check {
    if step.inputs != 1 {
        return fail(Reason::OperandCount, SectionId::Steps, id, 1, u64::from(step.inputs));
    }
    for v in p.step_inputs(step)? {
        single(p, open, id, v, &[DType::Bool])?;
    }
    for v in p.step_outputs(step)? {
        region_value(p, id, v)?;
    }
    Ok(())
}

fn loop_operands(p: &Program<'_>, open: &[Open], id: u32, step: &Step) -> Check {
    let s = SectionId::Steps;
    if u32::from(step.inputs) != u32::from(step.outputs) + 2 {
        return fail(Reason::OperandCount, s, id, u64::from(step.outputs) + 2, u64::from(step.inputs));
    }
    size_expr(p, s, id, step.max_trips)?;
    if step.counter != NONE {
        let counter = p.symbols.get(step.counter)?;
        if counter.kind != symbol_kind::COUNTER || counter.source != id {
            return fail(Reason::Counter, s, id, u64::from(id), u64::from(step.counter));
        }
    }
    let mut inputs = p.step_inputs(step)?;
    let (condition, trips) = (inputs.next().unwrap_or(NONE), inputs.next().unwrap_or(NONE));
    if condition != NONE {
        single(p, open, id, condition, &[DType::Bool])?;
        if !inputs.clone().any(|v| v == condition) {
            return fail(Reason::Condition, s, id, 1, u64::from(condition));
        }
    }
    if trips != NONE {
        single(p, open, id, trips, &[DType::I32, DType::I64])?;
    }
    for (before, after) in inputs.zip(p.step_outputs(step)?) {
        region_value(p, id, before)?;
        region_value(p, id, after)?;
        let (x, y) = (p.values.get(before)?, p.values.get(after)?);
        let same_dims = p.value_dims(x)?.eq(p.value_dims(y)?);
        if x.dtype != y.dtype || x.rank != y.rank || !same_dims {
            return fail(Reason::OperandType, s, id, u64::from(x.dtype), u64::from(y.dtype));
        }
    }
    Ok(())
}

/// A value with one element of one of these types.
fn single(p: &Program<'_>, open: &[Open], id: u32, value: u32, types: &[DType]) -> Check {
    let v = p.values.get(value)?;
    if v.counter != NONE {
        active(p, open, id, v.counter)?;
    }
    let one = |d: u32| p.exprs.get(d).is_ok_and(|e| (e.op, e.b) == (expr_op::CONSTANT, 1));
    if !p.value_dims(v)?.all(one) || !types.iter().any(|t| t.code() == v.dtype) {
        return fail(Reason::Condition, SectionId::Steps, id, 1, u64::from(value));
    }
    Ok(())
}

/// A result or carried value: an intermediate with memory of its own.
fn region_value(p: &Program<'_>, id: u32, value: u32) -> Check {
    let v = p.values.get(value)?;
    if v.role != role::INTERMEDIATE || v.view != view::NONE {
        return fail(Reason::Role, SectionId::Steps, id, u64::from(role::INTERMEDIATE), u64::from(v.role));
    }
    Ok(())
}
