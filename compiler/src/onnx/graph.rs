//! Walking the nodes of a model.

use super::node::{Fail, Node};
use super::proto::{GraphProto, ModelProto, ValueInfoProto};
use super::tensor::{self, Constant};
use super::{ImportOptions, inputs, ops};
use crate::builder::GraphBuilder;
use crate::data::Data;
use crate::error::{Error, Unsupported};
use crate::graph::{Graph, Value};
use serinette_core::DType;
use serinette_core::shape::{Dim, DimAlgebra};
use std::collections::{HashMap, HashSet};

/// Oldest operator set whose ops mean what the importer thinks.
const OLDEST_OPSET: i64 = 11;
/// Newest one checked against.
const NEWEST_OPSET: i64 = 21;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// A value of the graph. `wide`: int64 in the file, i32 here.
    Value { value: Value, wide: bool },
    /// Contents known at import: entry of [`Importer::constants`].
    Constant(usize),
    /// The result of a node that could not be imported.
    Poisoned,
}

/// A constant and the value made of it, once a node wanted one.
struct Known {
    constant: Constant,
    value: Option<Value>,
}

/// The state of an import.
pub(super) struct Importer<'m> {
    pub b: GraphBuilder,
    pub options: &'m ImportOptions,
    pub opset: i64,
    /// Names visible now: the graph, then the subgraphs that are open.
    scopes: Vec<HashMap<&'m str, Item>>,
    constants: Vec<Known>,
    unsupported: Vec<Unsupported>,
    /// Bounds that were used.
    pub bounds_used: HashSet<String>,
    pub symbols: HashMap<String, Dim>,
}

pub(super) fn import_model(model: &ModelProto, options: &ImportOptions) -> Result<Graph, Error> {
    let graph = model.graph.as_ref().ok_or(Error::malformed("file", "an ONNX model without a graph"))?;
    let opset = model.opset_import.iter().find(|o| o.domain.is_empty() || o.domain == "ai.onnx");
    let opset = opset.map_or(0, |o| o.version);
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
        let what = format!("operator set {opset}; versions {OLDEST_OPSET} to {NEWEST_OPSET} are known");
        return Err(Error::malformed("file", what));
    }
    let mut im = Importer {
        b: GraphBuilder::new(),
        options,
        opset,
        scopes: vec![HashMap::new()],
        constants: Vec::new(),
        unsupported: Vec::new(),
        bounds_used: HashSet::new(),
        symbols: HashMap::new(),
    };
    im.b.entry("main")?;
    im.check_options(graph)?;
    im.initialisers(graph)?;
    inputs::import(&mut im, graph)?;
    im.nodes(graph)?;
    if !im.unsupported.is_empty() {
        return Err(Error::Unsupported(im.unsupported));
    }
    im.outputs(graph)?;
    if let Some(name) = options.bounds.keys().find(|n| !im.bounds_used.contains(*n)) {
        return Err(Error::name("bound", "no size or data-dependent loop of this name", name));
    }
    inputs::hints(&mut im, graph)?;
    im.b.finish()
}

impl<'m> Importer<'m> {
    fn check_options(&self, graph: &GraphProto) -> Result<(), Error> {
        let has = |list: &[ValueInfoProto], name: &str| list.iter().any(|v| v.name == name);
        for name in self.options.shapes.keys().chain(self.options.states.iter().map(|(i, _)| i)) {
            if !has(&graph.input, name) {
                return Err(Error::name("options", "the graph has no input of this name", name));
            }
        }
        match self.options.states.iter().find(|(_, o)| !has(&graph.output, o)) {
            Some((_, name)) => Err(Error::name("options", "the graph has no output of this name", name)),
            None => Ok(()),
        }
    }

    /// Binds a name in the innermost scope.
    pub fn define(&mut self, at: &str, name: &'m str, item: Item) -> Result<(), Error> {
        if self.lookup(name).is_some() {
            return Err(Error::name(at, "name defined twice", name));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, item);
        }
        Ok(())
    }

    /// What a name stands for here.
    pub fn lookup(&self, name: &str) -> Option<Item> {
        self.scopes.iter().rev().find_map(|s| s.get(name).copied())
    }

    pub fn open_scope(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn close_scope(&mut self) {
        self.scopes.pop();
    }

    /// A constant that nodes may read at import, and that becomes a value when one wants it.
    pub fn add_constant(&mut self, constant: Constant) -> Item {
        self.constants.push(Known { constant, value: None });
        Item::Constant(self.constants.len() - 1)
    }

    pub fn initialisers(&mut self, graph: &'m GraphProto) -> Result<(), Error> {
        if !graph.sparse_initializer.is_empty() {
            return Err(Error::malformed("graph", "sparse initialisers are not supported"));
        }
        for t in &graph.initializer {
            if t.name.is_empty() {
                return Err(Error::name("initialiser", "name missing", ""));
            }
            let item = Constant::read(t, "initialiser").map(|c| self.add_constant(c))?;
            self.define("initialiser", &t.name, item)?;
        }
        Ok(())
    }

    /// Imports the nodes of a graph or subgraph into the block that is open.
    pub fn nodes(&mut self, graph: &'m GraphProto) -> Result<(), Error> {
        let later: HashSet<&str> =
            graph.node.iter().flat_map(|n| n.output.iter().map(String::as_str)).collect();
        for proto in &graph.node {
            let node = Node::new(proto);
            for name in proto.input.iter().filter(|n| !n.is_empty()) {
                if self.lookup(name).is_none() {
                    let what = if later.contains(name.as_str()) {
                        "input comes from a later node (a cycle, or nodes out of order)"
                    } else {
                        "input that nothing defines"
                    };
                    return Err(Error::name(&node.name, what, name));
                }
            }
            let items = match self.node(&node) {
                Ok(items) => items,
                Err(Fail::Wrong(e)) => return Err(e),
                Err(Fail::Poisoned) => Vec::new(),
                Err(Fail::Unsupported(reason)) => {
                    let (domain, op) = (&proto.domain, &proto.op_type);
                    let op = if domain.is_empty() { op.clone() } else { format!("{domain}.{op}") };
                    self.unsupported.push(Unsupported { node: node.name.clone(), op, reason });
                    Vec::new()
                }
            };
            for (i, name) in proto.output.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                let item = items.get(i).copied().unwrap_or(Item::Poisoned);
                self.define(&node.name, name, item)?;
            }
            self.check_declared(graph, proto.output.iter());
        }
        Ok(())
    }

    fn node(&mut self, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
        let known_domain = matches!(node.proto.domain.as_str(), "" | "ai.onnx");
        let handler = ops::find(&node.proto.op_type).filter(|_| known_domain);
        let handler = handler.ok_or(Fail::Unsupported("op not known".into()))?;
        let items = handler(self, node)?;
        if let Some(name) = node.ignored() {
            return Err(Fail::Unsupported(format!("attribute {name} is not known")));
        }
        let wanted = node.proto.output.iter().rposition(|o| !o.is_empty()).map_or(0, |i| i + 1);
        if wanted > items.len() {
            return Err(Fail::Unsupported(format!("output {wanted} is not made")));
        }
        Ok(items)
    }

    fn outputs(&mut self, graph: &'m GraphProto) -> Result<(), Error> {
        if graph.output.is_empty() {
            return Err(Error::count("graph", "outputs", 1, 0));
        }
        for o in &graph.output {
            let item = self.lookup(&o.name).ok_or(Error::name("output", "nothing defines it", &o.name))?;
            let (mut value, wide) = self.materialise(&o.name, item)?.ok_or(Error::name(
                "output",
                "it could not be imported",
                &o.name,
            ))?;
            if let Some((state, _)) = self.options.states.iter().find(|(_, out)| *out == o.name) {
                let state = match self.lookup(state) {
                    Some(Item::Value { value, .. }) => value,
                    _ => return Err(Error::name("state", "nothing defines it", state)),
                };
                self.b.update(state, value)?;
                continue;
            }
            if wide {
                value = self.b.cast(&format!("{}:i64", o.name), value, DType::I64)?;
                self.b.note(format!("output {} is computed in 32 bits and widened to int64", o.name));
            }
            let have = self.b.tensor(value).map(|t| t.dtype);
            let declared = o.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
            if let Some(t) = declared.and_then(|t| tensor::dtype(t.elem_type)).filter(|t| Some(*t) != have) {
                let have = have.map_or("?", DType::name);
                return Err(Error::types(&o.name, format!("the declared type {t}"), have));
            }
            self.b.output(&o.name, value)?;
        }
        self.check_declared(graph, graph.output.iter().map(|o| &o.name));
        Ok(())
    }

    /// Notes where the file declares other sizes than inference finds.
    fn check_declared<'n>(&mut self, graph: &GraphProto, names: impl Iterator<Item = &'n String>) {
        for name in names {
            let declared = graph.value_info.iter().chain(&graph.output).find(|v| v.name == *name);
            let shape = declared.and_then(|v| v.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref());
            let (Some(shape), Some(Item::Value { value, .. })) = (shape, self.lookup(name)) else { continue };
            let dims = self.b.graph.tensor(value).dims.clone();
            let fits = dims.len() == shape.dim.len()
                && dims.iter().zip(&shape.dim).all(|(d, s)| {
                    let named = s.dim_param.as_ref().and_then(|p| self.symbols.get(p));
                    match (s.dim_value, named, self.b.graph.dims.known(*d)) {
                        (Some(want), _, Some(have)) => u64::try_from(want) == Ok(have),
                        (None, Some(want), _) => want == d,
                        _ => true,
                    }
                });
            if !fits {
                let have: Vec<_> = dims.iter().map(|d| self.b.graph.dims.text(*d)).collect();
                self.b.note(format!("{name}: the declared shape is wrong; it is [{}]", have.join(", ")));
            }
        }
    }

    /// The value of an item (`None` for a poisoned one) and whether it was int64.
    pub fn materialise(&mut self, at: &str, item: Item) -> Result<Option<(Value, bool)>, Error> {
        let id = match item {
            Item::Value { value, wide } => return Ok(Some((value, wide))),
            Item::Poisoned => return Ok(None),
            Item::Constant(id) => id,
        };
        let Some(known) = self.constants.get(id) else { return Ok(None) };
        let wide = known.constant.dtype == DType::I64;
        if let Some(v) = known.value {
            return Ok(Some((v, wide)));
        }
        let c = known.constant.clone();
        let value = if wide {
            let narrow: Vec<i32> = c
                .data
                .numbers::<i64>()
                .map(|v| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
                .collect();
            if c.data.numbers::<i64>().zip(&narrow).any(|(a, b)| a != i64::from(*b)) {
                self.b.note(format!("{at}: int64 constant {} does not fit 32 bits; it saturates", c.name));
            }
            self.b.constant(DType::I32, &c.dims, Data::from_slice(&narrow))?
        } else if c.name.is_empty() || c.dims.is_empty() {
            self.b.constant(c.dtype, &c.dims, c.data)?
        } else {
            // Two subgraphs may use the same name for different tensors.
            match self.b.weight(&c.name, c.dtype, &c.dims, c.data.clone()) {
                Err(Error::Name { .. }) => self.b.constant(c.dtype, &c.dims, c.data)?,
                made => made?,
            }
        };
        if let Some(k) = self.constants.get_mut(id) {
            k.value = Some(value);
        }
        Ok(Some((value, wide)))
    }

    /// Input `i` of a node as a value, and whether it was int64.
    pub fn input(&mut self, node: &Node<'m>, i: usize) -> Result<(Value, bool), Fail> {
        self.optional(node, i)?.ok_or_else(|| node.wrong(format!("input {i} is missing")))
    }

    /// Input `i` as a value, if it is given.
    pub fn optional(&mut self, node: &Node<'m>, i: usize) -> Result<Option<(Value, bool)>, Fail> {
        match self.item(node, i) {
            None => Ok(None),
            Some(item) => match self.materialise(&node.name, item)? {
                Some(found) => Ok(Some(found)),
                None => Err(Fail::Poisoned),
            },
        }
    }

    pub fn item(&self, node: &Node<'m>, i: usize) -> Option<Item> {
        node.proto.input.get(i).filter(|n| !n.is_empty()).and_then(|n| self.lookup(n))
    }

    /// Input `i` as a constant, if its contents are known now.
    pub fn constant(&self, node: &Node<'m>, i: usize) -> Option<&Constant> {
        match self.item(node, i)? {
            Item::Constant(id) => self.constants.get(id).map(|k| &k.constant),
            _ => None,
        }
    }

    /// Input `i` as integers known now; `None` if it is not given.
    pub fn constant_integers(&self, node: &Node<'m>, i: usize, what: &str) -> Result<Option<Vec<i64>>, Fail> {
        if !node.has(i) {
            return Ok(None);
        }
        if matches!(self.item(node, i), Some(Item::Poisoned)) {
            return Err(Fail::Poisoned);
        }
        match self.constant(node, i).and_then(Constant::integers) {
            Some(v) => Ok(Some(v)),
            None => Err(Fail::Unsupported(format!("{what} must be constant integers"))),
        }
    }

    pub fn dims_of(&self, v: Value) -> Vec<Dim> {
        self.b.graph.tensor(v).dims.clone()
    }

    pub fn rank(&self, v: Value) -> usize {
        self.b.graph.tensor(v).dims.len()
    }
}
