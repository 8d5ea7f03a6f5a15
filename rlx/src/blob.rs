//! Saving a graph for devices that run blobs.

use crate::backend::SUPPORTED_OPS;
use crate::error::Error;
use crate::translate::{Contents, Signature, translate};
use rlx_ir::{Graph, Op};
use rlx_opt::rlx_compile::dispatch_report::prepare_graph_for_backend_with_report;
use serinette_compiler::{CompileOptions, Profile};
use std::collections::{BTreeMap, HashMap};

/// How to save a graph.
#[derive(Clone, Debug)]
pub struct BlobOptions {
    /// The plans that the blob shall hold, at least one.
    pub profiles: Vec<Profile>,
    /// Params whose contents are known and shall be part of the blob: little-endian bytes of the declared element
    /// type, row-major. They cannot be set later. The other params are to be set by whoever runs the blob.
    pub weights: BTreeMap<String, Vec<u8>>,
}

impl Default for BlobOptions {
    /// One desktop plan, all params open.
    fn default() -> BlobOptions {
        BlobOptions { profiles: vec![Profile::desktop()], weights: BTreeMap::new() }
    }
}

/// Compiles a graph to the bytes of a schedule blob: its inputs, params and outputs under their names (an output
/// without one is called `output` with its number), its computation as the entry `main`.
///
/// # Errors
/// Nodes that cannot be taken, all of them; open dimensions among them.
pub fn to_blob(graph: &Graph) -> Result<Vec<u8>, Error> {
    to_blob_with(graph, &BlobOptions::default())
}

/// As [`to_blob`], with plans for other devices and contents of params.
///
/// # Errors
/// As [`to_blob`], and names or lengths of weights that do not fit the graph.
pub fn to_blob_with(graph: &Graph, options: &BlobOptions) -> Result<Vec<u8>, Error> {
    let params = || {
        graph.nodes().iter().filter_map(|n| match &n.op {
            Op::Param { name } => Some(name),
            _ => None,
        })
    };
    if let Some(name) = options.weights.keys().find(|w| !params().any(|p| p == *w)) {
        return Err(Error::Name { what: "param", name: name.clone(), known: params().cloned().collect() });
    }
    let weights = options.weights.iter().map(|(k, v)| (k.clone(), Contents::Fixed(v.clone()))).collect();
    Ok(compile(graph, &weights, Default::default(), &options.profiles)?.0)
}

/// The blob of a graph, and what goes in and out.
pub(crate) fn compile(
    graph: &Graph,
    contents: &HashMap<String, Contents>,
    dispatch: rlx_ir::logical_kernel::KernelDispatchConfig,
    profiles: &[Profile],
) -> Result<(Vec<u8>, Signature), Error> {
    let rewritten;
    let unknown = |n: &rlx_ir::Node| !SUPPORTED_OPS.contains(&n.op.kind());
    let graph = if graph.nodes().iter().any(unknown) {
        // What RLX does before it says whether a backend takes a graph; without it, its answer would be wrong.
        rewritten =
            prepare_graph_for_backend_with_report(graph.clone(), "serinette", SUPPORTED_OPS, dispatch).0;
        &rewritten
    } else {
        graph
    };
    let translated = translate(graph, contents)?;
    let options = CompileOptions { profiles: profiles.to_vec(), ..CompileOptions::default() };
    let compiled = serinette_compiler::compile(translated.graph, &options)?;
    Ok((compiled.bytes, translated.signature))
}
