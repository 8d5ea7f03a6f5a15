//! `Quantize` and `Dequantize`.

use crate::random::{Random, SPECIAL};
use crate::reference::round::half_even;
use crate::tensor::position;
use crate::{Case, Tensor, Tolerance};
use serinette_core::DType;
use serinette_core::op::quantize::{DEQUANTIZE, PER_TENSOR, QUANTIZE, Quantization};

/// Dimensions and the axis of the scales.
const SHAPES: &[(&[usize], u32)] = &[
    (&[], PER_TENSOR),
    (&[301], PER_TENSOR),
    (&[3, 5, 7], PER_TENSOR),
    (&[11], 0),
    (&[3, 5, 7], 0),
    (&[3, 5, 7], 1),
    (&[3, 5, 7], 2),
    (&[2, 3, 4, 5], 1),
    (&[2, 0, 5], 2),
    (&[2, 0, 5], 1),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(11);
    let mut all = Vec::new();
    for (index, (dims, axis)) in SHAPES.iter().enumerate() {
        // A scale for a whole tensor may be a scalar or a vector of one.
        let scales: Vec<usize> = match axis {
            &PER_TENSOR if index % 2 == 0 => vec![],
            &PER_TENSOR => vec![1],
            axis => vec![dims[*axis as usize]],
        };
        let positive: Vec<f64> =
            random.floats(DType::F32, &scales).numbers().iter().map(|x| x.abs() / 50.0 + 0.003).collect();
        let scale = Tensor::float(DType::F32, &scales, &positive);
        for zero in [false, true] {
            let what = format!("{dims:?} axis {}, zero point {zero}", *axis as i32);
            let x = random.floats(DType::F32, dims);
            let zero_i8 = zero.then(|| random.i8s(&scales));
            all.push(quantize(format!("near/{what}"), *axis, &x, &scale, zero_i8.as_ref(), false));
            let x = random.i8s(dims);
            all.push(dequantize(format!("i8/{what}"), *axis, &x, &scale, zero_i8.as_ref()));
            let x = random.i32s(dims, -(1 << 30), 1 << 30);
            let zero_i32 = zero.then(|| random.i32s(&scales, -(1 << 30), 1 << 30));
            all.push(dequantize(format!("i32/{what}"), *axis, &x, &scale, zero_i32.as_ref()));
        }
    }
    // Ties: quotients by powers of two are exact everywhere, so the results are too.
    let ties: Vec<f32> = (-600..600).map(|i| i as f32 * 0.125).collect();
    let x = Tensor::f32(&[1200], &ties);
    for (scale, zero) in [(0.25, 0), (0.5, -128), (1.0, 127), (-0.25, 3)] {
        let (s, z) = (Tensor::f32(&[], &[scale]), Tensor::i8(&[], &[zero]));
        all.push(quantize(format!("ties/{scale} {zero}"), PER_TENSOR, &x, &s, Some(&z), true));
    }
    let x = Tensor::f32(&[SPECIAL.len()], &SPECIAL);
    for scale in [0.5, 1e30, 2f32.powi(-100), f32::INFINITY, 0.0, f32::NAN] {
        let (s, z) = (Tensor::f32(&[1], &[scale]), Tensor::i8(&[1], &[-7]));
        all.push(quantize(format!("special/{scale:e}"), PER_TENSOR, &x, &s, Some(&z), true));
    }
    // Products of a scale and a half, whose quotient is at or near a tie: a correctly rounded division decides.
    let (mut near, scale) = (Vec::new(), 0.1f32);
    for i in -130..130 {
        let middle = (f64::from(i) + 0.5) * f64::from(scale);
        near.extend([middle as f32, (middle as f32).next_up(), (middle as f32).next_down()]);
    }
    let (x, s) = (Tensor::f32(&[near.len()], &near), Tensor::f32(&[], &[scale]));
    all.push(quantize("correctly rounded division".into(), PER_TENSOR, &x, &s, None, true));
    extremes(&mut all);
    all
}

fn extremes(all: &mut Vec<Case>) {
    let ends = [i32::MIN, i32::MAX, 0, -1, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1, 123_456_789];
    for zero in [0, i32::MAX, i32::MIN, -1] {
        let (x, s) = (Tensor::i32(&[8], &ends), Tensor::f32(&[], &[0.3]));
        all.push(dequantize(
            format!("i32/wrapping/{zero}"),
            PER_TENSOR,
            &x,
            &s,
            Some(&Tensor::i32(&[], &[zero])),
        ));
    }
    let bytes: Vec<i8> = (-128..=127).map(|v| v as i8).collect();
    for scale in [f32::MAX, f32::INFINITY, f32::NAN, -0.0, -1.5] {
        let (x, s, z) = (Tensor::i8(&[256], &bytes), Tensor::f32(&[], &[scale]), Tensor::i8(&[], &[-128]));
        all.push(dequantize(format!("i8/special/{scale:e}"), PER_TENSOR, &x, &s, Some(&z)));
    }
}

fn channel(dims: &[usize], axis: u32, i: usize) -> usize {
    if axis == PER_TENSOR { 0 } else { position(dims, i)[axis as usize] }
}

/// The division is one rounding to f32 (f64 has more than twice its digits, so rounding twice is harmless).
///
/// Devices may be 2.5 units in the last place off in the division. Unless `exact`, an element whose quotient is
/// within 3 units of a tie may therefore be off by 1; all others must be right.
fn quantize(what: String, axis: u32, x: &Tensor, scale: &Tensor, zero: Option<&Tensor>, exact: bool) -> Case {
    let (numbers, scales, zeros) = (x.numbers(), scale.numbers(), zero.map(Tensor::numbers));
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for (i, x_i) in numbers.iter().enumerate() {
        let c = channel(&x.dims, axis, i);
        let quotient = f64::from((x_i / scales[c]) as f32);
        let zero = zeros.as_ref().map_or(0.0, |z| z[c]);
        let stored =
            |q: f64| if q.is_nan() { zero as i8 } else { (half_even(q) + zero).clamp(-128.0, 127.0) as i8 };
        y.push(stored(quotient));
        let off = |units: f64| f64::from(stored(quotient * (1.0 + units * 2f64.powi(-23))));
        bounds.push((off(3.0) - off(-3.0)).abs());
    }
    let tolerance = if exact { Tolerance::Exact } else { Tolerance::Bounds(bounds) };
    let case = Case::new(&QUANTIZE, what, &Quantization { axis, reserved: 0 }).input(x).input(scale);
    let case = if zero.is_some() { case.optional(zero) } else { case };
    case.output(Tensor::i8(&x.dims, &y)).within(tolerance)
}

/// The difference is exact for i8 and wraps for i32; it is rounded to f32, then the product is.
fn dequantize(what: String, axis: u32, x: &Tensor, scale: &Tensor, zero: Option<&Tensor>) -> Case {
    let (integers, scales, zeros) = (x.integers(), scale.numbers(), zero.map(Tensor::integers));
    let each = |(i, x_i): (usize, &i64)| {
        let c = channel(&x.dims, axis, i);
        let difference = x_i - zeros.as_ref().map_or(0, |z| z[c]);
        let wrapped = (difference + (1 << 31)).rem_euclid(1 << 32) - (1 << 31);
        f64::from(wrapped as f64 as f32) * scales[c]
    };
    let y: Vec<f64> = integers.iter().enumerate().map(each).collect();
    let case = Case::new(&DEQUANTIZE, what, &Quantization { axis, reserved: 0 }).input(x).input(scale);
    let case = if zero.is_some() { case.optional(zero) } else { case };
    case.output(Tensor::float(DType::F32, &x.dims, &y))
}
