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

mod graph;
mod inputs;
mod node;
mod ops;
pub mod proto;
mod tensor;

use crate::error::Error;
use crate::graph::Graph;
use bytes::Bytes;
use prost::Message;
use proto::ModelProto;
use sha2::{Digest, Sha256};
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

/// What the file does not say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Symbol, or loop whose trip count depends on data → greatest value, and a number it is a multiple of.
    pub bounds: BTreeMap<String, (u64, u64)>,
    /// Input → sizes of its axes.
    pub shapes: BTreeMap<String, Vec<AxisSize>>,
    /// Input and output that are one state: kept from run to run instead of being given and returned.
    pub states: Vec<(String, String)>,
    /// JSON: `{"inputs": {NAME: …}, "outputs": {NAME: …}}`.
    pub hints: Option<String>,
}

/// The ONNX ops that the importer knows.
pub fn supported_ops() -> impl Iterator<Item = &'static str> {
    ops::TABLES.iter().flat_map(|t| t.iter().map(|(name, _)| *name))
}

/// Imports a file that is owned as a vector; tensor data are shared with it, not copied.
pub fn import(file: Vec<u8>, options: &ImportOptions) -> Result<Graph, Error> {
    import_bytes(Bytes::from(file), options)
}

/// Imports a file that lies in memory already; tensor data are shared with it.
pub fn import_bytes(file: Bytes, options: &ImportOptions) -> Result<Graph, Error> {
    let digest = Sha256::digest(&file);
    let model =
        ModelProto::decode(file).map_err(|e| Error::malformed("file", format!("not an ONNX model: {e}")))?;
    let mut graph = graph::import_model(&model, options)?;
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    graph.metadata.insert("source.sha256".into(), hex);
    let producer = format!("{} {}", model.producer_name, model.producer_version);
    if !producer.trim().is_empty() {
        graph.metadata.insert("source.producer".into(), producer.trim().into());
    }
    for p in model.metadata_props {
        graph.metadata.entry(p.key).or_insert(p.value);
    }
    Ok(graph)
}
