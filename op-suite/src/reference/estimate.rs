//! Results with their worst error.

use super::half;
use crate::{Tensor, Tolerance};
use serinette_core::DType;

/// A value in f64, and how far a device may be off before it rounds the result to the type that it is stored in: in units
/// of [`unit`], to first order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// The relative error of one rounding in the type that is computed in: f64, or f32 for all others.
pub(crate) fn unit(dtype: DType) -> f64 {
    if dtype == DType::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) }
}

/// Distance of neighbours around `x`, and below which a device may flush to zero.
pub(crate) fn spacing(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F64 => x.abs() * 2f64.powi(-52) + f64::MIN_POSITIVE,
        DType::F16 => half::spacing(x),
        DType::BF16 => x.abs() * 2f64.powi(-7) + f64::from(f32::MIN_POSITIVE),
        _ => x.abs() * 2f64.powi(-23) + f64::from(f32::MIN_POSITIVE),
    }
}

/// What becomes of a value in between in the type that is computed in: f64, or f32 for all others.
pub(crate) fn fit(dtype: DType, x: f64) -> f64 {
    if dtype != DType::F64 && x.abs() > f64::from(f32::MAX) { f64::INFINITY.copysign(x) } else { x }
}

/// `Σ x` with the rounding errors added up beside (Neumaier, 1974).
pub(crate) fn sum(x: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0f64);
    for x in x {
        let next = sum + x;
        rest += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    if sum.is_finite() { sum + rest } else { sum }
}

/// The rounded results and the tolerance. In f64 the reference has errors of the same size.
pub(crate) fn rounded(dtype: DType, dims: &[usize], all: &[Estimate]) -> (Tensor, Tolerance) {
    let values: Vec<f64> = all.iter().map(|e| e.value).collect();
    let times = if dtype == DType::F64 { 2.0 } else { 1.01 };
    let bound = |e: &Estimate| {
        // Without a number where a factor is infinite: then the value is 0 or infinite, and exact.
        let error = if e.error.is_nan() { 0.0 } else { e.error * unit(dtype) * times };
        if e.value.is_finite() { error + spacing(dtype, e.value.abs() + error) } else { 0.0 }
    };
    (Tensor::float(dtype, dims, &values), Tolerance::Bounds(all.iter().map(bound).collect()))
}
