//! Tensors made from few numbers.

use super::binary::NUMBERS;
use super::matmul::{reserved, set_output};
use super::movement::{Y, declared};
use super::pad::one_element;
use super::softmax::Axis;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::ShapeError;

/// Attributes of the ops that know a diagonal.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Diagonal {
    /// Column minus row on the diagonal: 0 the main one, above 0 to its right.
    pub k: i32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Diagonal {
    fn check(&self) -> Result<(), AttrError> {
        reserved(self.reserved)
    }
}

const VALUE: &[Operand] = &[Operand::data("value", 'T', DTypeSet::ANY)];

/// Every element of `y` is `value`, which has one element. The program chooses the dimensions.
pub static FILL: OpDescriptor = OpDescriptor {
    code: 206,
    name: "Fill",
    path: "generate::FILL",
    inputs: VALUE,
    outputs: Y,
    declared_output: true,
    shape_rule: |alg, args, _| one_element(alg, "elements of the value", args.input(0)?),
    ..OpDescriptor::BASE
};

/// `y[i] = start + i · delta`; `start` and `delta` have one element each, the program chooses the length. Floats: `i`, the
/// product and the sum are each rounded, f16 and bf16 in f32 and then once more. Integers wrap.
pub static RANGE: OpDescriptor = OpDescriptor {
    code: 207,
    name: "Range",
    path: "generate::RANGE",
    inputs: &[Operand::data("start", 'T', NUMBERS), Operand::data("delta", 'T', NUMBERS)],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    declared_output: true,
    shape_rule: |alg, args, out| {
        one_element(alg, "elements of the start", args.input(0)?)?;
        one_element(alg, "elements of the step", args.input(1)?)?;
        declared(out)?.expect_rank(1)
    },
    ..OpDescriptor::BASE
};

/// `y[i, j] = value` where `j − i = k`, else zero bytes; `value` has one element, the program chooses the dimensions.
pub static EYE: OpDescriptor = OpDescriptor {
    code: 208,
    name: "Eye",
    path: "generate::EYE",
    inputs: VALUE,
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<Diagonal>(),
    check_attrs: |b| attributes::<Diagonal>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        one_element(alg, "elements of the value", args.input(0)?)?;
        declared(out)?.expect_rank(2)
    },
    ..OpDescriptor::BASE
};

/// `y[i…, d, j…] = values[1]` where `d` is `indices[i…, j…]`, else `values[0]`, with `d` along `axis` of `y`. The program
/// chooses the depth: the size of that axis. An index in `[−depth, 0)` counts from the end; any other that is out of range
/// has no place and is no fault.
pub static ONE_HOT: OpDescriptor = OpDescriptor {
    code: 209,
    name: "OneHot",
    path: "generate::ONE_HOT",
    inputs: &[
        Operand::data("indices", '-', DTypeSet::of(&[DType::I32])),
        Operand::data("values", 'T', DTypeSet::ANY),
    ],
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let axis = attributes::<Axis>(args.attrs)?.axis as usize;
        let (indices, values, y) = (args.input(0)?, args.input(1)?, declared(out)?);
        y.expect_rank(indices.rank() + 1)?;
        y.get(axis)?;
        let others = (0..y.rank()).filter(|a| *a != axis);
        for (other, d) in others.zip(indices.as_slice()) {
            alg.require_equal("dimension beside the depth", *d, y.get(other)?)?;
        }
        values.expect_rank(1)?;
        let two = alg.constant(2)?;
        alg.require_equal("values", two, values.get(0)?)
    },
    ..OpDescriptor::BASE
};

const TRIANGLE: OpDescriptor = OpDescriptor {
    inputs: &[
        Operand::data("x", 'T', DTypeSet::ANY),
        Operand::data("k", '-', DTypeSet::of(&[DType::I32])).optional(),
    ],
    outputs: Y,
    attr_size: core::mem::size_of::<Diagonal>(),
    check_attrs: |b| attributes::<Diagonal>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let x = args.input(0)?;
        if x.rank() < 2 {
            return Err(ShapeError::rank(2, x.rank()));
        }
        if let Some(k) = args.optional(1) {
            one_element(alg, "elements of k", k)?;
        }
        set_output(out, x)
    },
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

/// `y[…, i, j] = x[…, i, j]` where `j − i ≥ k`, else zero bytes. `k` is that of the attributes plus the operand, which has
/// one element and may be absent.
pub static TRIU: OpDescriptor = OpDescriptor { code: 210, name: "Triu", path: "generate::TRIU", ..TRIANGLE };

/// `y[…, i, j] = x[…, i, j]` where `j − i ≤ k`, else zero bytes. `k` as in [`TRIU`].
pub static TRIL: OpDescriptor = OpDescriptor { code: 211, name: "Tril", path: "generate::TRIL", ..TRIANGLE };
