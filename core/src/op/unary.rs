//! Element-wise functions of one tensor.

use super::matmul::set_output;
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

const TYPES: DTypeSet = DTypeSet::of(&[DType::F32, DType::F16]);

/// `y = x > 0 ? x : 0`; NaN stays NaN, −0 becomes 0.
pub static RELU: OpDescriptor = OpDescriptor {
    code: 9,
    name: "Relu",
    path: "unary::RELU",
    inputs: &[Operand::data("x", 'T', TYPES)],
    outputs: &[Operand::data("y", 'T', TYPES)],
    shape_rule: |_, args, out| set_output(out, args.input(0)?),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

/// The function of [`RELU`].
pub fn relu(x: f32) -> f32 {
    if x > 0.0 || x.is_nan() { x } else { 0.0 }
}
