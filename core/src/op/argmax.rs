//! Position of the largest and of the smallest element (top-1).

use super::binary::NUMBERS;
use super::matmul::{flag, reserved, set_output};
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of `ArgMax` and `ArgMin`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ArgMax {
    /// The axis searched, counted from the outermost.
    pub axis: u32,
    /// 1 to keep the axis with size 1, 0 to drop it.
    pub keep_axis: u32,
    /// Of equal elements: 1 for the last, 0 for the first.
    pub last: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for ArgMax {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis as usize >= crate::MAX_RANK {
            return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        flag("keep_axis", self.keep_axis)?;
        flag("last", self.last)?;
        reserved(self.reserved)
    }
}

/// `y` i32: the position along `axis` of the largest element; of equal ones (0 and −0 are) the first or the last. NaN
/// counts as the largest, and every NaN as equal. The axis must have at least one element.
pub static ARGMAX: OpDescriptor = OpDescriptor { code: 19, name: "ArgMax", path: "argmax::ARGMAX", ..SEARCH };

/// `y` i32: the position along `axis` of the smallest element; of equal ones (0 and −0 are) the first or the last. NaN
/// counts as the smallest, and every NaN as equal. The axis must have at least one element.
pub static ARGMIN: OpDescriptor =
    OpDescriptor { code: 142, name: "ArgMin", path: "argmax::ARGMIN", ..SEARCH };

const SEARCH: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", '-', NUMBERS)],
    outputs: &[Operand::data("y", '-', DTypeSet::of(&[DType::I32]))],
    attr_size: core::mem::size_of::<ArgMax>(),
    check_attrs: |b| attributes::<ArgMax>(b).map(|_| ()),
    shape_rule: searched_shape,
    cost: |s| super::Cost { macs: s.input(0).elements() as u64, bytes: s.bytes() },
    ..OpDescriptor::BASE
};

fn searched_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let a: ArgMax = attributes(args.attrs)?;
    let (x, axis) = (args.input(0)?, a.axis as usize);
    let one = alg.constant(1)?;
    alg.require_at_most("a searched axis of at least one element", one, x.get(axis)?)?;
    let most = alg.constant(i32::MAX as u64)?;
    alg.require_at_most("a searched axis whose positions fit i32", x.get(axis)?, most)?;
    let mut y = Dims::SCALAR;
    for (i, d) in x.as_slice().iter().enumerate() {
        if i != axis {
            y.push(*d)?;
        } else if a.keep_axis != 0 {
            y.push(one)?;
        }
    }
    set_output(out, y)
}
