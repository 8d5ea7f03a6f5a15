//! `ArgMax` and `ArgMin`.

use crate::random::{Random, special};
use crate::reference::order::{Number, numbers};
use crate::reference::rows::rows;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::argmax::{ARGMAX, ARGMIN, ArgMax};
use std::cmp::Ordering;

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(12);
    let mut all = Vec::new();
    let shapes: &[(&[usize], &[u32])] = &[
        (&[1], &[0]),
        (&[1001], &[0]),
        (&[5, 33], &[0, 1]),
        (&[3, 5, 7], &[0, 1, 2]),
        (&[2, 1, 3, 5], &[0, 1, 3]),
        (&[2, 3, 2, 3, 5], &[2]),
        (&[3, 131], &[0]),
        (&[2, 0, 3], &[0, 2]),
    ];
    for (op, last) in [(&ARGMAX, 0), (&ARGMAX, 1), (&ARGMIN, 0), (&ARGMIN, 1)] {
        for (dims, axes) in shapes {
            for (axis, keep_axis) in axes.iter().flat_map(|axis| [(*axis, 0), (*axis, 1)]) {
                let attrs = ArgMax { axis, keep_axis, last, reserved: 0 };
                let inputs =
                    [random.floats(DType::F32, dims), random.i8s(dims), random.whole(DType::F32, dims, 2)];
                for (kind, x) in ["", "", ", ties"].iter().zip(&inputs) {
                    let what = format!("{}/{dims:?} axis {axis}, keep {keep_axis}{kind}", name(x.dtype));
                    all.push(search(op, what, &attrs, x));
                }
            }
        }
        for t in op.inputs[0].dtypes.iter() {
            let x = [random.numbers(t, &[7, 5]), random.small(t, &[5, 7], 0, 2), special(t)];
            for (what, x) in ["any", "ties", "special values"].iter().zip(&x) {
                for axis in 0..x.dims.len() as u32 {
                    let attrs = ArgMax { axis, keep_axis: 0, last, reserved: 0 };
                    all.push(search(op, format!("{}/{what} axis {axis}", name(t)), &attrs, x));
                }
            }
        }
        all.extend(rows_of_floats(op, last));
        for row in [[-128i8; 5], [127; 5], [-128, -127, -127, -128, -127], [0, 127, -1, 127, 126]] {
            let attrs = ArgMax { axis: 0, keep_axis: 1, last, reserved: 0 };
            all.push(search(op, format!("i8/special/{row:?}"), &attrs, &Tensor::i8(&[5], &row)));
        }
    }
    all
}

fn rows_of_floats(op: &OpDescriptor, last: u32) -> Vec<Case> {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows: &[(&str, [f32; 6])] = &[
        ("equal", [0.5; 6]),
        ("zeros of both signs", [-0.0, 0.0, -0.0, 0.0, -1.0, 0.0]),
        ("zeros below one", [0.0, -0.0, 1.0, -0.0, 1.0, 0.0]),
        ("all minus infinity", [-inf; 6]),
        ("infinities", [1.0, inf, 2.0, inf, -inf, 3.0]),
        ("NaN wins over infinity", [1.0, inf, nan, inf, nan, 3.0]),
        ("NaN first", [nan, inf, 5.0, nan, 1.0, 0.0]),
        ("negative NaN", [5.0, 1.0, 2.0, -nan, nan, inf]),
        ("NaN last", [5.0, 1.0, 2.0, 3.0, -inf, nan]),
        ("least first", [f32::MIN, -inf, f32::MIN, -inf, f32::MIN, -inf]),
    ];
    let mut all = Vec::new();
    for (what, row) in rows {
        let x = Tensor::f32(&[6], row);
        let attrs = ArgMax { axis: 0, keep_axis: 0, last, reserved: 0 };
        all.push(search(op, format!("f32/special/{what}"), &attrs, &x));
    }
    // All of them side by side.
    let n = rows.len();
    for t in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let columns: Vec<f64> = (0..6 * n).map(|i| f64::from(rows[i % n].1[i / n])).collect();
        let attrs = ArgMax { axis: 0, keep_axis: 0, last, reserved: 0 };
        let x = Tensor::float(t, &[6, n], &columns);
        all.push(search(op, format!("{}/special/columns", name(t)), &attrs, &x));
    }
    all
}

fn search(op: &OpDescriptor, what: String, attrs: &ArgMax, x: &Tensor) -> Case {
    let (axis, numbers) = (attrs.axis as usize, numbers(x));
    let (mut kept, all) = rows(&x.dims, |i| i == axis);
    // Whether `a` stands before `b`: the larger, or the smaller with NaN as the smallest.
    let before = |a: Number, b: Number| match (a.is_nan(), b.is_nan()) {
        (a, b) if a != b => a,
        _ if op.code == ARGMAX.code => a.order(b) == Ordering::Greater,
        _ => a.order(b) == Ordering::Less,
    };
    let best = |row: &Vec<usize>| {
        let unbeaten = |i: &usize| row.iter().all(|j| !before(numbers[*j], numbers[*i]));
        let at = if attrs.last == 1 { row.iter().rposition(unbeaten) } else { row.iter().position(unbeaten) };
        at.map_or(-1, |i| i as i32)
    };
    let y: Vec<i32> = all.iter().map(best).collect();
    if attrs.keep_axis == 0 {
        kept.remove(axis);
    }
    let what = if attrs.last == 1 { format!("{what}, last") } else { what };
    Case::new(op, what, attrs).input(x).output(Tensor::i32(&kept, &y))
}
