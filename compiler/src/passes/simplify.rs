//! Algebra that changes no result, and equal computations once.
//!
//! | found | becomes |
//! |---|---|
//! | `x · 1`, `x / 1`, `x − 0`, `x + (−0)`, `x^1`, a cast to its own type | `x` |
//! | `x^2` | `x · x` |
//! | `x / c` for a power of two `c` | `x · (1 / c)` |
//! | a transpose of a transpose | one |
//! | a transpose that only moves axes of one element | a reshape |
//! | a reshape of a reshape, or to the same sizes | one, or none |
//! | a product with a matrix that is transposed before | a product that reads it the other way round |
//! | a computation that was done before | its result |
//!
//! What an entry or a region gives as its result, and what is derived, keeps its node.

use super::{Computation, op_node};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value};
use serinette_core::op::OpDescriptor;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::cast::CAST;
use serinette_core::op::matmul::{MATMUL, MatMul};
use serinette_core::op::movement::{TRANSPOSE, Transpose};
use serinette_core::op::unary::FLOATS;
use serinette_core::shape::DimAlgebra;
use serinette_core::{DType, MAX_RANK};
use std::collections::{HashMap, HashSet};

/// Simplifies every entry.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    for i in 0..graph.entries.len() {
        let mut block = std::mem::take(&mut graph.entries[i].block);
        let mut s = Simplify {
            graph,
            kept: HashSet::new(),
            made_by: HashMap::new(),
            known: HashMap::new(),
            replaced: HashMap::new(),
        };
        s.kept.extend(s.graph.entries[i].updates.iter().map(|(_, new)| *new));
        let done = s.block(&mut block);
        let replaced = s.replaced;
        graph.entries[i].block = block;
        done?;
        graph.map_uses(&mut |v| *replaced.get(&v).unwrap_or(&v));
    }
    Ok(())
}

struct Simplify<'g> {
    graph: &'g mut Graph,
    /// Results of blocks: what stands for them is looked up from outside.
    kept: HashSet<Value>,
    /// Nodes that are visible here, by what they compute.
    made_by: HashMap<Value, Node>,
    /// Computations that are visible here.
    known: HashMap<Computation, Vec<Value>>,
    replaced: HashMap<Value, Value>,
}

impl Simplify<'_> {
    /// Outer nodes first: inner blocks see them. What an inner block computes is not seen outside of it.
    fn block(&mut self, block: &mut Block) -> Result<(), Error> {
        self.kept.extend(block.results.iter().copied());
        let mut nodes = Vec::new();
        for mut node in std::mem::take(&mut block.nodes) {
            node.inputs.iter_mut().flatten().for_each(|v| *v = *self.replaced.get(v).unwrap_or(v));
            for b in node.blocks_mut() {
                let outside = self.known.clone();
                self.block(b)?;
                self.known = outside;
            }
            while let Some(made) = self.rewrite(&node)? {
                node = made;
            }
            let what = Computation::of(self.graph, &node);
            let same =
                what.as_ref().and_then(|w| self.known.get(w)).cloned().or_else(|| self.identity(&node));
            let stays = |o: &Value| self.kept.contains(o) || self.graph.tensor(*o).source == Source::Derived;
            if let Some(same) = same.filter(|_| !node.outputs.iter().any(stays)) {
                self.replaced.extend(node.outputs.iter().copied().zip(same));
                continue;
            }
            if let Some(what) = what {
                self.known.entry(what).or_insert_with(|| node.outputs.clone());
                node.outputs.iter().for_each(|o| drop(self.made_by.insert(*o, node.clone())));
            }
            nodes.push(node);
        }
        block.nodes = nodes;
        Ok(())
    }

    /// A constant of one element in a float type, as f64.
    fn scalar(&self, v: Value) -> Option<f64> {
        let t = self.graph.tensor(v);
        let data = t.source.immutable_data().filter(|d| d.len() == t.dtype.size())?;
        match t.dtype {
            DType::F32 => data.numbers::<f32>().next().map(f64::from),
            DType::F64 => data.numbers::<f64>().next(),
            DType::F16 => data.numbers::<u16>().next().map(|b| half::f16::from_bits(b).to_f64()),
            DType::BF16 => data.numbers::<u16>().next().map(|b| half::bf16::from_bits(b).to_f64()),
            _ => None,
        }
    }

    /// Whether the result of a node has the type and the sizes of `x`.
    fn alike(&self, node: &Node, x: Value) -> bool {
        let x = self.graph.tensor(x);
        node.outputs.first().is_some_and(|y| {
            let y = self.graph.tensor(*y);
            (y.dtype, &y.dims) == (x.dtype, &x.dims)
        })
    }

    /// What a node that changes nothing is given.
    fn identity(&self, node: &Node) -> Option<Vec<Value>> {
        let x = node.input(0)?;
        let is = |i: usize, wanted: f64| {
            node.input(i).and_then(|c| self.scalar(c)).is_some_and(|c| c.to_bits() == wanted.to_bits())
        };
        let plain = |op: &'static OpDescriptor| node.attrs::<Binary>(op).is_some_and(|a| a.activation == 0);
        let same = if plain(&binary::MUL) {
            if is(0, 1.0) { node.input(1)? } else { x }
        } else if plain(&binary::ADD) {
            if is(0, -0.0) { node.input(1)? } else { x }
        } else {
            x
        };
        let nothing = (plain(&binary::MUL) && (is(0, 1.0) || is(1, 1.0)))
            || (plain(&binary::ADD) && (is(0, -0.0) || is(1, -0.0)))
            || (plain(&binary::DIV) && is(1, 1.0))
            || (plain(&binary::SUB) && is(1, 0.0))
            || (node.is(&binary::POW) && is(1, 1.0))
            || node.is(&CAST)
            || matches!(node.kind, NodeKind::Reshape);
        (nothing && self.alike(node, same)).then(|| vec![same])
    }

    /// A node that does the same in another way, once; `None` where there is none.
    fn rewrite(&mut self, node: &Node) -> Result<Option<Node>, Error> {
        let Some(y) = node.outputs.first().copied() else { return Ok(None) };
        if let Some((x, exponent)) = node.input(0).zip(node.input(1)).filter(|_| node.is(&binary::POW)) {
            let square = self.scalar(exponent) == Some(2.0) && self.alike(node, x);
            let made = || op_node(&node.name, &binary::MUL, Binary::default(), vec![Some(x); 2], y);
            return Ok(square.then(made));
        }
        if let Some(attrs) = node.attrs::<Binary>(&binary::DIV) {
            return self.product(node, attrs, y);
        }
        if let Some(t) = node.attrs::<Transpose>(&TRANSPOSE) {
            return Ok(self.transpose(node, t, y));
        }
        if let NodeKind::Reshape = node.kind {
            let inner = node.input(0).and_then(|x| self.made_by.get(&x));
            let from = inner.filter(|n| matches!(n.kind, NodeKind::Reshape)).and_then(|n| n.input(0));
            return Ok(from.map(|x| Node { inputs: vec![Some(x)], ..node.clone() }));
        }
        Ok(node.attrs::<MatMul>(&MATMUL).and_then(|a| self.matmul(node, a)))
    }

    /// A quotient by a power of two as a product, which is exact.
    fn product(&mut self, node: &Node, attrs: Binary, y: Value) -> Result<Option<Node>, Error> {
        let Some((x, c)) = node.input(0).zip(node.input(1)) else { return Ok(None) };
        let t = self.graph.tensor(c);
        let (dtype, rank) = (t.dtype, t.dims.len());
        let inverse = self.scalar(c).map(|c| (c, 1.0 / c)).filter(|_| dtype == DType::F32);
        // Powers of two whose inverse is a normal number too.
        let Some((_, inverse)) = inverse.filter(|(c, i)| {
            let exact = c.abs().log2().fract() == 0.0;
            exact && (*c as f32).is_normal() && (*i as f32).is_normal()
        }) else {
            return Ok(None);
        };
        let factor = self.graph.constant(dtype, &vec![1; rank], Data::from_slice(&[inverse as f32]))?;
        Ok(Some(op_node(&node.name, &binary::MUL, attrs, vec![Some(x), Some(factor)], y)))
    }

    fn transpose(&self, node: &Node, t: Transpose, y: Value) -> Option<Node> {
        let x = node.input(0)?;
        let dims = &self.graph.tensor(x).dims;
        let permutation = t.permutation.get(..dims.len())?;
        // The axes that have more than one element stay in their order.
        let matters =
            |p: &&u8| dims.get(usize::from(**p)).is_some_and(|d| self.graph.dims.known(*d) != Some(1));
        if permutation.iter().filter(matters).is_sorted() {
            return Some(Node {
                name: node.name.clone(),
                kind: NodeKind::Reshape,
                inputs: vec![Some(x)],
                outputs: vec![y],
            });
        }
        let inner = self.made_by.get(&x)?;
        let first = inner.attrs::<Transpose>(&TRANSPOSE)?;
        let mut both = Transpose { permutation: [0; MAX_RANK] };
        for (to, through) in both.permutation.iter_mut().zip(permutation) {
            *to = *first.permutation.get(usize::from(*through))?;
        }
        Some(op_node(&node.name, &TRANSPOSE, both, vec![inner.input(0)], y))
    }

    /// A product whose second operand was transposed in its last two axes alone.
    fn matmul(&self, node: &Node, attrs: MatMul) -> Option<Node> {
        let b = node.input(1)?;
        let transpose = self.made_by.get(&b)?;
        let t = transpose.attrs::<Transpose>(&TRANSPOSE)?;
        let rank = self.graph.tensor(b).dims.len();
        let (columns, rows) = (rank.checked_sub(1)?, rank.checked_sub(2)?);
        let swapped = t.permutation.iter().take(rank).enumerate().all(|(i, p)| {
            let wanted = match i {
                i if i == columns => rows,
                i if i == rows => columns,
                i => i,
            };
            usize::from(*p) == wanted
        });
        let floats = FLOATS.contains(self.graph.tensor(b).dtype);
        if !swapped || !floats {
            return None;
        }
        let attrs = MatMul { transpose_b: 1 - attrs.transpose_b, ..attrs };
        let mut made = node.clone();
        made.kind = NodeKind::Op { op: &MATMUL, attrs: bytemuck::bytes_of(&attrs).to_vec() };
        *made.inputs.get_mut(1)? = transpose.input(0);
        Some(made)
    }
}
