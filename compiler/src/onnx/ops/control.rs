//! `If` and `Loop`.

use super::Handler;
use crate::builder::{LoopSpec, Size, Trips};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Value};
use crate::onnx::DEFAULT_TRIPS;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::proto::GraphProto;
use serinette_core::DType;

pub(super) static HANDLERS: &[(&str, Handler)] = &[("If", if_), ("Loop", loop_)];

/// Values and which of them were int64.
type Results = (Vec<Value>, Vec<bool>);

/// Imports the nodes of a subgraph into the open block; gives its results.
fn subgraph<'m>(im: &mut Importer<'m>, node: &Node<'m>, graph: &'m GraphProto) -> Result<Results, Fail> {
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

fn items(values: Vec<Value>, wide: &[bool]) -> Vec<Item> {
    let wide = wide.iter().copied().chain(std::iter::repeat(false));
    values.into_iter().zip(wide).map(|(value, wide)| Item::Value { value, wide }).collect()
}

fn if_<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (condition, _) = im.input(node, 0)?;
    let (then, wide) = arm(im, node, "then_branch")?;
    let (otherwise, also) = arm(im, node, "else_branch")?;
    if wide != also {
        return Err(node.wrong("the branches give different element types"));
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

/// The trip count: a number, or a value with a bound.
fn trips<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Trips, Fail> {
    let known = im.constant(node, 0).and_then(|c| c.integers());
    if let Some(n) = known.as_deref().and_then(|v| v.first()) {
        // Exporters write the greatest integer for "until the condition says so".
        if *n < i64::from(i32::MAX) {
            let n = u64::try_from(*n).unwrap_or(0);
            return Ok(Trips { most: Size::Number(n), count: None });
        }
    }
    let most = match im.options.bounds.get(&node.name) {
        Some((most, _)) => *most,
        None => {
            im.b.note(format!("loop {} depends on data; it makes at most {DEFAULT_TRIPS} trips", node.name));
            DEFAULT_TRIPS
        }
    };
    im.bounds_used.insert(node.name.clone());
    let count = if known.is_some() { None } else { im.optional(node, 0)?.map(|(v, _)| v) };
    Ok(Trips { most: Size::Number(most), count })
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
    if body.output.len() != carried + 1 {
        return unsupported(format!("{} scan outputs", body.output.len().saturating_sub(carried + 1)));
    }
    let trips = trips(im, node)?;
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
    let open = im.b.begin_loop(&spec)?;
    im.open_scope();
    let results = loop_body(im, node, body, open.counter, &open.args, &wide);
    im.close_scope();
    let (values, after) = match results {
        Ok(found) => found,
        Err(e) => {
            im.b.end_region(&node.name, Vec::new())?;
            return Err(e);
        }
    };
    if after != wide {
        im.b.end_region(&node.name, Vec::new())?;
        return Err(node.wrong("a carried value changes its element type"));
    }
    let mut outputs = im.b.end_loop(&spec, open, values)?;
    outputs.remove(0);
    Ok(items(outputs, wide.get(1..).unwrap_or(&[])))
}

fn loop_body<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    body: &'m GraphProto,
    counter: serinette_core::shape::Dim,
    args: &[Value],
    wide: &[bool],
) -> Result<Results, Fail> {
    let trip = im.b.size_scalar(&format!("{}:trip", node.name), counter)?;
    let mut names = body.input.iter();
    if let Some(i) = names.next() {
        im.define(&node.name, &i.name, Item::Value { value: trip, wide: true })?;
    }
    for ((name, value), wide) in names.zip(args).zip(wide) {
        im.define(&node.name, &name.name, Item::Value { value: *value, wide: *wide })?;
    }
    subgraph(im, node, body)
}
