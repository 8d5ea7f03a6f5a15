//! `GatherElements`, `GatherNd`.

use crate::movement::share;
use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::gather_nd::*;
use serinette_core::op::softmax::Axis;

/// Dimensions of the data, axis, dimensions of the indices.
pub(crate) const ELEMENTS: &[(&[usize], u32, &[usize])] = &[
    (&[3, 5], 1, &[3, 4]),
    (&[7], 0, &[9]),
    (&[3, 5, 7], 1, &[3, 9, 7]),
    (&[3, 5], 0, &[2, 5]),
    (&[3, 5, 7], 0, &[4, 5, 7]),
    (&[3, 5, 7], 2, &[2, 4, 3]),
    (&[2, 3, 4, 5], 3, &[2, 3, 4, 2]),
    (&[2, 3, 4, 5], 1, &[1, 4, 4, 5]),
    (&[1, 5], 0, &[3, 1]),
    (&[3, 5], 1, &[3, 0]),
    (&[3, 5], 1, &[0, 4]),
    (&[0, 3], 0, &[0, 2]),
];

/// Dimensions of the data, shared outer axes, dimensions of the indices.
const TUPLES: &[(&[usize], u32, &[usize])] = &[
    (&[3, 5, 7], 0, &[4, 2]),
    (&[7], 0, &[3, 1]),
    (&[3, 5, 7], 1, &[3, 2, 1]),
    (&[3, 5], 0, &[2, 3, 2]),
    (&[3, 5, 7], 0, &[2]),
    (&[3, 5, 7], 2, &[3, 5, 1]),
    (&[2, 3, 4, 5], 1, &[2, 3, 2]),
    (&[2, 3, 4, 5], 2, &[2, 3, 2, 2, 2]),
    (&[3, 5], 1, &[3, 1]),
    (&[3, 5], 0, &[4, 0]),
    (&[3, 5], 0, &[0, 1]),
    (&[2, 3, 0], 0, &[4, 2]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(44);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (dims, axis, shape) in share(ELEMENTS, dtype) {
            let data = random.any(dtype, dims);
            let n = dims[*axis as usize] as i32;
            let indices = random.i32s(shape, -n, (n - 1).max(-n));
            all.push(elements(format!("{dims:?} axis {axis} at {shape:?}"), *axis, &data, &indices));
        }
        for (dims, batch, shape) in share(TUPLES, dtype) {
            let data = random.any(dtype, dims);
            let indices = indices(&mut random, &dims[*batch as usize..], shape);
            all.push(tuples(format!("{dims:?} batch {batch} at {shape:?}"), *batch, &data, &indices));
        }
        let bad = Tensor::i32(&[3, 3], &BAD);
        for (dims, axis) in [([3, 5], 1), ([5, 3], 0)] {
            let data = random.any(dtype, &dims);
            all.push(elements(format!("{dims:?} axis {axis}, bad indices"), axis, &data, &bad));
        }
        let data = random.any(dtype, &[5, 2]);
        let bad = Tensor::i32(&[9, 1], &BAD);
        all.push(tuples("[5, 2], bad indices".into(), 0, &data, &bad));
        let pairs = Tensor::i32(&[5, 2], &[0, 1, 5, 0, -1, -2, 0, 2, -6, 1]);
        all.push(tuples("[5, 2], bad pairs".into(), 0, &data, &pairs));
    }
    let empty = Tensor::new(DType::F32, &[2, 0], vec![]);
    let some = Tensor::i32(&[2, 3], &[0, -1, 1, 0, 0, 7]);
    all.push(elements("empty axis".into(), 1, &empty, &some));
    all.push(tuples("empty axis".into(), 0, &empty, &Tensor::i32(&[3, 2], &[0, 0, 1, -1, 5, 2])));
    all
}

/// Indices for an axis of 5 elements, some out of range.
pub(crate) const BAD: [i32; 9] = [0, 5, -6, 4, i32::MIN, -5, i32::MAX, 6, -1];

/// Tuples of indices in range, for the outermost of these dimensions.
pub(crate) fn indices(random: &mut Random, dims: &[usize], shape: &[usize]) -> Tensor {
    let k = shape[shape.len() - 1];
    let list: Vec<i32> = (0..shape.iter().product())
        .map(|i: usize| {
            let n = dims[i % k] as i64;
            random.integer(-n, (n - 1).max(-n)) as i32
        })
        .collect();
    Tensor::i32(shape, &list)
}

/// In Python's way: negative ones count from the end, once.
pub(crate) fn wrapped(index: i64, n: usize) -> Option<usize> {
    let index = if index < 0 { index + n as i64 } else { index };
    usize::try_from(index).ok().filter(|i| *i < n)
}

fn elements(what: String, axis: u32, data: &Tensor, indices: &Tensor) -> Case {
    let list = indices.integers();
    let from = |i: usize| {
        let mut at = position(&indices.dims, i);
        at[axis as usize] = wrapped(list[i], data.dims[axis as usize])?;
        Some(offset(&data.dims, &at))
    };
    let (y, fault) = taken(data, &indices.dims, from);
    let attrs = Axis { axis, reserved: 0 };
    let case = Case::new(&GATHER_ELEMENTS, format!("{}/{what}", name(data.dtype)), &attrs);
    let case = case.input(data).input(indices).output(y).within(Tolerance::Bits);
    Case { expect_fault: fault, ..case }
}

fn tuples(what: String, batch: u32, data: &Tensor, indices: &Tensor) -> Case {
    let list = indices.integers();
    let (last, b) = (indices.dims.len() - 1, batch as usize);
    let k = indices.dims[last];
    let dims = [&indices.dims[..last], &data.dims[b + k..]].concat();
    let from = |i: usize| {
        let at = position(&dims, i);
        let mut full = at[..b].to_vec();
        for j in 0..k {
            let index = [&at[..last], &[j]].concat();
            full.push(wrapped(list[offset(&indices.dims, &index)], data.dims[b + j])?);
        }
        full.extend(&at[last..]);
        Some(offset(&data.dims, &full))
    };
    let (y, fault) = taken(data, &dims, from);
    let attrs = GatherNd { batch_dims: batch, reserved: 0 };
    let case = Case::new(&GATHER_ND, format!("{}/{what}", name(data.dtype)), &attrs);
    let case = case.input(data).input(indices).output(y).within(Tolerance::Bits);
    Case { expect_fault: fault, ..case }
}

/// The result of elements that `from` names, zeros where it names none, and whether that happened.
fn taken(data: &Tensor, dims: &[usize], from: impl Fn(usize) -> Option<usize>) -> (Tensor, bool) {
    let places: Vec<_> = (0..dims.iter().product()).map(from).collect();
    let zero = vec![0; data.dtype.size()];
    let bytes = places.iter().flat_map(|p| p.map_or(zero.clone(), |p| data.element(p).to_vec())).collect();
    (Tensor::new(data.dtype, dims, bytes), places.contains(&None))
}
