//! Element-wise functions of one tensor.

use crate::{expect, float16};
use serinette_core::op::NoAttributes;
use serinette_core::op::unary::relu;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `Relu` in f32.
pub fn relu_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    unary(step, ops, relu)
}

/// `Relu` of binary16.
pub fn relu_f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    unary(step, ops, |x: u16| float16::from_f32(relu(float16::to_f32(x))))
}

fn unary<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T) -> T,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let y = ops.output::<T>(0)?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    if ops.in_place(0) == Some(0) {
        y.iter_mut().for_each(|y| *y = f(*y));
        return Ok(());
    }
    let x = ops.input::<T>(0)?;
    expect("elements of x", y.len(), x.len())?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
    Ok(())
}
