//! Attention and rotary embeddings.

use super::conv::trimmed;
use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::op::attention::{ATTENTION, Attention, UNLIMITED};
use serinette_core::op::pad::{PAD, Pad};
use serinette_core::op::rotary::{ROTARY_EMBEDDING, Rotary};
use serinette_core::shape::{Dim, DimAlgebra};
use serinette_core::{DType, MAX_RANK};

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("Attention", attention), ("RotaryEmbedding", rotary_embedding)];

fn heads(node: &Node<'_>, name: &str) -> Result<u64, Fail> {
    let n = node.int(name, 0)?;
    u64::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| node.wrong(format!("{name} = {n}")))
}

/// `[B, S, H·D]` as `[B, S, H, D]`.
fn split<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    what: &str,
    v: Value,
    heads: u64,
) -> Result<Value, Fail> {
    let [b, s, width] = im.dims_of(v)[..] else {
        return Err(node.wrong(format!("{what} with {} axes", im.rank(v))));
    };
    let table = &mut im.b.graph.dims;
    let shape = |e| Fail::Wrong(Error::shape(&node.name, e));
    let each = table.div_floor(width, heads).map_err(shape)?;
    let sizes = [Size::Expr(b), Size::Expr(s), Size::Number(heads), Size::Expr(each)];
    Ok(im.b.reshape(&format!("{}:{what}:heads", node.name), v, &sizes)?)
}

/// An operand as `[B, H, S, D]`.
fn by_head<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    what: &str,
    v: Value,
    count: &str,
) -> Result<Value, Fail> {
    if im.rank(v) == 4 {
        // Then the number of heads is in the shape; the attribute may be there all the same.
        node.int(count, 0)?;
        return Ok(v);
    }
    let heads = heads(node, count)?;
    let v = split(im, node, what, v, heads)?;
    Ok(im.b.transpose(&format!("{}:{what}", node.name), v, &[0, 2, 1, 3])?)
}

/// The mask as f32 or bool, as long as there are keys.
fn mask<'m>(im: &mut Importer<'m>, node: &Node<'m>, keys: Dim) -> Result<Option<Value>, Fail> {
    let Some((mut mask, _)) = im.optional(node, 3)? else { return Ok(None) };
    let dtype = im.b.graph.tensor(mask).dtype;
    if !matches!(dtype, DType::Bool | DType::F32) {
        mask = im.b.cast(&format!("{}:mask", node.name), mask, DType::F32)?;
    }
    let dims = im.dims_of(mask);
    let last = *dims.last().ok_or_else(|| node.wrong("a mask without axes"))?;
    let sizes = (im.b.graph.dims.known(last), im.b.graph.dims.known(keys));
    // Keys that a shorter mask does not name are not seen.
    if let (Some(have), Some(want)) = sizes
        && have != want
        && have != 1
    {
        if have > want {
            return Err(node.wrong(format!("a mask of {have} keys; there are {want}")));
        }
        let mut sizes: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
        *sizes.last_mut().ok_or(Fail::Poisoned)? = Size::Number(want);
        let nothing = match dtype {
            DType::Bool => im.b.constant(DType::Bool, &[], Data::from_slice(&[0u8]))?,
            _ => im.b.constant(DType::F32, &[], Data::from_slice(&[f32::NEG_INFINITY]))?,
        };
        let attrs = Pad { starts: [0; MAX_RANK], symbolic: 0, reserved: 0 };
        let name = format!("{}:padded", node.name);
        mask = im.b.single(&name, &PAD, attrs, &[Some(mask), Some(nothing)], &[], Some(&sizes))?;
    }
    Ok(Some(mask))
}

/// A limit of the window: −1 stands for none.
fn window(node: &Node<'_>, name: &str) -> Result<u32, Fail> {
    match node.int(name, -1)? {
        -1 => Ok(UNLIMITED),
        n => u32::try_from(n).map_err(|_| node.wrong(format!("{name} = {n}"))),
    }
}

fn attention<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((q, _), (k, _), (v, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    let flat = im.rank(q) == 3;
    let dtype = im.b.graph.tensor(q).dtype;
    // Scores are f32 at least: what asks for less gets more.
    if node.int("softmax_precision", 1)? == 11 && dtype != DType::F64 {
        return unsupported("a softmax in double");
    }
    node.int("qk_matmul_output_mode", 0)?;
    let q = by_head(im, node, "q", q, "q_num_heads")?;
    let mut k = by_head(im, node, "k", k, "kv_num_heads")?;
    let mut v = by_head(im, node, "v", v, "kv_num_heads")?;
    let ([queries, fresh], width) = ([im.dims_of(q)[2], im.dims_of(k)[2]], im.dims_of(q)[3]);
    let mut past = None;
    if let (Some((before_k, _)), Some((before_v, _))) = (im.optional(node, 4)?, im.optional(node, 5)?) {
        if im.rank(before_k) != 4 {
            return Err(node.wrong(format!("past keys with {} axes", im.rank(before_k))));
        }
        past = Some(im.dims_of(before_k)[2]);
        k = im.b.concat(&format!("{}:keys", node.name), &[before_k, k], 2)?;
        v = im.b.concat(&format!("{}:values", node.name), &[before_v, v], 2)?;
    }
    let lengths = im.optional(node, 6)?.map(|(l, _)| l);
    let keys = im.dims_of(k)[2];
    let mask = mask(im, node, keys)?;
    let scale = match node.attribute("scale") {
        Some(_) => node.float("scale", 0.0)?,
        None => match im.b.graph.dims.known(width) {
            Some(d) => (1.0 / (d as f64).sqrt()) as f32,
            None => return unsupported("a default scale for heads of open width"),
        },
    };
    let causal = node.int("is_causal", 0)? != 0;
    let (left, right) = (window(node, "left_window_size")?, window(node, "right_window_size")?);
    let mut attrs = Attention {
        scale,
        cap: node.float("softcap", 0.0)?,
        offset: 0,
        align_end: 0,
        left,
        right: if causal { 0 } else { right },
    };
    if (attrs.left, attrs.right) != (UNLIMITED, UNLIMITED) {
        let known = past.map(|d| im.b.graph.dims.known(d));
        match (lengths, known) {
            (Some(_), _) => attrs.align_end = 1,
            (None, None) => {}
            (None, Some(Some(n))) => {
                attrs.offset = i32::try_from(n).map_err(|_| node.wrong(format!("{n} past keys")))?;
            }
            // As many new keys as queries: the last of both stand at the same position.
            (None, Some(None)) if queries == fresh => attrs.align_end = 1,
            (None, Some(None)) => return unsupported("a causal mask behind an open number of past keys"),
        }
    }
    let inputs = [Some(q), Some(k), Some(v), mask, lengths];
    let mut y = im.b.single(&node.name, &ATTENTION, attrs, trimmed(&inputs), &[], None)?;
    if flat {
        let [b, h, s, d] = im.dims_of(y)[..] else { return Err(Fail::Poisoned) };
        y = im.b.transpose(&format!("{}:steps", node.name), y, &[0, 2, 1, 3])?;
        let width = im.b.graph.dims.mul(h, d).map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))?;
        let sizes = [b, s, width].map(Size::Expr);
        y = im.b.reshape(&format!("{}:flat", node.name), y, &sizes)?;
    }
    Ok([y, k, v].map(|value| Item::Value { value, wide: false }).to_vec())
}

fn rotary_embedding<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((x, _), (cos, _), (sin, _)) = (im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?);
    let positions = im.optional(node, 3)?.map(|(v, _)| v);
    let turned = node.int("rotary_embedding_dim", 0)?;
    let flat = im.dims_of(x);
    let inside = flat.len() == 3;
    let given = node.int("num_heads", 0)?;
    let x = if inside { split(im, node, "x", x, heads(node, "num_heads")?)? } else { x };
    if !inside && given < 0 {
        return Err(node.wrong(format!("num_heads = {given}")));
    }
    // The caches have a column for each pair that is turned.
    if let Ok(turned) = u64::try_from(turned)
        && turned > 0
    {
        for c in [cos, sin] {
            let dims = im.dims_of(c);
            let columns = dims.last().and_then(|d| im.b.graph.dims.known(*d));
            if columns.is_some_and(|n| n != turned / 2) {
                return Err(node.wrong(format!("rotary_embedding_dim {turned}, {columns:?} columns")));
            }
        }
    }
    let attrs =
        Rotary { interleaved: u32::from(node.int("interleaved", 0)? != 0), heads_inside: u32::from(inside) };
    let inputs = [Some(x), Some(cos), Some(sin), positions];
    let y = im.b.single(&node.name, &ROTARY_EMBEDDING, attrs, trimmed(&inputs), &[], None)?;
    if !inside {
        return one(y, false);
    }
    let sizes: Vec<Size> = flat.into_iter().map(Size::Expr).collect();
    one(im.b.reshape(&format!("{}:flat", node.name), y, &sizes)?, false)
}
