//! Softmax and its kin.

use super::matmul::{reserved, set_output};
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of `Softmax`, and of other ops that work along one axis.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Axis {
    /// The axis, counted from the outermost.
    pub axis: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Axis {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis as usize >= crate::MAX_RANK {
            return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        reserved(self.reserved)
    }
}

/// An op of floats along one axis.
const ALONG: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: along_shape,
    cost: |s| s.element_cost(4),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

/// `y = exp(x − max) / Σ exp(x − max)` along `axis`, f16 and bf16 in f32 and rounded once. A NaN, or a positive infinity,
/// makes its whole row NaN; so does a row of negative infinities.
pub static SOFTMAX: OpDescriptor =
    OpDescriptor { code: 10, name: "Softmax", path: "softmax::SOFTMAX", ..ALONG };

/// `y = x − max − ln Σ exp(x − max)` along `axis`, f16 and bf16 in f32 and rounded once. A NaN, or a positive infinity,
/// makes its whole row NaN; so does a row of negative infinities.
pub static LOG_SOFTMAX: OpDescriptor =
    OpDescriptor { code: 147, name: "LogSoftmax", path: "softmax::LOG_SOFTMAX", ..ALONG };

/// 1 for the largest element along `axis`, 0 for the others. NaN counts as the largest; of equal elements (0 and −0 are, and
/// every NaN) the first.
pub static HARDMAX: OpDescriptor = OpDescriptor {
    code: 148,
    name: "Hardmax",
    path: "softmax::HARDMAX",
    cost: |s| s.element_cost(1),
    ..ALONG
};

/// The shape of `x`, which must have the axis.
pub(super) fn along_shape(
    _: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let x = args.input(0)?;
    x.get(attributes::<Axis>(args.attrs)?.axis as usize)?;
    set_output(out, x)
}
