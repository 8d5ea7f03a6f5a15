//! Running sums and products along an axis.

use super::binary::NUMBERS;
use super::matmul::{flag, reserved, set_output};
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};

/// Attributes of `CumSum` and `CumProd`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Cumulative {
    /// The axis, counted from the outermost.
    pub axis: u32,
    /// 1: an element does not count in its own result, and the first result is that of nothing.
    pub exclusive: u32,
    /// 1: from the end of the axis to its start.
    pub reverse: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Cumulative {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis as usize >= crate::MAX_RANK {
            return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        flag("exclusive", self.exclusive)?;
        flag("reverse", self.reverse)?;
        reserved(self.reserved)
    }
}

const CUMULATIVE: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', NUMBERS)],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    attr_size: core::mem::size_of::<Cumulative>(),
    check_attrs: |b| attributes::<Cumulative>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let x = args.input(0)?;
        x.get(attributes::<Cumulative>(args.attrs)?.axis as usize)?;
        set_output(out, x)
    },
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

/// `y[i] = x[0] + … + x[i]` along `axis`. f16 and bf16 are added in f32, and each result is rounded once; integers wrap.
/// From a NaN on every result is NaN; so it is from two infinities of different sign on.
pub static CUM_SUM: OpDescriptor =
    OpDescriptor { code: 145, name: "CumSum", path: "cumulative::CUM_SUM", ..CUMULATIVE };

/// `y[i] = x[0] · … · x[i]` along `axis`. f16 and bf16 are multiplied in f32, and each result is rounded once; integers
/// wrap. From a NaN on every result is NaN; so it is from a zero and an infinity on.
pub static CUM_PROD: OpDescriptor =
    OpDescriptor { code: 146, name: "CumProd", path: "cumulative::CUM_PROD", ..CUMULATIVE };
