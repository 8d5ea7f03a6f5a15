//! Matrix products: `MatMul` in floating point and `QMatMul` in 8-bit integers.

use super::{
    Activation, AttrError, Attributes, Cost, OpDescriptor, Operand, ShapeArgs, StepShapes, attributes,
};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of `MatMul`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MatMul {
    /// [`Activation`] code, applied after the bias.
    pub activation: u32,
    /// 1 if `b` is stored as `[…, N, K]`, else 0.
    pub transpose_b: u32,
}

impl Attributes for MatMul {
    fn check(&self) -> Result<(), AttrError> {
        Activation::from_code(self.activation)?;
        flag("transpose_b", self.transpose_b)
    }
}

/// Attributes of `QMatMul`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct QMatMul {
    /// How the accumulator becomes an 8-bit number.
    pub requantize: Requantize,
    /// 1 if `b` is stored as `[N, K]`, else 0.
    pub transpose_b: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for QMatMul {
    fn check(&self) -> Result<(), AttrError> {
        self.requantize.check()?;
        flag("transpose_b", self.transpose_b)?;
        reserved(self.reserved)
    }
}

/// The integer-only step from a 32-bit accumulator to an 8-bit result, the same bits on every device:
///
/// `y = clamp(round_half_even(acc · multiplier[c] / 2^(31 + shift[c])) + y_zero, low, high)`
///
/// `acc = bias[c] + Σ (x − x_zero) · w` is taken modulo 2^32 (products alone cannot overflow below 65,793
/// terms). The product is exact in 64 bits; `31 + shift[c]` is clamped to `1..=62`, so any weight bytes are safe.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Requantize {
    /// Zero point of the 8-bit input, in −128..=127.
    pub x_zero: i32,
    /// Zero point of the 8-bit output, in −128..=127.
    pub y_zero: i32,
    /// Least result, in −128..=127: an activation such as relu is a clamp at `y_zero`.
    pub low: i32,
    /// Greatest result, `low..=127`.
    pub high: i32,
    /// 0: round half to even. Other codes are reserved.
    pub rounding: u32,
    /// Zero.
    pub reserved: u32,
}

impl Requantize {
    pub(super) fn check(&self) -> Result<(), AttrError> {
        for (field, v) in
            [("x_zero", self.x_zero), ("y_zero", self.y_zero), ("low", self.low), ("high", self.high)]
        {
            if !(-128..=127).contains(&v) {
                return Err(AttrError::new(field, 127, v as u32 as u64));
            }
        }
        if self.low > self.high {
            return Err(AttrError::new("low", self.high as u32 as u64, self.low as u32 as u64));
        }
        if self.rounding != 0 {
            return Err(AttrError::new("rounding", 0, u64::from(self.rounding)));
        }
        reserved(self.reserved)
    }

    /// Requantises one accumulator. This function *is* the definition; other devices must give its bits.
    pub fn apply(&self, acc: i32, multiplier: i32, shift: i32) -> i8 {
        let scaled = shift_round_half_even(i64::from(acc) * i64::from(multiplier), shift);
        scaled.saturating_add(i64::from(self.y_zero)).clamp(i64::from(self.low), i64::from(self.high)) as i8
    }
}

/// `round_half_even(product / 2^(31 + shift))`, the exponent clamped to `1..=62`.
fn shift_round_half_even(product: i64, shift: i32) -> i64 {
    let by = shift.saturating_add(31).clamp(1, 62) as u32;
    let floor = product >> by;
    let rest = product & ((1i64 << by) - 1);
    let half = 1i64 << (by - 1);
    floor + i64::from(rest > half || (rest == half && floor & 1 == 1))
}

/// An error unless `value` is 0 or 1.
pub(super) fn flag(field: &'static str, value: u32) -> Result<(), AttrError> {
    if value <= 1 { Ok(()) } else { Err(AttrError::new(field, 1, u64::from(value))) }
}

/// An error unless a reserved field is zero.
pub(super) fn reserved(value: u32) -> Result<(), AttrError> {
    if value == 0 { Ok(()) } else { Err(AttrError::new("reserved", 0, u64::from(value))) }
}

const NUMBERS: DTypeSet = DTypeSet::of(&[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I32,
    DType::I64,
    DType::U32,
    DType::U64,
]);
const I8: DTypeSet = DTypeSet::of(&[DType::I8]);
const I32: DTypeSet = DTypeSet::of(&[DType::I32]);

/// `y = activation(a · b + bias)`: `a` `[…, M, K]`, `b` `[K, N]` or `[…, K, N]` with the batch axes of `a` (`[…, N, K]`
/// with `transpose_b`), `bias` `[N]`. f16 and bf16 are widened, sums are f32 (f64 in f64), rounded once. A sum goes
/// from the bias on along `K` where rows of `b` are read, and is that of eight interleaved sums where columns are
/// (`transpose_b`, or `N = 1`), so its error is at most that of summing along `K`. Integers wrap. `K = 0` gives the
/// bias.
///
/// ONNX `Gemm` is this op: `alpha` and `beta` are products with the constants `B` and `C` where these are constants, a
/// transposed `A` is transposed first, and a `C` that is no vector along `N` is added.
pub static MATMUL: OpDescriptor = OpDescriptor {
    code: 1,
    name: "MatMul",
    path: "matmul::MATMUL",
    inputs: &[
        Operand::data("a", 'T', NUMBERS),
        Operand::data("b", 'T', NUMBERS),
        Operand::data("bias", 'T', NUMBERS).optional(),
    ],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    attr_size: core::mem::size_of::<MatMul>(),
    check_attrs: |b| attributes::<MatMul>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let attrs: MatMul = attributes(args.attrs)?;
        product_shape(alg, args, attrs.transpose_b != 0, &[2], out)
    },
    cost: product_cost,
    ..OpDescriptor::BASE
};

/// `y = requantize(bias + Σ (x − x_zero) · w)`: `x` i8 `[…, M, K]`, `w` i8 `[K, N]` (`[N, K]` with
/// `transpose_b`), `bias`, `multiplier`, `shift` i32 `[N]`, `y` i8 `[…, M, N]`. See [`Requantize`].
pub static QMATMUL: OpDescriptor = OpDescriptor {
    code: 2,
    name: "QMatMul",
    path: "matmul::QMATMUL",
    inputs: &[
        Operand::data("x", '-', I8),
        Operand::data("w", '-', I8),
        Operand::data("bias", '-', I32),
        Operand::data("multiplier", '-', I32),
        Operand::data("shift", '-', I32),
    ],
    outputs: &[Operand::data("y", '-', I8)],
    attr_size: core::mem::size_of::<QMatMul>(),
    check_attrs: |b| attributes::<QMatMul>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let attrs: QMatMul = attributes(args.attrs)?;
        args.input(1)?.expect_rank(2)?;
        product_shape(alg, args, attrs.transpose_b != 0, &[2, 3, 4], out)
    },
    cost: product_cost,
    ..OpDescriptor::BASE
};

/// `[…, M, K] × [K, N]`, with vectors of length N at the inputs `per_column`.
fn product_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    transpose_b: bool,
    per_column: &[usize],
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let y = product_dims(alg, args.input(0)?, args.input(1)?, transpose_b)?;
    let n = y.get(y.rank() - 1)?;
    for &i in per_column {
        if let Some(v) = args.optional(i) {
            v.expect_rank(1)?;
            alg.require_equal("length of a per-column vector", n, v.get(0)?)?;
        }
    }
    set_output(out, y)
}

/// `[…, M, N]` of `[…, M, K] × […, K, N]`, with `b` of the batch axes of `a` or none.
pub(super) fn product_dims(
    alg: &mut dyn DimAlgebra,
    a: Dims,
    b: Dims,
    transpose_b: bool,
) -> Result<Dims, ShapeError> {
    let (ra, rb) = (a.rank(), b.rank());
    if ra < 2 || rb < 2 {
        return Err(ShapeError::rank(2, ra.min(rb)));
    }
    if rb != 2 && rb != ra {
        return Err(ShapeError::rank(ra, rb));
    }
    let (mut k, mut n) = (b.get(rb - 2)?, b.get(rb - 1)?);
    if transpose_b {
        core::mem::swap(&mut k, &mut n);
    }
    alg.require_equal("inner dimension of the product", a.get(ra - 1)?, k)?;
    for axis in 0..rb - 2 {
        alg.require_equal("batch dimension", a.get(axis)?, b.get(axis)?)?;
    }
    let mut y = a;
    y.set(ra - 1, n)?;
    Ok(y)
}

pub(super) fn product_cost(s: &StepShapes<'_>) -> Cost {
    let a = s.input(0);
    let k = a.dim(a.rank().saturating_sub(1)) as u64;
    Cost { macs: (s.output(0).elements() as u64).saturating_mul(k), bytes: s.bytes() }
}

/// Stores the dimensions of the first output.
pub(super) fn set_output(out: &mut [Dims], y: Dims) -> Result<(), ShapeError> {
    *out.first_mut().ok_or(ShapeError::new("outputs", 1, 0))? = y;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requantisation_rounds_half_to_even() {
        let r = Requantize { low: -128, high: 127, ..Default::default() };
        // multiplier 2^30 with shift 0 is one half.
        for (acc, want) in
            [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (-5, -2), (7, 4), (254, 127), (-1000, -128)]
        {
            assert_eq!(r.apply(acc, 1 << 30, 0), want, "{acc}/2");
        }
    }

    #[test]
    fn requantisation_agrees_with_wide_integers() {
        let r = Requantize { low: -128, high: 127, y_zero: 3, ..Default::default() };
        let mut seed = 1u64;
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let acc = (seed >> 32) as i32 >> (seed % 20);
            let mult = ((seed >> 16) as i32 | 1 << 30) & 0x7fff_ffff;
            let shift = (seed % 12) as i32;
            let by = 31 + shift;
            let (p, unit) = (i128::from(acc) * i128::from(mult), 1i128 << by);
            let (mut q, rest) = (p.div_euclid(unit), p.rem_euclid(unit));
            if rest * 2 > unit || (rest * 2 == unit && q % 2 != 0) {
                q += 1;
            }
            assert_eq!(i128::from(r.apply(acc, mult, shift)), (q + 3).clamp(-128, 127));
        }
    }

    #[test]
    fn hostile_shifts_are_clamped() {
        let r = Requantize { low: -128, high: 127, ..Default::default() };
        for shift in [i32::MIN, -31, 31, 32, i32::MAX] {
            r.apply(i32::MIN, i32::MIN, shift);
        }
    }
}
