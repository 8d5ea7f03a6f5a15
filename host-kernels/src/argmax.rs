//! Position of the largest and of the smallest element.

use crate::axes::{COLUMNS, blocks};
use crate::fold::fold;
use crate::key::Ordered;
use crate::registry::{Registered, generic};
use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::argmax as op;
use serinette_core::op::argmax::ArgMax;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[argmax::KERNELS, argmin::KERNELS];

generic! { /// `ArgMax`.
argmax::argmax = op::ARGMAX, numbers, search[Largest], I32 }
generic! { /// `ArgMin`.
argmax::argmin = op::ARGMIN, numbers, search[Smallest], I32 }

/// What is searched.
trait Extreme<T: Ordered> {
    /// Whether `a` stands before `b`.
    fn beats(a: T::Key, b: T::Key) -> bool;
    /// The place of an element. NaN comes first.
    fn rank(x: T) -> T::Key;
}

struct Largest;
impl<T: Ordered> Extreme<T> for Largest {
    #[inline(always)]
    fn beats(a: T::Key, b: T::Key) -> bool {
        a > b
    }
    #[inline(always)]
    fn rank(x: T) -> T::Key {
        x.rank(T::GREATEST)
    }
}

struct Smallest;
impl<T: Ordered> Extreme<T> for Smallest {
    #[inline(always)]
    fn beats(a: T::Key, b: T::Key) -> bool {
        a < b
    }
    #[inline(always)]
    fn rank(x: T) -> T::Key {
        x.rank(T::LEAST)
    }
}

fn search<T: Ordered, E: Extreme<T>>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ArgMax = step.attributes()?;
    let axis = attrs.axis as usize;
    let shape = step.input(0)?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<i32>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    if axis >= shape.rank() {
        return Err(KernelError::new("axis", shape.rank(), axis));
    }
    let (n, inner) = (shape.dim(axis), shape.inner(axis));
    expect("searched rows", shape.outer(axis).saturating_mul(inner), y.len())?;
    if n == 0 {
        return Err(KernelError::new("elements of a searched axis", 1, 0));
    }
    for (x, y) in x.chunks_exact(n.saturating_mul(inner)).zip(y.chunks_exact_mut(inner)) {
        if inner == 1 {
            y.fill(row::<T, E>(x, attrs.last != 0).ok_or(OUT_OF_RANGE)?);
            continue;
        }
        for block in blocks(inner) {
            let y = y.get_mut(block.clone()).ok_or(OUT_OF_RANGE)?;
            let rows = x.chunks_exact(inner).filter_map(|row| row.get(block.clone()));
            if attrs.last != 0 {
                columns::<T, E>(rows, y, |a, b| !E::beats(b, a))?;
            } else {
                columns::<T, E>(rows, y, E::beats)?;
            }
        }
    }
    Ok(())
}

/// The position in a row: first what is searched, which takes no order, then where it is.
fn row<T: Ordered, E: Extreme<T>>(x: &[T], last: bool) -> Option<i32> {
    let better = |a, b| if E::beats(b, a) { b } else { a };
    let best = fold(x, E::rank(*x.first()?), |a, x| better(a, E::rank(x)), better);
    let found = |x: &T| E::rank(*x) == best;
    let at = if last { x.iter().rposition(found) } else { x.iter().position(found) };
    i32::try_from(at?).ok()
}

/// The positions in columns, which the rows run through together.
fn columns<'x, T: Ordered, E: Extreme<T>>(
    mut rows: impl Iterator<Item = &'x [T]>,
    y: &mut [i32],
    replaces: impl Fn(T::Key, T::Key) -> bool,
) -> Result<(), KernelError> {
    let first = rows.next().ok_or(OUT_OF_RANGE)?;
    let mut best = [E::rank(*first.first().ok_or(OUT_OF_RANGE)?); COLUMNS];
    best.iter_mut().zip(first).for_each(|(best, x)| *best = E::rank(*x));
    y.fill(0);
    for (at, row) in (1..).zip(rows) {
        for ((best, y), x) in best.iter_mut().zip(&mut *y).zip(row) {
            let x = E::rank(*x);
            let better = replaces(x, *best);
            *best = if better { x } else { *best };
            *y = if better { at } else { *y };
        }
    }
    Ok(())
}
