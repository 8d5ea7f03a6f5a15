//! Resampling on a regular grid. Weighted kinds blend rows of the input first and then go along the blended row.

use crate::functions::Elementary;
use crate::mapped::{AxisMap, apply};
use crate::number::{BF16, F16, Stored};
use crate::registry::{Registered, kernel_set, sized};
use crate::resize_weights::{Cubic, Kernel, Linear, Maker, Span, Table};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::MAX_RANK;
use serinette_core::op::resize as op;
use serinette_core::op::resize::{Resize, rounding};
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[nearest::KERNELS, linear::KERNELS, cubic::KERNELS, linear_antialias::KERNELS, cubic_antialias::KERNELS];

sized! { /// `ResizeNearest`.
resize::nearest = op::RESIZE_NEAREST, resize_nearest, same }

macro_rules! weighted {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $kernel:expr, $antialias:literal;)+) => {$(
        $(#[$doc])+
        pub mod $module {
            use super::*;
            /// For f32.
            pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                weighted::<f32, _>(step, ops, $kernel, $antialias)
            }
            /// For f16.
            pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                weighted::<F16, _>(step, ops, $kernel, $antialias)
            }
            /// For bf16.
            pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                weighted::<BF16, _>(step, ops, $kernel, $antialias)
            }
            /// For f64.
            pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                weighted::<f64, _>(step, ops, $kernel, $antialias)
            }
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] =
                kernel_set!(resize, $module, op::$op, [f32 F32, f16 F16, bf16 BF16, f64 F64], same);
        }
    )+};
}

weighted! {
    /// `ResizeLinear`.
    linear = RESIZE_LINEAR, |_| Linear, false;
    /// `ResizeCubic`.
    cubic = RESIZE_CUBIC, |a| Cubic(a.cubic.into()), false;
    /// `ResizeLinearAntialias`.
    linear_antialias = RESIZE_LINEAR_ANTIALIAS, |_| Linear, true;
    /// `ResizeCubicAntialias`.
    cubic_antialias = RESIZE_CUBIC_ANTIALIAS, |a| Cubic(a.cubic.into()), true;
}

/// Positions of the nearest elements.
struct Nearest<'s> {
    attrs: Resize,
    /// Sizes of the result.
    out: Shape,
    /// The last axis that is resized, and the positions along it.
    last: usize,
    positions: &'s [u32],
}

/// Stands for a position outside.
const OUTSIDE: u32 = u32::MAX;

impl Nearest<'_> {
    fn compute(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        let x = self.attrs.position(axis, i, n, self.out.dim(axis))?;
        let low = libm::floor(x);
        let rest = x - low;
        let up = match self.attrs.rounding {
            rounding::PREFER_CEIL => rest >= 0.5,
            rounding::FLOOR => false,
            rounding::CEIL => rest > 0.0,
            _ => rest > 0.5,
        };
        // Negative positions become 0.
        n.checked_sub(1).map(|last| (if up { low + 1.0 } else { low } as usize).min(last))
    }
}

impl AxisMap for Nearest<'_> {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        if axis == self.last {
            return self.positions.get(i).filter(|at| **at != OUTSIDE).map(|at| *at as usize);
        }
        if self.attrs.resizes(axis) { self.compute(axis, i, n) } else { Some(i) }
    }

    fn stays(&self, axis: usize) -> bool {
        !self.attrs.resizes(axis)
    }

    fn row<T: Copy>(&self, _: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        for (y, at) in y.iter_mut().zip(self.positions) {
            *y = match x.get(*at as usize) {
                Some(x) => *x,
                None => filler,
            };
        }
        Ok(())
    }
}

fn resize_nearest<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Resize = step.attributes()?;
    let filler = match ops.optional::<T>(1)? {
        Some([value]) => *value,
        Some(list) => return Err(KernelError::new("elements of the extrapolation value", 1, list.len())),
        None => T::zeroed(),
    };
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let scratch = ops.scratch::<u32>();
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of y", out.elements(), y.len())?;
    let last = (0..out.rank()).rev().find(|axis| attrs.resizes(*axis));
    let mut map = Nearest { attrs, out, last: last.unwrap_or(MAX_RANK), positions: &[] };
    if let Some(last) = last.filter(|_| !y.is_empty()) {
        let m = out.dim(last);
        let room = scratch.len();
        let positions = scratch.get_mut(..m).ok_or(KernelError::new("scratch", m, room))?;
        for (i, at) in positions.iter_mut().enumerate() {
            let position = map.compute(last, i, shape.dim(last));
            *at = position.map_or(OUTSIDE, |p| u32::try_from(p).unwrap_or(OUTSIDE));
        }
        map.positions = positions;
    }
    apply(&map, (&shape, x), (&out, y), filler)
}

/// Elements of a row of the result that are summed at a time where an element is a run of numbers.
const LANES: usize = 16;

fn weighted<T: Stored<Wide: bytemuck::Pod>, K: Kernel>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    kernel: impl Fn(&Resize) -> K,
    antialias: bool,
) -> Result<(), KernelError> {
    let attrs: Resize = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let scratch = ops.scratch::<T::Wide>();
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    expect("rank of y", shape.rank(), out.rank())?;
    for axis in (0..out.rank()).filter(|axis| !attrs.resizes(*axis)) {
        expect("dimension of y", shape.dim(axis), out.dim(axis))?;
    }
    let Some(last) = (0..out.rank()).rev().find(|axis| attrs.resizes(*axis)) else {
        y.copy_from_slice(x);
        return Ok(());
    };
    if y.is_empty() {
        return Ok(());
    }
    if x.is_empty() {
        return Err(KernelError::new("elements of x", 1, 0));
    }
    let run = shape.inner(last);
    let row = product(&[shape.dim(last), run]);
    let room = scratch.len();
    let (blended, mut weights) =
        scratch.split_at_mut_checked(row).ok_or(KernelError::new("scratch", row, room))?;
    let maker = Maker { attrs: &attrs, kernel: kernel(&attrs), antialias };
    let mut tables = [Table::EMPTY; MAX_RANK];
    for axis in (0..out.rank()).filter(|axis| attrs.resizes(*axis)) {
        // Three words for each element; a number is one word or two.
        let words = product(&[out.dim(axis), 3]);
        let (spans, rest) = core::mem::take(&mut weights)
            .split_at_mut_checked(words)
            .ok_or(KernelError::new("scratch", words, room))?;
        let spans = bytemuck::cast_slice_mut::<T::Wide, u32>(spans);
        let (spans, _) = spans.as_chunks_mut::<3>();
        let spans = spans.get_mut(..out.dim(axis)).ok_or(OUT_OF_RANGE)?;
        (tables[axis], weights) = maker.table(axis, shape.dim(axis), spans, rest)?;
    }
    let rows = Outer { shape: &shape, out: &out, attrs: &attrs, last, tables: &tables };
    let outside = T::store(T::Wide::of(attrs.extrapolation.into()));
    for (i, y) in y.chunks_exact_mut(product(&[out.dim(last), run])).enumerate() {
        if rows.blend(i, x, blended)? {
            along(&tables[last], blended, y, run, outside)?;
        } else {
            y.fill(outside);
        }
    }
    Ok(())
}

/// The axes outside of the rows.
struct Outer<'a, W> {
    shape: &'a Shape,
    out: &'a Shape,
    attrs: &'a Resize,
    last: usize,
    tables: &'a [Table<'a, W>; MAX_RANK],
}

impl<W: Elementary> Outer<'_, W> {
    /// The weighted sum of the rows of the input that row `i` of the result comes from; false if it lies outside.
    fn blend<T: Stored<Wide = W>>(&self, i: usize, x: &[T], sum: &mut [W]) -> Result<bool, KernelError> {
        let (mut rest, mut start) = (i, 0usize);
        let mut axes = [(Span { first: 0, weights: &[][..] }, 0usize); MAX_RANK];
        let mut count = 0;
        for axis in (0..self.last).rev() {
            let (n, stride) = (self.out.dim(axis), self.shape.inner(axis));
            let trip = rest % n;
            rest /= n;
            if !self.attrs.resizes(axis) {
                start = start.wrapping_add(trip.wrapping_mul(stride));
                continue;
            }
            let Some(span) = self.tables[axis].span(trip) else { return Ok(false) };
            let span = span?;
            start = start.wrapping_add(span.first.wrapping_mul(stride));
            axes[count] = (span, stride);
            count += 1;
        }
        sum.fill(W::of(0.0));
        let axes = axes.get(..count).unwrap_or(&[]);
        if axes.iter().any(|(span, _)| span.weights.is_empty()) {
            return Ok(true);
        }
        // Every combination of one element along each axis.
        let mut chosen = [0usize; MAX_RANK];
        loop {
            let (mut weight, mut at) = (W::of(1.0), start);
            for ((span, stride), k) in axes.iter().zip(chosen) {
                weight = weight * *span.weights.get(k).ok_or(OUT_OF_RANGE)?;
                at = at.wrapping_add(stride.wrapping_mul(k));
            }
            if weight != W::of(0.0) {
                let row = x.get(at..).and_then(|x| x.get(..sum.len())).ok_or(OUT_OF_RANGE)?;
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum = *sum + weight * x.load());
            }
            let mut more = false;
            for ((span, _), k) in axes.iter().zip(&mut chosen) {
                *k += 1;
                more = *k < span.weights.len();
                if more {
                    break;
                }
                *k = 0;
            }
            if !more {
                return Ok(true);
            }
        }
    }
}

/// A row of the result from a blended row; elements are runs of `run` numbers.
fn along<T: Stored>(
    table: &Table<'_, T::Wide>,
    row: &[T::Wide],
    y: &mut [T],
    run: usize,
    outside: T,
) -> Result<(), KernelError> {
    for (i, y) in y.chunks_exact_mut(run).enumerate() {
        let Some(span) = table.span(i) else {
            y.fill(outside);
            continue;
        };
        let span = span?;
        let x = row.get(span.first.wrapping_mul(run)..).ok_or(OUT_OF_RANGE)?;
        let x = x.get(..span.weights.len().wrapping_mul(run)).ok_or(OUT_OF_RANGE)?;
        if let [y] = y {
            *y = T::store(one(span.weights, x));
            continue;
        }
        for (block, y) in y.chunks_mut(LANES).enumerate() {
            let mut sums = [T::Wide::of(0.0); LANES];
            for (x, weight) in x.chunks_exact(run).zip(span.weights) {
                if *weight != T::Wide::of(0.0) {
                    let x = x.get(block * LANES..).ok_or(OUT_OF_RANGE)?;
                    sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = *sum + *weight * *x);
                }
            }
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::store(sum));
        }
    }
    Ok(())
}

/// The weighted sum of single numbers. The outermost weights are not 0; one between may be.
#[inline]
fn one<W: Elementary>(weights: &[W], x: &[W]) -> W {
    match (weights, x) {
        ([a], [x]) => *a * *x,
        ([a, b], [x, y]) => *a * *x + *b * *y,
        _ => weights.iter().zip(x).fold(
            W::of(0.0),
            |sum, (w, x)| {
                if *w == W::of(0.0) { sum } else { sum + *w * *x }
            },
        ),
    }
}
