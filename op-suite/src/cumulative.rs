//! `CumSum` and `CumProd`.

use crate::random::{Random, special};
use crate::reference::estimate::{Estimate, fit, rounded};
use crate::reference::is_float;
use crate::reference::rows::along;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::cumulative::{CUM_PROD, CUM_SUM, Cumulative};

const SHAPES: &[(&[usize], &[u32])] = &[
    (&[1], &[0]),
    (&[257], &[0]),
    (&[5, 33], &[0, 1]),
    (&[3, 5, 7], &[0, 1, 2]),
    (&[4, 131], &[0]),
    (&[2, 1, 3], &[1]),
    (&[2, 0, 3], &[0, 1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(145);
    let mut all = Vec::new();
    for op in [&CUM_SUM, &CUM_PROD] {
        for t in op.inputs[0].dtypes.iter() {
            let few: &[(&[usize], &[u32])] = &[(&[3, 7], &[0, 1])];
            for (dims, axes) in if t == DType::F32 { SHAPES } else { few } {
                let x = random.numbers(t, dims);
                // Products that neither overflow nor vanish.
                let near_one = || x.numbers().iter().map(|x| 1.0 + 0.1 * x).collect::<Vec<_>>();
                let product = op.code == CUM_PROD.code;
                let x = if product && is_float(t) { Tensor::float(t, dims, &near_one()) } else { x };
                for axis in *axes {
                    flags(op, &format!("{}/{dims:?}", name(t)), &x, *axis, &mut all);
                }
            }
            if is_float(t) {
                let (inf, nan) = (f64::INFINITY, f64::NAN);
                for row in [
                    [1.0, -0.0, 2.0, nan, 1.0, 2.0],
                    [1.0, inf, 2.0, -inf, 1.0, 0.0],
                    [-0.0, -0.0, 0.0, -1.0, 0.0, -2.0],
                    [0.5, 3e4, 3e4, 2e4, -5e4, -6e4],
                ] {
                    let x = Tensor::float(t, &[6], &row);
                    flags(op, &format!("{}/{row:?}", name(t)), &x, 0, &mut all);
                }
            } else {
                flags(op, &format!("{}/special", name(t)), &special(t), 0, &mut all);
            }
        }
    }
    all
}

fn flags(op: &OpDescriptor, what: &str, x: &Tensor, axis: u32, all: &mut Vec<Case>) {
    for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let attrs = Cumulative { axis, exclusive, reverse, reserved: 0 };
        let what = format!("{what} axis {axis}, exclusive {exclusive}, reverse {reverse}");
        all.push(running(op, what, x, &attrs));
    }
}

fn running(op: &OpDescriptor, what: String, x: &Tensor, attrs: &Cumulative) -> Case {
    let product = op.code == CUM_PROD.code;
    // The elements that count for each member of a row, from the nearest to the start on.
    let counted = |row: &[usize], i: usize| -> Vec<usize> {
        let mut all = if attrs.reverse == 1 { row[i..].to_vec() } else { row[..=i].to_vec() };
        if attrs.reverse == 1 {
            all.reverse();
        }
        all.truncate(all.len() - attrs.exclusive as usize);
        all
    };
    let is_axis = |i: usize| i == attrs.axis as usize;
    let case = Case::new(op, what, attrs).input(x);
    let case = if is_float(x.dtype) {
        let (numbers, t) = (x.numbers(), x.dtype);
        let none = Estimate { value: 0.0, error: 0.0 };
        let y = along(&x.dims, is_axis, none, |row| {
            let of = |i| {
                let x: Vec<f64> = counted(row, i).iter().map(|i| numbers[*i]).collect();
                if product {
                    let value = x.iter().fold(1.0, |p, x| fit(t, p * x));
                    return Estimate { value, error: x.len() as f64 * value.abs() };
                }
                let value = x.iter().fold(0.0, |s, x| fit(t, s + x));
                Estimate { value, error: x.len() as f64 * x.iter().map(|x| x.abs()).sum::<f64>() }
            };
            (0..row.len()).map(of).collect()
        });
        let (y, tolerance) = rounded(t, &x.dims, &y);
        case.output(y).within(tolerance)
    } else {
        let numbers = x.wide_integers();
        let y = along(&x.dims, is_axis, 0, |row| {
            let of = |i| {
                let x = counted(row, i).into_iter().map(|i| numbers[i]);
                if product { x.fold(1, i128::wrapping_mul) } else { x.sum::<i128>() }
            };
            (0..row.len()).map(of).collect()
        });
        case.output(Tensor::integer(x.dtype, &x.dims, &y))
    };
    case.with_in_place(op)
}
