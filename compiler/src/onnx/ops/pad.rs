//! Padding, tiling, expanding, and blocks of pixels.

use super::{Handler, one};
use crate::builder::Size;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use serinette_core::MAX_RANK;
use serinette_core::op::blocks::{self, Blocks};
use serinette_core::op::pad::{self, Pad};
use serinette_core::op::reverse::{self, ReverseSequence};
use serinette_core::op::{NoAttributes, tile};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Pad", pad_),
    ("CenterCropPad", center),
    ("Tile", tile_),
    ("Expand", expand),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
    ("ReverseSequence", reverse_sequence),
];

/// `d + before + after`, where that is not below 0.
fn padded(im: &mut Importer<'_>, node: &Node<'_>, d: Dim, before: i64, after: i64) -> Result<Dim, Fail> {
    let table = &mut im.b.graph.dims;
    let by = before.saturating_add(after);
    let made = match u64::try_from(by) {
        Ok(by) => table.constant(by).and_then(|by| table.add(d, by)),
        Err(_) => table.saturating_sub(d, by.unsigned_abs()),
    };
    made.map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))
}

fn pad_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    // Before version 11 pads and value were attributes.
    let attribute = node.ints("pads").map(<[i64]>::to_vec);
    let pads = im.constant_integers(node, 1, "the padding")?.or(attribute);
    let pads = pads.ok_or_else(|| node.wrong("the padding is missing"))?;
    let all: Vec<i64> = (0..dims.len() as i64).collect();
    let axes = im.constant_integers(node, 3, "the axes")?.unwrap_or(all);
    if pads.len() != 2 * axes.len() {
        return Err(node.wrong(format!("{} pads for {} axes", pads.len(), axes.len())));
    }
    let mut attrs = Pad { starts: [0; MAX_RANK], symbolic: 0, reserved: 0 };
    let mut sizes: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    for (i, axis) in axes.iter().enumerate() {
        let axis = node.axis(*axis, dims.len())?;
        let (before, after) = (pads[i], pads[i + axes.len()]);
        attrs.starts[axis] = i32::try_from(before).map_err(|_| node.wrong(format!("padding of {before}")))?;
        sizes[axis] = Size::Expr(padded(im, node, dims[axis], before, after)?);
    }
    if pads.iter().all(|p| *p == 0) {
        return one(x, wide);
    }
    let old = node.float("value", 0.0)?;
    let (op, value) = match node.text("mode", "constant")?.as_str() {
        "constant" => {
            let value = match im.optional(node, 2)? {
                Some((v, _)) => Some(v),
                None if old != 0.0 => Some(im.float_like(x, old)?),
                None => None,
            };
            (&pad::PAD, value)
        }
        "reflect" => (&pad::PAD_REFLECT, None),
        "edge" => (&pad::PAD_EDGE, None),
        "wrap" => (&pad::PAD_WRAP, None),
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let mut inputs = vec![Some(x)];
    inputs.extend(value.map(Some));
    one(im.b.single(&node.name, op, attrs, &inputs, &[], Some(&sizes))?, wide)
}

/// Crops or pads around the centre; of an odd difference the smaller part is before.
fn center<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let shape =
        im.constant_integers(node, 1, "the shape")?.ok_or_else(|| node.wrong("the shape is missing"))?;
    let all: Vec<i64> = (0..dims.len() as i64).collect();
    let axes = node.ints("axes").map_or(all, <[i64]>::to_vec);
    if axes.len() != shape.len() {
        return Err(node.wrong("axes and shape differ in length"));
    }
    let mut attrs = Pad { starts: [0; MAX_RANK], symbolic: 0, reserved: 0 };
    let mut sizes: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    for (axis, wanted) in axes.iter().zip(&shape) {
        let axis = node.axis(*axis, dims.len())?;
        let have = im.b.graph.dims.known(dims[axis]).and_then(|n| i64::try_from(n).ok());
        let have = have.ok_or(Fail::Unsupported("a centre along an open size".into()))?;
        let wanted = u64::try_from(*wanted).map_err(|_| node.wrong(format!("shape {shape:?}")))?;
        attrs.starts[axis] = i32::try_from((wanted as i64 - have).div_euclid(2)).unwrap_or(i32::MAX);
        if (wanted as i64) < have {
            attrs.starts[axis] = -i32::try_from((have - wanted as i64) / 2).unwrap_or(i32::MAX);
        }
        sizes[axis] = Size::Number(wanted);
    }
    one(im.b.single(&node.name, &pad::PAD, attrs, &[Some(x)], &[], Some(&sizes))?, wide)
}

fn tile_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let repeats = im.entries(node, 1, "the repeats")?.ok_or_else(|| node.wrong("the repeats are missing"))?;
    if repeats.len() != dims.len() {
        return Err(node.wrong(format!("{} repeats for {} axes", repeats.len(), dims.len())));
    }
    let mut sizes = Vec::new();
    for (d, r) in dims.iter().zip(&repeats) {
        let table = &mut im.b.graph.dims;
        let r = match r {
            Entry::Size(r) => Ok(*r),
            Entry::Number(n) => {
                table.constant(u64::try_from(*n).map_err(|_| node.wrong(format!("repeats {repeats:?}")))?)
            }
        };
        let size = r.and_then(|r| table.mul(*d, r)).map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))?;
        sizes.push(Size::Expr(size));
    }
    one(im.b.single(&node.name, &tile::TILE, NoAttributes {}, &[Some(x)], &[], Some(&sizes))?, wide)
}

/// To the common shape of the input and the one given.
fn expand<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let shape = im.entries(node, 1, "the shape")?.ok_or_else(|| node.wrong("the shape is missing"))?;
    let y = im.expanded(node, x, &shape)?;
    one(y, wide)
}

impl<'m> Importer<'m> {
    /// `x` broadcast with `shape`.
    pub fn expanded(&mut self, node: &Node<'m>, x: Value, shape: &[Entry]) -> Result<Value, Fail> {
        let dims = self.dims_of(x);
        let rank = dims.len().max(shape.len());
        let mut sizes = Vec::new();
        for axis in 0..rank {
            let table = &mut self.b.graph.dims;
            let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
            let from = (axis + dims.len()).checked_sub(rank).and_then(|i| dims.get(i)).copied();
            let to = match (axis + shape.len()).checked_sub(rank).and_then(|i| shape.get(i)) {
                Some(Entry::Size(d)) => Some(*d),
                Some(Entry::Number(n)) => {
                    let n = u64::try_from(*n).map_err(|_| node.wrong(format!("shape {shape:?}")))?;
                    Some(table.constant(n).map_err(wrong)?)
                }
                None => None,
            };
            let d = match (from, to) {
                (Some(a), Some(b)) => table.broadcast(a, b).map_err(wrong)?,
                (Some(d), None) | (None, Some(d)) => d,
                (None, None) => return Err(node.wrong("an axis of nothing")),
            };
            sizes.push(d);
        }
        if sizes == dims {
            return Ok(x);
        }
        let sizes: Vec<Size> = sizes.into_iter().map(Size::Expr).collect();
        Ok(self.b.single(&node.name, &tile::EXPAND, NoAttributes {}, &[Some(x)], &[], Some(&sizes))?)
    }
}

fn block(node: &Node<'_>) -> Result<Blocks, Fail> {
    let size = node.int("blocksize", 0)?;
    let block =
        u32::try_from(size).ok().filter(|b| *b > 0).ok_or_else(|| node.wrong(format!("blocksize {size}")))?;
    Ok(Blocks { block, reserved: 0 })
}

fn depth_to_space<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = match node.text("mode", "DCR")?.as_str() {
        "DCR" => &blocks::DEPTH_TO_SPACE,
        "CRD" => &blocks::DEPTH_TO_SPACE_CRD,
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let (attrs, (x, wide)) = (block(node)?, im.input(node, 0)?);
    one(im.b.op(&node.name, op, attrs, &[x])?, wide)
}

fn space_to_depth<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    if node.text("mode", "DCR")? != "DCR" {
        return unsupported("mode CRD");
    }
    let (attrs, (x, wide)) = (block(node)?, im.input(node, 0)?);
    one(im.b.op(&node.name, &blocks::SPACE_TO_DEPTH, attrs, &[x])?, wide)
}

fn reverse_sequence<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (time, batch) = (node.int("time_axis", 0)?, node.int("batch_axis", 1)?);
    let time_axis = match (time, batch) {
        (0, 1) => 0,
        (1, 0) => 1,
        _ => return Err(node.wrong(format!("time axis {time}, batch axis {batch}"))),
    };
    let ((x, wide), (lengths, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let attrs = ReverseSequence { time_axis, reserved: 0 };
    one(im.b.op(&node.name, &reverse::REVERSE_SEQUENCE, attrs, &[x, lengths])?, wide)
}
