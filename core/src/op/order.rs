//! Ordering along an axis.
//!
//! The order of both ops: NaN is above every number and equal to every NaN, 0 and −0 are equal, and equal elements stand in
//! the order of their positions, whether the order rises or falls.

use super::binary::NUMBERS;
use super::matmul::{flag, reserved, set_output};
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, ScratchClass, StepShapes, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{Dim, DimAlgebra, ShapeError};

/// Attributes of `TopK`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct TopK {
    /// The axis searched, counted from the outermost.
    pub axis: u32,
    /// 1 for the largest elements, 0 for the smallest.
    pub largest: u32,
    /// 1: best first. 0: in the order of their positions.
    pub sorted: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for TopK {
    fn check(&self) -> Result<(), AttrError> {
        axis(self.axis)?;
        flag("largest", self.largest)?;
        flag("sorted", self.sorted)?;
        reserved(self.reserved)
    }
}

/// Attributes of `Sort`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Sort {
    /// The axis sorted, counted from the outermost.
    pub axis: u32,
    /// 0: smallest first. 1: largest first.
    pub descending: u32,
}

impl Attributes for Sort {
    fn check(&self) -> Result<(), AttrError> {
        axis(self.axis)?;
        flag("descending", self.descending)
    }
}

fn axis(axis: u32) -> Result<(), AttrError> {
    if axis as usize >= crate::MAX_RANK {
        return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(axis)));
    }
    Ok(())
}

const OUTPUTS: &[Operand] =
    &[Operand::data("values", 'T', NUMBERS), Operand::data("indices", '-', DTypeSet::of(&[DType::I32]))];

const ORDERING: OpDescriptor =
    OpDescriptor { inputs: &[Operand::data("x", 'T', NUMBERS)], outputs: OUTPUTS, ..OpDescriptor::BASE };

/// The k first elements along `axis` in falling (`largest`) or rising order, and their positions along it, i32. `k` is the
/// outputs' dimension, at most that of `x`; 0 is allowed. Of equal elements those at lower positions come first, also into
/// the choice. `values` are the bits of `x`.
pub static TOP_K: OpDescriptor = OpDescriptor {
    code: 143,
    name: "TopK",
    path: "order::TOP_K",
    declared_output: true,
    attr_size: core::mem::size_of::<TopK>(),
    check_attrs: |b| attributes::<TopK>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let at = attributes::<TopK>(args.attrs)?.axis as usize;
        let x = args.input(0)?;
        positions_fit(alg, x.get(at)?)?;
        for y in out.iter() {
            y.expect_rank(x.rank())?;
            alg.require_at_most("elements chosen", y.get(at)?, x.get(at)?)?;
            for other in (0..x.rank()).filter(|i| *i != at) {
                alg.require_equal("dimension of a result", x.get(other)?, y.get(other)?)?;
            }
        }
        match out {
            [values, indices] => alg.require_equal("elements chosen", values.get(at)?, indices.get(at)?),
            _ => Err(ShapeError::new("outputs", 2, out.len() as u64)),
        }
    },
    cost: |s| {
        let k = s.output(0).dim(attributes::<TopK>(s.attrs).map_or(0, |a| a.axis as usize));
        comparisons(s, k)
    },
    ..ORDERING
};

/// The elements along `axis` in rising or falling order, and their positions along it, i32. `values` are the bits of `x`.
pub static SORT: OpDescriptor = OpDescriptor {
    code: 144,
    name: "Sort",
    path: "order::SORT",
    attr_size: core::mem::size_of::<Sort>(),
    check_attrs: |b| attributes::<Sort>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let at = attributes::<Sort>(args.attrs)?.axis as usize;
        let x = args.input(0)?;
        positions_fit(alg, x.get(at)?)?;
        *out.get_mut(1).ok_or(ShapeError::new("outputs", 2, 1))? = x;
        set_output(out, x)
    },
    cost: |s| {
        let n = s.input(0).dim(attributes::<Sort>(s.attrs).map_or(0, |a| a.axis as usize));
        comparisons(s, n)
    },
    // The positions of a row that is not contiguous.
    scratch: |s, class| {
        let (x, at) = (s.input(0), attributes::<Sort>(s.attrs).map_or(0, |a| a.axis as usize));
        if class == ScratchClass::Fast && x.inner(at) > 1 { 4 * x.dim(at) as u64 } else { 0 }
    },
    ..ORDERING
};

fn positions_fit(alg: &mut dyn DimAlgebra, n: Dim) -> Result<(), ShapeError> {
    let most = alg.constant(i32::MAX as u64)?;
    alg.require_at_most("an ordered axis whose positions fit i32", n, most)
}

/// One for each level of a search among `k`, for each element.
fn comparisons(s: &StepShapes<'_>, k: usize) -> Cost {
    let levels = u64::from(usize::BITS - k.leading_zeros()).max(1);
    Cost { macs: (s.input(0).elements() as u64).saturating_mul(levels), bytes: s.bytes() }
}
