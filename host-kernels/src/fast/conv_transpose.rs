//! Transposed convolution as a product of the transposed weights, `[O·taps, C]`, with the input, `[C, positions]`: what each element
//! gives to each tap of each output channel. These are then added where the taps fall.

use super::gemm::{Product, Right};
use super::parallel::{Shared, for_each};
use super::workspace;
use crate::conv_transpose::Sizes;
use crate::registry::{Registered, kernels, sets::F32};
use core::ops::Range;
use serinette_core::Shape;
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::conv_transpose::ConvTranspose;
use serinette_core::op::pools::planes;
use serinette_core::op::spatial::Spatial;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { conv_transpose:
    op::conv_transpose::CONV_TRANSPOSE => f32, F32 => F32;
};

/// Rows of a product (taps of some output channels) that make its packing worth while.
const ROWS: usize = 96;
/// Floats of products that are kept at a time, more only where a single line of the input makes more.
const PRODUCTS: usize = 64 * 1024;

/// `ConvTranspose` in f32.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ConvTranspose = step.attributes()?;
    let sizes = Sizes::new(step, &attrs)?;
    let relu = Activation::from_code(attrs.activation)? == Activation::Relu;
    let bias = ops.optional::<f32>(2)?;
    let (x, w, y) = (ops.input::<f32>(0)?, ops.input::<f32>(1)?, ops.output::<f32>(0)?);
    sizes.check(x.len(), w.len(), bias.map(<[f32]>::len), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let taps = sizes.taps.iter().product::<usize>();
    let plane = sizes.output.iter().product::<usize>();
    let [at_once, _] = block(taps, sizes.outputs);
    let blocks = sizes.outputs.div_ceil(at_once);
    let y = Shared(y.as_mut_ptr());
    for_each(sizes.batch * sizes.groups * blocks, |task| {
        let (part, block) = (task / blocks, task % blocks);
        let outputs = block * at_once..sizes.outputs.min((block + 1) * at_once);
        let (Some(x), Some(w)) = (sizes.input_of(x, part), sizes.weights_of(w, part % sizes.groups)) else {
            return;
        };
        let first = (part % sizes.groups) * sizes.outputs + outputs.start;
        // SAFETY: `y` has a plane for each output channel of each group and batch, as `check` has seen; this task alone has
        // those of its outputs.
        let y = unsafe {
            let planes = y.at((part * sizes.outputs + outputs.start) * plane);
            core::slice::from_raw_parts_mut(planes, outputs.len() * plane)
        };
        for (y, channel) in y.chunks_exact_mut(plane).zip(first..) {
            y.fill(bias.and_then(|b| b.get(channel)).copied().unwrap_or(0.0));
        }
        spread(&sizes, &attrs.spatial, x, w, outputs, y);
        if relu {
            y.iter_mut().for_each(|y| *y = serinette_core::op::unary::relu(*y));
        }
    });
    Ok(())
}

/// Output channels at a time, and the rows of a product that they are.
fn block(taps: usize, outputs: usize) -> [usize; 2] {
    let outputs = ROWS.div_ceil(taps.max(1)).min(outputs);
    [outputs, outputs * taps]
}

/// Lines of the input at a time.
fn lines_at_once(rows: usize, width: usize, lines: usize) -> usize {
    (PRODUCTS / (rows * width).max(1)).clamp(1, lines.max(1))
}

/// Bytes of workspace beside that of the product, for an input and weights of these shapes, at most.
pub(super) fn workspace_bytes(x: &Shape, w: &Shape) -> usize {
    let ([depth, height, width], taps) = (planes(x), planes(w).iter().product::<usize>());
    let [_, rows] = block(taps, w.dim(1));
    let lines = lines_at_once(rows, width, depth.saturating_mul(height));
    rows.saturating_mul(w.dim(0).saturating_add(lines.saturating_mul(width))).saturating_mul(size_of::<f32>())
}

/// Adds what the input of a group gives to some of its output channels to their planes.
fn spread(s: &Sizes, g: &Spatial, x: &[f32], w: &[f32], outputs: Range<usize>, y: &mut [f32]) {
    let [depth, height, width] = s.input;
    let taps = s.taps.iter().product::<usize>();
    let (rows, lines, positions) = (outputs.len() * taps, depth * height, depth * height * width);
    if rows == 0 || positions == 0 {
        return;
    }
    let lines_at_once = lines_at_once(rows, width, lines);
    let most = rows * lines_at_once * width;
    workspace::outer(rows * s.channels + most, |memory| {
        let (weights, products) = memory.split_at_mut(rows * s.channels);
        for channel in 0..s.channels {
            let from = &w[(channel * s.outputs + outputs.start) * taps..][..rows];
            for (row, w) in from.iter().enumerate() {
                weights[row * s.channels + channel] = *w;
            }
        }
        for first in (0..lines).step_by(lines_at_once) {
            let last = lines.min(first + lines_at_once);
            let n = (last - first) * width;
            let products = &mut products[..rows * n];
            let b = Columns { elements: x, stride: positions, first: first * width };
            let (m, k) = (rows, s.channels);
            Product { m, n, k, a: weights, b, per_row: &[], per_column: &[], relu: false }.run(products);
            add(s, g, products, first..last, y);
        }
    });
}

/// Adds products, `[outputs, taps, positions]`, of some lines of the input where the taps fall.
fn add(s: &Sizes, g: &Spatial, products: &[f32], lines: Range<usize>, y: &mut [f32]) {
    let ([_, height, width], [deep, tall, wide]) = (s.input, s.output);
    let [_, taps_y, taps_x] = s.taps;
    let taps = s.taps.iter().product::<usize>();
    let n = lines.len() * width;
    // Where an element goes along an axis, modulo 2^usize: beyond the size if it is cut off.
    let target = |axis: usize, position: usize, tap: usize| {
        let at = position * g.strides[axis] as usize + tap * g.dilations[axis] as usize;
        at.wrapping_sub(g.before[axis] as usize)
    };
    let stride = g.strides[2] as usize;
    for (y, products) in y.chunks_exact_mut(deep * tall * wide).zip(products.chunks_exact(taps * n)) {
        for (tap, products) in products.chunks_exact(n).enumerate() {
            let (tap_z, tap_y, tap_x) = (tap / (taps_y * taps_x), tap / taps_x % taps_y, tap % taps_x);
            // The elements of a line whose target is within the row.
            let reach = tap_x * g.dilations[2] as usize;
            let skipped = (g.before[2] as usize).saturating_sub(reach).div_ceil(stride).min(width);
            let start = target(2, skipped, tap_x);
            for (line, products) in lines.clone().zip(products.chunks_exact(width)) {
                let (z, row) = (target(0, line / height, tap_z), target(1, line % height, tap_y));
                if z >= deep || row >= tall || start >= wide {
                    continue;
                }
                let to = y[(z * tall + row) * wide..][..wide][start..].iter_mut().step_by(stride);
                to.zip(&products[skipped..]).for_each(|(y, x)| *y += x);
            }
        }
    }
}

/// Some columns of a matrix stored row after row.
struct Columns<'a> {
    elements: &'a [f32],
    /// Elements of a row.
    stride: usize,
    first: usize,
}

impl Right for Columns<'_> {
    fn pack(&self, rows: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let (head, tail) = out.split_at_mut(columns.len());
            head.copy_from_slice(&self.elements[row * self.stride + self.first..][columns.clone()]);
            tail.fill(0.0);
        }
    }
}
