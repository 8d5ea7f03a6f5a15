//! How much sentences mean the same, by MiniLM-L6-v2.

use anyhow::Result;
use clap::Parser;
use serinette_examples::place::PlaceArgs;
use serinette_examples::sentences::Sentences;
use std::path::PathBuf;

/// Prints how near the meaning of each sentence is to that of the first one, the nearest first (MiniLM-L6-v2)
#[derive(Parser)]
struct Args {
    /// Sentences
    #[arg(required = true)]
    sentences: Vec<String>,
    /// Takes the network from this file (check/minilm_onnx.py writes one) instead of building it
    #[arg(long, value_name = "FILE.onnx")]
    onnx: Option<PathBuf>,
    /// Prints tokens and vector of each sentence as JSON, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let place = args.place.open()?;
    let mut network = match &args.onnx {
        Some(file) => Sentences::open_onnx(&place, file)?,
        None => Sentences::open(&place)?,
    };
    let sentences: Vec<&str> = args.sentences.iter().map(String::as_str).collect();
    let encoded = network.encode(&sentences)?;
    if args.json {
        for e in &encoded {
            println!("{}", serde_json::json!({ "ids": e.ids, "vector": e.vector }));
        }
        return Ok(());
    }
    let Some((first, others)) = encoded.split_first() else { return Ok(()) };
    let mut nearest: Vec<_> =
        others.iter().zip(&sentences[1..]).map(|(e, s)| (first.similarity(e), s)).collect();
    nearest.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (similarity, sentence) in nearest {
        println!("{similarity:7.4}  {sentence}");
    }
    Ok(())
}
