//! 2-D pooling in f32: the rows of a window are reduced to one first, in vectors of neighbours, then its columns.

use super::isa::{Isa, isa};
use super::parallel::{Shared, for_each};
use super::vector::{Portable, Vector};
use super::workspace;
use crate::registry::{Registered, kernels, sets::F32};
use crate::{expect, product};
use core::ops::Range;
use serinette_core::op::pool::{AVERAGE_POOL2D, MAX_POOL2D, Pool2d};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { pool:
    MAX_POOL2D => max, F32 => F32;
    AVERAGE_POOL2D => average, F32 => F32;
};

/// Windows of so many neighbours are reduced one by one, in as many partial results.
const LONG: usize = 16;
/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// How the elements of a window become one.
trait Fold {
    /// The result of nothing.
    const NOTHING: f32;
    /// Whether the result is divided by the number of elements.
    const MEAN: bool;
    /// Of two.
    fn join(a: f32, b: f32) -> f32;
    /// Of two in each lane.
    ///
    /// # Safety
    /// The instruction set of `V` is there.
    unsafe fn join_lanes<V: Vector>(a: V, b: V) -> V;
}

struct Max;
impl Fold for Max {
    const NOTHING: f32 = f32::NEG_INFINITY;
    const MEAN: bool = false;
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        // A NaN wins, and is kept by the comparison that it fails.
        if (b > a) | b.is_nan() { b } else { a }
    }
    #[inline(always)]
    unsafe fn join_lanes<V: Vector>(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.greater(b) }
    }
}

struct Sum;
impl Fold for Sum {
    const NOTHING: f32 = 0.0;
    const MEAN: bool = true;
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    unsafe fn join_lanes<V: Vector>(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.plus(b) }
    }
}

/// `MaxPool2d` in f32.
pub fn max(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run::<Max>(step, ops, crate::pool::max_f32)
}

/// `AveragePool2d` in f32.
pub fn average(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run::<Sum>(step, ops, crate::pool::average_f32)
}

/// The windows along one axis.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
    positions: usize,
}

impl Axis {
    /// The taps of window `at` that lie within the axis, and the element of the first of them.
    fn inside(&self, at: usize) -> (Range<usize>, usize) {
        let start = at * self.stride;
        let first = self.pad.saturating_sub(start).div_ceil(self.dilation).min(self.taps);
        let room = (self.size + self.pad).saturating_sub(start);
        let end = room.div_ceil(self.dilation).clamp(first, self.taps);
        (first..end, (start + first * self.dilation).saturating_sub(self.pad))
    }

    /// The windows that lie within the axis as a whole.
    fn whole(&self) -> Range<usize> {
        let span = (self.taps - 1) * self.dilation + 1;
        let first = self.pad.div_ceil(self.stride).min(self.positions);
        let end = match (self.size + self.pad).checked_sub(span) {
            Some(last) => (last / self.stride + 1).min(self.positions),
            None => 0,
        };
        first..end.max(first)
    }

    /// Floats of a padded line from which vectors read the windows of so many positions, and of as many counts; nothing
    /// where that is no number.
    fn memory(&self, positions: usize) -> Option<usize> {
        let windows = positions.checked_mul(self.stride.checked_add(1)?)?;
        windows.checked_add((self.taps - 1).checked_mul(self.dilation)?)?.checked_add(2 * MOST_LANES)
    }
}

struct Windows {
    rows: Axis,
    columns: Axis,
    /// Whether padding counts in a mean.
    padded: bool,
}

type Reference = fn(&StepView<'_>, Operands<'_>) -> Result<(), KernelError>;

fn run<F: Fold>(step: &StepView<'_>, mut ops: Operands<'_>, reference: Reference) -> Result<(), KernelError> {
    let a: Pool2d = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    expect("rank", 4, shape.rank())?;
    expect("rank", 4, out.rank())?;
    let planes = product(&[shape.dim(0), shape.dim(1)]);
    expect("planes", planes, product(&[out.dim(0), out.dim(1)]))?;
    let global = a.kernel == [0, 0];
    let axis = |i: usize| {
        let g = &a.geometry;
        let (size, positions) = (shape.dim(i + 2), out.dim(i + 2));
        match global {
            true => Axis { size, taps: size.max(1), stride: 1, dilation: 1, pad: 0, positions },
            false => Axis {
                size,
                taps: (a.kernel[i] as usize).max(1),
                stride: (g.strides[i] as usize).max(1),
                dilation: (g.dilations[i] as usize).max(1),
                pad: g.pads[i] as usize,
                positions,
            },
        }
    };
    let windows = Windows { rows: axis(0), columns: axis(1), padded: a.count_padding != 0 };
    let (x, y) = (ops.input::<f32>(0)?, ops.output::<f32>(0)?);
    let input = product(&[windows.rows.size, windows.columns.size]);
    let output = product(&[windows.rows.positions, windows.columns.positions]);
    expect("elements of x", product(&[planes, input]), x.len())?;
    expect("elements of y", product(&[planes, output]), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let long = windows.columns.taps >= LONG && windows.columns.dilation == 1;
    if !long && windows.columns.memory(MOST_LANES).is_none_or(|n| n > workspace::FLOATS) {
        // Strides or gaps so wide that neighbouring windows share nothing.
        return reference(step, ops);
    }
    let y = Shared(y.as_mut_ptr());
    for_each(planes, |plane| {
        // To the end of the tensor: vectors read beyond the plane, what they find there counts for nothing.
        let Some(x) = x.get(plane * input..).filter(|x| x.len() >= input) else { return };
        // SAFETY: `y` has a part of `output` elements for each plane, as was checked above; this task alone has it.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(plane * output), output) };
        match long {
            true => long_windows::<F>(&windows, &x[..input], y),
            false => workspace::with(|memory| one_plane::<F>(&windows, x, y, memory)),
        }
    });
    Ok(())
}

fn one_plane<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    match isa() {
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { plane_avx512::<F>(w, x, y, memory) },
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { plane_avx2::<F>(w, x, y, memory) },
        // SAFETY: NEON is part of the target.
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => unsafe { plane::<super::vector::arm::Neon, F>(w, x, y, memory) },
        // SAFETY: plain Rust needs no instruction set.
        _ => unsafe { plane::<Portable, F>(w, x, y, memory) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn plane_avx512<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    // SAFETY: the features are enabled here.
    unsafe { plane::<super::vector::x86::Avx512, F>(w, x, y, memory) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn plane_avx2<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    // SAFETY: the features are enabled here.
    unsafe { plane::<super::vector::x86::Avx2, F>(w, x, y, memory) }
}

/// All windows of one plane, with which `x` starts, by parts of the columns for which `memory` has room.
///
/// # Safety
/// The instruction set of `V` is there.
#[inline(always)]
unsafe fn plane<V: Vector, F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    let (c, total) = (&w.columns, w.columns.positions);
    let fixed = (c.taps - 1) * c.dilation + 2 * MOST_LANES;
    let room = memory.len().saturating_sub(fixed) / (c.stride + 1) / MOST_LANES * MOST_LANES;
    let mut first = 0;
    while first < total && room > 0 {
        let positions = first..total.min(first + room);
        // SAFETY: the caller's promise.
        unsafe { part::<V, F>(w, x, y, memory, positions) };
        first += room;
    }
}

/// The windows at some positions along the rows, in all rows.
///
/// # Safety
/// The instruction set of `V` is there.
#[inline(always)]
unsafe fn part<V: Vector, F: Fold>(
    w: &Windows,
    x: &[f32],
    y: &mut [f32],
    memory: &mut [f32],
    positions: Range<usize>,
) {
    let (c, width) = (&w.columns, w.columns.size);
    let count = positions.len();
    let vectors = count.next_multiple_of(MOST_LANES);
    let Some(memory) = c.memory(vectors).and_then(|n| memory.get_mut(..n)) else { return };
    // How many columns count in a mean, for each position.
    let (wide, line) = memory.split_at_mut(vectors);
    if F::MEAN {
        wide.fill(c.taps as f32);
        let whole = if w.padded { 0..c.positions } else { c.whole() };
        let edges = (positions.start..whole.start.min(positions.end))
            .chain(whole.end.max(positions.start)..positions.end);
        edges.for_each(|i| wide[i - positions.start] = c.inside(i).0.len() as f32);
    }
    // The columns that the windows see: those from `from` on lie in the line behind `before` places of padding.
    let start = positions.start * c.stride;
    let before = c.pad.saturating_sub(start).min(line.len());
    let from = start.saturating_sub(c.pad).min(width);
    let seen =
        ((count - 1) * c.stride + (c.taps - 1) * c.dilation + 1).saturating_sub(before).min(width - from);
    line[..before].fill(F::NOTHING);
    for at in 0..w.rows.positions {
        let (taps, top) = w.rows.inside(at);
        let rows = taps.len();
        let corner = top * width + from;
        // SAFETY: the caller's promise; loads and stores are on slices as long as they are.
        unsafe {
            let mut j = 0;
            while j < seen {
                let mut acc = V::splat(F::NOTHING);
                for row in 0..rows {
                    let x = x.get(corner + row * w.rows.dilation * width + j..).unwrap_or(&[]);
                    let lanes = if x.len() >= V::LANES { V::load(x.as_ptr()) } else { few::<V>(x) };
                    acc = F::join_lanes(acc, lanes);
                }
                if let Some(place) = line.get_mut(before + j..).filter(|l| l.len() >= V::LANES) {
                    acc.store(place.as_mut_ptr());
                }
                j += V::LANES;
            }
        }
        line[before + seen..].fill(F::NOTHING);
        let high = if w.padded { w.rows.taps } else { rows };
        // A vector may be written over the end of a row where the next row is written later.
        let end =
            if count == c.positions { w.rows.positions * count } else { at * c.positions + positions.end };
        let Some(y) = y.get_mut(at * c.positions + positions.start..end) else { return };
        // SAFETY: as above.
        unsafe {
            let high = V::splat(high as f32);
            let mut i = 0;
            while i < count {
                let mut acc = V::splat(F::NOTHING);
                for tap in 0..c.taps {
                    let from = line.get(i * c.stride + tap * c.dilation..).unwrap_or(&[]);
                    acc = F::join_lanes(acc, spaced::<V>(from, c.stride));
                }
                if F::MEAN {
                    let wide = wide.get(i..).filter(|w| w.len() >= V::LANES).unwrap_or(&[1.0; MOST_LANES]);
                    // A window of padding alone has no elements, and is 0.
                    let count = V::splat(0.0).plus_product(high, V::load(wide.as_ptr()));
                    acc = acc.over(count.greater(V::splat(1.0)));
                }
                match y.get_mut(i..).filter(|y| y.len() >= V::LANES) {
                    Some(y) => acc.store(y.as_mut_ptr()),
                    None => {
                        let mut lanes = [0.0; MOST_LANES];
                        acc.store(lanes.as_mut_ptr());
                        y.get_mut(i..).unwrap_or(&mut []).iter_mut().zip(lanes).for_each(|(y, x)| *y = x);
                    }
                }
                i += V::LANES;
            }
        }
    }
}

/// Fewer elements than a vector has; whatever is behind them.
///
/// # Safety
/// The instruction set of `V` is there.
#[inline(always)]
unsafe fn few<V: Vector>(x: &[f32]) -> V {
    let mut lanes = [0.0; MOST_LANES];
    lanes.iter_mut().zip(x).for_each(|(l, x)| *l = *x);
    // SAFETY: no vector has more lanes.
    unsafe { V::load(lanes.as_ptr()) }
}

/// Every `stride`-th element.
///
/// # Safety
/// The instruction set of `V` is there.
#[inline(always)]
unsafe fn spaced<V: Vector>(x: &[f32], stride: usize) -> V {
    // SAFETY: the lengths are looked at before the loads.
    unsafe {
        if stride == 1 && x.len() >= V::LANES {
            V::load(x.as_ptr())
        } else if stride == 2 && x.len() >= 2 * V::LANES {
            V::load(x.as_ptr()).evens(V::load(x.as_ptr().add(V::LANES)))
        } else {
            let mut lanes = [0.0; MOST_LANES];
            lanes.iter_mut().zip(x.iter().step_by(stride)).for_each(|(l, x)| *l = *x);
            V::load(lanes.as_ptr())
        }
    }
}

/// All windows of one plane, each by itself.
fn long_windows<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32]) {
    let width = w.columns.size;
    for (at, y) in y.chunks_exact_mut(w.columns.positions).enumerate() {
        let (rows, top) = w.rows.inside(at);
        for (i, y) in y.iter_mut().enumerate() {
            let (columns, left) = w.columns.inside(i);
            let lines = (0..rows.len()).filter_map(|row| {
                x.get((top + row * w.rows.dilation) * width + left..).and_then(|x| x.get(..columns.len()))
            });
            *y = lines.fold(F::NOTHING, |y, x| F::join(y, long::<F>(x)));
            if F::MEAN {
                let count = if w.padded { w.rows.taps * w.columns.taps } else { rows.len() * columns.len() };
                *y /= count.max(1) as f32;
            }
        }
    }
}

/// Of many neighbours.
#[inline(always)]
fn long<F: Fold>(x: &[f32]) -> f32 {
    let mut lanes = [F::NOTHING; LONG];
    let (groups, rest) = x.as_chunks::<LONG>();
    for group in groups {
        lanes.iter_mut().zip(group).for_each(|(a, b)| *a = F::join(*a, *b));
    }
    lanes.iter().chain(rest).fold(F::NOTHING, |a, b| F::join(a, *b))
}
