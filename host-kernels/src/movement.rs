//! Ops that move elements. Those that move whole runs work on bytes; the others exist once for each size of an
//! element.

use crate::registry::{
    Registered, kernels,
    sets::{ANY, BYTES_1, BYTES_2, BYTES_4, BYTES_8, BYTES_16},
};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::MAX_RANK;
use serinette_core::op;
use serinette_core::op::NoAttributes;
use serinette_core::op::movement::{Slice, Transpose};
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { movement:
    op::movement::COPY => copy, ANY => ANY;
    op::movement::TRANSPOSE => transpose_1, BYTES_1 => BYTES_1;
    op::movement::TRANSPOSE => transpose_2, BYTES_2 => BYTES_2;
    op::movement::TRANSPOSE => transpose_4, BYTES_4 => BYTES_4;
    op::movement::TRANSPOSE => transpose_8, BYTES_8 => BYTES_8;
    op::movement::TRANSPOSE => transpose_16, BYTES_16 => BYTES_16;
    op::movement::CONCAT => concat, ANY => ANY;
    op::movement::SLICE => slice_1, BYTES_1 => BYTES_1;
    op::movement::SLICE => slice_2, BYTES_2 => BYTES_2;
    op::movement::SLICE => slice_4, BYTES_4 => BYTES_4;
    op::movement::SLICE => slice_8, BYTES_8 => BYTES_8;
    op::movement::SLICE => slice_16, BYTES_16 => BYTES_16;
};

/// `Copy` of any element type.
pub fn copy(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (x, y) = (ops.input::<u8>(0)?, ops.output::<u8>(0)?);
    expect("bytes of y", x.len(), y.len())?;
    y.copy_from_slice(x);
    Ok(())
}

/// `Concat` of any element type.
pub fn concat(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let out = step.output(0)?;
    let y = ops.output::<u8>(0)?;
    if axis >= out.rank() {
        return Err(KernelError::new("axis", out.rank(), axis));
    }
    let size = element_size(&out, y.len())?;
    if size == 0 {
        return Ok(());
    }
    let run = out.inner(axis).saturating_mul(size);
    let pitch = out.dim(axis).saturating_mul(run);
    let mut start = 0usize;
    for i in 0..ops.inputs() {
        let (shape, x) = (step.input(i)?, ops.input::<u8>(i)?);
        let part = shape.dim(axis).saturating_mul(run);
        expect("bytes of a part", part.saturating_mul(out.outer(axis)), x.len())?;
        if part > 0 {
            for (y, x) in y.chunks_exact_mut(pitch).zip(x.chunks_exact(part)) {
                y.get_mut(start..).and_then(|y| y.get_mut(..part)).ok_or(OUT_OF_RANGE)?.copy_from_slice(x);
            }
        }
        start = start.saturating_add(part);
    }
    expect("bytes of the parts of a row", pitch, start)
}

/// Bytes of one element of a tensor that takes `bytes`, 0 if it has no elements.
pub(crate) fn element_size(shape: &Shape, bytes: usize) -> Result<usize, KernelError> {
    let size = bytes.checked_div(shape.elements()).unwrap_or(0);
    expect("bytes of y", product(&[shape.elements(), size]), bytes)?;
    if bytes == 0 { expect("elements of y", 0, shape.elements()).map(|()| 0) } else { Ok(size) }
}

macro_rules! sizes {
    ($($size:literal, $unit:ty: $transpose:ident, $slice:ident;)+) => {$(
        #[doc = concat!("`Transpose` of elements of ", $size, ".")]
        pub fn $transpose(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            transpose::<$unit>(step, ops)
        }

        #[doc = concat!("`Slice` of elements of ", $size, ".")]
        pub fn $slice(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            slice::<$unit>(step, ops)
        }
    )+};
}

sizes! {
    "1 byte", u8: transpose_1, slice_1;
    "2 bytes", u16: transpose_2, slice_2;
    "4 bytes", u32: transpose_4, slice_4;
    "8 bytes", u64: transpose_8, slice_8;
    "16 bytes (8-aligned)", [u64; 2]: transpose_16, slice_16;
}

fn transpose<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Transpose = step.attributes()?;
    let (x, y) = (step.input(0)?, step.output(0)?);
    expect("rank of y", x.rank(), y.rank())?;
    let mut strides = [0; MAX_RANK];
    for ((axis, stride), p) in strides.iter_mut().enumerate().take(y.rank()).zip(attrs.permutation) {
        expect("dimension of y", x.dim(usize::from(p)), y.dim(axis))?;
        *stride = x.inner(usize::from(p));
    }
    strided(&x, ops.input::<T>(0)?, &y, ops.output::<T>(0)?, 0, &strides)
}

fn slice<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Slice = step.attributes()?;
    let (x, y) = (step.input(0)?, step.output(0)?);
    expect("rank of y", x.rank(), y.rank())?;
    let (mut strides, mut start) = ([0usize; MAX_RANK], 0usize);
    for (axis, stride) in strides.iter_mut().enumerate().take(y.rank()) {
        let inner = x.inner(axis);
        start = start.wrapping_add(inner.wrapping_mul(attrs.starts[axis] as usize));
        *stride = inner.wrapping_mul(attrs.steps[axis] as usize);
    }
    strided(&x, ops.input::<T>(0)?, &y, ops.output::<T>(0)?, start, &strides)
}

/// `y[i…] = x[start + Σ i · strides]`, row by row of `y`.
pub(crate) fn strided<T: Copy>(
    x_shape: &Shape,
    x: &[T],
    y_shape: &Shape,
    y: &mut [T],
    start: usize,
    strides: &[usize; MAX_RANK],
) -> Result<(), KernelError> {
    expect("elements of x", x_shape.elements(), x.len())?;
    expect("elements of y", y_shape.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let outer = y_shape.rank().saturating_sub(1);
    let (n, stride) = (y_shape.dim(outer), strides[outer % MAX_RANK]);
    let (mut trips, mut at) = ([0usize; MAX_RANK], start);
    for y in y.chunks_exact_mut(n) {
        let row = x.get(at..).ok_or(OUT_OF_RANGE)?;
        if stride == 1 {
            y.copy_from_slice(row.get(..n).ok_or(OUT_OF_RANGE)?);
        } else {
            row.get((n - 1).wrapping_mul(stride)).ok_or(OUT_OF_RANGE)?;
            y.iter_mut().zip(row.iter().step_by(stride.max(1))).for_each(|(y, x)| *y = *x);
        }
        // The next row: the last of the outer axes turns fastest.
        for axis in (0..outer).rev() {
            trips[axis] += 1;
            at = at.wrapping_add(strides[axis]);
            if trips[axis] < y_shape.dim(axis) {
                break;
            }
            at = at.wrapping_sub(strides[axis].wrapping_mul(trips[axis]));
            trips[axis] = 0;
        }
    }
    Ok(())
}
