//! Position of the largest element.

use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::argmax::ArgMax;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `ArgMax` of f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    argmax(step, ops, |x: f32, most: f32| x > most || (x.is_nan() && !most.is_nan()))
}

/// `ArgMax` of i8.
pub fn i8(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    argmax(step, ops, |x: i8, most: i8| x > most)
}

fn argmax<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    beats: impl Fn(T, T) -> bool,
) -> Result<(), KernelError> {
    let axis = step.attributes::<ArgMax>()?.axis as usize;
    let shape = step.input(0)?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<i32>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    if axis >= shape.rank() {
        return Err(KernelError::new("axis", shape.rank(), axis));
    }
    let (n, inner) = (shape.dim(axis), shape.inner(axis));
    expect("searched rows", shape.outer(axis).saturating_mul(inner), y.len())?;
    if n == 0 {
        return Err(KernelError::new("elements of a searched axis", 1, 0));
    }
    for (x, y) in x.chunks_exact(n.saturating_mul(inner)).zip(y.chunks_exact_mut(inner)) {
        for (first, y) in y.iter_mut().enumerate() {
            let mut row = x.get(first..).ok_or(OUT_OF_RANGE)?.iter().step_by(inner);
            let mut most = *row.next().ok_or(OUT_OF_RANGE)?;
            *y = 0;
            for (i, x) in row.enumerate() {
                if beats(*x, most) {
                    most = *x;
                    *y = i32::try_from(i).map_or(i32::MAX, |i| i.saturating_add(1));
                }
            }
        }
    }
    Ok(())
}
