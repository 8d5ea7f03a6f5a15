//! Models: verified blobs and their weights.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::map::Mapped;
use crate::requirements::Requirements;
use self_cell::self_cell;
use serinette_core::op;
use serinette_core::schedule::record::{self, Plan};
use serinette_core::schedule::{self, Limits, Live, Program, Report};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// The bytes of a whole file, in memory or mapped.
enum File {
    Owned(Vec<u8>),
    Mapped(Mapped),
}

impl File {
    fn bytes(&self) -> &[u8] {
        match self {
            File::Owned(b) => b,
            File::Mapped(m) => m.bytes(),
        }
    }
}

/// What a program borrows from: a private copy of the records, and their file.
struct Source {
    records: Buffer,
    file: File,
}

self_cell!(
    struct Parsed {
        owner: Source,
        #[covariant]
        dependent: Program,
    }
);

/// A verified blob with its weights. Cloning gives another handle; it can be shared between threads, and any number
/// of sessions can be opened on it.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    parsed: Parsed,
    report: Report,
    /// Which weight sections hold values; the others hold vectors of self-tests.
    of_values: Vec<bool>,
}

/// What a blob may ask for before it is refused.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Most work of an entry.
    pub limits: Limits,
    /// Most live ranges: bounds the memory of the verifier (88 bytes each).
    pub max_live: u32,
    /// Most bytes of records: these are copied.
    pub max_record_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { limits: Limits::default(), max_live: 1 << 20, max_record_bytes: 1 << 30 }
    }
}

impl Model {
    /// Opens and verifies a blob. The file stays mapped: weights are read from it when they are needed.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// As [`open`](Self::open), with limits.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Model, Error> {
        let path = path.as_ref();
        let map = Mapped::open(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
        Self::new(File::Mapped(map), options)
    }

    /// Verifies a blob in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Model, Error> {
        Self::new(File::Owned(bytes), &OpenOptions::default())
    }

    fn new(file: File, options: &OpenOptions) -> Result<Model, Error> {
        let total = file.bytes().len() as u64;
        // The header says how long the records are; parsing the copy checks the header again.
        let claimed = file.bytes().get(16..24).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        let length = claimed.min(total).min(options.max_record_bytes);
        let length = usize::try_from(length).unwrap_or(usize::MAX).max(file.bytes().len().min(128));
        let mut records = Buffer::new(length).ok_or(Error::Budget { budget: 0, needed: length as u64 })?;
        records.bytes_mut().copy_from_slice(file.bytes().get(..length).unwrap_or(&[]));

        let parsed = Parsed::try_new(Source { records, file }, |s| Program::parse(s.records.bytes(), total))?;
        let program = parsed.borrow_dependent();
        if !program.crc_matches() {
            let found = schedule::program::checksum(program.meta);
            let (expected, found) = (u64::from(program.header.crc), u64::from(found));
            return Err(schedule::Error::header(schedule::Reason::Crc, 0, expected, found).into());
        }
        let max_live = program.header.max_live.min(options.max_live);
        let mut live = vec![Live::default(); max_live as usize];
        let mut exprs = vec![0; program.exprs.len()];
        let report = schedule::verify(program, op::ALL, &options.limits, &mut live, &mut exprs)?;
        let mut of_values = vec![false; program.weights.len()];
        for (_, v) in program.values.iter() {
            if let Some(used) = of_values.get_mut(v.section as usize) {
                *used = true;
            }
        }
        Ok(Model(Arc::new(Inner { parsed, report, of_values })))
    }

    /// Compiles an ONNX model in memory and opens it.
    #[cfg(feature = "compiler")]
    pub fn from_onnx(
        path: impl AsRef<Path>,
        options: &crate::compile::CompileOptions,
    ) -> Result<Model, Error> {
        Self::from_bytes(crate::compile::compile_file(path, options)?.bytes)
    }

    /// Compares the records and every weight section with the digests in the file. Reads all weights.
    pub fn check_digests(&self) -> Result<(), Error> {
        let program = self.program();
        let mut copy = program.meta.to_vec();
        let (crc, digest) =
            (std::mem::offset_of!(record::Header, crc), std::mem::offset_of!(record::Header, digest));
        for field in [crc..crc + 4, digest..digest + 32] {
            if let Some(f) = copy.get_mut(field) {
                f.fill(0);
            }
        }
        if Sha256::digest(&copy).as_slice() != program.header.digest {
            return Err(Error::Digest { what: "records".into() });
        }
        for (id, w) in program.weights.iter() {
            if Sha256::digest(self.weights(id)).as_slice() != w.digest {
                return Err(Error::Digest { what: format!("weight section {id}") });
            }
        }
        Ok(())
    }

    /// The records.
    pub fn program(&self) -> &Program<'_> {
        self.0.parsed.borrow_dependent()
    }

    /// What the verifier found.
    pub fn report(&self) -> Report {
        self.0.report
    }

    /// Bytes of the whole file.
    pub fn bytes(&self) -> &[u8] {
        self.0.parsed.borrow_owner().file.bytes()
    }

    /// Bytes of a weight section; empty where there is none of that number.
    pub fn weights(&self, section: u32) -> &[u8] {
        let Ok(w) = self.program().weights.get(section) else { return &[] };
        let start = usize::try_from(w.offset).unwrap_or(usize::MAX);
        let len = usize::try_from(w.bytes).unwrap_or(usize::MAX);
        self.bytes().get(start..).and_then(|b| b.get(..len)).unwrap_or(&[])
    }

    /// Whether a weight section holds values of the program, so that devices need it.
    pub(crate) fn holds_values(&self, section: u32) -> bool {
        self.0.of_values.get(section as usize).copied().unwrap_or(false)
    }

    /// The plan for a device: of those that admit the sizes (those not named, at all their values) and whose profile
    /// suits it, the one with the smallest arenas; any plan rather than none.
    ///
    /// # Errors
    /// A blob without plans, and names that no size has.
    pub fn plan_for(&self, parallel: bool, sizes: &[(&str, u64)]) -> Result<(u32, &Plan), Error> {
        let program = self.program();
        let mut wanted: Vec<(u64, u64)> = program.symbols.iter().map(|(_, s)| (s.low, s.high)).collect();
        for (name, value) in sizes {
            let id = self.size_named(name)?;
            if let Some(w) = wanted.get_mut(id as usize) {
                *w = (*value, *value);
            }
        }
        let bytes = |p: &Plan| -> u64 {
            (0..p.arenas[1])
                .filter_map(|i| program.arena(p, i).ok())
                .fold(0, |n, a| n.saturating_add(a.bytes))
        };
        let admits = |p: &Plan| {
            let bounds = program.bounds.range(p.bounds[0], p.bounds[1]);
            bounds.is_ok_and(|mut b| {
                b.by_ref().zip(&wanted).all(|((_, b), (low, high))| b.low <= *low && *high <= b.high)
            })
        };
        let suits = |p: &Plan| parallel != (p.profile == record::profile::MCU);
        let best =
            program.plans.iter().min_by_key(|(id, p)| (!admits(p), parallel && !suits(p), bytes(p), *id));
        best.ok_or_else(|| {
            schedule::Error::at(schedule::Reason::NotFound, record::SectionId::Plans, 0, 1, 0).into()
        })
    }

    /// The symbol of a size that callers give.
    pub(crate) fn size_named(&self, name: &str) -> Result<u32, Error> {
        let program = self.program();
        let sizes = || program.symbols.iter().filter(|(_, s)| s.kind == record::symbol_kind::INPUT);
        let found = sizes().find(|(_, s)| program.text(s.name) == Ok(name)).map(|(id, _)| id);
        found.ok_or_else(|| Error::Name {
            what: "dimension",
            name: name.into(),
            known: sizes().filter_map(|(_, s)| program.text(s.name).ok()).map(String::from).collect(),
        })
    }

    /// What a session on a device will need, before anything is allocated.
    pub fn requirements(&self, device: &crate::Device) -> Result<Requirements, Error> {
        self.requirements_for(device, &[])
    }

    /// As [`requirements`](Self::requirements), of a session that keeps to certain sizes.
    pub fn requirements_for(
        &self,
        device: &crate::Device,
        sizes: &[(&str, u64)],
    ) -> Result<Requirements, Error> {
        Requirements::of(self, device, sizes)
    }

    /// A text that the blob carries under this key: a licence, or what the source model brought along, such as labels.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let program = self.program();
        let (_, found) =
            program.metadata.iter().find(|(_, m)| program.text(m.key).is_ok_and(|k| k == key))?;
        program.text(found.value).ok()
    }

    /// The name of a step in the source model, if the blob kept it.
    pub fn step_name(&self, step: u32) -> Option<String> {
        let program = self.program();
        let found = program.debug_names.iter().find(|(_, n)| n.step == step)?;
        program.text(found.1.name).ok().filter(|n| !n.is_empty()).map(String::from)
    }

    /// The name of a value, or its number.
    pub fn value_name(&self, value: u32) -> String {
        let program = self.program();
        let name = program.values.get(value).and_then(|v| program.text(v.name));
        name.ok().filter(|n| !n.is_empty()).map_or_else(|| format!("value {value}"), String::from)
    }

    /// The dimensions of a value as text: numbers and names of symbols, `?` for other expressions.
    pub fn dims_text(&self, value: u32) -> String {
        let program = self.program();
        let dim = |e: u32| {
            let e = program.exprs.get(e).ok()?;
            match e.op {
                record::expr_op::CONSTANT => Some(e.b.to_string()),
                record::expr_op::SYMBOL => {
                    let name = program.text(program.symbols.get(e.a).ok()?.name).ok()?;
                    Some(name.to_string())
                }
                _ => None,
            }
        };
        let dims = program.values.get(value).and_then(|v| program.value_dims(v));
        let texts: Vec<String> =
            dims.map(|d| d.map(|e| dim(e).unwrap_or_else(|| "?".into())).collect()).unwrap_or_default();
        format!("[{}]", texts.join(", "))
    }

    /// A number that is this model's alone while any handle to it lives.
    #[cfg(any(feature = "vulkan", feature = "wgpu"))]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
