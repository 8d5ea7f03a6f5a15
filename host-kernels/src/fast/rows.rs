//! Rows that are worked on in their places, by several threads; sums and the like over them, in as many partial results as vectors
//! have lanes.

use super::parallel::{Shared, chunks_of};
use crate::expect;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// Calls `f` with some rows of `n` elements of the first output, which hold those of the first input.
pub(super) fn each(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    n: usize,
    f: impl Fn(&mut [f32]) + Sync,
) -> Result<(), KernelError> {
    let y = ops.output::<f32>(0)?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    let x = if ops.in_place(0) == Some(0) { None } else { Some(ops.input::<f32>(0)?) };
    if let Some(x) = x {
        expect("elements of x", y.len(), x.len())?;
    }
    let rows = y.len().checked_div(n).unwrap_or(0);
    if rows == 0 {
        return Ok(());
    }
    let all = Shared(y.as_mut_ptr());
    chunks_of(rows, n, |part| {
        let range = part.start * n..part.end * n;
        // SAFETY: the parts are disjoint rows of `y`.
        let y = unsafe { core::slice::from_raw_parts_mut(all.at(range.start), range.len()) };
        let Some(x) = x else { return f(y) };
        // Row by row, while it is in the nearest cache.
        for (y, x) in y.chunks_exact_mut(n).zip(x[range].chunks_exact(n)) {
            y.copy_from_slice(x);
            f(y);
        }
    });
    Ok(())
}

/// Partial results.
pub(super) const LANES: usize = 32;

/// `join`s all elements to the start of each lane, then the lanes, pairwise.
#[inline(always)]
pub(super) fn fold(
    x: &[f32],
    start: f32,
    join: impl Fn(f32, f32) -> f32,
    both: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut lanes = [start; LANES];
    let (groups, rest) = x.as_chunks::<LANES>();
    for group in groups {
        for (lane, x) in lanes.iter_mut().zip(group) {
            *lane = join(*lane, *x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, *x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = both(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Elements that are summed in f32 at a time; longer sums go on in f64.
const BLOCK: usize = 4096;

/// `Σ f(x)`.
#[inline(always)]
pub(super) fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let block = |x: &[f32]| fold(x, 0.0, |sum, x| sum + f(x), |a, b| a + b);
    if x.len() <= BLOCK { block(x) } else { x.chunks(BLOCK).map(|x| f64::from(block(x))).sum::<f64>() as f32 }
}

/// The greatest number, NaN left out; −∞ if there is none.
#[inline(always)]
pub(super) fn greatest(x: &[f32]) -> f32 {
    let greater = |most: f32, x: f32| if x > most { x } else { most };
    fold(x, f32::NEG_INFINITY, greater, greater)
}
