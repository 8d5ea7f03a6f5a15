//! Computes with the host kernels what is known at compile time.
//!
//! A result is only stored where it takes no more bytes than what it is made from (or very few): a compact weight
//! that is widened stays compact in the file. Where [`super::pack`] will take what is left, a source that
//! something else reads too does not count: it stays in the file anyway. `prepare` entries are left alone: they are
//! run-time work by wish.

use super::pack::Packing;
use super::{Computation, each_block};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value};
use serinette_core::op::OpDescriptor;
use serinette_core::schedule::exec::call;
use serinette_core::schedule::record::Signature;
use serinette_core::shape::{Dim, DimAlgebra};
use serinette_core::{DType, MAX_INPUTS, MAX_OUTPUTS, Shape};
use std::collections::HashMap;

/// Results up to this many bytes are always stored.
const FREE_BYTES: u64 = 16;

/// Largest result that is computed while a file is imported.
const MOST_AT_IMPORT: u64 = 1 << 16;

/// Folds in all entries but `prepare`. Equal computations give one value.
pub fn run(graph: &mut Graph, packing: &Packing) -> Result<(), Error> {
    let readers = Readers::of(graph);
    let mut done = Done::default();
    each_block(graph, &mut |graph, block, prepare| {
        if !prepare {
            fold(graph, block, packing, &readers, &mut done);
        }
        Ok(())
    })?;
    graph.map_uses(&mut |v| *done.replaced.get(&v).unwrap_or(&v));
    Ok(())
}

/// Who reads a value: equal computations of several entries count as one reader.
struct Readers {
    uses: Vec<u32>,
    equal: HashMap<Computation, u32>,
}

impl Readers {
    fn of(graph: &Graph) -> Readers {
        fn count(graph: &Graph, block: &Block, equal: &mut HashMap<Computation, u32>) {
            for n in &block.nodes {
                Computation::of(graph, n).into_iter().for_each(|k| *equal.entry(k).or_default() += 1);
                n.blocks().into_iter().for_each(|b| count(graph, b, equal));
            }
        }
        let mut equal = HashMap::new();
        graph.entries.iter().for_each(|e| count(graph, &e.block, &mut equal));
        Readers { uses: graph.use_counts(), equal }
    }

    /// Whether nothing but a node, and others that compute the same, reads its input `v`.
    fn only(&self, graph: &Graph, node: &Node, v: Value) -> bool {
        let equal = Computation::of(graph, node).and_then(|k| self.equal.get(&k).copied()).unwrap_or(1);
        let each = node.inputs.iter().filter(|i| **i == Some(v)).count() as u32;
        self.uses.get(v.index()).is_none_or(|n| *n <= equal.saturating_mul(each))
    }
}

/// What was folded.
#[derive(Default)]
struct Done {
    known: HashMap<Computation, Vec<Value>>,
    /// Results that were known already.
    replaced: HashMap<Value, Value>,
}

fn fold(graph: &mut Graph, block: &mut Block, packing: &Packing, readers: &Readers, done: &mut Done) {
    block.nodes.retain_mut(|node| {
        node.inputs.iter_mut().flatten().for_each(|v| *v = *done.replaced.get(v).unwrap_or(v));
        let what = Computation::of(graph, node);
        if let Some(same) = what.as_ref().and_then(|w| done.known.get(w)) {
            done.replaced.extend(node.outputs.iter().copied().zip(same.iter().copied()));
            return false;
        }
        let Some(results) = results(graph, node, packing, readers) else { return true };
        for (o, data) in node.outputs.iter().zip(results) {
            if let Some(t) = graph.tensors.get_mut(o.index()) {
                (t.source, t.scope) = (Source::Constant(data), 0);
            }
        }
        done.known.extend(what.map(|w| (w, node.outputs.clone())));
        false
    });
}

/// The contents of the outputs, if they are known and worth storing.
fn results(graph: &Graph, node: &Node, packing: &Packing, readers: &Readers) -> Option<Vec<Data>> {
    let data = |v: &Option<Value>| match v {
        Some(v) => graph.tensor(*v).source.immutable_data().map(|d| Some((*v, d))),
        None => Some(None),
    };
    let inputs: Vec<Option<(Value, &Data)>> = node.inputs.iter().map(data).collect::<Option<_>>()?;
    let (op, attrs) = match &node.kind {
        NodeKind::Reshape => return Some(vec![inputs.first().copied().flatten()?.1.clone()]),
        NodeKind::Op { op, attrs } => (*op, attrs),
        _ => return None,
    };
    let bytes = |v: Value| {
        let dims = graph.known_dims(v)?;
        dims.iter().try_fold(graph.tensor(v).dtype.size() as u64, |n, d| n.checked_mul(*d))
    };
    let sizes: Vec<u64> = node.outputs.iter().map(|o| bytes(*o)).collect::<Option<_>>()?;
    // Constants made on the way are not in the file unless something else keeps them there.
    let freed = |v: Value| !packing.takes(graph, v) || readers.only(graph, node, v);
    let given: u64 = inputs.iter().flatten().filter(|(v, _)| freed(*v)).map(|(_, d)| d.len() as u64).sum();
    if sizes.iter().sum::<u64>() > given.max(FREE_BYTES) {
        return None;
    }
    evaluate(graph, node, op, attrs, &inputs, &sizes)
}

/// Computes nodes in order from constants and from one another; `None` where one is not known.
pub(crate) fn evaluate_all(graph: &Graph, nodes: &[Node]) -> Option<HashMap<Value, Data>> {
    let mut known: HashMap<Value, Data> = HashMap::new();
    for node in nodes {
        let find = |v: &Option<Value>| match v {
            Some(v) => known.get(v).or(graph.tensor(*v).source.immutable_data()).map(|d| Some((*v, d))),
            None => Some(None),
        };
        let inputs: Vec<Option<(Value, &Data)>> = node.inputs.iter().map(find).collect::<Option<_>>()?;
        let results = match &node.kind {
            NodeKind::Reshape => vec![inputs.first().copied().flatten()?.1.clone()],
            NodeKind::Op { op, attrs } => {
                let size = |v: &Value| {
                    let dims = graph.known_dims(*v)?;
                    dims.iter().try_fold(graph.tensor(*v).dtype.size() as u64, |n, d| n.checked_mul(*d))
                };
                let sizes: Vec<u64> = node.outputs.iter().map(size).collect::<Option<_>>()?;
                if sizes.iter().any(|s| *s > MOST_AT_IMPORT) {
                    return None;
                }
                evaluate(graph, node, op, attrs, &inputs, &sizes)?
            }
            _ => return None,
        };
        known.extend(node.outputs.iter().copied().zip(results));
    }
    Some(known)
}

fn evaluate(
    graph: &Graph,
    node: &Node,
    op: &'static OpDescriptor,
    attrs: &[u8],
    inputs: &[Option<(Value, &Data)>],
    sizes: &[u64],
) -> Option<Vec<Data>> {
    let shape = |v: Value| {
        let dims: Option<Vec<usize>> =
            graph.known_dims(v)?.iter().map(|d| usize::try_from(*d).ok()).collect();
        Shape::new(&dims?)
    };
    let types: Vec<Option<DType>> = inputs.iter().map(|i| i.map(|(v, _)| graph.tensor(v).dtype)).collect();
    let out_types: Vec<DType> = node.outputs.iter().map(|o| graph.tensor(*o).dtype).collect();
    let kernel = serinette_host_kernels::registry::find(&signature(op, &types, &out_types)?)?.kernel;

    // Kernels want aligned operands; tensor data in a file lie anywhere.
    let words = |bytes: u64| vec![0u64; usize::try_from(bytes.div_ceil(8)).unwrap_or(0)];
    let mut in_words: Vec<Vec<u64>> = Vec::new();
    for i in inputs {
        let bytes = i.map_or(&[][..], |(_, d)| d.as_bytes());
        let mut w = words(bytes.len() as u64);
        bytemuck::cast_slice_mut::<u64, u8>(&mut w).get_mut(..bytes.len())?.copy_from_slice(bytes);
        in_words.push(w);
    }
    let mut ins = Vec::new();
    for (i, w) in inputs.iter().zip(&in_words) {
        ins.push(match i {
            Some((v, d)) => Some((shape(*v)?, bytemuck::cast_slice::<u64, u8>(w).get(..d.len())?)),
            None => None,
        });
    }
    let mut out_words: Vec<Vec<u64>> = sizes.iter().map(|s| words(*s)).collect();
    let mut outs = Vec::new();
    for ((o, w), size) in node.outputs.iter().zip(&mut out_words).zip(sizes) {
        outs.push((shape(*o)?, bytemuck::cast_slice_mut::<u64, u8>(w).get_mut(..*size as usize)?));
    }
    let expr = |id: u32| graph.dims.known(Dim(u64::from(id)));
    let fault = call(kernel, attrs, &ins, &mut outs, &mut [], &expr).ok()?;
    // A bad index is the run's to report.
    if fault {
        return None;
    }
    Some(outs.iter().map(|(_, b)| Data::from_slice::<u8>(b)).collect())
}

/// The signature record of a step.
pub(crate) fn signature(op: &OpDescriptor, inputs: &[Option<DType>], outputs: &[DType]) -> Option<Signature> {
    if inputs.len() > MAX_INPUTS || outputs.len() > MAX_OUTPUTS {
        return None;
    }
    let codes = inputs.iter().map(|t| t.map_or(0, DType::code)).chain(outputs.iter().map(|t| t.code()));
    let mut dtypes = [0u8; 24];
    dtypes.iter_mut().zip(codes).for_each(|(d, c)| *d = c);
    let (inputs, outputs) = (inputs.len() as u8, outputs.len() as u8);
    Some(Signature { op: op.code, version: op.version, inputs, outputs, variant: 0, dtypes })
}
