//! Element-wise functions of two tensors: a module for each op, a function for each element type.

use crate::broadcast::{Broadcast, update, zip};
use crate::expect;
use crate::functions;
use crate::number::{Integer, Number, Stored};
use crate::registry::{Registered, typed};
use core::cmp::Ordering;
use serinette_core::op::binary as op;
use serinette_core::op::{Activation, NoAttributes, binary::Binary};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[
    add::KERNELS,
    mul::KERNELS,
    sub::KERNELS,
    div::KERNELS,
    pow::KERNELS,
    modulo::KERNELS,
    remainder::KERNELS,
    min::KERNELS,
    max::KERNELS,
    prelu::KERNELS,
    bit_and::KERNELS,
    bit_or::KERNELS,
    bit_xor::KERNELS,
    shift_left::KERNELS,
    shift_right::KERNELS,
    silu_mul::KERNELS,
];

typed! { /// `Add`.
binary::add = op::ADD, numbers, activated, Number::plus, same }
typed! { /// `Mul`.
binary::mul = op::MUL, numbers, activated, Number::times, same }
typed! { /// `Sub`.
binary::sub = op::SUB, numbers, activated, Number::minus, same }
typed! { /// `Div`.
binary::div = op::DIV, numbers, activated, Number::over, same }
typed! { /// `Pow`.
binary::pow = op::POW, numbers, plain, Number::power, same }
typed! { /// `Mod`.
binary::modulo = op::MOD, integers, plain, Integer::modulo, same }
typed! { /// `Remainder`.
binary::remainder = op::REMAINDER, numbers, plain, Number::remainder, same }
typed! { /// `Min`.
binary::min = op::MIN, numbers, plain, Number::least, same }
typed! { /// `Max`.
binary::max = op::MAX, numbers, plain, Number::greatest, same }
typed! { /// `PRelu`.
binary::prelu = op::PRELU, numbers, plain, rectified, same }
typed! { /// `BitAnd`.
binary::bit_and = op::BIT_AND, integers, plain, Integer::and, same }
typed! { /// `BitOr`.
binary::bit_or = op::BIT_OR, integers, plain, Integer::or, same }
typed! { /// `BitXor`.
binary::bit_xor = op::BIT_XOR, integers, plain, Integer::xor, same }
typed! { /// `ShiftLeft`.
binary::shift_left = op::SHIFT_LEFT, integers, plain, Integer::left, same }
typed! { /// `ShiftRight`.
binary::shift_right = op::SHIFT_RIGHT, integers, plain, Integer::right, same }

typed! { /// `SiluMul`.
binary::silu_mul = op::SILU_MUL, floats, plain, gated, same }

fn gated<T: Stored>(a: T, b: T) -> T {
    let a = a.load();
    T::store(a * functions::sigmoid(a) * b.load())
}

fn rectified<T: Number>(x: T, slope: T) -> T {
    if x.order(T::ZERO) == Some(Ordering::Less) { x.times(slope) } else { x }
}

/// An op whose attributes are [`Binary`].
fn activated<T: Number>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    match Activation::from_code(step.attributes::<Binary>()?.activation)? {
        Activation::None => broadcast(step, ops, f),
        Activation::Relu if T::FLOAT => broadcast(step, ops, |a, b| f(a, b).relu()),
        Activation::Relu => Err(KernelError::new("activation of an integer op", 0, 1)),
    }
}

/// An op without attributes.
fn plain<T: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    broadcast(step, ops, f)
}

/// `y = f(a, b)` for every element, in place where the step says so.
pub(crate) fn broadcast<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    let y = ops.output::<T>(0)?;
    // An operand in place has the length of the result, and therefore its shape but for axes of size 1.
    let shared = [0, 1].map(|i| ops.in_place(i) == Some(0));
    let input = |i: usize| if shared[i] { Ok(&[][..]) } else { ops.input::<T>(i) };
    let (a, b) = (input(0)?, input(1)?);
    let length = |i: usize, x: &[T]| if shared[i] { y.len() } else { x.len() };
    if y.is_empty() {
        return expect("elements of y", step.output(0)?.elements(), 0);
    }
    let walk = Broadcast::new(step, [length(0, a), length(1, b)], y.len())?;
    match shared {
        [false, false] => zip(&walk, [a, b], y, f),
        [true, false] => update(&walk, 1, b, y, f),
        [false, true] => update(&walk, 0, a, y, |y, a| f(a, y)),
        [true, true] => {
            y.iter_mut().for_each(|y| *y = f(*y, *y));
            Ok(())
        }
    }
}
