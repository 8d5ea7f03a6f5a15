//! How far a convolution with 3 × 3 taps and stride 1 may be off if a device computes it by F(4 × 4, 3 × 3) (Lavin and Gray,
//! "Fast Algorithms for Convolutional Neural Networks", 2015) at the points 0, ±1/√2, ±√2 and infinity.

use super::conv::source;
use super::sum::unit;
use crate::Tensor;
use serinette_core::DType;
use serinette_core::op::conv::Geometry;
use std::f64::consts::{FRAC_1_SQRT_2 as A, SQRT_2 as B};

/// Magnitudes of the transforms' coefficients: of six elements and of three weights to six points, of six points to four
/// results.
const INPUT: [[f64; 6]; 6] = [
    [1.0, 0.0, 2.5, 0.0, 1.0, 0.0],
    [0.0, 2.0 * A, 2.0, A, 1.0, 0.0],
    [0.0, 2.0 * A, 2.0, A, 1.0, 0.0],
    [0.0, B / 2.0, 0.5, B, 1.0, 0.0],
    [0.0, B / 2.0, 0.5, B, 1.0, 0.0],
    [0.0, 1.0, 0.0, 2.5, 0.0, 1.0],
];
const WEIGHTS: [[f64; 3]; 6] = [
    [1.0, 0.0, 0.0],
    [1.0 / 1.5, A / 1.5, 0.5 / 1.5],
    [1.0 / 1.5, A / 1.5, 0.5 / 1.5],
    [1.0 / 6.0, B / 6.0, 2.0 / 6.0],
    [1.0 / 6.0, B / 6.0, 2.0 / 6.0],
    [0.0, 0.0, 1.0],
];
const OUTPUT: [[f64; 6]; 4] = [
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
    [0.0, A, A, B, B, 0.0],
    [0.0, 0.5, 0.5, 2.0, 2.0, 0.0],
    [0.0, A / 2.0, A / 2.0, 2.0 * B, 2.0 * B, 1.0],
];

/// `m · x · mᵀ`.
fn both<const R: usize, const C: usize>(m: &[[f64; C]; R], x: &[[f64; C]; C]) -> [[f64; R]; R] {
    let mut y = [[0.0; R]; R];
    for (i, y) in y.iter_mut().enumerate() {
        for (j, y) in y.iter_mut().enumerate() {
            for (a, x) in x.iter().enumerate() {
                for (b, x) in x.iter().enumerate() {
                    *y += m[i][a] * m[j][b] * x;
                }
            }
        }
    }
    y
}

/// The bound of each element of the result, of the dimensions `dims`, in f32.
///
/// Every term of a result goes through the roundings of three transforms, which are fewer than 40 with those of the coefficients,
/// and of a sum over the channels; each is of relative error `u`. So the error is at most `n·u / (1 − n·u)` of what the same
/// transforms make of magnitudes.
pub(crate) fn bounds(g: &Geometry, x: &Tensor, w: &Tensor, dims: &[usize]) -> Vec<f64> {
    let (xs, ws) = (x.numbers(), w.numbers());
    let [batch, outputs, height, width] = [dims[0], dims[1], dims[2], dims[3]];
    let channels = w.dims[1];
    let weights: Vec<_> = ws
        .chunks_exact(9)
        .map(|w| {
            let rows = core::array::from_fn(|i| core::array::from_fn(|j| w[3 * i + j].abs()));
            both(&WEIGHTS, &rows)
        })
        .collect();
    let n = (channels + 40) as f64 * unit(DType::F32);
    let mut bounds = vec![0.0; batch * outputs * height * width];
    for image in 0..batch {
        for (top, left) in (0..height).step_by(4).flat_map(|y| (0..width).step_by(4).map(move |x| (y, x))) {
            let patches: Vec<_> = (0..channels)
                .map(|c| {
                    let element = |i: usize, j: usize| {
                        let (y, x_) = (source(g, 0, top, i), source(g, 1, left, j));
                        let inside =
                            (0..x.dims[2] as i64).contains(&y) && (0..x.dims[3] as i64).contains(&x_);
                        let line = (image * channels + c) * x.dims[2];
                        if inside { xs[(line + y as usize) * x.dims[3] + x_ as usize].abs() } else { 0.0 }
                    };
                    both(&INPUT, &core::array::from_fn(|i| core::array::from_fn(|j| element(i, j))))
                })
                .collect();
            for o in 0..outputs {
                let mut sums = [[0.0; 6]; 6];
                for (patch, weights) in patches.iter().zip(&weights[o * channels..]) {
                    for (i, sums) in sums.iter_mut().enumerate() {
                        for (j, sum) in sums.iter_mut().enumerate() {
                            *sum += patch[i][j] * weights[i][j];
                        }
                    }
                }
                for (i, row) in both(&OUTPUT, &sums).iter().enumerate() {
                    for (j, magnitude) in row.iter().enumerate() {
                        if top + i < height && left + j < width {
                            let at = ((image * outputs + o) * height + top + i) * width + left + j;
                            bounds[at] = n / (1.0 - n) * magnitude;
                        }
                    }
                }
            }
        }
    }
    bounds
}
