//! Softmax and its kin.

use crate::functions::Elementary;
use crate::key::Ordered;
use crate::number::Stored;
use crate::registry::{Registered, generic};
use crate::rows::{Columns, Rows, Work};
use serinette_core::op::softmax as op;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[softmax::KERNELS, log_softmax::KERNELS, hardmax::KERNELS];

generic! { /// `Softmax`.
softmax::softmax = op::SOFTMAX, floats, along[Soft], same }
generic! { /// `LogSoftmax`.
softmax::log_softmax = op::LOG_SOFTMAX, floats, along[LogSoft], same }
generic! { /// `Hardmax`.
softmax::hardmax = op::HARDMAX, floats, along[Hard], same }

fn along<T: Stored, R: Work<T> + Default>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    Rows::along(step, step.attributes::<Axis>()?.axis as usize)?.work::<T, _>(ops, &R::default())
}

/// The greatest number of each column.
fn greatest<T: Stored, const N: usize>(y: &mut Columns<'_, T>) -> Result<[T::Wide; N], KernelError> {
    let mut most = [T::Wide::of(f64::NEG_INFINITY); N];
    y.each(&mut most, |most, y| {
        let y = y.load();
        *most = if y > *most { y } else { *most };
    })?;
    Ok(most)
}

/// The greatest number of a column, and a sum.
type Sum<T> = (<T as Stored>::Wide, <T as Stored>::Wide);

/// The greatest number and `Σ exp(x − greatest)` of each column.
fn sums<T: Stored, const N: usize>(y: &mut Columns<'_, T>) -> Result<[Sum<T>; N], KernelError> {
    let mut both = greatest::<T, N>(y)?.map(|most| (most, T::Wide::of(0.0)));
    y.each(&mut both, |(most, sum), y| *sum = *sum + (y.load() - *most).exp())?;
    Ok(both)
}

#[derive(Default)]
struct Soft;
impl<T: Stored> Work<T> for Soft {
    /// A NaN reaches every element through the sum; so does an infinity, because ∞ − ∞ is NaN.
    fn run<const N: usize>(&self, mut y: Columns<'_, T>) -> Result<(), KernelError> {
        if !T::EXACT {
            // Exponentials would lose digits in a place of `y`.
            let mut sums = sums::<T, N>(&mut y)?;
            return y.each(&mut sums, |(most, sum), y| *y = T::store((y.load() - *most).exp() / *sum));
        }
        let mut most = greatest::<T, N>(&mut y)?;
        y.each(&mut most, |most, y| *y = T::store((y.load() - *most).exp()))?;
        let mut sums = [T::Wide::of(0.0); N];
        y.each(&mut sums, |sum, y| *sum = *sum + y.load())?;
        y.each(&mut sums, |sum, y| *y = T::store(y.load() / *sum))
    }
}

#[derive(Default)]
struct LogSoft;
impl<T: Stored> Work<T> for LogSoft {
    fn run<const N: usize>(&self, mut y: Columns<'_, T>) -> Result<(), KernelError> {
        let mut logs = sums::<T, N>(&mut y)?.map(|(most, sum)| (most, sum.ln()));
        y.each(&mut logs, |(most, log), y| *y = T::store(y.load() - *most - *log))
    }
}

#[derive(Default)]
struct Hard;
impl<T: Stored + Ordered> Work<T> for Hard {
    fn run<const N: usize>(&self, mut y: Columns<'_, T>) -> Result<(), KernelError> {
        let mut best = [T::LEAST; N];
        y.each(&mut best, |best, y| *best = y.rank(T::GREATEST).max(*best))?;
        // The first one takes it.
        let mut value = best.map(|best| (best, T::Wide::of(1.0)));
        y.each(&mut value, |(best, value), y| {
            let chosen = y.rank(T::GREATEST) == *best;
            *y = T::store(if chosen { *value } else { T::Wide::of(0.0) });
            *value = if chosen { T::Wide::of(0.0) } else { *value };
        })
    }
}
