//! 2-D convolutions.

use crate::arithmetic::{Arithmetic, BLOCK, Float, Quantized, Taps};
use crate::{OUT_OF_RANGE, expect, im2col, product};
use serinette_core::op::Activation;
use serinette_core::op::conv::{Conv2d, Geometry, QConv2d};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `Conv2d` in f32. With enough scratch the input is unfolded block by block and every output channel reads the
/// unfolded rows; without, the taps read the input where it is.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Conv2d = step.attributes()?;
    let window = Window::new(step, &attrs.geometry, attrs.groups)?;
    let bias = ops.optional::<f32>(2)?;
    if let Some(bias) = bias {
        expect("elements of the bias", window.outputs, bias.len())?;
    }
    let arithmetic = Float { bias, activation: Activation::from_code(attrs.activation)? };
    let (x, w, y) = (ops.input(0)?, ops.input(1)?, ops.output(0)?);
    window.check(x.len(), w.len(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    if window.is_pointwise() || !im2col::pays(&window) {
        return direct(&arithmetic, &window, x, w, y);
    }
    let scratch = ops.scratch::<f32>();
    if im2col::fits(&window, scratch.len()) {
        im2col::convolve(&arithmetic, &window, x, w, y, scratch)
    } else {
        direct(&arithmetic, &window, x, w, y)
    }
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
    let (x, w, y) = (ops.input(0)?, ops.input(1)?, ops.output(0)?);
    window.check(x.len(), w.len(), y.len())?;
    direct(&arithmetic, &window, x, w, y)
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
    fn new(step: &StepView<'_>, g: &Geometry, groups: u32) -> Result<Window, KernelError> {
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
            window
        })
    }

    pub(crate) fn is_pointwise(&self) -> bool {
        self.taps == [1, 1] && self.strides == [1, 1] && self.pads == [0, 0] && self.input == self.output
    }

    fn check(&self, x: usize, w: usize, y: usize) -> Result<(), KernelError> {
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

    /// The output columns whose window lies within the width of the input.
    fn interior(&self) -> core::ops::Range<usize> {
        let (width, stride, pad) = (self.input[1], self.strides[1], self.pads[1]);
        let reach = (self.taps[1] - 1).saturating_mul(self.dilations[1]);
        let first = pad.div_ceil(stride).min(self.output[1]);
        let end = width.saturating_add(pad).saturating_sub(reach).div_ceil(stride);
        first..end.clamp(first, self.output[1])
    }
}

/// Every output row is a sum of input rows times a weight.
fn direct<A: Arithmetic<W = <A as Arithmetic>::X, Y = <A as Arithmetic>::X>>(
    arithmetic: &A,
    window: &Window,
    x: &[A::X],
    w: &[A::X],
    y: &mut [A::X],
) -> Result<(), KernelError> {
    if y.is_empty() {
        return Ok(());
    }
    let [height, width] = window.output;
    let interior = window.interior();
    for (plane, y) in y.chunks_exact_mut(height * width).enumerate() {
        let (batch, channel) = (plane / window.outputs, plane % window.outputs);
        let planes = window.group(x, batch, channel / window.outputs_per_group())?;
        let line = Line { arithmetic, window, planes, weights: window.weights(w, channel)?, channel };
        for (row, y) in y.chunks_exact_mut(width).enumerate() {
            let (left, rest) = y.split_at_mut_checked(interior.start).ok_or(OUT_OF_RANGE)?;
            let (middle, right) = rest.split_at_mut_checked(interior.len()).ok_or(OUT_OF_RANGE)?;
            line.edge(row, 0, left);
            for (block, y) in middle.chunks_mut(BLOCK).enumerate() {
                line.interior(row, interior.start + block * BLOCK, y)?;
            }
            line.edge(row, interior.end, right);
        }
    }
    Ok(())
}

/// What makes one output channel of one batch.
struct Line<'a, A: Arithmetic> {
    arithmetic: &'a A,
    window: &'a Window,
    /// The input planes of its group.
    planes: &'a [A::X],
    weights: &'a [A::W],
    channel: usize,
}

impl<A: Arithmetic<W = <A as Arithmetic>::X, Y = <A as Arithmetic>::X>> Line<'_, A> {
    /// At most [`BLOCK`] results from column `first` on, whose windows lie within the width of the input.
    fn interior(&self, row: usize, first: usize, y: &mut [A::X]) -> Result<(), KernelError> {
        let Line { arithmetic, window, .. } = *self;
        let mut acc = [arithmetic.start(self.channel); BLOCK];
        let acc = acc.get_mut(..y.len()).ok_or(OUT_OF_RANGE)?;
        let [kernel_height, kernel_width] = window.taps;
        let start = window.source(1, first, 0);
        let mut taps = Taps::new(window.strides[1]);
        for (line, weights) in self.weights.chunks_exact(kernel_width).enumerate() {
            let Some(source) = window.row(self.planes, line / kernel_height, row, line % kernel_height)
            else {
                continue;
            };
            let mut at = start;
            for w in weights {
                taps.add(arithmetic, acc, source.get(at..).ok_or(OUT_OF_RANGE)?, *w);
                at = at.wrapping_add(window.dilations[1]);
            }
        }
        taps.flush(arithmetic, acc);
        for (y, acc) in y.iter_mut().zip(acc) {
            *y = arithmetic.finish(self.channel, *acc);
        }
        Ok(())
    }

    /// Results from column `first` on, whose windows may reach into the padding.
    fn edge(&self, row: usize, first: usize, y: &mut [A::X]) {
        let Line { arithmetic, window, .. } = *self;
        let [kernel_height, kernel_width] = window.taps;
        for (column, y) in y.iter_mut().enumerate() {
            let mut acc = arithmetic.start(self.channel);
            for (line, weights) in self.weights.chunks_exact(kernel_width).enumerate() {
                let Some(source) = window.row(self.planes, line / kernel_height, row, line % kernel_height)
                else {
                    continue;
                };
                for (tap, w) in weights.iter().enumerate() {
                    if let Some(x) = source.get(window.source(1, first.wrapping_add(column), tap)) {
                        acc = arithmetic.mac(acc, *x, arithmetic.widen(*w));
                    }
                }
            }
            *y = arithmetic.finish(self.channel, acc);
        }
    }
}
