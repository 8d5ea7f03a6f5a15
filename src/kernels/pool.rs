//! 2-D pooling.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use serinette_core::DType;
use serinette_core::op::pool::{MAX_POOL2D, Pool2d};
use serinette_dispatch::{LowerError, LowerStep};

/// Most taps whose 8-bit sum fits the kernel's 32 bits. Longer means are taken on the host.
const MOST_TAPS: usize = 1 << 24;

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let a: Pool2d = attrs(step)?;
    let [max, average, in_word] = match x.dtype {
        DType::F32 => [g::MAX_POOL_F32, g::AVERAGE_POOL_F32, 1],
        DType::I8 => [g::MAX_POOL_I8, g::AVERAGE_POOL_I8, 4],
        _ => return Err(LowerError::NoKernel),
    };
    let [kernel_h, kernel_w] = a.window(x.shape.dim(2), x.shape.dim(3));
    if x.dtype == DType::I8 && step.op != MAX_POOL2D.code && kernel_h.saturating_mul(kernel_w) > MOST_TAPS {
        return Err(LowerError::NoKernel);
    }
    let results = word(y.shape.elements())?;
    // A window over the whole input has no gaps, whatever the attributes say.
    let dilations = if a.kernel == [0, 0] { [1; 2] } else { a.geometry.dilations };
    let params = g::Pool {
        results,
        x: x.location(),
        y: y.location(),
        height: word(x.shape.dim(2))?,
        width: word(x.shape.dim(3))?,
        out_height: word(y.shape.dim(2))?,
        out_width: word(y.shape.dim(3))?,
        kernel_h: word(kernel_h)?,
        kernel_w: word(kernel_w)?,
        stride_h: a.geometry.strides[0],
        stride_w: a.geometry.strides[1],
        pad_top: a.geometry.pads[0],
        pad_left: a.geometry.pads[1],
        dilation_h: dilations[0],
        dilation_w: dilations[1],
        count_padding: a.count_padding,
    };
    let kernel = if step.op == MAX_POOL2D.code { max } else { average };
    to.items(kernel, params.words(), results.div_ceil(u32::from(in_word)))
}
