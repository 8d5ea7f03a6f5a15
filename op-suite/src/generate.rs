//! `Fill`, `Range`, `Eye`, `OneHot`, `Triu`, `Tril`.

use crate::movement::{moved, share};
use crate::random::{Random, special};
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::generate::*;
use serinette_core::op::softmax::Axis;

const FILLED: &[(&[usize], &[usize])] =
    &[(&[], &[3, 5]), (&[1], &[7]), (&[1, 1], &[]), (&[], &[2, 0]), (&[], &[2, 1, 2, 1, 3, 1, 2, 1])];

const EYES: &[([usize; 2], i32)] = &[
    ([5, 7], 0),
    ([4, 3], 1),
    ([3, 5], -2),
    ([3, 3], 3),
    ([3, 3], -3),
    ([1, 4], i32::MAX),
    ([4, 1], i32::MIN),
    ([0, 3], 0),
    ([3, 0], 1),
];

/// Dimensions of the indices, axis, depth.
const HOTS: &[(&[usize], u32, usize)] = &[
    (&[7], 1, 5),
    (&[7], 0, 5),
    (&[2, 3], 1, 4),
    (&[2, 3], 2, 3),
    (&[], 0, 6),
    (&[2, 3], 0, 0),
    (&[0], 1, 3),
];

/// Dimensions, diagonal of the attributes and of the operand.
const TRIANGLES: &[(&[usize], i32, Option<i32>)] = &[
    (&[5, 7], 0, None),
    (&[7, 5], 2, None),
    (&[2, 4, 3], -1, None),
    (&[4, 4], 1, Some(-3)),
    (&[4, 4], 0, Some(2)),
    (&[3, 3], i32::MAX, Some(i32::MAX)),
    (&[3, 3], i32::MIN, Some(i32::MIN)),
    (&[3, 3], 3, None),
    (&[3, 3], -3, None),
    (&[2, 1, 3, 5], 1, None),
    (&[0, 3], 0, None),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(46);
    let mut all = ranges(&mut random);
    for dtype in DType::ALL {
        for (value, dims) in share(FILLED, dtype) {
            let x = random.any(dtype, value);
            let y = Tensor::new(dtype, dims, x.bytes.repeat(dims.iter().product()));
            all.push(moved(&FILL, format!("{dims:?} of {value:?}"), &NoAttributes {}, &[x], y));
        }
        for (dims, k) in share(EYES, dtype) {
            let x = random.any(dtype, &[1]);
            let on = |at: &[usize]| at[1] as i64 - at[0] as i64 == i64::from(*k);
            let y = masked(&Tensor::new(dtype, dims, x.bytes.repeat(dims.iter().product())), on);
            all.push(moved(&EYE, format!("{dims:?} at {k}"), &Diagonal { k: *k, reserved: 0 }, &[x], y));
        }
        for (dims, axis, depth) in share(HOTS, dtype) {
            let n = *depth as i32;
            let indices = random.i32s(dims, -n - 2, n + 1);
            all.push(one_hot(&mut random, dtype, *axis, *depth, &indices));
        }
        let far = Tensor::i32(&[4], &[i32::MIN, i32::MAX, 2, -3]);
        all.push(one_hot(&mut random, dtype, 1, 3, &far));
        for (dims, k, operand) in share(TRIANGLES, dtype) {
            let x = random.any(dtype, dims);
            let rank = dims.len();
            let distance = |at: &[usize]| at[rank - 1] as i64 - at[rank - 2] as i64;
            let total = i64::from(*k) + i64::from(operand.unwrap_or(0));
            let what = format!("{dims:?} at {k} and {operand:?}");
            for (op, y) in [
                (&TRIU, masked(&x, |at| distance(at) >= total)),
                (&TRIL, masked(&x, |at| distance(at) <= total)),
            ] {
                let attrs = Diagonal { k: *k, reserved: 0 };
                let mut case = moved(op, what.clone(), &attrs, std::slice::from_ref(&x), y);
                case.inputs.extend(operand.map(|k| Some(Tensor::i32(&[1], &[k]))));
                all.push(case.with_in_place(op));
            }
        }
    }
    all
}

/// The tensor, with zero bytes where `keep` does not hold.
fn masked(x: &Tensor, keep: impl Fn(&[usize]) -> bool) -> Tensor {
    let zero = vec![0; x.dtype.size()];
    let bytes = (0..x.elements())
        .flat_map(|i| if keep(&position(&x.dims, i)) { x.element(i).to_vec() } else { zero.clone() })
        .collect();
    Tensor::new(x.dtype, &x.dims, bytes)
}

fn one_hot(random: &mut Random, dtype: DType, axis: u32, depth: usize, indices: &Tensor) -> Case {
    let values = random.any(dtype, &[2]);
    let list = indices.integers();
    let mut dims = indices.dims.clone();
    dims.insert(axis as usize, depth);
    let bytes = (0..dims.iter().product())
        .flat_map(|i| {
            let mut at = position(&dims, i);
            let d = at.remove(axis as usize) as i64;
            let index = list[offset(&indices.dims, &at)];
            values.element(usize::from(index == d || index + depth as i64 == d)).to_vec()
        })
        .collect();
    let y = Tensor::new(dtype, &dims, bytes);
    let what =
        format!("{}/{:?} axis {axis} depth {depth}, from {:?}", name(dtype), indices.dims, list.first());
    let case = Case::new(&ONE_HOT, what, &Axis { axis, reserved: 0 });
    case.input(indices).input(&values).output(y).within(Tolerance::Bits)
}

fn ranges(random: &mut Random) -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in RANGE.outputs[0].dtypes.iter() {
        let list = special(dtype);
        let mut pairs: Vec<_> =
            (0..4).map(|_| (random.numbers(dtype, &[]), random.numbers(dtype, &[1]))).collect();
        let element = |i: usize| Tensor::new(dtype, &[], list.element(i % list.elements()).to_vec());
        pairs.extend((0..list.elements()).map(|i| (element(i), element(i + 1))));
        let lengths = [37, 1, 0, 5];
        for (i, (start, delta)) in pairs.iter().enumerate() {
            let n = lengths[i.min(3)];
            let y = range(start, delta, n);
            let what = format!("{}/{n} of number {i}", name(dtype));
            let case = Case::new(&RANGE, what, &NoAttributes {}).input(start).input(delta);
            let tolerance = bounds(start, delta, n);
            all.push(case.output(y).within(tolerance));
        }
    }
    all
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
}

fn range(start: &Tensor, delta: &Tensor, n: usize) -> Tensor {
    if is_float(start.dtype) {
        let (start_at, by) = (start.numbers()[0], delta.numbers()[0]);
        // The product is rounded to the type of the arithmetic before the sum.
        let wide = if start.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let y: Vec<f64> = (0..n)
            .map(|i| start_at + Tensor::float(wide, &[], &[i as f64 * by]).numbers()[0])
            .map(|y| Tensor::float(wide, &[], &[y]).numbers()[0])
            .collect();
        return Tensor::float(start.dtype, &[n], &y);
    }
    let (start_at, by) = (start.wide_integers()[0], delta.wide_integers()[0]);
    let y: Vec<i128> = (0..n).map(|i| start_at + i as i128 * by).collect();
    Tensor::integer(start.dtype, &[n], &y)
}

/// A device may fuse product and sum: then the rounding of the product is missing.
fn bounds(start: &Tensor, delta: &Tensor, n: usize) -> Tolerance {
    let eps = match start.dtype {
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F64 => 2f64.powi(-53),
        _ => return Tolerance::Exact,
    };
    let (start, by) = (start.numbers()[0], delta.numbers()[0]);
    let each = |i: usize| {
        let product = (i as f64 * by).abs();
        let sum = (start + i as f64 * by).abs();
        eps.min(2f64.powi(-24)) * product + 2.0 * eps * sum
    };
    // Where the numbers overflow only the same infinity is right, which needs no bound.
    Tolerance::Bounds((0..n).map(each).map(|b| if b.is_finite() { b } else { 0.0 }).collect())
}
