//! Functions of one float, in f32 and f64 alike. The elementary ones are those of `libm`, the same bits everywhere.

use crate::number::Float;

/// What the functions below are made of.
pub(crate) trait Elementary: Float {
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
    fn abs(self) -> Self;
    fn ceil(self) -> Self;
    fn floor(self) -> Self;
    fn round_even(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn erf(self) -> Self;
    fn erfc(self) -> Self;
}

macro_rules! elementary {
    ($t:ty: $($method:ident = $function:path),+) => {
        impl Elementary for $t {
            #[inline(always)]
            fn of(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                self.into()
            }
            $(
                #[inline(always)]
                fn $method(self) -> $t {
                    $function(self)
                }
            )+
        }
    };
}

elementary!(f32: abs = libm::fabsf, ceil = libm::ceilf, floor = libm::floorf, round_even = libm::rintf, sqrt = libm::sqrtf,
    exp = libm::expf, exp_m1 = libm::expm1f, ln = libm::logf, ln_1p = libm::log1pf, sin = libm::sinf, cos = libm::cosf,
    tan = libm::tanf, asin = libm::asinf, acos = libm::acosf, atan = libm::atanf, sinh = libm::sinhf, cosh = libm::coshf,
    tanh = libm::tanhf, asinh = libm::asinhf, acosh = acoshf, atanh = libm::atanhf, erf = libm::erff,
    erfc = libm::erfcf);
elementary!(f64: abs = libm::fabs, ceil = libm::ceil, floor = libm::floor, round_even = libm::rint, sqrt = libm::sqrt,
    exp = libm::exp, exp_m1 = libm::expm1, ln = libm::log, ln_1p = libm::log1p, sin = libm::sin, cos = libm::cos,
    tan = libm::tan, asin = libm::asin, acos = libm::acos, atan = libm::atan, sinh = libm::sinh, cosh = libm::cosh,
    tanh = libm::tanh, asinh = libm::asinh, acosh = acosh, atanh = libm::atanh, erf = libm::erf, erfc = libm::erfc);

/// `libm` returns numbers for some arguments below 1.
fn acoshf(x: f32) -> f32 {
    if x < 1.0 { f32::NAN } else { libm::acoshf(x) }
}

/// As [`acoshf`].
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn zero<T: Elementary>() -> T {
    T::of(0.0)
}

fn one<T: Elementary>() -> T {
    T::of(1.0)
}

pub(crate) fn sigmoid<T: Elementary>(x: T) -> T {
    // The exponential never overflows.
    let e = (-x.abs()).exp();
    if x < zero() { e / (one::<T>() + e) } else { one::<T>() / (one::<T>() + e) }
}

pub(crate) fn reciprocal<T: Elementary>(x: T) -> T {
    one::<T>() / x
}

pub(crate) fn softplus<T: Elementary>(x: T) -> T {
    let positive = if x > zero() || x.nan() { x } else { zero() };
    positive + (-x.abs()).exp().ln_1p()
}

pub(crate) fn softsign<T: Elementary>(x: T) -> T {
    x / (one::<T>() + x.abs())
}

/// `x` within `low..=high`; NaN stays NaN.
pub(crate) fn clamp<T: Elementary>(x: T, low: T, high: T) -> T {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

pub(crate) fn hard_swish<T: Elementary>(x: T) -> T {
    x * clamp(x / T::of(6.0) + T::of(0.5), zero(), one())
}

pub(crate) fn mish<T: Elementary>(x: T) -> T {
    x * softplus(x).tanh()
}

pub(crate) fn gelu<T: Elementary>(x: T) -> T {
    // 1 + erf(z) = erfc(−z), which keeps its digits where it is small.
    T::of(0.5) * x * (-x * T::of(core::f64::consts::FRAC_1_SQRT_2)).erfc()
}

pub(crate) fn gelu_tanh<T: Elementary>(x: T) -> T {
    // (1 + tanh z) / 2 = sigmoid(2z).
    let z = T::of(0.797_884_560_802_865_4) * (x + T::of(0.044715) * x * x * x);
    x * sigmoid(T::of(2.0) * z)
}

pub(crate) fn swish<T: Elementary>(x: T, alpha: T, _: T) -> T {
    x * sigmoid(alpha * x)
}

pub(crate) fn elu<T: Elementary>(x: T, alpha: T, _: T) -> T {
    if x < zero() { alpha * x.exp_m1() } else { x }
}

pub(crate) fn selu<T: Elementary>(x: T, alpha: T, beta: T) -> T {
    beta * elu(x, alpha, beta)
}

pub(crate) fn celu<T: Elementary>(x: T, alpha: T, _: T) -> T {
    let positive = if x > zero() || x.nan() { x } else { zero() };
    let negative = alpha * (x / alpha).exp_m1();
    positive + if negative < zero() { negative } else { zero() }
}

pub(crate) fn leaky_relu<T: Elementary>(x: T, alpha: T, _: T) -> T {
    if x < zero() { alpha * x } else { x }
}

pub(crate) fn hard_sigmoid<T: Elementary>(x: T, alpha: T, beta: T) -> T {
    clamp(alpha * x + beta, zero(), one())
}

pub(crate) fn thresholded_relu<T: Elementary>(x: T, alpha: T, _: T) -> T {
    if x > alpha { x } else { zero() }
}

pub(crate) fn shrink<T: Elementary>(x: T, alpha: T, beta: T) -> T {
    if x < -alpha {
        x + beta
    } else if x > alpha {
        x - beta
    } else {
        zero()
    }
}

pub(crate) fn clip<T: Elementary>(x: T, alpha: T, beta: T) -> T {
    let x = if x < alpha { alpha } else { x };
    if x > beta { beta } else { x }
}
