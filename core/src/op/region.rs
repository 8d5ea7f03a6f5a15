//! Regions of interest, and boxes that are left of many.

use super::gather_nd::INDICES;
use super::matmul::{flag, reserved, set_output};
use super::movement::{Y, declared, moved};
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, StepShapes, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::Dims;

/// Attributes of the region poolings.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct RoiAlign {
    /// Height and width of the result, 1 to 65,535.
    pub output: [u32; 2],
    /// Samples along each axis of a bin, at most 255; 0: `⌈extent / output⌉`, but at most `2 · size + 1` with the size
    /// of `x` along the axis.
    pub samples: u32,
    /// 1 if the regions are moved by −1/2 (half pixel); 0 if they are not and count as at least 1 × 1.
    pub half_pixel: u32,
    /// What the regions are multiplied by first; finite.
    pub scale: f32,
    /// Zero.
    pub reserved: u32,
}

/// More samples along an axis of a bin add time, and nothing else.
const MAX_SAMPLES: u32 = 255;

impl Attributes for RoiAlign {
    fn check(&self) -> Result<(), AttrError> {
        let most = super::conv::MAX_EXTENT;
        for side in self.output {
            if side == 0 || side > most {
                return Err(AttrError::new("output", u64::from(most), u64::from(side)));
            }
        }
        if self.samples > MAX_SAMPLES {
            return Err(AttrError::new("samples", u64::from(MAX_SAMPLES), u64::from(self.samples)));
        }
        flag("half_pixel", self.half_pixel)?;
        if !self.scale.is_finite() {
            return Err(AttrError::new("scale", 0, u64::from(self.scale.to_bits())));
        }
        reserved(self.reserved)
    }
}

const F32: DTypeSet = DTypeSet::of(&[DType::F32]);
const I32: DTypeSet = DTypeSet::of(&[DType::I32]);

const ROI: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS), Operand::data("regions", 'T', FLOATS), INDICES],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<RoiAlign>(),
    check_attrs: |b| attributes::<RoiAlign>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: RoiAlign = attributes(args.attrs)?;
        let (x, regions, batch) = (args.input(0)?, args.input(1)?, args.input(2)?);
        x.expect_rank(4)?;
        regions.expect_rank(2)?;
        batch.expect_rank(1)?;
        let four = alg.constant(4)?;
        alg.require_equal("corners of a region", four, regions.get(1)?)?;
        alg.require_equal("number of regions", regions.get(0)?, batch.get(0)?)?;
        let (h, w) = (alg.constant(u64::from(a.output[0]))?, alg.constant(u64::from(a.output[1]))?);
        set_output(out, Dims::new(&[regions.get(0)?, x.get(1)?, h, w])?)
    },
    cost: |s| {
        // The number of samples that regions choose is not known; a few are usual.
        let samples = attributes::<RoiAlign>(s.attrs).map_or(0, |a| u64::from(a.samples)).max(2);
        s.element_cost(samples.saturating_mul(samples).saturating_mul(4))
    },
    ..OpDescriptor::BASE
};

/// `x` `[N, C, H, W]`, `regions` `[R, 4]` as `x1, y1, x2, y2`, `indices` `[R]` → `y` `[R, C, h, w]`: each region of image
/// `indices[r]` in `h × w` bins, each bin the mean of its samples. Bin `p` of a region that starts at `s` and has bins of
/// `b = (end − start) / h` is sampled at `s + p·b + (i + 1/2)·b / samples`. A sample is bilinear: beyond −1 or the size of
/// `x` it is 0, else its position is clamped to the axis; neighbours of weight 0 do not count. Sums row by row in the
/// arithmetic of `x`, f16 and bf16 in f32; without samples the mean is 0.
///
/// An index in `[−N, N)` wraps once; any other gives a region of zeros and sets the fault word.
pub static ROI_ALIGN: OpDescriptor =
    OpDescriptor { code: 223, name: "RoiAlign", path: "region::ROI_ALIGN", ..ROI };

/// As [`ROI_ALIGN`], with the greatest instead of the mean: of the four weighted neighbours of all samples of a bin, those of
/// weight 0 as 0 (as ONNX defines it); a NaN stays. Without samples it is 0.
pub static ROI_ALIGN_MAX: OpDescriptor =
    OpDescriptor { code: 224, name: "RoiAlignMax", path: "region::ROI_ALIGN_MAX", ..ROI };

/// Attributes of `NonMaxSuppression`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct NonMaxSuppression {
    /// Most boxes of one class of one batch.
    pub most: u32,
    /// 0: boxes are two opposite corners `y1, x1, y2, x2`. 1: they are `x, y` of the centre, width, height.
    pub centred: u32,
    /// Boxes whose overlap with a chosen one is above this part of their union are left out; not NaN.
    pub overlap: f32,
    /// Boxes whose score is not above this are left out. −∞: every box counts, those with a score of −∞ too.
    pub score: f32,
}

impl Attributes for NonMaxSuppression {
    fn check(&self) -> Result<(), AttrError> {
        flag("centred", self.centred)?;
        for (field, v) in [("overlap", self.overlap), ("score", self.score)] {
            if v.is_nan() {
                return Err(AttrError::new(field, 0, u64::from(v.to_bits())));
            }
        }
        Ok(())
    }
}

/// `boxes` `[B, N, 4]`, `scores` `[B, C, N]` → `chosen` `[M, 3]` and `count` (a scalar). The program chooses `M`. In the order
/// of batches, then classes, the boxes by falling score, equal scores by rising position: a box is chosen unless its
/// overlap with one chosen before of its class and batch is above `overlap`, up to `most` for each and to `M` in all. Rows of
/// `chosen` are batch, class and box; rows from `count` on are zeros. A score that is NaN is never chosen.
///
/// The overlap is area of the intersection over area of the union, in f32 in this order: corners sorted (`centred`: centre
/// minus and plus half of the side), `intersection = (x2 − x1)·(y2 − y1)`, `union = area₁ + area₂ − intersection`. It counts
/// as none where a side of the intersection, an area or the union is not above 0.
pub static NON_MAX_SUPPRESSION: OpDescriptor = OpDescriptor {
    code: 225,
    name: "NonMaxSuppression",
    path: "region::NON_MAX_SUPPRESSION",
    inputs: &[Operand::data("boxes", '-', F32), Operand::data("scores", '-', F32)],
    outputs: &[Operand::data("chosen", '-', I32), Operand::data("count", '-', I32)],
    declared_output: true,
    attr_size: core::mem::size_of::<NonMaxSuppression>(),
    check_attrs: |b| attributes::<NonMaxSuppression>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (boxes, scores, chosen) = (args.input(0)?, args.input(1)?, declared(out)?);
        boxes.expect_rank(3)?;
        scores.expect_rank(3)?;
        chosen.expect_rank(2)?;
        let (three, four) = (alg.constant(3)?, alg.constant(4)?);
        alg.require_equal("corners of a box", four, boxes.get(2)?)?;
        alg.require_equal("batch", boxes.get(0)?, scores.get(0)?)?;
        alg.require_equal("number of boxes", boxes.get(1)?, scores.get(2)?)?;
        alg.require_equal("numbers of a choice", three, chosen.get(1)?)?;
        out.get(1).copied().unwrap_or(chosen).expect_rank(0)
    },
    cost: |s| {
        // A box is compared with every one that was chosen before it.
        let most = attributes::<NonMaxSuppression>(s.attrs).map_or(0, |a| u64::from(a.most));
        let chosen = most.min(s.input(0).dim(1) as u64).saturating_add(1);
        Cost {
            macs: (s.input(1).elements() as u64).saturating_mul(chosen.saturating_mul(8)),
            bytes: s.bytes(),
        }
    },
    scratch: |s: &StepShapes<'_>, _| (s.input(0).dim(1) as u64).saturating_mul(4),
    ..OpDescriptor::BASE
};

/// `y[indices[i…]] = x[i…]` with `y` seen as a list, everything else zero bytes: undoes a maximum pooling that gave positions
/// in the whole of its input. The program chooses the dimensions of `y`. Where a position comes more than once the last
/// stays. An index in `[−n, n)`, `n` the elements of `y`, wraps once; any other is dropped and sets the fault word.
pub static MAX_UNPOOL: OpDescriptor = OpDescriptor {
    code: 226,
    name: "MaxUnpool",
    path: "region::MAX_UNPOOL",
    inputs: &[Operand::data("x", 'T', DTypeSet::ANY), INDICES],
    outputs: Y,
    declared_output: true,
    shape_rule: |alg, args, out| {
        let (x, indices) = (args.input(0)?, args.input(1)?);
        declared(out)?;
        indices.expect_rank(x.rank())?;
        for (i, d) in indices.as_slice().iter().zip(x.as_slice()) {
            alg.require_equal("dimension of the indices", *d, *i)?;
        }
        Ok(())
    },
    cost: moved,
    ..OpDescriptor::BASE
};
