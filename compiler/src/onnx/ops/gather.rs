//! Reading and writing at positions that depend on data, and choosing between tensors.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use serinette_core::DType;
use serinette_core::op::gather_nd::{GATHER_ELEMENTS, GATHER_ND, GatherNd};
use serinette_core::op::softmax::Axis;
use serinette_core::op::{NoAttributes, OpDescriptor, scatter, select};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("Compress", compress),
    ("Where", where_),
];

fn gather<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((data, wide), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let axis = node.axis(node.int("axis", 0)?, im.rank(data))?;
    one(im.b.gather(&node.name, data, indices, axis as u32)?, wide)
}

fn gather_elements<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((data, wide), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let axis = node.axis(node.int("axis", 0)?, im.rank(data))? as u32;
    one(im.b.op(&node.name, &GATHER_ELEMENTS, Axis { axis, reserved: 0 }, &[data, indices])?, wide)
}

fn gather_nd<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((data, wide), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let batch_dims = node.int("batch_dims", 0)?;
    let batch_dims = u32::try_from(batch_dims).map_err(|_| node.wrong(format!("batch_dims {batch_dims}")))?;
    one(im.b.op(&node.name, &GATHER_ND, GatherNd { batch_dims, reserved: 0 }, &[data, indices])?, wide)
}

/// The op for a reduction, of those in the order none, add, mul, min, max.
fn reduction(node: &Node<'_>, ops: [&'static OpDescriptor; 5]) -> Result<&'static OpDescriptor, Fail> {
    let name = node.text("reduction", "none")?;
    let found = ["none", "add", "mul", "min", "max"].iter().position(|n| *n == name);
    match found.and_then(|i| ops.get(i)) {
        Some(op) => Ok(op),
        None => Err(node.wrong(format!("reduction {name:?}"))),
    }
}

fn scatter_elements<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = reduction(
        node,
        [
            &scatter::SCATTER_ELEMENTS,
            &scatter::SCATTER_ELEMENTS_ADD,
            &scatter::SCATTER_ELEMENTS_MUL,
            &scatter::SCATTER_ELEMENTS_MIN,
            &scatter::SCATTER_ELEMENTS_MAX,
        ],
    )?;
    let ((data, wide), (indices, _), (updates, _)) =
        (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    let axis = node.axis(node.int("axis", 0)?, im.rank(data))? as u32;
    one(im.b.op(&node.name, op, Axis { axis, reserved: 0 }, &[data, indices, updates])?, wide)
}

fn scatter_nd<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = reduction(
        node,
        [
            &scatter::SCATTER_ND,
            &scatter::SCATTER_ND_ADD,
            &scatter::SCATTER_ND_MUL,
            &scatter::SCATTER_ND_MIN,
            &scatter::SCATTER_ND_MAX,
        ],
    )?;
    let ((data, wide), (indices, _), (updates, _)) =
        (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    one(im.b.op(&node.name, op, NoAttributes {}, &[data, indices, updates])?, wide)
}

/// A cache that is written from a position on, one for each batch: the elements along `axis` at `start + i`, modulo its size
/// where the mode is circular.
fn tensor_scatter<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    use serinette_core::op::binary::{ADD, Binary, MOD};
    use serinette_core::op::generate::RANGE;
    let ((data, wide), (update, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let rank = im.rank(data);
    let axis = node.axis(node.int("axis", -2)?, rank)?;
    if axis == 0 {
        return Err(node.wrong("the axis of the batch"));
    }
    let circular = match node.text("mode", "linear")?.as_str() {
        "linear" => false,
        "circular" => true,
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let dims = im.dims_of(update);
    let number = |im: &mut Importer<'m>, n: i32| im.b.constant(DType::I32, &[], Data::from_slice(&[n]));
    let (zero, step) = (number(im, 0)?, number(im, 1)?);
    let at = |what: &str| format!("{}:{what}", node.name);
    let along = [Size::Expr(dims[axis])];
    let mut positions =
        im.b.single(&at("range"), &RANGE, NoAttributes {}, &[Some(zero), Some(step)], &[], Some(&along))?;
    let mut shape = vec![Size::Number(1); rank];
    shape[axis] = Size::Expr(dims[axis]);
    positions = im.b.reshape(&at("positions"), positions, &shape)?;
    if let Some((start, _)) = im.optional(node, 2)? {
        let mut shape = vec![Size::Number(1); rank];
        shape[0] = Size::Expr(dims[0]);
        let start = im.b.reshape(&at("start"), start, &shape)?;
        positions = im.b.op(&at("at"), &ADD, Binary::default(), &[positions, start])?;
    }
    if circular {
        let size = im.dims_of(data)[axis];
        let size = im.b.size_scalar(&at("size"), size)?;
        positions = im.b.op(&at("wrapped"), &MOD, NoAttributes {}, &[positions, size])?;
    }
    let whole: Vec<Entry> = dims.iter().map(|d| im.entry(*d)).collect();
    let positions = im.expanded(node, positions, &whole)?;
    let attrs = Axis { axis: axis as u32, reserved: 0 };
    one(im.b.op(&node.name, &scatter::SCATTER_ELEMENTS, attrs, &[data, positions, update])?, wide)
}

/// The elements where a condition that is known at import is true.
fn compress<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (mut x, wide) = im.input(node, 0)?;
    let condition = im.constant(node, 1).filter(|c| c.dtype == DType::Bool);
    let Some(condition) = condition.map(|c| c.data.as_bytes().to_vec()) else {
        return unsupported("a result whose size depends on data");
    };
    let axis = match node.attribute("axis") {
        Some(_) => node.axis(node.int("axis", 0)?, im.rank(x))?,
        None => {
            let dims = im.dims_of(x);
            let all = super::movement::product(im, &node.name, &dims)?;
            x = im.b.reshape(&format!("{}:flat", node.name), x, &[all.into()])?;
            0
        }
    };
    let chosen = condition.iter().enumerate().filter(|(_, c)| **c != 0);
    let chosen: Vec<i32> = chosen.map_while(|(i, _)| i32::try_from(i).ok()).collect();
    let indices = im.b.constant(DType::I32, &[chosen.len() as u64], Data::from_slice(&chosen))?;
    one(im.b.gather(&node.name, x, indices, axis as u32)?, wide)
}

fn where_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((condition, _), (a, wide), (b, other)) =
        (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    if wide != other {
        return Err(node.wrong("the operands have different element types"));
    }
    one(im.b.op(&node.name, &select::WHERE, NoAttributes {}, &[condition, a, b])?, wide)
}
