//! Sums of products and how far a device may be from them.

use super::estimate;
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

/// Largest relative error of one rounding in the type that a device computes in. That of f64 is doubled, because the
/// expected value has rounding errors of its own.
pub(crate) fn unit(dtype: DType) -> f64 {
    estimate::unit(dtype) * if dtype == DType::F64 { 2.0 } else { 1.0 }
}

/// How far two results that are both rounded to a type can be apart, if they were about `size` before. That of f32 and
/// f64 is the rounding of the expected one alone.
pub(crate) fn storing(dtype: DType, size: f64) -> f64 {
    match dtype {
        DType::F16 | DType::BF16 => estimate::spacing(dtype, size),
        _ => size * unit(dtype),
    }
}

/// The rounded results of sums that a device computes in f32 (f64 in f64), and the tolerance.
///
/// With `n` terms each term goes through at most `n` roundings (its product and the additions after it), each of
/// relative error `u`, whatever the order and whether or not products are fused: the error is at most
/// `n·u / (1 − n·u) · Σ|terms|`. To that comes the rounding of the expected value and, in f16 and bf16, of the result;
/// and the smallest normal number, below which devices may flush to zero. An activation does not enlarge errors.
pub(crate) fn rounded(dtype: DType, dims: &[usize], sums: &[Sum], relu: bool) -> (Tensor, Tolerance) {
    let activated = |x: f64| if relu && x < 0.0 { 0.0 } else { x };
    let values: Vec<f64> = sums.iter().map(|s| activated(s.value)).collect();
    let bound = |s: &Sum| {
        let n = f64::from(s.terms) * unit(dtype);
        let summed = n / (1.0 - n) * s.magnitude;
        summed + storing(dtype, s.value.abs() + summed) + f64::from(f32::MIN_POSITIVE)
    };
    (Tensor::float(dtype, dims, &values), Tolerance::Bounds(sums.iter().map(bound).collect()))
}
