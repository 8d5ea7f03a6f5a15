//! Reference values: naive loops over multi-indices, in f64, i64 and i128.

pub(crate) mod bounded;
pub(crate) mod broadcast;
pub(crate) mod conv;
pub(crate) mod erf;
pub(crate) mod estimate;
pub(crate) mod half;
pub(crate) mod matmul;
pub(crate) mod order;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod resize;
pub(crate) mod round;
pub(crate) mod rows;
pub(crate) mod spatial;
pub(crate) mod sum;
pub(crate) mod winograd;

/// Whether elements of a type are floats.
pub(crate) fn is_float(t: serinette_core::DType) -> bool {
    serinette_core::op::unary::FLOATS.contains(t)
}
