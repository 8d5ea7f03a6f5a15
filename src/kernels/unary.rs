//! Element-wise functions of one tensor.

use super::generated as g;
use super::launch::{Launch, input, output, word};
use super::{Lower, OpDescriptor};
use serinette_core::DType;
use serinette_core::op::unary as op;
use serinette_dispatch::{LowerError, LowerStep};

/// The ops of this family. A function of floats is a line here and a `case` of its code in `shaders/unary.wgsl`.
pub(super) static TABLE: &[(&OpDescriptor, Lower)] = &[(&op::RELU, relu), (&op::SIGMOID, function)];

fn relu(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let (kernel, in_word) = match x.dtype {
        DType::F32 => (g::RELU_F32, 1),
        DType::F16 => (g::RELU_F16, 2),
        _ => return Err(LowerError::NoKernel),
    };
    let words = word(y.shape.elements())?.div_ceil(in_word);
    to.items(kernel, g::Relu { words, x: x.location(), y: y.location() }.words(), words)
}

/// A function of floats without attributes.
fn function(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let (kernel, in_word) = match x.dtype {
        DType::F32 => (g::UNARY_F32, 1),
        DType::F16 => (g::UNARY_F16, 2),
        _ => return Err(LowerError::NoKernel),
    };
    let words = word(y.shape.elements())?.div_ceil(in_word);
    let params = g::Unary { op: u32::from(step.op), words, x: x.location(), y: y.location() };
    to.items(kernel, params.words(), words)
}
