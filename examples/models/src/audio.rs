//! WAV files as 16 kHz mono, the form in which the models of speech take them.

use anyhow::{Context, Result, bail};
use std::f64::consts::PI;
use std::path::Path;

/// Samples a second.
pub const RATE: u32 = 16_000;

/// Reads a WAV file: samples from −1 to 1, channels averaged, other rates brought to 16 kHz.
///
/// # Errors
/// A file that is no WAV file.
pub fn read(path: &Path) -> Result<Vec<f32>> {
    let within = || path.display().to_string();
    let mut reader = hound::WavReader::open(path).with_context(within)?;
    let spec = reader.spec();
    let samples: Vec<f32> = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().collect::<Result<_, _>>(),
        hound::SampleFormat::Int => {
            let scale = 1.0 / 2f32.powi(i32::from(spec.bits_per_sample) - 1);
            reader.samples::<i32>().map(|s| s.map(|s| s as f32 * scale)).collect()
        }
    }
    .with_context(within)?;
    let channels = usize::from(spec.channels.max(1));
    let mono: Vec<f32> =
        samples.chunks_exact(channels).map(|c| c.iter().sum::<f32>() / channels as f32).collect();
    let found = spec.sample_rate;
    if found == 0 {
        bail!("{}: expected a rate, found 0 samples a second", within());
    }
    Ok(resample(&mono, found))
}

/// Writes 16 kHz mono with 16 bits; what is beyond −1 and 1 is clipped.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, samples: &[f32]) -> Result<()> {
    let within = || path.display().to_string();
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).with_context(within)?;
    for s in samples {
        let scaled = (s * 32768.0).round().clamp(-32768.0, 32767.0);
        writer.write_sample(scaled as i16).with_context(within)?;
    }
    writer.finalize().with_context(within)
}

/// Samples at [`RATE`] of samples at another rate, behind a low-pass filter at 0.9 of the narrower band: a sinc of 16 zero
/// crossings a side under a Hann window.
fn resample(samples: &[f32], from: u32) -> Vec<f32> {
    if from == RATE {
        return samples.to_vec();
    }
    let step = f64::from(from) / f64::from(RATE);
    let cutoff = 0.9 / step.max(1.0);
    let half = 16.0 / cutoff;
    let kernel = |x: f64| {
        let sinc = if x == 0.0 { cutoff } else { (PI * cutoff * x).sin() / (PI * x) };
        sinc * 0.5 * (1.0 + (PI * x / half).cos())
    };
    let one = |i: usize| {
        let middle = i as f64 * step;
        let first = (middle - half).ceil().max(0.0) as usize;
        let behind = ((middle + half) as usize + 1).min(samples.len());
        let around = samples.get(first..behind).unwrap_or(&[]).iter().enumerate();
        around.map(|(k, s)| kernel((first + k) as f64 - middle) * f64::from(*s)).sum::<f64>() as f32
    };
    (0..(samples.len() as f64 / step) as usize).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(hertz: f64, rate: u32, count: usize) -> Vec<f32> {
        (0..count).map(|i| (2.0 * PI * hertz * i as f64 / f64::from(rate)).sin() as f32).collect()
    }

    #[test]
    fn resampling_keeps_what_fits_and_removes_what_would_fold_back() {
        for rate in [8000, 22_050, 44_100, 48_000] {
            let heard = resample(&sine(1000.0, rate, rate as usize / 10), rate);
            assert_eq!(heard.len(), 1600);
            for (i, (s, expected)) in
                heard.iter().zip(sine(1000.0, RATE, 1600)).enumerate().take(1540).skip(60)
            {
                assert!((s - expected).abs() < 2e-3, "{rate}: sample {i}: {s}, expected {expected}");
            }
        }
        // 11 kHz would be heard as 5 kHz.
        let high = resample(&sine(11_000.0, 48_000, 4800), 48_000);
        let loudest = high.iter().take(1540).skip(60).fold(0f32, |m, s| m.max(s.abs()));
        assert!(loudest < 2e-3, "{loudest}");
    }
}
