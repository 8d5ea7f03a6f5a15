//! The ONNX importer.
//!
//! It reads the ops listed in [`supported_ops`]. What it cannot express is listed all at once
//! ([`Error::Unsupported`]); what it changes is said in [`Graph::notes`]:
//!
//! - ONNX computes sizes, positions and counters in int64; here they are i32. An int64 input is cast, saturating;
//!   an int64 output is cast back.
//! - A size that the file leaves open is a symbol: named as in the file, or `INPUT[axis]`. Its bounds come from
//!   [`ImportOptions::bounds`]; without one it goes up to [`DEFAULT_BOUND`].
//! - Shapes declared in the file are compared with the inferred ones; inference is believed.

mod entries;
mod external;
mod file;
mod functions;
mod graph;
mod inputs;
mod node;
mod operands;
mod ops;
pub mod proto;
mod sizes;
mod tensor;

pub use entries::{EntryFile, import_entries};
pub use file::{Tensor, graph_io, read_tensor};

use crate::error::Error;
use crate::graph::Graph;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Greatest value of a size for which no bound is given.
pub const DEFAULT_BOUND: u64 = 64;
/// Most trips of a loop whose count depends on data and for which no bound is given.
pub const DEFAULT_TRIPS: u64 = 1024;

/// One axis in [`ImportOptions::shapes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisSize {
    /// This many elements.
    Number(u64),
    /// A symbol of this name.
    Symbol(String),
    /// As in the file (`?`).
    AsDeclared,
}

impl FromStr for AxisSize {
    type Err = std::convert::Infallible;
    fn from_str(s: &str) -> Result<AxisSize, Self::Err> {
        Ok(match s.trim() {
            "?" | "" => AxisSize::AsDeclared,
            t => t.parse().map_or_else(|_| AxisSize::Symbol(t.into()), AxisSize::Number),
        })
    }
}

/// Contents of an input, in [`ImportOptions::constants`].
#[derive(Clone, Debug)]
pub enum Contents {
    /// A tensor of the input's type.
    Tensor(Tensor),
    /// Numbers, which become the input's type; one alone is a scalar where the file declares no axes, else they are a
    /// vector.
    Numbers(Vec<f64>),
}

/// What the file does not say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Symbol, or loop whose trip count depends on data → greatest value, and a number it is a multiple of.
    pub bounds: BTreeMap<String, (u64, u64)>,
    /// Input → sizes of its axes.
    pub shapes: BTreeMap<String, Vec<AxisSize>>,
    /// Input and output that are one state: kept from run to run instead of being given and returned. Of several
    /// files, each may have both, or only read the state, or only write it.
    pub states: Vec<(String, String)>,
    /// Initialisers that the caller may set at any time.
    pub params: Vec<String>,
    /// Inputs that have these contents once and for all and are not given to a run: shapes, axes and the like, on which
    /// sizes depend.
    pub constants: BTreeMap<String, Contents>,
    /// JSON: `{"inputs": {NAME: …}, "outputs": {NAME: …}}`.
    pub hints: Option<String>,
}

/// The ONNX ops that the importer knows.
pub fn supported_ops() -> impl Iterator<Item = &'static str> {
    ops::TABLES.iter().flat_map(|t| t.iter().map(|(name, _)| *name))
}

/// Imports a file as the entry `main`; tensor data are shared with it, not copied.
///
/// # Errors
/// A file that is damaged, contradicts itself, or does what the importer cannot express; options that do not fit it.
pub fn import(file: impl Into<Bytes>, options: &ImportOptions) -> Result<Graph, Error> {
    import_entries(&[EntryFile::new("main", file)], options)
}
