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

mod self_test;

use crate::error::Error;
use std::path::Path;

pub use self_test::{SelfTestCase, add_self_tests};
pub use serinette_compiler::onnx::{AxisSize, Contents, EntryFile, ImportOptions, Tensor};
pub use serinette_compiler::{
    CompileReport, Compiled, Observer, Packing, PlanReport, Profile, Stage, explain, graph,
};

/// How to compile a model file.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// What the file does not say: bounds of open sizes, shapes, states, params, hints.
    pub import: ImportOptions,
    /// The plans that the blob shall hold, at least one.
    pub profiles: Vec<Profile>,
    /// Which weights and params are prepared once rather than computed on in each run. `None`: none where every
    /// profile is for microcontrollers, else all.
    pub packing: Option<Packing>,
}

impl Default for CompileOptions {
    /// As the file says, with one desktop plan.
    fn default() -> CompileOptions {
        let (import, profiles) = (ImportOptions::default(), vec![Profile::desktop()]);
        CompileOptions { import, profiles, packing: None }
    }
}

/// Compiles an ONNX file to the bytes of a blob, with the entry `main`.
///
/// # Errors
/// A file that cannot be read, and everything that the importer or the compiler refuses.
pub fn compile_file(path: impl AsRef<Path>, options: &CompileOptions) -> Result<Compiled, Error> {
    compile_files(&[("main", path.as_ref())], options)
}

/// Compiles ONNX files to one blob: each becomes the entry of its name. Sizes, initialisers and states of equal names
/// are shared.
///
/// # Errors
/// As [`compile_file`], and names that mean different things in two files.
pub fn compile_files(files: &[(&str, &Path)], options: &CompileOptions) -> Result<Compiled, Error> {
    compile_files_observed(files, options, &mut |_| {})
}

/// As [`compile_files`], and shows the graph to `observer` before the first pass and after each: [`explain`] tells
/// what each of them did.
///
/// # Errors
/// As [`compile_files`].
pub fn compile_files_observed(
    files: &[(&str, &Path)],
    options: &CompileOptions,
    observer: Observer<'_>,
) -> Result<Compiled, Error> {
    let read = |(name, path): &(&str, &Path)| {
        let file = std::fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
        // Tensors may have their data in files beside the model.
        Ok(EntryFile::new(*name, file).in_folder(path.parent().unwrap_or(Path::new(""))))
    };
    entries(&files.iter().map(read).collect::<Result<Vec<_>, Error>>()?, options, observer)
}

/// Compiles an ONNX model that lies in memory to the bytes of a blob, with the entry `main`.
///
/// # Errors
/// Everything that the importer or the compiler refuses.
pub fn compile_onnx(file: Vec<u8>, options: &CompileOptions) -> Result<Compiled, Error> {
    compile_entries(&[EntryFile::new("main", file)], options)
}

/// As [`compile_files`], of files in memory.
///
/// # Errors
/// Everything that the importer or the compiler refuses.
pub fn compile_entries(files: &[EntryFile], options: &CompileOptions) -> Result<Compiled, Error> {
    entries(files, options, &mut |_| {})
}

fn entries(files: &[EntryFile], options: &CompileOptions, observer: Observer<'_>) -> Result<Compiled, Error> {
    let graph = serinette_compiler::onnx::import_entries(files, &options.import)?;
    let (profiles, packing) = (options.profiles.clone(), options.packing.clone());
    let compile = serinette_compiler::CompileOptions { profiles, packing, ..Default::default() };
    Ok(serinette_compiler::compile_observed(graph, &compile, observer)?)
}
