//! `Softmax` in f32 over rows whose elements are neighbours.

use super::elementary::exp;
use super::isa::{self, Job};
use super::rows::{self, greatest, sum};
use crate::registry::{Registered, kernels, sets::F32};
use crate::softmax::softmax;
use serinette_core::op::softmax::{Axis, SOFTMAX};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { softmax:
    SOFTMAX => f32, F32 => F32;
};

/// `Softmax` in f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let shape = step.output(0)?;
    let n = shape.dims().get(axis).copied().unwrap_or(0);
    if n == 0 || shape.inner(axis) != 1 {
        return softmax::f32(step, ops);
    }
    rows::each(step, ops, n, |y| isa::run(Softmax { y, n }))
}

struct Softmax<'a> {
    y: &'a mut [f32],
    /// Elements of a row.
    n: usize,
}

impl Job for Softmax<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for y in self.y.chunks_exact_mut(self.n) {
            let most = greatest(y);
            // A NaN reaches every element through the sum; so does an infinity, because ∞ − ∞ is NaN.
            y.iter_mut().for_each(|y| *y = exp::<FMA>(*y - most));
            let sum = sum(y, |y| y);
            y.iter_mut().for_each(|y| *y /= sum);
        }
    }
}
