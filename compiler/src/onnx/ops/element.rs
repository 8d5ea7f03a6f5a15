//! Element-wise ops, softmax, arg-max, casts.

use super::{Handler, one};
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::tensor;
use serinette_core::DType;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Add", add),
    ("Mul", mul),
    ("Relu", relu),
    ("Softmax", softmax),
    ("ArgMax", argmax),
    ("Less", less),
    ("Greater", greater),
    ("Cast", cast),
    ("Identity", identity),
];

/// Both operands; whether they were int64.
fn pair<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<(Value, Value, bool), Fail> {
    let ((a, wide), (b, other)) = (im.input(node, 0)?, im.input(node, 1)?);
    if wide != other {
        return Err(node.wrong("the operands have different element types"));
    }
    Ok((a, b, wide))
}

fn arithmetic_note(im: &mut Importer<'_>, node: &Node<'_>, wide: bool) {
    if wide {
        im.b.note(format!("{}: int64 arithmetic is done in 32 bits and wraps there", node.name));
    }
}

fn add<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (a, b, wide) = pair(im, node)?;
    arithmetic_note(im, node, wide);
    one(im.b.add(&node.name, a, b)?, wide)
}

fn mul<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (a, b, wide) = pair(im, node)?;
    arithmetic_note(im, node, wide);
    one(im.b.mul(&node.name, a, b)?, wide)
}

fn relu<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    one(im.b.relu(&node.name, x)?, false)
}

fn softmax<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let rank = im.rank(x);
    let old = im.opset < 13;
    let axis = node.axis(node.int("axis", if old { 1 } else { -1 })?, rank)?;
    // Before version 13 all axes from `axis` on were one.
    if old && axis + 1 != rank {
        return unsupported("softmax over several axes (operator set below 13)");
    }
    one(im.b.softmax(&node.name, x, axis as u32)?, false)
}

fn argmax<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    node.only("select_last_index", 0)?;
    let axis = node.axis(node.int("axis", 0)?, im.rank(x))?;
    let keep = node.int("keepdims", 1)? != 0;
    // Positions along an axis that fits memory fit 31 bits; the shape rule says so.
    one(im.b.argmax(&node.name, x, axis as u32, keep)?, true)
}

fn less<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (a, b, _) = pair(im, node)?;
    one(im.b.less(&node.name, a, b)?, false)
}

fn greater<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (a, b, _) = pair(im, node)?;
    one(im.b.greater(&node.name, a, b)?, false)
}

fn cast<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Only concerns 8-bit floats.
    node.int("saturate", 1)?;
    let code = node.int("to", 0)?;
    let to = i32::try_from(code).ok().and_then(tensor::dtype);
    let to = to.ok_or(Fail::Unsupported(format!("cast to element type code {code}")))?;
    let (x, wide) = im.input(node, 0)?;
    let from = im.b.graph.tensor(x).dtype;
    let target = if to == DType::I64 { DType::I32 } else { to };
    if to == DType::I64 && matches!(from, DType::F32 | DType::F16) {
        im.b.note(format!("{}: the cast to int64 saturates at 32 bits", node.name));
    }
    if wide && matches!(to, DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::U32) {
        return unsupported(format!("cast from int64 to {to}"));
    }
    let y = if from == target { x } else { im.b.cast(&node.name, x, target)? };
    one(y, to == DType::I64)
}

fn identity<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    match im.item(node, 0) {
        Some(Item::Poisoned) => Err(Fail::Poisoned),
        Some(item) => Ok(vec![item]),
        None => Err(node.wrong("input 0 is missing")),
    }
}
