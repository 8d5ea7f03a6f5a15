//! Computes with the host kernels what is known at compile time.
//!
//! A result is only stored where it takes no more bytes than what it is made from (or very few): a compact weight
//! that is widened at run time stays compact. `prepare` entries are left alone: they are run-time work by wish.

use super::each_block;
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value};
use serinette_core::op::OpDescriptor;
use serinette_core::schedule::exec::call;
use serinette_core::schedule::record::Signature;
use serinette_core::shape::{Dim, DimAlgebra};
use serinette_core::{DType, MAX_INPUTS, MAX_OUTPUTS, Shape};

/// Results up to this many bytes are always stored.
const FREE_BYTES: u64 = 16;

/// Folds in all entries but `prepare`.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    each_block(graph, &mut |graph, block, prepare| {
        if !prepare {
            fold(graph, block);
        }
        Ok(())
    })
}

fn fold(graph: &mut Graph, block: &mut Block) {
    block.nodes.retain(|node| match results(graph, node) {
        Some(results) => {
            for (o, data) in node.outputs.iter().zip(results) {
                if let Some(t) = graph.tensors.get_mut(o.index()) {
                    (t.source, t.scope) = (Source::Constant(data), 0);
                }
            }
            false
        }
        None => true,
    });
}

/// The contents of the outputs, if they are known and worth storing.
fn results(graph: &Graph, node: &Node) -> Option<Vec<Data>> {
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
    let given: u64 = inputs.iter().flatten().map(|(_, d)| d.len() as u64).sum();
    if sizes.iter().sum::<u64>() > given.max(FREE_BYTES) {
        return None;
    }
    evaluate(graph, node, op, attrs, &inputs, &sizes)
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
