//! The bits of elements seen as another type of the same width. One op for each width: what fits together is in the
//! signature.

use super::matmul::set_output;
use super::movement::moved;
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

const BYTES_1: DTypeSet = DTypeSet::of(&[DType::I8, DType::U8, DType::Bool]);
const BYTES_2: DTypeSet = DTypeSet::of(&[DType::F16, DType::BF16, DType::I16, DType::U16]);
const BYTES_4: DTypeSet = DTypeSet::of(&[DType::F32, DType::I32, DType::U32]);
const BYTES_8: DTypeSet = DTypeSet::of(&[DType::F64, DType::I64, DType::U64, DType::C64]);

const BASE: OpDescriptor = OpDescriptor {
    shape_rule: |_, args, out| set_output(out, args.input(0)?),
    cost: moved,
    ..OpDescriptor::BASE
};

/// The bits of `x` as another type of one byte. A bool that is neither 0 nor 1 stays what it is, and counts as true.
pub static BIT_CAST_8: OpDescriptor = OpDescriptor {
    code: 300,
    name: "BitCast8",
    path: "bitcast::BIT_CAST_8",
    inputs: &[Operand::data("x", '-', BYTES_1)],
    outputs: &[Operand::data("y", '-', BYTES_1)],
    ..BASE
};

/// The bits of `x` as another type of two bytes.
pub static BIT_CAST_16: OpDescriptor = OpDescriptor {
    code: 301,
    name: "BitCast16",
    path: "bitcast::BIT_CAST_16",
    inputs: &[Operand::data("x", '-', BYTES_2)],
    outputs: &[Operand::data("y", '-', BYTES_2)],
    ..BASE
};

/// The bits of `x` as another type of four bytes.
pub static BIT_CAST_32: OpDescriptor = OpDescriptor {
    code: 302,
    name: "BitCast32",
    path: "bitcast::BIT_CAST_32",
    inputs: &[Operand::data("x", '-', BYTES_4)],
    outputs: &[Operand::data("y", '-', BYTES_4)],
    ..BASE
};

/// The bits of `x` as another type of eight bytes. Of a complex number the real part is the low half.
pub static BIT_CAST_64: OpDescriptor = OpDescriptor {
    code: 303,
    name: "BitCast64",
    path: "bitcast::BIT_CAST_64",
    inputs: &[Operand::data("x", '-', BYTES_8)],
    outputs: &[Operand::data("y", '-', BYTES_8)],
    ..BASE
};
