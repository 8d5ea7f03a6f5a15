//! 2-D pooling in f32: the rows of a window are reduced to one first, which reads whole rows, then its columns.

use super::isa::{Isa, isa};
use super::parallel::{Shared, for_each};
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

/// Partial results of a long row, so that one need not wait for the other.
const LANES: usize = 16;

/// How the elements of a window become one.
trait Fold {
    /// The result of nothing.
    const NOTHING: f32;
    /// Of two.
    fn join(a: f32, b: f32) -> f32;
    /// The result of a window of `count` elements.
    fn finish(y: f32, _count: usize) -> f32 {
        y
    }
}

struct Max;
impl Fold for Max {
    const NOTHING: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        // A NaN wins, and is kept by the comparison that it fails.
        if (b > a) | b.is_nan() { b } else { a }
    }
}

struct Sum;
impl Fold for Sum {
    const NOTHING: f32 = 0.0;
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn finish(y: f32, count: usize) -> f32 {
        y / count.max(1) as f32
    }
}

/// `MaxPool2d` in f32.
pub fn max(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run::<Max>(step, ops)
}

/// `AveragePool2d` in f32.
pub fn average(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run::<Sum>(step, ops)
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
}

struct Windows {
    rows: Axis,
    columns: Axis,
    /// Whether padding counts in a mean.
    padded: bool,
}

fn run<F: Fold>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
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
    let y = Shared(y.as_mut_ptr());
    for_each(planes, |plane| {
        let Some(x) = x.get(plane * input..).and_then(|x| x.get(..input)) else { return };
        // SAFETY: `y` has a part of `output` elements for each plane, as was checked above; this task alone has it.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(plane * output), output) };
        workspace::with(|memory| one_plane::<F>(&windows, x, y, memory));
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
        _ => plane::<F>(w, x, y, memory),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn plane_avx512<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    plane::<F>(w, x, y, memory);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn plane_avx2<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    plane::<F>(w, x, y, memory);
}

/// All windows of one plane.
#[inline(always)]
fn plane<F: Fold>(w: &Windows, x: &[f32], y: &mut [f32], memory: &mut [f32]) {
    let (width, columns) = (w.columns.size, w.columns.positions);
    for (at, y) in y.chunks_exact_mut(columns).enumerate() {
        let (taps, first) = w.rows.inside(at);
        let high = if w.padded { w.rows.taps } else { taps.len() };
        let lines = (0..taps.len())
            .filter_map(|i| x.get((first + i * w.rows.dilation) * width..).and_then(|x| x.get(..width)));
        y.fill(F::NOTHING);
        match memory.get_mut(..width) {
            Some(line) => {
                line.fill(F::NOTHING);
                for row in lines {
                    line.iter_mut().zip(row).for_each(|(a, b)| *a = F::join(*a, *b));
                }
                across::<F>(&w.columns, line, y);
            }
            // A row that is longer than the workspace is reduced row by row.
            None => lines.for_each(|row| across::<F>(&w.columns, row, y)),
        }
        let whole = w.columns.whole();
        for (i, y) in y.iter_mut().enumerate() {
            let wide = match w.padded || whole.contains(&i) {
                true => w.columns.taps,
                false => w.columns.inside(i).0.len(),
            };
            *y = F::finish(*y, high * wide);
        }
    }
}

/// Joins what each window sees of a row to its result.
#[inline(always)]
fn across<F: Fold>(c: &Axis, line: &[f32], y: &mut [f32]) {
    let whole = c.whole();
    for i in (0..whole.start).chain(whole.end..y.len()) {
        let (taps, first) = c.inside(i);
        for tap in 0..taps.len() {
            y[i] = F::join(y[i], line[first + tap * c.dilation]);
        }
    }
    let Some(y) = y.get_mut(whole.clone()) else { return };
    let Some(start) = (whole.start * c.stride).checked_sub(c.pad).filter(|_| !y.is_empty()) else { return };
    if c.taps >= LANES && c.dilation == 1 {
        for (i, y) in y.iter_mut().enumerate() {
            *y = F::join(*y, long::<F>(&line[start + i * c.stride..][..c.taps]));
        }
        return;
    }
    for tap in 0..c.taps {
        let from = &line[start + tap * c.dilation..];
        match c.stride {
            1 => y.iter_mut().zip(from).for_each(|(y, x)| *y = F::join(*y, *x)),
            // The last window has one element, the others pairs of which the first counts.
            2 => {
                let (pairs, rest) = from.as_chunks::<2>();
                let (head, tail) = y.split_at_mut(y.len().min(pairs.len()));
                head.iter_mut().zip(pairs).for_each(|(y, [x, _])| *y = F::join(*y, *x));
                tail.iter_mut().zip(rest).for_each(|(y, x)| *y = F::join(*y, *x));
            }
            stride => y.iter_mut().zip(from.iter().step_by(stride)).for_each(|(y, x)| *y = F::join(*y, *x)),
        }
    }
}

/// Of many neighbours.
#[inline(always)]
fn long<F: Fold>(x: &[f32]) -> f32 {
    let mut lanes = [F::NOTHING; LANES];
    let (groups, rest) = x.as_chunks::<LANES>();
    for group in groups {
        lanes.iter_mut().zip(group).for_each(|(a, b)| *a = F::join(*a, *b));
    }
    lanes.iter().chain(rest).fold(F::NOTHING, |a, b| F::join(a, *b))
}
