//! `LayerNorm` and `RmsNorm` in f32.

use super::isa::{self, Job};
use super::rows::{self, sum};
use crate::norm::{inner_rows, parameter};
use crate::registry::{Registered, kernels, sets::F32};
use serinette_core::op::norm::{LAYER_NORM, LayerNorm, RMS_NORM};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { norm:
    LAYER_NORM => layer, F32 => F32;
    RMS_NORM => rms, F32 => F32;
};

/// `LayerNorm` in f32.
pub fn layer(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run(step, ops, true)
}

/// `RmsNorm` in f32.
pub fn rms(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    run(step, ops, false)
}

fn run(step: &StepView<'_>, ops: Operands<'_>, centred: bool) -> Result<(), KernelError> {
    let attrs: LayerNorm = step.attributes()?;
    let n = inner_rows(step, attrs.axis as usize)?.n;
    let scale = parameter::<f32>(&ops, 1, n)?;
    let bias = if centred { parameter::<f32>(&ops, 2, n)? } else { None };
    let epsilon = attrs.epsilon;
    rows::each(step, ops, n, |y| isa::run(Normalize { y, n, scale, bias, epsilon, centred }))
}

struct Normalize<'a> {
    y: &'a mut [f32],
    /// Elements of a row.
    n: usize,
    scale: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    epsilon: f32,
    /// Whether the mean is taken off.
    centred: bool,
}

impl Job for Normalize<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let n = self.n as f32;
        for y in self.y.chunks_exact_mut(self.n) {
            let mean = if self.centred { sum(y, |y| y) / n } else { 0.0 };
            let variance = sum(y, |y| (y - mean) * (y - mean)) / n;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            match (self.scale, self.bias) {
                (None, None) => y.iter_mut().for_each(|y| *y = (*y - mean) * factor),
                (Some(s), None) => y.iter_mut().zip(s).for_each(|(y, s)| *y = (*y - mean) * factor * s),
                (None, Some(b)) => y.iter_mut().zip(b).for_each(|(y, b)| *y = (*y - mean) * factor + b),
                (Some(s), Some(b)) => {
                    y.iter_mut().zip(s).zip(b).for_each(|((y, s), b)| *y = (*y - mean) * factor * s + b);
                }
            }
        }
    }
}
