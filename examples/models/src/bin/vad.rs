//! Where speech is in a sound file, by Silero VAD.

use anyhow::{Context, Result};
use clap::Parser;
use serinette_examples::audio;
use serinette_examples::place::PlaceArgs;
use serinette_examples::vad::{FRAME, Rules, Vad, segments};
use std::fmt::Write;
use std::path::PathBuf;

/// Prints the segments of speech in a WAV file with their times in seconds (Silero VAD)
#[derive(Parser)]
struct Args {
    /// WAV file
    file: PathBuf,
    /// Least probability of speech
    #[arg(long, default_value_t = Rules::default().threshold)]
    threshold: f32,
    /// Writes the probability of every frame of 512 samples to this file, one a line
    #[arg(long, value_name = "FILE")]
    probabilities: Option<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let samples = audio::read(&args.file)?;
    let mut vad = Vad::open(&args.place.open()?)?;
    let all = samples.chunks(FRAME).map(|frame| vad.hear(frame)).collect::<Result<Vec<f32>>>()?;
    if let Some(path) = args.probabilities {
        let mut text = String::new();
        for p in &all {
            writeln!(text, "{p}")?;
        }
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let rules = Rules { threshold: args.threshold, ..Default::default() };
    let seconds = |sample: usize| sample as f64 / f64::from(audio::RATE);
    for (start, end) in segments(&all, samples.len(), &rules) {
        println!("{:9.3} to {:9.3}", seconds(start), seconds(end));
    }
    let speech = all.iter().filter(|p| **p >= rules.threshold).count();
    let most = all.iter().copied().fold(0.0, f32::max);
    println!("{speech} of {} frames are speech; greatest probability {most:.3}", all.len());
    Ok(())
}
