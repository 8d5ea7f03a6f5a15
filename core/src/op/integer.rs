//! Products and convolutions of 8-bit integers with zero points that are operands: `MatMulInteger` and `ConvInteger`
//! give the sums, `QLinearMatMul` and `QLinearConv` scale them back to 8 bits. Each 8-bit operand is i8 or u8.
//!
//! `QMatMul` and `QConv2d` are the same for what is known when a model is compiled (i8, no zero point of the weights),
//! with an integer instead of a float to scale by.

use super::conv3d::conv_cost;
use super::matmul::{flag, product_cost, product_dims, reserved, set_output};
use super::spatial::{Conv, conv_shape, per_channel};
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of the products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Product {
    /// 1 if `b` is stored as `[…, N, K]`, else 0.
    pub transpose_b: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Product {
    fn check(&self) -> Result<(), AttrError> {
        flag("transpose_b", self.transpose_b)?;
        reserved(self.reserved)
    }
}

const BYTES: DTypeSet = DTypeSet::of(&[DType::I8, DType::U8]);
const F32: DTypeSet = DTypeSet::of(&[DType::F32]);
const I32: DTypeSet = DTypeSet::of(&[DType::I32]);

/// `y = Σ (x − x_zero) · (w − w_zero)` modulo 2^32, over one to three spatial axes: `x` `[N, C, …]`, `w`
/// `[O, C/groups, …]`, `y` i32 `[N, O, …]`. `x_zero` has one element, `w_zero` one or `[O]`; absent ones are 0. Padding
/// stands for `x_zero`: it adds nothing. As ONNX `ConvInteger`.
pub static CONV_INTEGER: OpDescriptor = OpDescriptor {
    code: 242,
    name: "ConvInteger",
    path: "integer::CONV_INTEGER",
    inputs: &[
        Operand::data("x", 'X', BYTES),
        Operand::data("w", 'W', BYTES),
        Operand::data("x_zero", 'X', BYTES).optional(),
        Operand::data("w_zero", 'W', BYTES).optional(),
    ],
    outputs: &[Operand::data("y", '-', I32)],
    attr_size: core::mem::size_of::<Conv>(),
    check_attrs: check_integer_conv,
    shape_rule: |alg, args, out| {
        let y = conv_shape(alg, args, &attributes(args.attrs)?, 1)?;
        one(alg, args, 2)?;
        one_or(alg, args, 3, y.get(1)?)?;
        set_output(out, y)
    },
    cost: |s| conv_cost(s, 1),
    ..OpDescriptor::BASE
};

/// `y = Σ (a − a_zero) · (b − b_zero)` modulo 2^32: `a` `[…, M, K]`, `b` `[K, N]` or `[…, K, N]` with the batch axes of
/// `a` (`[…, N, K]` with `transpose_b`), `y` i32 `[…, M, N]`. `a_zero` has one element or is `[M]`, `b_zero` has one or
/// is `[N]`; absent ones are 0. As ONNX `MatMulInteger`.
pub static MATMUL_INTEGER: OpDescriptor = OpDescriptor {
    code: 243,
    name: "MatMulInteger",
    path: "integer::MATMUL_INTEGER",
    inputs: &[
        Operand::data("a", 'X', BYTES),
        Operand::data("b", 'W', BYTES),
        Operand::data("a_zero", 'X', BYTES).optional(),
        Operand::data("b_zero", 'W', BYTES).optional(),
    ],
    outputs: &[Operand::data("y", '-', I32)],
    attr_size: core::mem::size_of::<Product>(),
    check_attrs: |b| attributes::<Product>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Product = attributes(args.attrs)?;
        let y = product_dims(alg, args.input(0)?, args.input(1)?, a.transpose_b != 0)?;
        one_or(alg, args, 2, y.get(y.rank() - 2)?)?;
        one_or(alg, args, 3, y.get(y.rank() - 1)?)?;
        set_output(out, y)
    },
    cost: product_cost,
    ..OpDescriptor::BASE
};

/// A convolution whose sum is scaled to 8 bits: with `acc = bias[o] + Σ (x − x_zero) · (w − w_zero)` modulo 2^32 and
/// `m = x_scale · w_scale / y_scale` (two roundings in f32), `y = saturate(round_half_even(f32(acc) · m) + y_zero)`,
/// the product rounded to f32. A product that is NaN counts as 0. Shapes as `ConvInteger`; scales f32, `x_scale`,
/// `x_zero`, `y_scale` and `y_zero` of one element, `w_scale` and `w_zero` of one or `[O]`, `bias` i32 `[O]`. As ONNX
/// `QLinearConv`.
pub static QLINEAR_CONV: OpDescriptor = OpDescriptor {
    code: 244,
    name: "QLinearConv",
    path: "integer::QLINEAR_CONV",
    inputs: &[
        Operand::data("x", 'X', BYTES),
        Operand::data("x_scale", '-', F32),
        Operand::data("x_zero", 'X', BYTES),
        Operand::data("w", 'W', BYTES),
        Operand::data("w_scale", '-', F32),
        Operand::data("w_zero", 'W', BYTES),
        Operand::data("y_scale", '-', F32),
        Operand::data("y_zero", 'Y', BYTES),
        Operand::data("bias", '-', I32).optional(),
    ],
    outputs: &[Operand::data("y", 'Y', BYTES)],
    attr_size: core::mem::size_of::<Conv>(),
    check_attrs: check_integer_conv,
    shape_rule: |alg, args, out| {
        let y = conv_shape(alg, args, &attributes(args.attrs)?, 3)?;
        for i in [1, 2, 6, 7] {
            one(alg, args, i)?;
        }
        one_or(alg, args, 4, y.get(1)?)?;
        one_or(alg, args, 5, y.get(1)?)?;
        per_channel(alg, args, 8, y.get(1)?)?;
        set_output(out, y)
    },
    cost: |s| conv_cost(s, 3),
    ..OpDescriptor::BASE
};

/// A product whose sum is scaled to 8 bits as that of `QLinearConv`, without bias: shapes as `MatMulInteger`, `a_scale`
/// and `a_zero` of one element or `[M]`, `b_scale` and `b_zero` of one or `[N]`, `y_scale` and `y_zero` of one. As ONNX
/// `QLinearMatMul`.
pub static QLINEAR_MATMUL: OpDescriptor = OpDescriptor {
    code: 245,
    name: "QLinearMatMul",
    path: "integer::QLINEAR_MATMUL",
    inputs: &[
        Operand::data("a", 'X', BYTES),
        Operand::data("a_scale", '-', F32),
        Operand::data("a_zero", 'X', BYTES),
        Operand::data("b", 'W', BYTES),
        Operand::data("b_scale", '-', F32),
        Operand::data("b_zero", 'W', BYTES),
        Operand::data("y_scale", '-', F32),
        Operand::data("y_zero", 'Y', BYTES),
    ],
    outputs: &[Operand::data("y", 'Y', BYTES)],
    attr_size: core::mem::size_of::<Product>(),
    check_attrs: |b| attributes::<Product>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Product = attributes(args.attrs)?;
        let y = product_dims(alg, args.input(0)?, args.input(3)?, a.transpose_b != 0)?;
        let (m, n) = (y.get(y.rank() - 2)?, y.get(y.rank() - 1)?);
        for (i, d) in [(1, m), (2, m), (4, n), (5, n)] {
            one_or(alg, args, i, d)?;
        }
        one(alg, args, 6)?;
        one(alg, args, 7)?;
        set_output(out, y)
    },
    cost: product_cost,
    ..OpDescriptor::BASE
};

/// A sum in integers has no activation: the clamp of the result's type is one.
fn check_integer_conv(b: &[u8]) -> Result<(), AttrError> {
    match attributes::<Conv>(b)?.activation {
        0 => Ok(()),
        code => Err(AttrError::new("activation", 0, u64::from(code))),
    }
}

/// An error unless input `i` is absent or has one element: `[]` or `[1]`.
fn one(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, i: usize) -> Result<(), ShapeError> {
    let one = alg.constant(1)?;
    one_or(alg, args, i, one)
}

/// An error unless input `i` is absent, has one element (`[]` or `[1]`), or is a vector of `d`.
fn one_or(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, i: usize, d: Dim) -> Result<(), ShapeError> {
    let v: Dims = match args.optional(i) {
        Some(v) if v.rank() > 0 => v,
        _ => return Ok(()),
    };
    v.expect_rank(1)?;
    if alg.known(v.get(0)?) == Some(1) {
        return Ok(());
    }
    alg.require_equal("length of a scale or zero point", d, v.get(0)?)
}
