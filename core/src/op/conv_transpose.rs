//! Transposed convolution, the gradient of a convolution with respect to its input ("deconvolution").

use super::matmul::set_output;
use super::spatial::{MAX_AXES, Spatial, axes_of, extents, neutral, per_channel};
use super::unary::FLOATS;
use super::{Activation, AttrError, Attributes, Cost, OpDescriptor, Operand, attributes};
use crate::shape::{Dims, ShapeError};

/// Attributes of `ConvTranspose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ConvTranspose {
    /// The windows that the elements of `x` are spread over; padding is cut off the result.
    pub spatial: Spatial,
    /// Elements added behind the last one of an axis, like a negative padding there. Neutral: 0.
    pub output_padding: [u32; 3],
    /// Channels are split into this many independent groups; divides both channel counts.
    pub groups: u32,
    /// [`Activation`] code, applied after the bias.
    pub activation: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for ConvTranspose {
    fn check(&self) -> Result<(), AttrError> {
        self.spatial.check()?;
        extents("output_padding", &self.output_padding, 0)?;
        if self.groups == 0 {
            return Err(AttrError::new("groups", 1, 0));
        }
        Activation::from_code(self.activation)?;
        super::matmul::reserved(self.reserved)
    }
}

/// `x` `[N, C, …]`, `w` `[C, O/groups, …]`, `bias` `[O]` → `y` `[N, O, …]` over one to three spatial axes, as ONNX
/// `ConvTranspose`: each `x[n, c, i]` times `w[c, o, k]` is added to `y[n, o, i·stride + k·dilation − before]`, where
/// that exists. An axis of `size` and `taps` becomes
/// `stride·(size − 1) + dilation·(taps − 1) + 1 + output_padding − before − after` long, which must not be below 0; an
/// empty axis is refused. (`output_shape` and `auto_pad` of ONNX become padding in the importer.) Sums are over input
/// channels, then taps from the first to the last, from the bias on, in f32 (f64 in f64), rounded once; f16 and bf16
/// are widened.
pub static CONV_TRANSPOSE: OpDescriptor = OpDescriptor {
    code: 241,
    name: "ConvTranspose",
    path: "conv_transpose::CONV_TRANSPOSE",
    inputs: &[
        Operand::data("x", 'T', FLOATS),
        Operand::data("w", 'T', FLOATS),
        Operand::data("bias", 'T', FLOATS).optional(),
    ],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<ConvTranspose>(),
    check_attrs: |b| attributes::<ConvTranspose>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: ConvTranspose = attributes(args.attrs)?;
        let (x, w) = (args.input(0)?, args.input(1)?);
        let axes = axes_of(&x)?;
        w.expect_rank(axes + 2)?;
        a.spatial.check_axes(axes)?;
        neutral("output padding of an absent axis", &a.output_padding, axes, 0)?;
        let c = x.get(1)?;
        alg.require_equal("channels", c, w.get(0)?)?;
        let g = alg.constant(u64::from(a.groups))?;
        let per_group = alg.div_floor(c, u64::from(a.groups))?;
        let whole = alg.mul(per_group, g)?;
        alg.require_equal("channels as a multiple of groups", whole, c)?;
        let o = alg.mul(w.get(1)?, g)?;
        per_channel(alg, args, 2, o)?;
        let mut y = Dims::new(&[x.get(0)?, o])?;
        for axis in 0..axes {
            let i = MAX_AXES - axes + axis;
            let taps = alg.known(w.get(axis + 2)?).ok_or(ShapeError::new("constant kernel size", 1, 0))?;
            let size = x.get(axis + 2)?;
            let one = alg.constant(1)?;
            alg.require_at_most("a spatial axis of at least one element", one, size)?;
            let stride = alg.constant(u64::from(a.spatial.strides[i]))?;
            let before_last = alg.saturating_sub(size, 1)?;
            let starts = alg.mul(before_last, stride)?;
            let reach = a.spatial.span(i, taps)?.checked_add(u64::from(a.output_padding[i]));
            let reach = alg.constant(reach.ok_or(ShapeError::OVERFLOW)?)?;
            let full = alg.add(starts, reach)?;
            let pads = u64::from(a.spatial.before[i]) + u64::from(a.spatial.after[i]);
            let least = alg.constant(pads)?;
            alg.require_at_most("padding within the full result", least, full)?;
            y.push(alg.saturating_sub(full, pads)?)?;
        }
        set_output(out, y)
    },
    cost: |s| {
        // Every element of `x` meets every weight of its channel.
        let taps = s.input(1).inner(0) as u64;
        Cost { macs: (s.input(0).elements() as u64).saturating_mul(taps), bytes: s.bytes() }
    },
    ..OpDescriptor::BASE
};
