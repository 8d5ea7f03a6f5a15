//! Normalisation to length 1 along an axis.

use super::softmax::{Axis, along_shape};
use super::unary::FLOATS;
use super::{OpDescriptor, Operand, attributes};

const LP: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Axis>(),
    check_attrs: |b| attributes::<Axis>(b).map(|_| ()),
    shape_rule: along_shape,
    cost: |s| s.element_cost(2),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

/// `y = x / Σ |x|` along `axis`, f16 and bf16 in f32 and rounded once; 0 where the sum is 0. A NaN makes its whole row NaN;
/// beside an infinity, which becomes NaN, numbers become 0.
pub static L1_NORMALIZE: OpDescriptor =
    OpDescriptor { code: 154, name: "L1Normalize", path: "lp_norm::L1_NORMALIZE", ..LP };

/// `y = x / √Σ x²` along `axis`, f16 and bf16 in f32 and rounded once; 0 where the sum is 0. A NaN makes its whole row NaN;
/// beside an infinity, which becomes NaN, numbers become 0. The squares may overflow (f16 and bf16: in f32), which gives 0.
pub static L2_NORMALIZE: OpDescriptor =
    OpDescriptor { code: 155, name: "L2Normalize", path: "lp_norm::L2_NORMALIZE", ..LP };
