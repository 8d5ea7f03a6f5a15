//! Resampling on a regular grid along any axes.

use super::matmul::flag;
use super::movement::{X, Y, declared, same_rank};
use super::pad::{axes, has_source};
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, StepShapes, attributes};
use crate::MAX_RANK;

/// Where an element of the result lies along an axis of the input: codes of [`Resize::coordinates`]. `i` is the position
/// in the result, `n` and `m` are the sizes of the axis in input and result, `s` is the scale and `L = s · n`.
pub mod coordinates {
    /// `(i + 1/2) / s − 1/2`.
    pub const HALF_PIXEL: u32 = 0;
    /// 0 where `L ≤ 1`, else as half pixel.
    pub const PYTORCH_HALF_PIXEL: u32 = 1;
    /// 0 where `L = 1`, else `i · (n − 1) / (L − 1)`.
    pub const ALIGN_CORNERS: u32 = 2;
    /// `i / s`.
    pub const ASYMMETRIC: u32 = 3;
    /// `n/2 · (1 − m/L) + (i + 1/2) / s − 1/2`.
    pub const HALF_PIXEL_SYMMETRIC: u32 = 4;
    /// With the box from `a` to `b`, 0 to 1 being the whole axis: `(a + b)/2 · (n − 1)` where `L ≤ 1`, else
    /// `a · (n − 1) + i · (b − a) · (n − 1) / (L − 1)`. Outside of `0..=n − 1` the result is the extrapolation value.
    pub const TF_CROP_AND_RESIZE: u32 = 5;
    /// `(i + 1/2) / s`.
    pub const TF_HALF_PIXEL_FOR_NN: u32 = 6;
}

/// Which of two neighbours is nearest: codes of [`Resize::rounding`].
pub mod rounding {
    /// The nearer one, half-way the lower.
    pub const PREFER_FLOOR: u32 = 0;
    /// The nearer one, half-way the upper.
    pub const PREFER_CEIL: u32 = 1;
    /// The lower one.
    pub const FLOOR: u32 = 2;
    /// The upper one.
    pub const CEIL: u32 = 3;
}

/// Attributes of this family. Entries of axes that are not resized, and of those at and above the rank, are 0.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Resize {
    /// Size of the result over size of the input along each axis, 2^−16 to 2^16; 0 where that is the quotient of the sizes.
    pub scales: [f32; MAX_RANK],
    /// TF crop and resize: where the box starts. Else 0.
    pub box_starts: [f32; MAX_RANK],
    /// TF crop and resize: where the box ends. Else 0.
    pub box_ends: [f32; MAX_RANK],
    /// Bit i: axis i is resized. Along the others input and result have the same size and positions.
    pub axes: u32,
    /// Code of [`coordinates`].
    pub coordinates: u32,
    /// Nearest: code of [`rounding`]. Else 0.
    pub rounding: u32,
    /// Linear and cubic: 1 if elements outside of the input have no weight (and the other weights are divided by their
    /// sum, or left where that is 0), 0 if the outermost element has their weights beside its own. Else 0.
    pub exclude_outside: u32,
    /// TF crop and resize, linear and cubic: the value outside of the input. Else 0; nearest takes an operand.
    pub extrapolation: f32,
    /// Cubic: the coefficient of the kernel. Else 0.
    pub cubic: f32,
}

impl Resize {
    /// The scale along `axis` for sizes `n` of the input and `m` of the result; above 0 if `m` is.
    pub fn scale(&self, axis: usize, n: usize, m: usize) -> f64 {
        match self.scales.get(axis) {
            Some(s) if *s > 0.0 => f64::from(*s),
            _ => m as f64 / n as f64,
        }
    }

    /// Where element `i` of the result lies along `axis` of the input, in f64 arithmetic with every operation rounded;
    /// `None` outside where that gives the extrapolation value. This is the definition for every device.
    pub fn position(&self, axis: usize, i: usize, n: usize, m: usize) -> Option<f64> {
        let of = |list: &[f32; MAX_RANK]| f64::from(list.get(axis).copied().unwrap_or(0.0));
        let given = of(&self.scales);
        let (i, n, m) = (i as f64, n as f64, m as f64);
        let length = if given > 0.0 { given * n } else { m };
        // Multiplying by the sizes first keeps whole positions whole.
        let scaled = |i: f64| if given > 0.0 { i / given } else { i * n / m };
        Some(match self.coordinates {
            coordinates::PYTORCH_HALF_PIXEL if length <= 1.0 => 0.0,
            coordinates::ALIGN_CORNERS if length == 1.0 => 0.0,
            coordinates::ALIGN_CORNERS => i * (n - 1.0) / (length - 1.0),
            coordinates::ASYMMETRIC => scaled(i),
            coordinates::HALF_PIXEL_SYMMETRIC => n / 2.0 * (1.0 - m / length) + scaled(i + 0.5) - 0.5,
            coordinates::TF_CROP_AND_RESIZE => {
                let (a, b) = (of(&self.box_starts), of(&self.box_ends));
                let x = if length <= 1.0 {
                    (a + b) / 2.0 * (n - 1.0)
                } else {
                    a * (n - 1.0) + i * (b - a) * (n - 1.0) / (length - 1.0)
                };
                return if x >= 0.0 && x <= n - 1.0 { Some(x) } else { None };
            }
            coordinates::TF_HALF_PIXEL_FOR_NN => scaled(i + 0.5),
            _ => scaled(i + 0.5) - 0.5,
        })
    }

    /// Whether `axis` is resized.
    pub fn resizes(&self, axis: usize) -> bool {
        axis < MAX_RANK && self.axes >> axis & 1 == 1
    }
}

impl Attributes for Resize {
    fn check(&self) -> Result<(), AttrError> {
        axes("axes", self.axes)?;
        if self.coordinates > coordinates::TF_HALF_PIXEL_FOR_NN {
            return Err(AttrError::new("coordinates", 6, u64::from(self.coordinates)));
        }
        if self.rounding > rounding::CEIL {
            return Err(AttrError::new("rounding", 3, u64::from(self.rounding)));
        }
        flag("exclude_outside", self.exclude_outside)?;
        for axis in 0..MAX_RANK {
            let (scale, start, end) = (self.scales[axis], self.box_starts[axis], self.box_ends[axis]);
            // Smaller ones would make kernels as wide as anything.
            let sensible = scale == 0.0 || (1.0 / 65536.0..=65536.0).contains(&scale);
            if !sensible || (scale != 0.0 && !self.resizes(axis)) {
                return Err(AttrError::new("scale", 0, u64::from(scale.to_bits())));
            }
            let crops = self.coordinates == coordinates::TF_CROP_AND_RESIZE && self.resizes(axis);
            for at in [start, end] {
                if !(-1e6..1e6).contains(&at) || (at != 0.0 && !crops) {
                    return Err(AttrError::new("box", 0, u64::from(at.to_bits())));
                }
            }
        }
        if self.extrapolation.is_nan() {
            return Err(AttrError::new("extrapolation", 0, u64::from(self.extrapolation.to_bits())));
        }
        // Beyond that the weights of neighbours cancel to nothing.
        if !(-1e3..1e3).contains(&self.cubic) {
            return Err(AttrError::new("cubic", 0, u64::from(self.cubic.to_bits())));
        }
        Ok(())
    }
}

const NEAREST: OpDescriptor = OpDescriptor {
    inputs: X,
    outputs: Y,
    declared_output: true,
    attr_size: core::mem::size_of::<Resize>(),
    check_attrs: |b| attributes::<Resize>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Resize = attributes(args.attrs)?;
        let (x, y) = (args.input(0)?, declared(out)?);
        same_rank(&x, &y)?;
        for axis in 0..x.rank() {
            let (from, to) = (x.get(axis)?, y.get(axis)?);
            if a.resizes(axis) {
                has_source(alg, from, to)?;
            } else {
                alg.require_equal("dimension of an axis that is not resized", from, to)?;
            }
        }
        Ok(())
    },
    ..OpDescriptor::BASE
};

const WEIGHTED: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    ..NEAREST
};

/// What the weighted ops keep in scratch memory, in entries of the width of the arithmetic: a row of the input, and for
/// each element of each axis that is resized its weights and three numbers. `support` is that of the kernel, in elements of
/// the input at scales of 1 and above.
///
/// It is an upper bound that never falls when a size rises.
fn scratch(s: &StepShapes<'_>, support: u64, antialias: bool) -> u64 {
    let Ok(a) = attributes::<Resize>(s.attrs) else { return 0 };
    let (x, y) = (s.input(0), s.output(0));
    let mut entries = 0u64;
    for axis in (0..x.rank()).filter(|axis| a.resizes(*axis)) {
        let (n, m) = (x.dim(axis) as u64, y.dim(axis) as u64);
        let wide = match a.scales.get(axis) {
            _ if !antialias => m.saturating_mul(support),
            // Twice the support over the scale, rounded up, for each element.
            Some(scale) if *scale > 0.0 => (m as f64 * support as f64 / f64::from(*scale).min(1.0)) as u64,
            _ => support.saturating_mul(n.max(m)),
        };
        entries = entries.saturating_add(wide.saturating_mul(2)).saturating_add(m.saturating_mul(5));
    }
    if let Some(last) = (0..x.rank()).rev().find(|axis| a.resizes(*axis)) {
        entries = entries.saturating_add((x.dim(last) as u64).saturating_mul(x.inner(last) as u64));
    }
    entries.saturating_mul(if s.dtypes.first() == Some(&crate::DType::F64) { 8 } else { 4 })
}

/// The cost of kernels of `taps` weights along each axis.
fn cost(s: &StepShapes<'_>, taps: u64) -> Cost {
    let axes = attributes::<Resize>(s.attrs).map_or(0, |a| a.axes.count_ones());
    s.element_cost(taps.saturating_mul(u64::from(axes)).max(1))
}

/// `y[i…] = x[near(i)…]`: along each axis that is resized the element nearest to the position of [`Resize::position`],
/// rounded as the attributes say and clamped to the axis. With TF crop and resize, elements outside of the input are
/// `extrapolation`: one element, or absent for zero bytes. The program chooses the dimensions.
pub static RESIZE_NEAREST: OpDescriptor = OpDescriptor {
    code: 213,
    name: "ResizeNearest",
    path: "resize::RESIZE_NEAREST",
    inputs: &[
        Operand::data("x", 'T', crate::dtype::DTypeSet::ANY),
        Operand::data("extrapolation", 'T', crate::dtype::DTypeSet::ANY).optional(),
    ],
    shape_rule: |alg, args, out| {
        if let Some(value) = args.optional(1) {
            super::pad::one_element(alg, "elements of the extrapolation value", value)?;
        }
        (NEAREST.shape_rule)(alg, args, out)
    },
    // The position of each element of a row.
    scratch: |s, _| {
        let axes = attributes::<Resize>(s.attrs).map_or(0, |a| a.axes);
        let last = (0..s.output(0).rank()).rev().find(|axis| axes >> axis & 1 == 1);
        last.map_or(0, |axis| (s.output(0).dim(axis) as u64).saturating_mul(4))
    },
    ..NEAREST
};

/// The sum of the two elements around the position of [`Resize::position`] along each axis that is resized, weighted by
/// `1 − distance`. Elements of weight 0 do not count, even if they are infinite or NaN. Weights are computed in f64 and
/// rounded to the type of the arithmetic; f16 and bf16 are computed in f32. The program chooses the dimensions.
pub static RESIZE_LINEAR: OpDescriptor = OpDescriptor {
    code: 214,
    name: "ResizeLinear",
    path: "resize::RESIZE_LINEAR",
    cost: |s| cost(s, 2),
    scratch: |s, _| scratch(s, 1, false),
    ..WEIGHTED
};

/// As [`RESIZE_LINEAR`], with four elements and Keys' kernel: with `d` the distance and `a` the coefficient, the weight is
/// `(a + 2)·d³ − (a + 3)·d² + 1` up to a distance of 1 and `a·d³ − 5a·d² + 8a·d − 4a` up to 2.
pub static RESIZE_CUBIC: OpDescriptor = OpDescriptor {
    code: 215,
    name: "ResizeCubic",
    path: "resize::RESIZE_CUBIC",
    cost: |s| cost(s, 4),
    scratch: |s, _| scratch(s, 2, false),
    ..WEIGHTED
};

/// As [`RESIZE_LINEAR`], with distances multiplied by the scale where that is below 1, so that every element nearer than
/// `1 / scale` counts. The weights are divided by their sum.
pub static RESIZE_LINEAR_ANTIALIAS: OpDescriptor = OpDescriptor {
    code: 216,
    name: "ResizeLinearAntialias",
    path: "resize::RESIZE_LINEAR_ANTIALIAS",
    cost: |s| cost(s, 4),
    scratch: |s, _| scratch(s, 1, true),
    ..WEIGHTED
};

/// As [`RESIZE_CUBIC`], with distances multiplied by the scale where that is below 1, so that every element nearer than
/// `2 / scale` counts. The weights are divided by their sum.
pub static RESIZE_CUBIC_ANTIALIAS: OpDescriptor = OpDescriptor {
    code: 217,
    name: "ResizeCubicAntialias",
    path: "resize::RESIZE_CUBIC_ANTIALIAS",
    cost: |s| cost(s, 8),
    scratch: |s, _| scratch(s, 2, true),
    ..WEIGHTED
};
