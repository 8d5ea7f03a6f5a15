//! Padding and cropping. One op for each way of filling what lies outside of the input.

use super::matmul::reserved;
use super::movement::{X, Y, declared, moved, same_rank};
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::MAX_RANK;
use crate::dtype::DTypeSet;
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of the pads. The output's dimensions say how much follows the input along each axis.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pad {
    /// Elements added before the input along each axis; where negative, elements of the input left out. Along a
    /// symbolic axis: the id of an expression whose value is the number of elements added. Entries at and above the
    /// rank are 0.
    pub starts: [i32; MAX_RANK],
    /// Bit i: axis i is symbolic.
    pub symbolic: u32,
    /// Zero.
    pub reserved: u32,
}

impl Pad {
    /// The expression of a symbolic axis.
    pub fn expr(&self, axis: usize) -> Option<u32> {
        let start = *self.starts.get(axis)?;
        if self.symbolic >> axis & 1 == 1 { Some(start as u32) } else { None }
    }
}

impl Attributes for Pad {
    fn check(&self) -> Result<(), AttrError> {
        axes("symbolic", self.symbolic)?;
        reserved(self.reserved)
    }
}

/// An error unless a mask names axes alone.
pub(super) const fn axes(field: &'static str, mask: u32) -> Result<(), AttrError> {
    if mask >> MAX_RANK == 0 { Ok(()) } else { Err(AttrError::new(field, (1 << MAX_RANK) - 1, mask as u64)) }
}

/// An error unless an operand has one element.
pub(super) fn one_element(alg: &mut dyn DimAlgebra, what: &'static str, x: Dims) -> Result<(), ShapeError> {
    let one = alg.constant(1)?;
    x.as_slice().iter().try_for_each(|d| alg.require_equal(what, *d, one))
}

/// An error if there is no element to take for an axis of `to` elements.
pub(super) fn has_source(alg: &mut dyn DimAlgebra, from: Dim, to: Dim) -> Result<(), ShapeError> {
    if alg.known(from).is_some_and(|n| n > 0) || alg.known(to) == Some(0) {
        return Ok(());
    }
    // `to ≤ to · from` unless `from` is 0 and `to` is not.
    let product = alg.mul(from, to)?;
    alg.require_at_most("elements of an axis that is repeated from nothing", to, product)
}

/// The rule of the ops whose elements all come from the input, along each axis from any of its elements.
pub(super) fn from_within(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let (x, y) = (args.input(0)?, declared(out)?);
    same_rank(&x, &y)?;
    x.as_slice().iter().zip(y.as_slice()).try_for_each(|(from, to)| has_source(alg, *from, *to))
}

const PADDED: OpDescriptor = OpDescriptor {
    inputs: X,
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<Pad>(),
    check_attrs: |b| attributes::<Pad>(b).map(|_| ()),
    attr_exprs: |b, each| {
        if let Ok(a) = attributes::<Pad>(b) {
            (0..MAX_RANK).filter_map(|axis| a.expr(axis)).for_each(each);
        }
    },
    shape_rule: from_within,
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[i…] = x[i − start…]` where that is an element of `x`, else `value`: one element, or absent for zero bytes. Any
/// dimensions of `y` are right, so negative starts and a small `y` crop.
pub static PAD: OpDescriptor = OpDescriptor {
    code: 180,
    name: "Pad",
    path: "pad::PAD",
    inputs: &[Operand::data("x", 'T', DTypeSet::ANY), Operand::data("value", 'T', DTypeSet::ANY).optional()],
    shape_rule: |alg, args, out| {
        same_rank(&args.input(0)?, &declared(out)?)?;
        match args.optional(1) {
            Some(value) => one_element(alg, "elements of the value", value),
            None => Ok(()),
        }
    },
    ..PADDED
};

/// `y[i…] = x[i − start…]` with the axes mirrored at their first and last elements, which are not repeated, as often as
/// needed: the position `p` along an axis of `n` elements is `p mod 2(n − 1)`, or `2(n − 1)` minus that where it is
/// `n` or more. An axis of one element repeats it.
pub static PAD_REFLECT: OpDescriptor =
    OpDescriptor { code: 181, name: "PadReflect", path: "pad::PAD_REFLECT", ..PADDED };

/// `y[i…] = x[i − start…]` with the first and last element of each axis going on for ever.
pub static PAD_EDGE: OpDescriptor =
    OpDescriptor { code: 182, name: "PadEdge", path: "pad::PAD_EDGE", ..PADDED };

/// `y[i…] = x[(i − start) mod n…]` along each axis of `n` elements.
pub static PAD_WRAP: OpDescriptor =
    OpDescriptor { code: 183, name: "PadWrap", path: "pad::PAD_WRAP", ..PADDED };
