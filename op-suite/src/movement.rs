//! `Copy`, `Transpose`, `Concat`, `Slice`: random bytes of every element type, compared bit by bit.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::op::movement::{CONCAT, COPY, SLICE, Slice, TRANSPOSE, Transpose};
use serinette_core::op::softmax::Axis;
use serinette_core::op::{Attributes, NoAttributes, OpDescriptor};
use serinette_core::{DType, MAX_RANK};

/// Dimensions and a permutation.
const PERMUTATIONS: &[(&[usize], &[u8])] = &[
    (&[], &[]),
    (&[7], &[0]),
    (&[5, 9], &[1, 0]),
    (&[33, 65], &[1, 0]),
    (&[5, 9], &[0, 1]),
    (&[3, 5, 7], &[0, 2, 1]),
    (&[3, 5, 7], &[2, 0, 1]),
    (&[3, 5, 7], &[2, 1, 0]),
    (&[2, 3, 4, 5], &[0, 2, 3, 1]),
    (&[2, 3, 4, 5], &[0, 3, 1, 2]),
    (&[2, 3, 4, 5], &[1, 0, 2, 3]),
    (&[1, 3, 1, 5], &[2, 3, 0, 1]),
    (&[2, 3, 2, 3, 5], &[4, 2, 0, 3, 1]),
    (&[2, 3, 2, 3, 5], &[0, 1, 3, 2, 4]),
    (&[2, 1, 3, 1, 2, 2, 1, 3], &[7, 6, 5, 4, 3, 2, 1, 0]),
    (&[3, 0, 5], &[2, 0, 1]),
];

/// Axis, and the dimensions of the parts.
const PARTS: &[(u32, &[&[usize]])] = &[
    (0, &[&[7]]),
    (0, &[&[3], &[5], &[1]]),
    (1, &[&[3, 5], &[3, 2], &[3, 7]]),
    (0, &[&[3, 5], &[1, 5], &[2, 5]]),
    (1, &[&[2, 3, 7], &[2, 1, 7], &[2, 5, 7]]),
    (2, &[&[2, 3, 1], &[2, 3, 13], &[2, 3, 3]]),
    (1, &[&[2, 0, 3], &[2, 4, 3], &[2, 0, 3]]),
    (2, &[&[2, 0, 3], &[2, 0, 4]]),
    (3, &[&[1, 2, 3, 4], &[1, 2, 3, 1], &[1, 2, 3, 2], &[1, 2, 3, 3]]),
];

/// Dimensions of the input, starts, steps, dimensions of the result.
type Cut = (&'static [usize], &'static [u32], &'static [u32], &'static [usize]);

const CUTS: &[Cut] = &[
    (&[], &[], &[], &[]),
    (&[10], &[0], &[1], &[10]),
    (&[10], &[3], &[1], &[5]),
    (&[10], &[1], &[3], &[3]),
    (&[10], &[9], &[7], &[1]),
    (&[5, 9], &[1, 2], &[1, 1], &[3, 7]),
    (&[5, 9], &[0, 8], &[2, 1], &[3, 1]),
    (&[5, 9], &[0, 1], &[2, 4], &[3, 2]),
    (&[3, 5, 7], &[1, 0, 2], &[1, 2, 2], &[2, 3, 3]),
    (&[3, 5, 7], &[0, 4, 0], &[1, 1, 1], &[3, 1, 7]),
    (&[2, 3, 4, 5], &[1, 1, 1, 1], &[1, 1, 2, 3], &[1, 2, 2, 2]),
    (&[2, 3, 2, 3, 5], &[0, 2, 0, 0, 1], &[1, 1, 1, 2, 1], &[2, 1, 2, 2, 4]),
    (&[4, 6], &[4, 0], &[1, 1], &[0, 6]),
    (&[4, 0], &[1, 0], &[1, 5], &[2, 0]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(8);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (from, to) in [
            (&[][..], &[][..]),
            (&[3, 5], &[15]),
            (&[67], &[67]),
            (&[2, 3, 4, 5], &[8, 1, 15]),
            (&[0, 3], &[5, 0]),
        ] {
            let x = random.any(dtype, from);
            let y = Tensor::new(dtype, to, x.bytes.clone());
            all.push(moved(&COPY, format!("{from:?} as {to:?}"), &NoAttributes {}, &[x], y));
        }
        for (dims, permutation) in PERMUTATIONS {
            let x = random.any(dtype, dims);
            let mut attrs = Transpose::default();
            attrs.permutation[..permutation.len()].copy_from_slice(permutation);
            let out: Vec<usize> = permutation.iter().map(|p| dims[usize::from(*p)]).collect();
            let y = take(&x, &out, |at| {
                let mut from = vec![0; at.len()];
                for (i, p) in permutation.iter().enumerate() {
                    from[usize::from(*p)] = at[i];
                }
                from
            });
            all.push(moved(&TRANSPOSE, format!("{dims:?} by {permutation:?}"), &attrs, &[x], y));
        }
        for (axis, parts) in PARTS {
            let parts: Vec<Tensor> = parts.iter().map(|dims| random.any(dtype, dims)).collect();
            let y = concat(*axis as usize, &parts);
            let dims: Vec<_> = parts.iter().map(|p| &p.dims).collect();
            let what = format!("{dims:?} along {axis}");
            all.push(moved(&CONCAT, what, &Axis { axis: *axis, reserved: 0 }, &parts, y));
        }
        for (dims, starts, steps, out) in CUTS {
            let x = random.any(dtype, dims);
            let mut attrs = Slice { starts: [0; MAX_RANK], steps: [1; MAX_RANK] };
            attrs.starts[..starts.len()].copy_from_slice(starts);
            attrs.steps[..steps.len()].copy_from_slice(steps);
            let y = take(&x, out, |at| {
                let cut = at.iter().zip(*starts).zip(*steps);
                cut.map(|((i, start), step)| *start as usize + i * *step as usize).collect()
            });
            all.push(moved(
                &SLICE,
                format!("{dims:?} from {starts:?} by {steps:?} to {out:?}"),
                &attrs,
                &[x],
                y,
            ));
        }
    }
    // As many parts as a step may have inputs.
    let parts: Vec<Tensor> =
        (0..serinette_core::MAX_INPUTS).map(|i| random.any(DType::I8, &[3, i % 4 + 1])).collect();
    let y = concat(1, &parts);
    all.push(moved(&CONCAT, "many parts".into(), &Axis { axis: 1, reserved: 0 }, &parts, y));
    all
}

/// Whether an element type gets every case of an op that moves elements; the others, which share kernels with these, get
/// every third.
pub(crate) fn in_full(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::BF16 | DType::F32 | DType::I64 | DType::C128)
}

/// The entries of a list that an element type gets.
pub(crate) fn share<T>(list: &[T], dtype: DType) -> impl Iterator<Item = &T> {
    list.iter().step_by(if in_full(dtype) { 1 } else { 3 })
}

/// The result whose element at a multi-index is the input's at the multi-index that `from` gives.
pub(crate) fn take(x: &Tensor, dims: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Tensor {
    let bytes = (0..dims.iter().product())
        .flat_map(|i| {
            let at = from(&position(dims, i));
            x.element(offset(&x.dims, &at)).to_vec()
        })
        .collect();
    Tensor::new(x.dtype, dims, bytes)
}

fn concat(axis: usize, parts: &[Tensor]) -> Tensor {
    let mut dims = parts[0].dims.clone();
    dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
    let bytes = (0..dims.iter().product())
        .flat_map(|i| {
            let mut at = position(&dims, i);
            let mut part = parts.iter();
            let mut current = part.next();
            while let Some(p) = current.filter(|p| at[axis] >= p.dims[axis]) {
                at[axis] -= p.dims[axis];
                current = part.next();
            }
            current.map(|p| p.element(offset(&p.dims, &at)).to_vec()).unwrap_or_default()
        })
        .collect();
    Tensor::new(parts[0].dtype, &dims, bytes)
}

/// A case of an op whose result is the inputs' elements bit by bit.
pub(crate) fn moved(
    op: &OpDescriptor,
    what: String,
    attrs: &impl Attributes,
    inputs: &[Tensor],
    y: Tensor,
) -> Case {
    let case = Case::new(op, format!("{}/{what}", name(y.dtype)), attrs);
    inputs.iter().fold(case, Case::input).output(y).within(Tolerance::Bits)
}
