//! Position of the largest element.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use serinette_core::DType;
use serinette_core::op::argmax::ArgMax;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let attributes = attrs::<ArgMax>(step)?;
    if attributes.last != 0 {
        return Err(LowerError::NoKernel);
    }
    let axis = attributes.axis as usize;
    let kernel = match x.dtype {
        DType::F32 => g::ARGMAX_F32,
        DType::I8 => g::ARGMAX_I8,
        _ => return Err(LowerError::NoKernel),
    };
    let rows = word(y.shape.elements())?;
    let params = g::ArgMaxOf {
        rows,
        x: x.location(),
        y: y.location(),
        axis: word(x.shape.dim(axis))?,
        inner: word(x.shape.inner(axis))?,
    };
    to.groups(kernel, params.words(), rows, false)
}
