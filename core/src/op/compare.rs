//! Element-wise comparisons, and the connectives of truth values, with numpy broadcasting.

use super::binary::{NUMBERS, broadcast_shape};
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

const BOOL: DTypeSet = DTypeSet::of(&[DType::Bool]);
/// Numbers and truth values.
const COMPARED: DTypeSet = DTypeSet::of(&[
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
    DType::Bool,
]);

const ORDER: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("a", 'T', NUMBERS), Operand::data("b", 'T', NUMBERS)],
    outputs: &[Operand::data("y", '-', BOOL)],
    shape_rule: broadcast_shape,
    ..OpDescriptor::BASE
};

const LOGIC: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("a", '-', BOOL), Operand::data("b", '-', BOOL)],
    in_place: &[(0, 0), (1, 0)],
    ..ORDER
};

/// `y = a < b`; false with NaN.
pub static LESS: OpDescriptor = OpDescriptor { code: 20, name: "Less", path: "compare::LESS", ..ORDER };
/// `y = a > b`; false with NaN.
pub static GREATER: OpDescriptor =
    OpDescriptor { code: 21, name: "Greater", path: "compare::GREATER", ..ORDER };
/// `y = a = b`; false with NaN. −0 equals 0, and any two truths are equal whatever their bytes.
pub static EQUAL: OpDescriptor = OpDescriptor {
    code: 22,
    name: "Equal",
    path: "compare::EQUAL",
    inputs: &[Operand::data("a", 'T', COMPARED), Operand::data("b", 'T', COMPARED)],
    ..ORDER
};
/// `y = a ≤ b`; false with NaN.
pub static LESS_OR_EQUAL: OpDescriptor =
    OpDescriptor { code: 100, name: "LessOrEqual", path: "compare::LESS_OR_EQUAL", ..ORDER };
/// `y = a ≥ b`; false with NaN.
pub static GREATER_OR_EQUAL: OpDescriptor =
    OpDescriptor { code: 101, name: "GreaterOrEqual", path: "compare::GREATER_OR_EQUAL", ..ORDER };
/// Whether both are true.
pub static AND: OpDescriptor = OpDescriptor { code: 102, name: "And", path: "compare::AND", ..LOGIC };
/// Whether one at least is true.
pub static OR: OpDescriptor = OpDescriptor { code: 103, name: "Or", path: "compare::OR", ..LOGIC };
/// Whether just one is true.
pub static XOR: OpDescriptor = OpDescriptor { code: 104, name: "Xor", path: "compare::XOR", ..LOGIC };
