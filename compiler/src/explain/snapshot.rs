//! A graph at one time, flat, as far as it can be compared with itself at another time.

use super::Measure;
use crate::graph::{Block, Graph, NodeKind, Source, Value};
use crate::passes::order;
use std::collections::{HashMap, HashSet};

/// What stands in a row of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A node.
    Node,
    /// What an entry gives: reads values, computes none.
    Results,
}

/// A node, or what an entry gives.
pub(super) struct Step {
    pub kind: Kind,
    pub op: &'static str,
    pub name: String,
    /// Attributes, and what else decides what it computes.
    attrs: Vec<u8>,
    /// What it reads; for a node with blocks, also what these give.
    pub inputs: Vec<Option<Value>>,
    pub outputs: Vec<Value>,
    /// Entry, and the node around.
    pub place: (usize, Option<Value>),
}

impl Step {
    /// Whether it computes otherwise than `other`, its operands aside.
    pub fn differs(&self, other: &Step) -> bool {
        (self.op, &self.attrs, self.inputs.len()) != (other.op, &other.attrs, other.inputs.len())
    }
}

/// A graph at one time.
pub(super) struct Snapshot {
    /// In an order in which they can run.
    pub steps: Vec<Step>,
    pub measure: Measure,
    /// Constants and weights, read or not, with their bytes.
    pub constants: HashMap<Value, u64>,
    labels: Vec<String>,
    producers: HashMap<Value, usize>,
}

impl Snapshot {
    pub fn of(graph: &Graph) -> Snapshot {
        let mut steps = Vec::new();
        for (i, e) in graph.entries.iter().enumerate() {
            flatten(&e.block, (i, None), &mut steps);
            let given = e.block.results.iter().chain(e.updates.iter().map(|(_, new)| new));
            steps.push(Step {
                kind: Kind::Results,
                op: "",
                name: e.name.clone(),
                attrs: Vec::new(),
                inputs: given.map(|v| Some(*v)).collect(),
                outputs: Vec::new(),
                place: (i, None),
            });
        }
        let mut constants = HashMap::new();
        for (v, t) in (0..).map(Value).zip(&graph.tensors) {
            if let Source::Constant(d) | Source::Weight(d) = &t.source {
                constants.insert(v, d.len() as u64);
            }
        }
        let read: HashSet<Value> = steps.iter().flat_map(|s| &s.inputs).flatten().copied().collect();
        let bytes = read.iter().filter_map(|v| constants.get(v));
        let mut producers = HashMap::new();
        for (i, s) in steps.iter().enumerate() {
            producers.extend(s.outputs.iter().map(|o| (*o, i)));
        }
        let measure = Measure {
            nodes: steps.iter().filter(|s| s.kind == Kind::Node).count(),
            constant_bytes: bytes.fold(0, |n, b| n.saturating_add(*b)),
            peak_bytes: order::peak(graph),
        };
        let labels = (0..graph.tensors.len() as u32).map(|v| graph.label(Value(v))).collect();
        Snapshot { steps, measure, constants, labels, producers }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|s| s.kind == Kind::Node)
    }

    /// A value as a person knows it.
    pub fn value(&self, v: Value) -> String {
        self.labels.get(v.index()).cloned().unwrap_or_default()
    }

    /// The step that computes a value.
    pub fn producer(&self, v: Value) -> Option<&Step> {
        self.steps.get(*self.producers.get(&v)?)
    }

    /// Who reads each value, and as which operand.
    pub fn readers(&self) -> HashMap<Value, Vec<(usize, usize)>> {
        let mut readers: HashMap<Value, Vec<(usize, usize)>> = HashMap::new();
        for (i, s) in self.steps.iter().enumerate() {
            for (k, v) in s.inputs.iter().enumerate() {
                if let Some(v) = v {
                    readers.entry(*v).or_default().push((i, k));
                }
            }
        }
        readers
    }

    /// The step that has the op and the first result of a step of another snapshot.
    pub fn same_result(&self, s: &Step) -> Option<usize> {
        let found = match s.kind {
            Kind::Node => self.producers.get(s.outputs.first()?).copied(),
            Kind::Results => self.steps.iter().position(|t| t.kind == s.kind && t.name == s.name),
        };
        found.filter(|i| self.steps.get(*i).is_some_and(|t| t.op == s.op))
    }
}

fn flatten(block: &Block, place: (usize, Option<Value>), steps: &mut Vec<Step>) {
    for n in &block.nodes {
        let (op, mut attrs) = match &n.kind {
            NodeKind::Op { op, attrs } => (op.name, attrs.clone()),
            NodeKind::Reshape => ("Reshape", Vec::new()),
            NodeKind::Window { axis, .. } => ("Window", vec![*axis]),
            NodeKind::Join { axis } => ("Join", vec![*axis]),
            NodeKind::If { .. } => ("If", Vec::new()),
            NodeKind::Loop { .. } => ("Loop", Vec::new()),
        };
        if let NodeKind::Window { start, .. } = &n.kind {
            attrs.extend(start.0.to_le_bytes());
        }
        let mut inputs = n.inputs.clone();
        for b in n.blocks() {
            flatten(b, (place.0, n.outputs.first().copied()), steps);
            inputs.extend(b.results.iter().map(|v| Some(*v)));
        }
        let (kind, name, outputs) = (Kind::Node, n.name.clone(), n.outputs.clone());
        steps.push(Step { kind, op, name, attrs, inputs, outputs, place });
    }
}
