//! Convolutions element by element.

use super::requantize::requantize;
use super::sum::Sum;
use crate::Tensor;
use serinette_core::op::conv::{Geometry, QConv2d};

/// Window positions along an axis.
pub(crate) fn positions(g: &Geometry, axis: usize, size: usize, taps: usize) -> usize {
    let padded = size as i64 + i64::from(g.pads[axis]) + i64::from(g.pads[axis + 2]);
    let span = i64::from(g.dilations[axis]) * (taps as i64 - 1) + 1;
    ((padded - span) / i64::from(g.strides[axis]) + 1) as usize
}

/// Position in the input of a tap, which may lie in the padding.
pub(crate) fn source(g: &Geometry, axis: usize, position: usize, tap: usize) -> i64 {
    position as i64 * i64::from(g.strides[axis]) - i64::from(g.pads[axis])
        + tap as i64 * i64::from(g.dilations[axis])
}

/// Calls `each` for every output element in order, with its channel and the pairs of elements of `x` and `w` that
/// it sums; taps in the padding are left out. Gives the dimensions of the result.
fn convolution(
    g: &Geometry,
    groups: usize,
    x: &[usize],
    w: &[usize],
    mut each: impl FnMut(usize, &[(usize, usize)]),
) -> Vec<usize> {
    let (height, width) = (positions(g, 0, x[2], w[2]), positions(g, 1, x[3], w[3]));
    for n in 0..x[0] {
        for o in 0..w[0] {
            for oy in 0..height {
                for ox in 0..width {
                    let mut pairs = Vec::new();
                    for c in 0..w[1] {
                        for ky in 0..w[2] {
                            for kx in 0..w[3] {
                                let (iy, ix) = (source(g, 0, oy, ky), source(g, 1, ox, kx));
                                if (0..x[2] as i64).contains(&iy) && (0..x[3] as i64).contains(&ix) {
                                    let channel = o / (w[0] / groups) * w[1] + c;
                                    let from =
                                        ((n * x[1] + channel) * x[2] + iy as usize) * x[3] + ix as usize;
                                    pairs.push((from, ((o * w[1] + c) * w[2] + ky) * w[3] + kx));
                                }
                            }
                        }
                    }
                    each(o, &pairs);
                }
            }
        }
    }
    vec![x[0], w[0], height, width]
}

/// The convolution and its dimensions.
pub(crate) fn float(
    g: &Geometry,
    groups: u32,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
) -> (Vec<usize>, Vec<Sum>) {
    let (xs, ws, bias) = (x.numbers(), w.numbers(), bias.map(Tensor::numbers));
    let mut sums = Vec::new();
    let dims = convolution(g, groups as usize, &x.dims, &w.dims, |channel, pairs| {
        let mut sum = Sum::default();
        if let Some(bias) = &bias {
            sum.add(bias[channel]);
        }
        pairs.iter().for_each(|(i, j)| sum.add(xs[*i] * ws[*j]));
        sums.push(sum);
    });
    (dims, sums)
}

/// The convolution in 8-bit integers.
pub(crate) fn quantized(attrs: &QConv2d, [x, w, bias, multiplier, shift]: [&Tensor; 5]) -> Tensor {
    let [xs, ws, bias, multiplier, shift] = [x, w, bias, multiplier, shift].map(Tensor::integers);
    let mut y = Vec::new();
    let zero = i128::from(attrs.requantize.x_zero);
    let dims = convolution(&attrs.geometry, attrs.groups as usize, &x.dims, &w.dims, |c, pairs| {
        let sum: i128 = pairs.iter().map(|(i, j)| (i128::from(xs[*i]) - zero) * i128::from(ws[*j])).sum();
        y.push(requantize(&attrs.requantize, sum + i128::from(bias[c]), multiplier[c], shift[c]));
    });
    Tensor::i8(&dims, &y)
}
