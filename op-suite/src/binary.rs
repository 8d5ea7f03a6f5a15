//! Arithmetic, minimum and maximum, bits.

use crate::random::{Random, SUBNORMALS, pairs, special};
use crate::reference::broadcast::broadcast;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::binary::*;
use serinette_core::op::{NoAttributes, OpDescriptor};

/// Shapes of `a` and `b`; each pair is used both ways round.
pub(crate) const SHAPES: &[(&[usize], &[usize])] = &[
    (&[], &[]),
    (&[1], &[]),
    (&[37], &[37]),
    (&[131], &[]),
    (&[5, 33], &[33]),
    (&[5, 33], &[5, 1]),
    (&[1, 7], &[9, 1]),
    (&[3, 5, 7], &[3, 5, 7]),
    (&[3, 5, 7], &[5, 7]),
    (&[3, 5, 7], &[3, 1, 7]),
    (&[3, 5, 7], &[1, 5, 1]),
    (&[3, 5, 7], &[5, 1]),
    (&[2, 1, 4, 5], &[3, 1, 5]),
    (&[2, 3, 4, 5], &[1, 3, 1, 1]),
    (&[2, 3, 4, 5], &[2, 1, 4, 1]),
    (&[2, 3, 2, 3, 5], &[3, 1, 3, 1]),
    (&[2, 1, 2, 1, 5], &[1, 3, 1, 3, 1]),
    (&[1, 1, 1, 6], &[6]),
    (&[2, 1, 2, 1, 2, 1, 2, 3], &[1, 2, 1, 2, 1, 2, 1, 3]),
    (&[4, 0, 3], &[1, 3]),
    (&[0], &[1]),
    (&[3, 1], &[1, 0]),
];

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// What an op computes: of floats in f64, rounded once to f32 for f16 and bf16 in between, and of integers in 128 bits.
struct Function {
    op: &'static OpDescriptor,
    float: Option<fn(f64, f64) -> f64>,
    /// The last argument is the width of the type in bits.
    integer: fn(i128, i128, u32) -> i128,
    /// Whether its attributes have an activation.
    activated: bool,
    /// Units in the last place of f32 or f64 that a device may be off; 0 where the result is rounded right.
    ulps: f64,
}

static FUNCTIONS: &[Function] = &[
    Function { op: &ADD, float: Some(|a, b| a + b), integer: |a, b, _| a + b, activated: true, ulps: 0.0 },
    Function {
        op: &MUL,
        float: Some(|a, b| a * b),
        integer: |a, b, _| a.wrapping_mul(b),
        activated: true,
        ulps: 0.0,
    },
    Function { op: &SUB, float: Some(|a, b| a - b), integer: |a, b, _| a - b, activated: true, ulps: 0.0 },
    // WebGPU allows a division 2.5 units.
    Function {
        op: &DIV,
        float: Some(|a, b| a / b),
        integer: |a, b, _| if b == 0 { 0 } else { a / b },
        activated: true,
        ulps: 2.5,
    },
    // C libraries stay below one unit; a device may compute 2^(b·log2 a).
    Function { op: &POW, float: Some(f64::powf), integer: power, activated: false, ulps: 16.0 },
    Function {
        op: &MOD,
        float: None,
        integer: |a, b, _| if b == 0 { 0 } else { a - b * floor(a, b) },
        activated: false,
        ulps: 0.0,
    },
    Function {
        op: &REMAINDER,
        float: Some(|a, b| a % b),
        integer: |a, b, _| if b == 0 { 0 } else { a - b * (a / b) },
        activated: false,
        ulps: 0.0,
    },
    Function {
        op: &MIN,
        float: Some(|a, b| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else if b < a {
                b
            } else {
                a
            }
        }),
        integer: |a, b, _| a.min(b),
        activated: false,
        ulps: 0.0,
    },
    Function {
        op: &MAX,
        float: Some(|a, b| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else if b > a {
                b
            } else {
                a
            }
        }),
        integer: |a, b, _| a.max(b),
        activated: false,
        ulps: 0.0,
    },
    Function {
        op: &PRELU,
        float: Some(|a, b| if a < 0.0 { a * b } else { a }),
        integer: |a, b, _| if a < 0 { a.wrapping_mul(b) } else { a },
        activated: false,
        ulps: 0.0,
    },
    Function { op: &BIT_AND, float: None, integer: |a, b, _| a & b, activated: false, ulps: 0.0 },
    Function { op: &BIT_OR, float: None, integer: |a, b, _| a | b, activated: false, ulps: 0.0 },
    Function { op: &BIT_XOR, float: None, integer: |a, b, _| a ^ b, activated: false, ulps: 0.0 },
    Function {
        op: &SHIFT_LEFT,
        float: None,
        integer: |a, b, w| if (0..i128::from(w)).contains(&b) { a << b } else { 0 },
        activated: false,
        ulps: 0.0,
    },
    Function {
        op: &SHIFT_RIGHT,
        float: None,
        integer: |a, b, w| floor(a, 1 << if (0..i128::from(w)).contains(&b) { b } else { 100 }),
        activated: false,
        ulps: 0.0,
    },
    // An exponential of a GPU may be off by 3 + 2·|a| units; |a| is at most 2 where the result is not tiny.
    Function {
        op: &SILU_MUL,
        float: Some(|a, b| silu(a) * b),
        integer: |_, _, _| 0,
        activated: false,
        ulps: 12.0,
    },
];

/// `⌊a / b⌋`.
fn floor(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// By repeated multiplication modulo 2^64, with the exponent reduced by the period of the powers where it is long.
fn power(a: i128, b: i128, _: u32) -> i128 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 if b % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    // Modulo 2^64 an odd number has a period that divides 2^62, and an even one is 0 from the 64th power on.
    let times = if a % 2 == 0 { b.min(64) } else { b & ((1 << 62) - 1) };
    let mut result = 1i128;
    for bit in (0..64).rev() {
        result = result.wrapping_mul(result) & u64::MAX as i128;
        if times >> bit & 1 == 1 {
            result = result.wrapping_mul(a) & u64::MAX as i128;
        }
    }
    result
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(4);
    for f in FUNCTIONS {
        for dtype in f.op.inputs[0].dtypes.iter() {
            // Every shape for the types that models compute in, a few for the others.
            let common = matches!(dtype, DType::F32 | DType::F16 | DType::I32)
                && (f.activated || f.op.name == POW.name);
            let shapes = SHAPES.iter().enumerate().filter(|(i, _)| common || [3, 6, 9, 19].contains(i));
            for (index, (first, second)) in shapes {
                for (a, b) in
                    [(first, second), (second, first)].into_iter().take(1 + usize::from(first != second))
                {
                    let operands = operands(&mut random, f, dtype, a, b);
                    let activation = if f.activated && f.float.is_some() && is_float(dtype) {
                        index as u32 % 2
                    } else {
                        0
                    };
                    let what = format!("{}/{a:?} {b:?}, activation {activation}", name(dtype));
                    all.push(binary(f, what, activation, operands));
                }
            }
            for activation in 0..1 + u32::from(f.activated && is_float(dtype)) {
                let (a, b) = pairs(&special(dtype));
                let what = format!("{}/special/pairs, activation {activation}", name(dtype));
                all.push(binary(f, what, activation, [a, b]));
                if dtype == DType::F32 {
                    let (a, b) = pairs(&Tensor::f32(&[SUBNORMALS.len()], &SUBNORMALS));
                    all.push(binary(
                        f,
                        format!("f32/subnormal/pairs, activation {activation}"),
                        activation,
                        [a, b],
                    ));
                }
            }
        }
    }
    all
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
}

/// Operands whose results say something: few zeros and infinities.
fn operands(random: &mut Random, f: &Function, dtype: DType, a: &[usize], b: &[usize]) -> [Tensor; 2] {
    let shift = [SHIFT_LEFT.name, SHIFT_RIGHT.name].contains(&f.op.name);
    let power = f.op.name == POW.name;
    let first = random.numbers(dtype, a);
    let first = if power && is_float(dtype) {
        // Of positive numbers; the special ones have the others.
        let x: Vec<f64> = first.numbers().iter().map(|x| x.abs() + 0.125).collect();
        Tensor::float(dtype, a, &x)
    } else {
        first
    };
    let second = match (shift, power) {
        (true, _) => random.small(dtype, b, -1, 8 * dtype.size() as i64),
        (_, true) if !is_float(dtype) => random.small(dtype, b, -2, 11),
        _ => random.numbers(dtype, b),
    };
    [first, second]
}

fn binary(f: &Function, what: String, activation: u32, [a, b]: [Tensor; 2]) -> Case {
    let (dims, index) = broadcast(&a.dims, &b.dims);
    let case = if f.activated {
        Case::new(f.op, what, &Binary { activation, reserved: 0 })
    } else {
        Case::new(f.op, what, &NoAttributes {})
    };
    let Some(float) = f.float.filter(|_| is_float(a.dtype)) else {
        let (x, z) = (a.wide_integers(), b.wide_integers());
        let y: Vec<i128> =
            index.iter().map(|(i, j)| (f.integer)(x[*i], z[*j], 8 * a.dtype.size() as u32)).collect();
        return case.input(&a).input(&b).output(Tensor::integer(a.dtype, &dims, &y)).with_in_place(f.op);
    };
    let (x, z) = (a.numbers(), b.numbers());
    // One rounding to f32 (f64 has more than twice its digits, so rounding twice is harmless), the activation, then for f16
    // and bf16 one more. Results of f64 operands are rounded to f64 by the computation itself.
    let exact: Vec<f64> = index
        .iter()
        .map(|(i, j)| {
            let y = float(x[*i], z[*j]);
            let y = if a.dtype == DType::F64 { y } else { f64::from(y as f32) };
            if activation == 1 && y <= 0.0 { 0.0 } else { y }
        })
        .collect();
    let y = Tensor::float(a.dtype, &dims, &exact);
    let tolerance = if f.ulps == 0.0 { Tolerance::Exact } else { Tolerance::Bounds(bounds(&y, f.ulps)) };
    case.input(&a).input(&b).output(y).within(tolerance).with_in_place(f.op)
}

/// So many units of the computation, and one of the stored type where it is narrower.
fn bounds(y: &Tensor, ulps: f64) -> Vec<f64> {
    let (unit, last, least) = match y.dtype {
        DType::F64 => (2f64.powi(-52), 0.0, f64::MIN_POSITIVE),
        DType::F16 => (2f64.powi(-23), 2f64.powi(-10), 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-23), 2f64.powi(-7), f64::from(f32::MIN_POSITIVE)),
        _ => (2f64.powi(-23), 0.0, f64::from(f32::MIN_POSITIVE)),
    };
    let size = |y: &f64| if y.is_finite() { y.abs() } else { 0.0 };
    y.numbers().iter().map(|y| size(y) * (ulps * unit + last) + least).collect()
}
