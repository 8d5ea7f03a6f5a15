//! What files are, by their contents.

use anyhow::Result;
use clap::Parser;
use serinette_examples::magika::Magika;
use serinette_examples::place::PlaceArgs;
use std::path::{Path, PathBuf};

/// Prints what each file is by its contents (Magika), with the network's confidence
#[derive(Parser)]
struct Args {
    /// Files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Prints path, label, the network's label and score, separated by tabs
    #[arg(long)]
    tabs: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut magika = Magika::open(&args.place.open()?)?;
    let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    for (file, found) in files.iter().zip(magika.label(&files)?) {
        let (file, label, score) = (file.display(), &found.label, found.score);
        if args.tabs {
            println!("{file}\t{label}\t{}\t{score}", found.network);
        } else {
            println!("{file}: {label} ({}), {:.2} %", magika.description(label), f64::from(score) * 100.0);
        }
    }
    Ok(())
}
