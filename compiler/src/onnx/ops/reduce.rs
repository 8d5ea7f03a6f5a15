//! Reductions, positions of extremes, order, cumulative sums.

use super::{Handler, one};
use crate::builder::Size;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::argmax::{ARGMAX, ARGMIN, ArgMax};
use serinette_core::op::cumulative::{CUM_PROD, CUM_SUM, Cumulative};
use serinette_core::op::order::{TOP_K, TopK};
use serinette_core::op::reduce::{self, Reduce};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("ReduceSum", reduction),
    ("ReduceMean", reduction),
    ("ReduceProd", reduction),
    ("ReduceMin", reduction),
    ("ReduceMax", reduction),
    ("ReduceSumSquare", reduction),
    ("ReduceL1", reduction),
    ("ReduceL2", reduction),
    ("ReduceLogSum", reduction),
    ("ReduceLogSumExp", reduction),
    ("ArgMax", extreme),
    ("ArgMin", extreme),
    ("TopK", top_k),
    ("CumSum", cumulative),
    ("CumProd", cumulative),
];

static OPS: &[(&str, &OpDescriptor)] = &[
    ("ReduceSum", &reduce::SUM),
    ("ReduceMean", &reduce::MEAN),
    ("ReduceProd", &reduce::PROD),
    ("ReduceMin", &reduce::MIN),
    ("ReduceMax", &reduce::MAX),
    ("ReduceSumSquare", &reduce::SUM_SQUARE),
    ("ReduceL1", &reduce::L1),
    ("ReduceL2", &reduce::L2),
    ("ReduceLogSum", &reduce::LOG_SUM),
    ("ReduceLogSumExp", &reduce::LOG_SUM_EXP),
];

fn reduction<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let found = OPS.iter().find(|(name, _)| *name == node.proto.op_type).map(|(_, op)| *op);
    let mut op = found.ok_or(Fail::Unsupported("op not known".into()))?;
    let (x, wide) = im.input(node, 0)?;
    let (rank, dtype) = (im.rank(x), im.b.graph.tensor(x).dtype);
    // Axes are an attribute before version 13 or 18.
    let axes = im.constant_integers(node, 1, "the axes")?.or(node.ints("axes").map(<[i64]>::to_vec));
    let (keep, noop) = (node.int("keepdims", 1)? != 0, node.int("noop_with_empty_axes", 0)? != 0);
    let axes = match axes {
        Some(axes) if !axes.is_empty() => axes,
        // No axes: all of them, or none, in which case each element is reduced by itself.
        _ if noop => Vec::new(),
        _ => (0..rank as i64).collect(),
    };
    let mut mask = 0u32;
    for axis in axes {
        mask |= 1 << node.axis(axis, rank)?;
    }
    if dtype == DType::Bool {
        op = match node.proto.op_type.as_str() {
            "ReduceMax" => &reduce::ANY,
            "ReduceMin" => &reduce::ALL,
            _ => return unsupported("a reduction of truth values"),
        };
    }
    let attrs = Reduce { axes: mask, keep_axes: u32::from(keep) };
    one(im.b.op(&node.name, op, attrs, &[x])?, wide)
}

fn extreme<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let axis = node.axis(node.int("axis", 0)?, im.rank(x))? as u32;
    let keep_axis = u32::from(node.int("keepdims", 1)? != 0);
    let last = u32::from(node.int("select_last_index", 0)? != 0);
    let op = if node.proto.op_type == "ArgMax" { &ARGMAX } else { &ARGMIN };
    // Positions along an axis that fits memory fit 31 bits; the shape rule says so.
    one(im.b.op(&node.name, op, ArgMax { axis, keep_axis, last, reserved: 0 }, &[x])?, true)
}

fn top_k<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let axis = node.axis(node.int("axis", -1)?, dims.len())?;
    let (largest, sorted) = (node.int("largest", 1)? != 0, node.int("sorted", 1)? != 0);
    // Before version 10 the number was an attribute.
    let k = match im.entries(node, 1, "the number of elements")?.as_deref() {
        Some([one]) => *one,
        Some(_) => return Err(node.wrong("the number of elements is not one number")),
        None => Entry::Number(node.int("k", -1)?),
    };
    let k = match k {
        Entry::Size(d) => Size::Expr(d),
        Entry::Number(n) => Size::Number(u64::try_from(n).map_err(|_| node.wrong(format!("k = {n}")))?),
    };
    let mut sizes: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    sizes[axis] = k;
    let attrs =
        TopK { axis: axis as u32, largest: u32::from(largest), sorted: u32::from(sorted), reserved: 0 };
    let outputs = im.b.op_with(&node.name, &TOP_K, attrs, &[Some(x)], &[], Some(&sizes))?;
    let items = outputs.into_iter().zip([wide, true]);
    Ok(items.map(|(value, wide)| Item::Value { value, wide }).collect())
}

fn cumulative<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let axis = im.constant_integers(node, 1, "the axis")?;
    let axis = match axis.as_deref() {
        Some([axis]) => node.axis(*axis, im.rank(x))? as u32,
        _ => return Err(node.wrong("the axis is not one number")),
    };
    let (exclusive, reverse) = (node.int("exclusive", 0)? != 0, node.int("reverse", 0)? != 0);
    let attrs =
        Cumulative { axis, exclusive: u32::from(exclusive), reverse: u32::from(reverse), reserved: 0 };
    let op = if node.proto.op_type == "CumSum" { &CUM_SUM } else { &CUM_PROD };
    one(im.b.op(&node.name, op, attrs, &[x])?, wide)
}
