//! Kernels at build time: WGSL templates to checked WGSL and SPIR-V, and the Rust that names them.
//!
//! A build script calls [`build`] with its directory of templates and `OUT_DIR`; the crate then includes the
//! generated `kernels.rs`:
//!
//! ```ignore
//! // build.rs
//! let report = serinette_kernel_build::build("shaders".as_ref(), out_dir.as_ref())?;
//! for file in &report.inputs {
//!     println!("cargo::rerun-if-changed={}", file.display());
//! }
//! // lib.rs
//! mod generated {
//!     include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
//! }
//! ```
//!
//! It holds `KERNELS`, an index constant for each kernel and a struct of parameter words for each `params`
//! directive. The directives are described in [`template`].

pub mod compile;
pub mod emit;
pub mod error;
mod expr;
pub mod lint;
pub mod spirv;
pub mod template;

pub use compile::{Compiled, compile};
pub use error::{Error, ErrorKind, Place};
pub use template::{Kernel, expand};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was built.
#[derive(Clone, Debug)]
pub struct Report {
    /// The kernels, in the order of their index constants.
    pub kernels: Vec<Compiled>,
    /// Every file and directory that the result depends on.
    pub inputs: Vec<PathBuf>,
}

impl Report {
    /// Bytes of all SPIR-V modules.
    pub fn spirv_bytes(&self) -> usize {
        self.kernels.iter().map(|k| k.spirv.len() * 4).sum()
    }
}

/// Expands and compiles every `*.wgsl` of a directory, in the order of their names. Snippets for `include` lie
/// in its subdirectory `snippets`.
pub fn compile_dir(shaders: &Path) -> Result<Report, Error> {
    let snippet_dir = shaders.join("snippets");
    let mut snippets = BTreeMap::new();
    if snippet_dir.is_dir() {
        for file in wgsl_files(&snippet_dir)? {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            snippets.insert(name, (file.clone(), read(&file)?));
        }
    }
    let files = wgsl_files(shaders)?;
    let mut inputs = vec![shaders.to_path_buf(), snippet_dir];
    inputs.extend(files.iter().cloned().chain(snippets.values().map(|(f, _)| f.clone())));
    let mut kernels: Vec<Compiled> = Vec::new();
    for file in &files {
        for kernel in expand(file, &read(file)?, &|name| snippets.get(name).cloned())? {
            if let Some(other) = kernels.iter().find(|k| k.kernel.name == kernel.name) {
                let text = format!("`{}` is also at {}", kernel.name, other.kernel.place);
                return Err(Error::new(ErrorKind::Directive, kernel.place, text));
            }
            kernels.push(compile(kernel)?);
        }
    }
    Ok(Report { kernels, inputs })
}

/// [`compile_dir`], and writes `kernels.rs` and what it includes.
pub fn build(shaders: &Path, out: &Path) -> Result<Report, Error> {
    let report = compile_dir(shaders)?;
    emit::write(out, &report.kernels)?;
    Ok(report)
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file)
        .map_err(|e| Error::new(ErrorKind::Io, Place::new(file, 0), format!("cannot be read: {e}")))
}

fn wgsl_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(dir)
        .map_err(|e| Error::new(ErrorKind::Io, Place::new(dir, 0), format!("cannot be listed: {e}")))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.is_file() && p.extension().is_some_and(|x| x == "wgsl"))
        .collect();
    files.sort();
    Ok(files)
}
