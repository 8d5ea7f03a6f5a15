//! Losses of classifiers.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use crate::onnx::sizes::Entry;
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::compare::EQUAL;
use serinette_core::op::gather_nd::GATHER_ELEMENTS;
use serinette_core::op::reduce::{self, Reduce};
use serinette_core::op::select::WHERE;
use serinette_core::op::softmax::{Axis, LOG_SOFTMAX};
use serinette_core::op::{NoAttributes, unary};

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("NegativeLogLikelihoodLoss", likelihood), ("SoftmaxCrossEntropyLoss", cross_entropy)];

fn likelihood<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    one(loss(im, node, x)?, false)
}

/// The likelihood loss of the logarithm of a softmax, which is the second result.
fn cross_entropy<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let attrs = Axis { axis: 1, reserved: 0 };
    let logarithms = im.b.op(&format!("{}:logarithms", node.name), &LOG_SOFTMAX, attrs, &[x])?;
    let value = loss(im, node, logarithms)?;
    Ok([value, logarithms].map(|value| Item::Value { value, wide: false }).to_vec())
}

/// `−weight[t] · x[n, t, …]` for the class `t` of every element, or the sum or the weighted mean of all. Elements of the
/// class that is ignored have the weight 0.
fn loss<'m>(im: &mut Importer<'m>, node: &Node<'m>, x: Value) -> Result<Value, Fail> {
    let reduction = node.text("reduction", "mean")?;
    let ignored = node.attribute("ignore_index").map(|a| a.i.unwrap_or(0));
    let (mut target, _) = im.input(node, 1)?;
    let weights = im.optional(node, 2)?.map(|(v, _)| v);
    let label = |what: &str| format!("{}:{what}", node.name);
    if im.rank(x) < 2 || im.rank(target) + 1 != im.rank(x) {
        return Err(node.wrong("the classes have not the axes of the scores but for the second"));
    }
    // Only the importer's own ops see the classes, which are positions.
    if im.b.graph.tensor(target).dtype != DType::I32 {
        target = im.b.cast(&label("classes"), target, DType::I32)?;
    }
    let mut masked = None;
    if let Some(class) = ignored {
        let class = class.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let class = im.b.constant(DType::I32, &[], Data::from_slice(&[class]))?;
        let none = im.b.constant(DType::I32, &[], Data::from_slice(&[0i32]))?;
        let mask = im.b.op(&label("ignored"), &EQUAL, NoAttributes {}, &[target, class])?;
        target = im.b.op(&label("used"), &WHERE, NoAttributes {}, &[mask, none, target])?;
        masked = Some(mask);
    }
    let dims = im.dims_of(target);
    let flat: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    let mut column = flat.clone();
    column.insert(1, Size::Number(1));
    let at = im.b.reshape(&label("column"), target, &column)?;
    let chosen = im.b.op(&label("chosen"), &GATHER_ELEMENTS, Axis { axis: 1, reserved: 0 }, &[x, at])?;
    let chosen = im.b.reshape(&label("flat"), chosen, &flat)?;
    let mut y = im.b.op(&label("negative"), &unary::NEG, NoAttributes {}, &[chosen])?;
    let zero = im.float_like(y, 0.0)?;
    let cut = |im: &mut Importer<'m>, v: Value, what: &str| match masked {
        Some(mask) => im.b.op(&label(what), &WHERE, NoAttributes {}, &[mask, zero, v]),
        None => Ok(v),
    };
    let weight = match weights {
        Some(weights) => {
            let each = im.b.gather(&label("weight"), weights, target, 0)?;
            y = im.b.mul(&label("weighted"), y, each)?;
            Some(cut(im, each, "weight_used")?)
        }
        // How many are not ignored.
        None if masked.is_some() && reduction == "mean" => {
            let unit = im.float_like(y, 1.0)?;
            let ones = im.expanded(node, unit, &dims.iter().map(|d| Entry::Size(*d)).collect::<Vec<_>>())?;
            Some(cut(im, ones, "count")?)
        }
        None => None,
    };
    // Scores of what is ignored may be infinite.
    let y = cut(im, y, "cut")?;
    let all = Reduce { axes: (0..dims.len()).fold(0u32, |mask, a| mask | 1 << a), keep_axes: 0 };
    Ok(match (reduction.as_str(), weight) {
        ("none", _) => y,
        ("sum", _) => im.b.op(&node.name, &reduce::SUM, all, &[y])?,
        ("mean", None) => im.b.op(&node.name, &reduce::MEAN, all, &[y])?,
        ("mean", Some(weight)) => {
            let sum = im.b.op(&label("sum"), &reduce::SUM, all, &[y])?;
            let weight = im.b.op(&label("weights"), &reduce::SUM, all, &[weight])?;
            im.b.op(&node.name, &binary::DIV, Binary::default(), &[sum, weight])?
        }
        (other, _) => return Err(node.wrong(format!("reduction {other:?}"))),
    })
}
