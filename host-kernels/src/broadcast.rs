//! Walks two operands and a result under numpy broadcasting, row by row.

use crate::{OUT_OF_RANGE, expect};
use serinette_core::MAX_RANK;
use serinette_core::schedule::{KernelError, StepView};
use serinette_core::shape::Shape;

/// An axis of the result, or several that every operand walks as one.
#[derive(Clone, Copy, Default)]
struct Axis {
    size: usize,
    /// Elements between neighbours in each operand, 0 where it is repeated.
    strides: [usize; 2],
}

/// The walk. The innermost axis is handed out as a whole, in rows.
pub(crate) struct Broadcast {
    /// Innermost first.
    axes: [Axis; MAX_RANK],
    rank: usize,
}

/// How an operand goes along a row.
#[derive(Clone, Copy)]
pub(crate) enum Row<'x, T> {
    /// Element by element.
    Each(&'x [T]),
    /// The same element all along.
    One(T),
}

impl Broadcast {
    /// The walk of a step with two inputs and one output of `elements` elements, which must not be 0. `lengths`
    /// are those of the inputs.
    pub(crate) fn new(
        step: &StepView<'_>,
        lengths: [usize; 2],
        elements: usize,
    ) -> Result<Broadcast, KernelError> {
        let (inputs, y) = ([step.input(0)?, step.input(1)?], step.output(0)?);
        expect("elements of y", y.elements(), elements)?;
        for (shape, length) in inputs.iter().zip(lengths) {
            expect("elements of an operand", shape.elements(), length)?;
            if shape.rank() > y.rank() {
                return Err(KernelError::new("rank of an operand", y.rank(), shape.rank()));
            }
        }
        let mut walk = Broadcast { axes: [Axis::default(); MAX_RANK], rank: 0 };
        let mut strides = [1, 1];
        for back in 1..=y.rank() {
            let size = y.dim(y.rank() - back);
            let mut axis = Axis { size, strides: [0, 0] };
            for ((operand, stride), shape) in axis.strides.iter_mut().zip(&mut strides).zip(&inputs) {
                let own = from_the_end(shape, back);
                if own != 1 {
                    expect("broadcast dimension", size, own)?;
                    *operand = *stride;
                    *stride *= own;
                }
            }
            if size != 1 {
                walk.push(axis)?;
            }
        }
        if walk.rank == 0 {
            walk.push(Axis { size: 1, strides: [0, 0] })?;
        }
        Ok(walk)
    }

    /// Appends an outer axis, as a part of the one before where every operand just goes on.
    fn push(&mut self, axis: Axis) -> Result<(), KernelError> {
        if let Some(last) = self.rank.checked_sub(1).and_then(|i| self.axes.get_mut(i)) {
            let goes_on = |i: usize| axis.strides[i] == last.strides[i] * last.size;
            if goes_on(0) && goes_on(1) {
                last.size *= axis.size;
                return Ok(());
            }
        }
        *self.axes.get_mut(self.rank).ok_or(OUT_OF_RANGE)? = axis;
        self.rank += 1;
        Ok(())
    }

    /// Elements of a row of the result.
    pub(crate) fn row(&self) -> usize {
        self.axes[0].size
    }

    /// Calls `each` with the first positions of the operands for every row of the result, in order.
    pub(crate) fn rows(
        &self,
        mut each: impl FnMut([usize; 2]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let outer = self.axes.get(1..self.rank).unwrap_or(&[]);
        let (mut trips, mut at) = ([0usize; MAX_RANK], [0usize; 2]);
        loop {
            each(at)?;
            let mut carried = true;
            for (axis, trip) in outer.iter().zip(&mut trips) {
                *trip += 1;
                for (at, stride) in at.iter_mut().zip(axis.strides) {
                    *at += stride;
                }
                if *trip < axis.size {
                    carried = false;
                    break;
                }
                *trip = 0;
                for (at, stride) in at.iter_mut().zip(axis.strides) {
                    *at -= stride * axis.size;
                }
            }
            if carried {
                return Ok(());
            }
        }
    }

    /// The row of operand `operand` that starts at `at`.
    pub(crate) fn cut<'x, T: Copy>(
        &self,
        operand: usize,
        x: &'x [T],
        at: usize,
    ) -> Result<Row<'x, T>, KernelError> {
        let x = x.get(at..).ok_or(OUT_OF_RANGE)?;
        if self.axes[0].strides[operand & 1] == 0 {
            x.first().map(|x| Row::One(*x)).ok_or(OUT_OF_RANGE)
        } else {
            x.get(..self.row()).map(Row::Each).ok_or(OUT_OF_RANGE)
        }
    }
}

/// The dimension `back` axes from the end, from 1; axes that are not there have 1 element.
fn from_the_end(shape: &Shape, back: usize) -> usize {
    shape.rank().checked_sub(back).map_or(1, |axis| shape.dim(axis))
}

/// `y = f(a, b)` for every element.
pub(crate) fn zip<T: bytemuck::Pod, U: Copy>(
    walk: &Broadcast,
    [a, b]: [&[T]; 2],
    y: &mut [U],
    f: impl Fn(T, T) -> U,
) -> Result<(), KernelError> {
    let mut out = y.chunks_exact_mut(walk.row());
    walk.rows(|[at_a, at_b]| {
        let y = out.next().ok_or(OUT_OF_RANGE)?;
        match (walk.cut(0, a, at_a)?, walk.cut(1, b, at_b)?) {
            (Row::Each(a), Row::Each(b)) => y.iter_mut().zip(a).zip(b).for_each(|((y, a), b)| *y = f(*a, *b)),
            (Row::Each(a), Row::One(b)) => y.iter_mut().zip(a).for_each(|(y, a)| *y = f(*a, b)),
            (Row::One(a), Row::Each(b)) => y.iter_mut().zip(b).for_each(|(y, b)| *y = f(a, *b)),
            (Row::One(a), Row::One(b)) => y.fill(f(a, b)),
        }
        Ok(())
    })
}

/// `y = f(y, x)` for every element, with `x` operand `operand` of the walk.
pub(crate) fn update<T: bytemuck::Pod>(
    walk: &Broadcast,
    operand: usize,
    x: &[T],
    y: &mut [T],
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    let mut out = y.chunks_exact_mut(walk.row());
    walk.rows(|at| {
        let y = out.next().ok_or(OUT_OF_RANGE)?;
        match walk.cut(operand, x, at[operand & 1])? {
            Row::Each(x) => y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*y, *x)),
            Row::One(x) => y.iter_mut().for_each(|y| *y = f(*y, x)),
        }
        Ok(())
    })
}
