//! Softmax.

use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `Softmax` in f32.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let (shape, y) = (step.output(0)?, ops.output::<f32>(0)?);
    expect("elements of y", shape.elements(), y.len())?;
    if ops.in_place(0) != Some(0) {
        let x = ops.input::<f32>(0)?;
        expect("elements of x", y.len(), x.len())?;
        y.copy_from_slice(x);
    }
    if y.is_empty() {
        return Ok(());
    }
    if axis >= shape.rank() {
        return Err(KernelError::new("axis", shape.rank(), axis));
    }
    let (n, inner) = (shape.dim(axis), shape.inner(axis));
    for block in y.chunks_exact_mut(n * inner) {
        for first in 0..inner {
            row(block.get_mut(first..).ok_or(OUT_OF_RANGE)?, inner);
        }
    }
    Ok(())
}

/// Every `step`-th element from the first on. A NaN reaches every element through the sum; so does an infinity,
/// because ∞ − ∞ is NaN.
fn row(y: &mut [f32], step: usize) {
    let most = y.iter().step_by(step).fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most });
    let mut sum = 0.0;
    for y in y.iter_mut().step_by(step) {
        *y = libm::expf(*y - most);
        sum += *y;
    }
    for y in y.iter_mut().step_by(step) {
        *y /= sum;
    }
}
