//! Several graphs become one program.
//!
//! Symbols, weights, params and states of equal names are shared: each is there once, whichever entries use it. A
//! name that means two things is an error. Everything else belongs to the entry that it came with.

use crate::dims::{DimTable, SymbolInfo};
use crate::error::Error;
use crate::graph::{Block, Entry, Graph, Node, NodeKind, Source, Tensor, Value};
use serinette_core::op::size::{SIZE, Size};
use serinette_core::schedule::record::{expr_op, symbol_kind};
use serinette_core::shape::{Dim, DimAlgebra};
use std::collections::{BTreeMap, HashMap};

/// One graph with the entries of all, in their order.
///
/// # Errors
/// An entry name used twice, and names of sizes, weights, params, states and hints that mean different things.
pub fn merge(graphs: Vec<Graph>) -> Result<Graph, Error> {
    let mut graphs = graphs.into_iter();
    let first = graphs.next().ok_or(Error::count("graph", "entries", 1, 0))?;
    let mut shared = HashMap::new();
    for (i, t) in first.tensors.iter().enumerate().filter(|(_, t)| kind(&t.source).is_some()) {
        shared.insert(t.name.clone(), (Value(i as u32), title(&first)));
    }
    let mut m = Merge { into: first, shared };
    graphs.try_for_each(|g| m.add(&g))?;
    Ok(m.into)
}

/// How a message names a graph.
fn title(g: &Graph) -> String {
    let call = g.entries.iter().find(|e| !e.prepare).or(g.entries.first());
    call.map_or_else(|| "a graph".into(), |e| format!("entry '{}'", e.name))
}

/// What a named source is called; `None` for those without a name of their own in the program.
fn kind(s: &Source) -> Option<&'static str> {
    match s {
        Source::Weight(_) => Some("weight"),
        Source::Param(_) => Some("param"),
        Source::State => Some("state"),
        Source::Derived => Some("derived value"),
        Source::Computed | Source::Input { .. } | Source::Constant(_) => None,
    }
}

struct Merge {
    into: Graph,
    /// Names of the program: the value, and the graph that it came with.
    shared: HashMap<String, (Value, String)>,
}

impl Merge {
    fn add(&mut self, from: &Graph) -> Result<(), Error> {
        let title = title(from);
        let dims = expressions(&from.dims, &mut self.into.dims, &title)?;
        let scopes = self.into.tensors.iter().map(|t| t.scope).max().unwrap_or(0);
        let mut values = Vec::with_capacity(from.tensors.len());
        for t in &from.tensors {
            let mut t = t.clone();
            t.dims = t.dims.iter().map(|d| dims.get(*d)).collect::<Result<_, _>>()?;
            // Scope 0 is everywhere; the others are those of this graph's blocks alone.
            t.scope = if t.scope == 0 { 0 } else { t.scope.saturating_add(scopes) };
            values.push(self.value(t, &title)?);
        }
        let ids = Ids { dims: &dims, values: &values };
        for e in &from.entries {
            self.entry(e, &ids)?;
        }
        for (name, json) in &from.hints {
            let known = self.into.hints.entry(name.clone()).or_insert_with(|| json.clone());
            if known != json {
                let (first, second) = (known.clone(), format!("{json} in {title}"));
                return Err(Error::Conflict { what: "hint", name: name.clone(), first, second });
            }
        }
        for (key, text) in &from.metadata {
            let known = self.into.metadata.entry(key.clone()).or_insert_with(|| text.clone());
            if known != text {
                let note = format!("metadata {key} is {known:?}; {text:?} of {title} is left out");
                self.into.notes.push(note);
            }
        }
        for n in &from.notes {
            if !self.into.notes.contains(n) {
                self.into.notes.push(n.clone());
            }
        }
        Ok(())
    }

    /// The value of a tensor: a new one, or the one that has its name already.
    fn value(&mut self, t: Tensor, title: &str) -> Result<Value, Error> {
        let Some(what) = kind(&t.source) else { return Ok(self.into.push(t)) };
        let Some((known, origin)) = self.shared.get(&t.name).cloned() else {
            let name = t.name.clone();
            let v = self.into.push(t);
            self.shared.insert(name, (v, title.into()));
            return Ok(v);
        };
        let old = self.into.tensor(known);
        // What is derived is computed: equal names do not make equal computations.
        if old.source == t.source && old.dtype == t.dtype && old.dims == t.dims && t.source != Source::Derived
        {
            return Ok(known);
        }
        let (first, second) = (self.text(old, &origin), self.text(&t, title));
        let second = match difference(&old.source, &t.source) {
            Some(byte) if first == self.text(&t, &origin) => {
                format!("{second} with other contents from element {} on", byte / t.dtype.size().max(1))
            }
            _ => second,
        };
        Err(Error::Conflict { what, name: t.name, first, second })
    }

    fn text(&self, t: &Tensor, title: &str) -> String {
        let dims: Vec<String> = t.dims.iter().map(|d| self.into.dims.text(*d)).collect();
        let what = kind(&t.source).unwrap_or("value");
        format!("a {what} {} [{}] in {title}", t.dtype, dims.join(", "))
    }

    fn entry(&mut self, e: &Entry, ids: &Ids<'_>) -> Result<(), Error> {
        let block = ids.block(&e.block)?;
        let there = self.into.entries.iter_mut().find(|o| o.prepare);
        if let Some(prepare) = there.filter(|_| e.prepare) {
            // A program has one: it prepares what the others derive, too.
            prepare.block.nodes.extend(block.nodes);
            return Ok(());
        }
        if self.into.entries.iter().any(|o| o.name == e.name) {
            return Err(Error::name("entry", "name of an entry used twice", &e.name));
        }
        self.into.entries.push(Entry {
            name: e.name.clone(),
            prepare: e.prepare,
            inputs: ids.values(&e.inputs)?,
            outputs: e.outputs.clone(),
            updates: e
                .updates
                .iter()
                .map(|(s, n)| Ok((ids.value(*s)?, ids.value(*n)?)))
                .collect::<Result<_, Error>>()?,
            block,
        });
        Ok(())
    }
}

/// The first byte in which initial contents differ.
fn difference(a: &Source, b: &Source) -> Option<usize> {
    let (Source::Weight(a) | Source::Param(Some(a)), Source::Weight(b) | Source::Param(Some(b))) = (a, b)
    else {
        return None;
    };
    a.as_bytes().iter().zip(b.as_bytes()).position(|(x, y)| x != y)
}

/// Ids of one graph → ids of the merged one.
struct Ids<'a> {
    dims: &'a Dims,
    values: &'a [Value],
}

impl Ids<'_> {
    fn value(&self, v: Value) -> Result<Value, Error> {
        let known = self.values.len() as u64;
        self.values.get(v.index()).copied().ok_or(Error::count("graph", "values", known, u64::from(v.0)))
    }

    fn values(&self, of: &[Value]) -> Result<Vec<Value>, Error> {
        of.iter().map(|v| self.value(*v)).collect()
    }

    fn block(&self, b: &Block) -> Result<Block, Error> {
        let nodes = b.nodes.iter().map(|n| self.node(n)).collect::<Result<_, _>>()?;
        Ok(Block { args: self.values(&b.args)?, nodes, results: self.values(&b.results)? })
    }

    fn node(&self, n: &Node) -> Result<Node, Error> {
        let kind = match &n.kind {
            NodeKind::Op { op, attrs } => NodeKind::Op { op, attrs: self.attrs(n, attrs)? },
            NodeKind::Reshape => NodeKind::Reshape,
            NodeKind::Join { axis } => NodeKind::Join { axis: *axis },
            NodeKind::Window { axis, start } => {
                NodeKind::Window { axis: *axis, start: self.dims.get(*start)? }
            }
            NodeKind::If { then, otherwise } => {
                NodeKind::If { then: self.block(then)?, otherwise: self.block(otherwise)? }
            }
            NodeKind::Loop { body, max_trips, counter, condition } => NodeKind::Loop {
                body: self.block(body)?,
                max_trips: self.dims.get(*max_trips)?,
                counter: self.dims.get(*counter)?,
                condition: *condition,
            },
        };
        let inputs = n.inputs.iter().map(|v| v.map(|v| self.value(v)).transpose());
        let inputs = inputs.collect::<Result<_, _>>()?;
        Ok(Node { name: n.name.clone(), kind, inputs, outputs: self.values(&n.outputs)? })
    }

    /// Attributes with the expressions in them renamed.
    fn attrs(&self, n: &Node, attrs: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(mut size) = n.attrs::<Size>(&SIZE) else { return Ok(attrs.to_vec()) };
        for e in size.exprs.iter_mut().take(size.count as usize) {
            let new = self.dims.get(Dim(u64::from(*e)))?.0;
            *e =
                u32::try_from(new).map_err(|_| Error::count(&n.name, "expressions", u32::MAX.into(), new))?;
        }
        Ok(bytemuck::bytes_of(&size).to_vec())
    }
}

/// Expressions of one table → expressions of the merged one, by number.
struct Dims(Vec<Dim>);

impl Dims {
    fn get(&self, d: Dim) -> Result<Dim, Error> {
        let found = usize::try_from(d.0).ok().and_then(|i| self.0.get(i));
        found.copied().ok_or(Error::count("graph", "dimension of this graph", self.0.len() as u64, d.0))
    }
}

/// Brings every expression and guard of a table into another one. Made anew by its algebra, so that what is equal
/// gets equal ids there.
fn expressions(from: &DimTable, into: &mut DimTable, title: &str) -> Result<Dims, Error> {
    let fail = |e| Error::shape(title, e);
    let symbols = symbols(from, into, title)?;
    let mut dims = Dims(Vec::with_capacity(from.len()));
    for id in 0..from.len() as u64 {
        let e = from.expr(Dim(id)).ok_or(Error::count(title, "expressions", from.len() as u64, id))?;
        let a = || dims.get(Dim(u64::from(e.a)));
        let b = || dims.get(Dim(e.b));
        let made = match e.op {
            expr_op::CONSTANT => into.constant(e.b),
            expr_op::SYMBOL => {
                let symbol = symbols.get(&e.a).copied();
                Ok(symbol.ok_or(Error::count(title, "symbols", symbols.len() as u64, u64::from(e.a)))?)
            }
            expr_op::ADD => into.add(a()?, b()?),
            expr_op::MUL => into.mul(a()?, b()?),
            expr_op::SUB => into.saturating_sub(a()?, e.b),
            expr_op::DIV_FLOOR => into.div_floor(a()?, e.b),
            expr_op::DIV_CEIL => into.div_ceil(a()?, e.b),
            // No rule makes another one.
            code => return Err(Error::count(title, "code of an expression", 8, u64::from(code))),
        };
        dims.0.push(made.map_err(fail)?);
    }
    for g in from.guards() {
        let (a, b) = (dims.get(g.a)?, dims.get(g.b)?);
        let what = "sizes of a shared name";
        let made = if g.equal { into.require_equal(what, a, b) } else { into.require_at_most(what, a, b) };
        made.map_err(fail)?;
    }
    Ok(dims)
}

/// The symbols by number: those of a name that is known already, and new ones.
fn symbols(from: &DimTable, into: &mut DimTable, title: &str) -> Result<BTreeMap<u32, Dim>, Error> {
    // A symbol's expression is found by its number.
    let plain = |t: &DimTable| -> BTreeMap<u32, Dim> {
        let all = (0..t.len() as u64).map(Dim);
        all.filter_map(|d| t.as_symbol(d).map(|s| (s, d))).collect()
    };
    let known = plain(into);
    let mut made = BTreeMap::new();
    for id in plain(from).into_keys() {
        let Some(info) = from.symbols().get(id as usize) else { continue };
        let same = into.symbols().iter().position(|s| s.name == info.name);
        let d = match same {
            // Loops count for themselves, whatever they are called.
            _ if info.kind == symbol_kind::COUNTER => {
                let name = format!("{} of {title}", info.name);
                into.symbol(SymbolInfo { name, ..info.clone() })
            }
            None => into.symbol(info.clone()),
            Some(at) => {
                let old = into.symbols().get(at).filter(|s| *s != info).cloned();
                if let Some(old) = old {
                    let text = |s: &SymbolInfo| format!("{} to {} by {}", s.low, s.high, s.multiple_of);
                    let (first, second) = (text(&old), format!("{} in {title}", text(info)));
                    return Err(Error::Conflict { what: "size", name: info.name.clone(), first, second });
                }
                let d = known.get(&(at as u32)).copied();
                d.ok_or(Error::count(title, "symbols", known.len() as u64, at as u64))?
            }
        };
        made.insert(id, d);
    }
    Ok(made)
}
