//! `Scan`, and the rows that loops collect: a carried value of the whole size, into which each trip writes one.

use super::Handler;
use super::control::{Body, items, subgraph};
use crate::builder::{LoopSpec, OpenLoop, Size, Trips};
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::proto::GraphProto;
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::scatter::SCATTER_ND;
use serinette_core::schedule::record::expr_op;
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[("Scan", scan)];

/// What one trip adds.
pub(super) struct Rows {
    /// How many there will be.
    pub count: Size,
    /// Where this one goes, i32.
    pub at: Value,
    pub row: Value,
}

/// Writes a row in the body that is open. Gives what the collection holds before the first trip, and after this one.
pub(super) fn collect(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    open: &mut OpenLoop,
    rows: &Rows,
) -> Result<(Value, Value), Fail> {
    let dims = im.dims_of(rows.row);
    let first = im.b.graph.dims.as_symbol(open.counter).unwrap_or(0);
    if dims.iter().any(|d| inside(im, *d, first)) {
        return unsupported("rows whose size changes from trip to trip");
    }
    if dims.len() == serinette_core::MAX_RANK {
        return unsupported(format!("rows with {} axes", dims.len()));
    }
    let sizes = |outer: Size| -> Vec<Size> {
        std::iter::once(outer).chain(dims.iter().map(|d| Size::Expr(*d))).collect()
    };
    let dtype = im.b.graph.tensor(rows.row).dtype;
    let zeros = im.b.carry_zeros(&format!("{}:rows", node.name), open, dtype, &sizes(rows.count))?;
    let all = *open.args.last().ok_or_else(|| node.wrong("a loop that carries nothing"))?;
    let label = |what: &str| format!("{}:{what}", node.name);
    let at = im.b.reshape(&label("position"), rows.at, &[Size::Number(1), Size::Number(1)])?;
    let row = im.b.reshape(&label("row"), rows.row, &sizes(Size::Number(1)))?;
    Ok((zeros, im.b.op(&label("collected"), &SCATTER_ND, NoAttributes {}, &[all, at, row])?))
}

/// Whether a size depends on the counter `first` or on one that was made later.
fn inside(im: &Importer<'_>, d: Dim, first: u32) -> bool {
    let mut todo = vec![d];
    while let Some(d) = todo.pop() {
        let Some(e) = im.b.graph.dims.expr(d) else { return true };
        match e.op {
            expr_op::CONSTANT => {}
            expr_op::SYMBOL if e.a >= first => return true,
            expr_op::SYMBOL => {}
            expr_op::ADD | expr_op::MUL => todo.extend([Dim(u64::from(e.a)), Dim(e.b)]),
            _ => todo.push(Dim(u64::from(e.a))),
        }
    }
    false
}

/// An axis and a direction for each of `n` tensors.
fn ways(node: &Node<'_>, axes: &str, directions: &str, n: usize) -> Result<Vec<(i64, bool)>, Fail> {
    let list = |name: &str| match node.ints(name) {
        None => Ok(vec![0; n]),
        Some(v) if v.len() == n => Ok(v.to_vec()),
        Some(v) => Err(node.wrong(format!("{name} has {} entries for {n} tensors", v.len()))),
    };
    Ok(list(axes)?.into_iter().zip(list(directions)?).map(|(axis, d)| (axis, d != 0)).collect())
}

/// A tensor that a scan reads one row after the other.
struct Scanned {
    value: Value,
    wide: bool,
    axis: usize,
    reverse: bool,
}

fn scan<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let body = node.graph("body")?;
    // Version 8 has a batch axis, and lengths.
    let old = im.opset < 9;
    let skip = usize::from(old);
    if old && node.has(0) {
        return unsupported("lengths of sequences (operator set 8)");
    }
    let inputs = node.proto.input.len().saturating_sub(skip);
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)?).ok().filter(|n| *n > 0 && *n <= inputs);
    let scanned = scanned.ok_or_else(|| node.wrong("num_scan_inputs"))?;
    let states = inputs - scanned;
    if body.input.len() != inputs || body.output.len() < states {
        let (want, have) = (inputs as u64, body.input.len() as u64);
        return Err(Fail::Wrong(Error::count(&node.name, "inputs of the scan body", want, have)));
    }
    let direction = if old { "directions" } else { "scan_input_directions" };
    let ways_in = ways(node, "scan_input_axes", direction, scanned)?;
    let ways_out = ways(node, "scan_output_axes", "scan_output_directions", body.output.len() - states)?;
    let (mut initial, mut wide, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..inputs {
        let (mut value, w) = im.input(node, i + skip)?;
        if old {
            value = unbatched(im, node, value)?;
        }
        match i.checked_sub(states).and_then(|i| ways_in.get(i)) {
            None => {
                initial.push(value);
                wide.push(w);
            }
            Some((axis, reverse)) => {
                let axis = node.axis(*axis, im.rank(value))?;
                read.push(Scanned { value, wide: w, axis, reverse: *reverse });
            }
        }
    }
    let mut count: Option<Dim> = None;
    for s in &read {
        let n = im.dims_of(s.value)[s.axis];
        let first = *count.get_or_insert(n);
        let equal = im.b.graph.dims.require_equal("length of a scan", first, n);
        equal.map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))?;
    }
    let count = count.ok_or_else(|| node.wrong("a scan of nothing"))?;
    let trips = Trips { most: Size::Expr(count), count: None };
    let spec = LoopSpec { name: &node.name, trips, condition: None, initial: &initial };
    let mut open = im.b.begin_loop(&spec)?;
    im.open_scope();
    let results =
        scan_body(im, node, body, &mut open, &Scan { read: &read, wide: &wide, out: &ways_out, count });
    im.close_scope();
    let (values, after, zeros) = match results {
        Ok(found) => found,
        Err(e) => {
            im.b.end_region(&node.name, Vec::new())?;
            return Err(e);
        }
    };
    initial.extend(zeros);
    let spec = LoopSpec { name: &node.name, trips, condition: None, initial: &initial };
    let mut outputs = im.b.end_loop(&spec, open, values)?;
    for (value, (axis, _)) in outputs.iter_mut().skip(states).zip(&ways_out) {
        let rank = im.rank(*value);
        let axis = node.axis(*axis, rank)?;
        if axis > 0 {
            let order: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
            *value = im.b.transpose(&format!("{}:axis", node.name), *value, &order)?;
        }
    }
    if old {
        for value in &mut outputs {
            let mut sizes: Vec<Size> = vec![Size::Number(1)];
            sizes.extend(im.dims_of(*value).into_iter().map(Size::Expr));
            *value = im.b.reshape(&format!("{}:batch", node.name), *value, &sizes)?;
        }
    }
    Ok(items(outputs, &after))
}

/// A tensor of one batch without the batch axis.
fn unbatched(im: &mut Importer<'_>, node: &Node<'_>, v: Value) -> Result<Value, Fail> {
    let dims = im.dims_of(v);
    match dims.split_first() {
        Some((batch, rest)) if im.b.graph.dims.known(*batch) == Some(1) => {
            let sizes: Vec<Size> = rest.iter().map(|d| Size::Expr(*d)).collect();
            Ok(im.b.reshape(&format!("{}:unbatched", node.name), v, &sizes)?)
        }
        _ => unsupported("a scan of several batches (operator set 8)"),
    }
}

/// What the body of a scan is made from.
struct Scan<'a> {
    read: &'a [Scanned],
    wide: &'a [bool],
    out: &'a [(i64, bool)],
    count: Dim,
}

fn scan_body<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    body: &'m GraphProto,
    open: &mut OpenLoop,
    scan: &Scan<'_>,
) -> Result<Body, Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    let trip = im.b.size_scalar(&label("trip"), open.counter)?;
    let mut back = trip;
    if scan.read.iter().any(|s| s.reverse) || scan.out.iter().any(|(_, reverse)| *reverse) {
        let count = im.b.size_scalar(&label("count"), scan.count)?;
        let one = im.b.constant(DType::I32, &[], Data::from_slice(&[1i32]))?;
        let last = im.b.op(&label("last"), &binary::SUB, Binary::default(), &[count, one])?;
        back = im.b.op(&label("back"), &binary::SUB, Binary::default(), &[last, trip])?;
    }
    let states = open.args.clone();
    let mut given: Vec<Item> =
        states.iter().zip(scan.wide).map(|(v, wide)| Item::Value { value: *v, wide: *wide }).collect();
    for s in scan.read {
        let at = if s.reverse { back } else { trip };
        let value = im.b.gather(&label("element"), s.value, at, s.axis as u32)?;
        given.push(Item::Value { value, wide: s.wide });
    }
    for (name, item) in body.input.iter().zip(given) {
        im.define(&node.name, &name.name, item)?;
    }
    let (mut values, after) = subgraph(im, node, body)?;
    let rows = values.split_off(states.len());
    if after.get(..scan.wide.len()) != Some(scan.wide) {
        return Err(node.wrong("a state changes its element type"));
    }
    let mut zeros = Vec::new();
    for (row, (_, reverse)) in rows.into_iter().zip(scan.out) {
        let at = if *reverse { back } else { trip };
        let (zero, next) = collect(im, node, open, &Rows { count: Size::Expr(scan.count), at, row })?;
        zeros.push(zero);
        values.push(next);
    }
    Ok((values, after, zeros))
}
