//! The graph: what builders and importers make and passes change.
//!
//! A graph has values in single-assignment form, and entries that compute some of them from others. Control flow
//! is structured: a node may hold blocks of nodes.

use crate::data::Data;
use crate::dims::DimTable;
use crate::error::Error;
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::shape::{Dim, DimAlgebra};
use std::collections::BTreeMap;

/// A value of a graph: the index of its [`Tensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub(crate) u32);

impl Value {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A node, or an argument of a loop body.
    Computed,
    /// The caller, for each run. With `keep` the contents stay during the run.
    Input {
        /// Whether the memory may not be reused during the run.
        keep: bool,
    },
    /// Unnamed immutable data.
    Constant(Data),
    /// Named immutable data.
    Weight(Data),
    /// Named data that the caller may set at any time, with what it holds at first.
    Param(Option<Data>),
    /// Kept from run to run, zeros at first.
    State,
    /// Computed by a `prepare` entry.
    Derived,
}

impl Source {
    /// The bytes, where they can never change.
    pub fn immutable_data(&self) -> Option<&Data> {
        match self {
            Source::Constant(d) | Source::Weight(d) => Some(d),
            _ => None,
        }
    }
}

/// What is known about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Name; empty if it has none.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Vec<Dim>,
    /// Where it comes from.
    pub source: Source,
    /// The block in which it is visible (0 is everywhere).
    pub(crate) scope: u32,
}

/// What a node does.
#[derive(Clone)]
pub enum NodeKind {
    /// Computes its outputs with an op of the op table.
    Op {
        /// The op.
        op: &'static OpDescriptor,
        /// Attribute record.
        attrs: Vec<u8>,
    },
    /// Its input's elements in the same order under other dimensions.
    Reshape,
    /// The elements of its input from `start` along `axis`, contiguous.
    Window {
        /// Axis.
        axis: u8,
        /// First element along it.
        start: Dim,
    },
    /// Its inputs one after the other along `axis`, without moving them: they are parts of its output.
    Join {
        /// Axis.
        axis: u8,
    },
    /// Takes one of two blocks. Input 0 is the condition (bool, one element).
    If {
        /// Taken if the condition is true.
        then: Block,
        /// Taken otherwise.
        otherwise: Block,
    },
    /// Repeats a block. Input 0 is the trip count (i32, one element) or absent; the others are what the arguments
    /// of the body hold before the first trip.
    Loop {
        /// The body: its results are the arguments of the next trip.
        body: Block,
        /// Most trips.
        max_trips: Dim,
        /// Expression of the counter.
        counter: Dim,
        /// Which argument is the condition (bool, one element), read before each trip.
        condition: Option<usize>,
    },
}

/// One node.
#[derive(Clone)]
pub struct Node {
    /// Name, for messages and debugging; may be empty.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Operands; `None` for absent optional ones.
    pub inputs: Vec<Option<Value>>,
    /// Results.
    pub outputs: Vec<Value>,
}

/// Nodes in an order in which they can run.
#[derive(Clone, Default)]
pub struct Block {
    /// Arguments (loop bodies only).
    pub args: Vec<Value>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// What the block gives: to its node, or for an entry its outputs.
    pub results: Vec<Value>,
}

/// A callable part of the graph.
#[derive(Clone)]
pub struct Entry {
    /// Name, unique.
    pub name: String,
    /// Whether the session runs it by itself when weights or params changed.
    pub prepare: bool,
    /// Inputs in the caller's order.
    pub inputs: Vec<Value>,
    /// Names of the outputs, which are the results of the block.
    pub outputs: Vec<String>,
    /// States and params, and what they hold after the run.
    pub updates: Vec<(Value, Value)>,
    /// Nodes and outputs.
    pub block: Block,
}

/// A whole graph.
#[derive(Clone, Default)]
pub struct Graph {
    /// Dimension expressions.
    pub dims: DimTable,
    /// Values.
    pub tensors: Vec<Tensor>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// Hints: JSON text by the name of an input or output.
    pub hints: BTreeMap<String, String>,
    /// Metadata: name, version, licence …
    pub metadata: BTreeMap<String, String>,
    /// What importer and passes want to tell a person.
    pub notes: Vec<String>,
}

impl Node {
    /// A node with all inputs present.
    pub fn new(name: impl Into<String>, kind: NodeKind, inputs: &[Value], outputs: &[Value]) -> Node {
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        Node { name: name.into(), kind, inputs, outputs: outputs.to_vec() }
    }

    /// Whether it is this op of the table.
    pub fn is(&self, op: &'static OpDescriptor) -> bool {
        matches!(&self.kind, NodeKind::Op { op: o, .. } if o.code == op.code && o.version == op.version)
    }

    /// The attribute record, if it is this op.
    pub fn attrs<A: serinette_core::op::Attributes>(&self, op: &'static OpDescriptor) -> Option<A> {
        match &self.kind {
            NodeKind::Op { op: o, attrs } if o.code == op.code => serinette_core::op::attributes(attrs).ok(),
            _ => None,
        }
    }

    /// Input `i`, if it is there.
    pub fn input(&self, i: usize) -> Option<Value> {
        self.inputs.get(i).copied().flatten()
    }

    /// The blocks inside.
    pub fn blocks(&self) -> Vec<&Block> {
        match &self.kind {
            NodeKind::If { then, otherwise } => vec![then, otherwise],
            NodeKind::Loop { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }

    /// The blocks inside, to be changed.
    pub fn blocks_mut(&mut self) -> Vec<&mut Block> {
        match &mut self.kind {
            NodeKind::If { then, otherwise } => vec![then, otherwise],
            NodeKind::Loop { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }
}

impl Block {
    /// Calls `f` for every value that is read inside, nested blocks and results included.
    pub fn each_use(&self, f: &mut dyn FnMut(Value)) {
        self.nodes.iter().for_each(|n| each_use(n, f));
        self.results.iter().for_each(|v| f(*v));
    }

    /// Replaces every value that is read inside.
    pub fn map_uses(&mut self, f: &mut dyn FnMut(Value) -> Value) {
        for node in &mut self.nodes {
            node.inputs.iter_mut().flatten().for_each(|v| *v = f(*v));
            node.blocks_mut().into_iter().for_each(|b| b.map_uses(f));
        }
        self.results.iter_mut().for_each(|v| *v = f(*v));
    }
}

/// Calls `f` for every value that a node reads, nested blocks included.
pub fn each_use(node: &Node, f: &mut dyn FnMut(Value)) {
    node.inputs.iter().flatten().for_each(|v| f(*v));
    node.blocks().into_iter().for_each(|b| b.each_use(f));
}

impl Graph {
    /// What is known about a value of this graph.
    pub fn tensor(&self, v: Value) -> &Tensor {
        // Values are only made by this graph's own methods; an id of another graph is refused by the builder.
        &self.tensors[v.index()]
    }

    /// A new computed value.
    pub(crate) fn computed(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        dims: Vec<Dim>,
        scope: u32,
    ) -> Value {
        self.push(Tensor { name: name.into(), dtype, dims, source: Source::Computed, scope })
    }

    /// A new unnamed constant with known sizes.
    pub(crate) fn constant(&mut self, dtype: DType, dims: &[u64], data: Data) -> Result<Value, Error> {
        let dims = dims.iter().map(|d| self.dims.constant(*d)).collect::<Result<_, _>>();
        let dims = dims.map_err(|e| Error::shape("constant", e))?;
        Ok(self.push(Tensor { name: String::new(), dtype, dims, source: Source::Constant(data), scope: 0 }))
    }

    /// Values that hold something else from now on than what their names say.
    pub(crate) fn forget_names(&mut self, values: &[Value]) {
        for v in values {
            if let Some(t) = self.tensors.get_mut(v.index()) {
                t.name.clear();
            }
        }
    }

    pub(crate) fn push(&mut self, t: Tensor) -> Value {
        self.tensors.push(t);
        Value(self.tensors.len() as u32 - 1)
    }

    /// The dimensions as numbers, where all are known.
    pub fn known_dims(&self, v: Value) -> Option<Vec<u64>> {
        self.tensor(v).dims.iter().map(|d| self.dims.known(*d)).collect()
    }

    /// Bytes of a value at the upper bounds of the symbols; saturating.
    pub fn max_bytes(&self, v: Value) -> u64 {
        let t = self.tensor(v);
        t.dims.iter().fold(t.dtype.size() as u64, |n, d| n.saturating_mul(self.dims.range(*d).1))
    }

    /// How often each value is read, as node input, result, output or new state.
    pub(crate) fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0u32; self.tensors.len()];
        let mut count = |v: Value| {
            if let Some(c) = counts.get_mut(v.index()) {
                *c += 1;
            }
        };
        for e in &self.entries {
            e.block.each_use(&mut count);
            e.updates.iter().for_each(|(_, new)| count(*new));
        }
        counts
    }

    /// Replaces every read of a value.
    pub(crate) fn map_uses(&mut self, f: &mut dyn FnMut(Value) -> Value) {
        for e in &mut self.entries {
            e.block.map_uses(f);
            e.updates.iter_mut().for_each(|(_, new)| *new = f(*new));
        }
    }

    /// A text for messages: the value's name, or its number.
    pub fn label(&self, v: Value) -> String {
        match self.tensors.get(v.index()) {
            Some(t) if !t.name.is_empty() => t.name.clone(),
            _ => format!("value {}", v.0),
        }
    }
}
