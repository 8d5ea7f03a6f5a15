//! What is written in a picture, by PP-OCRv4.

use anyhow::{Context, Result};
use clap::Parser;
use serinette_examples::ocr::Ocr;
use serinette_examples::place::PlaceArgs;
use std::path::PathBuf;

/// Prints the lines of text in a picture with confidence and corners (PP-OCRv4)
#[derive(Parser)]
struct Args {
    /// PNG or JPEG file
    picture: PathBuf,
    /// Prints text, confidence and corners as JSON, one line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let image = image::open(&args.picture).with_context(|| args.picture.display().to_string())?;
    let mut ocr = Ocr::open(&args.place.open()?)?;
    for line in ocr.read(&image.into_rgb8())? {
        let (text, confidence, corners) = (&line.text, line.confidence, line.place.corners());
        if args.json {
            println!("{}", serde_json::json!({ "text": text, "confidence": confidence, "corners": corners }));
        } else {
            let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.0},{y:.0}")).collect();
            println!("{text}\t{:.1} %\t{}", f64::from(confidence) * 100.0, corners.join(" "));
        }
    }
    Ok(())
}
