//! Walks the rows of several operands at once.

use crate::OUT_OF_RANGE;
use serinette_core::MAX_RANK;
use serinette_core::schedule::KernelError;

/// Nested loops over outer axes, with a position in each of `N` operands that moves along. All arithmetic wraps; whoever
/// uses a position checks it.
pub(crate) struct Walk<const N: usize> {
    /// Innermost first: trips, and how far each operand moves.
    axes: [(usize, [usize; N]); MAX_RANK],
    rank: usize,
}

impl<const N: usize> Walk<N> {
    pub(crate) fn new() -> Walk<N> {
        Walk { axes: [(1, [0; N]); MAX_RANK], rank: 0 }
    }

    /// Appends an outer axis of at least one trip.
    pub(crate) fn push(&mut self, trips: usize, strides: [usize; N]) -> Result<(), KernelError> {
        if let Some((n, last)) = self.rank.checked_sub(1).and_then(|i| self.axes.get_mut(i)) {
            // Several axes that every operand walks as one.
            if last.iter().zip(strides).all(|(a, b)| a.wrapping_mul(*n) == b) {
                *n = n.wrapping_mul(trips);
                return Ok(());
            }
        }
        if trips != 1 {
            *self.axes.get_mut(self.rank).ok_or(OUT_OF_RANGE)? = (trips, strides);
            self.rank += 1;
        }
        Ok(())
    }

    /// Calls `each` with the positions of every row, in order.
    pub(crate) fn rows(
        &self,
        start: [usize; N],
        mut each: impl FnMut([usize; N]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let axes = self.axes.get(..self.rank).unwrap_or(&[]);
        let (mut done, mut at) = ([0usize; MAX_RANK], start);
        loop {
            each(at)?;
            let mut more = false;
            for ((trips, strides), done) in axes.iter().zip(&mut done) {
                *done += 1;
                more = *done < *trips;
                let back = if more { 0 } else { *trips };
                for (at, stride) in at.iter_mut().zip(strides) {
                    *at = at.wrapping_add(*stride).wrapping_sub(stride.wrapping_mul(back));
                }
                if more {
                    break;
                }
                *done = 0;
            }
            if !more {
                return Ok(());
            }
        }
    }
}
