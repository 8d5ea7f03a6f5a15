//! Conversions between element types.

use super::generated as g;
use super::launch::{Launch, input, output, word};
use super::movement;
use serinette_core::DType;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    // A bool may hold any byte for true, and becomes 0 or 1.
    if x.dtype == y.dtype && x.dtype != DType::Bool {
        return movement::lower_copy(step, to);
    }
    match x.dtype {
        DType::F32 | DType::F16 | DType::I8 | DType::I32 | DType::I64 | DType::Bool => {}
        _ => return Err(LowerError::NoKernel),
    }
    let (kernel, each) = match y.dtype {
        DType::F32 => (g::CAST_TO_F32, 1),
        DType::F16 => (g::CAST_TO_F16, 2),
        DType::I8 => (g::CAST_TO_I8, 4),
        DType::I32 => (g::CAST_TO_I32, 1),
        DType::I64 => (g::CAST_TO_I64, 1),
        DType::Bool => (g::CAST_TO_BOOL, 4),
        _ => return Err(LowerError::NoKernel),
    };
    let n = word(y.shape.elements())?;
    let params = g::Cast { n, x: x.location(), y: y.location(), from_code: u32::from(x.dtype.code()) };
    to.items(kernel, params.words(), n.div_ceil(each))
}
