//! Ops that move elements and compute nothing. The compiler makes views instead wherever it can.

use super::matmul::set_output;
use super::softmax::Axis;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, StepShapes, attributes};
use crate::MAX_RANK;
use crate::dtype::DTypeSet;
use crate::shape::{Dims, ShapeError};

/// Attributes of `Transpose`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Transpose {
    /// Output axis `i` is input axis `permutation[i]`; entries at and above the rank are 0.
    pub permutation: [u8; MAX_RANK],
}

impl Attributes for Transpose {
    fn check(&self) -> Result<(), AttrError> {
        match self.permutation.iter().find(|p| usize::from(**p) >= MAX_RANK) {
            Some(p) => Err(AttrError::new("permutation", MAX_RANK as u64 - 1, u64::from(*p))),
            None => Ok(()),
        }
    }
}

/// Attributes of `Slice`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Slice {
    /// First element taken along each axis.
    pub starts: [u32; MAX_RANK],
    /// Distance between elements taken along each axis; at least 1. Entries above the rank are 1.
    pub steps: [u32; MAX_RANK],
}

impl Default for Slice {
    fn default() -> Slice {
        Slice { starts: [0; MAX_RANK], steps: [1; MAX_RANK] }
    }
}

impl Attributes for Slice {
    fn check(&self) -> Result<(), AttrError> {
        if self.steps.contains(&0) { Err(AttrError::new("steps", 1, 0)) } else { Ok(()) }
    }
}

/// One input of any element type.
pub(super) const X: &[Operand] = &[Operand::data("x", 'T', DTypeSet::ANY)];
/// One output of the input's element type.
pub(super) const Y: &[Operand] = &[Operand::data("y", 'T', DTypeSet::ANY)];

/// The cost of an op that computes nothing.
pub(super) fn moved(s: &StepShapes<'_>) -> Cost {
    Cost { macs: 0, bytes: s.bytes() }
}

/// The dimensions that the program declares for the first output.
pub(super) fn declared(out: &[Dims]) -> Result<Dims, ShapeError> {
    out.first().copied().ok_or(ShapeError::new("outputs", 1, 0))
}

/// An error unless the output's rank is the input's.
pub(super) fn same_rank(x: &Dims, y: &Dims) -> Result<(), ShapeError> {
    y.expect_rank(x.rank())
}

/// `y = x`. The shapes may differ as long as the number of elements is the same.
pub static COPY: OpDescriptor = OpDescriptor {
    code: 11,
    name: "Copy",
    path: "movement::COPY",
    inputs: X,
    outputs: Y,
    declared_output: true,
    shape_rule: |alg, args, out| {
        let x = args.input(0)?;
        let y = declared(out)?;
        let (mut a, mut b) = (alg.constant(1)?, alg.constant(1)?);
        for d in x.as_slice() {
            a = alg.mul(a, *d)?;
        }
        for d in y.as_slice() {
            b = alg.mul(b, *d)?;
        }
        alg.require_equal("number of elements", a, b)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[i…] = x[…]` with the axes permuted.
pub static TRANSPOSE: OpDescriptor = OpDescriptor {
    code: 12,
    name: "Transpose",
    path: "movement::TRANSPOSE",
    inputs: X,
    outputs: Y,
    attr_size: core::mem::size_of::<Transpose>(),
    check_attrs: |b| attributes::<Transpose>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let a: Transpose = attributes(args.attrs)?;
        let x = args.input(0)?;
        let (mut y, mut seen) = (x, [false; MAX_RANK]);
        for (axis, p) in a.permutation.iter().take(x.rank()).enumerate() {
            let p = usize::from(*p);
            y.set(axis, x.get(p)?)?;
            if core::mem::replace(&mut seen[p], true) {
                return Err(ShapeError::new("permutation without repetition", 1, 2));
            }
        }
        set_output(out, y)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// The inputs one after the other along `axis`; all other dimensions are equal.
pub static CONCAT: OpDescriptor = OpDescriptor {
    code: 13,
    name: "Concat",
    path: "movement::CONCAT",
    inputs: X,
    outputs: Y,
    variadic: true,
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let axis = attributes::<Axis>(args.attrs)?.axis as usize;
        let mut y = args.input(0)?;
        y.get(axis)?;
        for i in 1..args.inputs.len() {
            let x = args.input(i)?;
            x.expect_rank(y.rank())?;
            for other in (0..y.rank()).filter(|a| *a != axis) {
                alg.require_equal("dimension of a concatenated tensor", y.get(other)?, x.get(other)?)?;
            }
            let sum = alg.add(y.get(axis)?, x.get(axis)?)?;
            y.set(axis, sum)?;
        }
        set_output(out, y)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[i…] = x[starts + i · steps]`. The output's dimensions say how many elements are taken.
pub static SLICE: OpDescriptor = OpDescriptor {
    code: 14,
    name: "Slice",
    path: "movement::SLICE",
    inputs: X,
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<Slice>(),
    check_attrs: |b| attributes::<Slice>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Slice = attributes(args.attrs)?;
        let x = args.input(0)?;
        let y: Dims = declared(out)?;
        y.expect_rank(x.rank())?;
        for axis in 0..x.rank() {
            // start + (n − 1) · step + 1 ≤ size; for n = 0 only start ≤ size.
            let (start, step) = (u64::from(a.starts[axis]), u64::from(a.steps[axis]));
            let n = y.get(axis)?;
            let step = alg.constant(step)?;
            let span = alg.mul(n, step)?;
            let span = alg.saturating_sub(span, u64::from(a.steps[axis]) - 1)?;
            let start = alg.constant(start)?;
            let end = alg.add(span, start)?;
            alg.require_at_most("end of the slice", end, x.get(axis)?)?;
        }
        Ok(())
    },
    cost: moved,
    ..OpDescriptor::BASE
};
