//! Walks a tensor whose axes are of two kinds: those kept and those reduced.

use crate::OUT_OF_RANGE;
use core::ops::Range;
use serinette_core::MAX_RANK;
use serinette_core::schedule::KernelError;
use serinette_core::shape::Shape;

/// An axis, or several neighbours of one kind as one.
#[derive(Clone, Copy, Default)]
struct Axis {
    size: usize,
    stride: usize,
}

/// The axes of one kind, innermost first.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk {
    axes: [Axis; MAX_RANK],
    rank: usize,
}

impl Walk {
    fn push(&mut self, axis: Axis) -> Result<(), KernelError> {
        *self.axes.get_mut(self.rank).ok_or(OUT_OF_RANGE)? = axis;
        self.rank += 1;
        Ok(())
    }

    fn last(&mut self) -> Option<&mut Axis> {
        self.rank.checked_sub(1).and_then(|i| self.axes.get_mut(i))
    }

    /// Takes out the innermost axis and gives its size.
    fn pop_inner(&mut self) -> usize {
        let size = self.axes[0].size;
        self.axes.rotate_left(1);
        self.rank = self.rank.saturating_sub(1);
        size
    }

    /// Calls `each` with every offset from `start` on, the innermost axis fastest.
    #[inline]
    pub(crate) fn each(
        &self,
        start: usize,
        mut each: impl FnMut(usize) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let axes = self.axes.get(..self.rank).unwrap_or(&[]);
        let (mut trips, mut at) = ([0usize; MAX_RANK], start);
        loop {
            each(at)?;
            let mut carried = true;
            for (axis, trip) in axes.iter().zip(&mut trips) {
                *trip += 1;
                at += axis.stride;
                if *trip < axis.size {
                    carried = false;
                    break;
                }
                *trip = 0;
                at -= axis.stride * axis.size;
            }
            if carried {
                return Ok(());
            }
        }
    }
}

/// The two kinds of axes of a tensor that has elements. The innermost axis, of either kind, is a row by itself.
pub(crate) struct Split {
    /// Axes kept, but for the row.
    pub(crate) kept: Walk,
    /// Axes reduced, but for the row.
    pub(crate) reduced: Walk,
    /// Elements of a row.
    pub(crate) row: usize,
    /// Whether rows are reduced, not kept.
    pub(crate) rows_reduced: bool,
}

impl Split {
    /// The axes of a shape; those that `reduces` are reduced.
    pub(crate) fn new(shape: &Shape, reduces: impl Fn(usize) -> bool) -> Result<Split, KernelError> {
        let mut walks = [Walk::default(); 2];
        let (mut stride, mut before, mut inner) = (1, None, None);
        for axis in (0..shape.rank()).rev().filter(|axis| shape.dim(*axis) != 1) {
            let (size, kind) = (shape.dim(axis), reduces(axis));
            let walk = &mut walks[usize::from(kind)];
            match walk.last() {
                Some(last) if before == Some(kind) => last.size *= size,
                _ => walk.push(Axis { size, stride })?,
            }
            inner.get_or_insert(kind);
            before = Some(kind);
            stride *= size;
        }
        let [kept, reduced] = walks;
        let mut split = Split { kept, reduced, row: 1, rows_reduced: inner.unwrap_or(true) };
        match inner {
            Some(true) => split.row = split.reduced.pop_inner(),
            Some(false) => split.row = split.kept.pop_inner(),
            None => {}
        }
        Ok(split)
    }
}

/// Columns that are worked on together, with one accumulator each on the stack.
pub(crate) const COLUMNS: usize = 64;

/// Cuts `0..n` into ranges of [`COLUMNS`] at most.
pub(crate) fn blocks(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(COLUMNS).map(move |start| start..n.min(start + COLUMNS))
}
