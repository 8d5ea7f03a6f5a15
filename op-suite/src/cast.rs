//! `Cast`: every pair of types, with the extremes of both.

use crate::random::{Random, SPECIAL, SPECIAL_HALVES, SUBNORMALS};
use crate::reference::half;
use crate::reference::round::f32_from_integer;
use crate::{Case, Tensor};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::cast::CAST;

const TYPES: [DType; 6] = [DType::F32, DType::F16, DType::I8, DType::I32, DType::I64, DType::Bool];

/// An element, exactly.
#[derive(Clone, Copy)]
enum Number {
    Float(f64),
    Integer(i128),
}

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(10);
    let mut all = Vec::new();
    for from in TYPES {
        for to in TYPES {
            let mut case = |what: &str, x: Tensor| all.push(cast(what, x, to));
            for dims in [&[][..], &[3, 5, 17], &[2, 0]] {
                case(&format!("{dims:?}"), ordinary(&mut random, from, dims));
            }
            case("special", special(from));
            if from == DType::F32 {
                case("subnormal", Tensor::f32(&[6], &SUBNORMALS));
                case("halfway between halves", halfway());
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
        DType::F32 | DType::F16 => {
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
        DType::I8 => Tensor::i8(&[256], &(-128..=127).map(|v| v as i8).collect::<Vec<_>>()),
        DType::I32 => {
            let x: Vec<i32> = integers.iter().filter_map(|v| i32::try_from(*v).ok()).collect();
            Tensor::i32(&[x.len()], &x)
        }
        DType::I64 => Tensor::i64(&[integers.len()], &integers),
        // Any non-zero byte is true.
        _ => Tensor::new(DType::Bool, &[6], vec![0, 1, 2, 127, 128, 255]),
    }
}

/// f32 at, just below and just above the middle between neighbouring binary16, from the smallest subnormals to
/// overflow.
fn halfway() -> Tensor {
    let mut x = Vec::new();
    for h in (0..0x7bffu16).step_by(97).chain([0, 1, 2, 0x3fe, 0x3ff, 0x400, 0x7bfe]) {
        let middle = ((half::to_f64(h) + half::to_f64(h + 1)) / 2.0) as f32;
        x.extend([middle, middle.next_up(), middle.next_down(), -middle]);
    }
    x.extend([65520.0, 65519.996, 65535.0, -65520.0, -65519.996, 1e-8, -1e-9]);
    Tensor::f32(&[x.len()], &x)
}

fn cast(what: &str, x: Tensor, to: DType) -> Case {
    let float = matches!(x.dtype, DType::F32 | DType::F16);
    let numbers: Vec<Number> = match x.dtype {
        _ if float => x.numbers().into_iter().map(Number::Float).collect(),
        DType::Bool => x.bytes.iter().map(|b| Number::Integer(i128::from(*b != 0))).collect(),
        _ => x.integers().into_iter().map(|v| Number::Integer(i128::from(v))).collect(),
    };
    let wide = x.dtype == DType::I64;
    let integer = |bits: u32| -> Vec<i128> {
        let (low, high) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        let each = |n: &Number| match *n {
            Number::Float(x) if x.is_nan() => 0,
            Number::Float(x) => x.trunc().clamp(-1e30, 1e30) as i128,
            Number::Integer(v) if wide && bits == 32 => v.clamp(low, high),
            // Modulo 2^bits, in −2^(bits−1)..2^(bits−1).
            Number::Integer(v) => (v - low).rem_euclid(1 << bits) + low,
        };
        numbers.iter().map(each).map(|v| v.clamp(low, high)).collect()
    };
    let floats = |round: fn(i128) -> f64| -> Vec<f64> {
        numbers.iter().map(|n| if let Number::Integer(v) = n { round(*v) } else { f64::NAN }).collect()
    };
    let dims = &x.dims;
    let y = match to {
        DType::F32 | DType::F16 if float => Tensor::float(to, dims, &x.numbers()),
        DType::F32 => Tensor::float(to, dims, &floats(|v| f64::from(f32_from_integer(v)))),
        // Beyond the largest binary16 the digits that f64 drops do not matter.
        DType::F16 => Tensor::float(to, dims, &floats(|v| v as f64)),
        DType::I8 => Tensor::i8(dims, &integer(8).iter().map(|v| *v as i8).collect::<Vec<_>>()),
        DType::I32 => Tensor::i32(dims, &integer(32).iter().map(|v| *v as i32).collect::<Vec<_>>()),
        DType::I64 => Tensor::i64(dims, &integer(64).iter().map(|v| *v as i64).collect::<Vec<_>>()),
        _ => {
            let truth = |n: &Number| match *n {
                Number::Float(x) => x != 0.0,
                Number::Integer(v) => v != 0,
            };
            Tensor::bool(dims, &numbers.iter().map(truth).collect::<Vec<_>>())
        }
    };
    Case::new(&CAST, format!("{} to {to}/{what}", x.dtype), &NoAttributes {}).input(&x).output(y)
}
