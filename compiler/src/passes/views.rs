//! Views instead of moves.
//!
//! A reshape, and a slice that is contiguous and word-aligned for every size, name the memory of their input. A
//! concatenation along an outermost axis is written piece by piece: its inputs are parts of its output. What cannot
//! be a view becomes a copy here, so that afterwards every `Reshape` and `Window` views a value with memory of its
//! own, and every output of an entry is computed by it.

use super::{each_block, op_node};
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value};
use serinette_core::op::NoAttributes;
use serinette_core::op::movement::{CONCAT, COPY, SLICE, Slice};
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::record::expr_op;
use serinette_core::shape::{Dim, DimAlgebra};
use std::collections::{HashMap, HashSet};

/// Rewrites every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let mut views: HashMap<Value, View> = HashMap::new();
    for i in 0..graph.entries.len() {
        let mut block = std::mem::take(&mut graph.entries[i].block);
        view_block(graph, &mut block, &mut views);
        graph.entries[i].block = block;
    }
    let pinned = pinned(graph);
    each_block(graph, &mut |graph, block, _| {
        join(graph, block, &pinned);
        Ok(())
    })?;
    outputs(graph);
    Ok(())
}

/// What a value views.
#[derive(Clone, Copy)]
struct View {
    root: Value,
    /// Axis and start of a window; `None` for a reshape.
    window: Option<(u8, Dim)>,
}

/// Outer blocks first, as inner ones may view outer values.
fn view_block(graph: &mut Graph, block: &mut Block, views: &mut HashMap<Value, View>) {
    for node in &mut block.nodes {
        for b in node.blocks_mut() {
            view_block(graph, b, views);
        }
        let Some((x, y)) = node.input(0).zip(node.outputs.first().copied()) else { continue };
        if matches!(node.kind, NodeKind::Reshape) {
            let root = match views.get(&x) {
                None => Some(x),
                Some(View { root, window: None }) => Some(*root),
                // The elements of a window under other dimensions: no view can say that.
                Some(_) => None,
            };
            match root {
                Some(root) => {
                    node.inputs = vec![Some(root)];
                    views.insert(y, View { root, window: None });
                }
                None => *node = op_node(&node.name, &COPY, NoAttributes {}, vec![Some(x)], y),
            }
        } else if let Some((axis, start)) = window(graph, node, x, y) {
            let (root, start) = match views.get(&x) {
                None => (x, Some(start)),
                Some(View { root, window: Some((a, s)) }) if *a == axis => {
                    (*root, graph.dims.add(*s, start).ok())
                }
                Some(_) => continue,
            };
            let Some(start) = start else { continue };
            node.kind = NodeKind::Window { axis, start };
            node.inputs = vec![Some(root)];
            views.insert(y, View { root, window: Some((axis, start)) });
        }
    }
}

/// Elements of one step along `axis` are together, start at words, and nothing lies before the axis.
fn outermost(graph: &Graph, dims: &[Dim], axis: usize) -> Option<u64> {
    let known = |d: &Dim| graph.dims.known(*d);
    let outer = dims.get(..axis)?.iter().all(|d| known(d) == Some(1));
    let inner: u64 = dims.get(axis + 1..)?.iter().map(known).try_fold(1u64, |n, d| n.checked_mul(d?))?;
    outer.then_some(inner)
}

/// Axis and start of a slice that can be a window.
fn window(graph: &mut Graph, node: &Node, x: Value, y: Value) -> Option<(u8, Dim)> {
    let attrs = node.attrs::<Slice>(&SLICE)?;
    let (from, to) = (graph.tensor(x).dims.clone(), graph.tensor(y).dims.clone());
    let size = graph.tensor(x).dtype.size() as u64;
    let cut: Vec<usize> = (0..from.len()).filter(|a| from[*a] != to[*a] || attrs.starts[*a] != 0).collect();
    let [axis] = cut.as_slice() else { return None };
    let inner = outermost(graph, &from, *axis)?;
    let start = u64::from(attrs.starts[*axis]);
    // The part that is read may end anywhere in a word; only its start must be one.
    let aligned = (start % 4 * (inner % 4) * size).is_multiple_of(4);
    if attrs.steps.iter().any(|s| *s != 1) || !aligned {
        return None;
    }
    Some((*axis as u8, graph.dims.constant(start).ok()?))
}

/// Values whose place in memory something else decides: results, carried and initial values, new states.
fn pinned(graph: &Graph) -> HashSet<Value> {
    fn of(block: &Block, pinned: &mut HashSet<Value>) {
        pinned.extend(&block.results);
        for n in &block.nodes {
            if let NodeKind::Loop { .. } = n.kind {
                pinned.extend(n.inputs.iter().flatten());
            }
            // A view of a part would view a view.
            if let NodeKind::Reshape | NodeKind::Window { .. } = n.kind {
                pinned.extend(n.inputs.iter().flatten());
            }
            n.blocks().into_iter().for_each(|b| of(b, pinned));
        }
    }
    let mut pinned = HashSet::new();
    for e in &graph.entries {
        of(&e.block, &mut pinned);
        pinned.extend(e.updates.iter().map(|(_, new)| *new));
    }
    pinned
}

/// Turns concatenations whose inputs can be written in place into joins.
fn join(graph: &mut Graph, block: &mut Block, pinned: &HashSet<Value>) {
    let mut computed: HashSet<Value> = HashSet::new();
    let mut parts: HashSet<Value> = HashSet::new();
    let mut nodes: Vec<Node> = Vec::new();
    for mut node in std::mem::take(&mut block.nodes) {
        if let Some(axis) = node.attrs::<Axis>(&CONCAT).map(|a| a.axis as usize)
            && let Some(y) = node.outputs.first().copied()
            && tiles(graph, &node, axis, y)
        {
            let direct: Vec<bool> = (0..node.inputs.len())
                .map(|i| {
                    let v = node.inputs[i];
                    let once = node.inputs.iter().filter(|o| **o == v).count() == 1;
                    once && v
                        .is_some_and(|v| computed.contains(&v) && !pinned.contains(&v) && !parts.contains(&v))
                })
                .collect();
            if direct.contains(&true) {
                for (i, direct) in direct.iter().enumerate() {
                    let Some(v) = node.inputs[i] else { continue };
                    if *direct {
                        parts.insert(v);
                        continue;
                    }
                    let (t, scope) = (graph.tensor(v).clone(), graph.tensor(y).scope);
                    let name = format!("{}:part{i}", node.name);
                    let copy = graph.computed(name.as_str(), t.dtype, t.dims, scope);
                    nodes.push(op_node(&name, &COPY, NoAttributes {}, vec![Some(v)], copy));
                    node.inputs[i] = Some(copy);
                    parts.insert(copy);
                }
                node.kind = NodeKind::Join { axis: axis as u8 };
            }
        }
        // Prepared values have memory of their own.
        let own = |v: &Value| graph.tensor(*v).source == Source::Computed;
        if let NodeKind::Op { .. } = node.kind {
            computed.extend(node.outputs.iter().copied().filter(own));
        }
        nodes.push(node);
    }
    block.nodes = nodes;
}

/// Whether the inputs tile the output in whole words, in a way that the verifier can follow.
fn tiles(graph: &mut Graph, node: &Node, axis: usize, y: Value) -> bool {
    let size = graph.tensor(y).dtype.size() as u64;
    let dims = graph.tensor(y).dims.clone();
    let Some(inner) = outermost(graph, &dims, axis) else { return false };
    let mut lengths = Vec::new();
    for v in node.inputs.iter().flatten() {
        match graph.tensor(*v).dims.get(axis) {
            Some(d) => lengths.push(*d),
            None => return false,
        }
    }
    let (Some(last), Ok(mut start)) = (lengths.len().checked_sub(1), graph.dims.constant(0)) else {
        return false;
    };
    for (i, d) in lengths.iter().enumerate() {
        let known = graph.dims.known(*d).unwrap_or(1);
        if i != last && !(inner % 4 * (known % 4) * size).is_multiple_of(4) {
            return false;
        }
        let Ok(end) = graph.dims.add(start, *d) else { return false };
        if !is_sum(graph, end, start, *d) {
            return false;
        }
        start = end;
    }
    dims.get(axis) == Some(&start)
}

/// Whether `sum` is `a + b` as an expression: constants, a zero, or a sum node of the two.
fn is_sum(graph: &Graph, sum: Dim, a: Dim, b: Dim) -> bool {
    let known = |d| graph.dims.known(d);
    if known(sum).is_some() || known(a) == Some(0) || known(b) == Some(0) {
        return true;
    }
    let e = graph.dims.expr(sum);
    e.is_some_and(|e| {
        let pair = (u64::from(e.a), e.b);
        e.op == expr_op::ADD && (pair == (a.0, b.0) || pair == (b.0, a.0))
    })
}

/// Copies outputs of entries that no node of the entry computes, and outputs given twice.
fn outputs(graph: &mut Graph) {
    for i in 0..graph.entries.len() {
        let mut block = std::mem::take(&mut graph.entries[i].block);
        let mut own: HashSet<Value> = HashSet::new();
        for n in &block.nodes {
            let memory = matches!(n.kind, NodeKind::Op { .. } | NodeKind::Join { .. })
                || matches!(n.kind, NodeKind::If { .. } | NodeKind::Loop { .. });
            own.extend(n.outputs.iter().filter(|_| memory));
        }
        let names = graph.entries[i].outputs.clone();
        for (r, name) in block.results.iter_mut().zip(names) {
            // Each value has one name, so the second output of a value is a copy too.
            if own.remove(r) {
                if let Some(t) = graph.tensors.get_mut(r.index()) {
                    t.name = name;
                }
                continue;
            }
            let t = graph.tensor(*r).clone();
            let copy = graph.computed(name.as_str(), t.dtype, t.dims, t.scope);
            block.nodes.push(op_node(&name, &COPY, NoAttributes {}, vec![Some(*r)], copy));
            *r = copy;
        }
        graph.entries[i].block = block;
    }
}
