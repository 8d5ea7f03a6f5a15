//! Products element by element.

use super::requantize::requantize;
use super::sum::Sum;
use crate::Tensor;
use serinette_core::op::matmul::QMatMul;

/// Calls `each` for every output element in order, with its column and the pairs of elements of `a` and `b` that
/// it sums. Gives the dimensions of the result.
fn product(
    a: &[usize],
    b: &[usize],
    transposed: bool,
    mut each: impl FnMut(usize, &mut dyn Iterator<Item = (usize, usize)>),
) -> Vec<usize> {
    let (m, k) = (a[a.len() - 2], a[a.len() - 1]);
    let n = if transposed { b[b.len() - 2] } else { b[b.len() - 1] };
    let batches: usize = a[..a.len() - 2].iter().product();
    for batch in 0..batches {
        let b_batch = if b.len() == 2 { 0 } else { batch };
        for row in 0..m {
            for column in 0..n {
                each(
                    column,
                    &mut (0..k).map(|i| {
                        let at = if transposed { column * k + i } else { i * n + column };
                        ((batch * m + row) * k + i, b_batch * k * n + at)
                    }),
                );
            }
        }
    }
    let mut dims = a[..a.len() - 1].to_vec();
    dims.push(n);
    dims
}

/// The product and its dimensions.
pub(crate) fn float(
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    transposed: bool,
) -> (Vec<usize>, Vec<Sum>) {
    let (x, w, bias) = (a.numbers(), b.numbers(), bias.map(Tensor::numbers));
    let mut sums = Vec::new();
    let dims = product(&a.dims, &b.dims, transposed, |column, pairs| {
        let mut sum = Sum::default();
        if let Some(bias) = &bias {
            sum.add(bias[column]);
        }
        pairs.for_each(|(i, j)| sum.add(x[i] * w[j]));
        sums.push(sum);
    });
    (dims, sums)
}

/// The product of integers, modulo 2^128, and its dimensions.
pub(crate) fn whole(
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    transposed: bool,
) -> (Vec<usize>, Vec<i128>) {
    let (x, w, bias) = (a.wide_integers(), b.wide_integers(), bias.map(Tensor::wide_integers));
    let mut sums = Vec::new();
    let dims = product(&a.dims, &b.dims, transposed, |column, pairs| {
        let start = bias.as_ref().map_or(0, |b| b[column]);
        sums.push(pairs.fold(start, |sum, (i, j)| sum.wrapping_add(x[i].wrapping_mul(w[j]))));
    });
    (dims, sums)
}

/// The product in 8-bit integers.
pub(crate) fn quantized(attrs: &QMatMul, [x, w, bias, multiplier, shift]: [&Tensor; 5]) -> Tensor {
    let [xs, ws, bias, multiplier, shift] = [x, w, bias, multiplier, shift].map(Tensor::integers);
    let mut y = Vec::new();
    let zero = i128::from(attrs.requantize.x_zero);
    let dims = product(&x.dims, &w.dims, attrs.transpose_b != 0, |c, pairs| {
        let sum: i128 = pairs.map(|(i, j)| (i128::from(xs[i]) - zero) * i128::from(ws[j])).sum();
        y.push(requantize(&attrs.requantize, sum + i128::from(bias[c]), multiplier[c], shift[c]));
    });
    Tensor::i8(&dims, &y)
}
