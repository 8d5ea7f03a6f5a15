//! Element-wise functions of two tensors with broadcasting.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use super::layout::{AxisWords, broadcast};
use serinette_core::DType;
use serinette_core::op::binary::{ADD, Binary};
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (a, b, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let activation = attrs::<Binary>(step)?.activation;
    let [add, mul, in_word] = match y.dtype {
        DType::F32 => [g::ADD_F32, g::MUL_F32, 1],
        DType::F16 => [g::ADD_F16, g::MUL_F16, 2],
        DType::I32 if activation != 0 => return Err(LowerError::Invalid("activation of integers")),
        DType::I32 => [g::ADD_I32, g::MUL_I32, 1],
        _ => return Err(LowerError::NoKernel),
    };
    let n = word(y.shape.elements())?;
    let AxisWords { rank, dims, strides: [a_strides, b_strides] } =
        broadcast(&y.shape, &a.shape, &b.shape).words()?;
    let params = g::Binary {
        n,
        a: a.location(),
        b: b.location(),
        y: y.location(),
        activation,
        rank,
        dims,
        a_strides,
        b_strides,
    };
    let kernel = if step.op == ADD.code { add } else { mul };
    to.items(kernel, params.words(), n.div_ceil(u32::from(in_word)))
}
