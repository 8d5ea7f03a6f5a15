//! Element-wise functions of two tensors.

use crate::broadcast::{Broadcast, update, zip};
use crate::{expect, float16};
use serinette_core::op::Activation;
use serinette_core::op::binary::Binary;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `Add` in f32.
pub fn add_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let activation = activation(step)?;
    binary(step, ops, |a: f32, b: f32| activation.apply(a + b))
}

/// `Add` of binary16: in f32, rounded once.
pub fn add_f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let activation = activation(step)?;
    binary(step, ops, widened(|a, b| activation.apply(a + b)))
}

/// `Add` in i32, wrapping.
pub fn add_i32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    no_activation(step)?;
    binary(step, ops, i32::wrapping_add)
}

/// `Mul` in f32.
pub fn mul_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let activation = activation(step)?;
    binary(step, ops, |a: f32, b: f32| activation.apply(a * b))
}

/// `Mul` of binary16: in f32, rounded once.
pub fn mul_f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let activation = activation(step)?;
    binary(step, ops, widened(|a, b| activation.apply(a * b)))
}

/// `Mul` in i32, wrapping.
pub fn mul_i32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    no_activation(step)?;
    binary(step, ops, i32::wrapping_mul)
}

fn activation(step: &StepView<'_>) -> Result<Activation, KernelError> {
    Ok(Activation::from_code(step.attributes::<Binary>()?.activation)?)
}

fn no_activation(step: &StepView<'_>) -> Result<(), KernelError> {
    expect("activation of an integer op", 0, step.attributes::<Binary>()?.activation as usize)
}

fn widened(f: impl Fn(f32, f32) -> f32) -> impl Fn(u16, u16) -> u16 {
    move |a, b| float16::from_f32(f(float16::to_f32(a), float16::to_f32(b)))
}

fn binary<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    let y = ops.output::<T>(0)?;
    // An operand in place has the length of the result, and therefore its shape but for axes of size 1.
    let shared = [0, 1].map(|i| ops.in_place(i) == Some(0));
    let input = |i: usize| if shared[i] { Ok(&[][..]) } else { ops.input::<T>(i) };
    let (a, b) = (input(0)?, input(1)?);
    let length = |i: usize, x: &[T]| if shared[i] { y.len() } else { x.len() };
    if y.is_empty() {
        return expect("elements of y", step.output(0)?.elements(), 0);
    }
    let walk = Broadcast::new(step, [length(0, a), length(1, b)], y.len())?;
    match shared {
        [false, false] => zip(&walk, [a, b], y, f),
        [true, false] => update(&walk, 1, b, y, f),
        [false, true] => update(&walk, 0, a, y, |y, a| f(a, y)),
        [true, true] => {
            y.iter_mut().for_each(|y| *y = f(*y, *y));
            Ok(())
        }
    }
}
