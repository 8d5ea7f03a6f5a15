//! Results whose elements come from the input, along each axis by a rule of its own: pads, tiles, slices of any step.

use crate::{OUT_OF_RANGE, expect};
use serinette_core::MAX_RANK;
use serinette_core::schedule::KernelError;
use serinette_core::shape::Shape;

/// Where the elements along an axis come from.
pub(crate) trait AxisMap {
    /// The position in the `n` elements of the input's `axis` of element `i` of the result; `None` for the filler.
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize>;

    /// Whether element `i` comes from position `i` for every `i` along `axis`.
    fn stays(&self, axis: usize) -> bool;

    /// A row of the result from one of the input.
    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        each(self, axis, x, y, 0, filler)
    }
}

/// Elements of a row one by one, the first of them element `first` of it.
pub(crate) fn each<T: Copy>(
    map: &(impl AxisMap + ?Sized),
    axis: usize,
    x: &[T],
    y: &mut [T],
    first: usize,
    filler: T,
) -> Result<(), KernelError> {
    for (i, y) in y.iter_mut().enumerate() {
        *y = match map.source(axis, first.wrapping_add(i), x.len()) {
            Some(at) => *x.get(at).ok_or(OUT_OF_RANGE)?,
            None => filler,
        };
    }
    Ok(())
}

/// The whole result. The shapes have the same rank.
pub(crate) fn apply<T: Copy>(
    map: &impl AxisMap,
    (x_shape, x): (&Shape, &[T]),
    (y_shape, y): (&Shape, &mut [T]),
    filler: T,
) -> Result<(), KernelError> {
    expect("elements of x", x_shape.elements(), x.len())?;
    expect("elements of y", y_shape.elements(), y.len())?;
    expect("rank of y", x_shape.rank(), y_shape.rank())?;
    if y.is_empty() {
        return Ok(());
    }
    // Inner axes that stay as they are go along in runs.
    let stays = |axis: usize| map.stays(axis) && x_shape.dim(axis) == y_shape.dim(axis);
    let Some(last) = (0..y_shape.rank()).rev().find(|axis| !stays(*axis)) else {
        y.copy_from_slice(x);
        return Ok(());
    };
    let (run, n) = (y_shape.inner(last), x_shape.dim(last));
    let pitch = n.saturating_mul(run);
    let mut rows = Rows::new(map, x_shape, last);
    for y in y.chunks_exact_mut(y_shape.dim(last).saturating_mul(run)) {
        match rows.at {
            _ if rows.missing > 0 => y.fill(filler),
            at => {
                let row = x.get(at..).and_then(|x| x.get(..pitch)).ok_or(OUT_OF_RANGE)?;
                if run == 1 {
                    map.row(last, row, y, filler)?;
                } else {
                    for (i, y) in y.chunks_exact_mut(run).enumerate() {
                        match map.source(last, i, n) {
                            Some(at) => {
                                let from = row.get(at.saturating_mul(run)..).and_then(|x| x.get(..run));
                                y.copy_from_slice(from.ok_or(OUT_OF_RANGE)?);
                            }
                            None => y.fill(filler),
                        }
                    }
                }
            }
        }
        rows.next(y_shape);
    }
    Ok(())
}

/// The rows of the result in order, and where they come from.
struct Rows<'m, M> {
    map: &'m M,
    /// Outer axes.
    count: usize,
    trips: [usize; MAX_RANK],
    sizes: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
    /// Elements before the current position along each outer axis; `None` where there is none.
    parts: [Option<usize>; MAX_RANK],
    /// Their sum.
    at: usize,
    /// How many of them are none.
    missing: usize,
}

impl<'m, M: AxisMap> Rows<'m, M> {
    fn new(map: &'m M, x: &Shape, count: usize) -> Rows<'m, M> {
        let mut rows = Rows {
            map,
            count,
            trips: [0; MAX_RANK],
            sizes: core::array::from_fn(|axis| x.dim(axis)),
            strides: core::array::from_fn(|axis| x.inner(axis)),
            parts: [Some(0); MAX_RANK],
            at: 0,
            missing: 0,
        };
        (0..count).for_each(|axis| rows.go(axis, 0));
        rows
    }

    /// Goes to `trip` along `axis`.
    fn go(&mut self, axis: usize, trip: usize) {
        let now = self.map.source(axis, trip, self.sizes[axis]).map(|at| at.wrapping_mul(self.strides[axis]));
        let before = core::mem::replace(&mut self.parts[axis], now);
        self.trips[axis] = trip;
        self.at = self.at.wrapping_sub(before.unwrap_or(0)).wrapping_add(now.unwrap_or(0));
        self.missing = self.missing + usize::from(now.is_none()) - usize::from(before.is_none());
    }

    fn next(&mut self, y: &Shape) {
        for axis in (0..self.count).rev() {
            let trip = self.trips[axis] + 1;
            if trip < y.dim(axis) {
                return self.go(axis, trip);
            }
            self.go(axis, 0);
        }
    }
}

/// `start + i · step` along each axis, where that is a position.
pub(crate) struct Steps {
    pub(crate) starts: [i64; MAX_RANK],
    pub(crate) steps: [i64; MAX_RANK],
}

impl AxisMap for Steps {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        let at = i64::try_from(i).ok()?.checked_mul(self.steps[axis])?.checked_add(self.starts[axis])?;
        usize::try_from(at).ok().filter(|at| *at < n)
    }

    fn stays(&self, axis: usize) -> bool {
        self.starts[axis] == 0 && self.steps[axis] == 1
    }

    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        let ends = |i: usize| self.source(axis, i, x.len());
        let last = y.len().saturating_sub(1);
        match (ends(0), ends(last), self.steps[axis]) {
            (Some(first), Some(_), 1) => {
                y.copy_from_slice(x.get(first..).and_then(|x| x.get(..y.len())).ok_or(OUT_OF_RANGE)?);
            }
            (Some(first), Some(_), 0) => y.fill(*x.get(first).ok_or(OUT_OF_RANGE)?),
            (Some(first), Some(last), step) => {
                let by = step.unsigned_abs().try_into().map_err(|_| OUT_OF_RANGE)?;
                let x = x.get(first.min(last)..=first.max(last)).ok_or(OUT_OF_RANGE)?;
                if step > 0 {
                    y.iter_mut().zip(x.iter().step_by(by)).for_each(|(y, x)| *y = *x);
                } else {
                    y.iter_mut().zip(x.iter().rev().step_by(by)).for_each(|(y, x)| *y = *x);
                }
            }
            _ => each(self, axis, x, y, 0, filler)?,
        }
        Ok(())
    }
}

/// `i − start` along each axis, modulo its size.
pub(crate) struct Wrap {
    pub(crate) starts: [i64; MAX_RANK],
}

impl AxisMap for Wrap {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        let (i, n) = (i64::try_from(i).ok()?, i64::try_from(n).ok()?);
        i.wrapping_sub(self.starts[axis]).checked_rem_euclid(n).and_then(|at| usize::try_from(at).ok())
    }

    fn stays(&self, axis: usize) -> bool {
        self.starts[axis] == 0
    }

    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], _: T) -> Result<(), KernelError> {
        if let [only] = x {
            y.fill(*only);
            return Ok(());
        }
        let phase = self.source(axis, 0, x.len()).ok_or(OUT_OF_RANGE)?;
        let head = x.get(phase..).ok_or(OUT_OF_RANGE)?;
        let (first, rest) = y.split_at_mut(head.len().min(y.len()));
        first.iter_mut().zip(head).for_each(|(y, x)| *y = *x);
        for y in rest.chunks_mut(x.len().max(1)) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = *x);
        }
        Ok(())
    }
}
