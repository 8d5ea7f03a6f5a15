//! Ordering along an axis.
//!
//! Positions are ordered by what they point to and then by themselves. No two are equal then, so every way to sort gives the
//! same result, and those of the standard library that are not stable serve.

use crate::key::Ordered;
use crate::registry::{Registered, generic};
use crate::{OUT_OF_RANGE, expect};
use core::cmp::Ordering;
use serinette_core::op::order as op;
use serinette_core::op::order::{Sort, TopK};
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[top_k::KERNELS, sort::KERNELS];

generic! { /// `TopK`.
order::top_k = op::TOP_K, numbers, choose, same }
generic! { /// `Sort`.
order::sort = op::SORT, numbers, sorted, same }

/// A row of a tensor, as every `step`-th element from the first on.
#[derive(Clone, Copy)]
struct Row<'x, T> {
    x: &'x [T],
    step: usize,
    falling: bool,
}

impl<T: Ordered> Row<'_, T> {
    #[inline(always)]
    fn rank(&self, at: i32) -> T::Key {
        self.x.get(at as usize * self.step).map_or(T::LEAST, |x| x.rank(T::GREATEST))
    }

    /// The order of two positions.
    #[inline(always)]
    fn order(&self, a: i32, b: i32) -> Ordering {
        let (x, y) = (self.rank(a), self.rank(b));
        let order = if self.falling { y.cmp(&x) } else { x.cmp(&y) };
        order.then(a.cmp(&b))
    }

    /// Stores what the positions point to.
    fn values(&self, indices: &[i32], values: &mut [T], step: usize) {
        for (y, at) in values.iter_mut().step_by(step).zip(indices.iter().step_by(step)) {
            if let Some(x) = self.x.get(*at as usize * self.step) {
                *y = *x;
            }
        }
    }
}

/// The results and sizes of a step.
struct Task<'m, T> {
    x: &'m [T],
    values: &'m mut [T],
    indices: &'m mut [i32],
    /// Elements of a row, of its result, and of the axes within.
    n: i32,
    k: usize,
    inner: usize,
}

impl<'m, T: Ordered> Task<'m, T> {
    fn new(step: &StepView<'_>, ops: &mut Operands<'m>, axis: usize) -> Result<Task<'m, T>, KernelError> {
        let (shape, shapes) = (step.input(0)?, [step.output(0)?, step.output(1)?]);
        let (x, values, indices) = (ops.input::<T>(0)?, ops.output::<T>(0)?, ops.output::<i32>(1)?);
        expect("elements of x", shape.elements(), x.len())?;
        expect("elements of the values", shapes[0].elements(), values.len())?;
        expect("elements of the indices", shapes[1].elements(), indices.len())?;
        if axis >= shape.rank() {
            return Err(KernelError::new("axis", shape.rank(), axis));
        }
        let (n, k) = (shape.dim(axis), shapes[0].dim(axis));
        if k > n {
            return Err(KernelError::new("elements chosen", n, k));
        }
        for y in &shapes {
            let sizes = |s: &Shape| (s.outer(axis), s.inner(axis));
            expect("elements chosen", k, y.dim(axis))?;
            if sizes(y) != sizes(&shape) {
                return Err(KernelError::new("rows", shape.outer(axis), y.outer(axis)));
            }
        }
        let n = i32::try_from(n).map_err(|_| KernelError::new("positions", i32::MAX as usize, n))?;
        Ok(Task { x, values, indices, n, k, inner: shape.inner(axis) })
    }

    /// Calls `each` for every row with the elements, values and indices of its own, from the first on; their step is
    /// `inner`.
    fn rows(
        self,
        falling: bool,
        mut each: impl FnMut(Row<'_, T>, &mut [T], &mut [i32]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let (inner, taken, given) = (self.inner, self.n as usize * self.inner, self.k * self.inner);
        let results = self.values.chunks_exact_mut(given).zip(self.indices.chunks_exact_mut(given));
        for (x, (values, indices)) in self.x.chunks_exact(taken).zip(results) {
            for first in 0..inner {
                let row = Row { x: x.get(first..).ok_or(OUT_OF_RANGE)?, step: inner, falling };
                each(
                    row,
                    values.get_mut(first..).ok_or(OUT_OF_RANGE)?,
                    indices.get_mut(first..).ok_or(OUT_OF_RANGE)?,
                )?;
            }
        }
        Ok(())
    }
}

fn choose<T: Ordered>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: TopK = step.attributes()?;
    let task = Task::<T>::new(step, &mut ops, attrs.axis as usize)?;
    let (n, k, inner) = (task.n, task.k, task.inner);
    task.rows(attrs.largest != 0, |row, values, indices| {
        pick(row, indices, inner, k, n, attrs.sorted != 0);
        row.values(indices, values, inner);
        Ok(())
    })
}

/// The positions of the first `k` of `n` elements, in every `step`-th place of `indices`.
fn pick<T: Ordered>(row: Row<'_, T>, indices: &mut [i32], step: usize, k: usize, n: i32, sorted: bool) {
    let order = |a: i32, b: i32| row.order(a, b);
    let mut heap = Heap { places: indices, step };
    for at in 0..k {
        heap.set(at, at as i32);
    }
    if k < n as usize {
        heap.build(k, order);
        let mut worst = row.rank(heap.get(0));
        for (at, x) in (0..n).zip(row.x.iter().step_by(row.step)).skip(k) {
            let rank = x.rank(T::GREATEST);
            // The new position is above those in the heap, so that of equal elements it is the one to leave out.
            if if row.falling { rank > worst } else { rank < worst } {
                heap.set(0, at);
                heap.sift(0, k, order);
                worst = row.rank(heap.get(0));
            }
        }
    }
    if step == 1 {
        if sorted {
            heap.places.sort_unstable_by(|a, b| order(*a, *b));
        } else {
            heap.places.sort_unstable();
        }
    } else if sorted {
        heap.sort(k, order);
    } else {
        heap.sort(k, |a, b| a.cmp(&b));
    }
}

fn sorted<T: Ordered>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Sort = step.attributes()?;
    let scratch = ops.scratch::<i32>();
    let task = Task::<T>::new(step, &mut ops, attrs.axis as usize)?;
    let (n, k, inner) = (task.n, task.k, task.inner);
    expect("elements sorted", n as usize, k)?;
    let mut near = scratch.get_mut(..k).filter(|_| inner > 1);
    task.rows(attrs.descending != 0, |row, values, indices| {
        match &mut near {
            Some(near) => {
                pick(row, near, 1, k, n, true);
                indices.iter_mut().step_by(inner).zip(near.iter()).for_each(|(to, from)| *to = *from);
            }
            None => pick(row, indices, inner, k, n, true),
        }
        row.values(indices, values, inner);
        Ok(())
    })
}

/// A heap in every `step`-th place, the last in the order on top.
struct Heap<'m> {
    places: &'m mut [i32],
    step: usize,
}

impl Heap<'_> {
    fn get(&self, i: usize) -> i32 {
        self.places.get(i * self.step).copied().unwrap_or(0)
    }

    fn set(&mut self, i: usize, to: i32) {
        if let Some(place) = self.places.get_mut(i * self.step) {
            *place = to;
        }
    }

    /// Moves what is at `root` down to its place among the first `len`.
    fn sift(&mut self, mut root: usize, len: usize, order: impl Fn(i32, i32) -> Ordering) {
        let moved = self.get(root);
        loop {
            let left = 2 * root + 1;
            if left >= len {
                break;
            }
            let right = left + 1;
            let later = right < len && order(self.get(left), self.get(right)) == Ordering::Less;
            let child = if later { right } else { left };
            if order(moved, self.get(child)) != Ordering::Less {
                break;
            }
            self.set(root, self.get(child));
            root = child;
        }
        self.set(root, moved);
    }

    fn build(&mut self, len: usize, order: impl Fn(i32, i32) -> Ordering + Copy) {
        for root in (0..len / 2).rev() {
            self.sift(root, len, order);
        }
    }

    fn sort(&mut self, len: usize, order: impl Fn(i32, i32) -> Ordering + Copy) {
        self.build(len, order);
        for end in (1..len).rev() {
            let (first, last) = (self.get(0), self.get(end));
            self.set(0, last);
            self.set(end, first);
            self.sift(0, end, order);
        }
    }
}
