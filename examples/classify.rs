//! From an ONNX file and a picture to a label, on every device found.
//!
//! `cargo run --release --example classify [PICTURE.png]`
//!
//! Compiles the bundled Fashion-MNIST classifier to a blob, opens the blob (which verifies it), says what it needs
//! before anything is allocated, and classifies a gray picture of 28 × 28 pixels.

use serde_json::Value;
use serinette::compile::{CompileOptions, compile_file};
use serinette::core::schedule::record::role;
use serinette::{Device, Model, SessionOptions, TensorView};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs that are timed after the first.
const RUNS: usize = 50;
/// Rows and columns of a picture.
const SIZE: usize = 28;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("models/fashion");
    let sample = || folder.join("samples/ankle_boot_0.png");
    let picture = std::env::args_os().nth(1).map_or_else(sample, Into::into);

    // Compile once. The hints (how pixels become numbers, what classes are called) travel in the blob.
    let mut options = CompileOptions::default();
    options.import.hints = Some(std::fs::read_to_string(folder.join("hint.json"))?);
    let start = Instant::now();
    let compiled = compile_file(folder.join("fashion_int8.onnx"), &options)?;
    let blob = std::env::temp_dir().join(format!("serinette-classify-{}.srn", std::process::id()));
    std::fs::write(&blob, &compiled.bytes)?;
    println!("compiled fashion_int8.onnx: {} bytes in {:.1} ms", compiled.bytes.len(), ms(start.elapsed()));
    let done = classify(&blob, &picture);
    std::fs::remove_file(&blob)?;
    done
}

/// Opens the blob and classifies a picture on every device.
fn classify(blob: &Path, picture: &Path) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let model = Model::open(blob)?;
    println!("opened and verified in {:.2} ms", ms(start.elapsed()));
    // One picture at a time needs far less than the plan, which is for the largest batch.
    let needs = model.requirements(&Device::Host)?;
    println!(
        "at its largest batch it needs {} bytes of arena (lower bound {}), {} of weights, {} of state, and {} multiply-adds",
        needs.arena, needs.arena_lower_bound, needs.weights, needs.state, needs.macs
    );

    let (image, classes) = (hint(&model, "image")?, hint(&model, "classes")?);
    let number =
        |key: &str| image[key][0].as_f64().ok_or(format!("the hint of the input has no number '{key}'"));
    let (mean, scale) = (number("mean")? as f32, number("scale")? as f32);
    let pixels: Vec<f32> = gray(picture)?.iter().map(|p| (f32::from(*p) - mean) * scale).collect();
    let input = [("image", TensorView::f32(&[1, 1, SIZE, SIZE], &pixels))];

    println!("{}", picture.display());
    println!("{:<12} {:<14} {:>11} {:>11} {:>11}  device", "", "label", "probability", "first run", "median");
    let mut failed = 0;
    for found in Device::list() {
        let one = || -> Result<(String, f32, Duration, Duration), Box<dyn Error>> {
            let device = Device::open(&found.id)?;
            let start = Instant::now();
            let mut session = model.session(&device, &SessionOptions::default())?;
            session.run("main", &input)?;
            let first = start.elapsed();
            let mut times = Vec::with_capacity(RUNS);
            for _ in 0..RUNS {
                let start = Instant::now();
                session.run("main", &input)?;
                times.push(start.elapsed());
            }
            times.sort_unstable();
            let outputs = session.run("main", &input)?;
            let row =
                outputs.named("probabilities")?.view().to_f32().ok_or("probabilities are not numbers")?;
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).ok_or("no probabilities")?;
            let label =
                classes["labels"][best.0].as_str().ok_or("the hint of the output has too few labels")?;
            Ok((label.into(), *best.1, first, times[RUNS / 2]))
        };
        match one() {
            Ok((label, probability, first, median)) => println!(
                "{:<12} {label:<14} {probability:>11.6} {:>8.2} ms {:>8.3} ms  {}",
                found.id,
                ms(first),
                ms(median),
                found.name
            ),
            Err(e) => {
                failed += 1;
                println!("{:<12} {e}", found.id);
            }
        }
    }
    if failed > 0 {
        return Err(format!("{failed} devices failed").into());
    }
    Ok(())
}

/// The hint of a kind: `image` of an input, `classes` of an output.
fn hint(model: &Model, kind: &str) -> Result<Value, Box<dyn Error>> {
    let program = model.program();
    for (_, h) in program.hints.iter() {
        let hint: Value = serde_json::from_str(program.hint(h)?)?;
        let input = program.values.get(h.value)?.role == role::INPUT;
        if hint["kind"] == kind && input == (kind == "image") {
            return Ok(hint);
        }
    }
    Err(format!("the blob has no hint of kind '{kind}'").into())
}

/// The pixels of a gray picture of 28 × 28.
fn gray(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let within = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = std::fs::File::open(path).map_err(|e| within(&e))?;
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().map_err(|e| within(&e))?;
    let info = reader.info();
    let found = (info.width as usize, info.height as usize, info.color_type, info.bit_depth);
    if found != (SIZE, SIZE, png::ColorType::Grayscale, png::BitDepth::Eight) {
        let expected = format!("expected 28 × 28 gray pixels of 8 bits, found {found:?}");
        return Err(within(&expected).into());
    }
    let mut pixels = vec![0; SIZE * SIZE];
    reader.next_frame(&mut pixels).map_err(|e| within(&e))?;
    Ok(pixels)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
