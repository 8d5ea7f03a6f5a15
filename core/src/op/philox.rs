//! Random numbers by counting: Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011). The
//! same bits on every device, in any order of computation.
//!
//! A step has a stream of 32-bit words: word `4b + j` is word `j` of [`philox`] with the key and counter of [`block`]. The
//! operand `state` `[4]` holds the run: words 0 and 1 are the upper half of the counter, words 2 and 3 change the key. A
//! program that counts its runs there gets new numbers every run; steps with different seeds have different numbers.

use super::matmul::set_output;
use super::movement::declared;
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, StepShapes, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of the ops without parameters.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Seed {
    /// The seed; any.
    pub seed: u64,
}

impl Attributes for Seed {
    fn check(&self) -> Result<(), AttrError> {
        Ok(())
    }
}

/// Attributes of the distributions.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Distribution {
    /// The seed; any.
    pub seed: u64,
    /// Uniform: the least number. Normal: the mean. Finite.
    pub offset: f32,
    /// Uniform: the range. Normal: the standard deviation. Finite.
    pub scale: f32,
}

impl Attributes for Distribution {
    fn check(&self) -> Result<(), AttrError> {
        for (field, v) in [("offset", self.offset), ("scale", self.scale)] {
            if !v.is_finite() {
                return Err(AttrError::new(field, 0, u64::from(v.to_bits())));
            }
        }
        Ok(())
    }
}

/// Key and counter of block `index` of a step's stream: the key is the seed (low word first) xor words 2 and 3 of the
/// state, the counter the index (low word first) and words 0 and 1 of the state.
pub fn block(seed: u64, state: [u32; 4], index: u64) -> ([u32; 2], [u32; 4]) {
    let halves = |v: u64| [v as u32, (v >> 32) as u32];
    let ([s0, s1], [i0, i1]) = (halves(seed), halves(index));
    ([s0 ^ state[2], s1 ^ state[3]], [i0, i1, state[0], state[1]])
}

/// Philox4x32-10: ten rounds.
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let ([mut k0, mut k1], [mut a, mut b, mut c, mut d]) = (key, counter);
    for _ in 0..10 {
        let p = u64::from(a).wrapping_mul(0xD251_1F53);
        let q = u64::from(c).wrapping_mul(0xCD9E_8D57);
        (a, b, c, d) = ((q >> 32) as u32 ^ b ^ k0, q as u32, (p >> 32) as u32 ^ d ^ k1, p as u32);
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

const STATE: Operand = Operand::data("state", '-', DTypeSet::of(&[DType::U32]));

fn check_state(alg: &mut dyn DimAlgebra, state: Dims) -> Result<(), ShapeError> {
    state.expect_rank(1)?;
    let four: Dim = alg.constant(4)?;
    alg.require_equal("words of the state", four, state.get(0)?)
}

const DISTRIBUTED: OpDescriptor = OpDescriptor {
    inputs: &[STATE],
    outputs: &[Operand::data("y", '-', FLOATS)],
    declared_output: true,
    attr_size: core::mem::size_of::<Distribution>(),
    check_attrs: |b| attributes::<Distribution>(b).map(|_| ()),
    shape_rule: |alg, args, _| check_state(alg, args.input(0)?),
    cost: |s| s.element_cost(16),
    ..OpDescriptor::BASE
};

/// `y = offset + u · scale` with `u` even in `0..1`: product and sum each rounded, f16 and bf16 in f32 and then once more,
/// so that a result may be rounded up to `offset + scale`. The program chooses the dimensions.
///
/// Element `i` takes word `w` number `i` of the stream, f64 the words `2i` (low) and `2i + 1` (high) as one of 64 bits. `u` is
/// its upper bits as a fraction, as many as the type holds exactly: 24 for f32, 11 for f16, 8 for bf16, 53 for f64.
pub static RANDOM_UNIFORM: OpDescriptor =
    OpDescriptor { code: 227, name: "RandomUniform", path: "philox::RANDOM_UNIFORM", ..DISTRIBUTED };

/// `y = offset + z · scale` with `z` normal (Box and Muller). The program chooses the dimensions.
///
/// The elements `2i` and `2i + 1` are `r · cos t` and `r · sin t` with `r = √(−2 · ln u)` and `t = 2π · v`, every operation
/// rounded, in f32 (then once more for f16 and bf16) or f64. `u` in `0..=1` and `v` in `0..1` come from the words `2i` and
/// `2i + 1` of the stream: `u = (w + 1) / 2^32` (`w` and the sum rounded) and `v` the upper 24 bits as a fraction; for f64 from
/// the words `4i` (low), `4i + 1` and `4i + 2` (low), `4i + 3` as two of 64 bits, of which the upper 53 are taken in both
/// places: `u = (w + 1) / 2^53`.
pub static RANDOM_NORMAL: OpDescriptor =
    OpDescriptor { code: 228, name: "RandomNormal", path: "philox::RANDOM_NORMAL", ..DISTRIBUTED };

/// `y = u < p` with `u` in `0..1` the upper 24 bits of word `i` of the stream for element `i`, as a fraction. NaN gives false.
pub static BERNOULLI: OpDescriptor = OpDescriptor {
    code: 229,
    name: "Bernoulli",
    path: "philox::BERNOULLI",
    inputs: &[Operand::data("p", '-', FLOATS), STATE],
    outputs: &[Operand::data("y", '-', DTypeSet::of(&[DType::Bool]))],
    attr_size: core::mem::size_of::<Seed>(),
    check_attrs: |b| attributes::<Seed>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        check_state(alg, args.input(1)?)?;
        set_output(out, args.input(0)?)
    },
    cost: |s| s.element_cost(16),
    ..OpDescriptor::BASE
};

/// `x` `[B, K]` → `y` `[B, S]`: classes drawn with the probabilities `e^x / Σ e^x`, the program chooses `S`. Class `k` weighs
/// `e^(x − max)`, computed in f32 (f64 in f64), and nothing if `x` is NaN; where the greatest is +∞, those that are weigh 1 and
/// the others nothing. Sample `s` of batch `b` takes `u` in `0..1`, the upper 24 bits of word `b·S + s` of the stream as
/// a fraction, and is the first class up to which the weights, summed in order in f64, are above `u` times their sum. Without
/// such a class it is 0.
pub static MULTINOMIAL: OpDescriptor = OpDescriptor {
    code: 230,
    name: "Multinomial",
    path: "philox::MULTINOMIAL",
    inputs: &[Operand::data("x", '-', FLOATS), STATE],
    outputs: &[Operand::data("y", '-', DTypeSet::of(&[DType::I32]))],
    declared_output: true,
    attr_size: core::mem::size_of::<Seed>(),
    check_attrs: |b| attributes::<Seed>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (x, y) = (args.input(0)?, declared(out)?);
        check_state(alg, args.input(1)?)?;
        x.expect_rank(2)?;
        y.expect_rank(2)?;
        alg.require_equal("batch", x.get(0)?, y.get(0)?)
    },
    cost: |s| s.element_cost(s.input(0).dim(1) as u64),
    scratch: |s: &StepShapes<'_>, _| (s.input(0).dim(1) as u64).saturating_mul(8),
    ..OpDescriptor::BASE
};

#[cfg(test)]
mod tests {
    use super::philox;

    /// The known answers of the Random123 distribution.
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        assert_eq!(philox([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([ones; 2], [ones; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(
            philox([0xa409_3822, 0x299f_31d0], pi),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
