//! Turns a schedule blob into Rust source for firmware. For build scripts:
//!
//! ```no_run
//! # fn main() -> Result<(), serinette_embed::Error> {
//! let report = serinette_embed::Embed::open("classifier.srn")?.dim("batch", 1).emit_to_out_dir("classifier")?;
//! println!("cargo:warning=arena {} bytes", report.arena_bytes);
//! # Ok(()) }
//! ```
//!
//! and in the firmware `mod classifier { include!(concat!(env!("OUT_DIR"), "/classifier.rs")); }`. The firmware depends
//! on `serinette-core`, `serinette-host-kernels` (without features) and `spin`.
//!
//! The blob is verified here, at build time, and its sizes are bound here; the firmware carries neither the verifier
//! nor the op table. Emitted are:
//!
//! - `BLOB`, the bytes of the file, aligned, in read-only memory (weights are used in place);
//! - `ARENA_BYTES`, `STATE_BYTES`, `PARAM_BYTES`, `DERIVED_BYTES`;
//! - `KERNELS`, a table of exactly the kernels that the signatures name;
//! - `Memory`, the arenas, and `MEMORY`, one instance behind a `spin::Mutex`;
//! - `init`, `executor`, `run`, and for every entry a module with its number and typed accessors of its inputs and
//!   outputs.

mod source;

use serinette_core::op;
use serinette_core::schedule::record::{Plan, profile, space, symbol_kind};
use serinette_core::schedule::{self, Bindings, Limits, Live, Program, bind, verify};
use serinette_host_kernels::registry;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a blob could not be embedded.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    Io(PathBuf, std::io::Error),
    /// The blob was refused, or the sizes do not fit it.
    Blob(schedule::Error),
    /// There is no dimension of this name; the names there are.
    Dimension(String, Vec<String>),
    /// A size that no input fixes was not given.
    Unfixed(String),
    /// Steps that no host kernel computes.
    Kernels(String),
    /// Not run from a build script.
    NoOutDir,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(path, e) => write!(f, "{}: {e}", path.display()),
            Error::Blob(e) => write!(f, "{e}"),
            Error::Dimension(name, known) => {
                write!(f, "no dimension named '{name}'; there are: {}", known.join(", "))
            }
            Error::Unfixed(name) => {
                write!(f, "dimension '{name}' has no single value: give one with dim(\"{name}\", …)")
            }
            Error::Kernels(e) => f.write_str(e),
            Error::NoOutDir => f.write_str("OUT_DIR is not set: call this from a build script"),
        }
    }
}

impl std::error::Error for Error {}

impl From<schedule::Error> for Error {
    fn from(e: schedule::Error) -> Error {
        Error::Blob(e)
    }
}

/// What the firmware will need. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Work arenas.
    pub arena_bytes: usize,
    /// State arenas.
    pub state_bytes: usize,
    /// Param arenas.
    pub param_bytes: usize,
    /// Derived arenas.
    pub derived_bytes: usize,
    /// The blob, in read-only memory.
    pub blob_bytes: usize,
    /// Kernels linked.
    pub kernels: usize,
}

/// A blob to be embedded.
pub struct Embed {
    /// The bytes, at an address that is a multiple of 8.
    words: Vec<u64>,
    len: usize,
    dims: Vec<(String, u64)>,
}

impl Embed {
    /// Reads a blob. Inside a build script, cargo reruns it when the file changes.
    pub fn open(path: impl AsRef<Path>) -> Result<Embed, Error> {
        let path = path.as_ref();
        println!("cargo:rerun-if-changed={}", path.display());
        let bytes = std::fs::read(path).map_err(|e| Error::Io(path.into(), e))?;
        Ok(Embed::from_bytes(&bytes))
    }

    /// Takes a blob in memory.
    pub fn from_bytes(bytes: &[u8]) -> Embed {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Embed { words, len: bytes.len(), dims: Vec::new() }
    }

    /// Fixes a dimension. One with a single possible value need not be given.
    pub fn dim(mut self, name: &str, value: u64) -> Embed {
        self.dims.push((name.into(), value));
        self
    }

    /// Writes `NAME.rs` and `NAME.srn` to the build script's output directory.
    pub fn emit_to_out_dir(&self, name: &str) -> Result<Report, Error> {
        let dir = std::env::var_os("OUT_DIR").ok_or(Error::NoOutDir)?;
        self.emit(Path::new(&dir), name)
    }

    /// Writes `NAME.rs` and `NAME.srn` to a directory.
    pub fn emit(&self, dir: &Path, name: &str) -> Result<Report, Error> {
        let (text, report) = self.source(name)?;
        let write = |file: String, bytes: &[u8]| {
            let path = dir.join(file);
            std::fs::write(&path, bytes).map_err(|e| Error::Io(path, e))
        };
        write(format!("{name}.srn"), self.bytes())?;
        write(format!("{name}.rs"), text.as_bytes())?;
        Ok(report)
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice::<u64, u8>(&self.words).get(..self.len).unwrap_or(&[])
    }

    /// The source text, and what the firmware will need.
    pub fn source(&self, name: &str) -> Result<(String, Report), Error> {
        let program = Program::parse(self.bytes(), self.len as u64)?;
        let mut live = vec![Live::default(); program.header.max_live.min(1 << 20) as usize];
        let mut exprs = vec![0; program.exprs.len()];
        verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs)?;
        let (plan, record) = smallest_plan(&program)?;
        let symbols = self.symbols(&program, record)?;
        let bindings = bind(&program, op::ALL, plan, &symbols, &mut exprs)?;

        registry::table(&program).map_err(|e| Error::Kernels(e.to_string()))?;
        let kernels: Vec<&str> =
            program.signatures.iter().filter_map(|(_, s)| registry::find(s)).map(|r| r.name).collect();
        let report = self.report(&bindings, kernels.len())?;
        Ok((source::emit(name, plan, &bindings, &kernels, &report)?, report))
    }

    fn symbols(&self, program: &Program<'_>, plan: &Plan) -> Result<Vec<u64>, Error> {
        let inputs = || program.symbols.iter().filter(|(_, s)| s.kind == symbol_kind::INPUT);
        let known = || inputs().filter_map(|(_, s)| program.text(s.name).ok());
        for (name, _) in &self.dims {
            if !known().any(|k| k == name) {
                return Err(Error::Dimension(name.clone(), known().map(String::from).collect()));
            }
        }
        let mut values = Vec::new();
        for (id, s) in program.symbols.iter() {
            let bound = program.bounds.get(plan.bounds[0].saturating_add(id))?;
            let name = program.text(s.name)?;
            let given = self.dims.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            let single = (bound.low == bound.high || s.kind == symbol_kind::COUNTER).then_some(bound.high);
            values.push(given.or(single).ok_or_else(|| Error::Unfixed(name.into()))?);
        }
        Ok(values)
    }

    fn report(&self, b: &Bindings<'_>, kernels: usize) -> Result<Report, Error> {
        let mut r = Report { blob_bytes: self.len, kernels, ..Report::default() };
        for i in 0..b.plan().arenas[1] {
            let a = b.program().arena(b.plan(), i)?;
            let sum = match a.space {
                space::STATE => &mut r.state_bytes,
                space::PARAM => &mut r.param_bytes,
                space::DERIVED => &mut r.derived_bytes,
                _ => &mut r.arena_bytes,
            };
            *sum += a.bytes as usize;
        }
        Ok(r)
    }
}

/// The plan for firmware: of the microcontroller profile if there is one, with the smallest arenas.
fn smallest_plan<'a>(program: &Program<'a>) -> Result<(u32, &'a Plan), Error> {
    let bytes = |p: &Plan| -> u64 {
        (0..p.arenas[1]).filter_map(|i| program.arena(p, i).ok()).fold(0, |n, a| n.saturating_add(a.bytes))
    };
    let best = program.plans.iter().min_by_key(|(id, p)| (p.profile != profile::MCU, bytes(p), *id));
    let none = schedule::Error::at(schedule::Reason::NotFound, schedule::record::SectionId::Plans, 0, 1, 0);
    best.ok_or(Error::Blob(none))
}
