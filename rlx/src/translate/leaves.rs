//! Inputs, params, constants.

use super::{Boundary, Claim, Contents, Refusal, Signature, Translator, declared, sizes};
use crate::convert;
use rlx_ir::{DType, Node, Op};
use serinette_compiler::{Data, Value};

pub(super) fn claim(op: &Op) -> Claim {
    match op {
        Op::Input { .. } => Claim::Taken(input),
        Op::Param { .. } => Claim::Taken(param),
        Op::Constant { .. } => Claim::Taken(constant),
        _ => Claim::Other,
    }
}

fn input(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Input { name } = &node.op else { return Err(Refusal::Upstream) };
    let b = Boundary::of(name, node)?;
    let (dtype, dims) = declared(node)?;
    if !Signature::add(&mut t.signature.inputs, b)? {
        return same(t, node, |op| matches!(op, Op::Input { name: n } if n == name));
    }
    Ok(t.builder.input(name, dtype, &sizes(&dims))?)
}

fn param(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Param { name } = &node.op else { return Err(Refusal::Upstream) };
    let mut b = Boundary::of(name, node)?;
    b.has_contents = t.contents.contains_key(name);
    let (dtype, dims) = declared(node)?;
    if !Signature::add(&mut t.signature.params, b)? {
        return same(t, node, |op| matches!(op, Op::Param { name: n } if n == name));
    }
    Ok(match t.contents.get(name) {
        None => t.builder.param(name, dtype, &dims, None)?,
        Some(Contents::Fixed(bytes)) => t.builder.weight(name, dtype, &dims, Data::from(bytes.clone()))?,
        Some(Contents::Initial(numbers)) => {
            let bytes = convert::f32_bytes(numbers);
            let bytes = convert::convert(name, &bytes, DType::F32, node.shape.dtype());
            let bytes = bytes.map_err(|e| Refusal::Because(e.to_string()))?.into_owned();
            t.builder.param(name, dtype, &dims, Some(Data::from(bytes)))?
        }
    })
}

/// The value of an earlier node that stands for the same input or param: RLX allows several.
fn same(t: &Translator<'_>, node: &Node, is: impl Fn(&Op) -> bool) -> Result<Value, Refusal> {
    let earlier = t.graph.nodes().iter().take_while(|n| n.id != node.id).filter(|n| is(&n.op));
    earlier.filter_map(|n| t.values.get(&n.id)).next().copied().ok_or(Refusal::Upstream)
}

fn constant(t: &mut Translator<'_>, node: &Node) -> Result<Value, Refusal> {
    let Op::Constant { data } = &node.op else { return Err(Refusal::Upstream) };
    let (dtype, dims) = declared(node)?;
    Ok(t.builder.constant(dtype, &dims, Data::from(data.clone()))?)
}
