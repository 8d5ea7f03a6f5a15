//! Functions of one tensor.

use crate::random::{Random, SUBNORMALS, special};
use crate::reference::erf::{erf, erfc};
use crate::reference::round::half_even;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::unary::*;
use serinette_core::op::{Attributes, NoAttributes, OpDescriptor};

/// f32 around the numbers from which on results saturate, round to another function, overflow, become subnormal or
/// vanish, e^x at first: ln 2^24, ln 2^25, ln 2^126, ln 2^128, ln 2^150.
const EDGES: [f32; 24] = [
    16.6, -16.6, 16.7, -16.7, 17.3, -17.3, 17.4, -17.4, 87.3, -87.3, 87.4, -87.4, 88.7, -88.7, 88.8, -88.8,
    89.5, -89.5, 103.9, -103.9, 104.1, -104.1, 1.25e4, -1.25e4,
];

const SHAPES: &[&[usize]] = &[&[], &[1], &[257], &[3, 5, 7, 11], &[2, 0, 3]];

/// A function of floats in f64, and how far a device may be off: so many units in the last place of the type that is
/// computed in, relative, and so many absolute ones of a result near 1, for functions with zeros elsewhere than at 0.
struct Function {
    op: &'static OpDescriptor,
    f: fn(f64) -> f64,
    relative: f64,
    absolute: f64,
}

const fn function(op: &'static OpDescriptor, f: fn(f64) -> f64, relative: f64, absolute: f64) -> Function {
    Function { op, f, relative, absolute }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

// Squares overflow in f64 where the results do not.
fn asinh(x: f64) -> f64 {
    if x.abs() > 1e9 { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}

fn acosh(x: f64) -> f64 {
    if x > 1e9 { x.ln() + std::f64::consts::LN_2 } else { x.acosh() }
}

fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

// C libraries stay below 1 unit; 4 allow for other ways to compute a composed function. Where a result is exact, 0.
// Sigmoid on a GPU: 1 for the exponential, which is not the built-in one, half for the sum, 2.5 for a division in WebGPU
// and Vulkan.
static FUNCTIONS: &[Function] = &[
    function(&SIGMOID, sigmoid, 4.0, 0.0),
    function(&CEIL, f64::ceil, 0.0, 0.0),
    function(&FLOOR, f64::floor, 0.0, 0.0),
    function(&ROUND, |x| if x.abs() < 1e17 { half_even(x).copysign(x) } else { x }, 0.0, 0.0),
    // A GPU may be 1 unit off.
    function(&SQRT, f64::sqrt, 1.0, 0.0),
    function(&RECIPROCAL, |x| 1.0 / x, 2.5, 0.0),
    function(&EXP, f64::exp, 4.0, 0.0),
    function(&LOG, f64::ln, 4.0, 1.0),
    function(&SIN, f64::sin, 4.0, 1.0),
    function(&COS, f64::cos, 4.0, 1.0),
    function(&TAN, f64::tan, 8.0, 1.0),
    function(&ASIN, f64::asin, 4.0, 0.0),
    function(&ACOS, f64::acos, 4.0, 1.0),
    function(&ATAN, f64::atan, 4.0, 0.0),
    function(&SINH, f64::sinh, 4.0, 0.0),
    function(&COSH, f64::cosh, 4.0, 0.0),
    function(&TANH, f64::tanh, 4.0, 0.0),
    function(&ASINH, asinh, 6.0, 0.0),
    function(&ACOSH, acosh, 6.0, 0.0),
    function(&ATANH, |x| 0.5 * (x.ln_1p() - (-x).ln_1p()), 6.0, 0.0),
    function(&ERF, erf, 6.0, 0.0),
    function(&SOFTPLUS, softplus, 4.0, 0.0),
    function(&SOFTSIGN, |x| x / (1.0 + x.abs()), 4.0, 0.0),
    function(&HARD_SWISH, |x| x * clamp(x / 6.0 + 0.5, 0.0, 1.0), 4.0, 4.0),
    function(&MISH, |x| x * softplus(x).tanh(), 8.0, 0.0),
    // Where erfc is tiny, the rounding of its argument z costs z² units.
    function(&GELU, |x| 0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2), 8.0, 8.0),
    function(
        &GELU_TANH,
        |x| x * sigmoid(2.0 * 0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)),
        8.0,
        8.0,
    ),
];

/// The same with parameters.
struct Parametric {
    op: &'static OpDescriptor,
    f: fn(f64, f64, f64) -> f64,
    parameters: &'static [(f32, f32)],
    relative: f64,
    absolute: f64,
}

static PARAMETRIC: &[Parametric] = &[
    Parametric {
        op: &SWISH,
        f: |x, a, _| x / (1.0 + (-a * x).exp()),
        parameters: &[(1.0, 0.0), (1.702, 0.0), (-0.5, 0.0)],
        relative: 6.0,
        absolute: 0.0,
    },
    Parametric {
        op: &ELU,
        f: |x, a, _| if x < 0.0 { a * x.exp_m1() } else { x },
        parameters: &[(1.0, 0.0), (0.3, 0.0)],
        relative: 4.0,
        absolute: 0.0,
    },
    Parametric {
        op: &SELU,
        f: |x, a, b| b * if x < 0.0 { a * x.exp_m1() } else { x },
        parameters: &[(1.673_263_2, 1.050_701), (0.5, 2.0)],
        relative: 4.0,
        absolute: 0.0,
    },
    Parametric {
        op: &CELU,
        f: |x, a, _| if x.is_nan() { x } else { x.max(0.0) + (a * (x / a).exp_m1()).min(0.0) },
        parameters: &[(1.0, 0.0), (2.5, 0.0)],
        relative: 4.0,
        absolute: 0.0,
    },
    Parametric {
        op: &LEAKY_RELU,
        f: |x, a, _| if x < 0.0 { a * x } else { x },
        parameters: &[(0.01, 0.0), (-1.5, 0.0)],
        relative: 1.0,
        absolute: 0.0,
    },
    Parametric {
        op: &HARD_SIGMOID,
        f: |x, a, b| clamp(a * x + b, 0.0, 1.0),
        parameters: &[(0.2, 0.5), (0.6, 0.25)],
        relative: 4.0,
        absolute: 2.0,
    },
    Parametric {
        op: &THRESHOLDED_RELU,
        f: |x, a, _| if x > a { x } else { 0.0 },
        parameters: &[(1.0, 0.0), (0.25, 0.0)],
        relative: 0.0,
        absolute: 0.0,
    },
    Parametric {
        op: &SHRINK,
        f: |x, a, b| {
            if x < -a {
                x + b
            } else if x > a {
                x - b
            } else {
                0.0
            }
        },
        parameters: &[(0.5, 0.0), (0.75, 1.5)],
        relative: 1.0,
        absolute: 1.0,
    },
    Parametric {
        op: &CLIP,
        f: |x, a, b| if x.is_nan() { x } else { x.max(a).min(b) },
        parameters: &[(0.0, 6.0), (-0.5, f32::INFINITY), (f32::NEG_INFINITY, 0.75), (1.0, -1.0)],
        relative: 0.0,
        absolute: 0.0,
    },
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(6);
    let mut all = Vec::new();
    for f in FUNCTIONS {
        for dtype in FLOATS.iter() {
            for x in operands(&mut random, f.op, dtype) {
                all.push(float(f.op, &NoAttributes {}, x, &f.f, f.relative, f.absolute));
            }
        }
    }
    for f in PARAMETRIC {
        for dtype in FLOATS.iter() {
            for (alpha, beta) in f.parameters {
                let (a, b) = (f64::from(*alpha), f64::from(*beta));
                for x in operands(&mut random, f.op, dtype) {
                    let g = |x: f64| (f.f)(x, a, b);
                    let mut case = float(
                        f.op,
                        &Parameters { alpha: *alpha, beta: *beta },
                        x,
                        &g,
                        f.relative,
                        f.absolute,
                    );
                    case.name.push_str(&format!(", {alpha} {beta}"));
                    all.push(case);
                }
            }
        }
    }
    all.extend(signs(&mut random));
    all.extend(tests(&mut random));
    all
}

/// Ordinary and special operands, with a label. Few types get every shape.
fn operands(random: &mut Random, op: &OpDescriptor, dtype: DType) -> Vec<(String, Tensor)> {
    let common =
        matches!(dtype, DType::F32 | DType::F16) && [RELU.name, SIGMOID.name, TANH.name].contains(&op.name);
    let shapes = SHAPES.iter().filter(|s| common || s.len() == 1);
    let mut all: Vec<_> =
        shapes.map(|s| (format!("{}/{s:?}", name(dtype)), random.floats(dtype, s))).collect();
    let wide: Vec<f64> = random.floats(dtype, &[97]).numbers().iter().map(|x| x * 12.0).collect();
    all.push((format!("{}/wide", name(dtype)), Tensor::float(dtype, &[97], &wide)));
    all.push((format!("{}/special", name(dtype)), special(dtype)));
    if dtype == DType::F32 {
        all.push(("f32/edges".into(), Tensor::f32(&[EDGES.len()], &EDGES)));
        all.push(("f32/subnormal".into(), Tensor::f32(&[SUBNORMALS.len()], &SUBNORMALS)));
    }
    all
}

fn float(
    op: &'static OpDescriptor,
    attrs: &impl Attributes,
    (what, x): (String, Tensor),
    f: &dyn Fn(f64) -> f64,
    relative: f64,
    absolute: f64,
) -> Case {
    let exact: Vec<f64> = x.numbers().iter().map(|x| f(*x)).collect();
    let y = Tensor::float(x.dtype, &x.dims, &exact);
    let (unit, last, least) = match x.dtype {
        DType::F64 => (2f64.powi(-52), 0.0, f64::MIN_POSITIVE),
        DType::F16 => (2f64.powi(-23), 2f64.powi(-10), 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-23), 2f64.powi(-7), f64::from(f32::MIN_POSITIVE)),
        _ => (2f64.powi(-23), 0.0, f64::from(f32::MIN_POSITIVE)),
    };
    let tolerance = if relative == 0.0 && absolute == 0.0 {
        Tolerance::Exact
    } else {
        let bound = |(y, x): (&f64, f64)| {
            let size = if y.is_finite() { y.abs() } else { 0.0 };
            // The rounding of α·x, at most 2·|x|, moves an exponential by as many units.
            let argument = if op.name == SWISH.name && x.is_finite() { 2.0 * x.abs() } else { 0.0 };
            size * ((relative + argument) * unit + last) + absolute * unit + least
        };
        Tolerance::Bounds(exact.iter().zip(x.numbers()).map(bound).collect())
    };
    Case::new(op, what, attrs).input(&x).output(y).within(tolerance).with_in_place(op)
}

/// Ops that also take integers.
fn signs(random: &mut Random) -> Vec<Case> {
    type Whole = fn(i128) -> i128;
    type Row<'o> = (&'o OpDescriptor, fn(f64) -> f64, Whole);
    let table: [Row<'_>; 4] = [
        // −0 is not above 0, and what is not above 0 becomes +0, unless it is NaN.
        (&RELU, |x| if x <= 0.0 { 0.0 } else { x }, |x| x.max(0)),
        (&NEG, |x| -x, |x| -x),
        (&ABS, f64::abs, i128::abs),
        (
            &SIGN,
            |x| {
                if x.is_nan() {
                    x
                } else if x == 0.0 {
                    0.0
                } else {
                    x.signum()
                }
            },
            i128::signum,
        ),
    ];
    let mut all = Vec::new();
    for (op, f, whole) in table {
        for dtype in op.inputs[0].dtypes.iter() {
            if FLOATS.contains(dtype) {
                all.extend(
                    operands(random, op, dtype)
                        .into_iter()
                        .map(|x| float(op, &NoAttributes {}, x, &f, 0.0, 0.0)),
                );
                continue;
            }
            for (what, x) in [("[41]", random.numbers(dtype, &[41])), ("special", special(dtype))] {
                let y: Vec<i128> = x.wide_integers().into_iter().map(whole).collect();
                let y = Tensor::integer(dtype, &x.dims, &y);
                let what = format!("{}/{what}", name(dtype));
                all.push(Case::new(op, what, &NoAttributes {}).input(&x).output(y).with_in_place(op));
            }
        }
    }
    for dtype in BIT_NOT.inputs[0].dtypes.iter() {
        let x = random.numbers(dtype, &[3, 13]);
        let y: Vec<i128> = x.wide_integers().iter().map(|x| !x).collect();
        let y = Tensor::integer(dtype, &x.dims, &y);
        let what = format!("{}/[3, 13]", name(dtype));
        all.push(Case::new(&BIT_NOT, what, &NoAttributes {}).input(&x).output(y).with_in_place(&BIT_NOT));
    }
    all
}

/// Ops that give truth values, and the one that takes them.
fn tests(random: &mut Random) -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in FLOATS.iter() {
        for (what, x) in [("[43]", random.floats(dtype, &[43])), ("special", special(dtype))] {
            let what = format!("{}/{what}", name(dtype));
            let truths = |f: &dyn Fn(f64) -> bool| {
                Tensor::bool(&x.dims, &x.numbers().iter().map(|x| f(*x)).collect::<Vec<_>>())
            };
            all.push(Case::new(&IS_NAN, &what, &NoAttributes {}).input(&x).output(truths(&f64::is_nan)));
            for signs in 0..4 {
                let wanted = |x: f64| x.is_infinite() && signs & (if x > 0.0 { 1 } else { 2 }) != 0;
                let attrs = Infinities { signs, reserved: 0 };
                all.push(
                    Case::new(&IS_INF, format!("{what}, signs {signs}"), &attrs)
                        .input(&x)
                        .output(truths(&wanted)),
                );
            }
        }
    }
    for (what, x) in [
        ("[5, 9]", random.small(DType::Bool, &[5, 9], 0, 1)),
        ("bytes", Tensor::new(DType::Bool, &[4], vec![0, 1, 2, 255])),
    ] {
        let y: Vec<bool> = x.bytes.iter().map(|b| *b == 0).collect();
        all.push(
            Case::new(&NOT, what, &NoAttributes {})
                .input(&x)
                .output(Tensor::bool(&x.dims, &y))
                .with_in_place(&NOT),
        );
    }
    all
}
