//! Models in memory: blobs from files, ONNX files compiled on the way.

use crate::args::{CompileArgs, EntryOf, extension};
use crate::explain::Passes;
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
    load_with(file, args, &mut |file, args| compile(file, &[], args))
}

/// As [`load`], and takes down what the passes do.
pub fn load_explained(file: &Path, args: &CompileArgs, passes: &mut Passes) -> Result<Loaded, Failure> {
    load_with(file, args, &mut |file, args| passes.compile(file, &[], args))
}

/// The bytes of a blob, and notes.
type Compiled = (Vec<u8>, Vec<String>);

fn load_with(
    file: &Path,
    args: &CompileArgs,
    compile: &mut dyn FnMut(&Path, &CompileArgs) -> Result<Compiled, Failure>,
) -> Result<Loaded, Failure> {
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

/// Compiles an ONNX file, and others as further entries: the bytes of the blob, and notes.
#[cfg(feature = "compiler")]
pub fn compile(
    file: &Path,
    entries: &[EntryOf],
    args: &CompileArgs,
) -> Result<(Vec<u8>, Vec<String>), Failure> {
    compile_observed(file, entries, args, &mut |_| {})
}

/// As [`compile`], and shows the graph before the first pass and after each.
#[cfg(feature = "compiler")]
pub fn compile_observed(
    file: &Path,
    entries: &[EntryOf],
    args: &CompileArgs,
    observer: serinette::compile::Observer<'_>,
) -> Result<(Vec<u8>, Vec<String>), Failure> {
    use serinette::compile::{CompileOptions, compile_files_observed};
    let options =
        CompileOptions { import: import(args)?, packing: packing(&args.pack)?, ..Default::default() };
    let options = match args.profile.as_slice() {
        [] => options,
        given => CompileOptions { profiles: given.iter().filter_map(profile).collect(), ..options },
    };
    let mut files = vec![("main", file)];
    files.extend(entries.iter().map(|e| (e.name.as_str(), e.file.as_path())));
    match compile_files_observed(&files, &options, observer) {
        Ok(c) => Ok((c.bytes, c.report.notes)),
        Err(e @ serinette::Error::Io { .. }) => Err(e.into()),
        Err(e) => Err(Failure::file(file, e)),
    }
}

/// What flags say about the files.
#[cfg(feature = "compiler")]
fn import(args: &CompileArgs) -> Result<serinette::compile::ImportOptions, Failure> {
    let mut import = serinette::compile::ImportOptions::default();
    for b in &args.bound {
        import.bounds.insert(b.name.clone(), (b.max, b.multiple));
    }
    for s in &args.shape {
        let dims = s.dims.iter().map(|d| d.parse().unwrap_or_else(|never| match never {})).collect();
        import.shapes.insert(s.input.clone(), dims);
    }
    for f in &args.fix {
        use serinette::compile::{Contents, Tensor};
        let contents = match &f.contents {
            crate::args::Contents::Numbers(n) => Contents::Numbers(n.clone()),
            crate::args::Contents::File(path) => {
                let t = crate::input::npy::read(path)?;
                let dims = t.shape.iter().map(|d| *d as u64).collect();
                Contents::Tensor(Tensor { dtype: t.dtype, dims, data: t.bytes.into() })
            }
        };
        import.constants.insert(f.input.clone(), contents);
    }
    import.states = args.state.iter().map(|p| (p.input.clone(), p.output.clone())).collect();
    import.params.clone_from(&args.param);
    if let Some(hint) = &args.hint {
        let text = std::fs::read_to_string(hint).map_err(|e| Failure::file(hint, e))?;
        crate::hint::check_file(&text).map_err(|e| Failure::file(hint, e))?;
        import.hints = Some(text);
    }
    Ok(import)
}

/// What `--pack` says.
#[cfg(feature = "compiler")]
fn packing(names: &[String]) -> Result<Option<serinette::compile::Packing>, Failure> {
    use serinette::compile::Packing;
    match names {
        [] => Ok(None),
        [one] if one == "all" => Ok(Some(Packing::Always)),
        [one] if one == "none" => Ok(Some(Packing::Never)),
        several => match several.iter().find(|n| *n == "all" || *n == "none") {
            Some(n) => {
                Err(Failure::usage(format!("--pack {n} says everything; no other --pack can be given")))
            }
            None => Ok(Some(Packing::Named(several.iter().cloned().collect()))),
        },
    }
}

/// The plan that a profile asks for.
#[cfg(feature = "compiler")]
fn profile(p: &crate::args::ProfileOf) -> Option<serinette::compile::Profile> {
    let bounds = p.bounds.iter().cloned().collect();
    // Only names that exist are accepted as flags.
    serinette::compile::Profile::named(&p.name).map(|named| {
        let name = p.text.clone();
        serinette::compile::Profile { name, bounds, ..named }
    })
}

/// Refuses: this program was built without the compiler.
#[cfg(not(feature = "compiler"))]
pub fn compile(file: &Path, _: &[EntryOf], _: &CompileArgs) -> Result<(Vec<u8>, Vec<String>), Failure> {
    Err(Failure::file(file, "built without the feature 'compiler', so only blobs can be opened"))
}
