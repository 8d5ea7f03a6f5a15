//! Reductions over any set of axes: a module for each op, a function for each element type.

use crate::axes::{COLUMNS, Split, blocks};
use crate::fold::{Summed, fold};
use crate::functions::Elementary;
use crate::key::Ordered;
use crate::number::{Number, Stored};
use crate::registry::{Registered, generic, kernels, sets::BOOL};
use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::reduce as op;
use serinette_core::op::reduce::Reduce;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[
    sum::KERNELS,
    mean::KERNELS,
    prod::KERNELS,
    min::KERNELS,
    max::KERNELS,
    sum_square::KERNELS,
    l1::KERNELS,
    l2::KERNELS,
    log_sum::KERNELS,
    log_sum_exp::KERNELS,
    TRUTHS,
];

generic! { /// `ReduceSum`.
reduce::sum = op::SUM, numbers, reduce[Sum], same }
generic! { /// `ReduceMean`.
reduce::mean = op::MEAN, numbers, reduce[Mean], same }
generic! { /// `ReduceProd`.
reduce::prod = op::PROD, numbers, reduce[Prod], same }
generic! { /// `ReduceMin`.
reduce::min = op::MIN, numbers, reduce[Min], same }
generic! { /// `ReduceMax`.
reduce::max = op::MAX, numbers, reduce[Max], same }
generic! { /// `ReduceSumSquare`.
reduce::sum_square = op::SUM_SQUARE, numbers, reduce[SumSquare], same }
generic! { /// `ReduceL1`.
reduce::l1 = op::L1, numbers, reduce[L1], same }
generic! { /// `ReduceL2`.
reduce::l2 = op::L2, floats, reduce[L2], same }
generic! { /// `ReduceLogSum`.
reduce::log_sum = op::LOG_SUM, floats, reduce[LogSum], same }
generic! { /// `ReduceLogSumExp`.
reduce::log_sum_exp = op::LOG_SUM_EXP, floats, reduce[LogSumExp], same }

static TRUTHS: &[Registered] = kernels! { reduce:
    op::ALL => all, BOOL => BOOL;
    op::ANY => any, BOOL => BOOL;
};

/// `ReduceAll`.
pub fn all(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    reduce::<u8, All>(step, ops)
}

/// `ReduceAny`.
pub fn any(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    reduce::<u8, Any>(step, ops)
}

/// How elements become one.
trait Reduction<T> {
    /// What is kept in between.
    type Acc: Copy;
    /// Whether the elements are gone through once more.
    const TWICE: bool = false;
    /// The accumulator of nothing, which leaves any other operand of `merge` as it is.
    fn start() -> Self::Acc;
    /// With one element more.
    fn step(a: Self::Acc, x: T) -> Self::Acc;
    /// Both together.
    fn merge(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The accumulator of nothing for the second time.
    fn again(a: Self::Acc) -> Self::Acc {
        a
    }
    /// With one element more, the second time.
    fn step_again(a: Self::Acc, _: T) -> Self::Acc {
        a
    }
    /// The result of `n` elements.
    fn finish(a: Self::Acc, n: usize) -> T;
}

/// A reduction that is a sum or a product of something.
macro_rules! sums {
    ($($kind:ident of $number:path: $acc:ty, $start:expr, |$a:ident, $x:ident| $step:expr, $merge:path, |$r:ident, $n:ident| $finish:expr;)+) => {
        $(struct $kind;
        impl<T: $number> Reduction<T> for $kind {
            type Acc = $acc;
            #[inline(always)]
            fn start() -> $acc {
                $start
            }
            #[inline(always)]
            fn step($a: $acc, $x: T) -> $acc {
                $step
            }
            #[inline(always)]
            fn merge(a: $acc, b: $acc) -> $acc {
                $merge(a, b)
            }
            #[inline(always)]
            fn finish($r: $acc, $n: usize) -> T {
                $finish
            }
        })+
    };
}

sums! {
    Sum of Summed: T::Acc, T::Acc::ZERO, |a, x| a.plus(x.wide()), Number::plus, |a, _n| T::narrow(a);
    Mean of Summed: T::Total, T::Total::ZERO, |a, x| a.plus(x.total()), Number::plus, |a, n| T::mean(a, n);
    Prod of Summed: T::Acc, T::ONE, |a, x| a.times(x.wide()), Number::times, |a, _n| T::narrow(a);
    SumSquare of Summed: T::Acc, T::Acc::ZERO, |a, x| a.plus(x.wide().times(x.wide())), Number::plus, |a, _n| T::narrow(a);
    L1 of Summed: T::Acc, T::Acc::ZERO, |a, x| a.plus(x.wide().size()), Number::plus, |a, _n| T::narrow(a);
    L2 of Stored: T::Wide, T::Wide::of(0.0), |a, x| a + x.load() * x.load(), core::ops::Add::add, |a, _n| T::store(a.sqrt());
    LogSum of Stored: T::Wide, T::Wide::of(0.0), |a, x| a + x.load(), core::ops::Add::add, |a, _n| T::store(a.ln());
    // Keys, so that NaN wins and no order of the elements matters.
    Min of Ordered: T::Key, T::HIGHEST, |a, x| a.min(x.key(T::LEAST)), Ord::min, |a, _n| T::of_key(a);
    Max of Ordered: T::Key, T::LOWEST, |a, x| a.max(x.key(T::GREATEST)), Ord::max, |a, _n| T::of_key(a);
}

/// The greatest number first, then the exponentials of the differences from it.
struct LogSumExp;

impl<T: Stored> Reduction<T> for LogSumExp {
    /// The greatest number, and the sum.
    type Acc = (T::Wide, T::Wide);
    const TWICE: bool = true;
    fn start() -> Self::Acc {
        (T::Wide::of(f64::NEG_INFINITY), T::Wide::of(0.0))
    }
    #[inline(always)]
    fn step((most, sum): Self::Acc, x: T) -> Self::Acc {
        let x = x.load();
        (if x > most { x } else { most }, sum)
    }
    #[inline(always)]
    fn merge((a, sum): Self::Acc, (b, more): Self::Acc) -> Self::Acc {
        (if b > a { b } else { a }, sum + more)
    }
    fn again((most, sum): Self::Acc) -> Self::Acc {
        // An infinity cannot be taken out.
        let infinite = most.abs() == T::Wide::of(f64::INFINITY);
        (if infinite { T::Wide::of(0.0) } else { most }, sum)
    }
    #[inline(always)]
    fn step_again((most, sum): Self::Acc, x: T) -> Self::Acc {
        (most, sum + (x.load() - most).exp())
    }
    fn finish(a: Self::Acc, _: usize) -> T {
        let (most, sum) = <LogSumExp as Reduction<T>>::again(a);
        T::store(most + sum.ln())
    }
}

/// Of truth values, as 0 and 1.
macro_rules! truths {
    ($($kind:ident = $start:literal $merge:tt;)+) => {
        $(struct $kind;
        impl Reduction<u8> for $kind {
            type Acc = u8;
            fn start() -> u8 {
                $start
            }
            #[inline(always)]
            fn step(a: u8, x: u8) -> u8 {
                a $merge u8::from(x != 0)
            }
            #[inline(always)]
            fn merge(a: u8, b: u8) -> u8 {
                a $merge b
            }
            fn finish(a: u8, _: usize) -> u8 {
                a
            }
        })+
    };
}

truths! {
    All = 1 &;
    Any = 0 |;
}

fn reduce<T: bytemuck::Pod, R: Reduction<T>>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
) -> Result<(), KernelError> {
    let attrs: Reduce = step.attributes()?;
    let shape = step.input(0)?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    expect("axes reduced beyond the rank", 0, (attrs.axes as usize) >> shape.rank())?;
    let size = |kind: bool| {
        let dims = shape.dims().iter().enumerate().filter(|(axis, _)| attrs.reduces(*axis) == kind);
        dims.fold(1usize, |n, (_, d)| n.saturating_mul(*d))
    };
    expect("elements of y", size(false), y.len())?;
    let n = size(true);
    if x.is_empty() {
        y.fill(R::finish(R::start(), n));
        return Ok(());
    }
    let split = Split::new(&shape, |axis| attrs.reduces(axis))?;
    if split.rows_reduced {
        let mut out = y.iter_mut();
        split.kept.each(0, |at| {
            let y = out.next().ok_or(OUT_OF_RANGE)?;
            let mut a = rows(x, &split, at, R::start(), R::step, R::merge)?;
            if R::TWICE {
                a = rows(x, &split, at, R::again(a), R::step_again, R::merge)?;
            }
            *y = R::finish(a, n);
            Ok(())
        })
    } else {
        let mut out = y.chunks_exact_mut(split.row);
        split.kept.each(0, |at| {
            let y = out.next().ok_or(OUT_OF_RANGE)?;
            for columns in blocks(split.row) {
                let at = at + columns.start;
                let y = y.get_mut(columns).ok_or(OUT_OF_RANGE)?;
                let mut a = sweep(x, &split, at, y.len(), &[R::start(); COLUMNS], R::step, R::merge)?;
                if R::TWICE {
                    a = sweep(x, &split, at, y.len(), &a.map(R::again), R::step_again, R::merge)?;
                }
                y.iter_mut().zip(a).for_each(|(y, a)| *y = R::finish(a, n));
            }
            Ok(())
        })
    }
}

/// Folds the rows from `at` on into one accumulator.
fn rows<T: Copy, A: Copy>(
    x: &[T],
    split: &Split,
    at: usize,
    zero: A,
    step: impl Fn(A, T) -> A,
    merge: impl Fn(A, A) -> A,
) -> Result<A, KernelError> {
    let mut total = zero;
    split.reduced.each(at, |at| {
        let row = x.get(at..at + split.row).ok_or(OUT_OF_RANGE)?;
        total = merge(total, fold(row, zero, &step, &merge));
        Ok(())
    })?;
    Ok(total)
}

/// Rows that are folded into one block of a sum, as in [`fold`].
const BLOCK: usize = 256;

/// Folds `width` columns from `at` on, each into its accumulator.
fn sweep<T: Copy, A: Copy>(
    x: &[T],
    split: &Split,
    at: usize,
    width: usize,
    zeros: &[A; COLUMNS],
    step: impl Fn(A, T) -> A,
    merge: impl Fn(A, A) -> A,
) -> Result<[A; COLUMNS], KernelError> {
    let (mut total, mut block, mut waiting) = (*zeros, *zeros, 0);
    let gather = |total: &mut [A; COLUMNS], block: &mut [A; COLUMNS]| {
        total.iter_mut().zip(&*block).for_each(|(t, a)| *t = merge(*t, *a));
        *block = *zeros;
    };
    split.reduced.each(at, |at| {
        let row = x.get(at..at + width).ok_or(OUT_OF_RANGE)?;
        block.iter_mut().zip(row).for_each(|(a, x)| *a = step(*a, *x));
        waiting += 1;
        if waiting == BLOCK {
            waiting = 0;
            gather(&mut total, &mut block);
        }
        Ok(())
    })?;
    gather(&mut total, &mut block);
    Ok(total)
}
