//! Writing at positions that depend on data. Updates are applied one after the other in the order of the elements of
//! `indices`, so the result is defined for positions that come more than once: of plain ones the last stays, others are
//! combined in that order. The combined numbers are rounded to the element type after every update.
//!
//! An index in `[−n, n)` wraps once. An update with any other is dropped and sets the fault word.

use super::binary::NUMBERS;
use super::gather_nd::{INDICES, elements_of, tuple};
use super::matmul::set_output;
use super::movement::Y;
use super::softmax::Axis;
use super::{NoAttributes, OpDescriptor, Operand, attributes};
use crate::dtype::DTypeSet;
use crate::shape::Dims;

const ANY: &[Operand] =
    &[Operand::data("data", 'T', DTypeSet::ANY), INDICES, Operand::data("updates", 'T', DTypeSet::ANY)];
const NUMBER: &[Operand] =
    &[Operand::data("data", 'T', NUMBERS), INDICES, Operand::data("updates", 'T', NUMBERS)];

const ELEMENTS: OpDescriptor = OpDescriptor {
    inputs: NUMBER,
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (data, indices, updates) = (args.input(0)?, args.input(1)?, args.input(2)?);
        elements_of(alg, attributes::<Axis>(args.attrs)?.axis, &data, &indices)?;
        updates.expect_rank(indices.rank())?;
        for (u, i) in updates.as_slice().iter().zip(indices.as_slice()) {
            alg.require_equal("dimension of the updates", *i, *u)?;
        }
        set_output(out, data)
    },
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

const TUPLES: OpDescriptor = OpDescriptor {
    attr_size: 0,
    check_attrs: |b| attributes::<NoAttributes>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (data, indices, updates) = (args.input(0)?, args.input(1)?, args.input(2)?);
        let k = tuple(alg, &indices, data.rank())?;
        let mut wanted = Dims::SCALAR;
        for d in indices.as_slice().iter().take(indices.rank() - 1).chain(data.as_slice().iter().skip(k)) {
            wanted.push(*d)?;
        }
        updates.expect_rank(wanted.rank())?;
        for (u, w) in updates.as_slice().iter().zip(wanted.as_slice()) {
            alg.require_equal("dimension of the updates", *w, *u)?;
        }
        set_output(out, data)
    },
    ..ELEMENTS
};

macro_rules! ops {
    ($($(#[$doc:meta])+ $id:ident = $code:literal $name:literal of $base:ident;)+) => {
        $($(#[$doc])+
        pub static $id: OpDescriptor = OpDescriptor {
            code: $code,
            name: $name,
            path: concat!("scatter::", stringify!($id)),
            ..$base
        };)+
    };
}

const ANY_ELEMENTS: OpDescriptor = OpDescriptor { inputs: ANY, outputs: Y, ..ELEMENTS };
const ANY_TUPLES: OpDescriptor = OpDescriptor { inputs: ANY, outputs: Y, ..TUPLES };

ops! {
    /// `y = data`, then `y[i…, indices[i…, j, …], …] = updates[i…, j, …]` with `j` along `axis`. `indices` and `updates`
    /// have the same dimensions, which along the other axes are at most those of `data`.
    SCATTER_ELEMENTS = 196 "ScatterElements" of ANY_ELEMENTS;
    /// As [`SCATTER_ELEMENTS`], with the update added.
    SCATTER_ELEMENTS_ADD = 197 "ScatterElementsAdd" of ELEMENTS;
    /// As [`SCATTER_ELEMENTS`], with the product of element and update.
    SCATTER_ELEMENTS_MUL = 198 "ScatterElementsMul" of ELEMENTS;
    /// As [`SCATTER_ELEMENTS`], with the lesser of element and update: NaN where one is, the element where they are equal.
    SCATTER_ELEMENTS_MIN = 199 "ScatterElementsMin" of ELEMENTS;
    /// As [`SCATTER_ELEMENTS`], with the greater of element and update: NaN where one is, the element where they are equal.
    SCATTER_ELEMENTS_MAX = 200 "ScatterElementsMax" of ELEMENTS;
    /// `y = data`, then `y[indices[i…, :], r…] = updates[i…, r…]`: each tuple along the last axis of `indices` names
    /// positions along as many outer axes of `data`. The length of the tuples is a known number, 0 or more.
    SCATTER_ND = 201 "ScatterNd" of ANY_TUPLES;
    /// As [`SCATTER_ND`], with the update added.
    SCATTER_ND_ADD = 202 "ScatterNdAdd" of TUPLES;
    /// As [`SCATTER_ND`], with the product of element and update.
    SCATTER_ND_MUL = 203 "ScatterNdMul" of TUPLES;
    /// As [`SCATTER_ND`], with the lesser of element and update: NaN where one is, the element where they are equal.
    SCATTER_ND_MIN = 204 "ScatterNdMin" of TUPLES;
    /// As [`SCATTER_ND`], with the greater of element and update: NaN where one is, the element where they are equal.
    SCATTER_ND_MAX = 205 "ScatterNdMax" of TUPLES;
}
