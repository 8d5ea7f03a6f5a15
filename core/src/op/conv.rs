//! 2-D convolution over NCHW: `Conv2d` in floating point, `QConv2d` in 8-bit integers.
//! A depth-wise convolution is the case `groups = C`; a 1-D one is that of a height of 1, through views of its operands
//! (`[N, C, W]` as `[N, C, 1, W]`), with stride 1, no padding and dilation 1 along the height.

use super::matmul::{Requantize, reserved, set_output};
use super::unary::FLOATS;
use super::{
    Activation, AttrError, Attributes, Cost, OpDescriptor, Operand, ScratchClass, ShapeArgs, StepShapes,
    attributes,
};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Where a 2-D window slides. Sizes are in elements; order is height, width.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Geometry {
    /// Steps between windows, at least 1.
    pub strides: [u32; 2],
    /// Padding: top, left, bottom, right.
    pub pads: [u32; 4],
    /// Steps between taps of one window, at least 1.
    pub dilations: [u32; 2],
}

/// Largest stride, padding or dilation: keeps every product of a size and one of these below 2^63.
pub const MAX_EXTENT: u32 = 1 << 16;

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { strides: [1; 2], pads: [0; 4], dilations: [1; 2] }
    }
}

impl Geometry {
    pub(super) fn check(&self) -> Result<(), AttrError> {
        for (field, least, values) in
            [("strides", 1, &self.strides[..]), ("pads", 0, &self.pads), ("dilations", 1, &self.dilations)]
        {
            if let Some(v) = values.iter().find(|v| !(least..=MAX_EXTENT).contains(*v)) {
                return Err(AttrError::new(field, u64::from(MAX_EXTENT), u64::from(*v)));
            }
        }
        Ok(())
    }

    /// Number of window positions along `axis` (0 height, 1 width) of an input of size `size` under a kernel of
    /// `kernel` taps: `⌊(size + pads − dilation·(kernel−1) − 1) / stride⌋ + 1` (the ONNX rule, floor mode).
    pub(super) fn positions(
        &self,
        alg: &mut dyn DimAlgebra,
        axis: usize,
        size: Dim,
        kernel: u64,
    ) -> Result<Dim, ShapeError> {
        let pads = u64::from(self.pads[axis]) + u64::from(self.pads[axis + 2]);
        let span = u64::from(self.dilations[axis])
            .checked_mul(kernel.checked_sub(1).ok_or(ShapeError::new("kernel size", 1, 0))?)
            .and_then(|s| s.checked_add(1))
            .ok_or(ShapeError::OVERFLOW)?;
        let pads = alg.constant(pads)?;
        let padded = alg.add(size, pads)?;
        let least = alg.constant(span)?;
        alg.require_at_most("kernel within the padded input", least, padded)?;
        let room = alg.saturating_sub(padded, span)?;
        let steps = alg.div_floor(room, u64::from(self.strides[axis]))?;
        let one = alg.constant(1)?;
        alg.add(steps, one)
    }
}

/// Attributes of `Conv2d`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Conv2d {
    /// Window geometry.
    pub geometry: Geometry,
    /// Channels are split into this many independent groups; divides both channel counts.
    pub groups: u32,
    /// [`Activation`] code, applied after the bias.
    pub activation: u32,
}

impl Attributes for Conv2d {
    fn check(&self) -> Result<(), AttrError> {
        self.geometry.check()?;
        check_groups(self.groups)?;
        Activation::from_code(self.activation).map(|_| ())
    }
}

/// Attributes of `QConv2d`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct QConv2d {
    /// Window geometry. Padding stands for the zero point of the input.
    pub geometry: Geometry,
    /// How the accumulator becomes an 8-bit number.
    pub requantize: Requantize,
    /// Channel groups.
    pub groups: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for QConv2d {
    fn check(&self) -> Result<(), AttrError> {
        self.geometry.check()?;
        self.requantize.check()?;
        check_groups(self.groups)?;
        reserved(self.reserved)
    }
}

fn check_groups(groups: u32) -> Result<(), AttrError> {
    if groups == 0 { Err(AttrError::new("groups", 1, 0)) } else { Ok(()) }
}

const I8: DTypeSet = DTypeSet::of(&[DType::I8]);
const I32: DTypeSet = DTypeSet::of(&[DType::I32]);

/// `y = activation(conv(x, w) + bias)`: `x` `[N, C, H, W]`, `w` `[O, C/groups, KH, KW]`, `bias` `[O]`, `y`
/// `[N, O, OH, OW]`. Cross-correlation (no kernel flip), zero padding, as ONNX `Conv`. f16 and bf16 are widened, sums
/// are f32 (f64 in f64), over channels, height and width in this order from the bias on, and rounded once. A 1-D convolution
/// is one of height 1: `[N, C, W]` as `[N, C, 1, W]`.
pub static CONV2D: OpDescriptor = OpDescriptor {
    code: 3,
    name: "Conv2d",
    path: "conv::CONV2D",
    inputs: &[
        Operand::data("x", 'T', FLOATS),
        Operand::data("w", 'T', FLOATS),
        Operand::data("bias", 'T', FLOATS).optional(),
    ],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Conv2d>(),
    check_attrs: |b| attributes::<Conv2d>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Conv2d = attributes(args.attrs)?;
        conv_shape(alg, args, &a.geometry, a.groups, &[2], out)
    },
    cost: conv_cost,
    scratch: |s, class| match class {
        ScratchClass::Fast if s.dtypes.first() == Some(&DType::F32) => im2col_bytes(s),
        _ => 0,
    },
    ..OpDescriptor::BASE
};

/// `y = requantize(bias + Σ (x − x_zero) · w)`: shapes as `Conv2d` with `x`, `w`, `y` i8 and `bias`,
/// `multiplier`, `shift` i32 `[O]`. See [`Requantize`].
pub static QCONV2D: OpDescriptor = OpDescriptor {
    code: 4,
    name: "QConv2d",
    path: "conv::QCONV2D",
    inputs: &[
        Operand::data("x", '-', I8),
        Operand::data("w", '-', I8),
        Operand::data("bias", '-', I32),
        Operand::data("multiplier", '-', I32),
        Operand::data("shift", '-', I32),
    ],
    outputs: &[Operand::data("y", '-', I8)],
    attr_size: core::mem::size_of::<QConv2d>(),
    check_attrs: |b| attributes::<QConv2d>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: QConv2d = attributes(args.attrs)?;
        conv_shape(alg, args, &a.geometry, a.groups, &[2, 3, 4], out)
    },
    cost: conv_cost,
    ..OpDescriptor::BASE
};

fn conv_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    geometry: &Geometry,
    groups: u32,
    per_channel: &[usize],
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let (x, w) = (args.input(0)?, args.input(1)?);
    x.expect_rank(4)?;
    w.expect_rank(4)?;
    let g = alg.constant(u64::from(groups))?;
    let channels = alg.mul(w.get(1)?, g)?;
    alg.require_equal("channels", x.get(1)?, channels)?;
    let o = w.get(0)?;
    let per_group = alg.div_floor(o, u64::from(groups))?;
    let whole = alg.mul(per_group, g)?;
    alg.require_equal("output channels as a multiple of groups", whole, o)?;
    for &i in per_channel {
        if let Some(v) = args.optional(i) {
            v.expect_rank(1)?;
            alg.require_equal("length of a per-channel vector", o, v.get(0)?)?;
        }
    }
    let mut y = Dims::new(&[x.get(0)?, o])?;
    for axis in 0..2 {
        let taps = w.get(axis + 2)?;
        let kernel = alg.known(taps).ok_or(ShapeError::new("constant kernel size", 1, 0))?;
        y.push(geometry.positions(alg, axis, x.get(axis + 2)?, kernel)?)?;
    }
    set_output(out, y)
}

fn conv_cost(s: &StepShapes<'_>) -> Cost {
    let w = s.input(1);
    // Saturating: a tensor without output channels is empty however large its other axes are.
    let taps = w.dim(1).saturating_mul(w.dim(2)).saturating_mul(w.dim(3)) as u64;
    Cost { macs: (s.output(0).elements() as u64).saturating_mul(taps), bytes: s.bytes() }
}

/// Columns of the unfolded input that the im2col algorithm works on at a time.
pub const IM2COL_COLUMNS: usize = 256;

fn im2col_bytes(s: &StepShapes<'_>) -> u64 {
    let (w, y) = (s.input(1), s.output(0));
    let columns = (y.dim(2).saturating_mul(y.dim(3))).min(IM2COL_COLUMNS);
    let rows = w.dim(1).saturating_mul(w.dim(2)).saturating_mul(w.dim(3));
    (rows as u64).saturating_mul(columns as u64).saturating_mul(4)
}
