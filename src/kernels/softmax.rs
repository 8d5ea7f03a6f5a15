//! Softmax.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use serinette_core::DType;
use serinette_core::op::softmax::Axis;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let axis = attrs::<Axis>(step)?.axis as usize;
    if x.dtype != DType::F32 {
        return Err(LowerError::NoKernel);
    }
    let rows = word(x.shape.outer(axis).saturating_mul(x.shape.inner(axis)))?;
    let params = g::Softmax {
        rows,
        x: x.location(),
        y: y.location(),
        axis: word(x.shape.dim(axis))?,
        inner: word(x.shape.inner(axis))?,
    };
    to.groups(g::SOFTMAX_F32, params.words(), rows, false)
}
