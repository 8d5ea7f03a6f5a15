//! Sampling at positions that another tensor gives, and the grids of such positions.

use super::matmul::{flag, reserved, set_output};
use super::movement::declared;
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::shape::{Dims, ShapeError};

/// What lies outside of the input: codes of [`GridSample::padding`].
pub mod padding {
    /// Zeros.
    pub const ZEROS: u32 = 0;
    /// The outermost element.
    pub const BORDER: u32 = 1;
    /// The input mirrored: at the centres of its outermost elements with aligned corners, else at their outer edges.
    pub const REFLECTION: u32 = 2;
}

/// Attributes of the grid samplers.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct GridSample {
    /// Code of [`padding`].
    pub padding: u32,
    /// 1 if −1 and 1 are the centres of the outermost elements, 0 if they are their outer edges.
    pub align_corners: u32,
}

impl Attributes for GridSample {
    fn check(&self) -> Result<(), AttrError> {
        if self.padding > padding::REFLECTION {
            return Err(AttrError::new("padding", 2, u64::from(self.padding)));
        }
        flag("align_corners", self.align_corners)
    }
}

/// Attributes of `AffineGrid`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct AffineGrid {
    /// 1 if −1 and 1 are the centres of the outermost elements, 0 if they are their outer edges.
    pub align_corners: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for AffineGrid {
    fn check(&self) -> Result<(), AttrError> {
        flag("align_corners", self.align_corners)?;
        reserved(self.reserved)
    }
}

const SAMPLED: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS), Operand::data("grid", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<GridSample>(),
    check_attrs: |b| attributes::<GridSample>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (x, grid) = (args.input(0)?, args.input(1)?);
        // One to three axes to sample along.
        if !(3..=5).contains(&x.rank()) {
            return Err(ShapeError::rank(4, x.rank()));
        }
        grid.expect_rank(x.rank())?;
        alg.require_equal("batch of the grid", x.get(0)?, grid.get(0)?)?;
        let axes = alg.constant(x.rank() as u64 - 2)?;
        alg.require_equal("coordinates of a position", axes, grid.get(x.rank() - 1)?)?;
        let mut y = Dims::new(&[x.get(0)?, x.get(1)?])?;
        for axis in 1..x.rank() - 1 {
            y.push(grid.get(axis)?)?;
        }
        set_output(out, y)
    },
    ..OpDescriptor::BASE
};

/// `x` `[N, C, D…]` with one to three axes `D`, `grid` `[N, G…, r]` with `r` the number of those axes → `y`
/// `[N, C, G…]`: `x` at the position that the grid gives. Its last axis holds the coordinates, that of the innermost axis of
/// `x` first. A coordinate `g` along an axis of `n` elements is the position `(g + 1)/2 · (n − 1)` with aligned corners,
/// else `((g + 1) · n − 1)/2`.
///
/// Neighbours of a position that are not elements of `x` are zeros (padding "zeros"), the outermost element ("border"), or
/// those that they fall on when the axis is mirrored at its ends ("reflection"): at 0 and `n − 1` with aligned corners, else
/// at `−1/2` and `n − 1/2`, so that the outermost elements are repeated.
///
/// Here, the sum of the two neighbours along each axis, weighted by `1 − distance`. Neighbours of weight 0 do not count, even
/// if they are infinite or NaN. Arithmetic is that of `x`, f16 and bf16 in f32. A position that is NaN or infinite has no
/// neighbours with padding "zeros"; otherwise it is 0, or `n − 1` for +∞ with "border". An input without elements gives zeros.
pub static GRID_SAMPLE: OpDescriptor = OpDescriptor {
    code: 218,
    name: "GridSample",
    path: "sample::GRID_SAMPLE",
    cost: |s| s.element_cost(1 << s.input(0).rank().clamp(2, 5)),
    ..SAMPLED
};

/// As [`GRID_SAMPLE`], with the one element nearest to the position, of two the even one.
pub static GRID_SAMPLE_NEAREST: OpDescriptor =
    OpDescriptor { code: 219, name: "GridSampleNearest", path: "sample::GRID_SAMPLE_NEAREST", ..SAMPLED };

/// As [`GRID_SAMPLE`], with four neighbours along each axis and Keys' kernel with the coefficient −3/4: see
/// [`RESIZE_CUBIC`](super::resize::RESIZE_CUBIC).
pub static GRID_SAMPLE_CUBIC: OpDescriptor = OpDescriptor {
    code: 220,
    name: "GridSampleCubic",
    path: "sample::GRID_SAMPLE_CUBIC",
    cost: |s| s.element_cost(1 << (2 * s.input(0).rank().clamp(2, 5))),
    ..SAMPLED
};

/// `theta` `[N, r, r + 1]` → `y` `[N, D…, r]` with two or three axes `D`, which the program chooses:
/// `y[n, d…, i] = Σ theta[n, i, j] · p[j] + theta[n, i, r]` with `p` the coordinates of `d` in −1..1, that of the innermost
/// axis first: along an axis of `m` elements `2d/(m − 1) − 1` with aligned corners (0 where `m` is 1), else
/// `(2d + 1)/m − 1`. Sums are in the order of `j`, in the arithmetic of `theta`, f16 and bf16 in f32.
pub static AFFINE_GRID: OpDescriptor = OpDescriptor {
    code: 221,
    name: "AffineGrid",
    path: "sample::AFFINE_GRID",
    inputs: &[Operand::data("theta", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    declared_output: true,
    attr_size: core::mem::size_of::<AffineGrid>(),
    check_attrs: |b| attributes::<AffineGrid>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let (theta, y) = (args.input(0)?, declared(out)?);
        theta.expect_rank(3)?;
        if !(4..=5).contains(&y.rank()) {
            return Err(ShapeError::rank(4, y.rank()));
        }
        let axes = y.rank() as u64 - 2;
        let (rows, columns) = (alg.constant(axes)?, alg.constant(axes + 1)?);
        alg.require_equal("batch of the grid", theta.get(0)?, y.get(0)?)?;
        alg.require_equal("rows of a transformation", rows, theta.get(1)?)?;
        alg.require_equal("columns of a transformation", columns, theta.get(2)?)?;
        alg.require_equal("coordinates of a position", rows, y.get(y.rank() - 1)?)
    },
    cost: |s| s.element_cost(s.input(0).dim(2) as u64),
    ..OpDescriptor::BASE
};
