//! Ops of the domain `ai.onnx.ml` that are ours under another name.

use super::{Handler, one};
use crate::builder::Size;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::compare::GREATER;

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("ArrayFeatureExtractor", extract), ("Binarizer", binarize)];

/// Elements along the last axis; a vector counts as a matrix of one row.
fn extract<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((mut x, wide), (at, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let flat = |im: &mut Importer<'m>, v: Value, sizes: &[Size]| {
        im.b.reshape(&format!("{}:flat", node.name), v, sizes)
    };
    if let [n] = im.dims_of(x)[..] {
        x = flat(im, x, &[Size::Number(1), Size::Expr(n)])?;
    }
    let dims = im.dims_of(at);
    let count = super::linear::product(im, &node.name, &dims)?;
    let at = flat(im, at, &[Size::Expr(count)])?;
    let axis = node.axis(-1, im.rank(x))?;
    one(im.b.gather(&node.name, x, at, axis as u32)?, wide)
}

/// 1 where an element is above the threshold, else 0.
fn binarize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let threshold = node.float("threshold", 0.0)?;
    let (x, wide) = im.input(node, 0)?;
    let dtype = im.b.graph.tensor(x).dtype;
    // Integers are compared as floats: the threshold may be a fraction.
    let float = if serinette_core::op::unary::FLOATS.contains(dtype) {
        x
    } else {
        im.b.cast(&format!("{}:float", node.name), x, DType::F64)?
    };
    let threshold = im.float_like(float, threshold)?;
    let above = im.b.op(&format!("{}:above", node.name), &GREATER, NoAttributes {}, &[float, threshold])?;
    one(im.b.cast(&node.name, above, dtype)?, wide)
}
