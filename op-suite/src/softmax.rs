//! `Softmax`.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance};
use serinette_core::DType;
use serinette_core::op::softmax::{Axis, SOFTMAX};
use std::collections::BTreeMap;

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
                all.push(softmax(format!("f32/{dims:?} axis {axis}, scale {scale}"), *axis, x));
            }
        }
    }
    let (inf, nan, max) = (f32::INFINITY, f32::NAN, f32::MAX);
    let rows: &[(&str, [f32; 5])] = &[
        ("equal", [7.5; 5]),
        ("large", [1e30, 1e30, -1e30, 9.9e29, 0.0]),
        ("extremes", [max, -max, 0.0, max, 1.0]),
        ("far apart", [0.0, -80.0, -87.0, -200.0, -1e9]),
        ("beyond exp", [1000.0, 1001.0, 999.5, 1000.25, 998.0]),
        ("some minus infinity", [-inf, 1.0, -inf, 0.5, -inf]),
        ("all minus infinity", [-inf; 5]),
        ("infinity", [1.0, inf, 2.0, 3.0, -inf]),
        ("two infinities", [inf, 0.0, inf, 0.0, 0.0]),
        ("NaN", [0.0, 1.0, nan, 2.0, 3.0]),
        ("NaN and infinity", [nan, inf, 0.0, -inf, 1.0]),
        ("NaN among minus infinity", [-inf, -inf, -inf, -inf, nan]),
    ];
    for (what, row) in rows {
        all.push(softmax(format!("f32/special/{what}"), 0, Tensor::f32(&[5], row)));
    }
    // All of them side by side: a row must not disturb its neighbours.
    let n = rows.len();
    let columns: Vec<f32> = (0..5 * n).map(|i| rows[i % n].1[i / n]).collect();
    all.push(softmax("f32/special/columns".into(), 0, Tensor::f32(&[5, n], &columns)));
    all
}

/// Each exponential is off by the rounding of `d = x − max` (`|d| · 2^-24`), by the device's function (Vulkan and
/// WGSL allow `3 + 2·|d|` units in the last place) and by its storage; the sum has the worst of its terms, weighted,
/// and `n` additions; the division 2.5 units. All relative to the result, in units of 2^-23, and below the smallest
/// normal number a device may flush to zero.
fn softmax(what: String, axis: u32, x: Tensor) -> Case {
    let (numbers, dims) = (x.numbers(), &x.dims);
    let units = |d: f64| 3.0 + 2.0 * d.min(104.0) + d.min(104.0) / 2.0 + 1.0;
    let row = |first: &[usize]| {
        let mut at = first.to_vec();
        let mut member = |k| {
            at[axis as usize] = k;
            numbers[offset(dims, &at)]
        };
        let members: Vec<f64> = (0..dims[axis as usize]).map(&mut member).collect();
        let poisoned = members.iter().any(|x| x.is_nan() || *x == f64::INFINITY)
            || members.iter().all(|x| *x == f64::NEG_INFINITY);
        let most = members.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = members.iter().map(|x| (x - most).exp()).sum();
        let weighted: f64 = members.iter().map(|x| (x - most).exp() / sum * units(most - x)).sum();
        (if poisoned { f64::NAN } else { sum }, most, weighted + members.len() as f64 / 2.0 + 3.0)
    };
    let (mut rows, mut y, mut bounds) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (i, x) in numbers.iter().enumerate() {
        let mut first = position(dims, i);
        first[axis as usize] = 0;
        let (sum, most, shared) = *rows.entry(first).or_insert_with_key(|first| row(first));
        let value = (x - most).exp() / sum;
        y.push(value);
        let total = units(most - x) + shared;
        bounds.push(value * total * 2f64.powi(-23) * 1.01 + f64::from(f32::MIN_POSITIVE));
    }
    let y = Tensor::float(DType::F32, dims, &y);
    let case = Case::new(&SOFTMAX, what, &Axis { axis, reserved: 0 }).input(&x).output(y);
    case.within(Tolerance::Bounds(bounds)).with_in_place(&SOFTMAX)
}
