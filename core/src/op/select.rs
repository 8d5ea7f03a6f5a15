//! A choice between two tensors.

use super::binary::common;
use super::matmul::set_output;
use super::movement::Y;
use super::{OpDescriptor, Operand};
use crate::dtype::{DType, DTypeSet};

/// `y = condition ? a : b` for every element, with all three broadcast to common dimensions by the numpy rule. A byte of
/// the condition that is not 0 is true.
pub static WHERE: OpDescriptor = OpDescriptor {
    code: 212,
    name: "Where",
    path: "select::WHERE",
    inputs: &[
        Operand::data("condition", '-', DTypeSet::of(&[DType::Bool])),
        Operand::data("a", 'T', DTypeSet::ANY),
        Operand::data("b", 'T', DTypeSet::ANY),
    ],
    outputs: Y,
    shape_rule: |alg, args, out| {
        let y = common(alg, args.input(0)?, args.input(1)?)?;
        let y = common(alg, y, args.input(2)?)?;
        set_output(out, y)
    },
    in_place: &[(1, 0), (2, 0)],
    ..OpDescriptor::BASE
};
