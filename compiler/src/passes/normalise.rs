//! Exporters' spellings of layer norms become one op.
//!
//! | found | becomes |
//! |---|---|
//! | `d / √(mean(d²) + ε)` with `d = x − mean(x)`, both means over the last axes | `LayerNorm` |
//! | `x / √(mean(x²) + ε)`, also as a product with the reciprocal | `RmsNorm` |
//! | such a norm times, plus a vector for the axes that are normalised | the same with scale and bias |
//!
//! The nodes in between stay for whoever else reads them; [`super::clean`] drops them where nobody does.

use super::{Nodes, each_block, op_node};
use crate::error::Error;
use crate::graph::{Block, Graph, Node, Value};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::norm::{LAYER_NORM, LayerNorm, RMS_NORM};
use serinette_core::op::reduce::{MEAN, Reduce};
use serinette_core::op::{OpDescriptor, unary};

/// Rewrites every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let uses = graph.use_counts();
    each_block(graph, &mut |graph, block, _| {
        rewrite(graph, block, &uses);
        Ok(())
    })
}

fn rewrite(graph: &Graph, block: &mut Block, uses: &[u32]) {
    let mut nodes = Nodes::take(block);
    for i in 0..nodes.len() {
        let reader = Reader { graph, nodes: &nodes, uses };
        let Some(node) = nodes.get(i) else { continue };
        let made = reader.norm(node).or_else(|| reader.scaled(node)).or_else(|| reader.shifted(node));
        if let Some(made) = made {
            nodes.set(i, made);
        }
    }
    nodes.put_back(block);
}

/// Whether a node is this op, without an activation.
fn plain(node: &Node, op: &'static OpDescriptor) -> bool {
    node.attrs::<Binary>(op).is_some_and(|a| a.activation == 0)
}

struct Reader<'a> {
    graph: &'a Graph,
    nodes: &'a Nodes,
    uses: &'a [u32],
}

impl<'a> Reader<'a> {
    fn made_by(&self, v: Value) -> Option<&'a Node> {
        self.nodes.producer(v).map(|(_, n)| n)
    }

    fn pairs(node: &Node) -> impl Iterator<Item = (Value, Value)> + use<> {
        let (a, b) = (node.input(0), node.input(1));
        [a.zip(b), b.zip(a)].into_iter().flatten()
    }

    /// A constant of one element in f32.
    fn scalar(&self, v: Value) -> Option<f32> {
        let t = self.graph.tensor(v);
        let data = t.source.immutable_data().filter(|d| d.len() == 4 && t.dtype == DType::F32)?;
        data.numbers::<f32>().next()
    }

    /// The first of the last axes that `v` is the mean of, kept with size 1, and what it is the mean of.
    fn mean(&self, v: Value) -> Option<(Value, u32)> {
        let node = self.made_by(v)?;
        let attrs = node.attrs::<Reduce>(&MEAN)?;
        let x = node.input(0)?;
        let rank = self.graph.tensor(x).dims.len() as u32;
        let axis = attrs.axes.trailing_zeros();
        let all_from_there = axis < rank && attrs.axes == (u32::MAX << axis) & !(u32::MAX << rank);
        (attrs.keep_axes == 1 && all_from_there).then_some((x, axis))
    }

    /// `v` is `√(mean(d²) + ε)`: d, the first axis and ε.
    fn deviation(&self, v: Value) -> Option<(Value, u32, f32)> {
        let root = self.made_by(v).filter(|n| n.is(&unary::SQRT))?;
        let sum = self.made_by(root.input(0)?).filter(|n| plain(n, &binary::ADD))?;
        Self::pairs(sum).find_map(|(m, e)| {
            let epsilon = self.scalar(e).filter(|e| e.is_finite() && *e >= 0.0)?;
            let (square, axis) = self.mean(m)?;
            let square = self.made_by(square).filter(|n| plain(n, &binary::MUL))?;
            let d = square.input(0).filter(|d| square.input(1) == Some(*d))?;
            Some((d, axis, epsilon))
        })
    }

    /// `v` is `1 / √(…)`: what is under the one.
    fn inverse(&self, v: Value) -> Option<Value> {
        let node = self.made_by(v)?;
        if node.is(&unary::RECIPROCAL) {
            return node.input(0);
        }
        let one = plain(node, &binary::DIV) && node.input(0).and_then(|c| self.scalar(c)) == Some(1.0);
        node.input(1).filter(|_| one)
    }

    fn norm(&self, node: &Node) -> Option<Node> {
        let y = *node.outputs.first()?;
        let (d, (below, axis, epsilon)) = if plain(node, &binary::DIV) {
            (node.input(0)?, self.deviation(node.input(1)?)?)
        } else if plain(node, &binary::MUL) {
            Self::pairs(node).find_map(|(d, i)| Some((d, self.deviation(self.inverse(i)?)?)))?
        } else {
            return None;
        };
        let dtype = self.graph.tensor(y).dtype;
        if d != below || dtype != DType::F32 {
            return None;
        }
        let attrs = LayerNorm { axis, epsilon };
        let centred = self.made_by(d).filter(|n| plain(n, &binary::SUB)).and_then(|n| {
            let (x, m) = (n.input(0)?, n.input(1)?);
            (self.mean(m)? == (x, axis)).then_some(x)
        });
        let (op, x) = match centred {
            Some(x) => (&LAYER_NORM, x),
            None => (&RMS_NORM, d),
        };
        Some(op_node(&node.name, op, attrs, vec![Some(x)], y))
    }

    /// A norm that nothing else reads, and a vector that has just the axes that are normalised.
    fn of_norm(&self, v: Value, vector: Value) -> Option<(&'a Node, &'static OpDescriptor)> {
        let node = self.made_by(v).filter(|_| self.uses.get(v.index()) == Some(&1))?;
        let op = [&LAYER_NORM, &RMS_NORM].into_iter().find(|op| node.is(op))?;
        let axis = node.attrs::<LayerNorm>(op)?.axis as usize;
        let fits = self.graph.tensor(v).dims.get(axis..) == Some(&self.graph.tensor(vector).dims[..]);
        (fits && self.graph.tensor(vector).dtype == self.graph.tensor(v).dtype).then_some((node, op))
    }

    fn scaled(&self, node: &Node) -> Option<Node> {
        Self::pairs(node).filter(|_| plain(node, &binary::MUL)).find_map(|(v, scale)| {
            let (norm, _) = self.of_norm(v, scale).filter(|(n, _)| n.inputs.len() == 1)?;
            let inputs = vec![norm.input(0), Some(scale)];
            Some(Node { name: node.name.clone(), inputs, outputs: node.outputs.clone(), ..norm.clone() })
        })
    }

    fn shifted(&self, node: &Node) -> Option<Node> {
        Self::pairs(node).filter(|_| plain(node, &binary::ADD)).find_map(|(v, bias)| {
            let (norm, op) = self.of_norm(v, bias)?;
            if op.code != LAYER_NORM.code || norm.inputs.len() > 2 {
                return None;
            }
            let inputs = vec![norm.input(0), norm.input(1), Some(bias)];
            Some(Node { name: node.name.clone(), inputs, outputs: node.outputs.clone(), ..norm.clone() })
        })
    }
}
