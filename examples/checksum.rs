//! Runs an image classifier on every device and prints a checksum of all 8-bit results of each, so that their bits can be
//! compared with one another and with a microcontroller's (`examples/firmware`).
//!
//! `cargo run --release --example checksum -- CLASSIFIER.srn PICTURE.png`

use serinette::{DType, Device, Model, SessionOptions, TensorView};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [blob, picture] = &arguments[..] else {
        return Err("usage: checksum CLASSIFIER.srn PICTURE.png".into());
    };
    let model = Model::open(blob)?;
    let pixels = normalised(&model, picture)?;
    for info in Device::list() {
        let mut session = model.session(&Device::open(&info.id)?, &SessionOptions::default())?;
        let inputs = [("image", TensorView::f32(&[1, 1, 28, 28], &pixels))];
        let mut results = Vec::new();
        session.run_tapped("main", &inputs, &mut |tap| {
            if tap.dtype == DType::I8 {
                results.push((tap.step, tap.bytes));
            }
        })?;
        // Devices may finish independent steps in any order.
        results.sort_by_key(|(step, _)| *step);
        // FNV-1a, 32 bits (Fowler, Noll, Vo).
        let bytes = results.iter().flat_map(|(_, b)| b);
        let checksum = bytes.fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
        println!("checksum {checksum:08x} on {} ({})", info.id, info.name);
    }
    Ok(())
}

/// The pixels of an 8-bit grey picture as the model's hint wants them.
fn normalised(model: &Model, path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let program = model.program();
    let (_, hint) = program.hints.iter().next().ok_or("the blob has no hints: compile it with --hint")?;
    let hint: serde_json::Value = serde_json::from_str(program.hint(hint)?)?;
    let number =
        |key: &str| hint[key][0].as_f64().ok_or(format!("the hint of the input has no number {key}"));
    let (scale, mean) = (number("scale")? as f32, number("mean")? as f32);
    let mut reader = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path)?)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("picture too large")?];
    let info = reader.next_frame(&mut pixels)?;
    if (info.color_type, info.bit_depth) != (png::ColorType::Grayscale, png::BitDepth::Eight) {
        return Err(format!("{path}: expected 8-bit grey, found {:?}", info.color_type).into());
    }
    Ok(pixels[..info.buffer_size()].iter().map(|p| (f32::from(*p) - mean) * scale).collect())
}
