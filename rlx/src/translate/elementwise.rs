//! Functions of single elements.

use super::{Claim, Refusal, Translator, declared, label};
use rlx_ir::op::{Activation, BinaryOp};
use rlx_ir::{Node, Op};
use serinette_compiler::Value;

pub(super) fn claim(op: &Op) -> Claim {
    match op {
        Op::Binary(BinaryOp::Add) => Claim::Taken(add),
        Op::Binary(BinaryOp::Mul) => Claim::Taken(mul),
        Op::Binary(other) => {
            Claim::Refused(format!("of the binary functions there are Add and Mul, not {other:?}"))
        }
        Op::Activation(Activation::Relu) => Claim::Taken(relu),
        Op::Activation(other) => Claim::Refused(no_activation(*other)),
        Op::Cast { .. } => Claim::Taken(cast),
        Op::StopGradient => Claim::Taken(identity),
        _ => Claim::Other,
    }
}

/// The reason for refusing an activation.
pub(super) fn no_activation(a: Activation) -> String {
    format!("of the activations there is Relu, not {a:?}")
}

fn add(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let (a, b) = (t.operand(node, 0)?, t.operand(node, 1)?);
    Ok(t.builder.add(&label(node), a, b)?)
}

fn mul(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let (a, b) = (t.operand(node, 0)?, t.operand(node, 1)?);
    Ok(t.builder.mul(&label(node), a, b)?)
}

fn relu(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let x = t.operand(node, 0)?;
    Ok(t.builder.relu(&label(node), x)?)
}

fn cast(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let x = t.operand(node, 0)?;
    let (to, _) = declared(node)?;
    if t.builder.tensor(x).is_some_and(|x| x.dtype == to) {
        return Ok(x);
    }
    Ok(t.builder.cast(&label(node), x, to)?)
}

/// The gradient ends here, which only matters to whoever differentiates the graph.
fn identity(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    t.operand(node, 0)
}
