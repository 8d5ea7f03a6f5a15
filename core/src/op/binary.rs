//! Element-wise functions of two tensors with numpy broadcasting.

use super::matmul::{reserved, set_output};
use super::{Activation, AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of the binary ops.
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

const NUMBERS: DTypeSet = DTypeSet::of(&[DType::F32, DType::F16, DType::I32]);
const OPERANDS: &[Operand] = &[Operand::data("a", 'T', NUMBERS), Operand::data("b", 'T', NUMBERS)];
const RESULT: &[Operand] = &[Operand::data("y", 'T', NUMBERS)];

const BASE: OpDescriptor = OpDescriptor {
    inputs: OPERANDS,
    outputs: RESULT,
    attr_size: core::mem::size_of::<Binary>(),
    check_attrs: |b| attributes::<Binary>(b).map(|_| ()),
    shape_rule: broadcast_shape,
    // In place only where the shapes are equal, which the verifier checks by the size of the shared slot.
    in_place: &[(0, 0), (1, 0)],
    ..OpDescriptor::BASE
};

/// `y = activation(a + b)`. Integers wrap; f16 is added in f32 and rounded once.
pub static ADD: OpDescriptor = OpDescriptor { code: 7, name: "Add", path: "binary::ADD", ..BASE };

/// `y = activation(a × b)`. Integers wrap; f16 is multiplied in f32 and rounded once.
pub static MUL: OpDescriptor = OpDescriptor { code: 8, name: "Mul", path: "binary::MUL", ..BASE };

/// The numpy broadcasting rule: axes are aligned at the innermost one.
pub(super) fn broadcast_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let (a, b) = (args.input(0)?, args.input(1)?);
    let (long, short) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
    let mut y = long;
    let lead = long.rank() - short.rank();
    for axis in 0..short.rank() {
        let d = alg.broadcast(long.get(lead + axis)?, short.get(axis)?)?;
        y.set(lead + axis, d)?;
    }
    set_output(out, y)
}
