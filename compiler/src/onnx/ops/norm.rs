//! Normalisations.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor::Constant;
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::lp_norm::{L1_NORMALIZE, L2_NORMALIZE};
use serinette_core::op::lrn::{LRN, Lrn};
use serinette_core::op::norm::{
    ChannelNorm, GROUP_NORM, GroupNorm, INSTANCE_NORM, LAYER_NORM, LayerNorm, RMS_NORM,
};
use serinette_core::op::reduce::{self, Reduce};
use serinette_core::op::softmax::{Axis, HARDMAX, LOG_SOFTMAX, SOFTMAX};
use serinette_core::op::{NoAttributes, unary};
use serinette_core::shape::Dim;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("BatchNormalization", batch),
    ("Softmax", softmax),
    ("LogSoftmax", softmax),
    ("Hardmax", softmax),
    ("LayerNormalization", layer),
    ("RMSNormalization", layer),
    ("InstanceNormalization", instance),
    ("GroupNormalization", group),
    ("LpNormalization", lp),
    ("LRN", lrn),
    ("MeanVarianceNormalization", mean_variance),
];

/// Softmax and its relatives. Before version 13 all axes from the one named on were one.
fn softmax<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = match node.proto.op_type.as_str() {
        "Softmax" => &SOFTMAX,
        "LogSoftmax" => &LOG_SOFTMAX,
        _ => &HARDMAX,
    };
    let (x, _) = im.input(node, 0)?;
    let (axis, shape) = im.softmax_axis(node, x)?;
    let flat = match &shape {
        Some(flat) => im.b.reshape(&format!("{}:flat", node.name), x, flat)?,
        None => x,
    };
    let mut y = im.b.op(&node.name, op, Axis { axis, reserved: 0 }, &[flat])?;
    if shape.is_some() {
        let dims: Vec<Size> = im.dims_of(x).into_iter().map(Size::Expr).collect();
        y = im.b.reshape(&format!("{}:shaped", node.name), y, &dims)?;
    }
    one(y, false)
}

/// A scale or bias with just the dimensions that are normalised.
fn fitted<'m>(im: &mut Importer<'m>, node: &Node<'m>, v: Value, like: &[Dim]) -> Result<Value, Fail> {
    if im.dims_of(v) == like {
        return Ok(v);
    }
    let wanted: Vec<Entry> = like.iter().map(|d| Entry::Size(*d)).collect();
    im.expanded(node, v, &wanted)
}

fn layer<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // The type of the statistics; here they are f32 for f16 too.
    node.int("stash_type", 1)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (x, _) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let axis = node.axis(node.int("axis", -1)?, dims.len())?;
    let root = node.proto.op_type == "RMSNormalization";
    let mut inputs = vec![Some(x)];
    for i in 1..if root { 2 } else { 3 } {
        if let Some((v, _)) = im.optional(node, i)? {
            inputs.push(Some(fitted(im, node, v, &dims[axis..])?));
        }
    }
    let op = if root { &RMS_NORM } else { &LAYER_NORM };
    let attrs = LayerNorm { axis: axis as u32, epsilon };
    let y = im.b.single(&node.name, op, attrs, &inputs, &[], None)?;
    let mut items = vec![Item::Value { value: y, wide: false }];
    if node.proto.output.len() > 1 && !root {
        let (mean, inverse) = statistics(im, node, x, axis, epsilon)?;
        items.extend([mean, inverse].map(|value| Item::Value { value, wide: false }));
    }
    Ok(items)
}

/// Mean and inverse deviation over the axes from `axis` on, for graphs that read them.
fn statistics(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    x: Value,
    axis: usize,
    epsilon: f32,
) -> Result<(Value, Value), Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    let axes = (axis..im.rank(x)).fold(0u32, |mask, a| mask | 1 << a);
    let attrs = Reduce { axes, keep_axes: 1 };
    let mean = im.b.op(&label("mean"), &reduce::MEAN, attrs, &[x])?;
    let centred = im.b.op(&label("centred"), &binary::SUB, Binary::default(), &[x, mean])?;
    let squares = im.b.mul(&label("squares"), centred, centred)?;
    let variance = im.b.op(&label("variance"), &reduce::MEAN, attrs, &[squares])?;
    let epsilon = im.float_like(variance, epsilon)?;
    let sum = im.b.add(&label("sum"), variance, epsilon)?;
    let deviation = im.b.op(&label("deviation"), &unary::SQRT, NoAttributes {}, &[sum])?;
    Ok((mean, im.b.op(&label("inverse"), &unary::RECIPROCAL, NoAttributes {}, &[deviation])?))
}

fn instance<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let attrs = ChannelNorm { epsilon: node.float("epsilon", 1e-5)?, reserved: 0 };
    let ((x, _), (scale, _), (bias, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    one(im.b.op(&node.name, &INSTANCE_NORM, attrs, &[x, scale, bias])?, false)
}

fn group<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    node.int("stash_type", 1)?;
    let groups = u32::try_from(node.int("num_groups", 0)?).unwrap_or(0);
    let attrs = GroupNorm { groups, epsilon: node.float("epsilon", 1e-5)? };
    let ((x, _), (scale, _), (bias, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    // Before version 21 there was one number for each group.
    if im.opset < 21 && im.dims_of(scale).first() != im.dims_of(x).get(1) {
        return unsupported("one scale for each group (operator set below 21)");
    }
    one(im.b.op(&node.name, &GROUP_NORM, attrs, &[x, scale, bias])?, false)
}

fn lp<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let axis = node.axis(node.int("axis", -1)?, im.rank(x))? as u32;
    let op = match node.int("p", 2)? {
        1 => &L1_NORMALIZE,
        2 => &L2_NORMALIZE,
        p => return unsupported(format!("p = {p}")),
    };
    one(im.b.op(&node.name, op, Axis { axis, reserved: 0 }, &[x])?, false)
}

fn lrn<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let size = u32::try_from(node.int("size", 0)?).unwrap_or(0);
    let (alpha, beta, bias) =
        (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?, node.float("bias", 1.0)?);
    let (x, _) = im.input(node, 0)?;
    one(im.b.op(&node.name, &LRN, Lrn { size, alpha, beta, bias }, &[x])?, false)
}

/// `(x − E[x]) / (√(E[x²] − E[x]²) + 1e-9)`, as the specification spells it.
fn mean_variance<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let given = node.ints("axes").unwrap_or(&[0, 2, 3]);
    let mut axes = 0u32;
    for a in given {
        axes |= 1 << node.axis(*a, im.rank(x))?;
    }
    let attrs = Reduce { axes, keep_axes: 1 };
    let label = |what: &str| format!("{}:{what}", node.name);
    let mean = im.b.op(&label("mean"), &reduce::MEAN, attrs, &[x])?;
    let squares = im.b.mul(&label("squares"), x, x)?;
    let square = im.b.op(&label("square"), &reduce::MEAN, attrs, &[squares])?;
    let of_mean = im.b.mul(&label("of_mean"), mean, mean)?;
    let variance = im.b.op(&label("variance"), &binary::SUB, Binary::default(), &[square, of_mean])?;
    let root = im.b.op(&label("root"), &unary::SQRT, NoAttributes {}, &[variance])?;
    let tiny = im.float_like(root, 1e-9)?;
    let deviation = im.b.add(&label("deviation"), root, tiny)?;
    let centred = im.b.op(&label("centred"), &binary::SUB, Binary::default(), &[x, mean])?;
    one(im.b.op(&node.name, &binary::DIV, Binary::default(), &[centred, deviation])?, false)
}

/// For inference a batch norm is a product and a sum with one number for each channel, which [`crate::passes::affine`]
/// puts into the convolution before.
fn batch<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let momentum = node.float("momentum", 0.9)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let training = node.int("training_mode", 0)? != 0;
    // Up to version 8: statistics over the channels alone.
    node.only("spatial", 1)?;
    node.only("is_test", 1)?;
    let (x, _) = im.input(node, 0)?;
    if training {
        return batch_training(im, node, x, epsilon, momentum);
    }
    let known: Option<Vec<Vec<f32>>> = (1..5).map(|i| im.constant(node, i)?.floats()).collect();
    let float = im.b.graph.tensor(x).dtype == DType::F32;
    let (scale, shift) = match known.as_deref() {
        Some([gamma, beta, mean, variance])
            if float && [beta, mean, variance].iter().all(|v| v.len() == gamma.len()) =>
        {
            let (mut scale, mut shift) = (Vec::new(), Vec::new());
            for (((g, b), m), v) in gamma.iter().zip(beta).zip(mean).zip(variance) {
                let s = f64::from(*g) / (f64::from(*v) + f64::from(epsilon)).sqrt();
                scale.push(s as f32);
                shift.push((f64::from(*b) - f64::from(*m) * s) as f32);
            }
            (vector(im, node, &scale)?, vector(im, node, &shift)?)
        }
        _ => {
            let ((mean, _), (variance, _)) = (im.input(node, 3)?, im.input(node, 4)?);
            computed(im, node, mean, variance, epsilon)?
        }
    };
    one(by_channel(im, node, x, scale, shift)?, false)
}

/// `x · scale + shift` with vectors along the second axis.
fn by_channel<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    x: Value,
    scale: Value,
    shift: Value,
) -> Result<Value, Fail> {
    let channels = |im: &mut Importer<'m>, v: Value, label: &str| {
        let mut sizes: Vec<Size> = vec![im.dims_of(v)[0].into()];
        sizes.extend(vec![Size::Number(1); im.rank(x).saturating_sub(2)]);
        im.b.reshape(&format!("{}:{label}", node.name), v, &sizes)
    };
    if im.rank(x) < 2 || im.rank(scale) != 1 {
        return Err(node.wrong("a batch norm wants an input with channels, and vectors for them"));
    }
    let (scale, shift) = (channels(im, scale, "scale")?, channels(im, shift, "shift")?);
    let y = im.b.mul(&format!("{}:scaled", node.name), x, scale)?;
    Ok(im.b.add(&node.name, y, shift)?)
}

/// With the statistics of this batch, which the running ones move towards.
fn batch_training<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    x: Value,
    epsilon: f32,
    momentum: f32,
) -> Result<Vec<Item>, Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    let axes = (0..im.rank(x)).filter(|a| *a != 1).fold(0u32, |mask, a| mask | 1 << a);
    let wide = im.b.op(&label("mean_kept"), &reduce::MEAN, Reduce { axes, keep_axes: 1 }, &[x])?;
    let centred = im.b.op(&label("centred"), &binary::SUB, Binary::default(), &[x, wide])?;
    let squares = im.b.mul(&label("squares"), centred, centred)?;
    let mut statistics = Vec::new();
    for (what, of) in [("mean", x), ("variance", squares)] {
        statistics.push(im.b.op(&label(what), &reduce::MEAN, Reduce { axes, keep_axes: 0 }, &[of])?);
    }
    let (scale, shift) = computed(im, node, statistics[0], statistics[1], epsilon)?;
    let mut results = vec![by_channel(im, node, x, scale, shift)?];
    for (i, new) in statistics.into_iter().enumerate().take(node.proto.output.len().saturating_sub(1)) {
        let (old, _) = im.input(node, i + 3)?;
        let (keep, take) = (im.float_like(old, momentum)?, im.float_like(new, 1.0 - momentum)?);
        let old = im.b.mul(&label(&format!("old{i}")), old, keep)?;
        let new = im.b.mul(&label(&format!("new{i}")), new, take)?;
        results.push(im.b.add(&label(&format!("running{i}")), old, new)?);
    }
    Ok(results.into_iter().map(|value| Item::Value { value, wide: false }).collect())
}

fn vector(im: &mut Importer<'_>, node: &Node<'_>, x: &[f32]) -> Result<Value, Fail> {
    let constant = Constant {
        name: String::new(),
        dtype: DType::F32,
        dims: vec![x.len() as u64],
        data: Data::from_slice(x),
    };
    let item = im.add_constant(constant);
    im.materialise(&node.name, item)?.map(|(v, _)| v).ok_or(Fail::Poisoned)
}

/// The same with vectors that are not known, or not in f32.
fn computed<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    mean: Value,
    variance: Value,
    epsilon: f32,
) -> Result<(Value, Value), Fail> {
    let ((gamma, _), (beta, _)) = (im.input(node, 1)?, im.input(node, 2)?);
    let label = |what: &str| format!("{}:{what}", node.name);
    let epsilon = im.float_like(variance, epsilon)?;
    let sum = im.b.add(&label("variance"), variance, epsilon)?;
    let root = im.b.op(&label("deviation"), &unary::SQRT, NoAttributes {}, &[sum])?;
    let scale = im.b.op(&label("factor"), &binary::DIV, Binary::default(), &[gamma, root])?;
    let moved = im.b.mul(&label("mean"), mean, scale)?;
    let shift = im.b.op(&label("offset"), &binary::SUB, Binary::default(), &[beta, moved])?;
    Ok((scale, shift))
}
