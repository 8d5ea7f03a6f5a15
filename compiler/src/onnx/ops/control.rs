//! `If` and `Loop`. `scan` has `Scan`, and the rows that both collect.

use super::Handler;
use super::scan::{Rows, collect};
use crate::builder::{LoopSpec, OpenLoop, Size, Trips};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Value};
use crate::onnx::DEFAULT_TRIPS;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::proto::{GraphProto, ValueInfoProto};
use crate::onnx::sizes::Entry;
use serinette_core::DType;
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[("If", if_), ("Loop", loop_)];

/// Values and which of them were int64.
pub(super) type Results = (Vec<Value>, Vec<bool>);

/// Imports the nodes of a subgraph into the open block; gives its results.
pub(super) fn subgraph<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    graph: &'m GraphProto,
) -> Result<Results, Fail> {
    im.initialisers(graph)?;
    im.nodes(graph)?;
    let (mut values, mut wide) = (Vec::new(), Vec::new());
    for o in &graph.output {
        let item = im.lookup(&o.name).ok_or_else(|| node.wrong(format!("nothing defines {:?}", o.name)))?;
        let (v, w) = im.materialise(&node.name, item)?.ok_or(Fail::Poisoned)?;
        values.push(v);
        wide.push(w);
    }
    Ok((values, wide))
}

pub(super) fn items(values: Vec<Value>, wide: &[bool]) -> Vec<Item> {
    let wide = wide.iter().copied().chain(std::iter::repeat(false));
    values.into_iter().zip(wide).map(|(value, wide)| Item::Value { value, wide }).collect()
}

/// A condition that is known now leaves one branch, whose nodes go where the `If` is.
fn taken<'m>(im: &mut Importer<'m>, node: &Node<'m>, condition: bool) -> Result<Vec<Item>, Fail> {
    let (name, other) =
        if condition { ("then_branch", "else_branch") } else { ("else_branch", "then_branch") };
    let (graph, _) = (node.graph(name)?, node.graph(other)?);
    im.open_scope();
    let items = branch(im, node, graph);
    im.close_scope();
    items
}

fn branch<'m>(im: &mut Importer<'m>, node: &Node<'m>, graph: &'m GraphProto) -> Result<Vec<Item>, Fail> {
    im.initialisers(graph)?;
    im.nodes(graph)?;
    let find = |o: &ValueInfoProto| {
        im.lookup(&o.name).ok_or_else(|| node.wrong(format!("nothing defines {:?}", o.name)))
    };
    graph.output.iter().map(find).collect()
}

fn if_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    if let Some(c) = im.constant(node, 0).filter(|c| c.dtype == DType::Bool && c.data.len() == 1) {
        let condition = c.data.as_bytes().iter().any(|b| *b != 0);
        return taken(im, node, condition);
    }
    let (condition, _) = im.input(node, 0)?;
    let (then, wide) = arm(im, node, "then_branch")?;
    let (otherwise, also) = arm(im, node, "else_branch")?;
    if wide != also {
        return Err(node.wrong("the branches give different element types"));
    }
    for (a, b) in then.results.iter().zip(&otherwise.results) {
        let (a, b) = (im.dims_of(*a), im.dims_of(*b));
        let known = |d| im.b.graph.dims.known(d);
        let differ = |(a, b): (&Dim, &Dim)| known(*a).zip(known(*b)).is_some_and(|(a, b)| a != b);
        if a.len() != b.len() || a.iter().zip(&b).any(differ) {
            let text = |v: &[Dim]| v.iter().map(|d| im.b.graph.dims.text(*d)).collect::<Vec<_>>().join(", ");
            return unsupported(format!("branches of different sizes: [{}] and [{}]", text(&a), text(&b)));
        }
    }
    let outputs = im.b.push_if(&node.name, condition, then, otherwise)?;
    Ok(items(outputs, &wide))
}

fn arm<'m>(im: &mut Importer<'m>, node: &Node<'m>, name: &str) -> Result<(Block, Vec<bool>), Fail> {
    let graph = node.graph(name)?;
    if !graph.input.is_empty() {
        return Err(node.wrong(format!("{name} has inputs")));
    }
    im.b.begin_region(&node.name)?;
    im.open_scope();
    let results = subgraph(im, node, graph);
    im.close_scope();
    // The block is closed even after an error, so that the nodes behind it are checked too.
    let (values, wide) = match results {
        Ok(found) => found,
        Err(e) => {
            im.b.end_region(&node.name, Vec::new())?;
            return Err(e);
        }
    };
    Ok((im.b.end_region(&node.name, values)?, wide))
}

/// The trip count: a number, a size, or a value with a bound; and whether it is certain but for the condition.
fn trips<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<(Trips, bool), Fail> {
    let known = im.sizes_of(node, 0).and_then(|s| s.entries.first().copied());
    match known {
        // Exporters write the greatest integer for "until the condition says so".
        Some(Entry::Number(n)) if n < i64::from(i32::MAX) => {
            let n = u64::try_from(n).unwrap_or(0);
            return Ok((Trips { most: Size::Number(n), count: None }, true));
        }
        Some(Entry::Size(d)) => return Ok((Trips { most: Size::Expr(d), count: None }, true)),
        _ => {}
    }
    let most = match im.options.bounds.get(&node.name) {
        Some((most, _)) => *most,
        None => {
            im.b.note(format!("loop {} depends on data; it makes at most {DEFAULT_TRIPS} trips", node.name));
            DEFAULT_TRIPS
        }
    };
    im.sizes.insert(node.name.clone());
    let count = if known.is_some() { None } else { im.optional(node, 0)?.map(|(v, _)| v) };
    Ok((Trips { most: Size::Number(most), count }, false))
}

fn loop_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let body = node.graph("body")?;
    if !node.has(0) && !node.has(1) {
        return unsupported("a loop without trip count and condition");
    }
    let carried = node.proto.input.len().saturating_sub(2);
    if body.input.len() != carried + 2 {
        let (want, have) = (carried as u64 + 2, body.input.len() as u64);
        return Err(Fail::Wrong(Error::count(&node.name, "inputs of the loop body", want, have)));
    }
    let Some(scans) = body.output.len().checked_sub(carried + 1) else {
        let (want, have) = (carried as u64 + 1, body.output.len() as u64);
        return Err(Fail::Wrong(Error::count(&node.name, "outputs of the loop body", want, have)));
    };
    let (trips, certain) = trips(im, node)?;
    if scans > 0 && !certain {
        return unsupported("rows of a loop whose trip count depends on data");
    }
    let condition = match im.optional(node, 1)? {
        Some((v, _)) => v,
        None => im.b.constant(DType::Bool, &[], Data::from_slice(&[1u8]))?,
    };
    let (mut initial, mut wide) = (vec![condition], vec![false]);
    for i in 0..carried {
        let (v, w) = im.input(node, i + 2)?;
        initial.push(v);
        wide.push(w);
    }
    let spec = LoopSpec { name: &node.name, trips, condition: Some(0), initial: &initial };
    let mut open = im.b.begin_loop(&spec)?;
    im.open_scope();
    let results = loop_body(im, node, body, &mut open, &wide, trips.most);
    im.close_scope();
    let (values, after, zeros) = match results {
        Ok(found) => found,
        Err(e) => {
            im.b.end_region(&node.name, Vec::new())?;
            return Err(e);
        }
    };
    initial.extend(zeros);
    let spec = LoopSpec { name: &node.name, trips, condition: Some(0), initial: &initial };
    let mut outputs = im.b.end_loop(&spec, open, values)?;
    outputs.remove(0);
    Ok(items(outputs, after.get(1..).unwrap_or(&[])))
}

/// Whether a condition is true whatever the data are.
fn always(im: &Importer<'_>, v: Value) -> bool {
    let data = im.b.graph.tensor(v).source.immutable_data();
    data.is_some_and(|d| !d.is_empty() && d.as_bytes().iter().all(|b| *b != 0))
}

/// What the carried values become, which of them were int64, and what those of the rows hold at first.
pub(super) type Body = (Vec<Value>, Vec<bool>, Vec<Value>);

fn loop_body<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    body: &'m GraphProto,
    open: &mut OpenLoop,
    wide: &[bool],
    count: Size,
) -> Result<Body, Fail> {
    let trip = im.b.size_scalar(&format!("{}:trip", node.name), open.counter)?;
    let mut names = body.input.iter();
    if let Some(i) = names.next() {
        im.define(&node.name, &i.name, Item::Value { value: trip, wide: true })?;
    }
    let args = open.args.clone();
    for ((name, value), wide) in names.zip(&args).zip(wide) {
        im.define(&node.name, &name.name, Item::Value { value: *value, wide: *wide })?;
    }
    let (mut values, after) = subgraph(im, node, body)?;
    let rows = values.split_off(args.len());
    if after.get(..wide.len()) != Some(wide) {
        return Err(node.wrong("a carried value changes its element type"));
    }
    if let (false, Some(next)) = (rows.is_empty(), values.first()) {
        let first = im.optional(node, 1)?.map(|(v, _)| v);
        let stays = args.first() == Some(next) || always(im, *next);
        if !stays || first.is_some_and(|v| !always(im, v)) {
            return unsupported("rows of a loop that a condition may end");
        }
    }
    let mut zeros = Vec::new();
    for row in rows {
        let (zero, next) = collect(im, node, open, &Rows { count, at: trip, row })?;
        zeros.push(zero);
        values.push(next);
    }
    Ok((values, after, zeros))
}
