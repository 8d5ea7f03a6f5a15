//! Compiling models in memory.
//!
//! ```no_run
//! # fn main() -> Result<(), serinette::Error> {
//! use serinette::compile::{CompileOptions, compile_file};
//!
//! let mut options = CompileOptions::default();
//! options.import.bounds.insert("batch".into(), (8, 1)); // at most 8, a multiple of 1
//! let compiled = compile_file("classifier.onnx", &options)?;
//! println!("{} bytes of weights", compiled.report.weight_bytes);
//! std::fs::write("classifier.srn", &compiled.bytes).expect("a writable folder");
//! # Ok(()) }
//! ```

use crate::error::Error;
use std::path::Path;

pub use serinette_compiler::onnx::{AxisSize, ImportOptions};
pub use serinette_compiler::{CompileReport, Compiled, PlanReport, Profile};

/// How to compile a model file.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// What the file does not say: bounds of open sizes, shapes, states, hints.
    pub import: ImportOptions,
    /// The plans that the blob shall hold, at least one.
    pub profiles: Vec<Profile>,
}

impl Default for CompileOptions {
    /// As the file says, with one desktop plan.
    fn default() -> CompileOptions {
        CompileOptions { import: ImportOptions::default(), profiles: vec![Profile::desktop()] }
    }
}

/// Compiles an ONNX file to the bytes of a blob.
///
/// # Errors
/// A file that cannot be read, and everything that the importer or the compiler refuses.
pub fn compile_file(path: impl AsRef<Path>, options: &CompileOptions) -> Result<Compiled, Error> {
    let path = path.as_ref();
    let file = std::fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    compile_onnx(file, options)
}

/// Compiles an ONNX model that lies in memory to the bytes of a blob.
///
/// # Errors
/// Everything that the importer or the compiler refuses.
pub fn compile_onnx(file: Vec<u8>, options: &CompileOptions) -> Result<Compiled, Error> {
    let graph = serinette_compiler::onnx::import(file, &options.import)?;
    let compile =
        serinette_compiler::CompileOptions { profiles: options.profiles.clone(), ..Default::default() };
    Ok(serinette_compiler::compile(graph, &compile)?)
}
