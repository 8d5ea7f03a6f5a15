//! Resampling: resize, sampling on grids, regions, columns to images, undone pooling.

use super::{Handler, one};
use crate::builder::Size;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use serinette_core::MAX_RANK;
use serinette_core::op::col2im::{self, COL2IM, Col2Im};
use serinette_core::op::pad::{PAD, Pad};
use serinette_core::op::region::{self, MAX_UNPOOL, RoiAlign};
use serinette_core::op::resize::{self, Resize, coordinates, rounding};
use serinette_core::op::sample::{self, AffineGrid, GridSample};
use serinette_core::op::{NoAttributes, OpDescriptor};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Resize", resize_),
    ("Upsample", upsample),
    ("GridSample", grid_sample),
    ("AffineGrid", affine_grid),
    ("RoiAlign", roi_align),
    ("MaxUnpool", max_unpool),
    ("Col2Im", col2im_),
];

/// The code of a text attribute in a table.
fn code(node: &Node<'_>, name: &str, default: &str, table: &[(&str, u32)]) -> Result<u32, Fail> {
    let text = node.text(name, default)?;
    match table.iter().find(|(t, _)| *t == text) {
        Some((_, code)) => Ok(*code),
        None => Err(node.wrong(format!("{name} = {text:?}"))),
    }
}

/// What is to become of one axis.
#[derive(Clone, Copy)]
struct Target {
    size: Size,
    /// Given, or 0 where it follows from the sizes.
    scale: f32,
}

/// `⌊d · scale⌋`.
fn scaled(im: &mut Importer<'_>, node: &Node<'_>, d: Dim, scale: f32) -> Result<Size, Fail> {
    let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(node.wrong(format!("a scale of {scale}")));
    }
    let table = &mut im.b.graph.dims;
    if let Some(n) = table.known(d) {
        return Ok(Size::Number((n as f64 * f64::from(scale)).floor() as u64));
    }
    // An open size takes quotients of small numbers only.
    for below in 1..=64u64 {
        let above = f64::from(scale) * below as f64;
        let near = above.round();
        if (1.0..65536.0).contains(&near) && (near / below as f64) as f32 == scale {
            let by = table.constant(near as u64).map_err(wrong)?;
            let all = table.mul(d, by).map_err(wrong)?;
            return Ok(Size::Expr(table.div_floor(all, below).map_err(wrong)?));
        }
    }
    unsupported(format!("a scale of {scale} along an open size"))
}

/// Numbers of an input that is known at import; `None` where it is absent or empty.
fn numbers<'m>(im: &Importer<'m>, node: &Node<'m>, i: usize, what: &str) -> Result<Option<Vec<f32>>, Fail> {
    if !node.has(i) {
        return Ok(None);
    }
    match im.constant(node, i).map(|c| (c.floats(), c.data.len())) {
        Some((_, 0)) => Ok(None),
        Some((Some(v), _)) => Ok(Some(v)),
        _ => unsupported(format!("{what} must be constant")),
    }
}

/// Sizes of an input; `None` where it is absent or empty.
fn sizes<'m>(im: &Importer<'m>, node: &Node<'m>, i: usize) -> Result<Option<Vec<Entry>>, Fail> {
    Ok(im.entries(node, i, "the sizes")?.filter(|s| !s.is_empty()))
}

static COORDINATES: &[(&str, u32)] = &[
    ("half_pixel", coordinates::HALF_PIXEL),
    ("pytorch_half_pixel", coordinates::PYTORCH_HALF_PIXEL),
    ("align_corners", coordinates::ALIGN_CORNERS),
    ("asymmetric", coordinates::ASYMMETRIC),
    ("half_pixel_symmetric", coordinates::HALF_PIXEL_SYMMETRIC),
    ("tf_crop_and_resize", coordinates::TF_CROP_AND_RESIZE),
    ("tf_half_pixel_for_nn", coordinates::TF_HALF_PIXEL_FOR_NN),
];

static ROUNDING: &[(&str, u32)] = &[
    ("round_prefer_floor", rounding::PREFER_FLOOR),
    ("round_prefer_ceil", rounding::PREFER_CEIL),
    ("floor", rounding::FLOOR),
    ("ceil", rounding::CEIL),
];

fn resize_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let old = im.opset < 11;
    let axes: Vec<usize> = match node.ints("axes") {
        Some(axes) => axes.iter().map(|a| node.axis(*a, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).collect(),
    };
    // Version 10 has no region, and positions as they then were.
    let scales = numbers(im, node, if old { 1 } else { 2 }, "the scales")?;
    let sizes = if old { None } else { sizes(im, node, 3)? };
    let mode = node.text("mode", "nearest")?;
    let mut attrs = Resize {
        coordinates: match old {
            true => coordinates::ASYMMETRIC,
            false => code(node, "coordinate_transformation_mode", "half_pixel", COORDINATES)?,
        },
        ..Resize::default()
    };
    let nearest_mode = match old {
        true => rounding::FLOOR,
        false => code(node, "nearest_mode", "round_prefer_floor", ROUNDING)?,
    };
    let antialias = node.int("antialias", 0)? != 0;
    let exclude = u32::from(node.int("exclude_outside", 0)? != 0);
    let (cubic, extrapolation) =
        (node.float("cubic_coeff_a", -0.75)?, node.float("extrapolation_value", 0.0)?);
    let op = kernel(node, &mode, antialias)?;
    let crops = attrs.coordinates == coordinates::TF_CROP_AND_RESIZE;
    match mode.as_str() {
        "nearest" => attrs.rounding = nearest_mode,
        _ => {
            attrs.exclude_outside = exclude;
            attrs.extrapolation = if crops { extrapolation } else { 0.0 };
            attrs.cubic = if mode == "cubic" { cubic } else { 0.0 };
        }
    }
    if crops {
        let region = numbers(im, node, 1, "the region")?.unwrap_or_default();
        if region.len() != 2 * axes.len() {
            return Err(node.wrong(format!("a region of {} numbers for {} axes", region.len(), axes.len())));
        }
        for (i, axis) in axes.iter().enumerate() {
            (attrs.box_starts[*axis], attrs.box_ends[*axis]) = (region[i], region[i + axes.len()]);
        }
    }
    let targets = targets(im, node, &dims, &axes, scales, sizes)?;
    let extrapolation =
        if crops && mode == "nearest" { Some(im.float_like(x, extrapolation)?) } else { None };
    resample(im, node, Resampling { op, attrs, x, wide, extrapolation }, &axes, &targets)
}

fn kernel(node: &Node<'_>, mode: &str, antialias: bool) -> Result<&'static OpDescriptor, Fail> {
    Ok(match (mode, antialias) {
        ("nearest", _) => &resize::RESIZE_NEAREST,
        ("linear" | "bilinear", false) => &resize::RESIZE_LINEAR,
        ("linear" | "bilinear", true) => &resize::RESIZE_LINEAR_ANTIALIAS,
        ("cubic", false) => &resize::RESIZE_CUBIC,
        ("cubic", true) => &resize::RESIZE_CUBIC_ANTIALIAS,
        _ => return Err(node.wrong(format!("mode {mode:?}"))),
    })
}

/// Size and scale of each of `axes`.
fn targets<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    dims: &[Dim],
    axes: &[usize],
    scales: Option<Vec<f32>>,
    sizes: Option<Vec<Entry>>,
) -> Result<Vec<Target>, Fail> {
    let policy = node.text("keep_aspect_ratio_policy", "stretch")?;
    let count = |n: usize| -> Result<(), Fail> {
        match n == axes.len() {
            true => Ok(()),
            false => Err(node.wrong(format!("{n} scales or sizes for {} axes", axes.len()))),
        }
    };
    match (scales, sizes) {
        (_, Some(sizes)) => {
            count(sizes.len())?;
            if policy != "stretch" {
                return kept_aspect(im, node, dims, axes, &sizes, &policy);
            }
            sizes.iter().map(|e| Ok(Target { size: e.size(node)?, scale: 0.0 })).collect()
        }
        (Some(scales), None) => {
            count(scales.len())?;
            let mut all = Vec::new();
            for (axis, scale) in axes.iter().zip(scales) {
                all.push(Target { size: scaled(im, node, dims[*axis], scale)?, scale });
            }
            Ok(all)
        }
        (None, None) => Err(node.wrong("neither scales nor sizes")),
    }
}

/// One scale for all axes: the least or greatest of those that the sizes ask for.
fn kept_aspect(
    im: &Importer<'_>,
    node: &Node<'_>,
    dims: &[Dim],
    axes: &[usize],
    sizes: &[Entry],
    policy: &str,
) -> Result<Vec<Target>, Fail> {
    let mut ratios = Vec::new();
    let mut known = Vec::new();
    for (axis, size) in axes.iter().zip(sizes) {
        let (Some(n), Entry::Number(m)) = (im.b.graph.dims.known(dims[*axis]), size) else {
            return unsupported(format!("keep_aspect_ratio_policy = {policy} for an open size"));
        };
        ratios.push((*m as f64 / n as f64) as f32);
        known.push(n);
    }
    let scale = match policy {
        "not_larger" => ratios.iter().copied().fold(f32::INFINITY, f32::min),
        "not_smaller" => ratios.iter().copied().fold(0.0, f32::max),
        _ => return Err(node.wrong(format!("keep_aspect_ratio_policy {policy:?}"))),
    };
    // Rounded half up.
    let target = |n: u64| {
        let size = (f64::from(scale) * n as f64 + 0.5).floor().max(0.0) as u64;
        Target { size: Size::Number(size), scale }
    };
    Ok(known.into_iter().map(target).collect())
}

/// What a resize is made of.
struct Resampling {
    op: &'static OpDescriptor,
    attrs: Resize,
    x: Value,
    wide: bool,
    /// What a nearest crop reads outside of the input.
    extrapolation: Option<Value>,
}

/// Resizes `axes` to `targets`.
fn resample<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    resampling: Resampling,
    axes: &[usize],
    targets: &[Target],
) -> Result<Vec<Item>, Fail> {
    let Resampling { op, mut attrs, x, wide, extrapolation } = resampling;
    let dims = im.dims_of(x);
    let mut sizes: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    for (axis, target) in axes.iter().zip(targets) {
        let same = match target.size {
            Size::Expr(d) => d == dims[*axis],
            Size::Number(n) => im.b.graph.dims.known(dims[*axis]) == Some(n),
        };
        let crops = attrs.coordinates == coordinates::TF_CROP_AND_RESIZE
            && (attrs.box_starts[*axis], attrs.box_ends[*axis]) != (0.0, 1.0);
        // Every coordinate rule maps an axis that keeps its size to itself.
        if same && !crops && matches!(target.scale, 0.0 | 1.0) {
            (attrs.box_starts[*axis], attrs.box_ends[*axis]) = (0.0, 0.0);
            continue;
        }
        sizes[*axis] = target.size;
        attrs.scales[*axis] = target.scale;
        attrs.axes |= 1 << axis;
    }
    if attrs.axes == 0 {
        return one(x, wide);
    }
    let mut inputs = vec![Some(x)];
    inputs.extend(extrapolation.map(Some));
    one(im.b.single(&node.name, op, attrs, &inputs, &[], Some(&sizes))?, wide)
}

/// Version 7 has the scales as an attribute, version 9 as an input; version 10 replaced it by `Resize`.
fn upsample<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let given = node.attribute("scales").map(|a| a.floats.clone());
    let scales = numbers(im, node, 1, "the scales")?.or(given);
    let op = kernel(node, &node.text("mode", "nearest")?, false)?;
    let dims = im.dims_of(x);
    let axes: Vec<usize> = (0..dims.len()).collect();
    let targets = targets(im, node, &dims, &axes, scales, None)?;
    let rounding = if op.code == resize::RESIZE_NEAREST.code { rounding::FLOOR } else { 0 };
    let attrs = Resize { coordinates: coordinates::ASYMMETRIC, rounding, ..Resize::default() };
    resample(im, node, Resampling { op, attrs, x, wide, extrapolation: None }, &axes, &targets)
}

fn grid_sample<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (grid, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let padding = [
        ("zeros", sample::padding::ZEROS),
        ("border", sample::padding::BORDER),
        ("reflection", sample::padding::REFLECTION),
    ];
    let attrs = GridSample {
        padding: code(node, "padding_mode", "zeros", &padding)?,
        align_corners: u32::from(node.int("align_corners", 0)? != 0),
    };
    // The words changed with version 20.
    let op = match node.text("mode", "linear")?.as_str() {
        "linear" | "bilinear" => &sample::GRID_SAMPLE,
        "nearest" => &sample::GRID_SAMPLE_NEAREST,
        "cubic" | "bicubic" => &sample::GRID_SAMPLE_CUBIC,
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    one(im.b.op(&node.name, op, attrs, &[x, grid])?, false)
}

fn affine_grid<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (theta, _) = im.input(node, 0)?;
    let all = im.shape_of(node, 1, "the size")?;
    // Batch, channels, then the axes of the image.
    let [batch, _, axes @ ..] = all.as_slice() else { return Err(node.wrong("the size")) };
    let mut dims = vec![*batch];
    dims.extend_from_slice(axes);
    dims.push(Size::Number(axes.len() as u64));
    let attrs = AffineGrid { align_corners: u32::from(node.int("align_corners", 0)? != 0), reserved: 0 };
    one(im.b.single(&node.name, &sample::AFFINE_GRID, attrs, &[Some(theta)], &[], Some(&dims))?, false)
}

fn roi_align<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (regions, _), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    let op = match node.text("mode", "avg")?.as_str() {
        "avg" => &region::ROI_ALIGN,
        "max" => &region::ROI_ALIGN_MAX,
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let side = |name: &str, default: i64| -> Result<u32, Fail> {
        let n = node.int(name, default)?;
        u32::try_from(n).map_err(|_| node.wrong(format!("{name} = {n}")))
    };
    // Version 10 did not move the regions.
    let default = if im.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let modes = [("output_half_pixel", 0), ("half_pixel", 1)];
    let attrs = RoiAlign {
        output: [side("output_height", 1)?, side("output_width", 1)?],
        samples: side("sampling_ratio", 0)?,
        half_pixel: code(node, "coordinate_transformation_mode", default, &modes)?,
        scale: node.float("spatial_scale", 1.0)?,
        reserved: 0,
    };
    one(im.b.op(&node.name, op, attrs, &[x, regions, indices])?, false)
}

fn max_unpool<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, wide), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let dims = im.dims_of(x);
    let spatial = dims.len().saturating_sub(2);
    let list = |name: &str, n: usize, filler: i64| -> Result<Vec<u64>, Fail> {
        let ints = node.ints(name).map_or(vec![filler; n], <[i64]>::to_vec);
        let all: Option<Vec<u64>> = ints.iter().map(|i| u64::try_from(*i).ok()).collect();
        all.filter(|v| v.len() == n).ok_or_else(|| node.wrong(format!("{name} = {ints:?}")))
    };
    let (kernel, strides) = (list("kernel_shape", spatial, 0)?, list("strides", spatial, 1)?);
    let pads = list("pads", 2 * spatial, 0)?;
    let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
    let mut undone: Vec<Dim> = dims.iter().take(2).copied().collect();
    for i in 0..spatial {
        // (n − 1) · stride + kernel − padding
        let table = &mut im.b.graph.dims;
        let steps = table.saturating_sub(dims[i + 2], 1).map_err(wrong)?;
        let stride = table.constant(strides[i]).map_err(wrong)?;
        let span = table.mul(steps, stride).map_err(wrong)?;
        let taps = table.constant(kernel[i]).map_err(wrong)?;
        let whole = table.add(span, taps).map_err(wrong)?;
        undone.push(table.saturating_sub(whole, pads[i] + pads[i + spatial]).map_err(wrong)?);
    }
    let natural: Vec<Size> = undone.iter().map(|d| Size::Expr(*d)).collect();
    let y = im.b.single(
        &node.name,
        &MAX_UNPOOL,
        NoAttributes {},
        &[Some(x), Some(indices)],
        &[],
        Some(&natural),
    )?;
    let Some(wanted) = im.entries(node, 2, "the output shape")? else { return one(y, wide) };
    // Positions count in the natural shape; what is asked for beyond it is zero.
    let attrs = Pad { starts: [0; MAX_RANK], symbolic: 0, reserved: 0 };
    let mut sizes = Vec::new();
    for (e, natural) in wanted.iter().zip(&undone) {
        let size = match e {
            Entry::Size(d) => *d,
            Entry::Number(n) => {
                let n = u64::try_from(*n).map_err(|_| node.wrong(format!("a size of {n}")))?;
                im.b.graph.dims.constant(n).map_err(wrong)?
            }
        };
        im.b.graph.dims.require_at_most("natural size of an undone pool", *natural, size).map_err(wrong)?;
        sizes.push(Size::Expr(size));
    }
    if sizes.len() != undone.len() {
        return Err(node.wrong(format!("an output shape with {} axes", sizes.len())));
    }
    if sizes == natural {
        return one(y, wide);
    }
    let name = format!("{}:padded", node.name);
    one(im.b.single(&name, &PAD, attrs, &[Some(y)], &[], Some(&sizes))?, wide)
}

fn col2im_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let image = im.shape_of(node, 1, "the image's shape")?;
    let block = im.constant_integers(node, 2, "the block's shape")?;
    let block = block.ok_or_else(|| node.wrong("the block is missing"))?;
    let axes = image.len();
    if axes == 0 || axes > col2im::MAX_AXES || block.len() != axes {
        return Err(node.wrong(format!("{axes} axes of the image, {} of the blocks", block.len())));
    }
    let list = |what: &str, ints: &[i64], filler: u32| -> Result<[u32; 6], Fail> {
        let mut all = [filler; 6];
        if ints.len() != axes {
            return Err(node.wrong(format!("{what} has {} entries for {axes} axes", ints.len())));
        }
        for (to, from) in all.iter_mut().zip(ints) {
            *to = u32::try_from(*from).map_err(|_| node.wrong(format!("{what} has the entry {from}")))?;
        }
        Ok(all)
    };
    let ones = vec![1i64; axes];
    let zeros = vec![0i64; 2 * axes];
    let pads = node.ints("pads").unwrap_or(&zeros);
    if pads.len() != 2 * axes {
        return Err(node.wrong(format!("pads has {} entries for {axes} axes", pads.len())));
    }
    let attrs = Col2Im {
        blocks: list("block_shape", &block, 1)?,
        strides: list("strides", node.ints("strides").unwrap_or(&ones), 1)?,
        dilations: list("dilations", node.ints("dilations").unwrap_or(&ones), 1)?,
        pads_before: list("pads", &pads[..axes], 0)?,
        pads_after: list("pads", &pads[axes..], 0)?,
    };
    let dims = im.dims_of(x);
    let [n, columns, _] = dims.as_slice() else {
        return Err(node.wrong("an input that is not [N, C·blocks, L]"));
    };
    let each = block.iter().try_fold(1u64, |p, b| p.checked_mul(u64::try_from(*b).ok()?)).filter(|p| *p > 0);
    let each = each.ok_or_else(|| node.wrong("the block"))?;
    let channels =
        im.b.graph.dims.div_floor(*columns, each).map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))?;
    let mut sizes = vec![Size::Expr(*n), Size::Expr(channels)];
    sizes.extend(image);
    one(im.b.single(&node.name, &COL2IM, attrs, &[Some(x)], &[], Some(&sizes))?, false)
}
