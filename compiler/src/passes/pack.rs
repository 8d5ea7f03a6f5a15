//! Moves work that depends on weights and params alone into the `prepare` entry.
//!
//! What can be folded for nothing was folded before. What is left (widening a compact weight, another order of a
//! weight that is also used as it is, anything computed from params) is computed once into derived values instead
//! of in each run. Equal computations of several entries become one value.
//!
//! Two things are left where they are: ops that look things up by position, so that a bad one is reported by the
//! run that reads it; and results far larger than what they are made from, which cost more memory than time.

use super::{Computation, clean};
use crate::error::Error;
use crate::graph::{Block, Entry, Graph, Node, NodeKind, Source, Value};
use serinette_core::op::Meaning;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Results may take this many times the bytes of the weights they come from: 4 bits widened to f32.
const GROWTH: u64 = 8;
/// Results of up to this many bytes may be any number of times larger.
const SMALL: u64 = 4096;

/// Which weights and params are prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None: their computations are part of every run.
    Never,
    /// All.
    #[default]
    Always,
    /// Those of these names, and what depends on no others.
    Named(BTreeSet<String>),
}

impl Packing {
    /// Whether computations on a value that is not computed itself may be moved.
    pub(super) fn takes(&self, graph: &Graph, v: Value) -> bool {
        let t = graph.tensor(v);
        match (&t.source, self) {
            (_, Packing::Never) => false,
            (Source::Constant(_), _) => true,
            (Source::Weight(_) | Source::Param(_) | Source::Derived, Packing::Always) => true,
            (Source::Weight(_) | Source::Param(_), Packing::Named(names)) => names.contains(&t.name),
            _ => false,
        }
    }

    /// An error for a name that no weight or param has.
    pub(crate) fn check(&self, graph: &Graph) -> Result<(), Error> {
        let Packing::Named(names) = self else { return Ok(()) };
        let named = |s: &Source| matches!(s, Source::Weight(_) | Source::Param(_));
        let known = graph.tensors.iter().filter(|t| named(&t.source)).map(|t| t.name.clone());
        let known: Vec<String> = known.collect();
        match names.iter().find(|n| !known.contains(n)) {
            Some(n) => Err(Error::unknown("weight or param", n, known)),
            None => Ok(()),
        }
    }
}

struct Pack<'g> {
    graph: &'g mut Graph,
    packing: &'g Packing,
    /// What is known before a run: the weights and params that each such value comes from.
    sources: HashMap<Value, BTreeSet<Value>>,
    /// Reshapes of such values. They stay with their readers, where they cost nothing.
    views: HashMap<Value, Node>,
    /// Computations that were moved, with their results.
    moved: HashMap<Computation, Vec<Value>>,
    /// Results that are computed by another moved node.
    replaced: HashMap<Value, Value>,
    nodes: Vec<Node>,
}

/// Packs in all entries but `prepare`.
pub fn run(graph: &mut Graph, packing: &Packing) {
    if *packing == Packing::Never {
        return;
    }
    let blocks: Vec<Block> = graph.entries.iter_mut().map(|e| std::mem::take(&mut e.block)).collect();
    let mut p = Pack {
        graph,
        packing,
        sources: HashMap::new(),
        views: HashMap::new(),
        moved: HashMap::new(),
        replaced: HashMap::new(),
        nodes: Vec::new(),
    };
    let packed = blocks.into_iter().enumerate().map(|(i, mut block)| {
        if p.graph.entries.get(i).is_some_and(|e| !e.prepare) {
            p.block(&mut block);
        }
        block
    });
    let packed: Vec<Block> = packed.collect();
    let (nodes, replaced) = (p.nodes, p.replaced);
    for (e, block) in graph.entries.iter_mut().zip(packed) {
        e.block = block;
    }
    if nodes.is_empty() {
        return;
    }
    graph.map_uses(&mut |v| *replaced.get(&v).unwrap_or(&v));
    // Views whose readers moved are dead now, and keep nothing alive.
    clean::run(graph);
    prepare(graph, nodes);
    clean::run(graph);
}

impl Pack<'_> {
    /// Takes out of a block, inner ones included, what can be moved.
    fn block(&mut self, block: &mut Block) {
        for mut node in std::mem::take(&mut block.nodes) {
            node.inputs.iter_mut().flatten().for_each(|v| *v = *self.replaced.get(v).unwrap_or(v));
            match (self.depends_on(&node), &node.kind) {
                (Some(sources), NodeKind::Reshape) => {
                    for o in &node.outputs {
                        self.sources.insert(*o, sources.clone());
                        self.views.insert(*o, node.clone());
                    }
                    block.nodes.push(node);
                }
                (Some(sources), _) => self.take(node, &sources),
                (None, _) => {
                    node.blocks_mut().into_iter().for_each(|b| self.block(b));
                    block.nodes.push(node);
                }
            }
        }
    }

    /// The weights and params that a node depends on, if it depends on nothing else and may be moved.
    fn depends_on(&self, node: &Node) -> Option<BTreeSet<Value>> {
        match &node.kind {
            NodeKind::Op { op, attrs } => {
                let position = |i: usize| op.input(i).is_some_and(|o| o.meaning == Meaning::Index);
                let mut sizes = false;
                (op.attr_exprs)(attrs, &mut |_| sizes = true);
                if sizes || (0..node.inputs.len()).any(position) {
                    return None;
                }
            }
            NodeKind::Reshape => {}
            _ => return None,
        }
        let mut sources = BTreeSet::new();
        for v in node.inputs.iter().flatten() {
            match self.sources.get(v) {
                Some(s) => sources.extend(s),
                None if self.packing.takes(self.graph, *v) => {
                    sources.insert(*v);
                }
                None => return None,
            }
        }
        let add = |n: u64, v: &Value| Some(n.saturating_add(self.bytes(*v)?));
        let given = sources.iter().try_fold(0, add)?;
        let made = node.outputs.iter().try_fold(0, add)?;
        let worth = made <= SMALL || made <= given.saturating_mul(GROWTH);
        (worth && !sources.is_empty()).then_some(sources)
    }

    fn bytes(&self, v: Value) -> Option<u64> {
        let size = self.graph.tensor(v).dtype.size() as u64;
        self.graph.known_dims(v)?.iter().try_fold(size, |n, d| n.checked_mul(*d))
    }

    /// Moves the node of an op, or finds the one moved before that computes the same.
    fn take(&mut self, node: Node, sources: &BTreeSet<Value>) {
        let inputs = node.inputs.iter().map(|v| v.map(|v| self.inside(v))).collect();
        let node = Node { inputs, ..node };
        let what = Computation::of(self.graph, &node);
        if let Some(same) = what.as_ref().and_then(|w| self.moved.get(w)) {
            self.replaced.extend(node.outputs.iter().copied().zip(same.iter().copied()));
            return;
        }
        self.moved.extend(what.map(|w| (w, node.outputs.clone())));
        for o in &node.outputs {
            self.sources.insert(*o, sources.clone());
        }
        self.nodes.push(node);
    }

    /// What stands for a value in the prepare entry: for a view that stays elsewhere, a view of its own.
    fn inside(&mut self, v: Value) -> Value {
        let Some(view) = self.views.get(&v).cloned() else { return v };
        let inputs = view.inputs.iter().map(|x| x.map(|x| self.inside(x))).collect();
        let mut node = Node { inputs, ..view };
        let what = Computation::of(self.graph, &node);
        if let Some(same) = what.as_ref().and_then(|w| self.moved.get(w)).and_then(|o| o.first()) {
            return *same;
        }
        let t = self.graph.tensor(v).clone();
        let made = self.graph.computed(t.name, t.dtype, t.dims, 0);
        node.outputs = vec![made];
        self.moved.extend(what.map(|w| (w, node.outputs.clone())));
        self.nodes.push(node);
        made
    }
}

/// Adds nodes to the prepare entry, which is made if there is none. What entries read of them becomes derived.
fn prepare(graph: &mut Graph, nodes: Vec<Node>) {
    let read: Vec<bool> = graph.use_counts().iter().map(|n| *n > 0).collect();
    let named = |s: &Source| !matches!(s, Source::Computed | Source::Input { .. } | Source::Constant(_));
    let mut names: HashSet<String> =
        graph.tensors.iter().filter(|t| named(&t.source)).map(|t| t.name.clone()).collect();
    let (mut steps, mut values) = (0u32, 0u32);
    for n in &nodes {
        steps += u32::from(matches!(n.kind, NodeKind::Op { .. }));
        for o in n.outputs.iter().filter(|o| read.get(o.index()) == Some(&true)) {
            let Some(t) = graph.tensors.get_mut(o.index()) else { continue };
            let name = unused(if t.name.is_empty() { "derived" } else { &t.name }, |n| names.contains(n));
            names.insert(name.clone());
            (t.source, t.scope, t.name) = (Source::Derived, 0, name);
            values += 1;
        }
    }
    let at = graph.entries.iter().position(|e| e.prepare).unwrap_or_else(|| {
        let name = unused("prepare", |n| graph.entries.iter().any(|e| e.name == n));
        let (inputs, outputs, updates) = (Vec::new(), Vec::new(), Vec::new());
        graph.entries.push(Entry { name, prepare: true, inputs, outputs, updates, block: Block::default() });
        graph.entries.len() - 1
    });
    if let Some(e) = graph.entries.get_mut(at) {
        e.block.nodes.extend(nodes);
        let name = e.name.clone();
        graph.notes.push(format!(
            "entry {name} computes {values} values from weights and params once, in {steps} steps"
        ));
    }
}

/// A name that is not taken: as it is, or with a number.
fn unused(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1u32..).map(|i| if i == 1 { name.to_owned() } else { format!("{name}.{i}") });
    numbered.into_iter().find(|n| !taken(n)).unwrap_or_default()
}
