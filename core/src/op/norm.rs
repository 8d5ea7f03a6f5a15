//! Normalisation by mean and variance.
//!
//! f16 and bf16 are computed in f32 and rounded once. Means and variances are those of all `n` elements (divided by `n`);
//! a variance is the mean square of the differences from the mean, in a second pass. Sums are taken in an order that depends
//! on the shapes alone. A NaN or an infinity makes everything that is normalised together NaN. Where variance and epsilon
//! are both 0, the result is NaN. `scale` and `bias` count as 1 and 0 where they are absent.

use super::matmul::{reserved, set_output};
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, ShapeArgs, attributes};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of `LayerNorm` and `RmsNorm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LayerNorm {
    /// First of the axes that are normalised together, counted from the outermost; all inner ones are too.
    pub axis: u32,
    /// Added to the variance or mean square, finite and not negative.
    pub epsilon: f32,
}

impl Attributes for LayerNorm {
    fn check(&self) -> Result<(), AttrError> {
        if self.axis as usize >= crate::MAX_RANK {
            return Err(AttrError::new("axis", crate::MAX_RANK as u64 - 1, u64::from(self.axis)));
        }
        epsilon(self.epsilon)
    }
}

/// Attributes of `InstanceNorm` and `BatchNorm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ChannelNorm {
    /// Added to the variance, finite and not negative.
    pub epsilon: f32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for ChannelNorm {
    fn check(&self) -> Result<(), AttrError> {
        epsilon(self.epsilon)?;
        reserved(self.reserved)
    }
}

/// Attributes of `GroupNorm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct GroupNorm {
    /// Number of groups of neighbouring channels, at least 1; the number of channels is a multiple of it.
    pub groups: u32,
    /// Added to the variance, finite and not negative.
    pub epsilon: f32,
}

impl Attributes for GroupNorm {
    fn check(&self) -> Result<(), AttrError> {
        if self.groups == 0 {
            return Err(AttrError::new("groups", 1, 0));
        }
        epsilon(self.epsilon)
    }
}

fn epsilon(e: f32) -> Result<(), AttrError> {
    if e.is_finite() && e >= 0.0 { Ok(()) } else { Err(AttrError::new("epsilon", 0, u64::from(e.to_bits()))) }
}

const X: Operand = Operand::data("x", 'T', FLOATS);
const SCALE: Operand = Operand::data("scale", 'T', FLOATS);
const BIAS: Operand = Operand::data("bias", 'T', FLOATS);

const NORM: OpDescriptor = OpDescriptor {
    inputs: &[X, SCALE.optional(), BIAS.optional()],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<ChannelNorm>(),
    check_attrs: |b| attributes::<ChannelNorm>(b).map(|_| ()),
    shape_rule: channel_shape,
    cost: |s| s.element_cost(5),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

const LAYER: OpDescriptor = OpDescriptor {
    attr_size: core::mem::size_of::<LayerNorm>(),
    check_attrs: |b| attributes::<LayerNorm>(b).map(|_| ()),
    shape_rule: layer_shape,
    ..NORM
};

/// `y = (x − mean) / √(variance + epsilon) · scale + bias` over the axes from `axis` on together; `scale` and `bias` have
/// just these axes.
pub static LAYER_NORM: OpDescriptor =
    OpDescriptor { code: 149, name: "LayerNorm", path: "norm::LAYER_NORM", ..LAYER };

/// `y = x / √(Σ x² / n + epsilon) · scale` over the axes from `axis` on together; `scale` has just these axes. Where the
/// squares overflow (f16 and bf16: in f32), `y` is 0, or NaN of an infinity. One infinity leaves the numbers beside it 0.
pub static RMS_NORM: OpDescriptor = OpDescriptor {
    code: 150,
    name: "RmsNorm",
    path: "norm::RMS_NORM",
    inputs: &[X, SCALE.optional()],
    cost: |s| s.element_cost(3),
    ..LAYER
};

/// `y = (x − mean) / √(variance + epsilon) · scale + bias` for `x` `[N, C, …]`, over all axes from the third on together;
/// `scale` and `bias` are `[C]`.
pub static INSTANCE_NORM: OpDescriptor =
    OpDescriptor { code: 151, name: "InstanceNorm", path: "norm::INSTANCE_NORM", ..NORM };

/// `y = (x − mean) / √(variance + epsilon) · scale + bias` for `x` `[N, C, …]`, over the channels of a group and all axes
/// from the third on together; `scale` and `bias` are `[C]`.
pub static GROUP_NORM: OpDescriptor = OpDescriptor {
    code: 152,
    name: "GroupNorm",
    path: "norm::GROUP_NORM",
    attr_size: core::mem::size_of::<GroupNorm>(),
    check_attrs: |b| attributes::<GroupNorm>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let groups = u64::from(attributes::<GroupNorm>(args.attrs)?.groups);
        let channels = args.input(0)?.get(1)?;
        let (each, groups) = (alg.div_floor(channels, groups)?, alg.constant(groups)?);
        let whole = alg.mul(each, groups)?;
        alg.require_equal("channels as a multiple of the groups", whole, channels)?;
        channel_shape(alg, args, out)
    },
    ..NORM
};

/// `y = (x − mean) · (scale / √(variance + epsilon)) + bias` for `x` `[N, C, …]`, with everything else given, `[C]`. Here a
/// NaN or an infinity of `x` stays by itself.
pub static BATCH_NORM: OpDescriptor = OpDescriptor {
    code: 153,
    name: "BatchNorm",
    path: "norm::BATCH_NORM",
    inputs: &[X, SCALE, BIAS, Operand::data("mean", 'T', FLOATS), Operand::data("variance", 'T', FLOATS)],
    cost: |s| s.element_cost(2),
    ..NORM
};

fn layer_shape(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, out: &mut [Dims]) -> Result<(), ShapeError> {
    let axis = attributes::<LayerNorm>(args.attrs)?.axis as usize;
    let x = args.input(0)?;
    x.get(axis)?;
    let normalised = x.as_slice().get(axis..).unwrap_or(&[]);
    parameters(alg, args, normalised)?;
    set_output(out, x)
}

fn channel_shape(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, out: &mut [Dims]) -> Result<(), ShapeError> {
    let x = args.input(0)?;
    parameters(alg, args, &[x.get(1)?])?;
    set_output(out, x)
}

/// Everything beside `x` has these dimensions.
fn parameters(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, dims: &[Dim]) -> Result<(), ShapeError> {
    for i in 1..args.inputs.len() {
        let Some(p) = args.optional(i) else { continue };
        p.expect_rank(dims.len())?;
        for (axis, d) in dims.iter().enumerate() {
            alg.require_equal("dimension of a parameter", *d, p.get(axis)?)?;
        }
    }
    Ok(())
}
