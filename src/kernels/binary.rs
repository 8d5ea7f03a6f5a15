//! Element-wise functions of two tensors with broadcasting.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use super::layout::{AxisWords, broadcast};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_dispatch::{LowerError, LowerStep};

/// Ops whose attributes are [`Binary`].
static ACTIVATED: [u16; 4] = [binary::ADD.code, binary::MUL.code, binary::SUB.code, binary::DIV.code];
/// What the kernels for floats compute besides.
static FLOATS: [u16; 4] = [binary::MIN.code, binary::MAX.code, binary::PRELU.code, binary::SILU_MUL.code];

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (a, b, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let activated = ACTIVATED.contains(&step.op);
    let activation = if activated { attrs::<Binary>(step)?.activation } else { 0 };
    let (kernel, in_word) = match y.dtype {
        DType::F32 | DType::F16 if !activated && !FLOATS.contains(&step.op) => {
            return Err(LowerError::NoKernel);
        }
        DType::F32 => (g::BINARY_F32, 1),
        DType::F16 => (g::BINARY_F16, 2),
        DType::I32 if activation != 0 => return Err(LowerError::Invalid("activation of integers")),
        DType::I32 if step.op == binary::POW.code => return Err(LowerError::NoKernel),
        DType::I32 => (g::BINARY_I32, 1),
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
        op: u32::from(step.op),
        activation,
        rank,
        dims,
        a_strides,
        b_strides,
    };
    to.items(kernel, params.words(), n.div_ceil(in_word))
}
