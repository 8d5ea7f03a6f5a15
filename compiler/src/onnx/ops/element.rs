//! Element-wise ops, softmax, arg-max, casts.

use super::{Handler, one, random};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor::{self, Constant};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::bitcast;
use serinette_core::op::philox::{BERNOULLI, Seed};
use serinette_core::op::select::WHERE;
use serinette_core::op::{NoAttributes, OpDescriptor, compare};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Add", arithmetic),
    ("Sub", arithmetic),
    ("Mul", arithmetic),
    ("Div", arithmetic),
    ("Pow", power),
    ("Mod", modulo),
    ("PRelu", prelu),
    ("BitwiseAnd", plain),
    ("BitwiseOr", plain),
    ("BitwiseXor", plain),
    ("BitShift", shift),
    ("Sum", variadic),
    ("Max", variadic),
    ("Min", variadic),
    ("Mean", mean),
    ("And", plain),
    ("Or", plain),
    ("Xor", plain),
    ("Less", plain),
    ("LessOrEqual", plain),
    ("Greater", plain),
    ("GreaterOrEqual", plain),
    ("Equal", plain),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("BitCast", bit_cast),
    ("Identity", identity),
    ("Dropout", dropout),
];

/// Ops of two operands that are ours under another name, without attributes on either side.
static PLAIN: &[(&str, &OpDescriptor)] = &[
    ("BitwiseAnd", &binary::BIT_AND),
    ("BitwiseOr", &binary::BIT_OR),
    ("BitwiseXor", &binary::BIT_XOR),
    ("Max", &binary::MAX),
    ("Min", &binary::MIN),
    ("And", &compare::AND),
    ("Or", &compare::OR),
    ("Xor", &compare::XOR),
    ("Less", &compare::LESS),
    ("LessOrEqual", &compare::LESS_OR_EQUAL),
    ("Greater", &compare::GREATER),
    ("GreaterOrEqual", &compare::GREATER_OR_EQUAL),
    ("Equal", &compare::EQUAL),
];

/// The same with an activation.
static ARITHMETIC: &[(&str, &OpDescriptor)] = &[
    ("Add", &binary::ADD),
    ("Sub", &binary::SUB),
    ("Mul", &binary::MUL),
    ("Div", &binary::DIV),
    ("Sum", &binary::ADD),
];

fn find(
    table: &'static [(&str, &'static OpDescriptor)],
    node: &Node<'_>,
) -> Result<&'static OpDescriptor, Fail> {
    let found = table.iter().find(|(name, _)| *name == node.proto.op_type);
    found.map(|(_, op)| *op).ok_or(Fail::Unsupported("op not known".into()))
}

/// Both operands, whether they were int64. Before version 7 a flag said how they broadcast.
fn pair<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<(Value, Value, bool), Fail> {
    let ((a, wide), (b, other)) = (im.input(node, 0)?, im.input(node, 1)?);
    if wide != other {
        return Err(node.wrong("the operands have different element types"));
    }
    Ok((a, b, wide))
}

fn arithmetic_note(im: &mut Importer<'_>, node: &Node<'_>, wide: bool) {
    if wide {
        im.b.note(format!("{}: int64 arithmetic is done in 32 bits and wraps there", node.name));
    }
}

fn arithmetic<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = find(ARITHMETIC, node)?;
    let (a, b, wide) = pair(im, node)?;
    arithmetic_note(im, node, wide);
    one(im.b.op(&node.name, op, Binary::default(), &[a, b])?, wide)
}

fn plain<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = find(PLAIN, node)?;
    let (a, b, wide) = pair(im, node)?;
    // Comparisons give truth values, the others what they are given.
    let y = im.b.op(&node.name, op, NoAttributes {}, &[a, b])?;
    let wide = wide && im.b.graph.tensor(y).dtype != DType::Bool;
    one(y, wide)
}

/// Any number of operands, one after the other.
fn variadic<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (y, wide) = chain(im, node)?;
    one(y, wide)
}

fn chain<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<(Value, bool), Fail> {
    let (mut y, wide) = im.input(node, 0)?;
    for i in 1..node.proto.input.len() {
        let (x, _) = im.input(node, i)?;
        let name = format!("{}:{i}", node.name);
        y = if node.proto.op_type == "Sum" || node.proto.op_type == "Mean" {
            im.b.op(&name, &binary::ADD, Binary::default(), &[y, x])?
        } else {
            im.b.op(&name, find(PLAIN, node)?, NoAttributes {}, &[y, x])?
        };
    }
    Ok((y, wide))
}

fn mean<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (sum, _) = chain(im, node)?;
    let n = im.float_like(sum, node.proto.input.len() as f32)?;
    one(im.b.op(&node.name, &binary::DIV, Binary::default(), &[sum, n])?, false)
}

fn power<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((a, wide), (b, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let (base, exponent) = (im.b.graph.tensor(a).dtype, im.b.graph.tensor(b).dtype);
    let float = |t: DType| matches!(t, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
    // The result has the type of the base.
    let (a, b) = if base == exponent {
        (a, b)
    } else if float(base) || !float(exponent) {
        (a, im.b.cast(&format!("{}:exponent", node.name), b, base)?)
    } else {
        (im.b.cast(&format!("{}:base", node.name), a, exponent)?, b)
    };
    let mut y = im.b.op(&node.name, &binary::POW, NoAttributes {}, &[a, b])?;
    if im.b.graph.tensor(y).dtype != base {
        y = im.b.cast(&format!("{}:power", node.name), y, base)?;
    }
    one(y, wide)
}

fn modulo<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = if node.int("fmod", 0)? == 0 { &binary::MOD } else { &binary::REMAINDER };
    let (a, b, wide) = pair(im, node)?;
    one(im.b.op(&node.name, op, NoAttributes {}, &[a, b])?, wide)
}

fn prelu<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, slope, wide) = pair(im, node)?;
    one(im.b.op(&node.name, &binary::PRELU, NoAttributes {}, &[x, slope])?, wide)
}

fn shift<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = match node.text("direction", "")?.as_str() {
        "LEFT" => &binary::SHIFT_LEFT,
        "RIGHT" => &binary::SHIFT_RIGHT,
        other => return Err(node.wrong(format!("direction {other:?}"))),
    };
    let (a, b, wide) = pair(im, node)?;
    one(im.b.op(&node.name, op, NoAttributes {}, &[a, b])?, wide)
}

impl<'m> Importer<'m> {
    /// The axis of a softmax, and the matrix to work on where (before version 13) all axes from it on were one.
    pub fn softmax_axis(&mut self, node: &Node<'m>, x: Value) -> Result<(u32, Option<Vec<Size>>), Fail> {
        let dims = self.dims_of(x);
        let old = self.opset < 13;
        let axis = node.axis(node.int("axis", if old { 1 } else { -1 })?, dims.len())?;
        if !old || axis + 1 == dims.len() {
            return Ok((axis as u32, None));
        }
        let table = &mut self.b.graph.dims;
        let mut product = |dims: &[Dim]| {
            let one = table.constant(1)?;
            dims.iter().try_fold(one, |n, d| table.mul(n, *d))
        };
        let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
        let (outer, inner) = (product(&dims[..axis]).map_err(wrong)?, product(&dims[axis..]).map_err(wrong)?);
        Ok((1, Some(vec![outer.into(), inner.into()])))
    }

    /// A scalar of the element type of `v`.
    pub fn float_like(&mut self, v: Value, x: f32) -> Result<Value, Fail> {
        let dtype = self.b.graph.tensor(v).dtype;
        let scalar = self.b.constant(DType::F32, &[], Data::from_slice(&[x]))?;
        Ok(if dtype == DType::F32 { scalar } else { self.b.cast(&format!("{x}:{dtype}"), scalar, dtype)? })
    }
}

fn cast<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Only concerns 8-bit floats.
    node.int("saturate", 1)?;
    let code = node.int("to", 0)?;
    let to = i32::try_from(code).ok().and_then(tensor::dtype);
    let to = to.ok_or(Fail::Unsupported(format!("cast to element type code {code}")))?;
    let (x, wide) = im.input(node, 0)?;
    let from = im.b.graph.tensor(x).dtype;
    let target = if to == DType::I64 { DType::I32 } else { to };
    if to == DType::I64 && matches!(from, DType::F32 | DType::F16) {
        im.b.note(format!("{}: the cast to int64 saturates at 32 bits", node.name));
    }
    if wide && matches!(to, DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::U32 | DType::U64) {
        im.b.note(format!("{}: int64 numbers beyond 32 bits saturate before they wrap to {to}", node.name));
    }
    let y = if from == target { x } else { im.b.cast(&node.name, x, target)? };
    one(y, to == DType::I64)
}

/// The bits as another type of the same width.
fn bit_cast<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let code = node.int("to", 0)?;
    let to = i32::try_from(code).ok().and_then(tensor::dtype);
    let to = to.ok_or(Fail::Unsupported(format!("bits as element type code {code}")))?;
    let (x, wide) = im.input(node, 0)?;
    let from = im.b.graph.tensor(x).dtype;
    if wide != (to == DType::I64) {
        return unsupported("bits of int64, which has 32 of them here");
    }
    if wide || from == to {
        return one(x, wide);
    }
    if from.size() != to.size() {
        return Err(node.wrong(format!("the bits of {from} as {to}")));
    }
    let op = match to.size() {
        1 => &bitcast::BIT_CAST_8,
        2 => &bitcast::BIT_CAST_16,
        4 => &bitcast::BIT_CAST_32,
        _ => &bitcast::BIT_CAST_64,
    };
    one(im.b.single(&node.name, op, NoAttributes {}, &[Some(x)], &[to], None)?, false)
}

fn cast_like<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    node.int("saturate", 1)?;
    let ((x, _), (like, wide)) = (im.input(node, 0)?, im.input(node, 1)?);
    let (from, to) = (im.b.graph.tensor(x).dtype, im.b.graph.tensor(like).dtype);
    let y = if from == to { x } else { im.b.cast(&node.name, x, to)? };
    one(y, wide)
}

/// Dropout does nothing outside of training, nor with a ratio of 0; its mask is all true.
fn dropout<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Before version 12 the ratio was an attribute, and training had an op of its own.
    let ratio = node.float("ratio", 0.5)?;
    let seed = random::seed(node);
    let ratio = match (node.has(1), im.constant(node, 1).and_then(Constant::floats).as_deref()) {
        (false, _) => Some(ratio),
        (true, Some([ratio])) => Some(*ratio),
        (true, _) => None,
    };
    let training = match im.constant(node, 2) {
        Some(c) => c.data.as_bytes().iter().any(|b| *b != 0),
        None if node.has(2) => return unsupported("dropout that data turn on"),
        None => false,
    };
    let shape: Vec<Entry> = im.dims_at(node, 0)?.into_iter().map(Entry::Size).collect();
    if training && ratio != Some(0.0) {
        let Some(ratio) = ratio.filter(|r| (0.0..1.0).contains(r)) else {
            return unsupported("a ratio of dropout that is not constant, or not below 1");
        };
        let label = |what: &str| format!("{}:{what}", node.name);
        let (x, _) = im.input(node, 0)?;
        let keep = im.b.constant(DType::F32, &[], Data::from_slice(&[1.0 - ratio]))?;
        let keep = im.expanded(node, keep, &shape)?;
        let state = im.random_state()?;
        let mask = im.b.op(&label("mask"), &BERNOULLI, Seed { seed }, &[keep, state])?;
        let factor = im.float_like(x, 1.0 / (1.0 - ratio))?;
        let scaled = im.b.mul(&label("scaled"), x, factor)?;
        let zero = im.float_like(x, 0.0)?;
        let y = im.b.op(&node.name, &WHERE, NoAttributes {}, &[mask, scaled, zero])?;
        return Ok([y, mask].map(|value| Item::Value { value, wide: false }).to_vec());
    }
    let mut items = identity(im, node)?;
    if node.proto.output.len() > 1 {
        let all = im.b.constant(DType::Bool, &[], Data::from_slice(&[1u8]))?;
        items.push(Item::Value { value: im.expanded(node, all, &shape)?, wide: false });
    }
    Ok(items)
}

fn identity<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    match im.item(node, 0) {
        Some(Item::Poisoned) => Err(Fail::Poisoned),
        Some(item) => Ok(vec![item]),
        None => Err(node.wrong("input 0 is missing")),
    }
}
