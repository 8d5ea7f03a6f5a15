//! Bias and activation go into the op before them.

use super::affine::{activated, layer, unfolds};
use super::{Nodes, each_block};
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Value};
use serinette_core::op::Activation;
use serinette_core::op::binary::{ADD, Binary, DIV, MUL, SUB};
use serinette_core::op::matmul::{MATMUL, MatMul};
use serinette_core::op::unary::{FLOATS, RELU};

/// Fuses in every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let uses = graph.use_counts();
    each_block(graph, &mut |graph, block, _| {
        fuse(graph, block, &uses);
        Ok(())
    })
}

fn fuse(graph: &mut Graph, block: &mut Block, uses: &[u32]) {
    let mut nodes = Nodes::take(block);
    for i in 0..nodes.len() {
        let Some(node) = nodes.get(i) else { continue };
        let float = node.outputs.first().is_some_and(|y| FLOATS.contains(graph.tensor(*y).dtype));
        let fused = if node.is(&RELU) && float {
            if let Some((conv, relu)) = before_reshape(graph, &nodes, node, uses) {
                // The convolution stays where it is; the reshape behind it gives the result.
                let (at, conv) = conv;
                graph.forget_names(&conv.outputs);
                nodes.set(at, conv);
                nodes.set(i, relu);
                continue;
            }
            with_activation(&nodes, node, uses)
        } else if node.is(&ADD) {
            with_bias(graph, &nodes, node, uses)
        } else {
            None
        };
        if let Some((from, fused)) = fused {
            // The new node stands where the later one stood: there all of its operands are computed.
            nodes.remove(from);
            nodes.set(i, fused);
        }
    }
    nodes.put_back(block);
}

fn only_use(v: Value, uses: &[u32]) -> bool {
    uses.get(v.index()) == Some(&1)
}

/// A convolution of one axis, before the reshape before a relu, with the relu inside; and the reshape in the relu's place.
fn before_reshape(graph: &Graph, nodes: &Nodes, relu: &Node, uses: &[u32]) -> Option<((usize, Node), Node)> {
    let x = relu.input(0).filter(|x| only_use(*x, uses))?;
    let (_, reshape) = nodes.producer(x)?;
    if !matches!(reshape.kind, NodeKind::Reshape) || !unfolds(graph, reshape) {
        return None;
    }
    let v = reshape.input(0).filter(|v| only_use(*v, uses))?;
    let (at, conv) = nodes.producer(v)?;
    layer(conv).filter(|l| l.activation == Activation::None as u32)?;
    let mut fused = conv.clone();
    if let NodeKind::Op { attrs, .. } = &mut fused.kind {
        *attrs = activated(conv, Activation::Relu as u32)?;
    }
    let reshaped = Node { outputs: relu.outputs.clone(), ..reshape.clone() };
    Some(((at, fused), reshaped))
}

/// The node before a relu with the relu inside.
fn with_activation(nodes: &Nodes, relu: &Node, uses: &[u32]) -> Option<(usize, Node)> {
    let x = relu.input(0).filter(|x| only_use(*x, uses))?;
    let (from, node) = nodes.producer(x)?;
    let (none, code) = (Activation::None as u32, Activation::Relu as u32);
    let mut fused = node.clone();
    let bytes = if let Some(a) = node.attrs::<MatMul>(&MATMUL).filter(|a| a.activation == none) {
        bytemuck::bytes_of(&MatMul { activation: code, ..a }).to_vec()
    } else if let Some(l) = layer(node) {
        Some(l).filter(|l| l.activation == none)?;
        activated(node, code)?
    } else {
        let activated = [&ADD, &MUL, &SUB, &DIV].into_iter().find_map(|op| node.attrs::<Binary>(op));
        let a = activated.filter(|a| a.activation == none)?;
        bytemuck::bytes_of(&Binary { activation: code, ..a }).to_vec()
    };
    if let NodeKind::Op { attrs, .. } = &mut fused.kind {
        *attrs = bytes;
    }
    fused.outputs = relu.outputs.clone();
    Some((from, fused))
}

/// The product before a sum with a row vector, with the vector as its bias.
fn with_bias(graph: &Graph, nodes: &Nodes, add: &Node, uses: &[u32]) -> Option<(usize, Node)> {
    let (a, b) = (add.input(0)?, add.input(1)?);
    let sum = add.attrs::<Binary>(&ADD)?;
    [(a, b), (b, a)].into_iter().find_map(|(product, bias)| {
        let (from, node) = nodes.producer(product).filter(|_| only_use(product, uses))?;
        let attrs = node.attrs::<MatMul>(&MATMUL)?;
        let columns = graph.tensor(product).dims.last()?;
        let fits = graph.tensor(bias).dims.as_slice() == [*columns];
        if !fits || node.input(2).is_some() || attrs.activation != Activation::None as u32 {
            return None;
        }
        let mut fused = node.clone();
        let attrs = MatMul { activation: sum.activation, ..attrs };
        fused.kind = NodeKind::Op { op: &MATMUL, attrs: bytemuck::bytes_of(&attrs).to_vec() };
        fused.inputs = vec![node.input(0), node.input(1), Some(bias)];
        fused.outputs = add.outputs.clone();
        Some((from, fused))
    })
}
