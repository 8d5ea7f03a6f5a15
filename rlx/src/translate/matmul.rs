//! Matrix products.

use super::elementwise::no_activation;
use super::{Claim, Refusal, Translator, declared, label, sizes};
use rlx_ir::op::Activation;
use rlx_ir::{Node, Op};
use serinette::core::op::Activation as Fused;
use serinette::core::op::matmul::MatMul;
use serinette_compiler::Value;

pub(super) fn claim(op: &Op) -> Claim {
    match op {
        Op::MatMul => Claim::Taken(matmul),
        Op::FusedMatMulBiasAct { activation: None | Some(Activation::Relu) } => Claim::Taken(dense),
        Op::FusedMatMulBiasAct { activation: Some(other) } => Claim::Refused(no_activation(*other)),
        _ => Claim::Other,
    }
}

fn matmul(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    product(t, node, None, Fused::None)
}

fn dense(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::FusedMatMulBiasAct { activation } = node.op else { return Err(Refusal::Upstream) };
    let mut bias = t.operand(node, 2)?;
    let dims = t.operand_dims(node, 2)?;
    if dims.len() != 1 {
        // `[1, N]` is one bias per column, too; anything else fails as a reshape or as a bias.
        let columns: Vec<u64> = dims.last().copied().into_iter().collect();
        bias = t.builder.reshape(&label(node), bias, &sizes(&columns))?;
    }
    product(t, node, Some(bias), if activation.is_some() { Fused::Relu } else { Fused::None })
}

/// `activation(a · b + bias)`. The op table knows `b` without batch axes or with those of `a`; batch axes of length
/// 1 in `b` are the former.
fn product(
    t: &mut Translator<'_>,
    node: &Node,
    bias: Option<Value>,
    activation: Fused,
) -> Result<Value, Refusal> {
    let name = label(node);
    let (a, mut b) = (t.operand(node, 0)?, t.operand(node, 1)?);
    let (a_dims, b_dims) = (t.operand_dims(node, 0)?, t.operand_dims(node, 1)?);
    let (Some((a_batch, _)), Some((b_batch, b_matrix))) =
        (a_dims.split_last_chunk::<2>(), b_dims.split_last_chunk::<2>())
    else {
        return Err(format!("a product of {a_dims:?} and {b_dims:?}").into());
    };
    if b_batch != a_batch && b_batch.iter().all(|d| *d == 1) {
        b = t.builder.reshape(&name, b, &sizes(b_matrix))?;
    } else if b_batch != a_batch {
        return Err(
            format!("batch axes {a_batch:?} and {b_batch:?}: those of the left are not repeated").into()
        );
    }
    let attrs = MatMul { activation: activation as u32, transpose_b: 0 };
    let y = t.builder.matmul_with(&name, attrs, a, b, bias)?;
    // More batch axes of length 1 in `b` than in `a` are in the declared shape.
    let (_, dims) = declared(node)?;
    if dims.len() == a_dims.len() { Ok(y) } else { Ok(t.builder.reshape(&name, y, &sizes(&dims))?) }
}
