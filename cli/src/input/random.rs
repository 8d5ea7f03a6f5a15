//! Random inputs of a seed.

use crate::entry::Port;
use crate::failure::Failure;
use crate::sizes::{Axis, Sizes};
use crate::tensor::{Tensor, elements};
use fastrand::Rng;
use serinette::core::op::softmax::Axis as AxisAttr;
use serinette::core::op::{self, Meaning};
use serinette::core::schedule::record::step_kind;
use serinette::{DType, Model};

/// Standard-normal floating-point numbers; integers within the range that the model can use: positions within the
/// axis that they index, sizes within their bounds, otherwise anything up to 100 or the type's limits.
pub fn tensor(model: &Model, port: &Port, sizes: &Sizes<'_>, seed: u64) -> Result<Tensor, Failure> {
    let shape: Vec<usize> = sizes.dims(port.value)?.into_iter().map(Axis::low).collect();
    let count = elements(&shape).filter(|n| n.checked_mul(port.dtype.size()).is_some_and(|b| b < 1 << 40));
    let Some(count) = count else {
        return Err(Failure::new(format!("input '{}': shape {shape:?} is too large", port.name)));
    };
    let mut rng = Rng::with_seed(seed);
    let floats = matches!(port.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
    if floats {
        let data: Vec<f32> = (0..count).map(|_| normal(&mut rng)).collect();
        if let Some(t) = Tensor::of_f32(port.dtype, shape.clone(), &data) {
            return Ok(t);
        }
    }
    let (low, high) = range(model, port, sizes)?;
    let mut bytes = Vec::with_capacity(count * port.dtype.size());
    for _ in 0..count {
        let n = if low >= high { low } else { rng.i64(low..=high) };
        match port.dtype.size() {
            size @ (1 | 2 | 4 | 8) if !matches!(port.dtype, DType::C64) => {
                bytes.extend_from_slice(n.to_le_bytes().get(..size).unwrap_or(&[]));
            }
            _ => return Err(Failure::new(format!("input '{}': no random {}", port.name, port.dtype))),
        }
    }
    Ok(Tensor { dtype: port.dtype, shape, bytes })
}

/// Box–Muller transform of two uniform numbers.
fn normal(rng: &mut Rng) -> f32 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    (radius * (std::f64::consts::TAU * rng.f64()).cos()) as f32
}

/// Least and greatest number for an integer input.
fn range(model: &Model, port: &Port, sizes: &Sizes<'_>) -> Result<(i64, i64), Failure> {
    if let Some((low, high)) = sizes.scalar_range(port.value) {
        let clamp = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        return Ok((clamp(low), clamp(high)));
    }
    if let Some(n) = indexed(model, port.value, sizes)? {
        return Ok((0, i64::try_from(n).unwrap_or(i64::MAX).saturating_sub(1)));
    }
    Ok(match port.dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::U8 => (0, i64::from(u8::MAX)),
        _ => (0, 100),
    })
}

/// The size of the smallest axis that a value indexes: itself, under another shape, or cast.
fn indexed(model: &Model, value: u32, sizes: &Sizes<'_>) -> Result<Option<usize>, Failure> {
    let program = model.program();
    let root = |v: u32| program.values.get(v).map_or(v, |r| r.root);
    let mut same = vec![root(value)];
    let mut least: Option<usize> = None;
    // Steps are in order of execution, so casts come before what reads them.
    for (id, step) in program.steps.iter().filter(|(_, s)| s.kind == step_kind::OP) {
        let signature = program.signatures.get(step.link)?;
        let Some(op) = op::find(op::ALL, signature.op, signature.version) else { continue };
        let inputs: Vec<u32> = program.step_inputs(step)?.collect();
        if op.code == op::cast::CAST.code && inputs.iter().any(|v| same.contains(&root(*v))) {
            same.extend(program.step_outputs(step)?.map(root));
        }
        for (i, v) in inputs.iter().enumerate() {
            let index = op.input(i).is_some_and(|o| o.meaning == Meaning::Index);
            if !index || !same.contains(&root(*v)) {
                continue;
            }
            let Ok(attr) = op::attributes::<AxisAttr>(program.step_attrs(id, step)?) else { continue };
            let data = inputs.first().map(|d| sizes.dims(*d)).transpose()?.unwrap_or_default();
            if let Some(axis) = data.get(attr.axis as usize) {
                least = Some(least.map_or(axis.low(), |l| l.min(axis.low())));
            }
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_standard_normal() {
        let mut rng = Rng::with_seed(3);
        let data: Vec<f64> = (0..20_011).map(|_| f64::from(normal(&mut rng))).collect();
        let n = data.len() as f64;
        let mean = data.iter().sum::<f64>() / n;
        let variance = data.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        // Four standard errors: 1/√n of the mean, √(2/n) of the variance.
        assert!(mean.abs() < 4.0 / n.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "variance {variance}");
        assert!(data.iter().all(|x| x.is_finite()));
    }
}
