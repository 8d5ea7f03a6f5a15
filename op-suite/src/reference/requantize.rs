//! Requantisation as an exact fraction.

use super::round::quotient_half_even;
use serinette_core::op::matmul::Requantize;

/// The 8-bit result of an exact sum.
pub(crate) fn requantize(r: &Requantize, sum: i128, multiplier: i64, shift: i64) -> i8 {
    // The accumulator has 32 bits and wraps.
    let wrapped = (sum + (1 << 31)).rem_euclid(1 << 32) - (1 << 31);
    let exponent = (31 + shift).clamp(1, 62);
    let scaled = quotient_half_even(wrapped * i128::from(multiplier), 1i128 << exponent);
    (scaled + i128::from(r.y_zero)).clamp(i128::from(r.low), i128::from(r.high)) as i8
}
