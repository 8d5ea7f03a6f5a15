//! Normalisation to length 1.

use crate::random::Random;
use crate::reference::estimate::{Estimate, fit, rounded, sum};
use crate::reference::rows::along;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::lp_norm::{L1_NORMALIZE, L2_NORMALIZE};
use serinette_core::op::softmax::Axis;

const SHAPES: &[(&[usize], &[u32])] = &[
    (&[1], &[0]),
    (&[257], &[0]),
    (&[5, 33], &[0, 1]),
    (&[3, 4, 5], &[0, 1, 2]),
    (&[4, 131], &[0]),
    (&[2, 1, 3], &[1]),
    (&[3, 0, 2], &[0, 1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(154);
    let mut all = Vec::new();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [0.0, -0.0, 0.0, -0.0],
        [0.0, 2.5, 0.0, -0.0],
        [1.0, nan, 2.0, 0.0],
        [1.0, inf, -2.0, 0.0],
        [inf, -inf, 1.0, 0.0],
        [-3.0, 4.0, 0.0, 12.0],
    ];
    // Beyond the squares of f32.
    let huge = [[1e30, 1.0, -1e30, 0.0]];
    for op in [&L1_NORMALIZE, &L2_NORMALIZE] {
        for t in op.inputs[0].dtypes.iter() {
            let few: &[(&[usize], &[u32])] = &[(&[3, 4, 5], &[1, 2])];
            for (dims, axes) in if t == DType::F32 { SHAPES } else { few } {
                for axis in *axes {
                    let x = random.floats(t, dims);
                    all.push(normalise(op, format!("{}/{dims:?} axis {axis}", name(t)), *axis, &x));
                }
            }
            let mut special = rows.to_vec();
            if t != DType::F16 {
                special.extend(huge);
            }
            let x = Tensor::float(t, &[special.len(), 4], &special.concat());
            all.push(normalise(op, format!("{}/special", name(t)), 1, &x));
            let columns: Vec<f64> =
                (0..4 * special.len()).map(|i| special[i % special.len()][i / special.len()]).collect();
            let x = Tensor::float(t, &[4, special.len()], &columns);
            all.push(normalise(op, format!("{}/special columns", name(t)), 0, &x));
        }
    }
    all
}

/// The sum has `n` roundings, a square and a root some more, the quotient 2.5 units.
fn normalise(op: &'static OpDescriptor, what: String, axis: u32, x: &Tensor) -> Case {
    let (t, numbers) = (x.dtype, x.numbers());
    let root = op.code == L2_NORMALIZE.code;
    let y = along(
        &x.dims,
        |i| i == axis as usize,
        Estimate { value: 0.0, error: 0.0 },
        |row| {
            let term = |i: &usize| if root { fit(t, numbers[*i] * numbers[*i]) } else { numbers[*i].abs() };
            let total = fit(t, sum(row.iter().map(term)));
            let length = if root { total.sqrt() } else { total };
            let of = |i: &usize| {
                let value = if length == 0.0 { 0.0 } else { numbers[*i] / length };
                Estimate { value, error: value.abs() * (row.len() as f64 + 12.0) }
            };
            row.iter().map(of).collect()
        },
    );
    let (y, tolerance) = rounded(t, &x.dims, &y);
    let case = Case::new(op, what, &Axis { axis, reserved: 0 }).input(x).output(y);
    case.within(tolerance).with_in_place(op)
}
