//! Sizes and counters as tensors.

use super::matmul::set_output;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::MAX_RANK;
use crate::dtype::{DType, DTypeSet};
use crate::shape::Dims;

/// Attributes of `Size`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Size {
    /// Dimension expressions of the program; entries from `count` on are 0.
    pub exprs: [u32; MAX_RANK],
    /// How many expressions, 1..=8.
    pub count: u32,
    /// 1 for a scalar (then `count` is 1), 0 for a vector.
    pub scalar: u32,
}

impl Attributes for Size {
    fn check(&self) -> Result<(), AttrError> {
        if self.count == 0 || self.count as usize > MAX_RANK {
            return Err(AttrError::new("count", MAX_RANK as u64, u64::from(self.count)));
        }
        super::matmul::flag("scalar", self.scalar)?;
        if self.scalar == 1 && self.count != 1 {
            return Err(AttrError::new("count of a scalar", 1, u64::from(self.count)));
        }
        match self.exprs.iter().skip(self.count as usize).find(|e| **e != 0) {
            Some(e) => Err(AttrError::new("unused expression", 0, u64::from(*e))),
            None => Ok(()),
        }
    }
}

/// `y` i32 `[count]` or scalar: the values of dimension expressions (sizes, loop counters). Values above
/// 2^31 − 1 saturate.
pub static SIZE: OpDescriptor = OpDescriptor {
    code: 23,
    name: "Size",
    path: "size::SIZE",
    inputs: &[],
    outputs: &[Operand::data("y", '-', DTypeSet::of(&[DType::I32]))],
    attr_size: core::mem::size_of::<Size>(),
    check_attrs: |b| attributes::<Size>(b).map(|_| ()),
    attr_exprs: |b, each| {
        if let Ok(a) = attributes::<Size>(b) {
            a.exprs.iter().take(a.count as usize).for_each(|e| each(*e));
        }
    },
    shape_rule: |alg, args, out| {
        let a: Size = attributes(args.attrs)?;
        let mut y = Dims::SCALAR;
        if a.scalar == 0 {
            y.push(alg.constant(u64::from(a.count))?)?;
        }
        set_output(out, y)
    },
    ..OpDescriptor::BASE
};
