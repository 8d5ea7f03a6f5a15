//! Comparisons and connectives: a module for each op, a function for each element type.

use crate::binary::broadcast;
use crate::broadcast::{Broadcast, zip};
use crate::expect;
use crate::number::Number;
use crate::registry::{Registered, kernels, sets::BOOL, typed};
use core::cmp::Ordering;
use serinette_core::op::NoAttributes;
use serinette_core::op::compare as op;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[
    less::KERNELS,
    greater::KERNELS,
    equal::KERNELS,
    less_or_equal::KERNELS,
    greater_or_equal::KERNELS,
    TRUTHS,
];

typed! { /// `Less`.
compare::less = op::LESS, numbers, compare, |a, b| order(a, b) == Some(Ordering::Less), BOOL }
typed! { /// `Greater`.
compare::greater = op::GREATER, numbers, compare, |a, b| order(a, b) == Some(Ordering::Greater), BOOL }
typed! { /// `Equal`.
compare::equal = op::EQUAL, numbers, compare, |a, b| order(a, b) == Some(Ordering::Equal), BOOL }
typed! { /// `LessOrEqual`.
compare::less_or_equal = op::LESS_OR_EQUAL, numbers, compare, |a, b| order(a, b).is_some_and(Ordering::is_le), BOOL }
typed! { /// `GreaterOrEqual`.
compare::greater_or_equal = op::GREATER_OR_EQUAL, numbers, compare, |a, b| order(a, b).is_some_and(Ordering::is_ge), BOOL }

/// Ops of truth values.
pub(crate) static TRUTHS: &[Registered] = kernels! { compare:
    op::EQUAL => equal_bool, BOOL => BOOL;
    op::AND => and, BOOL => BOOL;
    op::OR => or, BOOL => BOOL;
    op::XOR => xor, BOOL => BOOL;
};

/// `Equal` of truth values.
pub fn equal_bool(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    compare(step, ops, |a: u8, b: u8| (a != 0) == (b != 0))
}

/// `And`.
pub fn and(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    truths(step, ops, |a, b| a & b)
}

/// `Or`.
pub fn or(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    truths(step, ops, |a, b| a | b)
}

/// `Xor`.
pub fn xor(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    truths(step, ops, |a, b| a ^ b)
}

fn order<T: Number>(a: T, b: T) -> Option<Ordering> {
    a.order(b)
}

fn truths(step: &StepView<'_>, ops: Operands<'_>, f: impl Fn(bool, bool) -> bool) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    broadcast(step, ops, |a: u8, b: u8| u8::from(f(a != 0, b != 0)))
}

fn compare<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> bool,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (a, b, y) = (ops.input::<T>(0)?, ops.input::<T>(1)?, ops.output::<u8>(0)?);
    if y.is_empty() {
        return expect("elements of y", step.output(0)?.elements(), 0);
    }
    let walk = Broadcast::new(step, [a.len(), b.len()], y.len())?;
    zip(&walk, [a, b], y, |a, b| u8::from(f(a, b)))
}
