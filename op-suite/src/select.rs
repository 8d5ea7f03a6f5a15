//! `Where`.

use crate::movement::share;
use crate::random::Random;
use crate::reference::broadcast::broadcast;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::select::WHERE;

/// Dimensions of condition and operands.
const SHAPES: &[[&[usize]; 3]] = &[
    [&[3, 5], &[3, 5], &[3, 5]],
    [&[3, 5], &[3, 5], &[]],
    [&[3, 5], &[5], &[3, 1]],
    [&[257], &[257], &[257]],
    [&[], &[], &[]],
    [&[], &[3, 5], &[3, 5]],
    [&[5], &[2, 3, 5], &[3, 1]],
    [&[3, 1], &[1, 5], &[2, 1, 1]],
    [&[2, 1, 3, 1], &[2, 3, 1, 5], &[1, 3, 5]],
    [&[3, 5], &[], &[3, 5]],
    [&[3, 5], &[1], &[1, 1]],
    [&[1, 5], &[3, 5], &[3, 5]],
    [&[0, 3], &[1, 3], &[3]],
    [&[2, 1, 2, 1, 3, 1, 2, 2], &[2, 2, 1, 1, 3, 1, 1, 2], &[2, 2, 2, 1, 3, 1, 2, 2]],
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(47);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (i, shapes) in share(SHAPES, dtype).enumerate() {
            let mut condition = random.small(DType::Bool, shapes[0], 0, 1);
            if i % 2 == 1 {
                // Any byte that is not 0 is true.
                condition.bytes.iter_mut().filter(|b| **b != 0).for_each(|b| *b = 0x80);
            }
            all.push(choice(&condition, &random.any(dtype, shapes[1]), &random.any(dtype, shapes[2])));
        }
    }
    all
}

fn choice(condition: &Tensor, a: &Tensor, b: &Tensor) -> Case {
    let (dims, _) = broadcast(&condition.dims, &a.dims);
    let (dims, _) = broadcast(&dims, &b.dims);
    // For each element of the result the element of each operand.
    let of = |x: &Tensor| broadcast(&dims, &x.dims).1.into_iter().map(|(_, i)| i).collect::<Vec<_>>();
    let (on, from_a, from_b) = (of(condition), of(a), of(b));
    let bytes = (0..dims.iter().product())
        .flat_map(|i| {
            if condition.bytes[on[i]] != 0 { a.element(from_a[i]) } else { b.element(from_b[i]) }.to_vec()
        })
        .collect();
    let y = Tensor::new(a.dtype, &dims, bytes);
    let what = format!("{}/{:?} {:?} {:?}", name(a.dtype), condition.dims, a.dims, b.dims);
    let case = Case::new(&WHERE, what, &NoAttributes {}).input(condition).input(a).input(b);
    case.output(y).within(Tolerance::Bits).with_in_place(&WHERE)
}
