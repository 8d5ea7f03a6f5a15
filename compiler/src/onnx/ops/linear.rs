//! Matrix products.

use super::{Handler, one};
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use crate::onnx::tensor::Constant;
use serinette_core::DType;
use serinette_core::op::matmul::MatMul;
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[("MatMul", matmul), ("Gemm", gemm)];

fn matmul<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((a, _), (b, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    if im.rank(a) < 2 || im.rank(b) < 2 {
        return super::super::node::unsupported("a product with a vector");
    }
    one(im.b.matmul(&node.name, a, b, None)?, false)
}

fn gemm<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    let (trans_a, trans_b) = (node.int("transA", 0)? != 0, node.int("transB", 0)? != 0);
    let (mut a, _) = im.input(node, 0)?;
    let b = scaled(im, node, 1, alpha)?;
    let c = if node.has(2) && beta != 0.0 { Some(scaled(im, node, 2, beta)?) } else { None };
    if im.rank(a) != 2 || im.rank(b) != 2 {
        return Err(node.wrong("Gemm takes matrices"));
    }
    if trans_a {
        a = im.b.transpose(&format!("{}:a", node.name), a, &[1, 0])?;
    }
    let attrs = MatMul { activation: 0, transpose_b: u32::from(trans_b) };
    let columns = im.dims_of(b)[usize::from(!trans_b)];
    // A row vector is the bias of the product; anything else is added afterwards.
    let bias = match c {
        Some(c) => {
            let dims = im.dims_of(c);
            let row = match dims.as_slice() {
                [n] => *n == columns,
                [m, n] => *n == columns && im.b.graph.dims.known(*m) == Some(1),
                _ => false,
            };
            if row { Some(im.b.reshape(&format!("{}:bias", node.name), c, &[columns.into()])?) } else { None }
        }
        None => None,
    };
    let mut y = im.b.matmul_with(&node.name, attrs, a, b, bias)?;
    if let (Some(c), None) = (c, bias) {
        y = im.b.add(&format!("{}:add", node.name), y, c)?;
    }
    one(y, false)
}

/// Input `i` times `factor`: folded where the contents are known, else multiplied.
fn scaled<'m>(im: &mut Importer<'m>, node: &Node<'m>, i: usize, factor: f32) -> Result<Value, Fail> {
    if factor == 1.0 {
        return Ok(im.input(node, i)?.0);
    }
    if let Some(c) = im.constant(node, i)
        && let Some(values) = c.floats()
    {
        let data = Data::from_slice(&values.iter().map(|v| v * factor).collect::<Vec<f32>>());
        let name = if c.name.is_empty() { String::new() } else { format!("{}·{factor}", c.name) };
        let scaled = Constant { name, dtype: DType::F32, dims: c.dims.clone(), data };
        let item = im.add_constant(scaled);
        return Ok(im.materialise(&node.name, item)?.ok_or(Fail::Poisoned)?.0);
    }
    let (v, _) = im.input(node, i)?;
    let factor = im.b.constant(DType::F32, &[], Data::from_slice(&[factor]))?;
    Ok(im.b.mul(&format!("{}:scale{i}", node.name), v, factor)?)
}
