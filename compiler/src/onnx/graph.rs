//! Walking the nodes of a model.

use super::entries::Names;
use super::node::{Fail, Node};
use super::proto::{GraphProto, ModelProto};
use super::sizes::{self, Sizes};
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
const OLDEST_OPSET: i64 = 7;
/// Newest one checked against.
const NEWEST_OPSET: i64 = 27;

/// Most elements of a constant that a node is computed from at import: shape arithmetic is small, and what is done with
/// weights is for the passes to decide.
const MOST_FOLDED: u64 = 16;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// A value of the graph. `wide`: int64 in the file, i32 here.
    Value { value: Value, wide: bool },
    /// Contents known at import: entry of [`Importer::constants`].
    Constant(usize),
    /// Integers known in terms of sizes: entry of [`Importer::size_lists`].
    Sizes(usize),
    /// The result of a node that could not be imported.
    Poisoned,
}

/// A constant and the value made of it, once a node wanted one.
pub(super) struct Known {
    pub constant: Constant,
    pub value: Option<Value>,
}

/// The state of an import.
pub(super) struct Importer<'m> {
    pub b: GraphBuilder,
    pub options: &'m ImportOptions,
    pub opset: i64,
    /// Names visible now: the graph, then the subgraphs that are open.
    scopes: Vec<HashMap<&'m str, Item>>,
    pub constants: Vec<Known>,
    pub size_lists: Vec<Sizes>,
    unsupported: Vec<Unsupported>,
    /// Names that some node or some output reads.
    used: HashSet<&'m str>,
    /// Names that layers read as their weights.
    pub weights: HashSet<&'m str>,
    /// Names of open sizes and of loops whose trip count depends on data.
    pub sizes: HashSet<String>,
    pub symbols: HashMap<String, Dim>,
    /// The i8 tensors that stand for u8 ones, less 128.
    pub shifted: HashMap<Value, Value>,
    /// The state of the random numbers, once a node wanted one.
    pub random: Option<Value>,
}

/// Imports one model as an entry. Options that do not concern it are left to others; `names` learns its sizes.
pub(super) fn import_model(
    model: &ModelProto,
    entry: &str,
    options: &ImportOptions,
    names: &mut Names,
) -> Result<Graph, Error> {
    let graph = model.graph.as_ref().ok_or(Error::malformed("file", "an ONNX model without a graph"))?;
    let opset = model.opset_import.iter().find(|o| ops::standard(&o.domain));
    // A file that has no node of the standard ops need not name a version of them.
    let none = if graph.node.iter().any(|n| ops::standard(&n.domain)) { 0 } else { NEWEST_OPSET };
    let opset = opset.map_or(none, |o| o.version);
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
        size_lists: Vec::new(),
        unsupported: Vec::new(),
        used: used(graph),
        weights: weights(graph),
        sizes: HashSet::new(),
        symbols: HashMap::new(),
        shifted: HashMap::new(),
        random: None,
    };
    im.b.entry(entry)?;
    im.initialisers(graph)?;
    inputs::import(&mut im, graph)?;
    im.nodes(graph)?;
    if !im.unsupported.is_empty() {
        return Err(Error::Unsupported(im.unsupported));
    }
    im.outputs(graph)?;
    names.sizes.extend(im.sizes);
    im.b.finish()
}

/// Every name that a node or an output reads, subgraphs included.
fn used(graph: &GraphProto) -> HashSet<&str> {
    let mut names: HashSet<&str> = graph.output.iter().map(|o| o.name.as_str()).collect();
    for node in &graph.node {
        names.extend(node.input.iter().map(String::as_str));
        for g in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
            names.extend(used(g));
        }
    }
    names
}

/// Every name that a layer of the graph reads besides what goes through it.
fn weights(graph: &GraphProto) -> HashSet<&str> {
    let layers = graph
        .node
        .iter()
        .filter(|n| matches!(n.op_type.as_str(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul"));
    layers.flat_map(|n| n.input.iter().skip(1)).map(String::as_str).collect()
}

impl<'m> Importer<'m> {
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

    /// Whether a subgraph is open.
    pub fn nested(&self) -> bool {
        self.scopes.len() > 1
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
            let mut c = Constant::read(t, "initialiser")?;
            let inner = self.scopes.len() > 1;
            let item = if !inner && self.options.params.contains(&t.name) {
                if c.dtype == DType::I64 {
                    return Err(Error::types(
                        &t.name,
                        "a param of a 32-bit or narrower type",
                        c.dtype.name(),
                    ));
                }
                Item::Value { value: self.b.param(&t.name, c.dtype, &c.dims, Some(c.data))?, wide: false }
            } else {
                if inner {
                    // Two subgraphs may use one name for different tensors: it means nothing outside.
                    c.name = String::new();
                }
                self.add_constant(c)
            };
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
                if let Item::Value { value, .. } = item {
                    self.b.label(value, name);
                }
                self.define(&node.name, name, item)?;
            }
            self.check_declared(graph, proto.output.iter());
        }
        Ok(())
    }

    fn node(&mut self, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
        let domain = node.proto.domain.as_str();
        let handler = ops::find(domain, &node.proto.op_type);
        let known = if ops::standard(domain) { sizes::evaluate(self, node)? } else { None };
        let items = match (known, handler) {
            (Some(items), _) => items,
            (None, Some(handler)) => self.folded(node, handler)?,
            (None, None) => return Err(Fail::Unsupported("op not known".into())),
        };
        if let Some(name) = node.ignored() {
            return Err(Fail::Unsupported(format!("attribute {name} is not known")));
        }
        // What nothing reads, such as the mask of a dropout, need not be made.
        let wanted =
            node.proto.output.iter().rposition(|o| self.used.contains(o.as_str())).map_or(0, |i| i + 1);
        if wanted > items.len() {
            return Err(Fail::Unsupported(format!("output {wanted} is not made")));
        }
        Ok(items)
    }

    /// Imports a node; computes it at once where all its inputs are small constants, so that shapes may depend on it.
    fn folded(&mut self, node: &Node<'m>, handler: ops::Handler) -> Result<Vec<Item>, Fail> {
        let constant = |im: &Self, i: usize| {
            let weight = |c: &Constant| !c.name.is_empty() && c.floating();
            im.constant(node, i).is_some_and(|c| !weight(c) && c.dims.iter().product::<u64>() <= MOST_FOLDED)
        };
        let inputs = node.proto.input.len();
        // Quantised constants stay recognisable.
        let quantised = matches!(node.proto.op_type.as_str(), "DequantizeLinear" | "QuantizeLinear");
        if inputs == 0 || quantised || !(0..inputs).all(|i| !node.has(i) || constant(self, i)) {
            return handler(self, node);
        }
        let before = self.b.nodes_open();
        let items = handler(self, node)?;
        let Some(known) = self.b.evaluate_since(before) else { return Ok(items) };
        Ok(items
            .into_iter()
            .map(|item| match item {
                Item::Value { value, wide } => {
                    // Some nodes hand on what they are given.
                    let given = self.b.graph.tensor(value).source.immutable_data();
                    match known.get(&value).or(given).cloned() {
                        Some(data) => self.known_result(value, wide, &data),
                        None => item,
                    }
                }
                other => other,
            })
            .collect())
    }

    /// A computed tensor as a constant; int64 again where it was in the file.
    fn known_result(&mut self, value: Value, wide: bool, data: &Data) -> Item {
        let t = self.b.graph.tensor(value);
        let (dtype, dims) = (t.dtype, self.b.graph.known_dims(value));
        let Some(dims) = dims else { return Item::Value { value, wide } };
        let (dtype, data) = if wide && dtype == DType::I32 {
            let wider: Vec<i64> = data.numbers::<i32>().map(i64::from).collect();
            (DType::I64, Data::from_slice(&wider))
        } else {
            (dtype, data.clone())
        };
        self.add_constant(Constant { name: String::new(), dtype, dims, data })
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
                let state = self.state(graph, state, value)?;
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

    /// The state that an output is the new contents of: an input of this file, or one that only others read.
    fn state(&mut self, graph: &GraphProto, name: &str, new: Value) -> Result<Value, Error> {
        if graph.input.iter().any(|i| i.name == name)
            && let Some(Item::Value { value, .. }) = self.lookup(name)
        {
            return Ok(value);
        }
        let (dtype, dims) = (self.b.graph.tensor(new).dtype, self.b.graph.known_dims(new));
        let dims =
            dims.ok_or_else(|| Error::malformed(name, "a state must have known sizes (give its shape)"))?;
        self.b.state(name, dtype, &dims)
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
}
