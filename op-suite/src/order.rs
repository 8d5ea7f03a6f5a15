//! `TopK` and `Sort`.

use crate::random::{Random, special};
use crate::reference::order::numbers;
use crate::reference::rows::rows;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::order::{SORT, Sort, TOP_K, TopK};

/// Shapes with the axes to order and the numbers of elements to choose.
const SHAPES: &[(&[usize], &[u32], &[usize])] = &[
    (&[1], &[0], &[0, 1]),
    (&[300], &[0], &[1, 7, 299, 300]),
    (&[5, 33], &[0, 1], &[1, 3, 5]),
    (&[3, 5, 7], &[1], &[2, 5]),
    (&[2, 1, 3, 5], &[1], &[1]),
    (&[2, 3, 2, 3, 5], &[2], &[1]),
    (&[2, 0, 3], &[0, 1], &[0]),
    (&[3, 0, 2], &[0], &[2]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(143);
    let mut all = Vec::new();
    for (dims, axes, counts) in SHAPES {
        for axis in *axes {
            let inputs = [random.floats(DType::F32, dims), random.whole(DType::F32, dims, 2)];
            for (x, kind) in inputs.iter().zip(["any", "ties"]) {
                let what = format!("f32/{dims:?} axis {axis}, {kind}");
                for k in *counts {
                    both(&what, x, *axis, *k, &mut all);
                }
                sort(&what, x, *axis, &mut all);
            }
        }
    }
    for t in TOP_K.inputs[0].dtypes.iter() {
        let x = [random.numbers(t, &[3, 11]), random.small(t, &[11, 3], 0, 3), special(t)];
        for (x, what) in x.iter().zip(["any", "ties", "special"]) {
            for axis in 0..x.dims.len() as u32 {
                let what = format!("{}/{what} axis {axis}", name(t));
                both(&what, x, axis, 3, &mut all);
                sort(&what, x, axis, &mut all);
            }
        }
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let row = [1.0, nan, -inf, 0.0, -nan, -0.0, inf, -1.5, nan, -0.0, 0.0, inf, -inf, 1.0];
    for t in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let x = Tensor::float(t, &[row.len()], &row);
        for k in [1, 4, 9] {
            both(&format!("{}/NaN, zeros, infinities", name(t)), &x, 0, k, &mut all);
        }
        sort(&format!("{}/NaN, zeros, infinities", name(t)), &x, 0, &mut all);
        // As columns.
        let x = Tensor::float(t, &[7, 2], &row);
        both(&format!("{}/NaN, zeros, infinities, columns", name(t)), &x, 0, 4, &mut all);
        sort(&format!("{}/NaN, zeros, infinities, columns", name(t)), &x, 0, &mut all);
    }
    all
}

/// Largest and smallest, sorted and not.
fn both(what: &str, x: &Tensor, axis: u32, k: usize, all: &mut Vec<Case>) {
    for (largest, sorted) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let attrs = TopK { axis, largest, sorted, reserved: 0 };
        let [values, indices] = ordered(x, axis as usize, k, largest == 1, sorted == 1);
        let what = format!("{what}, {k}, largest {largest}, sorted {sorted}");
        all.push(Case::new(&TOP_K, what, &attrs).input(x).output(values).output(indices));
    }
}

fn sort(what: &str, x: &Tensor, axis: u32, all: &mut Vec<Case>) {
    for descending in [0, 1] {
        let [values, indices] = ordered(x, axis as usize, x.dims[axis as usize], descending == 1, true);
        let what = format!("{what}, descending {descending}");
        let attrs = Sort { axis, descending };
        all.push(Case::new(&SORT, what, &attrs).input(x).output(values).output(indices));
    }
}

/// Values and positions.
fn ordered(x: &Tensor, axis: usize, k: usize, falling: bool, sorted: bool) -> [Tensor; 2] {
    let numbers = numbers(x);
    let mut dims = x.dims.clone();
    dims[axis] = k;
    let (_, slots) = rows(&dims, |i| i == axis);
    let n = dims.iter().product();
    let (mut values, mut indices) = (vec![Vec::new(); n], vec![-1; n]);
    for (row, slots) in rows(&x.dims, |i| i == axis).1.iter().zip(slots) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        // Stable.
        order.sort_by(|a, b| {
            let (a, b) = (numbers[row[*a]], numbers[row[*b]]);
            if falling { b.order(a) } else { a.order(b) }
        });
        order.truncate(k);
        if !sorted {
            order.sort();
        }
        for (slot, at) in slots.iter().zip(order) {
            values[*slot] = x.element(row[at]).to_vec();
            indices[*slot] = at as i32;
        }
    }
    [Tensor::new(x.dtype, &dims, values.concat()), Tensor::i32(&dims, &indices)]
}
