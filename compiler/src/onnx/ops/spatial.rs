//! Where windows slide over one to three spatial axes: what convolutions and pools have in common.

use crate::builder::Size;
use crate::graph::Value;
use crate::onnx::graph::Importer;
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::op::conv::Geometry;
use serinette_core::op::spatial::{MAX_AXES, Spatial, aligned};
use serinette_core::shape::DimAlgebra;

/// The spatial axes of `x` `[N, C, …]`.
pub(super) fn axes_of(im: &Importer<'_>, node: &Node<'_>, x: Value) -> Result<usize, Fail> {
    let rank = im.rank(x);
    match rank.checked_sub(2) {
        Some(axes) if (1..=MAX_AXES).contains(&axes) => Ok(axes),
        Some(axes) if axes > MAX_AXES => unsupported(format!("{axes} spatial axes (at most {MAX_AXES})")),
        _ => Err(node.wrong(format!("an input with {rank} axes has no spatial ones"))),
    }
}

/// One number for each of `count` axes; `None` where the attribute is absent.
fn numbers(node: &Node<'_>, name: &str, count: usize) -> Result<Option<Vec<u32>>, Fail> {
    let Some(ints) = node.ints(name) else { return Ok(None) };
    if ints.len() != count {
        return Err(node.wrong(format!("{name} has {} entries; {count} are needed", ints.len())));
    }
    let number =
        |i: &i64| u32::try_from(*i).map_err(|_| Fail::Unsupported(format!("{name} has the entry {i}")));
    ints.iter().map(number).collect::<Result<Vec<u32>, Fail>>().map(Some)
}

/// An attribute with one number for each axis, in the order of [`Spatial`].
pub(super) fn list(
    node: &Node<'_>,
    name: &str,
    axes: usize,
    neutral: u32,
) -> Result<Option<[u32; MAX_AXES]>, Fail> {
    Ok(numbers(node, name, axes)?.and_then(|all| aligned(axes, &all, neutral)))
}

/// How far padding is left to the op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// The attribute `pads` says it.
    Explicit,
    /// None.
    Valid,
    /// As much as is needed, the odd one behind (true) or before.
    Same(bool),
}

/// The attribute `auto_pad`.
pub(super) fn auto_pad(node: &Node<'_>) -> Result<AutoPad, Fail> {
    match node.text("auto_pad", "NOTSET")?.as_str() {
        "NOTSET" => Ok(AutoPad::Explicit),
        "VALID" => Ok(AutoPad::Valid),
        "SAME_UPPER" => Ok(AutoPad::Same(true)),
        "SAME_LOWER" => Ok(AutoPad::Same(false)),
        mode => Err(node.wrong(format!("auto_pad {mode:?}"))),
    }
}

/// Strides, dilations and the explicit padding.
pub(super) fn explicit(node: &Node<'_>, axes: usize) -> Result<Spatial, Fail> {
    let pads = numbers(node, "pads", 2 * axes)?.unwrap_or(vec![0; 2 * axes]);
    let side = |part: Option<&[u32]>| part.and_then(|p| aligned(axes, p, 0)).unwrap_or([0; MAX_AXES]);
    Ok(Spatial {
        strides: list(node, "strides", axes, 1)?.unwrap_or([1; MAX_AXES]),
        before: side(pads.get(..axes)),
        after: side(pads.get(axes..)),
        dilations: list(node, "dilations", axes, 1)?.unwrap_or([1; MAX_AXES]),
    })
}

/// Windows of `taps` over `x`, with `auto_pad` worked out.
pub(super) fn windows(
    im: &Importer<'_>,
    node: &Node<'_>,
    x: Value,
    taps: [u32; MAX_AXES],
) -> Result<Spatial, Fail> {
    let axes = axes_of(im, node, x)?;
    let mut s = explicit(node, axes)?;
    let upper = match auto_pad(node)? {
        AutoPad::Explicit => return Ok(s),
        AutoPad::Valid => {
            (s.before, s.after) = ([0; MAX_AXES], [0; MAX_AXES]);
            return Ok(s);
        }
        AutoPad::Same(upper) => upper,
    };
    for (axis, d) in im.dims_of(x).into_iter().skip(2).enumerate() {
        let i = MAX_AXES - axes + axis;
        let stride = u64::from(s.strides[i].max(1));
        let span = u64::from(s.dilations[i]) * u64::from(taps[i]).saturating_sub(1) + 1;
        let total = match im.b.graph.dims.known(d) {
            // As many positions as the input has elements, whatever their number.
            _ if stride == 1 => span - 1,
            Some(size) => {
                let last = size.div_ceil(stride).saturating_sub(1).saturating_mul(stride);
                last.saturating_add(span).saturating_sub(size)
            }
            None => return unsupported("automatic padding with a stride, for an open size"),
        };
        (s.before[i], s.after[i]) = halves(total, upper);
    }
    Ok(s)
}

/// Padding before and behind an axis; of an odd total the larger half lies behind if `upper`.
pub(super) fn halves(total: u64, upper: bool) -> (u32, u32) {
    let total = u32::try_from(total).unwrap_or(u32::MAX);
    let (small, large) = (total / 2, total - total / 2);
    if upper { (small, large) } else { (large, small) }
}

/// The sizes of a kernel behind its channels, in the order of [`Spatial`].
pub(super) fn taps(im: &Importer<'_>, node: &Node<'_>, w: Value) -> Result<[u32; MAX_AXES], Fail> {
    let axes = axes_of(im, node, w)?;
    let size = |d| im.b.graph.dims.known(d).and_then(|n| u32::try_from(n).ok());
    let known: Option<Vec<u32>> = im.dims_of(w).into_iter().skip(2).map(size).collect();
    let known = known.ok_or(Fail::Unsupported("a kernel of open size".into()))?;
    let taps = aligned(axes, &known, 1).unwrap_or([1; MAX_AXES]);
    match list(node, "kernel_shape", axes, 1)? {
        Some(given) if given != taps => Err(node.wrong("kernel_shape is not that of the weights")),
        _ => Ok(taps),
    }
}

/// The windows over the last two axes.
pub(super) fn planar(s: &Spatial) -> Geometry {
    let ([_, s0, s1], [_, b0, b1], [_, a0, a1], [_, d0, d1]) = (s.strides, s.before, s.after, s.dilations);
    Geometry { strides: [s0, s1], pads: [b0, b1, a0, a1], dilations: [d0, d1] }
}

/// A tensor with an axis of size 1 in front of its spatial axis, where it has one.
pub(super) fn lifted(im: &mut Importer<'_>, node: &Node<'_>, what: &str, x: Value) -> Result<Value, Fail> {
    match im.dims_of(x).as_slice() {
        [n, c, l] => {
            let sizes = [Size::Expr(*n), Size::Expr(*c), Size::Number(1), Size::Expr(*l)];
            Ok(im.b.reshape(&format!("{}:{what}", node.name), x, &sizes)?)
        }
        _ => Ok(x),
    }
}

/// The result of an op on lifted tensors without the axis that was put in.
pub(super) fn lowered(im: &mut Importer<'_>, node: &Node<'_>, y: Value, axes: usize) -> Result<Value, Fail> {
    match im.dims_of(y).as_slice() {
        [n, c, _, l] if axes == 1 => {
            let sizes = [Size::Expr(*n), Size::Expr(*c), Size::Expr(*l)];
            Ok(im.b.reshape(&format!("{}:flat", node.name), y, &sizes)?)
        }
        _ => Ok(y),
    }
}
