//! Comparisons and connectives.

use crate::binary::SHAPES;
use crate::random::{Random, SUBNORMALS, pairs, special};
use crate::reference::broadcast::broadcast;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::compare::*;
use serinette_core::op::{NoAttributes, OpDescriptor};
use std::cmp::Ordering;

/// Orders for which an op is true.
static RELATIONS: &[(&OpDescriptor, &[Ordering])] = &[
    (&LESS, &[Ordering::Less]),
    (&GREATER, &[Ordering::Greater]),
    (&EQUAL, &[Ordering::Equal]),
    (&LESS_OR_EQUAL, &[Ordering::Less, Ordering::Equal]),
    (&GREATER_OR_EQUAL, &[Ordering::Greater, Ordering::Equal]),
];

/// Truth tables: the results for (false, false), (false, true), (true, false), (true, true).
static TABLES: &[(&OpDescriptor, [bool; 4])] = &[
    (&AND, [false, false, false, true]),
    (&OR, [false, true, true, true]),
    (&XOR, [false, true, true, false]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(5);
    for (op, wanted) in RELATIONS {
        for dtype in op.inputs[0].dtypes.iter() {
            let common = matches!(dtype, DType::F32 | DType::I32);
            for (_, (first, second)) in
                SHAPES.iter().enumerate().filter(|(i, _)| common || [3, 6, 9, 19].contains(i))
            {
                // Few values, so that equal ones are common.
                let low = if dtype == DType::Bool { 0 } else { -3 };
                let (a, b) = (random.small(dtype, first, low, 3), random.small(dtype, second, low, 3));
                let what = |a: &Tensor, b: &Tensor| format!("{}/{:?} {:?}", name(dtype), a.dims, b.dims);
                all.push(compare(op, wanted, what(&a, &b), &a, &b));
                if first != second {
                    all.push(compare(op, wanted, what(&b, &a), &b, &a));
                }
            }
            let (a, b) = pairs(&special(dtype));
            all.push(compare(op, wanted, format!("{}/special/pairs", name(dtype)), &a, &b));
        }
        let (a, b) = pairs(&Tensor::f32(&[SUBNORMALS.len()], &SUBNORMALS));
        all.push(compare(op, wanted, "f32/subnormal/pairs".into(), &a, &b));
        let list = [0, 1, -1, i32::MAX, i32::MIN, i32::MAX - 1, i32::MIN + 1, 1 << 24, (1 << 24) + 1];
        let (a, b) = pairs(&Tensor::i32(&[list.len()], &list));
        all.push(compare(op, wanted, "i32/extremes/pairs".into(), &a, &b));
    }
    for (op, table) in TABLES {
        for (first, second) in SHAPES {
            let (a, b) = (random.small(DType::Bool, first, 0, 1), random.small(DType::Bool, second, 0, 1));
            all.push(logic(op, table, format!("{:?} {:?}", a.dims, b.dims), &a, &b));
            if first != second {
                all.push(logic(op, table, format!("{:?} {:?}", b.dims, a.dims), &b, &a));
            }
        }
        // A byte that is neither 0 nor 1 is true.
        let odd = Tensor::new(DType::Bool, &[4], vec![0, 2, 255, 1]);
        let (a, b) = pairs(&odd);
        all.push(logic(op, table, "bytes/pairs".into(), &a, &b));
    }
    all
}

fn compare(op: &'static OpDescriptor, wanted: &[Ordering], what: String, a: &Tensor, b: &Tensor) -> Case {
    let (dims, index) = broadcast(&a.dims, &b.dims);
    let holds = |order: Option<Ordering>| order.is_some_and(|o| wanted.contains(&o));
    // f64 holds every float; integers are compared as they are; with NaN there is no order.
    let y: Vec<bool> = match a.dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::F64 => {
            let (x, z) = (a.numbers(), b.numbers());
            index.iter().map(|(i, j)| holds(x[*i].partial_cmp(&z[*j]))).collect()
        }
        _ => {
            let (x, z) = (a.wide_integers(), b.wide_integers());
            index.iter().map(|(i, j)| holds(x[*i].partial_cmp(&z[*j]))).collect()
        }
    };
    Case::new(op, what, &NoAttributes {}).input(a).input(b).output(Tensor::bool(&dims, &y))
}

fn logic(op: &'static OpDescriptor, table: &[bool; 4], what: String, a: &Tensor, b: &Tensor) -> Case {
    let (dims, index) = broadcast(&a.dims, &b.dims);
    let (x, z) = (a.wide_integers(), b.wide_integers());
    let of = |v: i128| usize::from(v != 0);
    let y: Vec<bool> = index.iter().map(|(i, j)| table[2 * of(x[*i]) + of(z[*j])]).collect();
    Case::new(op, what, &NoAttributes {}).input(a).input(b).output(Tensor::bool(&dims, &y)).with_in_place(op)
}
