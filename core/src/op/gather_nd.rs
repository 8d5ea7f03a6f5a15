//! Reading at positions that depend on data, element by element and by tuples. [`Gather`](super::gather) takes whole
//! slices along one axis.

use super::matmul::{reserved, set_output};
use super::movement::{Y, moved};
use super::softmax::Axis;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::MAX_RANK;
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of `GatherNd`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct GatherNd {
    /// How many outer axes `data` and `indices` have in common, below 8.
    pub batch_dims: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for GatherNd {
    fn check(&self) -> Result<(), AttrError> {
        if self.batch_dims as usize >= MAX_RANK {
            return Err(AttrError::new("batch_dims", MAX_RANK as u64 - 1, u64::from(self.batch_dims)));
        }
        reserved(self.reserved)
    }
}

pub(super) const INDICES: Operand = Operand::data("indices", '-', DTypeSet::of(&[DType::I32])).index();

/// The rule for indices that stand for single elements of `data`: the same rank, and along the axes other than `axis` at
/// most its size.
pub(super) fn elements_of(
    alg: &mut dyn DimAlgebra,
    axis: u32,
    data: &Dims,
    indices: &Dims,
) -> Result<(), ShapeError> {
    indices.expect_rank(data.rank())?;
    data.get(axis as usize)?;
    for other in (0..data.rank()).filter(|a| *a != axis as usize) {
        alg.require_at_most("dimension of the indices", indices.get(other)?, data.get(other)?)?;
    }
    Ok(())
}

/// The number of axes that the tuples in `indices` index: its last dimension, which must be known and at most `most`.
pub(super) fn tuple(alg: &mut dyn DimAlgebra, indices: &Dims, most: usize) -> Result<usize, ShapeError> {
    let last = indices.rank().checked_sub(1).ok_or(ShapeError::rank(1, 0))?;
    let k = alg.known(indices.get(last)?).ok_or(ShapeError::new("known length of an index", 1, 0))?;
    if k > most as u64 { Err(ShapeError::new("length of an index", most as u64, k)) } else { Ok(k as usize) }
}

/// `y[i…, j, …] = data[i…, indices[i…, j, …], …]` with `j` along `axis`. `y` has the dimensions of `indices`, which along
/// the other axes may be smaller than those of `data`. An index in `[−n, n)` wraps once; any other reads as zero and sets
/// the fault word.
pub static GATHER_ELEMENTS: OpDescriptor = OpDescriptor {
    code: 194,
    name: "GatherElements",
    path: "gather_nd::GATHER_ELEMENTS",
    inputs: &[Operand::data("data", 'T', DTypeSet::ANY), INDICES],
    outputs: Y,
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (data, indices) = (args.input(0)?, args.input(1)?);
        elements_of(alg, attributes::<Axis>(args.attrs)?.axis, &data, &indices)?;
        set_output(out, indices)
    },
    cost: moved,
    ..OpDescriptor::BASE
};

/// `y[b…, i…, r…] = data[b…, indices[b…, i…, :], r…]`: each tuple along the last axis of `indices` names positions along
/// as many axes of `data`, after the `batch_dims` that both have. The length of the tuples is a known number, 0 or more.
/// Each index of a tuple in `[−n, n)` wraps once; with any other, the tuple reads as zeros and sets the fault word. A
/// result without elements reads nothing.
pub static GATHER_ND: OpDescriptor = OpDescriptor {
    code: 195,
    name: "GatherNd",
    path: "gather_nd::GATHER_ND",
    inputs: &[Operand::data("data", 'T', DTypeSet::ANY), INDICES],
    outputs: Y,
    attr_size: core::mem::size_of::<GatherNd>(),
    check_attrs: |b| attributes::<GatherNd>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let batch = attributes::<GatherNd>(args.attrs)?.batch_dims as usize;
        let (data, indices) = (args.input(0)?, args.input(1)?);
        let most = data.rank().checked_sub(batch).ok_or(ShapeError::axis(batch, data.rank()))?;
        let k = tuple(alg, &indices, most)?;
        if batch >= indices.rank() {
            return Err(ShapeError::axis(batch, indices.rank()));
        }
        let mut y = Dims::SCALAR;
        for axis in 0..indices.rank() - 1 {
            if axis < batch {
                alg.require_equal("batch dimension", data.get(axis)?, indices.get(axis)?)?;
            }
            y.push(indices.get(axis)?)?;
        }
        data.as_slice().iter().skip(batch + k).try_for_each(|d| y.push(*d))?;
        set_output(out, y)
    },
    cost: moved,
    ..OpDescriptor::BASE
};
