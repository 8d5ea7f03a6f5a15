//! Random numbers, and dropout in training.
//!
//! A state that counts the runs makes them new in every run. A session starts from zeros, so what it computes can be repeated.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::tensor;
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::binary::{ADD, Binary};
use serinette_core::op::philox::{BERNOULLI, Distribution, MULTINOMIAL, RANDOM_NORMAL, RANDOM_UNIFORM, Seed};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("RandomUniform", distributed),
    ("RandomUniformLike", distributed),
    ("RandomNormal", distributed),
    ("RandomNormalLike", distributed),
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
];

/// Name of the state, and words of it: the counter's upper half and the key.
const STATE: &str = "random state";
const WORDS: u64 = 4;

impl<'m> Importer<'m> {
    /// The state of the random numbers, made when it is first wanted.
    pub fn random_state(&mut self) -> Result<Value, Fail> {
        if self.nested() {
            // In a loop every trip would draw the same ones.
            return unsupported("random numbers in a subgraph");
        }
        if let Some(state) = self.random {
            return Ok(state);
        }
        let state = self.b.state(STATE, DType::U32, &[WORDS])?;
        let one = self.b.constant(DType::U32, &[WORDS], Data::from_slice(&[1u32, 0, 0, 0]))?;
        let next = self.b.op("random state:next", &ADD, Binary::default(), &[state, one])?;
        self.b.update(state, next)?;
        self.b.note("random numbers are the same in every new session; each run draws new ones".to_owned());
        self.random = Some(state);
        Ok(state)
    }
}

/// The seed of a node: the attribute, or one from its name, so that nodes differ.
pub(super) fn seed(node: &Node<'_>) -> u64 {
    match node.attribute("seed") {
        // An integer for dropout, a float for the others.
        Some(a) => a.i.map_or_else(|| u64::from(a.f.unwrap_or(0.0).to_bits()), i64::cast_unsigned),
        None => {
            // FNV-1a.
            let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
            node.name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
        }
    }
}

fn element_type(node: &Node<'_>, default: DType) -> Result<DType, Fail> {
    match node.int("dtype", 0)? {
        0 => Ok(default),
        code => match i32::try_from(code).ok().and_then(tensor::dtype) {
            Some(dtype) => Ok(dtype),
            None => unsupported(format!("element type code {code}")),
        },
    }
}

fn distributed<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (sizes, default): (Vec<Size>, DType) = if node.proto.op_type.ends_with("Like") {
        let dims = im.dims_at(node, 0)?;
        let dtype = match im.constant(node, 0) {
            Some(c) => c.dtype,
            None => im.input(node, 0).map(|(v, _)| im.b.graph.tensor(v).dtype)?,
        };
        (dims.into_iter().map(Size::Expr).collect(), dtype)
    } else {
        let shape = node.ints("shape").ok_or_else(|| node.wrong("the shape is missing"))?;
        let sizes = shape.iter().map(|n| u64::try_from(*n).map(Size::Number));
        let sizes = sizes.collect::<Result<Vec<_>, _>>();
        (sizes.map_err(|_| node.wrong(format!("shape {shape:?}")))?, DType::F32)
    };
    let dtype = element_type(node, default)?;
    let normal = node.proto.op_type.starts_with("RandomNormal");
    let (offset, scale) = if normal {
        (node.float("mean", 0.0)?, node.float("scale", 1.0)?)
    } else {
        let (low, high) = (node.float("low", 0.0)?, node.float("high", 1.0)?);
        (low, high - low)
    };
    let op: &'static OpDescriptor = if normal { &RANDOM_NORMAL } else { &RANDOM_UNIFORM };
    let attrs = Distribution { seed: seed(node), offset, scale };
    let state = im.random_state()?;
    one(im.b.single(&node.name, op, attrs, &[Some(state)], &[dtype], Some(&sizes))?, false)
}

fn bernoulli<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (p, _) = im.input(node, 0)?;
    let dtype = element_type(node, im.b.graph.tensor(p).dtype)?;
    let attrs = Seed { seed: seed(node) };
    let state = im.random_state()?;
    let y = im.b.op(&node.name, &BERNOULLI, attrs, &[p, state])?;
    as_type(im, node, y, dtype)
}

fn multinomial<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let dtype = element_type(node, DType::I32)?;
    let samples = node.int("sample_size", 1)?;
    let samples = u64::try_from(samples).map_err(|_| node.wrong(format!("sample_size {samples}")))?;
    let Some(batch) = im.dims_of(x).first().copied() else { return Err(node.wrong("scores have two axes")) };
    let attrs = Seed { seed: seed(node) };
    let state = im.random_state()?;
    let sizes = [Size::Expr(batch), Size::Number(samples)];
    let y = im.b.single(&node.name, &MULTINOMIAL, attrs, &[Some(x), Some(state)], &[], Some(&sizes))?;
    as_type(im, node, y, dtype)
}

/// `y` in the type that is wanted; int64 is i32 here.
fn as_type(im: &mut Importer<'_>, node: &Node<'_>, y: Value, dtype: DType) -> Result<Vec<Item>, Fail> {
    let (wide, to) = (dtype == DType::I64, if dtype == DType::I64 { DType::I32 } else { dtype });
    let same = im.b.graph.tensor(y).dtype == to;
    one(if same { y } else { im.b.cast(&format!("{}:cast", node.name), y, to)? }, wide)
}
