//! Regions of interest, and boxes that are left of many.

use crate::functions::Elementary;
use crate::number::{BF16, F16, Float, Stored};
use crate::registry::{Registered, kernel_set, kernels, sets, sized};
use crate::{OUT_OF_RANGE, expect, product};
use core::cmp::Ordering;
use serinette_core::op::NoAttributes;
use serinette_core::op::gather::checked_index;
use serinette_core::op::region as op;
use serinette_core::op::region::{NonMaxSuppression, RoiAlign};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[roi_align::KERNELS, roi_align_max::KERNELS, SUPPRESSION, max_unpool::KERNELS];

static SUPPRESSION: &[Registered] = kernels! { region:
    op::NON_MAX_SUPPRESSION => suppress, sets::F32 => sets::I32;
};

sized! { /// `MaxUnpool`.
region::max_unpool = op::MAX_UNPOOL, unpool, same }

macro_rules! rois {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $mean:literal;)+) => {$(
        $(#[$doc])+
        pub mod $module {
            use super::*;
            /// For f32.
            pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                align::<f32, $mean>(step, ops)
            }
            /// For f16.
            pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                align::<F16, $mean>(step, ops)
            }
            /// For bf16.
            pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                align::<BF16, $mean>(step, ops)
            }
            /// For f64.
            pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                align::<f64, $mean>(step, ops)
            }
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] =
                kernel_set!(region, $module, op::$op, [f32 F32, f16 F16, bf16 BF16, f64 F64], same);
        }
    )+};
}

rois! {
    /// `RoiAlign`.
    roi_align = ROI_ALIGN, true;
    /// `RoiAlignMax`.
    roi_align_max = ROI_ALIGN_MAX, false;
}

/// Channels that are pooled at a time.
const LANES: usize = 16;

/// One axis of a region.
#[derive(Clone, Copy)]
struct Side<W> {
    start: W,
    bin: W,
    samples: usize,
    /// Size of the image.
    n: usize,
}

impl<W: Elementary> Side<W> {
    fn new(attrs: &RoiAlign, [start, end]: [W; 2], bins: u32, n: usize) -> Side<W> {
        let of = W::of;
        let offset = if attrs.half_pixel == 1 { of(0.5) } else { of(0.0) };
        let scale = of(attrs.scale.into());
        let (start, end) = (start * scale - offset, end * scale - offset);
        let mut extent = end - start;
        if attrs.half_pixel == 0 && extent < of(1.0) {
            extent = of(1.0);
        }
        let bin = extent / of(bins.into());
        // NaN and what is below 0 become 0.
        let adaptive = (bin.ceil().wide() as usize).min(n.saturating_mul(2).saturating_add(1));
        let samples = if attrs.samples > 0 { attrs.samples as usize } else { adaptive };
        Side { start, bin, samples, n }
    }

    /// The two neighbours of sample `i` of bin `p` and their weights; `None` outside.
    fn taps(&self, p: usize, i: usize) -> Option<[(usize, W); 2]> {
        let of = W::of;
        let at = self.start
            + of(p as f64) * self.bin
            + (of(i as f64) + of(0.5)) * self.bin / of(self.samples as f64);
        let last = self.n.checked_sub(1)?;
        if !(at >= of(-1.0) && at <= of(self.n as f64)) {
            return None;
        }
        let at = if at < of(0.0) { of(0.0) } else { at };
        let low = at.floor();
        let first = low.wide() as usize;
        if first >= last {
            return Some([(last, of(1.0)), (last, of(0.0))]);
        }
        let rest = at - low;
        Some([(first, of(1.0) - rest), (first + 1, rest)])
    }
}

fn align<T: Stored, const MEAN: bool>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: RoiAlign = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let (x, regions, indices) = (ops.input::<T>(0)?, ops.input::<T>(1)?, ops.input::<i32>(2)?);
    let y = ops.output::<T>(0)?;
    expect("rank of x", 4, shape.rank())?;
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    let [height, width] = attrs.output.map(|n| n as usize);
    let (channels, bins) = (shape.dim(1), height * width);
    expect("elements of y", product(&[indices.len(), channels, bins]), y.len())?;
    expect("elements of the regions", product(&[indices.len(), 4]), regions.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let plane = shape.inner(1);
    let of_region = y.chunks_exact_mut(channels * bins).zip(regions.chunks_exact(4)).zip(indices);
    for ((y, region), index) in of_region {
        let Some(image) = checked_index(i64::from(*index), shape.dim(0)) else {
            y.fill(T::zeroed());
            step.fault.bad_index(step.step);
            continue;
        };
        let x = x.get(image.wrapping_mul(channels * plane)..).ok_or(OUT_OF_RANGE)?;
        let [x1, y1, x2, y2] = region else { return Err(OUT_OF_RANGE) };
        let rows = Side::new(&attrs, [y1.load(), y2.load()], attrs.output[0], shape.dim(2));
        let columns = Side::new(&attrs, [x1.load(), x2.load()], attrs.output[1], shape.dim(3));
        for (block, y) in y.chunks_mut(LANES * bins).enumerate() {
            let x = x.get(block.wrapping_mul(LANES * plane)..).ok_or(OUT_OF_RANGE)?;
            for bin in 0..bins {
                let place = [bin / width, bin % width];
                let pooled = pool::<T, MEAN>(x, plane, y.len() / bins, &rows, &columns, place)?;
                y.iter_mut().skip(bin).step_by(bins).zip(pooled).for_each(|(y, v)| *y = T::store(v));
            }
        }
    }
    Ok(())
}

/// One bin in up to `LANES` channels.
fn pool<T: Stored, const MEAN: bool>(
    x: &[T],
    plane: usize,
    channels: usize,
    rows: &Side<T::Wide>,
    columns: &Side<T::Wide>,
    [p, q]: [usize; 2],
) -> Result<[T::Wide; LANES], KernelError> {
    let zero = T::Wide::of(0.0);
    let mut pooled = [zero; LANES];
    let mut first = true;
    for i in 0..rows.samples {
        let above = rows.taps(p, i);
        for j in 0..columns.samples {
            let taps = above.zip(columns.taps(q, j));
            for (c, pooled) in pooled.iter_mut().enumerate().take(channels) {
                let mut sample = zero;
                let mut greatest = None;
                for (row, a) in taps.iter().flat_map(|(rows, _)| rows) {
                    for (column, b) in taps.iter().flat_map(|(_, columns)| columns) {
                        let weight = *a * *b;
                        let mut term = zero;
                        if weight != zero {
                            let at = c.wrapping_mul(plane).wrapping_add(row * columns.n + column);
                            term = weight * x.get(at).ok_or(OUT_OF_RANGE)?.load();
                            sample = sample + term;
                        }
                        greatest = Some(greatest.map_or(term, |g| greater(g, term)));
                    }
                }
                *pooled = match greatest {
                    _ if MEAN => *pooled + sample,
                    g if first => g.unwrap_or(zero),
                    g => greater(*pooled, g.unwrap_or(zero)),
                };
            }
            first = false;
        }
    }
    let count = T::Wide::of((rows.samples as f64 * columns.samples as f64).max(1.0));
    Ok(if MEAN { pooled.map(|sum| sum / count) } else { pooled })
}

/// The greater, NaN where one is.
fn greater<W: Float>(a: W, b: W) -> W {
    if b > a || b.nan() { b } else { a }
}

/// `NonMaxSuppression`.
pub fn suppress(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: NonMaxSuppression = step.attributes()?;
    let (shape, scored, out) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let (boxes, scores) = (ops.input::<f32>(0)?, ops.input::<f32>(1)?);
    let order = ops.scratch::<u32>();
    let (chosen, count) = (ops.output::<i32>(0)?, ops.output::<i32>(1)?);
    expect("elements of boxes", shape.elements(), boxes.len())?;
    expect("elements of scores", scored.elements(), scores.len())?;
    expect("elements of chosen", out.elements(), chosen.len())?;
    expect("numbers of a choice", 3, out.dim(1))?;
    let [count] = count else { return Err(KernelError::new("elements of the count", 1, count.len())) };
    let (n, classes) = (scored.dim(2), scored.dim(1));
    expect("elements of boxes", product(&[scored.dim(0), n, 4]), boxes.len())?;
    chosen.fill(0);
    *count = 0;
    if scores.is_empty() {
        return Ok(());
    }
    let room = order.len();
    let order = order.get_mut(..n).ok_or(KernelError::new("scratch", n, room))?;
    let (boxes, _) = boxes.as_chunks::<4>();
    let (chosen, _) = chosen.as_chunks_mut::<3>();
    let mut filled = 0usize;
    for (i, scores) in scores.chunks_exact(n).enumerate() {
        let (batch, class) = (i / classes, i % classes);
        let boxes = boxes.get(batch.wrapping_mul(n)..).and_then(|b| b.get(..n)).ok_or(OUT_OF_RANGE)?;
        let candidates = candidates(&attrs, scores, order)?;
        let start = filled;
        for at in candidates.iter() {
            if filled == chosen.len() || filled - start == attrs.most as usize {
                break;
            }
            let this = boxes.get(*at as usize).ok_or(OUT_OF_RANGE)?;
            let before = chosen.get(start..filled).unwrap_or(&[]);
            let hidden = before.iter().any(|[_, _, other]| {
                let other = usize::try_from(*other).ok().and_then(|o| boxes.get(o));
                other.is_some_and(|other| overlap(&attrs, this, other) > attrs.overlap)
            });
            if !hidden {
                let number = |v: usize| i32::try_from(v).unwrap_or(i32::MAX);
                *chosen.get_mut(filled).ok_or(OUT_OF_RANGE)? =
                    [number(batch), number(class), number(*at as usize)];
                filled += 1;
            }
        }
    }
    *count = i32::try_from(filled).unwrap_or(i32::MAX);
    Ok(())
}

/// The boxes whose score is high enough, best first.
fn candidates<'o>(
    attrs: &NonMaxSuppression,
    scores: &[f32],
    order: &'o mut [u32],
) -> Result<&'o [u32], KernelError> {
    let mut count = 0;
    for (i, score) in scores.iter().enumerate() {
        if *score > attrs.score || (attrs.score == f32::NEG_INFINITY && *score == attrs.score) {
            *order.get_mut(count).ok_or(OUT_OF_RANGE)? = u32::try_from(i).map_err(|_| OUT_OF_RANGE)?;
            count += 1;
        }
    }
    let order = order.get_mut(..count).ok_or(OUT_OF_RANGE)?;
    let score = |i: u32| scores.get(i as usize).copied().unwrap_or(0.0);
    let falling = |a: &u32, b: &u32| score(*b).partial_cmp(&score(*a)).unwrap_or(Ordering::Equal);
    order.sort_unstable_by(|a, b| falling(a, b).then(a.cmp(b)));
    Ok(order)
}

/// The part of the union of two boxes that both cover; −∞ for none.
fn overlap(attrs: &NonMaxSuppression, a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let lesser = |a: f32, b: f32| if a < b { a } else { b };
    let greater = |a: f32, b: f32| if a > b { a } else { b };
    // Start and end along an axis, of which `i` is the first number.
    let ends = |x: &[f32; 4], i: usize| {
        if attrs.centred == 1 {
            let half = x[i + 2] / 2.0;
            (x[i] - half, x[i] + half)
        } else {
            (lesser(x[i], x[i + 2]), greater(x[i], x[i + 2]))
        }
    };
    let [(a0, a1), (b0, b1), (a2, a3), (b2, b3)] = [ends(a, 0), ends(b, 0), ends(a, 1), ends(b, 1)];
    let sides = [lesser(a1, b1) - greater(a0, b0), lesser(a3, b3) - greater(a2, b2)];
    let (area_a, area_b) = ((a1 - a0) * (a3 - a2), (b1 - b0) * (b3 - b2));
    let both = sides[0] * sides[1];
    let union = area_a + area_b - both;
    let some = [sides[0], sides[1], both, area_a, area_b, union].iter().all(|v| *v > 0.0);
    if some { both / union } else { f32::NEG_INFINITY }
}

fn unpool<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (x, indices, y) = (ops.input::<T>(0)?, ops.input::<i32>(1)?, ops.output::<T>(0)?);
    expect("elements of x", step.input(0)?.elements(), x.len())?;
    expect("elements of indices", x.len(), indices.len())?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    y.fill(T::zeroed());
    let n = y.len();
    for (x, index) in x.iter().zip(indices) {
        match checked_index(i64::from(*index), n).and_then(|at| y.get_mut(at)) {
            Some(y) => *y = *x,
            None => step.fault.bad_index(step.step),
        }
    }
    Ok(())
}
