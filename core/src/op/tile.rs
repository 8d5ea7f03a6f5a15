//! Repetition.

use super::matmul::set_output;
use super::movement::{X, Y, declared, moved};
use super::pad::from_within;
use super::{AttrError, Attributes, NoAttributes, OpDescriptor, attributes};
use crate::MAX_RANK;
use crate::shape::ShapeError;

/// Attributes of `Repeat`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Repeat {
    /// The axis.
    pub axis: u32,
    /// How often each element comes, 0 or more.
    pub repeats: u32,
}

impl Attributes for Repeat {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis as usize >= MAX_RANK {
            return Err(AttrError::new("axis", MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        Ok(())
    }
}

/// `y[i…] = x[i mod n…]` along each axis of `n` elements: the whole input over and over. The output's dimensions say how
/// often; they need not be multiples. The ranks are equal.
pub static TILE: OpDescriptor = OpDescriptor {
    code: 184,
    name: "Tile",
    path: "tile::TILE",
    inputs: X,
    outputs: Y,
    declared_output: true,
    check_attrs: |b| attributes::<NoAttributes>(b).map(|_| ()),
    shape_rule: from_within,
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[…, i, …] = x[…, ⌊i / repeats⌋, …]` along `axis`: each element several times in a row.
pub static REPEAT: OpDescriptor = OpDescriptor {
    code: 185,
    name: "Repeat",
    path: "tile::REPEAT",
    inputs: X,
    outputs: Y,
    attr_size: core::mem::size_of::<Repeat>(),
    check_attrs: |b| attributes::<Repeat>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Repeat = attributes(args.attrs)?;
        let (mut y, axis) = (args.input(0)?, a.axis as usize);
        let repeats = alg.constant(u64::from(a.repeats))?;
        let n = alg.mul(y.get(axis)?, repeats)?;
        y.set(axis, n)?;
        set_output(out, y)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y = x` broadcast to the dimensions of the output by the numpy rule: axes that `x` lacks in front, and axes where it
/// has one element, are repeated. What has one element after binding only is not repeated: the compiler must know.
pub static EXPAND: OpDescriptor = OpDescriptor {
    code: 186,
    name: "Expand",
    path: "tile::EXPAND",
    inputs: X,
    outputs: Y,
    declared_output: true,
    shape_rule: |alg, args, out| {
        let (x, y) = (args.input(0)?, declared(out)?);
        let missing = y.rank().checked_sub(x.rank()).ok_or(ShapeError::new(
            "rank",
            y.rank() as u64,
            x.rank() as u64,
        ))?;
        for (axis, from) in x.as_slice().iter().enumerate() {
            if alg.known(*from) != Some(1) {
                alg.require_equal("dimension to expand to", y.get(missing + axis)?, *from)?;
            }
        }
        Ok(())
    },
    cost: moved,
    ..OpDescriptor::BASE
};
