//! 2-D convolutions.

use super::generated as g;
use super::launch::{Launch, attrs, input, location_or_absent, output, word};
use serinette_core::op::conv::{Conv2d, QConv2d};
use serinette_core::{DType, Shape};
use serinette_dispatch::{LowerError, LowerStep};

/// The sizes of a convolution as parameter words.
struct Sizes {
    channels: u32,
    height: u32,
    width: u32,
    outputs: u32,
    group_outputs: u32,
    out_height: u32,
    out_width: u32,
    kernel_h: u32,
    kernel_w: u32,
}

impl Sizes {
    fn new(x: &Shape, w: &Shape, y: &Shape, groups: u32) -> Result<Sizes, LowerError> {
        let outputs = word(w.dim(0))?;
        Ok(Sizes {
            channels: word(w.dim(1))?,
            height: word(x.dim(2))?,
            width: word(x.dim(3))?,
            outputs,
            // At least 1: the output is not empty, and groups divide the output channels.
            group_outputs: outputs
                .checked_div(groups)
                .filter(|n| *n > 0)
                .ok_or(LowerError::Invalid("groups"))?,
            out_height: word(y.dim(2))?,
            out_width: word(y.dim(3))?,
            kernel_h: word(w.dim(2))?,
            kernel_w: word(w.dim(3))?,
        })
    }
}

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, w, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    if x.dtype != DType::F32 {
        return Err(LowerError::NoKernel);
    }
    let a: Conv2d = attrs(step)?;
    let s = Sizes::new(&x.shape, &w.shape, &y.shape, a.groups)?;
    let (kernel, each) =
        if s.group_outputs.is_multiple_of(4) { (g::CONV2D_F32_4, 4) } else { (g::CONV2D_F32_1, 1) };
    let results = word(y.shape.elements())? / each;
    let params = g::Conv {
        results,
        x: x.location(),
        w: w.location(),
        bias: location_or_absent(step, 2),
        y: y.location(),
        activation: a.activation,
        channels: s.channels,
        height: s.height,
        width: s.width,
        outputs: s.outputs,
        group_outputs: s.group_outputs,
        out_height: s.out_height,
        out_width: s.out_width,
        kernel_h: s.kernel_h,
        kernel_w: s.kernel_w,
        stride_h: a.geometry.strides[0],
        stride_w: a.geometry.strides[1],
        pad_top: a.geometry.pads[0],
        pad_left: a.geometry.pads[1],
        dilation_h: a.geometry.dilations[0],
        dilation_w: a.geometry.dilations[1],
    };
    to.items(kernel, params.words(), results)
}

pub(super) fn lower_quantized(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, w, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let a: QConv2d = attrs(step)?;
    let s = Sizes::new(&x.shape, &w.shape, &y.shape, a.groups)?;
    let results = word(y.shape.elements())?;
    let params = g::QConv {
        results,
        x: x.location(),
        w: w.location(),
        bias: input(step, 2)?.location(),
        multiplier: input(step, 3)?.location(),
        shift: input(step, 4)?.location(),
        y: y.location(),
        channels: s.channels,
        height: s.height,
        width: s.width,
        outputs: s.outputs,
        group_outputs: s.group_outputs,
        out_height: s.out_height,
        out_width: s.out_width,
        kernel_h: s.kernel_h,
        kernel_w: s.kernel_w,
        stride_h: a.geometry.strides[0],
        stride_w: a.geometry.strides[1],
        pad_top: a.geometry.pads[0],
        pad_left: a.geometry.pads[1],
        dilation_h: a.geometry.dilations[0],
        dilation_w: a.geometry.dilations[1],
        x_zero: a.requantize.x_zero as u32,
        y_zero: a.requantize.y_zero as u32,
        low: a.requantize.low as u32,
        high: a.requantize.high as u32,
    };
    to.items(g::QCONV2D, params.words(), results.div_ceil(4))
}
