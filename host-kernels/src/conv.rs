//! 2-D convolutions.

use crate::arithmetic::{Quantized, Sums};
use crate::number::{self, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64, I8},
};
use crate::spatial::{Grid, convolve};
use crate::{OUT_OF_RANGE, expect, im2col, product};
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::conv::{Conv2d, Geometry, QConv2d};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { conv:
    op::conv::CONV2D => f32, F32 => F32;
    op::conv::CONV2D => f16, F16 => F16;
    op::conv::CONV2D => bf16, BF16 => BF16;
    op::conv::CONV2D => f64, F64 => F64;
    op::conv::QCONV2D => i8, I8 => I8;
};

/// `Conv2d` in f32. With enough scratch the input is unfolded block by block and every output channel reads the
/// unfolded rows; without, the taps read the input where it is.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let (window, arithmetic) = float::<f32>(step, &ops)?;
    let (x, w, y) = (ops.input(0)?, ops.input(1)?, ops.output(0)?);
    window.check(x.len(), w.len(), y.len())?;
    if !y.is_empty() && !window.is_pointwise() && im2col::pays(&window) {
        let scratch = ops.scratch::<f32>();
        if im2col::fits(&window, scratch.len()) {
            return im2col::convolve(&arithmetic, &window, x, w, y, scratch);
        }
    }
    convolve(&arithmetic, &window.grid(), x, w, y)
}

/// `Conv2d` of binary16.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    in_place::<number::F16>(step, ops)
}

/// `Conv2d` of bfloat16.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    in_place::<number::BF16>(step, ops)
}

/// `Conv2d` in f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    in_place::<f64>(step, ops)
}

/// The taps read the input where it is.
fn in_place<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let (window, arithmetic) = float::<E>(step, &ops)?;
    convolve(&arithmetic, &window.grid(), ops.input(0)?, ops.input(1)?, ops.output(0)?)
}

fn float<'m, E: Stored>(
    step: &StepView<'_>,
    ops: &Operands<'m>,
) -> Result<(Window, Sums<'m, E>), KernelError> {
    let attrs: Conv2d = step.attributes()?;
    let window = Window::new(step, &attrs.geometry, attrs.groups)?;
    let bias = ops.optional::<E>(2)?;
    if let Some(bias) = bias {
        expect("elements of the bias", window.outputs, bias.len())?;
    }
    Ok((window, Sums { bias, activation: Activation::from_code(attrs.activation)? }))
}

/// `QConv2d`: i8 with i32 sums.
pub fn i8(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: QConv2d = step.attributes()?;
    let window = Window::new(step, &attrs.geometry, attrs.groups)?;
    let (bias, multiplier, shift) = (ops.input(2)?, ops.input(3)?, ops.input(4)?);
    for v in [bias, multiplier, shift] {
        expect("elements of a per-channel vector", window.outputs, v.len())?;
    }
    let (x_zero, w_zero) = (attrs.requantize.x_zero, 0);
    let arithmetic = Quantized { requantize: attrs.requantize, bias, multiplier, shift, x_zero, w_zero };
    convolve(&arithmetic, &window.grid(), ops.input(0)?, ops.input(1)?, ops.output(0)?)
}

/// The sizes of a convolution. Positions are computed modulo 2^usize: a position in the padding before the input
/// wraps to a number that is at least the size of the input, so one comparison finds both kinds of padding.
pub(crate) struct Window {
    pub(crate) batch: usize,
    /// Input channels of one group.
    pub(crate) channels: usize,
    pub(crate) groups: usize,
    /// Output channels of all groups.
    pub(crate) outputs: usize,
    /// Height and width of the input.
    pub(crate) input: [usize; 2],
    /// Height and width of the output.
    pub(crate) output: [usize; 2],
    /// Height and width of the kernel in taps.
    pub(crate) taps: [usize; 2],
    strides: [usize; 2],
    /// Padding at the top and at the left.
    pads: [usize; 2],
    dilations: [usize; 2],
}

impl Window {
    pub(crate) fn new(step: &StepView<'_>, g: &Geometry, groups: u32) -> Result<Window, KernelError> {
        let (x, w, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
        for shape in [x, w, y] {
            expect("rank", 4, shape.rank())?;
        }
        let (groups, channels, outputs) = (groups as usize, w.dim(1), w.dim(0));
        expect("batches", x.dim(0), y.dim(0))?;
        expect("output channels", outputs, y.dim(1))?;
        expect("input channels", product(&[channels, groups]), x.dim(1))?;
        expect("output channels beyond whole groups", 0, outputs.checked_rem(groups).unwrap_or(1))?;
        if w.dim(2) == 0 || w.dim(3) == 0 {
            return Err(KernelError::new("kernel size", 1, 0));
        }
        let window = Window {
            batch: x.dim(0),
            channels,
            groups,
            outputs,
            input: [x.dim(2), x.dim(3)],
            output: [y.dim(2), y.dim(3)],
            taps: [w.dim(2), w.dim(3)],
            strides: g.strides.map(|s| s as usize),
            pads: [g.pads[0] as usize, g.pads[1] as usize],
            dilations: g.dilations.map(|d| d as usize),
        };
        // One tap without gaps or padding does not see the shape of the plane: take it as one long row.
        Ok(if window.is_pointwise() {
            let (input, output) = (product(&window.input), product(&window.output));
            Window { input: [1, input], output: [1, output], ..window }
        } else {
            window.along_the_row()
        })
    }

    /// A plane of one column lies in memory as one row: take it as such, since kernels walk along rows.
    fn along_the_row(self) -> Window {
        if self.input[1] != 1 || self.output[1] != 1 || self.taps[1] != 1 || self.pads[1] != 0 {
            return self;
        }
        let turned = |[rows, columns]: [usize; 2]| [columns, rows];
        Window {
            input: turned(self.input),
            output: turned(self.output),
            taps: turned(self.taps),
            strides: turned(self.strides),
            pads: turned(self.pads),
            dilations: turned(self.dilations),
            ..self
        }
    }

    /// The same over three axes.
    fn grid(&self) -> Grid {
        let three = |one: usize, [a, b]: [usize; 2]| [one, a, b];
        Grid {
            batch: self.batch,
            channels: self.channels,
            groups: self.groups,
            outputs: self.outputs,
            input: three(1, self.input),
            output: three(1, self.output),
            taps: three(1, self.taps),
            strides: three(1, self.strides),
            pads: three(0, self.pads),
            dilations: three(1, self.dilations),
        }
    }

    pub(crate) fn is_pointwise(&self) -> bool {
        self.taps == [1, 1] && self.strides == [1, 1] && self.pads == [0, 0] && self.input == self.output
    }

    pub(crate) fn check(&self, x: usize, w: usize, y: usize) -> Result<(), KernelError> {
        let planes = product(&[self.batch, self.channels, self.groups]);
        expect("elements of x", product(&[planes, self.input[0], self.input[1]]), x)?;
        expect("elements of w", product(&[self.outputs, self.channels, self.taps[0], self.taps[1]]), w)?;
        expect("elements of y", product(&[self.batch, self.outputs, self.output[0], self.output[1]]), y)
    }

    /// Output channels of one group; at least 1 where there is any output.
    pub(crate) fn outputs_per_group(&self) -> usize {
        self.outputs / self.groups
    }

    /// The input planes of a group.
    pub(crate) fn group<'x, T>(
        &self,
        x: &'x [T],
        batch: usize,
        group: usize,
    ) -> Result<&'x [T], KernelError> {
        let n = product(&[self.channels, self.input[0], self.input[1]]);
        let start = batch.wrapping_mul(self.groups).wrapping_add(group).wrapping_mul(n);
        x.get(start..).and_then(|x| x.get(..n)).ok_or(OUT_OF_RANGE)
    }

    /// The weights of an output channel.
    pub(crate) fn weights<'w, T>(&self, w: &'w [T], output: usize) -> Result<&'w [T], KernelError> {
        let n = product(&[self.channels, self.taps[0], self.taps[1]]);
        w.get(output.wrapping_mul(n)..).and_then(|w| w.get(..n)).ok_or(OUT_OF_RANGE)
    }

    /// Whether windows are side by side and without gaps.
    #[cfg(feature = "std")]
    pub(crate) fn is_dense(&self) -> bool {
        self.strides == [1, 1] && self.dilations == [1, 1]
    }

    /// Padding at the top and at the left.
    #[cfg(feature = "std")]
    pub(crate) fn pads(&self) -> [usize; 2] {
        self.pads
    }

    /// Steps between windows along `axis`.
    #[cfg(feature = "std")]
    pub(crate) fn stride(&self, axis: usize) -> usize {
        self.strides[axis]
    }

    /// Steps between taps along `axis`.
    #[cfg(feature = "std")]
    pub(crate) fn dilation(&self, axis: usize) -> usize {
        self.dilations[axis]
    }

    /// Padding before the input along `axis`.
    #[cfg(feature = "std")]
    pub(crate) fn pad(&self, axis: usize) -> usize {
        self.pads[axis]
    }

    /// Position in the input along `axis` of tap `tap` of the window at `position`.
    pub(crate) fn source(&self, axis: usize, position: usize, tap: usize) -> usize {
        let start = position.wrapping_mul(self.strides[axis]).wrapping_sub(self.pads[axis]);
        start.wrapping_add(tap.wrapping_mul(self.dilations[axis]))
    }

    /// Row `tap` of the window at output row `row`, in the plane of channel `channel`; `None` in the padding.
    pub(crate) fn row<'x, T>(
        &self,
        planes: &'x [T],
        channel: usize,
        row: usize,
        tap: usize,
    ) -> Option<&'x [T]> {
        let source = self.source(0, row, tap);
        let [height, width] = self.input;
        if source >= height {
            return None;
        }
        let start = channel.wrapping_mul(height).wrapping_add(source).wrapping_mul(width);
        planes.get(start..)?.get(..width)
    }
}
