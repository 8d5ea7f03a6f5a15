//! Pooling.

use super::{Handler, one, spatial};
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::pool::{AVERAGE_POOL2D, MAX_POOL2D, Pool2d};
use serinette_core::op::pools::{AVERAGE_POOL, LP_POOL, MAX_POOL, MAX_POOL_INDICES, Pool};
use serinette_core::op::spatial::MAX_AXES;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("LpPool", lp_pool),
    ("GlobalAveragePool", global_average_pool),
    ("GlobalMaxPool", global_max_pool),
    ("GlobalLpPool", global_lp_pool),
];

/// The windows over `x`.
fn attributes(im: &Importer<'_>, node: &Node<'_>, x: Value) -> Result<Pool, Fail> {
    let axes = spatial::axes_of(im, node, x)?;
    let kernel = spatial::list(node, "kernel_shape", axes, 1)?.filter(|k| !k.contains(&0));
    let kernel = kernel.ok_or_else(|| node.wrong("kernel_shape is missing or zero"))?;
    let ceil = u32::from(node.int("ceil_mode", 0)? != 0);
    Ok(Pool { spatial: spatial::windows(im, node, x, kernel)?, kernel, ceil, ..Pool::GLOBAL })
}

/// The same windows for the planar ops, where they can express them.
fn planar(attrs: &Pool) -> Option<Pool2d> {
    let [depth, height, width] = attrs.kernel;
    let global = attrs.is_global();
    let inside = (0..MAX_AXES).all(|i| {
        let (s, pad) = (&attrs.spatial, attrs.spatial.before[i].max(attrs.spatial.after[i]));
        pad == 0 || (pad < attrs.kernel[i] && s.dilations[i] == 1)
    });
    let plain =
        attrs.ceil == 0 && attrs.column_major == 0 && attrs.p == 0 && (depth == 1 || global) && inside;
    plain.then_some(Pool2d {
        geometry: spatial::planar(&attrs.spatial),
        kernel: [height, width],
        count_padding: attrs.count_padding,
        reserved: 0,
    })
}

/// A pool by the planar op, which has kernels on every device, or else by the general one.
fn pool<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    ops: [&'static OpDescriptor; 2],
    attrs: Pool,
    (x, wide): (Value, bool),
) -> Result<Vec<Item>, Fail> {
    let axes = spatial::axes_of(im, node, x)?;
    match planar(&attrs).filter(|_| axes < MAX_AXES) {
        Some(planar) => {
            let x = spatial::lifted(im, node, "an input", x)?;
            let y = im.b.op(&node.name, ops[0], planar, &[x])?;
            one(spatial::lowered(im, node, y, axes)?, wide)
        }
        None => one(im.b.op(&node.name, ops[1], attrs, &[x])?, wide),
    }
}

fn max_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let mut attrs = attributes(im, node, x)?;
    let column_major = u32::from(node.int("storage_order", 0)? != 0);
    if node.proto.output.get(1).is_none_or(String::is_empty) {
        return pool(im, node, [&MAX_POOL2D, &MAX_POOL], attrs, (x, wide));
    }
    attrs.column_major = column_major;
    let dtype = im.b.graph.tensor(x).dtype;
    let y = im.b.op_with(&node.name, &MAX_POOL_INDICES, attrs, &[Some(x)], &[dtype, DType::I32], None)?;
    let items = y.into_iter().zip([wide, true]).map(|(value, wide)| Item::Value { value, wide });
    Ok(items.collect())
}

fn average_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let x = im.input(node, 0)?;
    let mut attrs = attributes(im, node, x.0)?;
    attrs.count_padding = u32::from(node.int("count_include_pad", 0)? != 0);
    pool(im, node, [&AVERAGE_POOL2D, &AVERAGE_POOL], attrs, x)
}

fn exponent(node: &Node<'_>) -> Result<u32, Fail> {
    let p = node.int("p", 2)?;
    u32::try_from(p).ok().filter(|p| *p > 0).ok_or_else(|| node.wrong(format!("p = {p}")))
}

fn lp_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let attrs = Pool { p: exponent(node)?, ..attributes(im, node, x)? };
    one(im.b.op(&node.name, &LP_POOL, attrs, &[x])?, wide)
}

fn global_average_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let x = im.input(node, 0)?;
    pool(im, node, [&AVERAGE_POOL2D, &AVERAGE_POOL], Pool::GLOBAL, x)
}

fn global_max_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let x = im.input(node, 0)?;
    pool(im, node, [&MAX_POOL2D, &MAX_POOL], Pool::GLOBAL, x)
}

fn global_lp_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    one(im.b.op(&node.name, &LP_POOL, Pool { p: exponent(node)?, ..Pool::GLOBAL }, &[x])?, wide)
}
