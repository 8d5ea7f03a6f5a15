//! Convolutions, their transposes, and those of 8-bit integers.

use super::spatial::{self, AutoPad};
use super::{Handler, one};
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::op::conv::Conv2d;
use serinette_core::op::conv_transpose::{CONV_TRANSPOSE, ConvTranspose};
use serinette_core::op::conv3d::CONV3D;
use serinette_core::op::integer::{CONV_INTEGER, QLINEAR_CONV};
use serinette_core::op::spatial::{Conv, MAX_AXES, Spatial};
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("ConvInteger", conv_integer),
    ("QLinearConv", qlinear_conv),
];

fn groups(node: &Node<'_>) -> Result<u32, Fail> {
    let groups = node.int("group", 1)?;
    u32::try_from(groups).ok().filter(|g| *g > 0).ok_or_else(|| node.wrong(format!("group {groups}")))
}

/// The windows of a convolution of `x` with `w`.
fn attributes(im: &Importer<'_>, node: &Node<'_>, x: Value, w: Value) -> Result<Conv, Fail> {
    if im.rank(x) != im.rank(w) {
        let (want, have) = (im.rank(x) as u64, im.rank(w) as u64);
        return Err(Fail::Wrong(Error::count(&node.name, "axes of the weights", want, have)));
    }
    let taps = spatial::taps(im, node, w)?;
    let spatial = spatial::windows(im, node, x, taps)?;
    Ok(Conv { spatial, groups: groups(node)?, activation: 0 })
}

fn conv<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (w, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let bias = im.optional(node, 2)?.map(|(v, _)| v);
    let attrs = attributes(im, node, x, w)?;
    let axes = spatial::axes_of(im, node, x)?;
    if axes == MAX_AXES {
        let inputs: Vec<Value> = [x, w].into_iter().chain(bias).collect();
        return one(im.b.op(&node.name, &CONV3D, attrs, &inputs)?, false);
    }
    let (x, w) = (spatial::lifted(im, node, "an input", x)?, spatial::lifted(im, node, "a kernel", w)?);
    let planar = Conv2d { geometry: spatial::planar(&attrs.spatial), groups: attrs.groups, activation: 0 };
    let y = im.b.conv2d(&node.name, planar, x, w, bias)?;
    one(spatial::lowered(im, node, y, axes)?, false)
}

fn conv_integer<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (w, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let attrs = attributes(im, node, x, w)?;
    let zeros = [im.optional(node, 2)?, im.optional(node, 3)?].map(|z| z.map(|(v, _)| v));
    let inputs = [Some(x), Some(w), zeros[0], zeros[1]];
    one(im.b.single(&node.name, &CONV_INTEGER, attrs, trimmed(&inputs), &[], None)?, false)
}

fn qlinear_conv<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let mut inputs = Vec::new();
    for i in 0..8 {
        inputs.push(im.input(node, i)?.0);
    }
    let attrs = attributes(im, node, inputs[0], inputs[3])?;
    inputs.extend(im.optional(node, 8)?.map(|(v, _)| v));
    one(im.b.op(&node.name, &QLINEAR_CONV, attrs, &inputs)?, false)
}

/// Without the absent inputs at the end.
pub(super) fn trimmed(inputs: &[Option<Value>]) -> &[Option<Value>] {
    let given = inputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    inputs.get(..given).unwrap_or(inputs)
}

fn conv_transpose<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (w, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let bias = im.optional(node, 2)?.map(|(v, _)| v);
    let axes = spatial::axes_of(im, node, x)?;
    if im.rank(w) != axes + 2 {
        let (want, have) = (axes as u64 + 2, im.rank(w) as u64);
        return Err(Fail::Wrong(Error::count(&node.name, "axes of the weights", want, have)));
    }
    let taps = spatial::taps(im, node, w)?;
    let mut attrs = ConvTranspose {
        spatial: spatial::explicit(node, axes)?,
        output_padding: spatial::list(node, "output_padding", axes, 0)?.unwrap_or([0; MAX_AXES]),
        groups: groups(node)?,
        activation: 0,
        reserved: 0,
    };
    let wanted = spatial::list(node, "output_shape", axes, 0)?;
    let mode = spatial::auto_pad(node)?;
    if mode == AutoPad::Valid {
        (attrs.spatial.before, attrs.spatial.after) = ([0; MAX_AXES], [0; MAX_AXES]);
    }
    let sizes = im.dims_of(x);
    for axis in 0..axes {
        let i = MAX_AXES - axes + axis;
        let size = im.b.graph.dims.known(sizes[axis + 2]);
        fit(&mut attrs, i, size, taps[i], wanted.map(|w| w[i]), mode)?;
    }
    let inputs: Vec<Value> = [x, w].into_iter().chain(bias).collect();
    one(im.b.op(&node.name, &CONV_TRANSPOSE, attrs, &inputs)?, false)
}

/// Works out the padding of entry `i` from the size that is wanted: `wanted`, or with automatic padding the input's
/// times the stride. What the windows do not reach becomes output padding.
fn fit(
    attrs: &mut ConvTranspose,
    i: usize,
    size: Option<u64>,
    taps: u32,
    wanted: Option<u32>,
    mode: AutoPad,
) -> Result<(), Fail> {
    let Spatial { strides, dilations, .. } = attrs.spatial;
    let (stride, extra) = (i128::from(strides[i]), i128::from(attrs.output_padding[i]));
    let span = i128::from(dilations[i]) * (i128::from(taps) - 1) + 1;
    // stride·(size − 1) + output padding + span − wanted
    let total = match (wanted, mode) {
        (Some(wanted), _) => {
            let Some(size) = size else { return unsupported("output_shape for an open size") };
            stride * (i128::from(size) - 1) + extra + span - i128::from(wanted)
        }
        (None, AutoPad::Same(_)) => span + extra - stride,
        (None, _) => return Ok(()),
    };
    if total < 0 {
        let more =
            u32::try_from(extra - total).map_err(|_| Fail::Unsupported("an output too large".into()))?;
        attrs.output_padding[i] = more;
        (attrs.spatial.before[i], attrs.spatial.after[i]) = (0, 0);
        return Ok(());
    }
    // The specification: the odd one lies behind with SAME_UPPER only.
    let upper = mode == AutoPad::Same(true);
    let total = u64::try_from(total).unwrap_or(u64::MAX);
    (attrs.spatial.before[i], attrs.spatial.after[i]) = spatial::halves(total, upper);
    Ok(())
}
