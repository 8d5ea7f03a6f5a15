//! Normalisation to length 1.

use crate::fold::sum;
use crate::functions::Elementary;
use crate::number::Stored;
use crate::registry::{Registered, generic};
use crate::rows::{Columns, Rows, Work};
use core::marker::PhantomData;
use serinette_core::op::lp_norm as op;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[l1_normalize::KERNELS, l2_normalize::KERNELS];

generic! { /// `L1Normalize`.
lp_norm::l1_normalize = op::L1_NORMALIZE, floats, run[Sum], same }
generic! { /// `L2Normalize`.
lp_norm::l2_normalize = op::L2_NORMALIZE, floats, run[Root], same }

/// A length.
trait Length {
    /// What an element adds.
    fn of<W: Elementary>(x: W) -> W;
    /// The length of a sum.
    fn finish<W: Elementary>(sum: W) -> W;
}

struct Sum;
impl Length for Sum {
    #[inline(always)]
    fn of<W: Elementary>(x: W) -> W {
        x.abs()
    }
    #[inline(always)]
    fn finish<W: Elementary>(sum: W) -> W {
        sum
    }
}

struct Root;
impl Length for Root {
    #[inline(always)]
    fn of<W: Elementary>(x: W) -> W {
        x * x
    }
    #[inline(always)]
    fn finish<W: Elementary>(sum: W) -> W {
        sum.sqrt()
    }
}

#[inline(always)]
fn divide<T: Stored>(y: T, length: T::Wide) -> T {
    let zero = T::Wide::of(0.0);
    T::store(if length == zero { zero } else { y.load() / length })
}

fn run<T: Stored, L: Length>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    Rows::along(step, step.attributes::<Axis>()?.axis as usize)?.work::<T, _>(ops, &Task::<L>(PhantomData))
}

struct Task<L>(PhantomData<L>);

impl<T: Stored, L: Length> Work<T> for Task<L> {
    fn run<const N: usize>(&self, mut y: Columns<'_, T>) -> Result<(), KernelError> {
        let mut sums = [T::Wide::of(0.0); N];
        match y.row() {
            Some(row) => sums = [sum(row, |x| L::of(x.load())); N],
            None => y.each(&mut sums, |sum, y| *sum = *sum + L::of(y.load()))?,
        }
        y.each(&mut sums.map(L::finish), |length, y| *y = divide(*y, *length))
    }
}
