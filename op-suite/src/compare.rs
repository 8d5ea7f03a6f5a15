//! `Less`, `Greater`, `Equal`.

use crate::binary::SHAPES;
use crate::random::{Random, SPECIAL, SUBNORMALS, pairs_f32, pairs_i32};
use crate::reference::broadcast::broadcast;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::compare::{EQUAL, GREATER, LESS};
use serinette_core::op::{NoAttributes, OpDescriptor};
use std::cmp::Ordering;

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(5);
    for (op, wanted) in [(&LESS, Ordering::Less), (&GREATER, Ordering::Greater), (&EQUAL, Ordering::Equal)] {
        for dtype in [DType::F32, DType::I32] {
            for (first, second) in SHAPES {
                // Few values, so that equal ones are common.
                let mut operand = |dims| match dtype {
                    DType::I32 => random.i32s(dims, -3, 3),
                    _ => random.whole(dtype, dims, 3),
                };
                let (a, b) = (operand(first), operand(second));
                let what = |a: &Tensor, b: &Tensor| format!("{}/{:?} {:?}", name(dtype), a.dims, b.dims);
                all.push(compare(op, wanted, what(&a, &b), &a, &b));
                if first != second {
                    all.push(compare(op, wanted, what(&b, &a), &b, &a));
                }
            }
        }
        let (a, b) = pairs_f32(&SPECIAL);
        all.push(compare(op, wanted, "f32/special/pairs".into(), &a, &b));
        let (a, b) = pairs_f32(&SUBNORMALS);
        all.push(compare(op, wanted, "f32/subnormal/pairs".into(), &a, &b));
        let (a, b) =
            pairs_i32(&[0, 1, -1, i32::MAX, i32::MIN, i32::MAX - 1, i32::MIN + 1, 1 << 24, (1 << 24) + 1]);
        all.push(compare(op, wanted, "i32/extremes/pairs".into(), &a, &b));
    }
    all
}

fn compare(op: &'static OpDescriptor, wanted: Ordering, what: String, a: &Tensor, b: &Tensor) -> Case {
    let (dims, pairs) = broadcast(&a.dims, &b.dims);
    let (x, z) = (a.numbers(), b.numbers());
    // f64 holds every f32 and i32; with NaN there is no order.
    let y: Vec<bool> = pairs.iter().map(|(i, j)| x[*i].partial_cmp(&z[*j]) == Some(wanted)).collect();
    Case::new(op, what, &NoAttributes {}).input(a).input(b).output(Tensor::bool(&dims, &y))
}
