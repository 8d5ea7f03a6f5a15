//! Conversion between element types.

use super::matmul::set_output;
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

const TYPES: DTypeSet = DTypeSet::of(&[
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

/// `y = x` in another element type. To a float: one rounding to nearest even, overflow is infinity, subnormals are
/// kept. Float to integer: toward zero, saturating, NaN gives 0. Integer to another integer: wraps, except i64 →
/// i32, which saturates (so that an index that was out of range stays out of range). Anything to bool: non-zero is
/// true, NaN is true. Bool to number: 0 or 1.
pub static CAST: OpDescriptor = OpDescriptor {
    code: 16,
    name: "Cast",
    path: "cast::CAST",
    inputs: &[Operand::data("x", '-', TYPES)],
    outputs: &[Operand::data("y", '-', TYPES)],
    shape_rule: |_, args, out| set_output(out, args.input(0)?),
    ..OpDescriptor::BASE
};
