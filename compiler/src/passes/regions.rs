//! Simplifies control flow: loop-invariant values, known conditions.

use super::each_block;
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Value};
use std::collections::HashMap;

/// Simplifies until nothing changes in a block; inner blocks first.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let mut replaced: HashMap<Value, Value> = HashMap::new();
    each_block(graph, &mut |graph, block, _| {
        simplify(graph, block, &mut replaced);
        Ok(())
    })?;
    graph.map_uses(&mut |v| resolve(&replaced, v));
    Ok(())
}

fn resolve(replaced: &HashMap<Value, Value>, mut v: Value) -> Value {
    while let Some(w) = replaced.get(&v) {
        v = *w;
    }
    v
}

/// The truth of a constant condition.
fn known(graph: &Graph, v: Value) -> Option<bool> {
    graph.tensor(v).source.immutable_data().and_then(|d| d.as_bytes().first()).map(|b| *b != 0)
}

fn simplify(graph: &mut Graph, block: &mut Block, replaced: &mut HashMap<Value, Value>) {
    let mut nodes = Vec::new();
    for mut node in std::mem::take(&mut block.nodes) {
        node.inputs.iter_mut().flatten().for_each(|v| *v = resolve(replaced, *v));
        node.blocks_mut().into_iter().for_each(|b| b.map_uses(&mut |v| resolve(replaced, v)));
        if let NodeKind::Loop { .. } = node.kind {
            invariants(graph, &mut node, replaced);
        }
        match inlined(graph, &mut node, replaced) {
            Some(inner) => nodes.extend(inner),
            None => nodes.push(node),
        }
    }
    block.nodes = nodes;
    block.results.iter_mut().for_each(|v| *v = resolve(replaced, *v));
}

/// Takes carried values that no trip changes out of a loop, and a condition that is always true.
fn invariants(graph: &Graph, node: &mut Node, replaced: &mut HashMap<Value, Value>) {
    let NodeKind::Loop { body, condition, .. } = &mut node.kind else { return };
    let mut changes = HashMap::new();
    let mut k = 0;
    while k < body.args.len() {
        let Some(initial) = node.inputs.get(k + 1).copied().flatten() else { return };
        let (arg, result) = (body.args[k], body.results[k]);
        // A condition that starts true and stays true, as a constant or untouched, is none.
        let is_condition = *condition == Some(k);
        let always =
            known(graph, initial) == Some(true) && (result == arg || known(graph, result) == Some(true));
        let keep = if is_condition { !always } else { result != arg };
        if keep {
            k += 1;
            continue;
        }
        changes.insert(arg, initial);
        replaced.insert(node.outputs[k], initial);
        body.args.remove(k);
        body.results.remove(k);
        node.inputs.remove(k + 1);
        node.outputs.remove(k);
        *condition = match *condition {
            Some(c) if c == k => None,
            Some(c) if c > k => Some(c - 1),
            c => c,
        };
    }
    body.map_uses(&mut |v| resolve(&changes, v));
}

/// The nodes of the arm that a known condition takes.
fn inlined(graph: &Graph, node: &mut Node, replaced: &mut HashMap<Value, Value>) -> Option<Vec<Node>> {
    let condition = node.input(0)?;
    let NodeKind::If { then, otherwise } = &mut node.kind else { return None };
    let taken = std::mem::take(if known(graph, condition)? { then } else { otherwise });
    for (o, r) in node.outputs.iter().zip(&taken.results) {
        replaced.insert(*o, *r);
    }
    Some(taken.nodes)
}
