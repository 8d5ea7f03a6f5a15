//! Embeds the compiled classifier and one picture, and picks the memory map.

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    println!("cargo:rerun-if-env-changed=SERINETTE_MEMORY");
    let memory = env::var("SERINETTE_MEMORY").unwrap_or_else(|_| "lm3s6965.x".into());
    fs::copy(&memory, out.join("memory.x")).map_err(|e| format!("{memory}: {e}"))?;
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rerun-if-changed={memory}");
    if env::var_os("CARGO_FEATURE_CLASSIFIER").is_none() {
        return Ok(());
    }
    println!("cargo:rerun-if-env-changed=SERINETTE_BLOB");
    println!("cargo:rerun-if-env-changed=SERINETTE_PICTURE");
    let blob = env::var("SERINETTE_BLOB").unwrap_or_else(|_| "classifier.srn".into());
    let report = serinette_embed::Embed::open(&blob)?.dim("batch", 1).emit_to_out_dir("classifier")?;
    println!("cargo:warning={report:?}");
    picture(&out)
}

/// Decodes the picture as the model's hints say, and writes it as an array. A device would take it from a camera.
fn picture(out: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let models = "../../models/fashion";
    let file = env::var("SERINETTE_PICTURE").unwrap_or_else(|_| format!("{models}/samples/ankle_boot_0.png"));
    println!("cargo:rerun-if-changed={file}");
    let hint: serde_json::Value = serde_json::from_slice(&fs::read(format!("{models}/hint.json"))?)?;
    let hint = &hint["inputs"]["image"];
    let number = |key: &str| hint[key][0].as_f64().ok_or(format!("hint.json: no number {key}"));
    let (scale, mean) = (number("scale")?, number("mean")?);

    let mut reader = png::Decoder::new(std::io::BufReader::new(fs::File::open(&file)?)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("picture too large")?];
    let info = reader.next_frame(&mut pixels)?;
    if (info.color_type, info.bit_depth) != (png::ColorType::Grayscale, png::BitDepth::Eight) {
        return Err(format!("{file}: expected 8-bit grey, found {:?}", info.color_type).into());
    }
    pixels.truncate(info.buffer_size());
    let mut text = format!("/// Pixels, normalised.\npub static PICTURE: [f32; {}] = [", pixels.len());
    for p in pixels {
        // The same arithmetic as on a host: f32, one subtraction, one product.
        write!(text, "{:?},", (f32::from(p) - mean as f32) * scale as f32)?;
    }
    text.push_str("];\n");
    fs::write(out.join("picture.rs"), text)?;
    Ok(())
}
