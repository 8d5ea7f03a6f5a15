//! `MatMul` and `QMatMul`.

use crate::random::{Random, SPECIAL};
use crate::reference::{matmul, sum};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::matmul::{MATMUL, MatMul, QMATMUL, QMatMul, Requantize};

/// `a`, `b` without `transpose_b`.
const SHAPES: &[(&[usize], &[usize])] = &[
    (&[1, 1], &[1, 1]),
    (&[33, 50], &[50, 65]),
    (&[1, 67], &[67, 131]),
    (&[71, 29], &[29, 1]),
    (&[1, 133], &[133, 1]),
    (&[5, 1], &[1, 7]),
    (&[4, 64], &[64, 64]),
    (&[130, 3], &[3, 5]),
    (&[2, 3, 7, 11], &[11, 13]),
    (&[3, 5, 17], &[3, 17, 9]),
    (&[2, 1, 3, 9, 4], &[2, 1, 3, 4, 66]),
    (&[3, 1, 5], &[3, 5, 7]),
    (&[2, 2, 1, 6], &[2, 2, 6, 1]),
    // Nothing to sum: the bias alone.
    (&[3, 0], &[0, 5]),
    (&[2, 3, 0], &[2, 0, 4]),
    // Nothing to compute.
    (&[0, 6], &[6, 5]),
    (&[4, 6], &[6, 0]),
    (&[0, 3, 4], &[0, 4, 2]),
];

fn transposed(b: &[usize]) -> Vec<usize> {
    let mut b = b.to_vec();
    let rank = b.len();
    b.swap(rank - 1, rank - 2);
    b
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(1);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (index, (a, b)) in SHAPES.iter().enumerate() {
            // All combinations in the types of most models, some in the others.
            let some = matches!(dtype, DType::BF16 | DType::F64);
            for flags in (0..8u32).filter(|f| !some || f % 4 == index as u32 % 4) {
                let (transpose_b, with_bias, activation) = (flags & 1, flags & 2 != 0, flags >> 2);
                let attrs = MatMul { activation, transpose_b };
                let b = if transpose_b == 1 { transposed(b) } else { b.to_vec() };
                let (x, w) = (random.floats(dtype, a), random.floats(dtype, &b));
                let n = if transpose_b == 1 { b[b.len() - 2] } else { b[b.len() - 1] };
                let bias = with_bias.then(|| random.floats(dtype, &[n]));
                let what = format!("{}/{a:?}x{b:?}/{attrs:?} bias {with_bias}", name(dtype));
                all.push(float(what, &attrs, [&x, &w], bias.as_ref(), None));
            }
        }
        // Sums of whole numbers that every partial sum holds exactly: no tolerance, in any order.
        for (a, b) in [([9, 41], [41, 70]), ([37, 64], [64, 3])] {
            for transpose_b in [0, 1] {
                let attrs = MatMul { activation: 0, transpose_b };
                let b = if transpose_b == 1 { transposed(&b) } else { b.to_vec() };
                let (x, w) = (random.whole(dtype, &a, 5), random.whole(dtype, &b, 6));
                let what = format!("{}/whole numbers/{a:?}x{b:?}", name(dtype));
                all.push(float(what, &attrs, [&x, &w], None, Some(Tolerance::Exact)));
            }
        }
    }
    all.extend(special());
    wrapping(&mut random, &mut all);
    quantized(&mut random, &mut all);
    all
}

fn float(
    what: String,
    attrs: &MatMul,
    [a, b]: [&Tensor; 2],
    bias: Option<&Tensor>,
    tolerance: Option<Tolerance>,
) -> Case {
    let (dims, sums) = matmul::float(a, b, bias, attrs.transpose_b == 1);
    let (y, bounds) = sum::rounded(a.dtype, &dims, &sums, attrs.activation == 1);
    let case = Case::new(&MATMUL, what, attrs).input(a).input(b);
    let case = if bias.is_some() { case.optional(bias) } else { case };
    case.output(y).within(tolerance.unwrap_or(bounds))
}

/// Integers of all sizes, whose sums wrap.
fn wrapping(random: &mut Random, all: &mut Vec<Case>) {
    for dtype in [DType::I32, DType::I64, DType::U32, DType::U64] {
        for (index, (a, b)) in SHAPES.iter().enumerate() {
            let (transpose_b, activation) = (index as u32 % 2, index as u32 / 2 % 2);
            let attrs = MatMul { activation, transpose_b };
            let b = if transpose_b == 1 { transposed(b) } else { b.to_vec() };
            let (x, w) = (random.any(dtype, a), random.any(dtype, &b));
            let n = if transpose_b == 1 { b[b.len() - 2] } else { b[b.len() - 1] };
            let bias = (index % 3 != 0).then(|| random.any(dtype, &[n]));
            let (dims, sums) = matmul::whole(&x, &w, bias.as_ref(), transpose_b == 1);
            let activated = |sum: &i128| {
                // Modulo the size of the type, then the sign of that.
                let stored = Tensor::integer(dtype, &[1], &[*sum]).wide_integers()[0];
                if activation == 1 { stored.max(0) } else { stored }
            };
            let y = Tensor::integer(dtype, &dims, &sums.iter().map(activated).collect::<Vec<_>>());
            let what = format!("{}/{a:?}x{b:?}/{attrs:?} bias {}", name(dtype), bias.is_some());
            let case = Case::new(&MATMUL, what, &attrs).input(&x).input(&w);
            let case = if bias.is_some() { case.optional(bias.as_ref()) } else { case };
            all.push(case.output(y));
        }
    }
}

/// Infinities, NaN, overflow: outer products (one term each, so the result is one rounding), and sums with an
/// infinity in a row of finite numbers. The relu of NaN is NaN.
fn special() -> Vec<Case> {
    let n = SPECIAL.len();
    let outer = [Tensor::f32(&[n, 1], &SPECIAL), Tensor::f32(&[1, n], &SPECIAL)];
    let mut all = Vec::new();
    for activation in [0, 1] {
        let attrs = MatMul { activation, transpose_b: 0 };
        let what = format!("f32/special/outer product, activation {activation}");
        all.push(float(what, &attrs, [&outer[0], &outer[1]], None, None));
        let mut x = vec![1.0f32; 3 * 11];
        (x[4], x[11 + 7], x[22 + 1], x[22 + 9]) = (f32::INFINITY, f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let w: Vec<f32> = (0..11 * 5).map(|i| [1.0, -2.0, 0.0, 0.5][i * 7 % 4]).collect();
        let (x, w) = (Tensor::f32(&[3, 11], &x), Tensor::f32(&[11, 5], &w));
        all.push(float(format!("f32/special/sums, activation {activation}"), &attrs, [&x, &w], None, None));
    }
    let halves = Tensor::f16_bits(&[2, 2], &[0x7bff, 0x7bff, 0x7c00, 0x0001]);
    let factors = Tensor::f16_bits(&[2, 3], &[0x3c00, 0x4000, 0xfc00, 0x3c00, 0xc000, 0x7e00]);
    all.push(float("f16/special/sums".into(), &MatMul::default(), [&halves, &factors], None, None));
    all
}

/// Zero points, clamps.
pub(crate) const REQUANTIZE: &[Requantize] = &[
    Requantize { x_zero: 3, y_zero: -5, low: -128, high: 127, rounding: 0, reserved: 0 },
    Requantize { x_zero: -128, y_zero: -128, low: -128, high: 127, rounding: 0, reserved: 0 },
    Requantize { x_zero: 127, y_zero: 127, low: -128, high: 127, rounding: 0, reserved: 0 },
    Requantize { x_zero: -7, y_zero: 11, low: 11, high: 127, rounding: 0, reserved: 0 },
    Requantize { x_zero: 0, y_zero: 0, low: -20, high: 30, rounding: 0, reserved: 0 },
    Requantize { x_zero: 0, y_zero: 0, low: 42, high: 42, rounding: 0, reserved: 0 },
];

/// Per-channel vectors: bias, multiplier, shift.
pub(crate) type PerChannel = [Tensor; 3];

/// Scales that spread sums of `terms` products over the 8 bits.
pub(crate) fn ordinary(random: &mut Random, channels: usize, terms: usize) -> PerChannel {
    // Random products have a standard deviation of about 2^12.4; the sum of n has √n times that.
    let bits = (12.4 + (terms.max(1) as f64).log2() / 2.0 - 6.0).round() as i32;
    let shift = random.i32s(&[channels], bits - 1, bits + 1);
    [random.i32s(&[channels], -20_000, 20_000), random.i32s(&[channels], 1 << 30, i32::MAX), shift]
}

/// Extremes of all three, with shifts at and beyond the ends of the range.
pub(crate) fn extreme(random: &mut Random, channels: usize) -> PerChannel {
    let bias =
        (0..channels).map(|_| random.pick(&[0, 1, -1, i32::MAX, i32::MIN, 1 << 24, -77])).collect::<Vec<_>>();
    let multiplier = (0..channels)
        .map(|_| random.pick(&[0, 1, -1, i32::MAX, i32::MIN, 1 << 30, -(1 << 30), 12345]))
        .collect::<Vec<_>>();
    let shift = (0..channels)
        .map(|_| random.pick(&[0, 31, -30, -31, 32, 30, -1, 1, 7, -29, i32::MIN, i32::MAX]))
        .collect::<Vec<_>>();
    [bias, multiplier, shift].map(|v| Tensor::i32(&[channels], &v))
}

/// Multiplier 2^30 and shifts from −30: exact powers of two, so that half of the results are ties.
pub(crate) fn ties(random: &mut Random, channels: usize) -> PerChannel {
    let multiplier = Tensor::i32(&[channels], &vec![1 << 30; channels]);
    [random.i32s(&[channels], -300, 300), multiplier, random.i32s(&[channels], 0, 2)]
}

fn quantized(random: &mut Random, all: &mut Vec<Case>) {
    for (index, (a, b)) in SHAPES.iter().filter(|(_, b)| b.len() == 2).enumerate() {
        for transpose_b in [0, 1] {
            let b = if transpose_b == 1 { transposed(b) } else { b.to_vec() };
            let n = if transpose_b == 1 { b[0] } else { b[1] };
            for kind in ["ordinary", "extreme"] {
                let requantize = REQUANTIZE[(index + transpose_b as usize) % REQUANTIZE.len()];
                let attrs = QMatMul { requantize, transpose_b, reserved: 0 };
                let (x, w) = (random.i8s(a), random.i8s(&b));
                let channel =
                    if kind == "ordinary" { ordinary(random, n, a[a.len() - 1]) } else { extreme(random, n) };
                let layout = ["", ", transposed"][transpose_b as usize];
                all.push(integer(format!("{kind}/{a:?}x{b:?}{layout}"), &attrs, &x, &w, &channel));
            }
        }
    }
    for (index, requantize) in REQUANTIZE.iter().enumerate() {
        let attrs = QMatMul { requantize: *requantize, transpose_b: 1, reserved: 0 };
        let (x, w) = (random.i8s(&[19, 10]), random.i8s(&[23, 10]));
        let channel = ordinary(random, 23, 10);
        all.push(integer(format!("zero points and clamps {index}"), &attrs, &x, &w, &channel));
        let small = Tensor::i8(&[4, 2], &[1, 0, 3, 1, -1, 2, -5, 7]);
        let (w, channel) = (
            Tensor::i8(
                &[9, 2],
                &random.i32s(&[18], -2, 2).integers().iter().map(|v| *v as i8).collect::<Vec<_>>(),
            ),
            ties(random, 9),
        );
        all.push(integer(format!("ties {index}"), &attrs, &small, &w, &channel));
    }
    // Every product at its extreme.
    let attrs = QMatMul { requantize: REQUANTIZE[2], transpose_b: 0, reserved: 0 };
    let (x, w) = (Tensor::i8(&[2, 300], &[-128; 600]), Tensor::i8(&[300, 3], &[-128; 900]));
    let channel = [[i32::MAX, 0, i32::MIN], [i32::MAX; 3], [12, 16, 20]].map(|v| Tensor::i32(&[3], &v));
    all.push(integer("largest products".into(), &attrs, &x, &w, &channel));
}

fn integer(what: String, attrs: &QMatMul, x: &Tensor, w: &Tensor, channel: &PerChannel) -> Case {
    let [bias, multiplier, shift] = channel;
    let y = matmul::quantized(attrs, [x, w, bias, multiplier, shift]);
    Case::new(&QMATMUL, what, attrs).input(x).input(w).input(bias).input(multiplier).input(shift).output(y)
}
