//! The order of steps, chosen for a low peak of live bytes.
//!
//! In each block a greedy order is made: of the nodes that can run, the one that leaves the fewest bytes live. It is
//! kept only if its peak is lower than that of the order as built.

use crate::graph::{Block, Entry, Graph, Node, NodeKind, Source, Value, each_use};
use std::collections::{HashMap, HashSet};

/// Blocks with more nodes keep their order: the greedy search takes time with the square of the nodes.
const MOST_NODES: usize = 4000;

/// Orders every block.
pub fn run(graph: &mut Graph) {
    for i in 0..graph.entries.len() {
        let mut block = std::mem::take(&mut graph.entries[i].block);
        let mut kept: HashSet<Value> = graph.entries[i].updates.iter().map(|(_, new)| *new).collect();
        kept.extend(&block.results);
        order(graph, &mut block, &kept);
        graph.entries[i].block = block;
    }
}

/// The largest sum of bytes that are live at once in a block of any entry, sizes at their bounds: what this pass makes low.
/// What an op takes besides its operands does not count.
pub fn peak(graph: &Graph) -> u64 {
    fn of(graph: &Graph, block: &Block, kept: &HashSet<Value>) -> u64 {
        let inner = block.nodes.iter().flat_map(|n| n.blocks());
        let inner = inner.map(|b| of(graph, b, &b.results.iter().copied().collect()));
        let order: Vec<usize> = (0..block.nodes.len()).collect();
        inner.max().unwrap_or(0).max(Model::new(graph, block, kept).peak(&order))
    }
    let entry = |e: &Entry| {
        let kept = e.updates.iter().map(|(_, new)| *new).chain(e.block.results.iter().copied()).collect();
        of(graph, &e.block, &kept)
    };
    graph.entries.iter().map(entry).max().unwrap_or(0)
}

fn order(graph: &Graph, block: &mut Block, kept: &HashSet<Value>) {
    for node in &mut block.nodes {
        for b in node.blocks_mut() {
            let results: HashSet<Value> = b.results.iter().copied().collect();
            order(graph, b, &results);
        }
    }
    if block.nodes.len() > MOST_NODES {
        return;
    }
    let model = Model::new(graph, block, kept);
    let as_built: Vec<usize> = (0..block.nodes.len()).collect();
    let greedy = model.greedy();
    if greedy.len() == as_built.len() && model.peak(&greedy) < model.peak(&as_built) {
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut block.nodes).into_iter().map(Some).collect();
        block.nodes = greedy.iter().filter_map(|i| nodes.get_mut(*i).and_then(Option::take)).collect();
    }
}

/// What each node makes and reads, in bytes of memory.
struct Model {
    /// For each node: memory (by number) that it starts to use.
    makes: Vec<Vec<usize>>,
    /// For each node: memory that it reads, without repetition.
    reads: Vec<Vec<usize>>,
    /// For each node: the nodes that must come before it.
    needs: Vec<Vec<usize>>,
    bytes: Vec<u64>,
    /// How many nodes touch each memory; one more where it is kept to the end.
    touches: Vec<usize>,
}

impl Model {
    fn new(graph: &Graph, block: &Block, kept: &HashSet<Value>) -> Model {
        // Views and parts share the memory of their root.
        let mut root: HashMap<Value, Value> = HashMap::new();
        for n in &block.nodes {
            match n.kind {
                NodeKind::Reshape | NodeKind::Window { .. } => {
                    if let (Some(x), Some(y)) = (n.input(0), n.outputs.first()) {
                        root.insert(*y, *root.get(&x).unwrap_or(&x));
                    }
                }
                NodeKind::Join { .. } => {
                    for (x, y) in n.inputs.iter().flatten().flat_map(|x| n.outputs.first().map(|y| (x, y))) {
                        root.insert(*x, *y);
                    }
                }
                _ => {}
            }
        }
        let of = |v: Value| {
            let mut v = v;
            while let Some(r) = root.get(&v) {
                v = *r;
            }
            v
        };
        let mut numbers: HashMap<Value, usize> = HashMap::new();
        let mut m = Model { makes: vec![], reads: vec![], needs: vec![], bytes: vec![], touches: vec![] };
        let mut number = |m: &mut Model, v: Value| {
            let v = of(v);
            *numbers.entry(v).or_insert_with(|| {
                let transient = matches!(graph.tensor(v).source, Source::Computed | Source::Input { .. });
                m.bytes.push(if transient { graph.max_bytes(v) } else { 0 });
                m.touches.push(0);
                m.bytes.len() - 1
            })
        };
        let mut made_by: HashMap<Value, usize> = HashMap::new();
        for (i, n) in block.nodes.iter().enumerate() {
            let (mut reads, mut needs, mut makes) = (Vec::new(), Vec::new(), Vec::new());
            each_use(n, &mut |v| {
                needs.extend(made_by.get(&v).copied());
                reads.push(number(&mut m, v));
            });
            for o in &n.outputs {
                made_by.insert(*o, i);
                makes.push(number(&mut m, *o));
            }
            for list in [&mut reads, &mut needs, &mut makes] {
                list.sort_unstable();
                list.dedup();
            }
            for r in reads.iter().chain(makes.iter().filter(|x| !reads.contains(x))) {
                m.touches[*r] += 1;
            }
            m.reads.push(reads);
            m.needs.push(needs);
            m.makes.push(makes);
        }
        for v in kept {
            let r = number(&mut m, *v);
            m.touches[r] += 1;
        }
        m
    }

    /// Runs node `i` in a simulation: gives the live bytes while it runs and after it.
    fn step(&self, i: usize, live: u64, started: &mut [bool], left: &mut [usize]) -> (u64, u64) {
        let mut during = live;
        for r in self.reads[i].iter().chain(&self.makes[i]) {
            if !std::mem::replace(&mut started[*r], true) {
                during += self.bytes[*r];
            }
        }
        let mut after = during;
        for r in self.reads[i].iter().chain(self.makes[i].iter().filter(|m| !self.reads[i].contains(m))) {
            left[*r] -= 1;
            if left[*r] == 0 {
                after -= self.bytes[*r];
            }
        }
        (during, after)
    }

    fn peak(&self, order: &[usize]) -> u64 {
        let (mut started, mut left) = (vec![false; self.bytes.len()], self.touches.clone());
        let (mut live, mut peak) = (0, 0);
        for i in order {
            let (during, after) = self.step(*i, live, &mut started, &mut left);
            peak = peak.max(during);
            live = after;
        }
        peak
    }

    fn greedy(&self) -> Vec<usize> {
        let n = self.makes.len();
        let (mut started, mut left) = (vec![false; self.bytes.len()], self.touches.clone());
        let mut waiting: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (i, needs) in self.needs.iter().enumerate() {
            needs.iter().for_each(|j| users[*j].push(i));
        }
        let mut ready: Vec<usize> = (0..n).filter(|i| waiting[*i] == 0).collect();
        let (mut order, mut live) = (Vec::new(), 0u64);
        while !ready.is_empty() {
            // Change of live bytes; earlier nodes first where it is the same.
            let cost = |i: usize| {
                let made: u64 = self.makes[i].iter().filter(|r| !started[**r]).map(|r| self.bytes[*r]).sum();
                let freed: u64 =
                    self.reads[i].iter().filter(|r| left[**r] == 1).map(|r| self.bytes[*r]).sum();
                (i128::from(made) - i128::from(freed), i)
            };
            let Some(at) = (0..ready.len()).min_by_key(|k| cost(ready[*k])) else { break };
            let i = ready.swap_remove(at);
            (_, live) = self.step(i, live, &mut started, &mut left);
            order.push(i);
            for u in &users[i] {
                waiting[*u] -= 1;
                if waiting[*u] == 0 {
                    ready.push(*u);
                }
            }
        }
        order
    }
}
