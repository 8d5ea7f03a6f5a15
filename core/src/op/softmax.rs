//! Softmax.

use super::matmul::{reserved, set_output};
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::dtype::{DType, DTypeSet};

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

const F32: DTypeSet = DTypeSet::of(&[DType::F32]);

/// `y = exp(x − max) / Σ exp(x − max)` along `axis`, in f32. A NaN, or a positive infinity, makes its whole row
/// NaN; so does a row of negative infinities.
pub static SOFTMAX: OpDescriptor = OpDescriptor {
    code: 10,
    name: "Softmax",
    path: "softmax::SOFTMAX",
    inputs: &[Operand::data("x", 'T', F32)],
    outputs: &[Operand::data("y", 'T', F32)],
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let a: Axis = attributes(args.attrs)?;
        let x = args.input(0)?;
        x.get(a.axis as usize)?;
        set_output(out, x)
    },
    cost: |s| s.element_cost(4),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};
