//! Element-wise functions of one tensor: a module for each op, a function for each element type.

use crate::expect;
use crate::functions::{self, Elementary};
use crate::number::{Integer, Number, Stored};
use crate::registry::{Registered, kernels, sets::BOOL, typed};
use serinette_core::op::NoAttributes;
use serinette_core::op::unary as op;
use serinette_core::op::unary::{Infinities, Parameters};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// A function of floats, computed in f32 or f64.
macro_rules! floats {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $f:path;)+) => {
        $(typed! { $(#[$doc])+ unary::$module = op::$op, floats, plain, |x| Stored::store($f(x.load())), same })+
        /// Functions of floats without parameters.
        static FLOATS: &[&[Registered]] = &[$($module::KERNELS),+];
    };
}

floats! {
    /// `Sigmoid`.
    sigmoid = SIGMOID, functions::sigmoid;
    /// `Ceil`.
    ceil = CEIL, Elementary::ceil;
    /// `Floor`.
    floor = FLOOR, Elementary::floor;
    /// `Round`.
    round = ROUND, Elementary::round_even;
    /// `Sqrt`.
    sqrt = SQRT, Elementary::sqrt;
    /// `Reciprocal`.
    reciprocal = RECIPROCAL, functions::reciprocal;
    /// `Exp`.
    exp = EXP, Elementary::exp;
    /// `Log`.
    log = LOG, Elementary::ln;
    /// `Sin`.
    sin = SIN, Elementary::sin;
    /// `Cos`.
    cos = COS, Elementary::cos;
    /// `Tan`.
    tan = TAN, Elementary::tan;
    /// `Asin`.
    asin = ASIN, Elementary::asin;
    /// `Acos`.
    acos = ACOS, Elementary::acos;
    /// `Atan`.
    atan = ATAN, Elementary::atan;
    /// `Sinh`.
    sinh = SINH, Elementary::sinh;
    /// `Cosh`.
    cosh = COSH, Elementary::cosh;
    /// `Tanh`.
    tanh = TANH, Elementary::tanh;
    /// `Asinh`.
    asinh = ASINH, Elementary::asinh;
    /// `Acosh`.
    acosh = ACOSH, Elementary::acosh;
    /// `Atanh`.
    atanh = ATANH, Elementary::atanh;
    /// `Erf`.
    erf = ERF, Elementary::erf;
    /// `Softplus`.
    softplus = SOFTPLUS, functions::softplus;
    /// `Softsign`.
    softsign = SOFTSIGN, functions::softsign;
    /// `HardSwish`.
    hard_swish = HARD_SWISH, functions::hard_swish;
    /// `Mish`.
    mish = MISH, functions::mish;
    /// `Gelu`.
    gelu = GELU, functions::gelu;
    /// `GeluTanh`.
    gelu_tanh = GELU_TANH, functions::gelu_tanh;
}

/// A function of floats with two parameters.
macro_rules! parametric {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $f:path;)+) => {
        $($(#[$doc])+
        pub mod $module {
            use super::*;
            /// The function.
            fn run<T: Stored<Wide: Elementary>>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                let p: Parameters = step.attributes()?;
                let (alpha, beta) = (Elementary::of(p.alpha.into()), Elementary::of(p.beta.into()));
                each(ops, step, |x: T| T::store($f(x.load(), alpha, beta)))
            }
            /// For f32.
            pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                run::<f32>(step, ops)
            }
            /// For f16.
            pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                run::<crate::number::F16>(step, ops)
            }
            /// For bf16.
            pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                run::<crate::number::BF16>(step, ops)
            }
            /// For f64.
            pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                run::<f64>(step, ops)
            }
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] = crate::registry::kernel_set!(unary, $module, op::$op, [f32 F32, f16 F16, bf16 BF16, f64 F64], same);
        })+
        /// Functions of floats with parameters.
        static PARAMETRIC: &[&[Registered]] = &[$($module::KERNELS),+];
    };
}

parametric! {
    /// `Swish`.
    swish = SWISH, functions::swish;
    /// `Elu`.
    elu = ELU, functions::elu;
    /// `Selu`.
    selu = SELU, functions::selu;
    /// `Celu`.
    celu = CELU, functions::celu;
    /// `LeakyRelu`.
    leaky_relu = LEAKY_RELU, functions::leaky_relu;
    /// `HardSigmoid`.
    hard_sigmoid = HARD_SIGMOID, functions::hard_sigmoid;
    /// `ThresholdedRelu`.
    thresholded_relu = THRESHOLDED_RELU, functions::thresholded_relu;
    /// `Shrink`.
    shrink = SHRINK, functions::shrink;
    /// `Clip`.
    clip = CLIP, functions::clip;
}

typed! { /// `Relu`.
unary::relu = op::RELU, signed, plain, |x| Number::relu(x), same }
typed! { /// `Neg`.
unary::neg = op::NEG, signed, plain, |x| x.negative(), same }
typed! { /// `Abs`.
unary::abs = op::ABS, numbers, plain, |x| x.size(), same }
typed! { /// `Sign`.
unary::sign = op::SIGN, numbers, plain, |x| x.sign(), same }
typed! { /// `BitNot`.
unary::bit_not = op::BIT_NOT, integers, plain, |x| Integer::not(x), same }
typed! { /// `IsNaN`.
unary::is_nan = op::IS_NAN, floats, test, |x| Number::nan(x), BOOL }
typed! { /// `IsInf`.
unary::is_inf = op::IS_INF, floats, infinite, |x| Stored::load(x), BOOL }

/// Ops of truth values.
static TRUTHS: &[Registered] = kernels! { unary:
    op::NOT => not, BOOL => BOOL;
};

/// `Not`.
pub fn not(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    plain(step, ops, |x: u8| u8::from(x == 0))
}

/// Every kernel, by kind of op.
pub(crate) static OPS: &[&[Registered]] = &[
    relu::KERNELS,
    neg::KERNELS,
    abs::KERNELS,
    sign::KERNELS,
    bit_not::KERNELS,
    is_nan::KERNELS,
    is_inf::KERNELS,
    TRUTHS,
];
/// Those that come in tables.
pub(crate) static TABLES: &[&[&[Registered]]] = &[FLOATS, PARAMETRIC];

/// An op without attributes.
fn plain<T: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    f: impl Fn(T) -> T,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    each(ops, step, f)
}

/// `y = f(x)` for every element, in place where the step says so.
fn each<T: bytemuck::Pod>(
    mut ops: Operands<'_>,
    step: &StepView<'_>,
    f: impl Fn(T) -> T,
) -> Result<(), KernelError> {
    let y = ops.output::<T>(0)?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    if ops.in_place(0) == Some(0) {
        y.iter_mut().for_each(|y| *y = f(*y));
        return Ok(());
    }
    let x = ops.input::<T>(0)?;
    expect("elements of x", y.len(), x.len())?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
    Ok(())
}

/// `y = f(x)` as a truth value.
fn test<T: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    f: impl Fn(T) -> bool,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    truths(step, ops, f)
}

fn infinite<T: bytemuck::Pod, W: Elementary>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    load: impl Fn(T) -> W,
) -> Result<(), KernelError> {
    let signs = step.attributes::<Infinities>()?.signs;
    let infinity = W::of(f64::INFINITY);
    truths(step, ops, |x| {
        let x = load(x);
        (signs & 1 != 0 && x == infinity) || (signs & 2 != 0 && x == -infinity)
    })
}

fn truths<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T) -> bool,
) -> Result<(), KernelError> {
    let (x, y) = (ops.input::<T>(0)?, ops.output::<u8>(0)?);
    expect("elements of x", step.input(0)?.elements(), x.len())?;
    expect("elements of y", x.len(), y.len())?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = u8::from(f(*x)));
    Ok(())
}
