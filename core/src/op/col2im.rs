//! The sum of overlapping blocks.

use super::movement::declared;
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, attributes};
use crate::shape::{Dim, DimAlgebra, ShapeError};

/// Most axes of an image.
pub const MAX_AXES: usize = 6;

/// Attributes of `Col2Im`. Entries at and above the number of the image's axes are 1 (blocks, strides, dilations) or 0.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Col2Im {
    /// Size of a block along each axis, 1 to 65,535.
    pub blocks: [u32; 6],
    /// Distance between neighbouring blocks, 1 to 65,535.
    pub strides: [u32; 6],
    /// Distance between neighbouring elements of a block, 1 to 65,535.
    pub dilations: [u32; 6],
    /// Elements before the image that blocks cover, at most 65,535.
    pub pads_before: [u32; 6],
    /// Elements after the image that blocks cover, at most 65,535.
    pub pads_after: [u32; 6],
}

impl Default for Col2Im {
    fn default() -> Col2Im {
        let (ones, zeros) = ([1; 6], [0; MAX_AXES]);
        Col2Im { blocks: ones, strides: ones, dilations: ones, pads_before: zeros, pads_after: zeros }
    }
}

impl Attributes for Col2Im {
    fn check(&self) -> Result<(), AttrError> {
        let most = super::conv::MAX_EXTENT;
        for (field, list, least) in [
            ("blocks", &self.blocks, 1),
            ("strides", &self.strides, 1),
            ("dilations", &self.dilations, 1),
            ("pads_before", &self.pads_before, 0),
            ("pads_after", &self.pads_after, 0),
        ] {
            if let Some(v) = list.iter().find(|v| !(least..=most).contains(*v)) {
                return Err(AttrError::new(field, u64::from(most), u64::from(*v)));
            }
        }
        Ok(())
    }
}

impl Col2Im {
    /// How many blocks fit along `axis` of an image of `size`.
    fn positions(&self, alg: &mut dyn DimAlgebra, axis: usize, size: Dim) -> Result<Dim, ShapeError> {
        let of = |list: &[u32; 6]| u64::from(list.get(axis).copied().unwrap_or(1));
        let extent = (of(&self.blocks) - 1) * of(&self.dilations) + 1;
        let pads = alg.constant(of(&self.pads_before) + of(&self.pads_after))?;
        let padded = alg.add(size, pads)?;
        // ⌊(padded − extent) / stride⌋ + 1 where the block fits, else 0.
        let room = alg.saturating_sub(padded, extent - 1)?;
        alg.div_ceil(room, of(&self.strides))
    }
}

/// `x` `[N, C · blocks, L]` → `y` `[N, C, D…]` with one to six axes `D`, which the program chooses. Column `l` of `x` is a
/// block of each of the `C` images: blocks and their elements in row-major order, with element `k` of block `l` at position
/// `l · stride − pad + k · dilation` along each axis. `y` is the sum of what lies on each element, 0 where nothing does, in
/// the order of `k`; elements beside the image are left out. f16 and bf16 are summed in f32 and rounded once.
pub static COL2IM: OpDescriptor = OpDescriptor {
    code: 222,
    name: "Col2Im",
    path: "col2im::COL2IM",
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    declared_output: true,
    attr_size: core::mem::size_of::<Col2Im>(),
    check_attrs: |b| attributes::<Col2Im>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Col2Im = attributes(args.attrs)?;
        let (x, y) = (args.input(0)?, declared(out)?);
        x.expect_rank(3)?;
        if y.rank() < 3 {
            return Err(ShapeError::rank(3, y.rank()));
        }
        alg.require_equal("batch", x.get(0)?, y.get(0)?)?;
        let (mut channels, mut columns) = (y.get(1)?, alg.constant(1)?);
        for axis in 0..y.rank() - 2 {
            let block = alg.constant(u64::from(a.blocks[axis]))?;
            channels = alg.mul(channels, block)?;
            let positions = a.positions(alg, axis, y.get(axis + 2)?)?;
            columns = alg.mul(columns, positions)?;
        }
        alg.require_equal("channels times elements of a block", channels, x.get(1)?)?;
        alg.require_equal("number of blocks", columns, x.get(2)?)
    },
    cost: |s| Cost { macs: s.input(0).elements() as u64, bytes: s.bytes() },
    ..OpDescriptor::BASE
};
