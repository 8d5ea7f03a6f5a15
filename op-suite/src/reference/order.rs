//! The order of elements of any type.

use crate::Tensor;
use crate::reference::is_float;
use std::cmp::Ordering;

/// A number of any type, exactly.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Float(f64),
    Whole(i128),
}

impl Number {
    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Number::Float(x) if x.is_nan())
    }

    /// NaN above all and equal to itself, zeros equal.
    pub(crate) fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan())),
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        }
    }
}

/// Every element.
pub(crate) fn numbers(x: &Tensor) -> Vec<Number> {
    if is_float(x.dtype) {
        x.numbers().into_iter().map(Number::Float).collect()
    } else {
        x.wide_integers().into_iter().map(Number::Whole).collect()
    }
}
