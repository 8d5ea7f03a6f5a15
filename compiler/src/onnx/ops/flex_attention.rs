//! `FlexAttention` (domain `ai.onnx.preview`): attention whose scores and weights the file's subgraphs change.

use super::control::subgraph;
use super::linear::product;
use super::{Handler, one};
use crate::builder::Size;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::tensor;
use serinette_core::DType;
use serinette_core::op::attention::{ATTENTION, Attention};
use serinette_core::op::matmul::MatMul;
use serinette_core::op::softmax::{Axis, SOFTMAX};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[("FlexAttention", flex)];

fn flex<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((q, _), (k, _), (v, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    let label = |what: &str| format!("{}:{what}", node.name);
    let (of_q, of_k, of_v) = (im.dims_of(q), im.dims_of(k), im.dims_of(v));
    let ([batch, heads, rows, size], [_, stored, keys, _], [_, _, _, width]) =
        (of_q.as_slice(), of_k.as_slice(), of_v.as_slice())
    else {
        return Err(node.wrong("queries, keys and values have four axes"));
    };
    let known = |d: &Dim| im.b.graph.dims.known(*d);
    let (Some(n), Some(of_keys), Some(length)) = (known(heads), known(stored), known(size)) else {
        return unsupported("heads of an open number or size");
    };
    if of_keys == 0 || n % of_keys != 0 {
        return Err(node.wrong(format!("{n} query heads for {of_keys} key heads")));
    }
    let dtype = im.b.graph.tensor(q).dtype;
    let code = node.int("softmax_precision", 0)?;
    let precision = match i32::try_from(code).ok().and_then(tensor::dtype) {
        _ if code == 0 && dtype == DType::F64 => DType::F64,
        _ if code == 0 => DType::F32,
        Some(t @ (DType::F32 | DType::F16 | DType::BF16 | DType::F64)) => t,
        _ => return unsupported(format!("softmax_precision {code}")),
    };
    let scale = node.float("scale", (1.0 / (length as f64).sqrt()) as f32)?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    if node.attribute("score_mod").is_none() && node.attribute("prob_mod").is_none() && precision == wide {
        let attrs = Attention { scale, cap: 0.0, offset: 0, align_end: 0, left: u32::MAX, right: u32::MAX };
        return one(im.b.op(&node.name, &ATTENTION, attrs, &[q, k, v])?, false);
    }
    // The queries of all heads that read the same keys are rows of one matrix.
    let group = im.b.graph.dims.constant(n / of_keys).map_err(|_| node.wrong("heads"))?;
    let lines = product(im, &node.name, &[group, *rows])?;
    let shape = |dims: [Dim; 4]| dims.map(Size::Expr);
    let cast = |im: &mut Importer<'m>, what: &str, x: Value, to: DType| {
        if im.b.graph.tensor(x).dtype == to { Ok(x) } else { im.b.cast(&label(what), x, to) }
    };
    let q = im.b.reshape(&label("queries"), q, &shape([*batch, *stored, lines, *size]))?;
    let (q, k) = (cast(im, "query", q, precision)?, cast(im, "key", k, precision)?);
    let attrs = MatMul { activation: 0, transpose_b: 1 };
    let scores = im.b.matmul_with(&label("products"), attrs, q, k, None)?;
    let scale = im.float_like(scores, scale)?;
    let scores = im.b.mul(&label("scores"), scores, scale)?;
    let mut weights = im.b.reshape(&label("rows"), scores, &shape([*batch, *heads, *rows, *keys]))?;
    weights = modified(im, node, "score_mod", weights)?;
    weights = im.b.op(&label("weights"), &SOFTMAX, Axis { axis: 3, reserved: 0 }, &[weights])?;
    weights = modified(im, node, "prob_mod", weights)?;
    weights = cast(im, "narrow", weights, dtype)?;
    let weights = im.b.reshape(&label("lines"), weights, &shape([*batch, *stored, lines, *keys]))?;
    let y = im.b.matmul(&label("sums"), weights, v, None)?;
    one(im.b.reshape(&label("heads"), y, &shape([*batch, *heads, *rows, *width]))?, false)
}

/// What the subgraph of an attribute makes of `x`, if there is one.
fn modified<'m>(im: &mut Importer<'m>, node: &Node<'m>, name: &str, x: Value) -> Result<Value, Fail> {
    if node.attribute(name).is_none() {
        return Ok(x);
    }
    let graph = node.graph(name)?;
    let ([input], [_]) = (graph.input.as_slice(), graph.output.as_slice()) else {
        return Err(node.wrong(format!("{name} has not one input and one output")));
    };
    im.open_scope();
    let results = im
        .define(&node.name, &input.name, Item::Value { value: x, wide: false })
        .map_err(Fail::from)
        .and_then(|()| subgraph(im, node, graph));
    im.close_scope();
    let y = results?.0.first().copied().ok_or_else(|| node.wrong(format!("{name} gives nothing")))?;
    if im.dims_of(y) != im.dims_of(x) || im.b.graph.tensor(y).dtype != im.b.graph.tensor(x).dtype {
        return unsupported(format!("{name} changes the shape or the element type"));
    }
    Ok(y)
}
