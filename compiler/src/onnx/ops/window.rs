//! Convolution and pooling.

use super::{Handler, one};
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::op::conv::{Conv2d, Geometry};
use serinette_core::op::pool::Pool2d;
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Conv", conv),
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("GlobalAveragePool", global_average_pool),
];

/// A list of integers of exactly `N` entries.
fn list<const N: usize>(node: &Node<'_>, name: &str, default: [u32; N]) -> Result<[u32; N], Fail> {
    let Some(ints) = node.ints(name) else { return Ok(default) };
    let mut out = [0; N];
    if ints.len() != N {
        return unsupported(format!("{name} has {} entries (only {N}: two spatial axes)", ints.len()));
    }
    for (o, i) in out.iter_mut().zip(ints) {
        *o = u32::try_from(*i).map_err(|_| Fail::Unsupported(format!("{name} has the entry {i}")))?;
    }
    Ok(out)
}

/// Strides, padding and dilation, with `auto_pad` worked out.
fn geometry(im: &Importer<'_>, node: &Node<'_>, x: Value, kernel: [u32; 2]) -> Result<Geometry, Fail> {
    if im.rank(x) != 4 {
        return unsupported(format!("{} axes (only 4: two spatial ones)", im.rank(x)));
    }
    let mut g = Geometry {
        strides: list(node, "strides", [1; 2])?,
        pads: list(node, "pads", [0; 4])?,
        dilations: list(node, "dilations", [1; 2])?,
    };
    let mode = node.text("auto_pad", "NOTSET")?;
    let upper = match mode.as_str() {
        "NOTSET" => return Ok(g),
        "VALID" => {
            g.pads = [0; 4];
            return Ok(g);
        }
        "SAME_UPPER" => true,
        "SAME_LOWER" => false,
        _ => return unsupported(format!("auto_pad = {mode}")),
    };
    for (axis, taps) in kernel.into_iter().enumerate() {
        let size = im.dims_of(x).get(axis + 2).and_then(|d| im.b.graph.dims.known(*d));
        let size = size.ok_or(Fail::Unsupported(format!("auto_pad = {mode} for an open size")))?;
        let stride = u64::from(g.strides[axis].max(1));
        let span = u64::from(g.dilations[axis]) * u64::from(taps).saturating_sub(1) + 1;
        let covered = size.div_ceil(stride).saturating_sub(1).saturating_mul(stride).saturating_add(span);
        let total = u32::try_from(covered.saturating_sub(size)).unwrap_or(u32::MAX);
        let (small, large) = (total / 2, total - total / 2);
        (g.pads[axis], g.pads[axis + 2]) = if upper { (small, large) } else { (large, small) };
    }
    Ok(g)
}

fn conv<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (w, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let bias = im.optional(node, 2)?.map(|(v, _)| v);
    let wd = im.dims_of(w);
    if wd.len() != 4 {
        return unsupported(format!("a kernel with {} axes (only 4: two spatial ones)", wd.len()));
    }
    let mut kernel = [0u32; 2];
    for (k, d) in kernel.iter_mut().zip(&wd[2..]) {
        let known = im.b.graph.dims.known(*d).and_then(|n| u32::try_from(n).ok());
        *k = known.ok_or(Fail::Unsupported("a kernel of open size".into()))?;
    }
    if list(node, "kernel_shape", kernel)? != kernel {
        return Err(node.wrong("kernel_shape is not that of the weights"));
    }
    let geometry = geometry(im, node, x, kernel)?;
    let groups = u32::try_from(node.int("group", 1)?).unwrap_or(0);
    one(im.b.conv2d(&node.name, Conv2d { geometry, groups, activation: 0 }, x, w, bias)?, false)
}

fn pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<(Value, Pool2d), Fail> {
    let (x, _) = im.input(node, 0)?;
    node.only("ceil_mode", 0)?;
    let kernel = list(node, "kernel_shape", [0; 2])?;
    if kernel.contains(&0) {
        return Err(node.wrong("kernel_shape is missing or zero"));
    }
    let geometry = geometry(im, node, x, kernel)?;
    Ok((x, Pool2d { geometry, kernel, count_padding: 0, reserved: 0 }))
}

fn max_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // The order only matters for the second output, which is not made.
    node.only("storage_order", 0)?;
    let (x, attrs) = pool(im, node)?;
    one(im.b.max_pool2d(&node.name, attrs, x)?, false)
}

fn average_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let count = node.int("count_include_pad", 0)?;
    let (x, mut attrs) = pool(im, node)?;
    attrs.count_padding = u32::from(count != 0);
    one(im.b.average_pool2d(&node.name, attrs, x)?, false)
}

fn global_average_pool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    if im.rank(x) != 4 {
        return unsupported(format!("{} axes (only 4: two spatial ones)", im.rank(x)));
    }
    let attrs = Pool2d { geometry: Geometry::default(), kernel: [0; 2], count_padding: 0, reserved: 0 };
    one(im.b.average_pool2d(&node.name, attrs, x)?, false)
}
