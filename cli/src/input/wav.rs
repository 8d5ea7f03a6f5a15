//! Sound.

use crate::entry::Port;
use crate::failure::Failure;
use crate::hint::Hint;
use crate::sizes::Axis;
use crate::tensor::Tensor;
use hound::{SampleFormat, WavReader};
use std::path::Path;

/// Reads sound as the contents of an input with an audio hint. Samples run along the last axis; an axis before it
/// may be fixed to the number of channels, otherwise they are averaged to one.
pub fn read(
    path: &Path,
    port: &Port,
    hint: Option<Hint>,
    dims: &[Axis],
    notes: &mut Vec<String>,
) -> Result<Tensor, Failure> {
    let name = &port.name;
    let fail = |problem: String| Failure::file(path, format!("input '{name}': {problem}"));
    let Some(Hint::Audio(hint)) = hint else {
        return Err(fail(
            "sound needs an audio hint, and the model has none for this input; compile it with --hint".into(),
        ));
    };
    let reader = WavReader::open(path).map_err(|e| fail(e.to_string()))?;
    let spec = reader.spec();
    if spec.sample_rate != hint.rate {
        return Err(fail(format!(
            "expected {} samples a second, the file has {}",
            hint.rate, spec.sample_rate
        )));
    }
    let samples: Result<Vec<f32>, hound::Error> = match spec.sample_format {
        SampleFormat::Float => reader.into_samples::<f32>().collect(),
        SampleFormat::Int => {
            let full = (1u64 << (spec.bits_per_sample.clamp(1, 32) - 1)) as f32;
            reader.into_samples::<i32>().map(|s| s.map(|s| s as f32 / full)).collect()
        }
    };
    let samples = samples.map_err(|e| fail(e.to_string()))?;
    let channels = usize::from(spec.channels.max(1));
    let (data, shape) = arrange(&samples, channels, dims).map_err(fail)?;
    if data.len() < samples.len() {
        notes.push(format!("{}: {channels} channels averaged to one", path.display()));
    }
    Tensor::of_f32(port.dtype, shape, &data)
        .ok_or_else(|| fail(format!("elements of type {} hold no samples", port.dtype)))
}

/// Interleaved samples in the order of an input, and its shape.
fn arrange(samples: &[f32], channels: usize, dims: &[Axis]) -> Result<(Vec<f32>, Vec<usize>), String> {
    let frames = samples.len() / channels;
    let Some((last, front)) = dims.split_last() else {
        return Err("it is a scalar, expected samples".into());
    };
    if let Axis::Fixed(n) = last
        && *n != frames
    {
        return Err(format!("expected {n} samples a channel, the file has {frames}"));
    }
    let separate = channels > 1 && front.last() == Some(&Axis::Fixed(channels));
    let mut shape: Vec<usize> = front.iter().map(|_| 1).collect();
    if separate && let Some(c) = shape.last_mut() {
        *c = channels;
    }
    for (have, want) in shape.iter().zip(front) {
        if let Axis::Fixed(n) = want
            && n != have
        {
            return Err(format!(
                "an axis before the samples has {n} elements, the file has {channels} channels"
            ));
        }
    }
    shape.push(frames);
    let data = if separate {
        (0..channels).flat_map(|c| samples.iter().skip(c).step_by(channels).take(frames).copied()).collect()
    } else {
        samples.chunks_exact(channels).map(|f| f.iter().sum::<f32>() / channels as f32).collect()
    };
    Ok((data, shape))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn channels_are_averaged_or_kept() {
        let stereo = [1.0, 0.0, 0.5, -0.5, 0.25, 0.75];
        let (mono, shape) = arrange(&stereo, 2, &[Axis::Open(1), Axis::Open(1)]).unwrap();
        assert_eq!((mono, shape), (vec![0.5, 0.0, 0.5], vec![1, 3]));
        let (both, shape) = arrange(&stereo, 2, &[Axis::Fixed(2), Axis::Fixed(3)]).unwrap();
        assert_eq!((both, shape), (vec![1.0, 0.5, 0.25, 0.0, -0.5, 0.75], vec![2, 3]));
    }

    #[test]
    fn other_lengths_are_refused() {
        let e = arrange(&[0.0; 6], 2, &[Axis::Fixed(4)]).unwrap_err();
        assert_eq!(e, "expected 4 samples a channel, the file has 3");
        assert!(arrange(&[0.0; 6], 2, &[]).is_err());
        assert!(arrange(&[0.0; 6], 2, &[Axis::Fixed(5), Axis::Open(1)]).is_err());
    }
}
