//! Reading by positions that depend on data.

use super::matmul::set_output;
use super::softmax::Axis;
use super::{Cost, OpDescriptor, Operand, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::Dims;

/// `y[a…, i…, b…] = data[a…, indices[i…], b…]` with `axis` the position of `indices` in `data`. An index in
/// `[−n, n)` wraps once; any other reads as zero and sets the fault word, also for `n = 0`.
pub static GATHER: OpDescriptor = OpDescriptor {
    code: 15,
    name: "Gather",
    path: "gather::GATHER",
    inputs: &[
        Operand::data("data", 'T', DTypeSet::ANY),
        Operand::data("indices", '-', DTypeSet::of(&[DType::I32])).index(),
    ],
    outputs: &[Operand::data("y", 'T', DTypeSet::ANY)],
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let axis = attributes::<Axis>(args.attrs)?.axis as usize;
        let (data, indices) = (args.input(0)?, args.input(1)?);
        data.get(axis)?;
        let mut y = Dims::SCALAR;
        for (i, d) in data.as_slice().iter().enumerate() {
            if i == axis {
                for n in indices.as_slice() {
                    y.push(*n)?;
                }
            } else {
                y.push(*d)?;
            }
        }
        set_output(out, y)
    },
    cost: |s| Cost { macs: 0, bytes: s.element_cost(0).bytes },
    ..OpDescriptor::BASE
};

/// The checked position of `index` in an axis of `n` elements: in `[−n, n)` it wraps once, anything else is
/// `None`. This is the definition for every device.
pub fn checked_index(index: i64, n: usize) -> Option<usize> {
    let n = i64::try_from(n).ok()?;
    let wrapped = if index < 0 { index.checked_add(n)? } else { index };
    if (0..n).contains(&wrapped) { usize::try_from(wrapped).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::checked_index;

    #[test]
    fn an_index_wraps_once() {
        for (i, n, want) in [
            (0, 3, Some(0)),
            (2, 3, Some(2)),
            (3, 3, None),
            (-1, 3, Some(2)),
            (-3, 3, Some(0)),
            (-4, 3, None),
            (0, 0, None),
            (-1, 0, None),
            (i64::MIN, 3, None),
            (i64::MAX, 3, None),
        ] {
            assert_eq!(checked_index(i, n), want, "{i} of {n}");
        }
    }
}
