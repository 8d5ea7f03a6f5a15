//! 3-D convolution.

use crate::arithmetic::Sums;
use crate::expect;
use crate::number::{self, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64},
};
use crate::spatial::{Grid, convolve};
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::spatial::Conv;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { conv3d:
    op::conv3d::CONV3D => f32, F32 => F32;
    op::conv3d::CONV3D => f16, F16 => F16;
    op::conv3d::CONV3D => bf16, BF16 => BF16;
    op::conv3d::CONV3D => f64, F64 => F64;
};

/// `Conv3d` in f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    float::<f32>(step, ops)
}

/// `Conv3d` of binary16.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    float::<number::F16>(step, ops)
}

/// `Conv3d` of bfloat16.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    float::<number::BF16>(step, ops)
}

/// `Conv3d` in f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    float::<f64>(step, ops)
}

fn float<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Conv = step.attributes()?;
    let grid = Grid::new(step.input(0)?, step.input(1)?, step.output(0)?, &attrs.spatial, attrs.groups)?;
    let bias = ops.optional::<E>(2)?;
    if let Some(bias) = bias {
        expect("elements of the bias", grid.outputs, bias.len())?;
    }
    let arithmetic = Sums { bias, activation: Activation::from_code(attrs.activation)? };
    convolve(&arithmetic, &grid, ops.input(0)?, ops.input(1)?, ops.output(0)?)
}
