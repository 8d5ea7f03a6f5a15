//! Matrix products.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor::Constant;
use serinette_core::DType;
use serinette_core::op::integer::{MATMUL_INTEGER, Product, QLINEAR_MATMUL};
use serinette_core::op::matmul::MatMul;
use serinette_core::op::unary::FLOATS;
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("MatMul", matmul),
    ("Gemm", gemm),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", qlinear_matmul),
];

/// Number of elements of these dimensions.
pub(super) fn product(im: &mut Importer<'_>, at: &str, dims: &[Dim]) -> Result<Dim, Fail> {
    let table = &mut im.b.graph.dims;
    let one = table.constant(1);
    let all = one.and_then(|one| dims.iter().try_fold(one, |n, d| table.mul(n, *d)));
    all.map_err(|e| Fail::Wrong(Error::shape(at, e)))
}

/// Two operands as our product takes them: matrices, `b` with the batch axes of `a` or none.
struct Pair {
    a: Value,
    b: Value,
    /// `a` was a vector: the result has no rows.
    row: bool,
    /// `b` was a vector: the result has no columns.
    column: bool,
}

impl Pair {
    /// The numpy rule: a vector is a matrix of one row or column, and batch axes are broadcast.
    fn new<'m>(im: &mut Importer<'m>, node: &Node<'m>, mut a: Value, mut b: Value) -> Result<Pair, Fail> {
        let (row, column) = (im.rank(a) == 1, im.rank(b) == 1);
        if im.rank(a) == 0 || im.rank(b) == 0 {
            return Err(node.wrong("a product with a scalar"));
        }
        if row {
            let k = im.dims_of(a)[0];
            a = im.b.reshape(&format!("{}:row", node.name), a, &[Size::Number(1), k.into()])?;
        }
        if column {
            let k = im.dims_of(b)[0];
            b = im.b.reshape(&format!("{}:column", node.name), b, &[k.into(), Size::Number(1)])?;
        }
        let (of_a, of_b) = (im.dims_of(a), im.dims_of(b));
        let (lead_a, matrix_a) = of_a.split_at(of_a.len() - 2);
        let (lead_b, matrix_b) = of_b.split_at(of_b.len() - 2);
        let single = lead_b.iter().all(|d| im.b.graph.dims.known(*d) == Some(1));
        if single && lead_b.len() <= lead_a.len() && !lead_b.is_empty() {
            // One matrix for every batch.
            let matrix: Vec<Size> = matrix_b.iter().map(|d| Size::Expr(*d)).collect();
            b = im.b.reshape(&format!("{}:matrix", node.name), b, &matrix)?;
        } else if !lead_b.is_empty() && lead_a != lead_b {
            let shape = |lead: &[Dim], matrix: &[Dim]| -> Vec<Entry> {
                lead.iter().chain(matrix).map(|d| Entry::Size(*d)).collect()
            };
            a = im.expanded(node, a, &shape(lead_b, matrix_a))?;
            let wide = im.dims_of(a);
            b = im.expanded(node, b, &shape(&wide[..wide.len() - 2], matrix_b))?;
        }
        Ok(Pair { a, b, row, column })
    }

    /// The product without the axes that the operands did not have.
    fn result(&self, im: &mut Importer<'_>, node: &Node<'_>, y: Value) -> Result<Value, Fail> {
        if !self.row && !self.column {
            return Ok(y);
        }
        let mut dims: Vec<Size> = im.dims_of(y).into_iter().map(Size::Expr).collect();
        if self.column {
            dims.pop();
        }
        if self.row {
            dims.remove(dims.len() - if self.column { 1 } else { 2 });
        }
        Ok(im.b.reshape(&format!("{}:shaped", node.name), y, &dims)?)
    }
}

fn matmul<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((a, wide), (b, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    if wide {
        im.b.note(format!("{}: int64 arithmetic is done in 32 bits and wraps there", node.name));
    }
    let pair = Pair::new(im, node, a, b)?;
    let y = im.b.matmul(&node.name, pair.a, pair.b, None)?;
    one(pair.result(im, node, y)?, wide)
}

/// Scales or zero points of the rows (`from_end` 2) or columns (1) of an operand, as one number or a vector.
fn along<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    i: usize,
    from_end: usize,
) -> Result<Option<Value>, Fail> {
    let Some((v, _)) = im.optional(node, i)? else { return Ok(None) };
    let dims = im.dims_of(v);
    if dims.len() < 2 {
        return Ok(Some(v));
    }
    let at = dims.len() - from_end;
    if dims.iter().enumerate().any(|(axis, d)| axis != at && im.b.graph.dims.known(*d) != Some(1)) {
        return unsupported("scales or zero points that differ from batch to batch");
    }
    Ok(Some(im.b.reshape(&format!("{}:vector{i}", node.name), v, &[dims[at].into()])?))
}

fn matmul_integer<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((a, _), (b, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let zeros = [along(im, node, 2, 2)?, along(im, node, 3, 1)?];
    let pair = Pair::new(im, node, a, b)?;
    let inputs = [Some(pair.a), Some(pair.b), zeros[0], zeros[1]];
    let given = inputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    let y = im.b.single(&node.name, &MATMUL_INTEGER, Product::default(), &inputs[..given], &[], None)?;
    one(pair.result(im, node, y)?, false)
}

fn qlinear_matmul<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((a, _), (b, _)) = (im.input(node, 0)?, im.input(node, 3)?);
    let pair = Pair::new(im, node, a, b)?;
    let mut inputs = Vec::new();
    for i in 0..8 {
        inputs.push(match i {
            0 => Some(pair.a),
            3 => Some(pair.b),
            _ => {
                let from_end = if i < 3 { 2 } else { 1 };
                let v = along(im, node, i, from_end)?;
                let v = v.ok_or_else(|| node.wrong(format!("input {i} is missing")))?;
                let scale = matches!(i, 1 | 4 | 6) && im.b.graph.tensor(v).dtype != DType::F32;
                Some(if scale { im.b.cast(&format!("{}:scale{i}", node.name), v, DType::F32)? } else { v })
            }
        });
    }
    let y = im.b.single(&node.name, &QLINEAR_MATMUL, Product::default(), &inputs, &[], None)?;
    one(pair.result(im, node, y)?, false)
}

fn gemm<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    let (trans_a, trans_b) = (node.int("transA", 0)? != 0, node.int("transB", 0)? != 0);
    let (mut a, wide) = im.input(node, 0)?;
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
    one(y, wide)
}

/// Input `i` times `factor`: folded where the contents are known, else multiplied.
fn scaled<'m>(im: &mut Importer<'m>, node: &Node<'m>, i: usize, factor: f32) -> Result<Value, Fail> {
    if factor == 1.0 {
        return Ok(im.input(node, i)?.0);
    }
    if let Some(c) = im.constant(node, i)
        && c.dtype == DType::F32
        && let Some(values) = c.floats()
    {
        let data = Data::from_slice(&values.iter().map(|v| v * factor).collect::<Vec<f32>>());
        // Two products may scale one initialiser: what is made of it has no name.
        let scaled = Constant { name: String::new(), dtype: DType::F32, dims: c.dims.clone(), data };
        let item = im.add_constant(scaled);
        return Ok(im.materialise(&node.name, item)?.ok_or(Fail::Poisoned)?.0);
    }
    let (v, _) = im.input(node, i)?;
    if !FLOATS.contains(im.b.graph.tensor(v).dtype) {
        return unsupported(format!("integers times {factor}"));
    }
    let factor = im.float_like(v, factor)?;
    Ok(im.b.mul(&format!("{}:scale{i}", node.name), v, factor)?)
}
