//! Reading at positions that depend on data, element by element and by tuples.

use crate::registry::{Registered, kernels, sets::ANY, sized};
use crate::walk::Walk;
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::gather::checked_index;
use serinette_core::op::gather_nd as op;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[gather_elements::KERNELS, TUPLES];

static TUPLES: &[Registered] = kernels! { gather_nd:
    op::GATHER_ND => tuples, ANY => ANY;
};

sized! { /// `GatherElements`.
gather_nd::gather_elements = op::GATHER_ELEMENTS, elements, same }

fn elements<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let (shape, positions) = (step.input(0)?, step.input(1)?);
    let (data, indices, y) = (ops.input::<T>(0)?, ops.input::<i32>(1)?, ops.output::<T>(0)?);
    expect("elements of data", shape.elements(), data.len())?;
    expect("elements of indices", positions.elements(), indices.len())?;
    expect("elements of y", indices.len(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let rows = Rows::new(axis, &shape, &positions)?;
    let (mut indices, mut y) = (indices.chunks_exact(rows.len), y.chunks_exact_mut(rows.len));
    rows.walk.rows([0], |[start]| {
        let (indices, y) = (indices.next().ok_or(OUT_OF_RANGE)?, y.next().ok_or(OUT_OF_RANGE)?);
        let mut at = start;
        for (y, index) in y.iter_mut().zip(indices) {
            *y = match checked_index(i64::from(*index), rows.size) {
                Some(i) => *data.get(at.wrapping_add(i.wrapping_mul(rows.pitch))).ok_or(OUT_OF_RANGE)?,
                None => {
                    step.fault.bad_index(step.step);
                    T::zeroed()
                }
            };
            at = at.wrapping_add(rows.stride);
        }
        Ok(())
    })
}

/// The rows of a tensor of indices for single elements of another, and where each starts in that one.
pub(crate) struct Rows {
    /// Steps from row to row, with the position in the other tensor at index 0 of its axis.
    pub(crate) walk: Walk<1>,
    /// Indices in a row.
    pub(crate) len: usize,
    /// Elements of the axis that is indexed.
    pub(crate) size: usize,
    /// Distance between its elements.
    pub(crate) pitch: usize,
    /// Distance between the positions of neighbours in a row, apart from their indices.
    pub(crate) stride: usize,
}

impl Rows {
    /// There must be indices.
    pub(crate) fn new(axis: usize, data: &Shape, indices: &Shape) -> Result<Rows, KernelError> {
        expect("rank of indices", data.rank(), indices.rank())?;
        if axis >= data.rank() {
            return Err(KernelError::new("axis", data.rank(), axis));
        }
        let along = |a: usize| if a == axis { 0 } else { data.inner(a) };
        let last = data.rank() - 1;
        for (a, (own, all)) in indices.dims().iter().zip(data.dims()).enumerate() {
            if a != axis && own > all {
                return Err(KernelError::new("dimension of the indices", *all, *own));
            }
        }
        let mut walk = Walk::new();
        (0..last).rev().try_for_each(|a| walk.push(indices.dim(a), [along(a)]))?;
        Ok(Rows {
            walk,
            len: indices.dim(last),
            size: data.dim(axis),
            pitch: data.inner(axis),
            stride: along(last),
        })
    }
}

/// `GatherNd` of any element type: copies runs of bytes. A result without elements reads nothing.
pub fn tuples(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let batch = step.attributes::<op::GatherNd>()?.batch_dims as usize;
    let (shape, positions, out) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let (data, indices, y) = (ops.input::<u8>(0)?, ops.input::<i32>(1)?, ops.output::<u8>(0)?);
    expect("elements of indices", positions.elements(), indices.len())?;
    let size = crate::movement::element_size(&out, y.len())?;
    if size == 0 {
        return Ok(());
    }
    expect("bytes of data", product(&[shape.elements(), size]), data.len())?;
    let last = positions.rank().checked_sub(1).filter(|last| batch <= *last);
    let last = last.ok_or(KernelError::new("rank of indices", batch + 1, positions.rank()))?;
    let tuple = Tuple::new(&shape, batch, positions.dim(last))?;
    let run = product(&[tuple.run, size]);
    let outer = product(shape.dims().get(..batch).unwrap_or(&[]));
    let many = y.len().checked_div(run).unwrap_or(0);
    expect("bytes of y", product(&[many, run]), y.len())?;
    expect("elements of indices", product(&[many, tuple.len]), indices.len())?;
    // How many tuples belong to one element of the batch.
    let each = many.checked_div(outer).unwrap_or(0).max(1);
    expect("tuples", product(&[outer, each]), many)?;
    let block = product(&[shape.outer(shape.rank()) / outer.max(1), size]);
    for (i, y) in y.chunks_exact_mut(run).enumerate() {
        let start = i.wrapping_mul(tuple.len);
        let index = indices.get(start..).and_then(|t| t.get(..tuple.len)).ok_or(OUT_OF_RANGE)?;
        match tuple.position(index) {
            Some(at) => {
                let start = (i / each).wrapping_mul(block).wrapping_add(at.wrapping_mul(size));
                y.copy_from_slice(data.get(start..).and_then(|d| d.get(..run)).ok_or(OUT_OF_RANGE)?);
            }
            None => {
                y.fill(0);
                step.fault.bad_index(step.step);
            }
        }
    }
    Ok(())
}

/// What a tuple of indices means for a tensor.
pub(crate) struct Tuple<'s> {
    shape: &'s Shape,
    /// The first axis indexed.
    first: usize,
    /// Indices in a tuple.
    pub(crate) len: usize,
    /// Elements that a tuple stands for.
    pub(crate) run: usize,
}

impl<'s> Tuple<'s> {
    pub(crate) fn new(shape: &'s Shape, first: usize, len: usize) -> Result<Tuple<'s>, KernelError> {
        let rest = first.checked_add(len).and_then(|end| shape.dims().get(end..));
        let rest = rest.ok_or(KernelError::new("length of an index", shape.rank(), len))?;
        Ok(Tuple { shape, first, len, run: product(rest) })
    }

    /// The first element that the tuple stands for, counted within one element of the axes before.
    pub(crate) fn position(&self, tuple: &[i32]) -> Option<usize> {
        let axes = self.shape.dims().iter().skip(self.first);
        let at = axes.zip(tuple).try_fold(0usize, |at, (n, index)| {
            checked_index(i64::from(*index), *n).map(|i| at.wrapping_mul(*n).wrapping_add(i))
        });
        at.map(|at| at.wrapping_mul(self.run))
    }
}
