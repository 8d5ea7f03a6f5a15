//! Between f32 and integers with a scale and a zero point.

use crate::registry::{
    Registered, kernels,
    sets::{F32, I8, I32},
};
use crate::{expect, product};
use serinette_core::op;
use serinette_core::op::quantize::{PER_TENSOR, Quantization};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { quantize:
    op::quantize::QUANTIZE => f32_to_i8, F32 => I8;
    op::quantize::DEQUANTIZE => i8_to_f32, I8 => F32;
    op::quantize::DEQUANTIZE => i32_to_f32, I32 => F32;
};

/// `Quantize`: f32 to i8.
pub fn f32_to_i8(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    apply(step, ops, |x: f32, scale, zero: i8| {
        // Results beyond ±512 saturate with any zero point; the bound keeps the sums below exact.
        let q = (x / scale).clamp(-512.0, 512.0);
        // At 1.5 · 2^23 the last place of an f32 is 1, so the first addition rounds half to even.
        const UNIT: f32 = 12_582_912.0;
        let q = (q + UNIT) - UNIT;
        // NaN becomes 0 here.
        (q as i32 + i32::from(zero)).clamp(-128, 127) as i8
    })
}

/// `Dequantize`: i8 to f32.
pub fn i8_to_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    apply(step, ops, |x: i8, scale, zero: i8| (i32::from(x) - i32::from(zero)) as f32 * scale)
}

/// `Dequantize`: i32 to f32. The difference wraps.
pub fn i32_to_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    apply(step, ops, |x: i32, scale, zero: i32| x.wrapping_sub(zero) as f32 * scale)
}

/// `y = f(x, scale, zero)` for every element, with the scale and zero point of its channel.
fn apply<X: bytemuck::Pod, Z: bytemuck::Pod, Y: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(X, f32, Z) -> Y,
) -> Result<(), KernelError> {
    let attrs: Quantization = step.attributes()?;
    let shape = step.input(0)?;
    let (x, y) = (ops.input::<X>(0)?, ops.output::<Y>(0)?);
    let (scales, zeros) = (ops.input::<f32>(1)?, ops.optional::<Z>(2)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", x.len(), y.len())?;
    if x.is_empty() {
        return Ok(());
    }
    let axis = attrs.axis as usize;
    let (channels, run) = match attrs.axis {
        PER_TENSOR => (1, x.len()),
        _ if axis < shape.rank() => (shape.dim(axis), shape.inner(axis)),
        _ => return Err(KernelError::new("axis", shape.rank(), axis)),
    };
    expect("number of scales", channels, scales.len())?;
    if let Some(zeros) = zeros {
        expect("number of zero points", channels, zeros.len())?;
    }
    let all = product(&[channels, run]);
    for (x, y) in x.chunks_exact(all).zip(y.chunks_exact_mut(all)) {
        for (channel, ((x, y), scale)) in
            x.chunks_exact(run).zip(y.chunks_exact_mut(run)).zip(scales).enumerate()
        {
            let zero = zeros.and_then(|z| z.get(channel).copied()).unwrap_or(Z::zeroed());
            x.iter().zip(y).for_each(|(x, y)| *y = f(*x, *scale, zero));
        }
    }
    Ok(())
}
