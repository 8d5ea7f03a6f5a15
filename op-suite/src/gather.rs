//! `Gather`.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::gather::GATHER;
use serinette_core::op::softmax::Axis;

/// Dimensions of the data, axis, dimensions of the indices.
const SHAPES: &[(&[usize], u32, &[usize])] = &[
    (&[5], 0, &[]),
    (&[7], 0, &[9]),
    (&[7, 3], 0, &[5]),
    (&[7, 3], 1, &[2, 4]),
    (&[3, 5, 7], 1, &[6]),
    (&[3, 5, 7], 2, &[2, 3]),
    (&[3, 5, 7], 0, &[]),
    (&[2, 3, 2, 5], 2, &[3, 1, 2]),
    (&[1, 33], 0, &[4]),
    (&[3, 5], 0, &[0]),
    (&[3, 0], 0, &[2]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(9);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (dims, axis, shape) in SHAPES {
            let n = dims[*axis as usize] as i32;
            let data = random.any(dtype, dims);
            let indices = random.i32s(shape, -n, n - 1);
            all.push(gather(
                format!("{}/{dims:?} axis {axis} at {shape:?}", name(dtype)),
                *axis,
                &data,
                &indices,
            ));
        }
        let bad = |n: i32| [0, n, -n - 1, n - 1, i32::MIN, -n, i32::MAX, n + 1, -1];
        for (dims, axis) in [(&[5][..], 0), (&[5, 3], 0), (&[2, 5, 3], 1), (&[4, 5], 1)] {
            let data = random.any(dtype, dims);
            let what = format!("{}/bad indices/{dims:?} axis {axis}", name(dtype));
            all.push(gather(what, axis, &data, &Tensor::i32(&[3, 3], &bad(5))));
        }
        // One bad index alone, first and last of the range; and an axis without elements.
        for index in [4, -5, i32::MIN, i32::MAX] {
            let data = random.any(dtype, &[4, 3]);
            all.push(gather(
                format!("{}/bad index {index}", name(dtype)),
                0,
                &data,
                &Tensor::i32(&[], &[index]),
            ));
        }
        let empty = Tensor::new(dtype, &[2, 0, 3], Vec::new());
        all.push(gather(
            format!("{}/bad indices/empty axis", name(dtype)),
            1,
            &empty,
            &Tensor::i32(&[4], &[0, -1, 1, 7]),
        ));
    }
    all
}

fn gather(what: String, axis: u32, data: &Tensor, indices: &Tensor) -> Case {
    let (axis, positions, rank) = (axis as usize, indices.integers(), indices.dims.len());
    let mut dims = data.dims.clone();
    dims.splice(axis..=axis, indices.dims.iter().copied());
    let n = data.dims[axis] as i64;
    let (mut bytes, mut fault) = (Vec::new(), false);
    for i in 0..dims.iter().product() {
        let mut at = position(&dims, i);
        let index = positions[offset(&indices.dims, &at[axis..axis + rank])];
        // In Python's way: negative ones count from the end, once.
        let wrapped = if index < 0 { index + n } else { index };
        if wrapped < 0 || wrapped >= n {
            fault = true;
            bytes.extend(vec![0; data.dtype.size()]);
            continue;
        }
        at.splice(axis..axis + rank, [wrapped as usize]);
        bytes.extend(data.element(offset(&data.dims, &at)));
    }
    let y = Tensor::new(data.dtype, &dims, bytes);
    let case = Case::new(&GATHER, what, &Axis { axis: axis as u32, reserved: 0 });
    let case = case.input(data).input(indices).output(y).within(Tolerance::Bits);
    Case { expect_fault: fault, ..case }
}
