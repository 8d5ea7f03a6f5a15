//! `Softmax`, `LogSoftmax`, `Hardmax`.

use crate::random::Random;
use crate::reference::estimate::{Estimate, rounded};
use crate::reference::order::{Number, numbers};
use crate::reference::rows::along;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::softmax::{Axis, HARDMAX, LOG_SOFTMAX, SOFTMAX};
use std::cmp::Ordering;

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(7);
    let mut all = Vec::new();
    let shapes: &[(&[usize], &[u32])] = &[
        (&[1], &[0]),
        (&[10], &[0]),
        (&[5, 33], &[0, 1]),
        (&[3, 4, 5], &[0, 1, 2]),
        (&[2, 3, 5, 7], &[1, 3]),
        (&[2, 1, 3], &[1]),
        (&[3, 1000], &[1]),
        (&[2, 4099], &[1]),
        (&[3, 0, 2], &[0, 1, 2]),
        (&[0, 4], &[1]),
    ];
    for (dims, axes) in shapes {
        for axis in *axes {
            for scale in [1.0, 30.0] {
                let x: Vec<f64> =
                    random.floats(DType::F32, dims).numbers().iter().map(|x| x * scale).collect();
                let x = Tensor::float(DType::F32, dims, &x);
                all.push(softmax(format!("f32/{dims:?} axis {axis}, scale {scale}"), *axis, &x));
            }
        }
    }
    for t in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (dims, axes) in [(&[3, 7, 5], &[0, 1, 2]), (&[1, 70, 1], &[0, 1, 2]), (&[2, 0, 3], &[0, 1, 2])] {
            for axis in axes {
                let x: Vec<f64> = random.floats(t, dims).numbers().iter().map(|x| x * 6.0).collect();
                let (x, what) = (Tensor::float(t, dims, &x), format!("{}/{dims:?} axis {axis}", name(t)));
                all.extend(others(&what, *axis, &x));
                let ties = random.whole(t, dims, 2);
                all.push(hardmax(format!("{what}, ties"), *axis, &ties));
            }
        }
        all.extend(special(t));
    }
    all
}

fn special(t: DType) -> Vec<Case> {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let max = match t {
        DType::F16 => 65504.0,
        DType::BF16 => f32::from_bits(0x7f7f_0000),
        _ => f32::MAX,
    };
    let far = if t == DType::F16 { 5e4 } else { 1e30 };
    let rows: &[(&str, [f32; 5])] = &[
        ("equal", [7.5; 5]),
        ("large", [far, far, -far, 0.99 * far, 0.0]),
        ("extremes", [max, -max, 0.0, max, 1.0]),
        ("far apart", [0.0, -80.0, -87.0, -200.0, -0.5 * far]),
        ("beyond exp", [1000.0, 1001.0, 999.5, 1000.25, 998.0]),
        ("some minus infinity", [-inf, 1.0, -inf, 0.5, -inf]),
        ("all minus infinity", [-inf; 5]),
        ("infinity", [1.0, inf, 2.0, 3.0, -inf]),
        ("two infinities", [inf, 0.0, inf, 0.0, 0.0]),
        ("NaN", [0.0, 1.0, nan, 2.0, 3.0]),
        ("NaN and infinity", [nan, inf, 0.0, -inf, 1.0]),
        ("NaN among minus infinity", [-inf, -inf, -inf, -inf, nan]),
        ("zeros", [-0.0, 0.0, -1.0, 0.0, -0.0]),
    ];
    let mut all = Vec::new();
    let of = |dims: &[usize], x: &[f32]| {
        Tensor::float(t, dims, &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())
    };
    for (what, row) in rows {
        let (what, x) = (format!("{}/special/{what}", name(t)), of(&[5], row));
        all.push(softmax(what.clone(), 0, &x));
        all.push(log_softmax(what.clone(), 0, &x));
        all.push(hardmax(what, 0, &x));
    }
    // All of them side by side: a row must not disturb its neighbours.
    let n = rows.len();
    let columns: Vec<f32> = (0..5 * n).map(|i| rows[i % n].1[i / n]).collect();
    all.extend(others(&format!("{}/special/columns", name(t)), 0, &of(&[5, n], &columns)));
    all
}

/// All three ops.
fn others(what: &str, axis: u32, x: &Tensor) -> Vec<Case> {
    vec![softmax(what.into(), axis, x), log_softmax(what.into(), axis, x), hardmax(what.into(), axis, x)]
}

/// Greatest element and sum of a row, and how far a device may be from this.
///
/// Each exponential is off by the rounding of `d = x − max` (`|d| · 2^-24`), by the device's function (Vulkan and
/// WGSL allow `3 + 2·|d|` units in the last place) and by its storage; the sum has the worst of its terms, weighted,
/// and `n` additions. All relative to the result, in units of two roundings.
struct Row {
    most: f64,
    sum: f64,
    error: f64,
}

fn exponential(d: f64) -> f64 {
    let d = d.min(750.0);
    3.0 + 2.0 * d + d / 2.0 + 1.0
}

fn row(x: &[f64]) -> Row {
    let poisoned =
        x.iter().any(|x| x.is_nan() || *x == f64::INFINITY) || x.iter().all(|x| *x == f64::NEG_INFINITY);
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - most).exp()).sum();
    let weighted: f64 = x.iter().map(|x| (x - most).exp() / sum * exponential(most - x)).sum();
    let sum = if poisoned { f64::NAN } else { sum };
    Row { most, sum, error: weighted + x.len() as f64 / 2.0 }
}

fn estimated(
    op: &OpDescriptor,
    what: String,
    axis: u32,
    x: &Tensor,
    f: impl Fn(&Row, f64) -> Estimate,
) -> Case {
    let numbers = x.numbers();
    let y = along(
        &x.dims,
        |i| i == axis as usize,
        Estimate { value: 0.0, error: 0.0 },
        |members| {
            let members: Vec<f64> = members.iter().map(|i| numbers[*i]).collect();
            let row = row(&members);
            members.iter().map(|x| f(&row, *x)).collect()
        },
    );
    let (y, tolerance) = rounded(x.dtype, &x.dims, &y);
    let case = Case::new(op, what, &Axis { axis, reserved: 0 }).input(x).output(y);
    case.within(tolerance).with_in_place(op)
}

/// A division is off by 2.5 units more.
fn softmax(what: String, axis: u32, x: &Tensor) -> Case {
    estimated(&SOFTMAX, what, axis, x, |row, x| {
        let value = (x - row.most).exp() / row.sum;
        Estimate { value, error: 2.0 * value * (exponential(row.most - x) + row.error + 3.0) }
    })
}

/// The logarithm turns the relative error of the sum into an absolute one, and has one of 4 units, or absolute near 1; both
/// differences are rounded.
fn log_softmax(what: String, axis: u32, x: &Tensor) -> Case {
    estimated(&LOG_SOFTMAX, what, axis, x, |row, x| {
        let (d, log) = (x - row.most, row.sum.ln());
        let error = 2.0 * (row.error + 4.0 * log.abs() + 1.0) + d.abs() + (d - log).abs();
        Estimate { value: d - log, error }
    })
}

fn hardmax(what: String, axis: u32, x: &Tensor) -> Case {
    let numbers = numbers(x);
    let y = along(
        &x.dims,
        |i| i == axis as usize,
        0.0,
        |row| {
            let greatest = |i: &usize| {
                let unbeaten = |j: &usize| numbers[*j].order(numbers[*i]) != Ordering::Greater;
                row.iter().all(unbeaten)
            };
            let first = row.iter().position(greatest);
            (0..row.len()).map(|i| if Some(i) == first { 1.0 } else { 0.0 }).collect()
        },
    );
    debug_assert!(numbers.iter().all(|n| matches!(n, Number::Float(_))));
    let case = Case::new(&HARDMAX, what, &Axis { axis, reserved: 0 }).input(x);
    case.output(Tensor::float(x.dtype, &x.dims, &y)).with_in_place(&HARDMAX)
}
