//! Element-wise functions of one tensor.

use super::generated as g;
use super::launch::{Launch, input, output, word};
use serinette_core::DType;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let (kernel, in_word) = match x.dtype {
        DType::F32 => (g::RELU_F32, 1),
        DType::F16 => (g::RELU_F16, 2),
        _ => return Err(LowerError::NoKernel),
    };
    let words = word(y.shape.elements())?.div_ceil(in_word);
    to.items(kernel, g::Unary { words, x: x.location(), y: y.location() }.words(), words)
}
