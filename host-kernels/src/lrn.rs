//! Local response normalisation.

use crate::axes::{COLUMNS, blocks};
use crate::functions::Elementary;
use crate::number::Stored;
use crate::registry::{Registered, generic};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::lrn as op;
use serinette_core::op::lrn::Lrn;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[lrn::KERNELS];

generic! { /// `Lrn`.
lrn::lrn = op::LRN, floats, run, same }

fn run<T: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Lrn = step.attributes()?;
    let of = |x: f32| T::Wide::of(x.into());
    let (beta, bias) = (of(attrs.beta), of(attrs.bias));
    let factor = of(attrs.alpha) / T::Wide::of(attrs.size.into());
    let (before, after) = ((attrs.size as usize - 1) / 2, attrs.size as usize / 2);
    let shape = step.output(0)?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of y", shape.elements(), y.len())?;
    expect("elements of x", y.len(), x.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let (channels, plane) = (shape.dim(1), shape.inner(1));
    let item = product(&[channels, plane]);
    for (x, y) in x.chunks_exact(item).zip(y.chunks_exact_mut(item)) {
        for (channel, y) in y.chunks_exact_mut(plane).enumerate() {
            let window = channel.saturating_sub(before)..channels.min(channel.saturating_add(after + 1));
            let own = x.get(channel * plane..).ok_or(OUT_OF_RANGE)?;
            let window =
                x.get(window.start * plane..window.end * plane).ok_or(OUT_OF_RANGE)?.chunks_exact(plane);
            for block in blocks(plane) {
                let mut sums = [T::Wide::of(0.0); COLUMNS];
                for row in window.clone() {
                    let row = row.get(block.clone()).ok_or(OUT_OF_RANGE)?;
                    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum = *sum + x.load() * x.load());
                }
                let y = y.get_mut(block.clone()).ok_or(OUT_OF_RANGE)?;
                let own = own.get(block).ok_or(OUT_OF_RANGE)?;
                for ((y, x), sum) in y.iter_mut().zip(own).zip(sums) {
                    *y = T::store(x.load() / power::<T::Wide>(bias + factor * sum, beta));
                }
            }
        }
    }
    Ok(())
}

/// `x^y`, by roots for the exponent that nearly every model has.
#[inline(always)]
fn power<W: Elementary>(x: W, y: W) -> W {
    if y == W::of(0.75) {
        let root = x.sqrt();
        root * root.sqrt()
    } else {
        x.pow(y)
    }
}
