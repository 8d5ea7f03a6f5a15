//! Models in memory: blobs from files, ONNX files compiled on the way.

use crate::args::{CompileArgs, extension};
use crate::failure::Failure;
use serinette::Model;
use serinette::core::schedule::record::MAGIC;
use std::io::Read;
use std::path::Path;

/// A model, and what compiling it had to tell.
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// Notes of the compiler.
    pub notes: Vec<String>,
}

/// Opens a blob, or compiles an ONNX file in memory.
pub fn load(file: &Path, args: &CompileArgs) -> Result<Loaded, Failure> {
    if is_onnx(file)? {
        let (bytes, notes) = compile(file, args)?;
        let model =
            Model::from_bytes(bytes).map_err(|e| Failure::file(file, format!("compiled, but {e}")))?;
        return Ok(Loaded { model, notes });
    }
    if let Some(flag) = args.first_flag() {
        let file = file.display();
        return Err(Failure::usage(format!("{flag} is for .onnx files; '{file}' was compiled before")));
    }
    Ok(Loaded { model: open(file)?, notes: Vec::new() })
}

/// Opens a blob.
pub fn open(file: &Path) -> Result<Model, Failure> {
    match Model::open(file) {
        Ok(m) => Ok(m),
        // This error names the file already.
        Err(e @ serinette::Error::Io { .. }) => Err(e.into()),
        Err(e) => Err(Failure::file(file, e)),
    }
}

/// Whether a file is to be compiled: its name ends in `.onnx` and its contents are no blob.
pub fn is_onnx(file: &Path) -> Result<bool, Failure> {
    if extension(file) != "onnx" {
        return Ok(false);
    }
    let mut start = Vec::new();
    let opened = std::fs::File::open(file);
    opened
        .and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(|e| Failure::file(file, e))?;
    Ok(start != MAGIC)
}

/// Compiles an ONNX file: the bytes of the blob, and notes.
#[cfg(feature = "compiler")]
pub fn compile(file: &Path, args: &CompileArgs) -> Result<(Vec<u8>, Vec<String>), Failure> {
    use serinette::compile::{CompileOptions, ImportOptions, Profile, compile_file};
    let mut import = ImportOptions::default();
    for b in &args.bound {
        import.bounds.insert(b.name.clone(), (b.max, b.multiple));
    }
    for s in &args.shape {
        let dims = s.dims.iter().map(|d| d.parse().unwrap_or_else(|never| match never {})).collect();
        import.shapes.insert(s.input.clone(), dims);
    }
    import.states = args.state.iter().map(|p| (p.input.clone(), p.output.clone())).collect();
    if let Some(hint) = &args.hint {
        let text = std::fs::read_to_string(hint).map_err(|e| Failure::file(hint, e))?;
        crate::hint::check_file(&text).map_err(|e| Failure::file(hint, e))?;
        import.hints = Some(text);
    }
    let mut options = CompileOptions { import, ..Default::default() };
    if let Some(profile) = args.profile.and_then(|p| Profile::named(p.name())) {
        options.profiles = vec![profile];
    }
    match compile_file(file, &options) {
        Ok(c) => Ok((c.bytes, c.report.notes)),
        Err(e @ serinette::Error::Io { .. }) => Err(e.into()),
        Err(e) => Err(Failure::file(file, e)),
    }
}

/// Refuses: this program was built without the compiler.
#[cfg(not(feature = "compiler"))]
pub fn compile(file: &Path, _: &CompileArgs) -> Result<(Vec<u8>, Vec<String>), Failure> {
    Err(Failure::file(file, "built without the feature 'compiler', so only blobs can be opened"))
}
