//! Elements in another order along their axes.

use super::matmul::{reserved, set_output};
use super::movement::{X, Y, declared, moved, same_rank};
use super::pad::axes;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::MAX_RANK;
use crate::dtype::{DType, DTypeSet};
use crate::shape::ShapeError;

/// Attributes of `Reverse`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Reverse {
    /// Bit i: axis i is reversed.
    pub axes: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Reverse {
    fn check(&self) -> Result<(), AttrError> {
        axes("axes", self.axes)?;
        reserved(self.reserved)
    }
}

/// Attributes of `ReverseSequence`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ReverseSequence {
    /// The axis along which sequences go, 0 or 1. The other of the two counts the sequences.
    pub time_axis: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for ReverseSequence {
    fn check(&self) -> Result<(), AttrError> {
        super::matmul::flag("time_axis", self.time_axis)?;
        reserved(self.reserved)
    }
}

/// Attributes of `Roll`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Roll {
    /// How far each element moves towards the end of each axis; entries at and above the rank are 0.
    pub shifts: [i32; MAX_RANK],
}

impl Attributes for Roll {
    fn check(&self) -> Result<(), AttrError> {
        Ok(())
    }
}

/// Attributes of `StridedSlice`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct StridedSlice {
    /// First element taken along each axis; along a symbolic axis the id of an expression whose value that is. Entries
    /// at and above the rank are 0.
    pub starts: [u32; MAX_RANK],
    /// Distance from one element taken to the next, not 0. Entries at and above the rank are 1.
    pub steps: [i32; MAX_RANK],
    /// Bit i: axis i is symbolic.
    pub symbolic: u32,
    /// Zero.
    pub reserved: u32,
}

impl StridedSlice {
    /// The expression of a symbolic axis.
    pub fn expr(&self, axis: usize) -> Option<u32> {
        let start = *self.starts.get(axis)?;
        if self.symbolic >> axis & 1 == 1 { Some(start) } else { None }
    }
}

impl Default for StridedSlice {
    fn default() -> StridedSlice {
        StridedSlice { starts: [0; MAX_RANK], steps: [1; MAX_RANK], symbolic: 0, reserved: 0 }
    }
}

impl Attributes for StridedSlice {
    fn check(&self) -> Result<(), AttrError> {
        if self.steps.contains(&0) {
            return Err(AttrError::new("steps", 1, 0));
        }
        axes("symbolic", self.symbolic)?;
        reserved(self.reserved)
    }
}

/// `y[i…] = x[n − 1 − i…]` along the axes named, `x[i…]` along the others.
pub static REVERSE: OpDescriptor = OpDescriptor {
    code: 187,
    name: "Reverse",
    path: "reverse::REVERSE",
    inputs: X,
    outputs: Y,
    attr_size: core::mem::size_of::<Reverse>(),
    check_attrs: |b| attributes::<Reverse>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let (a, x): (Reverse, _) = (attributes(args.attrs)?, args.input(0)?);
        if a.axes >> x.rank() != 0 {
            return Err(ShapeError::axis(31 - a.axes.leading_zeros() as usize, x.rank()));
        }
        set_output(out, x)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// The first `lengths[b]` elements of sequence `b` in reverse order, the rest as it is: with time axis 1,
/// `y[b, t, …] = x[b, lengths[b] − 1 − t, …]` for `t < lengths[b]`. A length below 0 counts as 0, one above the size of
/// the time axis as that size.
pub static REVERSE_SEQUENCE: OpDescriptor = OpDescriptor {
    code: 188,
    name: "ReverseSequence",
    path: "reverse::REVERSE_SEQUENCE",
    inputs: &[
        Operand::data("x", 'T', DTypeSet::ANY),
        Operand::data("lengths", '-', DTypeSet::of(&[DType::I32])).length(),
    ],
    outputs: Y,
    attr_size: core::mem::size_of::<ReverseSequence>(),
    check_attrs: |b| attributes::<ReverseSequence>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: ReverseSequence = attributes(args.attrs)?;
        let (x, lengths) = (args.input(0)?, args.input(1)?);
        lengths.expect_rank(1)?;
        x.get(1)?;
        let batch = x.get(1 - (a.time_axis as usize & 1))?;
        alg.require_equal("number of sequences", batch, lengths.get(0)?)?;
        set_output(out, x)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[i…] = x[(i − shift) mod n…]` along each axis of `n` elements.
pub static ROLL: OpDescriptor = OpDescriptor {
    code: 189,
    name: "Roll",
    path: "reverse::ROLL",
    inputs: X,
    outputs: Y,
    attr_size: core::mem::size_of::<Roll>(),
    check_attrs: |b| attributes::<Roll>(b).map(|_| ()),
    shape_rule: |_, args, out| set_output(out, args.input(0)?),
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[i…] = x[start + i · step…]`, steps of either sign. The output's dimensions say how many elements are taken. Along
/// axes that are not symbolic every element taken must be there; along symbolic ones those that are not give zero bytes.
pub static STRIDED_SLICE: OpDescriptor = OpDescriptor {
    code: 190,
    name: "StridedSlice",
    path: "reverse::STRIDED_SLICE",
    inputs: X,
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<StridedSlice>(),
    check_attrs: |b| attributes::<StridedSlice>(b).map(|_| ()),
    attr_exprs: |b, each| {
        if let Ok(a) = attributes::<StridedSlice>(b) {
            (0..MAX_RANK).filter_map(|axis| a.expr(axis)).for_each(each);
        }
    },
    shape_rule: |alg, args, out| {
        let a: StridedSlice = attributes(args.attrs)?;
        let (x, y) = (args.input(0)?, declared(out)?);
        same_rank(&x, &y)?;
        for axis in (0..x.rank()).filter(|axis| a.expr(*axis).is_none()) {
            let (start, step) = (u64::from(a.starts[axis]), u64::from(a.steps[axis].unsigned_abs()));
            let (n, size) = (y.get(axis)?, x.get(axis)?);
            // From the first element to the last: (n − 1) · step, 0 for no elements.
            let factor = alg.constant(step)?;
            let span = alg.mul(n, factor)?;
            let span = alg.saturating_sub(span, step)?;
            // The element furthest from the start of the axis is there, if there is any.
            let first = alg.constant(start + 1)?;
            let end = if a.steps[axis] > 0 {
                alg.add(span, first)?
            } else {
                let start = alg.constant(start)?;
                alg.require_at_most("elements before the start of the slice", span, start)?;
                first
            };
            match alg.known(n) {
                Some(0) => {}
                Some(_) => alg.require_at_most("end of the slice", end, size)?,
                None => {
                    let (end, size) = (alg.mul(n, end)?, alg.mul(n, size)?);
                    alg.require_at_most("end of the slice, times its elements", end, size)?;
                }
            }
        }
        Ok(())
    },
    cost: moved,
    ..OpDescriptor::BASE
};
