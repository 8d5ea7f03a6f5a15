//! 8-bit quantisation.

use super::{Handler, one};
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::DType;
use serinette_core::op::quantize::{PER_TENSOR, Quantization};
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("QuantizeLinear", quantize), ("DequantizeLinear", dequantize)];

struct Operands {
    x: Value,
    scale: Value,
    zero: Option<Value>,
    attrs: Quantization,
}

fn operands<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Operands, Fail> {
    node.only("block_size", 0)?;
    let ((x, _), (scale, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let zero = im.optional(node, 2)?.map(|(v, _)| v);
    let axis = node.int("axis", 1)?;
    let per_tensor = match im.dims_of(scale).as_slice() {
        [] => true,
        [n] => im.b.graph.dims.known(*n) == Some(1),
        _ => return unsupported("scales with more than one axis"),
    };
    let axis = if per_tensor { PER_TENSOR } else { node.axis(axis, im.rank(x))? as u32 };
    Ok(Operands { x, scale, zero, attrs: Quantization { axis, reserved: 0 } })
}

fn quantize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Only concerns 8-bit floats.
    node.int("saturate", 1)?;
    let to = node.int("output_dtype", 0)?;
    let o = operands(im, node)?;
    let zero = o.zero.map(|z| im.b.graph.tensor(z).dtype);
    // Without a zero point and a type the result is uint8.
    if !(zero == Some(DType::I8) || (zero.is_none() && to == 3)) {
        return unsupported(format!("quantisation to {} (only i8)", zero.unwrap_or(DType::U8)));
    }
    one(im.b.quantize(&node.name, o.attrs, o.x, o.scale, o.zero)?, false)
}

fn dequantize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let o = operands(im, node)?;
    one(im.b.dequantize(&node.name, o.attrs, o.x, o.scale, o.zero)?, false)
}
