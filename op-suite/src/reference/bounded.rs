//! Numbers with a bound of how far a device's number may be off: each operation carries the bounds of its operands on
//! and adds one for its own rounding. Nothing is assumed about the order of sums.

use super::sum::{storing, unit};
use crate::{Tensor, Tolerance};
use serinette_core::DType;

/// A number and the largest error of a device's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounded {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl From<f64> for Bounded {
    fn from(value: f64) -> Bounded {
        Bounded { value, error: 0.0 }
    }
}

/// Units in the last place that a device may be off in an elementary function, and in the division.
const FUNCTION: f64 = 16.0;

/// Arithmetic in a type.
#[derive(Clone, Copy)]
pub(crate) struct Precision(f64);

impl Precision {
    /// That in which tensors of `dtype` are computed.
    pub(crate) fn of(dtype: DType) -> Precision {
        Precision(unit(dtype))
    }

    fn rounded(self, value: f64, error: f64, units: f64) -> Bounded {
        let own = units * self.0 * (value.abs() + error) + f64::from(f32::MIN_POSITIVE);
        Bounded { value, error: error + own }
    }

    pub(crate) fn add(self, a: Bounded, b: Bounded) -> Bounded {
        self.rounded(a.value + b.value, a.error + b.error, 1.0)
    }

    pub(crate) fn sub(self, a: Bounded, b: Bounded) -> Bounded {
        self.rounded(a.value - b.value, a.error + b.error, 1.0)
    }

    pub(crate) fn mul(self, a: Bounded, b: Bounded) -> Bounded {
        let error = a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error;
        self.rounded(a.value * b.value, error, 1.0)
    }

    /// `a / b`, with `b` away from zero.
    pub(crate) fn div(self, a: Bounded, b: Bounded) -> Bounded {
        let value = a.value / b.value;
        let error = (a.error + value.abs() * b.error) / (b.value.abs() - b.error);
        self.rounded(value, error, FUNCTION)
    }

    /// The sum of the products of pairs, in any order, fused or not.
    pub(crate) fn dot(self, pairs: impl Iterator<Item = (Bounded, Bounded)>) -> Bounded {
        let (mut sum, mut magnitude, mut terms) = (Bounded::default(), 0.0, 0.0);
        for (a, b) in pairs {
            sum.value += a.value * b.value;
            let error = a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error;
            sum.error += error;
            magnitude += (a.value * b.value).abs() + error;
            terms += 1.0;
        }
        Bounded { error: sum.error + 1.01 * terms * self.0 * magnitude + f64::from(f32::MIN_POSITIVE), ..sum }
    }

    /// A function that rises or falls throughout.
    pub(crate) fn monotone(self, x: Bounded, f: impl Fn(f64) -> f64) -> Bounded {
        let value = f(x.value);
        let (up, down) = ((f(x.value + x.error) - value).abs(), (f(x.value - x.error) - value).abs());
        self.rounded(value, up.max(down), FUNCTION)
    }
}

/// A stored tensor and its tolerance.
pub(crate) fn stored(dtype: DType, dims: &[usize], all: &[Bounded]) -> (Tensor, Vec<f64>) {
    let values: Vec<f64> = all.iter().map(|b| b.value).collect();
    let bounds = all.iter().map(|b| b.error + storing(dtype, b.value.abs() + b.error)).collect();
    (Tensor::float(dtype, dims, &values), bounds)
}

/// The same for the only output.
pub(crate) fn only(dtype: DType, dims: &[usize], all: &[Bounded]) -> (Tensor, Tolerance) {
    let (t, bounds) = stored(dtype, dims, all);
    (t, Tolerance::Bounds(bounds))
}
