//! Attention: scores, masks, softmax and the weighted sum in one op.

use super::matmul::set_output;
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// [`Attention::left`] and [`Attention::right`]: no limit.
pub const UNLIMITED: u32 = u32::MAX;

/// Attributes of `Attention`.
///
/// The query in row `s` stands at position `p = s + offset`, or, with `align_end`, at `p = s + keys − S` with `keys`
/// the number of valid keys of its batch: the last query then stands at the last key. Key `j` is within its window if
/// `p − left ≤ j ≤ p + right`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Attention {
    /// What products of queries and keys are multiplied by; ONNX's default is `1 / √D`.
    pub scale: f32,
    /// Above 0: scores become `cap · tanh(score / cap)` before the mask is added. 0: they stay.
    pub cap: f32,
    /// Position of the first query, such as the number of past keys; 0 with `align_end`.
    pub offset: i32,
    /// 1 if the last query stands at the last valid key.
    pub align_end: u32,
    /// Keys that a query sees before its position, or 2^32 − 1 for no limit.
    pub left: u32,
    /// Keys that a query sees behind its position, or 2^32 − 1 for no limit. Causal attention is 0.
    pub right: u32,
}

impl Attributes for Attention {
    fn check(&self) -> Result<(), AttrError> {
        if self.scale.is_nan() {
            return Err(AttrError::new("scale", 0, u64::from(self.scale.to_bits())));
        }
        if !self.cap.is_finite() || self.cap < 0.0 {
            return Err(AttrError::new("cap", u64::from(f32::MAX.to_bits()), u64::from(self.cap.to_bits())));
        }
        super::matmul::flag("align_end", self.align_end)?;
        if self.align_end == 1 && self.offset != 0 {
            return Err(AttrError::new("offset", 0, self.offset as u32 as u64));
        }
        Ok(())
    }
}

const MASKS: DTypeSet = DTypeSet::of(&[DType::F32, DType::Bool]);

/// `y[b, h, s] = Σ_j softmax_j(cap(scale · q[b, h, s] · k[b, h', j]) + mask[b, h, s, j]) · v[b, h', j]`: `q`
/// `[B, H, S, D]`, `k` `[B, HK, L, D]`, `v` `[B, HK, L, DV]`, `y` `[B, H, S, DV]`, head `h` reading the keys of head
/// `h' = ⌊h / (H / HK)⌋`; `H` is a multiple of `HK`. As ONNX `Attention` (scaled once, in f32, instead of by roots).
///
/// `mask` broadcasts to `[B, H, S, L]` (numpy rule, at most four axes; where ONNX takes a shorter last axis as padded,
/// the importer pads): f32 is added to the scores, bool admits a key where it is true. `lengths` i32 `[B]` are the
/// valid keys of each batch, clamped to `0..=L`; absent means all. A key is *admitted* if it is valid, within the
/// window (see [`Attention`](struct@Attention)), and its mask is true or not −∞. A score of −∞ counts as not admitted.
/// Only the values of admitted keys are read: NaN in the keys and values of others does no harm. A row without admitted
/// key is zeros. A NaN or +∞ among the scores makes the row NaN.
///
/// f16 and bf16 are widened; scores, softmax and sums are f32 (f64 in f64, whose mask is still f32), rounded once. A
/// score is the sum of eight interleaved ones over `D`; `y` is the sum over keys, divided by the sum of the
/// exponentials at the end. Scratch: one row of scores.
pub static ATTENTION: OpDescriptor = OpDescriptor {
    code: 253,
    name: "Attention",
    path: "attention::ATTENTION",
    inputs: &[
        Operand::data("q", 'T', FLOATS),
        Operand::data("k", 'T', FLOATS),
        Operand::data("v", 'T', FLOATS),
        Operand::data("mask", '-', MASKS).optional(),
        Operand::data("lengths", '-', DTypeSet::of(&[DType::I32])).length().optional(),
    ],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Attention>(),
    check_attrs: |b| attributes::<Attention>(b).map(|_| ()),
    shape_rule: shapes,
    cost: |s| {
        let (q, v) = (s.input(0), s.input(2));
        let width = (q.dim(3) as u64).saturating_add(v.dim(3) as u64);
        let rows = q.outer(3) as u64;
        Cost { macs: rows.saturating_mul(v.dim(2) as u64).saturating_mul(width), bytes: s.bytes() }
    },
    scratch: |s, _| {
        let size = if s.dtypes.first() == Some(&DType::F64) { 8 } else { 4 };
        (s.input(1).dim(2) as u64).saturating_mul(size)
    },
    ..OpDescriptor::BASE
};

fn shapes(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, out: &mut [Dims]) -> Result<(), ShapeError> {
    let (q, k, v) = (args.input(0)?, args.input(1)?, args.input(2)?);
    for t in [&q, &k, &v] {
        t.expect_rank(4)?;
    }
    let (b, h, s, l) = (q.get(0)?, q.get(1)?, q.get(2)?, k.get(2)?);
    let kept = k.get(1)?;
    let heads = alg.known(kept).ok_or(ShapeError::new("constant number of key heads", 1, 0))?;
    if heads == 0 {
        return Err(ShapeError::new("key heads", 1, 0));
    }
    let each = alg.div_floor(h, heads)?;
    let whole = alg.mul(each, kept)?;
    alg.require_equal("query heads as a multiple of key heads", whole, h)?;
    alg.require_equal("batches of k", b, k.get(0)?)?;
    alg.require_equal("width of k", q.get(3)?, k.get(3)?)?;
    for (axis, what) in ["batches of v", "heads of v", "keys of v"].into_iter().enumerate() {
        alg.require_equal(what, k.get(axis)?, v.get(axis)?)?;
    }
    if let Some(mask) = args.optional(3) {
        let lead = 4usize.checked_sub(mask.rank()).ok_or(ShapeError::rank(4, mask.rank()))?;
        for (want, got) in [b, h, s, l].into_iter().skip(lead).zip(mask.as_slice()) {
            if alg.known(*got) != Some(1) {
                alg.require_equal("dimension of the mask", want, *got)?;
            }
        }
    }
    if let Some(lengths) = args.optional(4) {
        lengths.expect_rank(1)?;
        alg.require_equal("lengths", b, lengths.get(0)?)?;
    }
    set_output(out, Dims::new(&[b, h, s, v.get(3)?])?)
}
