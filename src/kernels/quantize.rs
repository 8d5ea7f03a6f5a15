//! Between f32 and integers with scales.

use super::generated as g;
use super::launch::{Launch, attrs, input, location_or_absent, optional, output, word};
use serinette_core::DType;
use serinette_core::op::quantize::{PER_TENSOR, Quantization};
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, scale, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let axis = match attrs::<Quantization>(step)?.axis {
        PER_TENSOR => None,
        axis => Some(axis as usize),
    };
    let n = word(y.shape.elements())?;
    let (zero, has_zero) = (location_or_absent(step, 2), u32::from(optional(step, 2).is_some()));
    let inner = word(axis.map_or(1, |a| x.shape.inner(a)))?;
    let channels = word(axis.map_or(1, |a| x.shape.dim(a)))?;
    let (x_at, scale, y_at) = (x.location(), scale.location(), y.location());
    let (kernel, each) = match (x.dtype, y.dtype) {
        (DType::F32, DType::I8) => (g::QUANTIZE_F32, 4),
        (DType::I8, DType::F32) => (g::DEQUANTIZE_I8, 1),
        (DType::I32, DType::F32) => (g::DEQUANTIZE_I32, 1),
        _ => return Err(LowerError::NoKernel),
    };
    let params = g::Quantize { n, x: x_at, scale, zero, y: y_at, has_zero, inner, channels };
    to.items(kernel, params.words(), n.div_ceil(each))
}
