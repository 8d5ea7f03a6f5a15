//! Comparisons with broadcasting.

use super::generated as g;
use super::launch::{Launch, input, output, word};
use super::layout::{AxisWords, broadcast};
use serinette_core::DType;
use serinette_core::op::compare::{EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL};
use serinette_dispatch::{LowerError, LowerStep};

/// The relations of an op in the bits of the kernel: 1 less, 2 equal, 4 greater.
static RELATIONS: [(u16, u32); 5] =
    [(LESS.code, 1), (EQUAL.code, 2), (LESS_OR_EQUAL.code, 3), (GREATER.code, 4), (GREATER_OR_EQUAL.code, 6)];

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (a, b, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let kernel = match a.dtype {
        DType::F32 => g::COMPARE_F32,
        DType::I32 => g::COMPARE_I32,
        _ => return Err(LowerError::NoKernel),
    };
    let (_, relation) = *RELATIONS.iter().find(|(op, _)| *op == step.op).ok_or(LowerError::NoKernel)?;
    let n = word(y.shape.elements())?;
    let AxisWords { rank, dims, strides: [a_strides, b_strides] } =
        broadcast(&y.shape, &a.shape, &b.shape).words()?;
    let params = g::Compare {
        n,
        a: a.location(),
        b: b.location(),
        y: y.location(),
        relation,
        rank,
        dims,
        a_strides,
        b_strides,
    };
    to.items(kernel, params.words(), n.div_ceil(4))
}
