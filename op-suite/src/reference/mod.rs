//! Reference values: naive loops over multi-indices, in f64, i64 and i128.

pub(crate) mod broadcast;
pub(crate) mod conv;
pub(crate) mod half;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod round;
pub(crate) mod sum;
