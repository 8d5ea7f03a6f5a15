//! Accuracy of a compiled Fashion-MNIST classifier on the 10,000 test images (Debian package `dataset-fashion-mnist`).
//!
//! `cargo run --release --example accuracy -- CLASSIFIER.srn [DEVICE] [DIRECTORY]`

use serinette::{Device, Model, SessionOptions, TensorView};
use std::error::Error;
use std::io::Read;

const BATCH: usize = 50;
const PIXELS: usize = 28 * 28;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let blob = arguments.next().ok_or("usage: accuracy CLASSIFIER.srn [DEVICE] [DIRECTORY]")?;
    let device = Device::open(&arguments.next().unwrap_or_else(|| "host".into()))?;
    let directory = arguments.next().unwrap_or_else(|| "/usr/share/datasets/fashion-mnist".into());
    let images = idx(&format!("{directory}/t10k-images-idx3-ubyte.gz"), 16)?;
    let labels = idx(&format!("{directory}/t10k-labels-idx1-ubyte.gz"), 8)?;

    let model = Model::open(blob)?;
    let (_, hint) =
        model.program().hints.iter().next().ok_or("the blob has no hints: compile it with --hint")?;
    let hint: serde_json::Value = serde_json::from_str(model.program().hint(hint)?)?;
    let number =
        |key: &str| hint[key][0].as_f64().ok_or(format!("the hint of the input has no number {key}"));
    let (scale, mean) = (number("scale")? as f32, number("mean")? as f32);

    let mut session = model.session(&device, &SessionOptions::default())?;
    let mut right = 0;
    for (pixels, labels) in images.chunks(BATCH * PIXELS).zip(labels.chunks(BATCH)) {
        let input: Vec<f32> = pixels.iter().map(|p| (f32::from(*p) - mean) * scale).collect();
        let outputs =
            session.run("main", &[("image", TensorView::f32(&[labels.len(), 1, 28, 28], &input))])?;
        let rows = outputs.named("probabilities")?.view().to_f32().ok_or("probabilities are not numbers")?;
        for (row, label) in rows.chunks(10).zip(labels) {
            let best = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]));
            right += usize::from(best == Some(usize::from(*label)));
        }
    }
    println!("{right} of {} right on {}", labels.len(), device.name());
    Ok(())
}

/// The bytes of an IDX file behind its header.
fn idx(path: &str, header: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let file = std::fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?;
    if bytes.len() <= header {
        return Err(format!("{path}: expected more than {header} bytes, found {}", bytes.len()).into());
    }
    Ok(bytes.split_off(header))
}
