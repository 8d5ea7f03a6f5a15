//! Element-wise comparisons with numpy broadcasting. A comparison with NaN is false.

use super::binary::broadcast_shape;
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

const NUMBERS: DTypeSet = DTypeSet::of(&[DType::F32, DType::I32]);

const BASE: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("a", 'T', NUMBERS), Operand::data("b", 'T', NUMBERS)],
    outputs: &[Operand::data("y", '-', DTypeSet::of(&[DType::Bool]))],
    shape_rule: broadcast_shape,
    ..OpDescriptor::BASE
};

/// `y = a < b`.
pub static LESS: OpDescriptor = OpDescriptor { code: 20, name: "Less", path: "compare::LESS", ..BASE };
/// `y = a > b`.
pub static GREATER: OpDescriptor =
    OpDescriptor { code: 21, name: "Greater", path: "compare::GREATER", ..BASE };
/// `y = a = b`.
pub static EQUAL: OpDescriptor = OpDescriptor { code: 22, name: "Equal", path: "compare::EQUAL", ..BASE };
