//! Rotary position embedding.

use super::matmul::{flag, set_output};
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::ShapeError;

/// Attributes of `RotaryEmbedding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Rotary {
    /// 1 if a pair is two neighbours (`2i`, `2i + 1`), 0 if it is one of each half (`i`, `i + R/2`).
    pub interleaved: u32,
    /// 1 if `x` is `[B, S, H, D]`, 0 if it is `[B, H, S, D]`.
    pub heads_inside: u32,
}

impl Attributes for Rotary {
    fn check(&self) -> Result<(), AttrError> {
        flag("interleaved", self.interleaved)?;
        flag("heads_inside", self.heads_inside)
    }
}

/// Turns pairs of the first `R` elements of each row of `x` by an angle of its position (Su et al., "RoFormer", 2021):
/// `(a, b)` becomes `(a·cos − b·sin, a·sin + b·cos)`. The rest of the row is copied. `x` and `y` are `[B, H, S, D]` or
/// `[B, S, H, D]`; `cos` and `sin` have `R/2` columns, and `R ≤ D`. As ONNX `RotaryEmbedding`.
///
/// The row of `cos` and `sin` is, with caches `[P, R/2]`, that of `positions` i32 `[B, S]` (an index: outside of
/// `[−P, P)` the turned elements are zero), or without `positions` that of the step `s`, and `P ≥ S`; with caches
/// `[B, S, R/2]` that of batch and step, and there are no `positions`.
///
/// f16 and bf16 are widened; products and their sum are f32 (f64 in f64), rounded once.
pub static ROTARY_EMBEDDING: OpDescriptor = OpDescriptor {
    code: 254,
    name: "RotaryEmbedding",
    path: "rotary::ROTARY_EMBEDDING",
    inputs: &[
        Operand::data("x", 'T', FLOATS),
        Operand::data("cos", 'T', FLOATS),
        Operand::data("sin", 'T', FLOATS),
        Operand::data("positions", '-', DTypeSet::of(&[DType::I32])).index().optional(),
    ],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Rotary>(),
    check_attrs: |b| attributes::<Rotary>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Rotary = attributes(args.attrs)?;
        let (x, cos, sin) = (args.input(0)?, args.input(1)?, args.input(2)?);
        x.expect_rank(4)?;
        let (batches, steps) = (x.get(0)?, x.get(if a.heads_inside == 1 { 1 } else { 2 })?);
        sin.expect_rank(cos.rank())?;
        for (c, s) in cos.as_slice().iter().zip(sin.as_slice()) {
            alg.require_equal("dimension of cos and sin", *c, *s)?;
        }
        let positions = args.optional(3);
        if let Some(p) = positions {
            p.expect_rank(2)?;
            alg.require_equal("batches of the positions", batches, p.get(0)?)?;
            alg.require_equal("steps of the positions", steps, p.get(1)?)?;
        }
        match (cos.rank(), positions.is_some()) {
            (2, true) => {}
            (2, false) => alg.require_at_most("steps within the caches", steps, cos.get(0)?)?,
            (3, false) => {
                alg.require_equal("batches of the caches", batches, cos.get(0)?)?;
                alg.require_equal("steps of the caches", steps, cos.get(1)?)?;
            }
            (rank, _) => return Err(ShapeError::rank(2, rank)),
        }
        let two = alg.constant(2)?;
        let turned = alg.mul(cos.get(cos.rank() - 1)?, two)?;
        alg.require_at_most("turned elements within a row", turned, x.get(3)?)?;
        set_output(out, x)
    },
    cost: |s| s.element_cost(2),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};
