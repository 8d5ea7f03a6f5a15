//! A recording without its noise, by DTLN.

use anyhow::{Context, Result};
use clap::Parser;
use serinette_examples::audio;
use serinette_examples::denoise::{Denoiser, HOP};
use serinette_examples::place::PlaceArgs;
use std::path::PathBuf;
use std::time::Instant;

/// Removes noise from speech in a WAV file (DTLN)
#[derive(Parser)]
struct Args {
    /// WAV file
    noisy: PathBuf,
    /// WAV file to write: 16 kHz, one channel, 16 bits
    clean: PathBuf,
    /// Writes the samples as little-endian 32-bit floats too
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let samples = audio::read(&args.noisy)?;
    let mut denoiser = Denoiser::open(&args.place.open()?)?;
    let begun = Instant::now();
    let clean = denoiser.clean(&samples)?;
    let took = begun.elapsed().as_secs_f64();
    audio::write(&args.clean, &clean)?;
    if let Some(path) = args.raw {
        let bytes: Vec<u8> = clean.iter().flat_map(|s| s.to_le_bytes()).collect();
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    let (hops, seconds) = (samples.len().div_ceil(HOP), samples.len() as f64 / f64::from(audio::RATE));
    println!("{seconds:.2} s of sound in {took:.2} s, {:.3} ms a frame", took * 1e3 / hops.max(1) as f64);
    Ok(())
}
