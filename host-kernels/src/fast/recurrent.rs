//! Recurrent layers in f32: those of the reference, with the products and the usual gates in vectors.

use super::tile::{Tile, kernels as tiles};
use super::unary::{Sigmoid, Tanh, apply};
use crate::cells::{Gru, Lstm, Rnn, Routines};
use crate::gate::Gate;
use crate::recurrent::layer;
use crate::registry::{Registered, kernels, sets::F32};
use serinette_core::op::recurrent::{self as op, GateFunction};
use serinette_core::op::unary::Parameters;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { recurrent:
    op::RNN => rnn, F32 => F32;
    op::GRU => gru, F32 => F32;
    op::LSTM => lstm, F32 => F32;
};

const ROUTINES: Routines<f32> = Routines { inputs: add_products, states: add_products, gate };

/// `Rnn` in f32.
pub fn rnn(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    layer::<f32, Rnn>(step, ops, &ROUTINES)
}

/// `Gru` in f32.
pub fn gru(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    layer::<f32, Gru>(step, ops, &ROUTINES)
}

/// `Lstm` in f32.
pub fn lstm(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    layer::<f32, Lstm>(step, ops, &ROUTINES)
}

fn gate(gate: &Gate<f32>, v: &mut [f32]) {
    match gate.without_clamp() {
        Some(GateFunction::Sigmoid) => apply::<Sigmoid>(None, v, Parameters::default()),
        Some(GateFunction::Tanh) => apply::<Tanh>(None, v, Parameters::default()),
        _ => gate.apply(v),
    }
}

/// Rows of `b` that every row of `a` passes by before the next ones: they stay in the nearest cache.
const BLOCK: usize = 16;

/// `out[i · stride + j] += a[i] · b[j]` for all rows of `k` elements in `a` and `b`. Whatever is too short is left out.
fn add_products(a: &[f32], b: &[f32], k: usize, out: &mut [f32], stride: usize) {
    if k == 0 || stride == 0 {
        return;
    }
    let dots = tiles().dots;
    for (block, b) in b.chunks(BLOCK * k).enumerate() {
        let (first, rows) = (block * BLOCK, b.len() / k);
        for (a, out) in a.chunks_exact(k).zip(out.chunks_mut(stride)) {
            let Some(out) = out.get_mut(first..) else { continue };
            let tile = Tile {
                k,
                a: a.as_ptr(),
                a_stride: k,
                b: b.as_ptr(),
                b_stride: k,
                y: out.as_mut_ptr(),
                y_stride: 1,
                add: true,
                finish: None,
            };
            // SAFETY: `a` has `k` floats, `b` that many rows of them, `out` at least so many places, and only it is written.
            unsafe { dots(rows.min(out.len()), &tile) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::add_products;
    use std::vec::Vec;

    #[test]
    fn products_are_those_of_the_reference() {
        for (m, n, k, stride) in
            [(1, 1, 1, 1), (3, 7, 5, 9), (4, 40, 33, 40), (2, 13, 27, 17), (8, 3, 16, 2), (1, 35, 70, 35)]
        {
            let number = |i: usize| (i * 37 % 101) as f32 * 0.37 - 11.0;
            let a: Vec<f32> = (0..m * k).map(number).collect();
            let b: Vec<f32> = (0..n * k).map(|i| number(i + 7)).collect();
            let mut out: Vec<f32> = (0..m * stride).map(|i| number(i + 3)).collect();
            let want: Vec<f64> = (0..m * stride)
                .map(|at| {
                    let (i, j) = (at / stride, at % stride);
                    let product = |p: usize| f64::from(a[i * k + p]) * f64::from(b[j * k + p]);
                    f64::from(out[at]) + if j < n { (0..k).map(product).sum() } else { 0.0 }
                })
                .collect();
            add_products(&a, &b, k, &mut out, stride);
            for (found, want) in out.iter().zip(want) {
                assert!(
                    (f64::from(*found) - want).abs() < 1e-5 * (want.abs() + 100.0),
                    "{found}, not {want}"
                );
            }
        }
    }
}
