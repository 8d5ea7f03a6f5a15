//! Attention by a state instead of scores, and the causal convolution with a state that goes before it.

use super::Handler;
use super::scan::{Rows, collect};
use crate::builder::{LoopSpec, OpenLoop, Size, Trips};
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::conv::{Conv2d, Geometry, MAX_EXTENT};
use serinette_core::op::unary::{self, Parameters};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("LinearAttention", linear_attention), ("CausalConvWithState", causal_conv)];

/// Zeros of a shape that may be open.
fn zeros<'m>(im: &mut Importer<'m>, node: &Node<'m>, dtype: DType, shape: &[Dim]) -> Result<Value, Fail> {
    let zero = im.b.constant(dtype, &[], Data::from(vec![0u8; dtype.size()]))?;
    im.expanded(node, zero, &shape.iter().map(|d| Entry::Size(*d)).collect::<Vec<_>>())
}

fn causal_conv<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let swish = match node.text("activation", "none")?.as_str() {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(node.wrong(format!("activation {other:?}"))),
    };
    let ((x, _), (w, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let (bias, past) = (im.optional(node, 2)?.map(|(v, _)| v), im.optional(node, 3)?.map(|(v, _)| v));
    let label = |what: &str| format!("{}:{what}", node.name);
    let (of_x, of_w) = (im.dims_of(x), im.dims_of(w));
    let ([batch, channels, _], [_, _, taps]) = (of_x.as_slice(), of_w.as_slice()) else {
        return Err(node.wrong("input and weights have three axes"));
    };
    let known = |im: &Importer<'m>, d: Dim| im.b.graph.dims.known(d).and_then(|n| u32::try_from(n).ok());
    let (Some(groups), Some(taps)) =
        (known(im, *channels), known(im, *taps).filter(|n| (1..=MAX_EXTENT).contains(n)))
    else {
        return unsupported("an open number of channels or taps, or too many taps");
    };
    let before = u64::from(taps - 1);
    let dtype = im.b.graph.tensor(x).dtype;
    let kept = im.b.graph.dims.constant(before).map_err(|_| node.wrong("taps"))?;
    let past = match past {
        Some(past) => past,
        None => zeros(im, node, dtype, &[*batch, *channels, kept])?,
    };
    let all = if before == 0 { x } else { im.b.concat(&label("past"), &[past, x], 2)? };
    // A 1-D convolution is one of height 1.
    let planar = |im: &mut Importer<'m>, v: Value, what: &str| {
        let mut sizes: Vec<Size> = im.dims_of(v).into_iter().map(Size::Expr).collect();
        sizes.insert(2, Size::Number(1));
        im.b.reshape(&label(what), v, &sizes)
    };
    let (planes, kernel) = (planar(im, all, "planes")?, planar(im, w, "kernel")?);
    let attrs = Conv2d { geometry: Geometry::default(), groups, activation: 0 };
    let y = im.b.conv2d(&label("conv"), attrs, planes, kernel, bias)?;
    let sizes: Vec<Size> = of_x.iter().map(|d| Size::Expr(*d)).collect();
    let mut y = im.b.reshape(&label("sequence"), y, &sizes)?;
    if swish {
        y = im.b.op(&node.name, &unary::SWISH, Parameters { alpha: 1.0, beta: 0.0 }, &[y])?;
    }
    // The last positions, whatever the length is.
    let last: Vec<i32> = (1..taps as i32).rev().map(|i| -i).collect();
    let last = im.b.constant(DType::I32, &[before], Data::from_slice(&last))?;
    let state = if before == 0 { past } else { im.b.gather(&label("state"), all, last, 2)? };
    Ok([y, state].map(|value| Item::Value { value, wide: false }).to_vec())
}

/// The operands of a linear attention, in f32 (or f64) and with the steps in front: queries `[T, B, H, G, K]`, keys
/// `[T, B, H, 1, K]`, values `[T, B, H, 1, V]`, decays `[T, B, H, K or 1, 1]`, rates `[T, B, H or 1, 1, 1]`.
struct Sequences {
    query: Value,
    key: Value,
    value: Value,
    decay: Option<Value>,
    rate: Option<Value>,
    scale: f32,
}

fn linear_attention<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Concerns how it is computed, not what.
    node.int("chunk_size", 64)?;
    let (gated, delta) = match node.text("update_rule", "gated_delta")?.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(node.wrong(format!("update_rule {other:?}"))),
    };
    let heads = |name: &str| -> Result<u64, Fail> {
        let n = u64::try_from(node.int(name, 0)?).ok().filter(|n| *n > 0);
        n.ok_or_else(|| node.wrong(format!("{name} is not above 0")))
    };
    let (queries, stored) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    if queries % stored != 0 {
        return Err(node.wrong(format!("{queries} query heads for {stored} key heads")));
    }
    let (q, _) = im.input(node, 0)?;
    let dims = im.dims_of(q);
    let [batch, steps, _] = dims.as_slice() else { return Err(node.wrong("queries have three axes")) };
    let (batch, steps) = (*batch, *steps);
    let dtype = im.b.graph.tensor(q).dtype;
    let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut lengths = Vec::new();
    for (i, heads) in [(0, queries), (1, stored), (2, stored)] {
        let (v, _) = im.input(node, i)?;
        let packed = im.dims_of(v).get(2).and_then(|d| im.b.graph.dims.known(*d));
        match packed {
            Some(n) if n % heads == 0 => lengths.push(n / heads),
            Some(n) => return Err(node.wrong(format!("{n} numbers for {heads} heads"))),
            None => return unsupported("heads of an open size"),
        }
    }
    let [k, of_key, v] = lengths[..] else { return Err(node.wrong("operands")) };
    if k != of_key {
        return Err(node.wrong(format!("queries of {k}, keys of {of_key} numbers")));
    }
    let group = queries / stored;
    let sequence = |im: &mut Importer<'m>, i: usize, tail: [u64; 3]| -> Result<Value, Fail> {
        let (x, _) = im.input(node, i)?;
        let at = |what: &str| format!("{}:{what}{i}", node.name);
        let x = if im.b.graph.tensor(x).dtype == work { x } else { im.b.cast(&at("wide"), x, work)? };
        let mut sizes = vec![Size::Expr(batch), Size::Expr(steps)];
        sizes.extend(tail.map(Size::Number));
        let x = im.b.reshape(&at("heads"), x, &sizes)?;
        Ok(im.b.transpose(&at("steps"), x, &[1, 0, 2, 3, 4])?)
    };
    let packed = |im: &Importer<'m>, i: usize| -> Result<u64, Fail> {
        match im.item(node, i) {
            Some(Item::Value { value, .. }) => {
                let n = im.dims_of(value).get(2).and_then(|d| im.b.graph.dims.known(*d));
                n.ok_or(Fail::Unsupported("decays or rates of an open size".into()))
            }
            Some(Item::Poisoned) => Err(Fail::Poisoned),
            Some(_) => unsupported("decays or rates that are constant"),
            None => Err(node.wrong(format!("input {i} is missing"))),
        }
    };
    let scale = match node.float("scale", 0.0)? {
        0.0 => (1.0 / (k as f64).sqrt()) as f32,
        given => given,
    };
    let decay = if gated {
        let each = packed(im, 4)? != stored || k == 1;
        Some(sequence(im, 4, [stored, if each { k } else { 1 }, 1])?)
    } else {
        None
    };
    let rate = if delta {
        let shared = packed(im, 5)? == 1;
        Some(sequence(im, 5, [if shared { 1 } else { stored }, 1, 1])?)
    } else {
        None
    };
    let s = Sequences {
        query: sequence(im, 0, [stored, group, k])?,
        key: sequence(im, 1, [stored, 1, k])?,
        value: sequence(im, 2, [stored, 1, v])?,
        decay,
        rate,
        scale,
    };
    let state = match im.optional(node, 3)? {
        Some((v, _)) if im.b.graph.tensor(v).dtype != work => {
            im.b.cast(&format!("{}:state", node.name), v, work)?
        }
        Some((v, _)) => v,
        None => {
            let mut shape = vec![batch];
            for n in [stored, k, v] {
                shape.push(im.b.graph.dims.constant(n).map_err(|_| node.wrong("sizes of heads"))?);
            }
            zeros(im, node, work, &shape)?
        }
    };
    let trips = Trips { most: Size::Expr(steps), count: None };
    let initial = [state];
    let spec = LoopSpec { name: &node.name, trips, condition: None, initial: &initial };
    let mut open = im.b.begin_loop(&spec)?;
    let body = step(im, node, &mut open, &s, Size::Expr(steps));
    let (values, rows) = match body {
        Ok(found) => found,
        Err(e) => {
            im.b.end_region(&node.name, Vec::new())?;
            return Err(e);
        }
    };
    let initial = [state, rows];
    let spec = LoopSpec { name: &node.name, trips, condition: None, initial: &initial };
    let outputs = im.b.end_loop(&spec, open, values)?;
    let [state, rows] = outputs[..] else { return Err(node.wrong("results of the loop")) };
    // `[T, B, H, G, V]` to `[B, T, H·G·V]`.
    let y = im.b.transpose(&format!("{}:batches", node.name), rows, &[1, 0, 2, 3, 4])?;
    let sizes = [Size::Expr(batch), Size::Expr(steps), Size::Number(queries * v)];
    let mut results = [im.b.reshape(&format!("{}:packed", node.name), y, &sizes)?, state];
    for (i, value) in results.iter_mut().enumerate().filter(|_| work != dtype) {
        *value = im.b.cast(&format!("{}:narrow{i}", node.name), *value, dtype)?;
    }
    Ok(results.map(|value| Item::Value { value, wide: false }).to_vec())
}

/// One step: the state decays, takes the key's value (with a rate: what it lacks of it), and answers the query. Gives the
/// carried values and the rows at first.
fn step<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    open: &mut OpenLoop,
    s: &Sequences,
    count: Size,
) -> Result<(Vec<Value>, Value), Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    let at = im.b.size_scalar(&label("trip"), open.counter)?;
    let mut state = *open.args.first().ok_or_else(|| node.wrong("a loop that carries nothing"))?;
    let (query, key) =
        (im.b.gather(&label("query"), s.query, at, 0)?, im.b.gather(&label("key"), s.key, at, 0)?);
    let mut value = im.b.gather(&label("value"), s.value, at, 0)?;
    if let Some(decay) = s.decay {
        let decay = im.b.gather(&label("decay"), decay, at, 0)?;
        let factor = im.b.op(&label("factor"), &unary::EXP, NoAttributes {}, &[decay])?;
        state = im.b.mul(&label("decayed"), state, factor)?;
    }
    if let Some(rate) = s.rate {
        let rate = im.b.gather(&label("rate"), rate, at, 0)?;
        let held = im.b.matmul(&label("held"), key, state, None)?;
        let lacking = im.b.op(&label("lacking"), &binary::SUB, Binary::default(), &[value, held])?;
        value = im.b.mul(&label("taken"), lacking, rate)?;
    }
    let column = im.b.transpose(&label("column"), key, &[0, 1, 3, 2])?;
    let outer = im.b.mul(&label("outer"), column, value)?;
    let next = im.b.add(&label("next"), state, outer)?;
    let answer = im.b.matmul(&label("answer"), query, next, None)?;
    let scale = im.float_like(answer, s.scale)?;
    let row = im.b.mul(&label("scaled"), answer, scale)?;
    let (zero, rows) = collect(im, node, open, &Rows { count, at, row })?;
    Ok((vec![next, rows], zero))
}
