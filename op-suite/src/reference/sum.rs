//! Sums of products and how far a device may be from them.

use super::half;
use crate::{Tensor, Tolerance};
use serinette_core::DType;

/// A sum of products in f64, with the sum of the magnitudes of its terms.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) value: f64,
    pub(crate) magnitude: f64,
    terms: u32,
}

impl Sum {
    pub(crate) fn add(&mut self, term: f64) {
        self.value += term;
        self.magnitude += term.abs();
        self.terms += 1;
    }
}

/// The rounded results of sums that a device computes in f32, and the tolerance.
///
/// With `n` terms each term goes through at most `n` roundings (its product and the additions after it), each of
/// relative error `u = 2^-24`, whatever the order and whether or not products are fused: the error is at most
/// `n·u / (1 − n·u) · Σ|terms|`. To that comes the rounding of the expected value and, in f16, of the result; and
/// the smallest normal number, below which devices may flush to zero. An activation does not enlarge errors.
pub(crate) fn rounded(dtype: DType, dims: &[usize], sums: &[Sum], relu: bool) -> (Tensor, Tolerance) {
    let unit = 2f64.powi(-24);
    let activated = |x: f64| if relu && x < 0.0 { 0.0 } else { x };
    let values: Vec<f64> = sums.iter().map(|s| activated(s.value)).collect();
    let bound = |s: &Sum| {
        let n = f64::from(s.terms) * unit;
        let summed = n / (1.0 - n) * s.magnitude;
        let stored = match dtype {
            DType::F16 => half::spacing(s.value.abs() + summed),
            _ => s.value.abs() * unit,
        };
        summed + stored + f64::from(f32::MIN_POSITIVE)
    };
    (Tensor::float(dtype, dims, &values), Tolerance::Bounds(sums.iter().map(bound).collect()))
}
