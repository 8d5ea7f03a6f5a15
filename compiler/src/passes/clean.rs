//! Drops nodes whose results nothing reads.

use crate::graph::{Block, Graph, Source, Value, each_use};
use std::collections::HashSet;

/// Drops dead nodes from all entries. States, params and the results of entries stay.
pub fn run(graph: &mut Graph) {
    for i in 0..graph.entries.len() {
        let mut live: HashSet<Value> = graph.entries[i].updates.iter().map(|(_, new)| *new).collect();
        let mut block = std::mem::take(&mut graph.entries[i].block);
        clean(graph, &mut block, &mut live);
        graph.entries[i].block = block;
    }
}

/// `live` holds what is read behind the block; what the block reads from outside is added.
fn clean(graph: &Graph, block: &mut Block, live: &mut HashSet<Value>) {
    live.extend(block.results.iter().copied());
    let mut kept = Vec::new();
    for mut node in std::mem::take(&mut block.nodes).into_iter().rev() {
        let derived = node.outputs.iter().any(|o| graph.tensor(*o).source == Source::Derived);
        if !derived && !node.outputs.iter().any(|o| live.contains(o)) {
            continue;
        }
        for b in node.blocks_mut() {
            // A body reads its own results again in the next trip; results of arms are outputs of the node.
            let mut inside = HashSet::new();
            clean(graph, b, &mut inside);
        }
        each_use(&node, &mut |v| {
            live.insert(v);
        });
        kept.push(node);
    }
    kept.reverse();
    block.nodes = kept;
}
