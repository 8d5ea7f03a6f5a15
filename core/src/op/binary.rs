//! Element-wise functions of two tensors with numpy broadcasting.

use super::matmul::{reserved, set_output};
use super::unary::FLOATS;
use super::{Activation, AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of `Add`, `Mul`, `Sub` and `Div`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Binary {
    /// [`Activation`] code; must be 0 for integers.
    pub activation: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Binary {
    fn check(&self) -> Result<(), AttrError> {
        Activation::from_code(self.activation)?;
        reserved(self.reserved)
    }
}

/// Element types with arithmetic: floats, and integers of every size.
pub const NUMBERS: DTypeSet = DTypeSet::of(&[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
]);

/// Integers of every size.
pub const INTEGERS: DTypeSet = DTypeSet::of(&[
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
]);

/// A function of two operands of one type, giving the same type.
const PLAIN: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("a", 'T', NUMBERS), Operand::data("b", 'T', NUMBERS)],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    shape_rule: broadcast_shape,
    // In place only where the shapes are equal, which the verifier checks by the size of the shared slot.
    in_place: &[(0, 0), (1, 0)],
    ..OpDescriptor::BASE
};

/// The same for integers alone.
const INTEGER: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("a", 'T', INTEGERS), Operand::data("b", 'T', INTEGERS)],
    outputs: &[Operand::data("y", 'T', INTEGERS)],
    ..PLAIN
};

/// The same with an activation.
const ACTIVATED: OpDescriptor = OpDescriptor {
    attr_size: core::mem::size_of::<Binary>(),
    check_attrs: |b| attributes::<Binary>(b).map(|_| ()),
    ..PLAIN
};

/// `y = activation(a + b)`. Integers wrap; f16 and bf16 are added in f32 and rounded once.
pub static ADD: OpDescriptor = OpDescriptor { code: 7, name: "Add", path: "binary::ADD", ..ACTIVATED };

/// `y = activation(a × b)`. Integers wrap; f16 and bf16 are multiplied in f32 and rounded once.
pub static MUL: OpDescriptor = OpDescriptor { code: 8, name: "Mul", path: "binary::MUL", ..ACTIVATED };

/// `y = activation(a − b)`. Integers wrap; f16 and bf16 are subtracted in f32 and rounded once.
pub static SUB: OpDescriptor = OpDescriptor { code: 70, name: "Sub", path: "binary::SUB", ..ACTIVATED };

/// `y = activation(a / b)`. Floats as IEEE 754 (f16 and bf16 in f32, rounded once). Integers are cut towards zero; a division
/// by zero gives 0, and the least number divided by −1 gives itself.
pub static DIV: OpDescriptor = OpDescriptor { code: 71, name: "Div", path: "binary::DIV", ..ACTIVATED };

/// `y = a^b`. Floats as `pow` of IEEE 754 (`1^b` and `a^0` are 1 even where the other is NaN; f16 and bf16 in f32, rounded
/// once). Integers wrap; a negative exponent gives 1 and −1 for 1 and odd powers of −1, else 0; `0^0` is 1.
pub static POW: OpDescriptor = OpDescriptor { code: 72, name: "Pow", path: "binary::POW", ..PLAIN };

/// `y = a − b·⌊a / b⌋` for integers: the remainder with the sign of `b`; 0 where `b` is 0.
pub static MOD: OpDescriptor = OpDescriptor { code: 73, name: "Mod", path: "binary::MOD", ..INTEGER };

/// The remainder with the sign of `a`: for floats `fmod` of C, exact, NaN where `a` is infinite or `b` is 0 (f16 and bf16 in
/// f32); for integers 0 where `b` is 0.
pub static REMAINDER: OpDescriptor =
    OpDescriptor { code: 74, name: "Remainder", path: "binary::REMAINDER", ..PLAIN };

/// The lesser of the two; NaN where one is NaN, `a` where they are equal (so of 0 and −0 the first).
pub static MIN: OpDescriptor = OpDescriptor { code: 75, name: "Min", path: "binary::MIN", ..PLAIN };

/// The greater of the two; NaN where one is NaN, `a` where they are equal (so of 0 and −0 the first).
pub static MAX: OpDescriptor = OpDescriptor { code: 76, name: "Max", path: "binary::MAX", ..PLAIN };

/// `y = a < 0 ? a × b : a`: a rectifier whose slope is `b`. NaN stays NaN; integers wrap.
pub static PRELU: OpDescriptor = OpDescriptor { code: 77, name: "PRelu", path: "binary::PRELU", ..PLAIN };

/// Bits set in both.
pub static BIT_AND: OpDescriptor =
    OpDescriptor { code: 78, name: "BitAnd", path: "binary::BIT_AND", ..INTEGER };

/// Bits set in either.
pub static BIT_OR: OpDescriptor = OpDescriptor { code: 79, name: "BitOr", path: "binary::BIT_OR", ..INTEGER };

/// Bits set in one of the two.
pub static BIT_XOR: OpDescriptor =
    OpDescriptor { code: 80, name: "BitXor", path: "binary::BIT_XOR", ..INTEGER };

/// `y = a · 2^b` modulo the size of the type; 0 where `b` is negative or not below the width.
pub static SHIFT_LEFT: OpDescriptor =
    OpDescriptor { code: 81, name: "ShiftLeft", path: "binary::SHIFT_LEFT", ..INTEGER };

/// `y = ⌊a / 2^b⌋`; where `b` is negative or not below the width 0, or −1 for a negative `a`.
pub static SHIFT_RIGHT: OpDescriptor =
    OpDescriptor { code: 82, name: "ShiftRight", path: "binary::SHIFT_RIGHT", ..INTEGER };

/// `y = a / (1 + e^−a) × b`: the gate of SwiGLU layers (Shazeer, "GLU Variants Improve Transformer", 2020). NaN where a factor
/// is NaN, or where `a` is −∞.
pub static SILU_MUL: OpDescriptor = OpDescriptor {
    code: 83,
    name: "SiluMul",
    path: "binary::SILU_MUL",
    inputs: &[Operand::data("a", 'T', FLOATS), Operand::data("b", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    ..PLAIN
};

/// The rule of two operands that are broadcast.
pub(super) fn broadcast_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let y = common(alg, args.input(0)?, args.input(1)?)?;
    set_output(out, y)
}

/// The numpy broadcasting rule: axes are aligned at the innermost one.
pub(super) fn common(alg: &mut dyn DimAlgebra, a: Dims, b: Dims) -> Result<Dims, ShapeError> {
    let (long, short) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
    let mut y = long;
    let lead = long.rank() - short.rank();
    for axis in 0..short.rank() {
        let d = alg.broadcast(long.get(lead + axis)?, short.get(axis)?)?;
        y.set(lead + axis, d)?;
    }
    Ok(y)
}
