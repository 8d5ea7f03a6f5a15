//! Running sums and products.

use crate::fold::Summed;
use crate::number::Number;
use crate::registry::{Registered, generic};
use crate::rows::{Columns, Rows, Work};
use core::marker::PhantomData;
use serinette_core::op::cumulative as op;
use serinette_core::op::cumulative::Cumulative;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[cum_sum::KERNELS, cum_prod::KERNELS];

generic! { /// `CumSum`.
cumulative::cum_sum = op::CUM_SUM, numbers, run[Sum], same }
generic! { /// `CumProd`.
cumulative::cum_prod = op::CUM_PROD, numbers, run[Product], same }

/// What is taken along the axis.
trait Running<T: Summed> {
    /// That of nothing.
    const START: T::Acc;
    /// With one element more.
    fn next(a: T::Acc, x: T::Acc) -> T::Acc;
}

struct Sum;
impl<T: Summed> Running<T> for Sum {
    const START: T::Acc = T::Acc::ZERO;
    #[inline(always)]
    fn next(a: T::Acc, x: T::Acc) -> T::Acc {
        a.plus(x)
    }
}

struct Product;
impl<T: Summed> Running<T> for Product {
    const START: T::Acc = T::ONE;
    #[inline(always)]
    fn next(a: T::Acc, x: T::Acc) -> T::Acc {
        a.times(x)
    }
}

fn run<T: Summed, R: Running<T>>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Cumulative = step.attributes()?;
    Rows::along(step, attrs.axis as usize)?.work::<T, _>(ops, &Task::<R>(attrs, PhantomData))
}

struct Task<R>(Cumulative, PhantomData<R>);

impl<T: Summed, R: Running<T>> Work<T> for Task<R> {
    fn run<const N: usize>(&self, mut y: Columns<'_, T>) -> Result<(), KernelError> {
        let mut a = [R::START; N];
        let next = |a: &mut T::Acc, y: &mut T| {
            let before = *a;
            *a = R::next(before, y.wide());
            *y = T::narrow(if self.0.exclusive != 0 { before } else { *a });
        };
        if self.0.reverse != 0 { y.each_back(&mut a, next) } else { y.each(&mut a, next) }
    }
}
