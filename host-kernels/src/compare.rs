//! Element-wise comparisons.

use crate::broadcast::{Broadcast, zip};
use crate::expect;
use serinette_core::op::NoAttributes;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `Less` in f32.
pub fn less_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: f32, b: f32| a < b)
}

/// `Less` in i32.
pub fn less_i32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: i32, b: i32| a < b)
}

/// `Greater` in f32.
pub fn greater_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: f32, b: f32| a > b)
}

/// `Greater` in i32.
pub fn greater_i32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: i32, b: i32| a > b)
}

/// `Equal` in f32: −0 equals 0.
pub fn equal_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: f32, b: f32| a == b)
}

/// `Equal` in i32.
pub fn equal_i32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: i32, b: i32| a == b)
}

fn compare<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> bool,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (a, b, y) = (ops.input::<T>(0)?, ops.input::<T>(1)?, ops.output::<u8>(0)?);
    if y.is_empty() {
        return expect("elements of y", step.output(0)?.elements(), 0);
    }
    let walk = Broadcast::new(step, [a.len(), b.len()], y.len())?;
    zip(&walk, [a, b], y, |a, b| u8::from(f(a, b)))
}
