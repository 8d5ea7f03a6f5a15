//! Reductions over any set of axes.
//!
//! f16 and bf16 are computed in f32 and rounded once, at the end; integers wrap. Sums and products are taken in blocks, in
//! an order that depends on the shapes alone; what overflows on the way (f16 and bf16: in f32) stays infinite, though the
//! terms left might bring it back. A NaN makes its result NaN. An empty set of axes reduces every element by itself.

use super::binary::NUMBERS;
use super::matmul::{flag, set_output};
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::MAX_RANK;
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of every reduction.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Reduce {
    /// Bit `i`: axis `i` is reduced.
    pub axes: u32,
    /// 1 to keep the reduced axes with size 1, 0 to drop them.
    pub keep_axes: u32,
}

impl Attributes for Reduce {
    fn check(&self) -> Result<(), AttrError> {
        if self.axes >> MAX_RANK != 0 {
            return Err(AttrError::new("axes", (1 << MAX_RANK) - 1, u64::from(self.axes)));
        }
        flag("keep_axes", self.keep_axes)
    }
}

impl Reduce {
    /// Whether `axis` is reduced.
    pub const fn reduces(&self, axis: usize) -> bool {
        axis < MAX_RANK && self.axes >> axis & 1 == 1
    }
}

const BOOL: DTypeSet = DTypeSet::of(&[DType::Bool]);

/// A reduction of floats, giving the same type.
const FLOAT: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Reduce>(),
    check_attrs: |b| attributes::<Reduce>(b).map(|_| ()),
    shape_rule: reduced_shape,
    cost: |s| Cost { macs: s.input(0).elements() as u64, bytes: s.bytes() },
    ..OpDescriptor::BASE
};

const NUMBER: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', NUMBERS)],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    ..FLOAT
};

const TRUTH: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', BOOL)],
    outputs: &[Operand::data("y", 'T', BOOL)],
    ..FLOAT
};

macro_rules! ops {
    ($($(#[$doc:meta])+ $id:ident = $code:literal $name:literal of $base:ident;)+) => {
        $($(#[$doc])+
        pub static $id: OpDescriptor = OpDescriptor {
            code: $code,
            name: $name,
            path: concat!("reduce::", stringify!($id)),
            ..$base
        };)+
    };
}

ops! {
    /// `Σ x`; 0 of nothing.
    SUM = 130 "ReduceSum" of NUMBER;
    /// `Σ x / n`. Floats: NaN of nothing. Integers: the sum is taken modulo 2^64 and the quotient cut towards zero; 0 of
    /// nothing.
    MEAN = 131 "ReduceMean" of NUMBER;
    /// `Π x`; 1 of nothing.
    PROD = 132 "ReduceProd" of NUMBER;
    /// The least element: NaN where there is one, −0 below 0. Of nothing the greatest number of the type, for floats ∞.
    MIN = 133 "ReduceMin" of NUMBER;
    /// The greatest element: NaN where there is one, 0 above −0. Of nothing the least number of the type, for floats −∞.
    MAX = 134 "ReduceMax" of NUMBER;
    /// `Σ x²`; 0 of nothing.
    SUM_SQUARE = 135 "ReduceSumSquare" of NUMBER;
    /// `Σ |x|`; 0 of nothing. The absolute value of the least integer wraps to itself.
    L1 = 136 "ReduceL1" of NUMBER;
    /// `√Σ x²`; 0 of nothing. The squares may overflow (f16 and bf16: in f32), which gives ∞.
    L2 = 137 "ReduceL2" of FLOAT;
    /// `ln Σ x`: −∞ where the sum is 0, as of nothing, NaN where it is negative.
    LOG_SUM = 138 "ReduceLogSum" of FLOAT;
    /// `ln Σ e^x`, without overflow: the greatest element is taken out before. −∞ of nothing, and where every element is −∞.
    LOG_SUM_EXP = 139 "ReduceLogSumExp" of FLOAT;
    /// Whether every element is true; true of nothing.
    ALL = 140 "ReduceAll" of TRUTH;
    /// Whether an element is true; false of nothing.
    ANY = 141 "ReduceAny" of TRUTH;
}

fn reduced_shape(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, out: &mut [Dims]) -> Result<(), ShapeError> {
    let a: Reduce = attributes(args.attrs)?;
    let x = args.input(0)?;
    if let Some(axis) = (x.rank()..MAX_RANK).find(|axis| a.reduces(*axis)) {
        return Err(ShapeError::axis(axis, x.rank()));
    }
    let one = alg.constant(1)?;
    let mut y = Dims::SCALAR;
    for (axis, d) in x.as_slice().iter().enumerate() {
        if !a.reduces(axis) {
            y.push(*d)?;
        } else if a.keep_axes != 0 {
            y.push(one)?;
        }
    }
    set_output(out, y)
}
