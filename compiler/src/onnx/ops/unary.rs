//! Functions of one tensor.

use super::{Handler, one};
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use serinette_core::DType;
use serinette_core::op::unary::{self, Infinities, Parameters};
use serinette_core::op::{NoAttributes, OpDescriptor, binary};

/// Names and defaults of the two parameters of an op.
type Defaults = ((&'static str, f32), (&'static str, f32));

/// The tables of the family from one line for each op.
macro_rules! family {
    (plain { $($plain:literal = $op:ident;)+ }
     parametric { $($name:literal = $with:ident, $first:expr, $second:expr;)+ }
     others { $($other:literal = $handler:path;)+ }) => {
        pub(super) static HANDLERS: &[(&str, Handler)] =
            &[$(($plain, plain),)+ $(($name, parametric),)+ $(($other, $handler),)+];

        /// Ops whose nodes have one input and no attributes.
        static PLAIN: &[(&str, &OpDescriptor)] = &[$(($plain, &unary::$op)),+];

        static PARAMETRIC: &[(&str, &OpDescriptor, Defaults)] = &[$(($name, &unary::$with, ($first, $second))),+];
    };
}

family! {
    plain {
        "Relu" = RELU;
        "Sigmoid" = SIGMOID;
        "Neg" = NEG;
        "Abs" = ABS;
        "Sign" = SIGN;
        "Ceil" = CEIL;
        "Floor" = FLOOR;
        "Round" = ROUND;
        "Sqrt" = SQRT;
        "Reciprocal" = RECIPROCAL;
        "Exp" = EXP;
        "Log" = LOG;
        "Sin" = SIN;
        "Cos" = COS;
        "Tan" = TAN;
        "Asin" = ASIN;
        "Acos" = ACOS;
        "Atan" = ATAN;
        "Sinh" = SINH;
        "Cosh" = COSH;
        "Tanh" = TANH;
        "Asinh" = ASINH;
        "Acosh" = ACOSH;
        "Atanh" = ATANH;
        "Erf" = ERF;
        "Softplus" = SOFTPLUS;
        "Softsign" = SOFTSIGN;
        "HardSwish" = HARD_SWISH;
        "Mish" = MISH;
        "IsNaN" = IS_NAN;
        "Not" = NOT;
        "BitwiseNot" = BIT_NOT;
    }
    parametric {
        "Swish" = SWISH, ("alpha", 1.0), ("", 0.0);
        "Elu" = ELU, ("alpha", 1.0), ("", 0.0);
        // The defaults are those of the specification to the last digit.
        "Selu" = SELU, ("alpha", 1.673_263_2), ("gamma", 1.050_701);
        "Celu" = CELU, ("alpha", 1.0), ("", 0.0);
        "LeakyRelu" = LEAKY_RELU, ("alpha", 0.01), ("", 0.0);
        "HardSigmoid" = HARD_SIGMOID, ("alpha", 0.2), ("beta", 0.5);
        "ThresholdedRelu" = THRESHOLDED_RELU, ("alpha", 1.0), ("", 0.0);
        "Shrink" = SHRINK, ("lambd", 0.5), ("bias", 0.0);
    }
    others {
        "Gelu" = gelu;
        "IsInf" = is_inf;
        "Clip" = clip;
    }
}

fn is_float(t: DType) -> bool {
    unary::FLOATS.contains(t)
}

fn plain<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = PLAIN.iter().find(|(name, _)| *name == node.proto.op_type).map(|(_, op)| *op);
    let op = op.ok_or(Fail::Unsupported("op not known".into()))?;
    let (x, wide) = im.input(node, 0)?;
    one(im.b.op(&node.name, op, NoAttributes {}, &[x])?, wide)
}

fn parametric<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let entry = PARAMETRIC.iter().find(|(name, ..)| *name == node.proto.op_type);
    let (_, op, (first, second)) = *entry.ok_or(Fail::Unsupported("op not known".into()))?;
    let alpha = node.float(first.0, first.1)?;
    let beta = if second.0.is_empty() { second.1 } else { node.float(second.0, second.1)? };
    let (x, wide) = im.input(node, 0)?;
    let dtype = im.b.graph.tensor(x).dtype;
    // Shrink takes integers too; they are computed in f32.
    let float = if is_float(dtype) { x } else { im.b.cast(&format!("{}:float", node.name), x, DType::F32)? };
    let mut y = im.b.op(&node.name, op, Parameters { alpha, beta }, &[float])?;
    if !is_float(dtype) {
        y = im.b.cast(&format!("{}:cast", node.name), y, dtype)?;
    }
    one(y, wide)
}

fn gelu<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let op = match node.text("approximate", "none")?.as_str() {
        "none" => &unary::GELU,
        "tanh" => &unary::GELU_TANH,
        other => return Err(node.wrong(format!("approximate = {other:?}"))),
    };
    let (x, _) = im.input(node, 0)?;
    one(im.b.op(&node.name, op, NoAttributes {}, &[x])?, false)
}

fn is_inf<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let positive = u32::from(node.int("detect_positive", 1)? != 0);
    let negative = u32::from(node.int("detect_negative", 1)? != 0);
    let (x, _) = im.input(node, 0)?;
    let attrs = Infinities { signs: positive | negative << 1, reserved: 0 };
    one(im.b.op(&node.name, &unary::IS_INF, attrs, &[x])?, false)
}

/// Bounds were attributes before version 11, and are inputs since; known bounds of floats go into the op.
fn clip<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let (low, high) = (node.float("min", f32::NEG_INFINITY)?, node.float("max", f32::INFINITY)?);
    let bound = |im: &Importer<'m>, i: usize, default: f32| {
        if node.has(i) {
            im.constant(node, i).and_then(|c| c.floats()).and_then(|v| v.first().copied())
        } else {
            Some(default)
        }
    };
    let dtype = im.b.graph.tensor(x).dtype;
    // Bounds of f64 may have more digits than the op keeps.
    if let (true, Some(alpha), Some(beta)) =
        (is_float(dtype) && dtype != DType::F64, bound(im, 1, low), bound(im, 2, high))
        && !alpha.is_nan()
        && !beta.is_nan()
    {
        if (alpha, beta) == (f32::NEG_INFINITY, f32::INFINITY) {
            return one(x, wide);
        }
        return one(im.b.op(&node.name, &unary::CLIP, Parameters { alpha, beta }, &[x])?, wide);
    }
    let mut y: Value = x;
    for (i, op, label) in [(1, &binary::MAX, "low"), (2, &binary::MIN, "high")] {
        if let Some((limit, _)) = im.optional(node, i)? {
            y = im.b.op(&format!("{}:{label}", node.name), op, NoAttributes {}, &[y, limit])?;
        }
    }
    one(y, wide)
}
