//! `Cast`: every pair of types, with the extremes of both.

use crate::random::{Random, SPECIAL, SPECIAL_HALVES, SUBNORMALS};
use crate::reference::half;
use crate::reference::round::f32_from_integer;
use crate::{Case, Tensor};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::cast::CAST;

fn is_float(t: DType) -> bool {
    matches!(t, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
}

fn is_signed(t: DType) -> bool {
    matches!(t, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// An element, exactly.
#[derive(Clone, Copy)]
enum Number {
    Float(f64),
    Integer(i128),
}

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(10);
    let mut all = Vec::new();
    let types = || CAST.inputs[0].dtypes.iter();
    for from in types() {
        for to in types() {
            let mut case = |what: &str, x: Tensor| all.push(cast(what, x, to));
            let common =
                |t| matches!(t, DType::F32 | DType::F16 | DType::I8 | DType::I32 | DType::I64 | DType::Bool);
            let shapes: &[&[usize]] =
                if common(from) && common(to) { &[&[], &[3, 5, 17], &[2, 0]] } else { &[&[3, 23]] };
            for dims in shapes.iter().copied() {
                case(&format!("{dims:?}"), ordinary(&mut random, from, dims));
            }
            case("special", special(from));
            if from == DType::F32 {
                case("subnormal", Tensor::f32(&[6], &SUBNORMALS));
            }
            if matches!(from, DType::F32 | DType::F64) {
                case("halfway between halves", halfway(from));
            }
        }
    }
    all
}

fn ordinary(random: &mut Random, dtype: DType, dims: &[usize]) -> Tensor {
    let mut integers = |most: i64| -> Vec<i64> {
        (0..dims.iter().product::<usize>()).map(|_| random.integer(-most, most)).collect()
    };
    match dtype {
        _ if is_float(dtype) => {
            let x: Vec<f64> = integers(300_000_000).iter().map(|v| *v as f64 / 1e6).collect();
            Tensor::float(dtype, dims, &x)
        }
        DType::I8 => random.i8s(dims),
        DType::I32 => random.i32s(dims, i32::MIN, i32::MAX),
        DType::I64 => {
            let x = integers(i64::MAX);
            // All magnitudes.
            Tensor::i64(dims, &x.iter().enumerate().map(|(i, v)| v >> (i % 60)).collect::<Vec<_>>())
        }
        _ => random.any(dtype, dims),
    }
}

fn special(dtype: DType) -> Tensor {
    // Powers of two, their neighbours, and the ends of every integer type.
    let mut integers: Vec<i64> = vec![0, i64::MIN, i64::MAX];
    for bit in 0..63 {
        let p = 1i64 << bit;
        integers.extend([p, p - 1, p + 1, -p, -p - 1, 1 - p, p + p / 3]);
    }
    integers.extend([
        65504,
        65519,
        65520,
        65521,
        -65520,
        2049,
        2051,
        16_777_217,
        16_777_219,
        (1 << 54) + (1 << 30) + 1,
    ]);
    match dtype {
        DType::F32 => {
            let mut x = SPECIAL.to_vec();
            for v in integers.iter().map(|v| *v as f32) {
                x.extend([v, v.next_up(), v.next_down(), v + 0.5, v - 0.75]);
            }
            x.retain(|x| *x == 0.0 || !x.is_subnormal());
            Tensor::f32(&[x.len()], &x)
        }
        DType::F16 => {
            let x: Vec<u16> =
                SPECIAL_HALVES.iter().copied().chain((0..1 << 16).step_by(37).map(|h| h as u16)).collect();
            Tensor::f16_bits(&[x.len()], &x)
        }
        DType::BF16 => {
            let bits: Vec<u8> = (0..1u32 << 16).step_by(37).flat_map(|b| (b as u16).to_le_bytes()).collect();
            Tensor::new(dtype, &[bits.len() / 2], bits)
        }
        DType::F64 => {
            let mut x: Vec<f64> = SPECIAL.map(f64::from).to_vec();
            for v in integers.iter().map(|v| *v as f64) {
                x.extend([v, v.next_up(), v.next_down(), v + 0.5, v - 0.75]);
            }
            // Between two f32, close to the middle and to either end.
            for v in [1.0f32, 65519.996, 1.5e-5, 3.0e38] {
                let (low, high) = (f64::from(v), f64::from(v.next_up()));
                let middle = low + (high - low) / 2.0;
                x.extend([middle, middle.next_up(), middle.next_down(), low.next_up(), high.next_down()]);
            }
            x.extend([f64::MAX, f64::MIN, f64::from(f32::MAX) * (1.0 + 1e-9), f64::from(f32::MAX).next_up()]);
            Tensor::float(dtype, &[x.len()], &x)
        }
        // Any non-zero byte is true.
        DType::Bool => Tensor::new(dtype, &[6], vec![0, 1, 2, 127, 128, 255]),
        _ => {
            let bits = 8 * dtype.size() as u32;
            let (low, high) = if is_signed(dtype) {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            } else {
                (0, (1i128 << bits) - 1)
            };
            let mut x: Vec<i128> = integers.iter().map(|v| i128::from(*v)).collect();
            x.extend([
                high,
                high - 1,
                high / 3,
                (1 << 60) + (1 << 52) + 1,
                (1 << 60) + (1 << 52) - 1,
                (1 << 63) + (1 << 39) + 1,
            ]);
            x.retain(|v| (low..=high).contains(v));
            Tensor::integer(dtype, &[x.len()], &x)
        }
    }
}

/// f32 at, just below and just above the middle between neighbouring binary16, from the smallest subnormals to
/// overflow.
fn halfway(dtype: DType) -> Tensor {
    let mut x = Vec::new();
    for h in (0..0x7bffu16).step_by(97).chain([0, 1, 2, 0x3fe, 0x3ff, 0x400, 0x7bfe]) {
        let middle = ((half::to_f64(h) + half::to_f64(h + 1)) / 2.0) as f32;
        x.extend([middle, middle.next_up(), middle.next_down(), -middle]);
    }
    x.extend([65520.0, 65519.996, 65535.0, -65520.0, -65519.996, 1e-8, -1e-9]);
    let mut x: Vec<f64> = x.into_iter().map(f64::from).collect();
    if dtype == DType::F64 {
        // So close to the middle that an f32 does not tell.
        let near: Vec<f64> = x.iter().flat_map(|v| [v.next_up(), v.next_down()]).collect();
        x.extend(near);
    }
    Tensor::float(dtype, &[x.len()], &x)
}

fn cast(what: &str, x: Tensor, to: DType) -> Case {
    let numbers: Vec<Number> = match x.dtype {
        t if is_float(t) => x.numbers().into_iter().map(Number::Float).collect(),
        DType::Bool => x.bytes.iter().map(|b| Number::Integer(i128::from(*b != 0))).collect(),
        _ => x.wide_integers().into_iter().map(Number::Integer).collect(),
    };
    let dims = &x.dims;
    let y = match to {
        DType::Bool => {
            let truth = |n: &Number| match *n {
                Number::Float(x) => x != 0.0,
                Number::Integer(v) => v != 0,
            };
            Tensor::bool(dims, &numbers.iter().map(truth).collect::<Vec<_>>())
        }
        _ if is_float(to) => {
            let y: Vec<f64> = numbers
                .iter()
                .map(|n| match *n {
                    Number::Float(x) => x,
                    Number::Integer(v) if to == DType::F32 => f64::from(f32_from_integer(v)),
                    Number::Integer(v) if to == DType::F64 => v as f64,
                    // So many digits that what is dropped decides no tie: the rest only says that there is one.
                    Number::Integer(v) => {
                        let size = v.unsigned_abs();
                        let drop = (128 - size.leading_zeros()).saturating_sub(40);
                        let kept = size >> drop << drop;
                        let rest = u128::from(kept != size) << drop.saturating_sub(1);
                        (kept | rest) as f64 * if v < 0 { -1.0 } else { 1.0 }
                    }
                })
                .collect();
            Tensor::float(to, dims, &y)
        }
        _ => {
            let bits = 8 * to.size() as u32;
            let low = if is_signed(to) { -(1i128 << (bits - 1)) } else { 0 };
            let high = low + (1i128 << bits) - 1;
            let each = |n: &Number| match *n {
                Number::Float(x) if x.is_nan() => 0,
                Number::Float(x) => (x.trunc().clamp(-1e30, 1e30) as i128).clamp(low, high),
                Number::Integer(v) if x.dtype == DType::I64 && to == DType::I32 => v.clamp(low, high),
                // Modulo 2^bits.
                Number::Integer(v) => (v - low).rem_euclid(1 << bits) + low,
            };
            Tensor::integer(to, dims, &numbers.iter().map(each).collect::<Vec<_>>())
        }
    };
    Case::new(&CAST, format!("{} to {to}/{what}", x.dtype), &NoAttributes {}).input(&x).output(y)
}
