//! Channels into blocks of pixels, and back. Tensors are `[N, C, H, W]`.

use super::matmul::{reserved, set_output};
use super::movement::{X, Y, moved};
use super::{AttrError, Attributes, OpDescriptor, attributes};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of this family.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Blocks {
    /// Height and width of a block, at least 1.
    pub block: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Blocks {
    fn check(&self) -> Result<(), AttrError> {
        if self.block == 0 {
            return Err(AttrError::new("block", 1, 0));
        }
        reserved(self.reserved)
    }
}

/// `a / by`, which must be whole.
fn divided(alg: &mut dyn DimAlgebra, what: &'static str, a: Dim, by: u64) -> Result<Dim, ShapeError> {
    let quotient = alg.div_floor(a, by)?;
    let by = alg.constant(by)?;
    let back = alg.mul(quotient, by)?;
    alg.require_equal(what, a, back)?;
    Ok(quotient)
}

const TO_SPACE: OpDescriptor = OpDescriptor {
    inputs: X,
    outputs: Y,
    attr_size: core::mem::size_of::<Blocks>(),
    check_attrs: |b| attributes::<Blocks>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let block = u64::from(attributes::<Blocks>(args.attrs)?.block);
        let x = args.input(0)?;
        x.expect_rank(4)?;
        let c = divided(alg, "channels as a multiple of a block", x.get(1)?, block * block)?;
        let side = alg.constant(block)?;
        let (h, w) = (alg.mul(x.get(2)?, side)?, alg.mul(x.get(3)?, side)?);
        set_output(out, Dims::new(&[x.get(0)?, c, h, w])?)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[n, c, h·b + i, w·b + j] = x[n, (i·b + j)·C + c, h, w]` with `b` the block and `C` the channels of `y` (ONNX's mode
/// DCR).
pub static DEPTH_TO_SPACE: OpDescriptor =
    OpDescriptor { code: 191, name: "DepthToSpace", path: "blocks::DEPTH_TO_SPACE", ..TO_SPACE };

/// `y[n, c, h·b + i, w·b + j] = x[n, c·b² + i·b + j, h, w]` with `b` the block (ONNX's mode CRD, "pixel shuffle").
pub static DEPTH_TO_SPACE_CRD: OpDescriptor =
    OpDescriptor { code: 192, name: "DepthToSpaceCrd", path: "blocks::DEPTH_TO_SPACE_CRD", ..TO_SPACE };

/// `y[n, (i·b + j)·C + c, h, w] = x[n, c, h·b + i, w·b + j]` with `b` the block and `C` the channels of `x`: undoes
/// [`DEPTH_TO_SPACE`].
pub static SPACE_TO_DEPTH: OpDescriptor = OpDescriptor {
    code: 193,
    name: "SpaceToDepth",
    path: "blocks::SPACE_TO_DEPTH",
    shape_rule: |alg, args, out| {
        let block = u64::from(attributes::<Blocks>(args.attrs)?.block);
        let x = args.input(0)?;
        x.expect_rank(4)?;
        let area = alg.constant(block * block)?;
        let c = alg.mul(x.get(1)?, area)?;
        let h = divided(alg, "height as a multiple of a block", x.get(2)?, block)?;
        let w = divided(alg, "width as a multiple of a block", x.get(3)?, block)?;
        set_output(out, Dims::new(&[x.get(0)?, c, h, w])?)
    },
    ..TO_SPACE
};
