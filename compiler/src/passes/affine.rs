//! Products and sums with one number for each channel go into the convolution before them: batch norms, and what exporters make of
//! them.
//!
//! `(conv(x, w) + b) · s + t = conv(x, w·s) + (b·s + t)`, for convolutions of any number of axes and transposed ones, also
//! through the reshape behind a convolution of one axis. The new weights are computed in f64 and rounded once. Only
//! convolutions that nothing else reads, with weights that nothing else reads, are changed: no weight is stored twice.

use super::{Nodes, each_block};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::conv::{CONV2D, Conv2d};
use serinette_core::op::conv_transpose::{CONV_TRANSPOSE, ConvTranspose};
use serinette_core::op::conv3d::CONV3D;
use serinette_core::op::spatial::Conv;
use serinette_core::op::{Activation, OpDescriptor};

/// Folds in every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let uses = graph.use_counts();
    each_block(graph, &mut |graph, block, _| fold(graph, block, &uses))
}

fn fold(graph: &mut Graph, block: &mut Block, uses: &[u32]) -> Result<(), Error> {
    let mut nodes = Nodes::take(block);
    for i in 0..nodes.len() {
        let Some(found) = nodes.get(i).and_then(|n| find(graph, &nodes, n, uses)) else { continue };
        let conv = apply(graph, &found)?;
        match found.reshape {
            // The convolution stays in front of its reshape, which gives the result now.
            Some((at, reshape)) => {
                graph.forget_names(&conv.outputs);
                nodes.set(found.from, conv);
                nodes.remove(at);
                nodes.set(i, reshape);
            }
            None => {
                nodes.remove(found.from);
                nodes.set(i, conv);
            }
        }
    }
    nodes.put_back(block);
    Ok(())
}

/// A convolution as far as its channels and activation go.
pub(super) struct Layer {
    pub op: &'static OpDescriptor,
    pub activation: u32,
    /// Output channels lie along axis 0 of the weights, or, by groups, along axis 1 of transposed ones.
    groups: Option<u32>,
}

/// What a node is, if it is a convolution in floats.
pub(super) fn layer(node: &Node) -> Option<Layer> {
    if let Some(a) = node.attrs::<Conv2d>(&CONV2D) {
        return Some(Layer { op: &CONV2D, activation: a.activation, groups: None });
    }
    if let Some(a) = node.attrs::<Conv>(&CONV3D) {
        return Some(Layer { op: &CONV3D, activation: a.activation, groups: None });
    }
    let a = node.attrs::<ConvTranspose>(&CONV_TRANSPOSE)?;
    Some(Layer { op: &CONV_TRANSPOSE, activation: a.activation, groups: Some(a.groups) })
}

/// The attributes of a convolution with another activation.
pub(super) fn activated(node: &Node, activation: u32) -> Option<Vec<u8>> {
    if let Some(a) = node.attrs::<Conv2d>(&CONV2D) {
        return Some(bytemuck::bytes_of(&Conv2d { activation, ..a }).to_vec());
    }
    if let Some(a) = node.attrs::<Conv>(&CONV3D) {
        return Some(bytemuck::bytes_of(&Conv { activation, ..a }).to_vec());
    }
    let a = node.attrs::<ConvTranspose>(&CONV_TRANSPOSE)?;
    Some(bytemuck::bytes_of(&ConvTranspose { activation, ..a }).to_vec())
}

/// A convolution, and the factor and summand of each of its channels.
struct Affine {
    from: usize,
    conv: Node,
    layer: Layer,
    /// One of each for a channel.
    scale: Vec<f64>,
    shift: Vec<f64>,
    activation: u32,
    output: Value,
    name: String,
    /// The reshape behind the convolution, with the new output, and where it was.
    reshape: Option<(usize, Node)>,
}

fn find(graph: &Graph, nodes: &Nodes, node: &Node, uses: &[u32]) -> Option<Affine> {
    let ops = [&binary::MUL, &binary::ADD, &binary::SUB, &binary::DIV];
    let (op, attrs) = ops.into_iter().find_map(|op| node.attrs::<Binary>(op).map(|a| (op, a)))?;
    let (a, b) = (node.input(0)?, node.input(1)?);
    let commutes = op.code == binary::MUL.code || op.code == binary::ADD.code;
    // What this pass made is read once.
    let only = |v: Value| uses.get(v.index()).is_none_or(|n| *n == 1);
    let output = *node.outputs.first()?;
    [(a, b), (b, a)].into_iter().take(1 + usize::from(commutes)).find_map(|(x, c)| {
        let (at, first) = nodes.producer(x).filter(|_| only(x))?;
        let flat = matches!(first.kind, NodeKind::Reshape) && unfolds(graph, first);
        let (from, conv) = match flat {
            true => first.input(0).filter(|v| only(*v)).and_then(|v| nodes.producer(v))?,
            false => (at, first),
        };
        let layer = layer(conv)?;
        let w = conv.input(1)?;
        let bias_known = conv.input(2).is_none_or(|b| graph.tensor(b).source.immutable_data().is_some());
        let known = graph.tensor(w).source.immutable_data().is_some() && only(w) && bias_known;
        if !known || layer.activation != Activation::None as u32 || graph.tensor(w).dtype != DType::F32 {
            return None;
        }
        let dims = graph.known_dims(w)?;
        let channels = match layer.groups {
            None => *dims.first()?,
            Some(groups) => dims.get(1)?.checked_mul(u64::from(groups))?,
        };
        let channels = usize::try_from(channels).ok()?;
        let numbers = per_channel(graph, c, x, channels)?;
        let (scale, shift): (Vec<f64>, Vec<f64>) = match op.code {
            code if code == binary::MUL.code => (numbers, vec![0.0; channels]),
            code if code == binary::DIV.code => {
                (numbers.iter().map(|n| 1.0 / n).collect(), vec![0.0; channels])
            }
            code if code == binary::SUB.code => (vec![1.0; channels], numbers.iter().map(|n| -n).collect()),
            _ => (vec![1.0; channels], numbers),
        };
        if scale.iter().chain(&shift).any(|n| !n.is_finite()) {
            return None;
        }
        Some(Affine {
            from,
            conv: conv.clone(),
            layer,
            scale,
            shift,
            activation: attrs.activation,
            output: if flat { *conv.outputs.first()? } else { output },
            name: node.name.clone(),
            reshape: flat.then(|| (at, Node { outputs: vec![output], ..first.clone() })),
        })
    })
}

/// Whether a reshape makes `[N, C, L]` of `[N, C, 1, L]`.
pub(super) fn unfolds(graph: &Graph, reshape: &Node) -> bool {
    use serinette_core::shape::DimAlgebra;
    let ends = reshape.input(0).zip(reshape.outputs.first().copied());
    ends.is_some_and(|(x, y)| match (&graph.tensor(x).dims[..], &graph.tensor(y).dims[..]) {
        ([n, c, one, l], [m, d, k]) => (n, c, l) == (m, d, k) && graph.dims.known(*one) == Some(1),
        _ => false,
    })
}

/// A constant that broadcasts over `[N, C, …]` with one number for each channel, or one for all.
fn per_channel(graph: &Graph, c: Value, x: Value, channels: usize) -> Option<Vec<f64>> {
    let t = graph.tensor(c);
    let rank = graph.tensor(x).dims.len();
    if t.dtype != DType::F32 || t.dims.len() > rank {
        return None;
    }
    let dims = graph.known_dims(c)?;
    let numbers: Vec<f64> = t.source.immutable_data()?.numbers::<f32>().map(f64::from).collect();
    // Counted from the innermost axis, as broadcasting does.
    let along_channels = dims.iter().rev().nth(rank.checked_sub(2)?) == Some(&(channels as u64));
    match numbers.as_slice() {
        [one] => Some(vec![*one; channels]),
        _ if along_channels && numbers.len() == channels => Some(numbers),
        _ => None,
    }
}

fn apply(graph: &mut Graph, a: &Affine) -> Result<Node, Error> {
    let (w, old_bias) = (a.conv.input(1), a.conv.input(2));
    let floats = |graph: &Graph, v: Option<Value>| -> Vec<f64> {
        let data = v.and_then(|v| graph.tensor(v).source.immutable_data());
        data.map_or(Vec::new(), |d| d.numbers::<f32>().map(f64::from).collect())
    };
    let weights = floats(graph, w);
    let dims = w.and_then(|w| graph.known_dims(w)).unwrap_or_default();
    let channel = channels(&dims, a.layer.groups, weights.len());
    let factor = |i: usize| a.scale.get(channel(i)).copied().unwrap_or(1.0);
    let scaled: Vec<f32> = weights.iter().enumerate().map(|(i, w)| (w * factor(i)) as f32).collect();
    let bias = floats(graph, old_bias);
    let number = |i: usize| bias.get(i).copied().unwrap_or(0.0);
    let moved: Vec<f32> =
        a.scale.iter().zip(&a.shift).enumerate().map(|(i, (s, t))| (number(i) * s + t) as f32).collect();
    let new_w = graph.constant(DType::F32, &dims, Data::from_slice(&scaled))?;
    let new_bias = graph.constant(DType::F32, &[moved.len() as u64], Data::from_slice(&moved))?;
    // The weights keep their name, so that they can be found in the blob.
    if let Some(w) = w {
        let name = std::mem::take(&mut graph.tensors[w.index()].name);
        let data = Data::from_slice(&scaled);
        let t = &mut graph.tensors[new_w.index()];
        if !name.is_empty() {
            (t.name, t.source) = (name, Source::Weight(data));
        }
    }
    let attrs = activated(&a.conv, a.activation).unwrap_or_default();
    Ok(Node {
        name: a.name.clone(),
        kind: NodeKind::Op { op: a.layer.op, attrs },
        inputs: vec![a.conv.input(0), Some(new_w), Some(new_bias)],
        outputs: vec![a.output],
    })
}

/// The output channel of each weight: `[O, …]`, or `[C, O/groups, …]` where a group has `C/groups` input channels.
fn channels(dims: &[u64], groups: Option<u32>, count: usize) -> impl Fn(usize) -> usize + use<> {
    let size = |i: usize| dims.get(i).map_or(1, |d| *d as usize).max(1);
    let (outer, inner) = (size(0), size(1));
    let groups = groups.map(|g| (g as usize).max(1));
    move |i| match groups {
        None => i / (count / outer).max(1),
        Some(groups) => {
            let taps = (count / outer / inner).max(1);
            let (input, output) = (i / taps / inner, i / taps % inner);
            let group = input / (outer / groups).max(1);
            group * inner + output
        }
    }
}
