//! Ops that move elements.

use super::{Claim, Refusal, Translator, declared, label, sizes};
use rlx_ir::{Node, Op};
use serinette::core::MAX_INPUTS;
use serinette_compiler::{Size, Value};

pub(super) fn claim(op: &Op) -> Claim {
    match op {
        Op::Reshape { .. } => Claim::Taken(reshape),
        Op::Transpose { .. } => Claim::Taken(transpose),
        Op::Concat { .. } => Claim::Taken(concat),
        Op::Narrow { .. } => Claim::Taken(narrow),
        Op::Slice { step, .. } if *step < 1 => Claim::Refused(format!("slices go forward, not by {step}")),
        Op::Slice { .. } => Claim::Taken(slice),
        _ => Claim::Other,
    }
}

/// The target is the declared shape: the attribute may leave one size open.
fn reshape(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let x = t.operand(node, 0)?;
    let (_, dims) = declared(node)?;
    Ok(t.builder.reshape(&label(node), x, &sizes(&dims))?)
}

fn transpose(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Transpose { perm } = &node.op else { return Err(Refusal::Upstream) };
    let x = t.operand(node, 0)?;
    Ok(t.builder.transpose(&label(node), x, perm)?)
}

fn concat(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Concat { axis } = node.op else { return Err(Refusal::Upstream) };
    let axis = u32::try_from(axis).unwrap_or(u32::MAX);
    let mut parts = (0..node.inputs.len()).map(|i| t.operand(node, i)).collect::<Result<Vec<_>, _>>()?;
    while parts.len() > MAX_INPUTS {
        let mut joined = Vec::new();
        for group in parts.chunks(MAX_INPUTS) {
            joined.push(t.builder.concat(&label(node), group, axis)?);
        }
        parts = joined;
    }
    Ok(t.builder.concat(&label(node), &parts, axis)?)
}

fn narrow(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Narrow { axis, start, len } = node.op else { return Err(Refusal::Upstream) };
    window(t, node, axis, start, len, 1)
}

fn slice(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Slice { axis, start, len, step } = node.op else { return Err(Refusal::Upstream) };
    window(t, node, axis, start, len, step)
}

/// `len` elements along one axis, from `start`, `step` apart; all of the other axes.
fn window(
    t: &mut Translator<'_>,
    node: &Node,
    axis: usize,
    start: usize,
    len: usize,
    step: i64,
) -> Result<Value, Refusal> {
    let x = t.operand(node, 0)?;
    let mut counts = sizes(&t.operand_dims(node, 0)?);
    let (mut starts, mut steps) = (vec![0; counts.len()], vec![1; counts.len()]);
    let (Some(count), Some(first), Some(by)) =
        (counts.get_mut(axis), starts.get_mut(axis), steps.get_mut(axis))
    else {
        return Err(format!("axis {axis} of a tensor with {} axes", counts.len()).into());
    };
    let (Ok(start), Ok(step)) = (u32::try_from(start), u32::try_from(step)) else {
        return Err(format!("a slice from {start} by {step}").into());
    };
    (*count, *first, *by) = (Size::Number(len as u64), start, step);
    Ok(t.builder.slice(&label(node), x, &starts, &steps, &counts)?)
}
