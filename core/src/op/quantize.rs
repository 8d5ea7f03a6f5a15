//! Between f32 and 8-bit integers with a scale and a zero point (ONNX `QuantizeLinear`, `DequantizeLinear`).

use super::matmul::{reserved, set_output};
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, ShapeError};

/// Attributes of both ops.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Quantization {
    /// Axis of the per-channel scales, or [`PER_TENSOR`].
    pub axis: u32,
    /// Zero.
    pub reserved: u32,
}

/// One scale for the whole tensor.
pub const PER_TENSOR: u32 = u32::MAX;

impl Attributes for Quantization {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis != PER_TENSOR && self.axis as usize >= crate::MAX_RANK {
            return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        reserved(self.reserved)
    }
}

const F32: DTypeSet = DTypeSet::of(&[DType::F32]);
const I8: DTypeSet = DTypeSet::of(&[DType::I8]);
const INTS: DTypeSet = DTypeSet::of(&[DType::I8, DType::I32]);

/// `y = saturate(round_half_even(x / scale) + zero)`: `x` f32, `scale` f32 and `zero` i8, both scalars (or
/// `[1]`), or `[C]` along `axis`. The division is in f32; NaN gives the zero point.
pub static QUANTIZE: OpDescriptor = OpDescriptor {
    code: 17,
    name: "Quantize",
    path: "quantize::QUANTIZE",
    inputs: &[
        Operand::data("x", '-', F32),
        Operand::data("scale", '-', F32),
        Operand::data("zero", '-', I8).optional(),
    ],
    outputs: &[Operand::data("y", '-', I8)],
    attr_size: core::mem::size_of::<Quantization>(),
    check_attrs: |b| attributes::<Quantization>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        scales_shape(alg, args)?;
        set_output(out, args.input(0)?)
    },
    cost: |s| s.element_cost(2),
    ..OpDescriptor::BASE
};

/// `y = (x − zero) · scale`: `x` i8 or i32, `scale` f32, `zero` of the type of `x`, shaped as for `Quantize`.
pub static DEQUANTIZE: OpDescriptor = OpDescriptor {
    code: 18,
    name: "Dequantize",
    path: "quantize::DEQUANTIZE",
    inputs: &[
        Operand::data("x", 'T', INTS),
        Operand::data("scale", '-', F32),
        Operand::data("zero", 'T', INTS).optional(),
    ],
    outputs: &[Operand::data("y", '-', F32)],
    attr_size: core::mem::size_of::<Quantization>(),
    check_attrs: |b| attributes::<Quantization>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        scales_shape(alg, args)?;
        set_output(out, args.input(0)?)
    },
    cost: |s| s.element_cost(2),
    ..OpDescriptor::BASE
};

fn scales_shape(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>) -> Result<(), ShapeError> {
    let axis = attributes::<Quantization>(args.attrs)?.axis;
    let x = args.input(0)?;
    let channels = if axis == PER_TENSOR { alg.constant(1)? } else { x.get(axis as usize)? };
    for v in [Some(args.input(1)?), args.optional(2)].into_iter().flatten() {
        match v.rank() {
            0 if axis == PER_TENSOR => {}
            1 => alg.require_equal("number of scales", channels, v.get(0)?)?,
            r => return Err(ShapeError::rank(1, r)),
        }
    }
    Ok(())
}
