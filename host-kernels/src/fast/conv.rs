//! 2-D convolution as a product of the weights, `[O, C·KH·KW]`, with the unfolded input, `[C·KH·KW, OH·OW]`, which is
//! unfolded only panel by panel, while it is packed.

use super::depthwise;
use super::gemm::{Product, Right, RowMajor};
use super::parallel::{Shared, for_each};
use super::winograd::Layer;
use crate::conv::Window;
use crate::expect;
use crate::registry::{Registered, kernels, sets::F32};
use core::ops::Range;
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::conv::Conv2d;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { conv:
    op::conv::CONV2D => f32, F32 => F32;
};

/// `Conv2d` in f32.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Conv2d = step.attributes()?;
    let window = Window::new(step, &attrs.geometry, attrs.groups)?;
    let bias = ops.optional::<f32>(2)?.unwrap_or(&[]);
    if !bias.is_empty() {
        expect("elements of the bias", window.outputs, bias.len())?;
    }
    let relu = Activation::from_code(attrs.activation)? == Activation::Relu;
    let (x, w, y) = (ops.input::<f32>(0)?, ops.input::<f32>(1)?, ops.output::<f32>(0)?);
    window.check(x.len(), w.len(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    if window.channels == 1 && window.outputs == window.groups && !window.is_pointwise() {
        depthwise::convolve(&window, x, w, bias, relu, y);
        return Ok(());
    }
    let outputs = window.outputs_per_group();
    let positions = window.output[0] * window.output[1];
    let taps = window.channels * window.taps[0] * window.taps[1];
    let plane = outputs * positions;
    let y = Shared(y.as_mut_ptr());
    if window.groups == 1 && window.taps == [3, 3] && window.is_dense() {
        let layer = Layer {
            batch: window.batch,
            channels: window.channels,
            outputs,
            input: window.input,
            output: window.output,
            pads: window.pads(),
            w,
            bias,
            relu,
        };
        if layer.suits(x) {
            // SAFETY: `check` has seen that `y` has all planes of all images; nothing else touches it.
            unsafe { layer.run(x, y) };
            return Ok(());
        }
    }
    for_each(window.batch * window.groups, |i| {
        let (batch, group) = (i / window.groups, i % window.groups);
        let first = group * outputs;
        let (Ok(planes), Some(a)) =
            (window.group(x, batch, group), w.get(first * taps..).and_then(|w| w.get(..outputs * taps)))
        else {
            return;
        };
        let per_row = bias.get(first..first + outputs).unwrap_or(&[]);
        // SAFETY: `y` has `batch · groups` parts of `plane` elements, as `check` has seen, and this task alone has the `i`-th.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(i * plane), plane) };
        let (m, n, k) = (outputs, positions, taps);
        if window.is_pointwise() {
            let b = RowMajor { elements: planes, n };
            Product { m, n, k, a, b, per_row, per_column: &[], relu }.run(y);
        } else {
            let b = Unfolded { window: &window, planes };
            Product { m, n, k, a, b, per_row, per_column: &[], relu }.run(y);
        }
    });
    Ok(())
}

/// The unfolded input of one batch and group: a row for each channel and tap, a column for each output position.
struct Unfolded<'a> {
    window: &'a Window,
    planes: &'a [f32],
}

impl Right for Unfolded<'_> {
    fn pack(&self, rows: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        let w = self.window;
        let [high, wide] = w.taps;
        let out_width = w.output[1];
        let (y0, x0) = (columns.start / out_width, columns.start % out_width);
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let (channel, tap) = (row / (high * wide), row % (high * wide));
            let (tap_y, tap_x) = (tap / wide, tap % wide);
            let (mut y, mut x) = (y0, x0);
            let mut rest = &mut out[..];
            let mut left = columns.len();
            while left > 0 {
                let count = left.min(out_width - x);
                let (here, after) = rest.split_at_mut(count);
                match w.row(self.planes, channel, y, tap_y) {
                    Some(line) => unfold(w, line, x, tap_x, here),
                    None => here.fill(0.0),
                }
                rest = after;
                left -= count;
                (y, x) = (y + 1, 0);
            }
            rest.fill(0.0);
        }
    }
}

/// The elements that tap `tap` sees from the output columns from `first` on, in the row `line` of the input.
fn unfold(w: &Window, line: &[f32], first: usize, tap: usize, out: &mut [f32]) {
    let stride = w.stride(1);
    // Modulo 2^usize, so that positions in the padding are at least the width of the line.
    let source = w.source(1, first, tap);
    let before = if source < line.len() { 0 } else { source.wrapping_neg().div_ceil(stride).min(out.len()) };
    let (zeros, out) = out.split_at_mut(before);
    zeros.fill(0.0);
    let inside = line.get(source.wrapping_add(before * stride)..).unwrap_or(&[]);
    let (there, behind) = out.split_at_mut(inside.len().div_ceil(stride).min(out.len()));
    behind.fill(0.0);
    match stride {
        1 => there.copy_from_slice(&inside[..there.len()]),
        2 => {
            // The last one may be the first of half a pair.
            let (pairs, rest) = inside.as_chunks::<2>();
            let (paired, last) = there.split_at_mut(there.len().min(pairs.len()));
            paired.iter_mut().zip(pairs).for_each(|(out, [x, _])| *out = *x);
            last.iter_mut().zip(rest).for_each(|(out, x)| *out = *x);
        }
        _ => there.iter_mut().zip(inside.iter().step_by(stride)).for_each(|(out, x)| *out = *x),
    }
}
