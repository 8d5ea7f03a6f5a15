//! Softmax.

use super::{Claim, Refusal, Translator, label};
use rlx_ir::{Node, Op};
use serinette_compiler::Value;

pub(super) fn claim(op: &Op) -> Claim {
    match op {
        Op::Softmax { .. } => Claim::Taken(softmax),
        _ => Claim::Other,
    }
}

fn softmax(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Softmax { axis } = node.op else { return Err(Refusal::Upstream) };
    let x = t.operand(node, 0)?;
    let rank = t.operand_dims(node, 0)?.len() as i64;
    // Negative axes count from the innermost.
    let from_outermost = i64::from(axis) + if axis < 0 { rank } else { 0 };
    let axis = u32::try_from(from_outermost).ok().filter(|a| i64::from(*a) < rank);
    let axis = axis.ok_or(format!("axis {axis:?} of a tensor with {rank} axes"))?;
    Ok(t.builder.softmax(&label(node), x, axis)?)
}
