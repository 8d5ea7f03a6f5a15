//! Several files as entries of one program.

use super::graph::import_model;
use super::proto::ModelProto;
use super::{ImportOptions, external, functions, inputs};
use crate::error::Error;
use crate::graph::Graph;
use crate::merge::merge;
use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// An ONNX file and the name of the entry that it becomes.
#[derive(Clone, Debug)]
pub struct EntryFile {
    /// Name of the entry.
    pub name: String,
    /// The file.
    pub file: Bytes,
    /// The folder that it lies in: tensors may have their data in files there.
    pub folder: Option<PathBuf>,
}

impl EntryFile {
    /// An entry of this name from a file in memory.
    pub fn new(name: impl Into<String>, file: impl Into<Bytes>) -> EntryFile {
        EntryFile { name: name.into(), file: file.into(), folder: None }
    }

    /// The same with the folder that tensors outside of the file are read from.
    pub fn in_folder(self, folder: impl Into<PathBuf>) -> EntryFile {
        EntryFile { folder: Some(folder.into()), ..self }
    }
}

/// Names that options can speak of, of all files together: an option may concern one of them only.
#[derive(Default)]
pub(super) struct Names {
    pub inputs: BTreeSet<String>,
    pub outputs: BTreeSet<String>,
    pub initialisers: BTreeSet<String>,
    /// Open sizes and loops whose trip count depends on data.
    pub sizes: BTreeSet<String>,
}

impl Names {
    fn of(models: &[ModelProto]) -> Names {
        let mut names = Names::default();
        for g in models.iter().filter_map(|m| m.graph.as_ref()) {
            names.initialisers.extend(g.initializer.iter().map(|t| t.name.clone()));
            names.inputs.extend(g.input.iter().map(|v| v.name.clone()));
            names.outputs.extend(g.output.iter().map(|v| v.name.clone()));
        }
        names.inputs.retain(|n| !names.initialisers.contains(n));
        names
    }

    /// An error for the first name that no file has.
    fn check(&self, options: &ImportOptions) -> Result<(), Error> {
        let (states, outputs) =
            (options.states.iter().map(|(i, _)| i), options.states.iter().map(|(_, o)| o));
        known("input", options.shapes.keys().chain(options.constants.keys()).chain(states), &self.inputs)?;
        known("output", outputs, &self.outputs)?;
        known("initialiser", &options.params, &self.initialisers)
    }
}

fn known<'a>(
    what: &'static str,
    given: impl IntoIterator<Item = &'a String>,
    names: &BTreeSet<String>,
) -> Result<(), Error> {
    match given.into_iter().find(|n| !names.contains(*n)) {
        Some(name) => Err(Error::unknown(what, name, names.iter().cloned().collect())),
        None => Ok(()),
    }
}

/// Imports files as entries of one graph, in their order. Sizes, initialisers and states of equal names are the
/// same thing in all of them.
///
/// # Errors
/// As [`super::import`], and names that mean different things in two files.
pub fn import_entries(files: &[EntryFile], options: &ImportOptions) -> Result<Graph, Error> {
    let mut models = Vec::new();
    for f in files {
        let model = ModelProto::decode(f.file.clone());
        let at = if files.len() > 1 { f.name.as_str() } else { "file" };
        let mut model = model.map_err(|e| Error::malformed(at, format!("not an ONNX model: {e}")))?;
        external::resolve(&mut model, f.folder.as_deref())?;
        functions::inline(&mut model)?;
        models.push(model);
    }
    let mut names = Names::of(&models);
    names.check(options)?;
    let mut graphs = Vec::new();
    for (i, (f, model)) in files.iter().zip(&models).enumerate() {
        let mut graph = import_model(model, &f.name, options, &mut names)?;
        source(&mut graph, f, model, i == 0);
        graphs.push(graph);
    }
    known("size or data-dependent loop", options.bounds.keys(), &names.sizes)?;
    let mut graph = merge(graphs)?;
    if let Some(text) = &options.hints {
        inputs::hints(&mut graph, text, &names)?;
    }
    Ok(graph)
}

/// Says in the metadata where an entry comes from. What concerns the first file stands under plain keys.
fn source(graph: &mut Graph, f: &EntryFile, model: &ModelProto, first: bool) {
    let prefix = if first { "source".into() } else { format!("source.{}", f.name) };
    let hex: String = Sha256::digest(&f.file).iter().map(|b| format!("{b:02x}")).collect();
    graph.metadata.insert(format!("{prefix}.sha256"), hex);
    let producer = format!("{} {}", model.producer_name, model.producer_version);
    if !producer.trim().is_empty() {
        graph.metadata.insert(format!("{prefix}.producer"), producer.trim().into());
    }
    for p in &model.metadata_props {
        graph.metadata.entry(p.key.clone()).or_insert_with(|| p.value.clone());
    }
}
