//! Rotary position embedding.

use crate::number::{self, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64},
};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::gather::checked_index;
use serinette_core::op::rotary::{ROTARY_EMBEDDING, Rotary};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { rotary:
    ROTARY_EMBEDDING => f32, F32 => F32;
    ROTARY_EMBEDDING => f16, F16 => F16;
    ROTARY_EMBEDDING => bf16, BF16 => BF16;
    ROTARY_EMBEDDING => f64, F64 => F64;
};

/// `RotaryEmbedding` in f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    rotate::<f32>(step, ops)
}

/// `RotaryEmbedding` of binary16: computed in f32, rounded once.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    rotate::<number::F16>(step, ops)
}

/// `RotaryEmbedding` of bfloat16: computed in f32, rounded once.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    rotate::<number::BF16>(step, ops)
}

/// `RotaryEmbedding` in f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    rotate::<f64>(step, ops)
}

fn rotate<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Rotary = step.attributes()?;
    let (shape, caches) = (step.output(0)?, step.input(1)?);
    expect("rank", 4, shape.rank())?;
    let (cos, sin) = (ops.input::<E>(1)?, ops.input::<E>(2)?);
    let (positions, y) = (ops.optional::<i32>(3)?, ops.output::<E>(0)?);
    expect("elements of y", shape.elements(), y.len())?;
    expect("elements of cos", caches.elements(), cos.len())?;
    expect("elements of sin", cos.len(), sin.len())?;
    if ops.in_place(0) != Some(0) {
        let x = ops.input::<E>(0)?;
        expect("elements of x", y.len(), x.len())?;
        y.copy_from_slice(x);
    }
    // Rows of `x` in memory: batch, then heads and steps in either order.
    let [batch, outer, inner, width] = [0, 1, 2, 3].map(|i| shape.dim(i));
    let steps = if attrs.heads_inside == 1 { outer } else { inner };
    if let Some(positions) = positions {
        expect("positions", product(&[batch, steps]), positions.len())?;
    }
    let half = caches.dim(caches.rank().saturating_sub(1));
    let (known, by_batch) = match caches.rank() {
        2 => (caches.dim(0), false),
        3 if positions.is_none() => (product(&[batch, steps]), true),
        rank => return Err(KernelError::new("rank of the caches", 2, rank)),
    };
    expect("elements of cos", product(&[known, half]), cos.len())?;
    if half > width / 2 {
        return Err(KernelError::new("half of the turned elements", width / 2, half));
    }
    if y.is_empty() || half == 0 {
        return Ok(());
    }
    for (row, y) in y.chunks_exact_mut(width).enumerate() {
        let (b, out, within) = (row / inner / outer, row / inner % outer, row % inner);
        let s = if attrs.heads_inside == 1 { out } else { within };
        let at = match positions {
            Some(p) => checked_index(i64::from(*p.get(b * steps + s).ok_or(OUT_OF_RANGE)?), known),
            None => Some(if by_batch { b * steps + s } else { s }),
        };
        let turned = y.get_mut(..2 * half).ok_or(OUT_OF_RANGE)?;
        let Some(at) = at else {
            turned.fill(E::zeroed());
            step.fault.bad_index(step.step);
            continue;
        };
        let cos = cos.get(at * half..).and_then(|c| c.get(..half)).ok_or(OUT_OF_RANGE)?;
        let sin = sin.get(at * half..).and_then(|s| s.get(..half)).ok_or(OUT_OF_RANGE)?;
        if attrs.interleaved == 1 {
            for ((pair, c), s) in turned.chunks_exact_mut(2).zip(cos).zip(sin) {
                if let [a, b] = pair {
                    (*a, *b) = turn(*a, *b, *c, *s);
                }
            }
        } else {
            let (first, second) = turned.split_at_mut(half);
            for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                (*a, *b) = turn(*a, *b, *c, *s);
            }
        }
    }
    Ok(())
}

/// The pair turned by an angle.
#[inline(always)]
fn turn<E: Stored>(a: E, b: E, cos: E, sin: E) -> (E, E) {
    let (a, b, cos, sin) = (a.load(), b.load(), cos.load(), sin.load());
    (E::store(a * cos - b * sin), E::store(a * sin + b * cos))
}
