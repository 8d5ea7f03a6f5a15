//! Building a graph by hand, with errors as values.
//!
//! ```
//! use serinette_compiler::{Data, GraphBuilder};
//! use serinette_core::DType;
//!
//! # fn main() -> Result<(), serinette_compiler::Error> {
//! let mut b = GraphBuilder::new();
//! let batch = b.symbol("batch", 1, 64, 1)?;
//! let w = b.weight("w", DType::F32, &[4, 2], Data::from_slice(&[1f32; 8]))?;
//! b.entry("main")?;
//! let x = b.input("x", DType::F32, &[batch.into(), 4.into()])?;
//! let y = b.matmul("product", x, w, None)?;
//! let y = b.relu("activation", y)?;
//! b.output("y", y)?;
//! let graph = b.finish()?;
//! assert_eq!(graph.entries.len(), 1);
//! # Ok(())
//! # }
//! ```

mod ops;
mod regions;

pub(crate) use regions::OpenLoop;
pub use regions::{LoopSpec, Trips};

use crate::data::Data;
use crate::dims::{INPUT_SYMBOL, SymbolInfo};
use crate::error::Error;
use crate::graph::{Block, Entry, Graph, Node, NodeKind, Source, Tensor, Value};
use serinette_core::op::{OpDescriptor, ShapeArgs};
use serinette_core::shape::{Dim, DimAlgebra, Dims};
use serinette_core::{DType, MAX_OUTPUTS, MAX_RANK};
use std::collections::{HashMap, HashSet};

/// A dimension as callers write it: a number or an expression of the builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Number(u64),
    /// An expression.
    Expr(Dim),
}

impl From<u64> for Size {
    fn from(n: u64) -> Size {
        Size::Number(n)
    }
}

impl From<Dim> for Size {
    fn from(d: Dim) -> Size {
        Size::Expr(d)
    }
}

/// Most bytes of one tensor at the upper bounds of its sizes: keeps every later sum of sizes far from overflow.
pub const MAX_TENSOR_BYTES: u64 = 1 << 46;

/// What is open: the entry, or a region in it.
struct Frame {
    block: Block,
    scope: u32,
}

/// Builds a [`Graph`]. Globals (symbols, weights, params, states, constants) can be made at any time; inputs, ops
/// and outputs belong to the entry begun last.
pub struct GraphBuilder {
    pub(crate) graph: Graph,
    frames: Vec<Frame>,
    next_scope: u32,
    names: HashSet<String>,
    symbol_names: HashSet<String>,
    /// Values that were given a name of their own.
    labelled: HashSet<Value>,
}

impl Default for GraphBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder {
            graph: Graph::default(),
            frames: Vec::new(),
            next_scope: 1,
            names: HashSet::new(),
            symbol_names: HashSet::new(),
            labelled: HashSet::new(),
        }
    }

    /// A named size that the caller gives: between `low` and `high`, a multiple of `multiple_of`.
    pub fn symbol(&mut self, name: &str, low: u64, high: u64, multiple_of: u64) -> Result<Dim, Error> {
        if low > high {
            return Err(Error::count(name, "least value of a size", high, low));
        }
        if multiple_of == 0 {
            return Err(Error::count(name, "multiple of a size", 1, 0));
        }
        self.new_symbol(name, INPUT_SYMBOL, low, high, multiple_of)
    }

    fn new_symbol(
        &mut self,
        name: &str,
        kind: u8,
        low: u64,
        high: u64,
        multiple_of: u64,
    ) -> Result<Dim, Error> {
        if name.is_empty() || !self.symbol_names.insert(name.into()) {
            return Err(Error::name("symbol", "name of a size missing or used twice", name));
        }
        Ok(self.graph.dims.symbol(SymbolInfo { name: name.into(), kind, low, high, multiple_of }))
    }

    /// The algebra of dimension expressions, to build sizes such as `2·n + 1`.
    pub fn dims(&mut self) -> &mut dyn DimAlgebra {
        &mut self.graph.dims
    }

    fn sizes(&mut self, at: &str, sizes: &[Size]) -> Result<Vec<Dim>, Error> {
        if sizes.len() > MAX_RANK {
            return Err(Error::count(at, "axes", MAX_RANK as u64, sizes.len() as u64));
        }
        let known = self.graph.dims.len() as u64;
        sizes
            .iter()
            .map(|s| match s {
                Size::Number(n) => self.graph.dims.constant(*n).map_err(|e| Error::shape(at, e)),
                Size::Expr(d) if d.0 < known => Ok(*d),
                Size::Expr(d) => Err(Error::count(at, "dimension of this graph", known, d.0)),
            })
            .collect()
    }

    fn check_bytes(&self, at: &str, dtype: DType, dims: &[Dim]) -> Result<u64, Error> {
        let bytes =
            dims.iter().try_fold(dtype.size() as u64, |n, d| n.checked_mul(self.graph.dims.range(*d).1));
        match bytes {
            Some(n) if n <= MAX_TENSOR_BYTES => Ok(n),
            n => Err(Error::count(at, "bytes of a tensor", MAX_TENSOR_BYTES, n.unwrap_or(u64::MAX))),
        }
    }

    fn global(&mut self, name: &str, dtype: DType, dims: &[u64], source: Source) -> Result<Value, Error> {
        let sizes: Vec<Size> = dims.iter().map(|d| Size::Number(*d)).collect();
        let at = if name.is_empty() { "constant" } else { name };
        let dims = self.sizes(at, &sizes)?;
        let bytes = self.check_bytes(at, dtype, &dims)?;
        let data = match &source {
            Source::Constant(d) | Source::Weight(d) | Source::Param(Some(d)) => Some(d.len() as u64),
            _ => None,
        };
        if let Some(found) = data.filter(|n| *n != bytes) {
            return Err(Error::count(at, "bytes of data", bytes, found));
        }
        if !matches!(source, Source::Constant(_)) && (name.is_empty() || !self.names.insert(name.into())) {
            return Err(Error::name(at, "name missing or used twice", name));
        }
        Ok(self.graph.push(Tensor { name: name.into(), dtype, dims, source, scope: 0 }))
    }

    /// Unnamed immutable data. `data` are the tensor's little-endian bytes.
    pub fn constant(&mut self, dtype: DType, dims: &[u64], data: Data) -> Result<Value, Error> {
        self.global("", dtype, dims, Source::Constant(data))
    }

    /// Named immutable data.
    pub fn weight(&mut self, name: &str, dtype: DType, dims: &[u64], data: Data) -> Result<Value, Error> {
        self.global(name, dtype, dims, Source::Weight(data))
    }

    /// Named data that the caller may set at any time.
    pub fn param(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[u64],
        initial: Option<Data>,
    ) -> Result<Value, Error> {
        self.global(name, dtype, dims, Source::Param(initial))
    }

    /// A tensor that is kept from run to run, zeros at first. [`update`](Self::update) changes it.
    pub fn state(&mut self, name: &str, dtype: DType, dims: &[u64]) -> Result<Value, Error> {
        self.global(name, dtype, dims, Source::State)
    }

    /// Begins an entry that users call; ends the one before.
    pub fn entry(&mut self, name: &str) -> Result<(), Error> {
        self.begin(name, false)
    }

    /// Begins the entry that the session runs whenever weights or params changed; ends the one before. It has no
    /// inputs and outputs; [`derive`](Self::derive) says what it makes.
    pub fn prepare(&mut self, name: &str) -> Result<(), Error> {
        self.begin(name, true)
    }

    fn begin(&mut self, name: &str, prepare: bool) -> Result<(), Error> {
        self.close_entry()?;
        if name.is_empty() || self.graph.entries.iter().any(|e| e.name == name) {
            return Err(Error::name("entry", "name of an entry missing or used twice", name));
        }
        let (inputs, outputs, updates) = (Vec::new(), Vec::new(), Vec::new());
        let block = Block::default();
        self.graph.entries.push(Entry { name: name.into(), prepare, inputs, outputs, updates, block });
        let scope = self.scope_id();
        self.frames.push(Frame { block: Block::default(), scope });
        Ok(())
    }

    fn close_entry(&mut self) -> Result<(), Error> {
        if self.frames.len() > 1 {
            return Err(Error::count("entry", "open regions", 0, self.frames.len() as u64 - 1));
        }
        if let (Some(frame), Some(entry)) = (self.frames.pop(), self.graph.entries.last_mut()) {
            entry.block.nodes = frame.block.nodes;
        }
        Ok(())
    }

    fn scope_id(&mut self) -> u32 {
        self.next_scope += 1;
        self.next_scope
    }

    fn scope(&self, at: &str) -> Result<u32, Error> {
        self.frames.last().map(|f| f.scope).ok_or(Error::count(at, "open entries", 1, 0))
    }

    fn open_entry(&mut self, at: &str) -> Result<&mut Entry, Error> {
        let open = !self.frames.is_empty();
        self.graph.entries.last_mut().filter(|_| open).ok_or(Error::count(at, "open entries", 1, 0))
    }

    /// An error unless `v` can be read here.
    fn visible(&self, at: &str, v: Value) -> Result<(), Error> {
        match self.graph.tensors.get(v.index()) {
            Some(t) if t.scope == 0 || self.frames.iter().any(|f| f.scope == t.scope) => Ok(()),
            _ => Err(Error::Scope { at: at.into(), value: self.graph.label(v) }),
        }
    }

    /// An input of the entry, given by the caller for each run.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[Size]) -> Result<Value, Error> {
        let scope = self.scope(name)?;
        let prepare = self.open_entry(name)?.prepare;
        let taken = self.open_entry(name)?.inputs.clone();
        if prepare || name.is_empty() || taken.iter().any(|v| self.graph.tensor(*v).name == name) {
            return Err(Error::name("input", "name missing, used twice, or in a prepare entry", name));
        }
        let dims = self.sizes(name, dims)?;
        self.check_bytes(name, dtype, &dims)?;
        let source = Source::Input { keep: false };
        let v = self.graph.push(Tensor { name: name.into(), dtype, dims, source, scope });
        self.open_entry(name)?.inputs.push(v);
        Ok(v)
    }

    /// Keeps the contents of an input during the run: its memory is not reused.
    pub fn keep(&mut self, input: Value) -> Result<(), Error> {
        match self.graph.tensors.get_mut(input.index()).map(|t| &mut t.source) {
            Some(Source::Input { keep }) => {
                *keep = true;
                Ok(())
            }
            _ => Err(Error::Scope { at: "keep".into(), value: self.graph.label(input) }),
        }
    }

    /// An output of the entry.
    pub fn output(&mut self, name: &str, v: Value) -> Result<(), Error> {
        self.visible(name, v)?;
        let entry = self.open_entry(name)?;
        if entry.prepare || name.is_empty() || entry.outputs.iter().any(|n| n == name) {
            return Err(Error::name("output", "name missing, used twice, or in a prepare entry", name));
        }
        entry.outputs.push(name.into());
        entry.block.results.push(v);
        Ok(())
    }

    /// Says what a state or param holds after the entry has run. Reads in the entry see the old contents.
    pub fn update(&mut self, state: Value, new: Value) -> Result<(), Error> {
        let at = self.graph.label(state);
        self.visible(&at, new)?;
        let (Some(s), Some(n)) = (self.graph.tensors.get(state.index()), self.graph.tensors.get(new.index()))
        else {
            return Err(Error::Scope { at: at.clone(), value: at });
        };
        if !matches!(s.source, Source::State | Source::Param(_)) || s.dtype != n.dtype {
            return Err(Error::types(
                &at,
                format!("a state or param of {}", n.dtype),
                format!("{:?} of {}", s.source, s.dtype),
            ));
        }
        let (old, new_dims) = (s.dims.clone(), n.dims.clone());
        self.same_shape(&at, &old, &new_dims)?;
        let entry = self.open_entry(&at)?;
        if entry.prepare || entry.updates.iter().any(|(s, _)| *s == state) {
            return Err(Error::name(&at, "state or param updated twice, or in a prepare entry", &at));
        }
        entry.updates.push((state, new));
        Ok(())
    }

    /// In a prepare entry: makes a value computed there visible to all other entries under a name.
    pub fn derive(&mut self, name: &str, v: Value) -> Result<Value, Error> {
        self.visible(name, v)?;
        if !self.open_entry(name)?.prepare || self.frames.len() != 1 {
            return Err(Error::name(name, "derived outside the top of a prepare entry", name));
        }
        if name.is_empty() || !self.names.insert(name.into()) {
            return Err(Error::name(name, "name missing or used twice", name));
        }
        let t = self.graph.tensor(v).clone();
        let d = self.graph.push(Tensor { name: name.into(), source: Source::Derived, scope: 0, ..t });
        let kind = NodeKind::Op { op: &serinette_core::op::movement::COPY, attrs: Vec::new() };
        self.push_node(Node::new(name, kind, &[v], &[d]))?;
        Ok(d)
    }

    /// Attaches JSON to an input or output: how to make the tensor from a file, or show it to a person.
    pub fn hint(&mut self, name: &str, json: &str) {
        self.graph.hints.insert(name.into(), json.into());
    }

    /// Metadata such as `name`, `version`, `licence`.
    pub fn metadata(&mut self, key: &str, value: &str) {
        self.graph.metadata.insert(key.into(), value.into());
    }

    /// A note for whoever compiles the graph.
    pub fn note(&mut self, text: impl Into<String>) {
        self.graph.notes.push(text.into());
    }

    /// What is known about a value.
    pub fn tensor(&self, v: Value) -> Option<&Tensor> {
        self.graph.tensors.get(v.index())
    }

    fn same_shape(&mut self, at: &str, a: &[Dim], b: &[Dim]) -> Result<(), Error> {
        if a.len() != b.len() {
            return Err(Error::count(at, "axes", a.len() as u64, b.len() as u64));
        }
        for (x, y) in a.iter().zip(b) {
            self.graph.dims.require_equal("dimension", *x, *y).map_err(|e| Error::shape(at, e))?;
        }
        Ok(())
    }

    fn push_node(&mut self, node: Node) -> Result<(), Error> {
        let at = node.name.clone();
        let frame = self.frames.last_mut().ok_or(Error::count(&at, "open entries", 1, 0))?;
        frame.block.nodes.push(node);
        Ok(())
    }

    /// A step of any op of the table. Element types of the outputs follow from the signature, or are given in
    /// `dtypes` where it leaves them open (`Cast`); `declared` gives the output dimensions of ops that need them.
    pub fn op_with<A: serinette_core::op::Attributes>(
        &mut self,
        name: &str,
        op: &'static OpDescriptor,
        attrs: A,
        inputs: &[Option<Value>],
        dtypes: &[DType],
        declared: Option<&[Size]>,
    ) -> Result<Vec<Value>, Error> {
        attrs.check().map_err(|source| Error::Attribute { at: name.into(), source })?;
        if op.attr_size != std::mem::size_of::<A>() {
            let (want, have) = (op.attr_size as u64, std::mem::size_of::<A>() as u64);
            return Err(Error::count(name, "bytes of the attribute record", want, have));
        }
        let attrs = bytemuck::bytes_of(&attrs);
        let scope = self.scope(name)?;
        for v in inputs.iter().flatten() {
            self.visible(name, *v)?;
        }
        let declared = declared.map(|d| self.sizes(name, d)).transpose()?;
        let (types, shapes) = infer(&mut self.graph, name, op, attrs, inputs, dtypes, declared.as_deref())?;
        let mut outputs = Vec::new();
        for (i, (dtype, dims)) in types.iter().zip(shapes).enumerate() {
            self.check_bytes(name, *dtype, &dims)?;
            let label = if i == 0 { name.to_owned() } else { format!("{name}:{i}") };
            outputs.push(self.graph.computed(label, *dtype, dims, scope));
        }
        let kind = NodeKind::Op { op, attrs: attrs.to_vec() };
        self.push_node(Node { name: name.into(), kind, inputs: inputs.to_vec(), outputs: outputs.clone() })?;
        Ok(outputs)
    }

    /// Calls a value that is computed by a name of its own rather than by its node's. Its first such name stays.
    pub(crate) fn label(&mut self, v: Value, name: &str) {
        if let Some(t) = self.graph.tensors.get_mut(v.index())
            && t.source == Source::Computed
            && self.labelled.insert(v)
        {
            t.name = name.into();
        }
    }

    /// [`op_with`](Self::op_with) for the common case: all inputs present, one output that follows from the
    /// signature.
    pub fn op<A: serinette_core::op::Attributes>(
        &mut self,
        name: &str,
        op: &'static OpDescriptor,
        attrs: A,
        inputs: &[Value],
    ) -> Result<Value, Error> {
        let inputs: Vec<_> = inputs.iter().map(|v| Some(*v)).collect();
        self.single(name, op, attrs, &inputs, &[], None)
    }

    /// [`op_with`](Self::op_with) for one output.
    pub(crate) fn single<A: serinette_core::op::Attributes>(
        &mut self,
        name: &str,
        op: &'static OpDescriptor,
        attrs: A,
        inputs: &[Option<Value>],
        dtypes: &[DType],
        declared: Option<&[Size]>,
    ) -> Result<Value, Error> {
        let outputs = self.op_with(name, op, attrs, inputs, dtypes, declared)?;
        outputs.first().copied().ok_or(Error::count(name, "outputs", 1, 0))
    }

    /// How many nodes the open block has.
    pub(crate) fn nodes_open(&self) -> usize {
        self.frames.last().map_or(0, |f| f.block.nodes.len())
    }

    /// Computes the nodes that the open block got since it had `before`: `None` where one of them cannot be computed now.
    /// The nodes stay.
    pub(crate) fn evaluate_since(&self, before: usize) -> Option<HashMap<Value, Data>> {
        let nodes = self.frames.last()?.block.nodes.get(before..)?;
        crate::passes::fold::evaluate_all(&self.graph, nodes)
    }

    /// The finished graph.
    pub fn finish(mut self) -> Result<Graph, Error> {
        self.close_entry()?;
        if self.graph.entries.is_empty() {
            return Err(Error::count("graph", "entries", 1, 0));
        }
        Ok(self.graph)
    }
}

/// Element types and dimensions of the outputs of an op.
pub(crate) fn infer(
    graph: &mut Graph,
    at: &str,
    op: &'static OpDescriptor,
    attrs: &[u8],
    inputs: &[Option<Value>],
    dtypes: &[DType],
    declared: Option<&[Dim]>,
) -> Result<(Vec<DType>, Vec<Vec<Dim>>), Error> {
    let given: Vec<Option<DType>> = inputs.iter().map(|v| v.map(|v| graph.tensor(v).dtype)).collect();
    let mut types = Vec::new();
    for (o, operand) in op.outputs.iter().enumerate() {
        let tied = (0..given.len())
            .find(|i| operand.tie != '-' && op.input(*i).is_some_and(|x| x.tie == operand.tie))
            .and_then(|i| given.get(i).copied().flatten());
        let mut only = operand.dtypes.iter();
        let t = dtypes.get(o).copied().or(tied).or(match (only.next(), only.next()) {
            (Some(t), None) => Some(t),
            _ => None,
        });
        types.push(t.ok_or_else(|| Error::types(at, format!("an element type for output {o}"), "none"))?);
    }
    if !op.accepts(&given, &types) {
        return Err(Error::types(at, signature_text(op), types_text(&given, &types)));
    }
    let mut dims = Vec::new();
    for v in inputs {
        let d = v.map(|v| Dims::new(&graph.tensor(v).dims)).transpose().map_err(|e| Error::shape(at, e))?;
        dims.push(d);
    }
    let mut out = [Dims::SCALAR; MAX_OUTPUTS];
    if let Some(d) = declared {
        // An op with several results of declared dimensions gives them the same ones, or works the others out.
        out.fill(Dims::new(d).map_err(|e| Error::shape(at, e))?);
    } else if op.declared_output {
        return Err(Error::count(at, "declared output dimensions", 1, 0));
    }
    let out = out.get_mut(..op.outputs.len()).unwrap_or(&mut []);
    (op.shape_rule)(&mut graph.dims, &ShapeArgs { attrs, inputs: &dims }, out)
        .map_err(|e| Error::shape(at, e))?;
    Ok((types, out.iter().map(|d| d.as_slice().to_vec()).collect()))
}

fn signature_text(op: &OpDescriptor) -> String {
    let operand = |o: &serinette_core::op::Operand| {
        let names: Vec<_> = o.dtypes.iter().map(|t| t.name()).collect();
        format!("{}: {}{}", o.name, names.join("/"), if o.optional { " (optional)" } else { "" })
    };
    let list = |o: &[serinette_core::op::Operand]| o.iter().map(operand).collect::<Vec<_>>().join(", ");
    format!("{}({}) → {}", op.name, list(op.inputs), list(op.outputs))
}

fn types_text(inputs: &[Option<DType>], outputs: &[DType]) -> String {
    let name = |t: &Option<DType>| t.map_or("absent", DType::name);
    let inputs: Vec<_> = inputs.iter().map(name).collect();
    let outputs: Vec<_> = outputs.iter().map(|t| t.name()).collect();
    format!("({}) → {}", inputs.join(", "), outputs.join(", "))
}
