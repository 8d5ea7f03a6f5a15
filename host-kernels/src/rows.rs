//! Ops that work on rows of `x` and leave the results in their places.

use crate::axes::{COLUMNS, blocks};
use crate::{OUT_OF_RANGE, expect, product};
use core::ops::Range;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// How a tensor is cut into blocks that are worked on by themselves.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// Elements of the whole tensor.
    all: usize,
    /// Elements of a row.
    pub(crate) n: usize,
    /// Rows that are interleaved in a block, element by element.
    inner: usize,
}

impl Rows {
    /// The rows along an axis.
    pub(crate) fn along(step: &StepView<'_>, axis: usize) -> Result<Rows, KernelError> {
        let shape = step.output(0)?;
        if axis >= shape.rank() {
            return Err(KernelError::new("axis", shape.rank(), axis));
        }
        Ok(Rows { all: shape.elements(), n: shape.dim(axis), inner: shape.inner(axis) })
    }

    /// Rows of `n` neighbours.
    pub(crate) fn of(step: &StepView<'_>, n: usize) -> Result<Rows, KernelError> {
        Ok(Rows { all: step.output(0)?.elements(), n, inner: 1 })
    }

    /// Calls `each` for every block of `y`, which holds the block of `x` at the start.
    pub(crate) fn each<T: bytemuck::Pod>(
        &self,
        mut ops: Operands<'_>,
        mut each: impl FnMut(&mut [T]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let y = ops.output::<T>(0)?;
        expect("elements of y", self.all, y.len())?;
        let block = product(&[self.n, self.inner]);
        if ops.in_place(0) == Some(0) {
            return if y.is_empty() { Ok(()) } else { y.chunks_exact_mut(block).try_for_each(each) };
        }
        let x = ops.input::<T>(0)?;
        expect("elements of x", y.len(), x.len())?;
        if y.is_empty() {
            return Ok(());
        }
        for (y, x) in y.chunks_exact_mut(block).zip(x.chunks_exact(block)) {
            y.copy_from_slice(x);
            each(y)?;
        }
        Ok(())
    }

    /// Does `work` to every row, as columns that the rows of a block of memory run through together.
    pub(crate) fn work<T: bytemuck::Pod, W: Work<T>>(
        &self,
        ops: Operands<'_>,
        work: &W,
    ) -> Result<(), KernelError> {
        self.each(ops, |y| {
            if self.inner == 1 {
                return work.run::<1>(Columns { y, inner: 1, taken: 0..1 });
            }
            blocks(self.inner)
                .try_for_each(|taken| work.run::<COLUMNS>(Columns { y, inner: self.inner, taken }))
        })
    }
}

/// What is done to rows.
pub(crate) trait Work<T> {
    /// Does it to `N` rows at most, with `N` accumulators.
    fn run<const N: usize>(&self, y: Columns<'_, T>) -> Result<(), KernelError>;
}

/// Neighbouring columns of a matrix, or a single one that is contiguous.
pub(crate) struct Columns<'y, T> {
    y: &'y mut [T],
    inner: usize,
    taken: Range<usize>,
}

impl<T: Copy> Columns<'_, T> {
    /// Calls `f` for every element, top down, with the accumulator of its column.
    #[inline(always)]
    pub(crate) fn each<A: Copy, const N: usize>(
        &mut self,
        a: &mut [A; N],
        mut f: impl FnMut(&mut A, &mut T),
    ) -> Result<(), KernelError> {
        if N == 1 {
            return contiguous(self.y.iter_mut(), a, f);
        }
        self.y.chunks_exact_mut(self.inner).try_for_each(|row| {
            let row = row.get_mut(self.taken.clone()).ok_or(OUT_OF_RANGE)?;
            a.iter_mut().zip(row).for_each(|(a, y)| f(a, y));
            Ok(())
        })
    }

    /// The same bottom up.
    #[inline(always)]
    pub(crate) fn each_back<A: Copy, const N: usize>(
        &mut self,
        a: &mut [A; N],
        mut f: impl FnMut(&mut A, &mut T),
    ) -> Result<(), KernelError> {
        if N == 1 {
            return contiguous(self.y.iter_mut().rev(), a, f);
        }
        self.y.chunks_exact_mut(self.inner).rev().try_for_each(|row| {
            let row = row.get_mut(self.taken.clone()).ok_or(OUT_OF_RANGE)?;
            a.iter_mut().zip(row).for_each(|(a, y)| f(a, y));
            Ok(())
        })
    }

    /// A single column.
    pub(crate) fn row(&mut self) -> Option<&mut [T]> {
        if self.inner == 1 { Some(self.y) } else { None }
    }
}

/// The accumulator stays in a register.
#[inline(always)]
fn contiguous<'y, T: 'y, A: Copy>(
    row: impl Iterator<Item = &'y mut T>,
    a: &mut [A],
    mut f: impl FnMut(&mut A, &mut T),
) -> Result<(), KernelError> {
    let a = a.first_mut().ok_or(OUT_OF_RANGE)?;
    let mut own = *a;
    row.for_each(|y| f(&mut own, y));
    *a = own;
    Ok(())
}
