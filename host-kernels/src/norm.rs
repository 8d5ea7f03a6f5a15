//! Normalisation by mean and variance.

use crate::axes::{COLUMNS, blocks};
use crate::fold::sum;
use crate::functions::Elementary;
use crate::number::Stored;
use crate::registry::{Registered, generic};
use crate::rows::Rows;
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::norm as op;
use serinette_core::op::norm::{ChannelNorm, GroupNorm, LayerNorm};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[
    layer_norm::KERNELS,
    rms_norm::KERNELS,
    instance_norm::KERNELS,
    group_norm::KERNELS,
    batch_norm::KERNELS,
];

generic! { /// `LayerNorm`.
norm::layer_norm = op::LAYER_NORM, floats, layer, same }
generic! { /// `RmsNorm`.
norm::rms_norm = op::RMS_NORM, floats, rms, same }
generic! { /// `InstanceNorm`.
norm::instance_norm = op::INSTANCE_NORM, floats, instance, same }
generic! { /// `GroupNorm`.
norm::group_norm = op::GROUP_NORM, floats, group, same }
generic! { /// `BatchNorm`.
norm::batch_norm = op::BATCH_NORM, floats, batch, same }

/// An optional operand of `n` elements.
pub(crate) fn parameter<'m, T: Stored>(
    ops: &Operands<'m>,
    i: usize,
    n: usize,
) -> Result<Option<&'m [T]>, KernelError> {
    let p = ops.optional::<T>(i)?;
    p.map_or(Ok(()), |p| expect("elements of a parameter", n, p.len()))?;
    Ok(p)
}

/// Mean and `1 / √(variance + epsilon)`.
fn statistics<T: Stored>(x: &[T], epsilon: f32) -> (T::Wide, T::Wide) {
    let n = T::Wide::of(x.len() as f64);
    let mean = sum(x, |x: T| x.load()) / n;
    let square = |x: T| {
        let d = x.load() - mean;
        d * d
    };
    (mean, inverse_root::<T>(sum(x, square) / n, epsilon))
}

fn inverse_root<T: Stored>(x: T::Wide, epsilon: f32) -> T::Wide {
    T::Wide::of(1.0) / (x + T::Wide::of(epsilon.into())).sqrt()
}

/// `y = f(y) · scale + bias`, element by element.
fn affine<T: Stored>(y: &mut [T], scale: Option<&[T]>, bias: Option<&[T]>, f: impl Fn(T::Wide) -> T::Wide) {
    match (scale, bias) {
        (None, None) => y.iter_mut().for_each(|y| *y = T::store(f(y.load()))),
        (Some(s), None) => y.iter_mut().zip(s).for_each(|(y, s)| *y = T::store(f(y.load()) * s.load())),
        (None, Some(b)) => y.iter_mut().zip(b).for_each(|(y, b)| *y = T::store(f(y.load()) + b.load())),
        (Some(s), Some(b)) => {
            y.iter_mut()
                .zip(s)
                .zip(b)
                .for_each(|((y, s), b)| *y = T::store(f(y.load()) * s.load() + b.load()));
        }
    }
}

/// The rows of a norm over the axes from `axis` on.
pub(crate) fn inner_rows(step: &StepView<'_>, axis: usize) -> Result<Rows, KernelError> {
    let shape = step.output(0)?;
    match shape.dims().get(axis..) {
        Some(dims @ [_, ..]) => Rows::of(step, product(dims)),
        _ => Err(KernelError::new("axis", shape.rank(), axis)),
    }
}

fn layer<T: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: LayerNorm = step.attributes()?;
    let rows = inner_rows(step, attrs.axis as usize)?;
    let (scale, bias) = (parameter::<T>(&ops, 1, rows.n)?, parameter::<T>(&ops, 2, rows.n)?);
    rows.each(ops, |y| {
        let (mean, factor) = statistics(y, attrs.epsilon);
        affine(y, scale, bias, |y| (y - mean) * factor);
        Ok(())
    })
}

fn rms<T: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: LayerNorm = step.attributes()?;
    let rows = inner_rows(step, attrs.axis as usize)?;
    let scale = parameter::<T>(&ops, 1, rows.n)?;
    rows.each(ops, |y: &mut [T]| {
        let squares = sum(y, |x| x.load() * x.load());
        let factor = inverse_root::<T>(squares / T::Wide::of(y.len() as f64), attrs.epsilon);
        affine(y, scale, None, |y| y * factor);
        Ok(())
    })
}

fn instance<T: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ChannelNorm = step.attributes()?;
    groups::<T>(step, ops, step.output(0)?.dim(1), attrs.epsilon)
}

fn group<T: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: GroupNorm = step.attributes()?;
    groups::<T>(step, ops, attrs.groups as usize, attrs.epsilon)
}

/// Normalises `count` groups of channels, each by itself.
fn groups<T: Stored>(
    step: &StepView<'_>,
    ops: Operands<'_>,
    count: usize,
    epsilon: f32,
) -> Result<(), KernelError> {
    let shape = step.output(0)?;
    let (channels, plane) = (shape.dim(1), shape.inner(1));
    let (scale, bias) = (parameter::<T>(&ops, 1, channels)?, parameter::<T>(&ops, 2, channels)?);
    let each = channels.checked_div(count).unwrap_or(0);
    expect("channels of all groups", channels, each.saturating_mul(count))?;
    let mut first = 0;
    Rows::of(step, product(&[each, plane]))?.each(ops, |y: &mut [T]| {
        let (mean, factor) = statistics(y, epsilon);
        for (channel, y) in (first..).zip(y.chunks_exact_mut(plane)) {
            let of = |p: Option<&[T]>| p.and_then(|p| p.get(channel)).map(|p| p.load());
            let factor = of(scale).map_or(factor, |s| factor * s);
            match of(bias) {
                Some(b) => y.iter_mut().for_each(|y| *y = T::store((y.load() - mean) * factor + b)),
                None => y.iter_mut().for_each(|y| *y = T::store((y.load() - mean) * factor)),
            }
        }
        first = if first + each < channels { first + each } else { 0 };
        Ok(())
    })
}

fn batch<T: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ChannelNorm = step.attributes()?;
    let shape = step.output(0)?;
    let (channels, plane) = (shape.dim(1), shape.inner(1));
    let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|i| ops.input::<T>(i));
    let (scale, bias, mean, variance) = (scale?, bias?, mean?, variance?);
    for p in [scale, bias, mean, variance] {
        expect("elements of a parameter", channels, p.len())?;
    }
    let epsilon = T::Wide::of(attrs.epsilon.into());
    let factor = |s: T, v: T| s.load() / (v.load() + epsilon).sqrt();
    if plane == 1 {
        // Channels side by side: their factors are computed once for all items.
        return Rows::of(step, shape.elements())?.each(ops, |y: &mut [T]| {
            for block in blocks(channels) {
                let [scale, bias, mean, variance] =
                    [scale, bias, mean, variance].map(|p| p.get(block.clone()).unwrap_or(&[]).iter());
                let mut factors = [T::Wide::of(0.0); COLUMNS];
                factors.iter_mut().zip(scale.zip(variance)).for_each(|(f, (s, v))| *f = factor(*s, *v));
                for row in y.chunks_exact_mut(channels) {
                    let row = row.get_mut(block.clone()).ok_or(OUT_OF_RANGE)?;
                    for (((y, f), m), b) in row.iter_mut().zip(&factors).zip(mean.clone()).zip(bias.clone()) {
                        *y = T::store((y.load() - m.load()) * *f + b.load());
                    }
                }
            }
            Ok(())
        });
    }
    Rows::of(step, product(&[channels, plane]))?.each(ops, |y: &mut [T]| {
        let parameters = scale.iter().zip(bias).zip(mean).zip(variance);
        for (y, (((s, b), m), v)) in y.chunks_exact_mut(plane).zip(parameters) {
            let (factor, b, m) = (factor(*s, *v), b.load(), m.load());
            y.iter_mut().for_each(|y| *y = T::store((y.load() - m) * factor + b));
        }
        Ok(())
    })
}
