//! 2-D pooling over NCHW.

use super::conv::Geometry;
use super::matmul::set_output;
use super::pools::ORDERED;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, ShapeArgs, StepShapes, attributes};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// Attributes of both poolings.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pool2d {
    /// Window geometry.
    pub geometry: Geometry,
    /// Taps of the window: height, width; at least 1. `[0, 0]` means the whole input (global pooling).
    pub kernel: [u32; 2],
    /// Average only: 1 if padding counts as zeros in the mean, 0 if it is left out. Maximum: 0.
    pub count_padding: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Pool2d {
    fn check(&self) -> Result<(), AttrError> {
        self.geometry.check()?;
        super::matmul::flag("count_padding", self.count_padding)?;
        super::matmul::reserved(self.reserved)?;
        let global = self.kernel == [0, 0];
        if global && (self.geometry.pads != [0; 4] || self.geometry.strides != [1; 2]) {
            return Err(AttrError::new("kernel of a padded or strided pool", 1, 0));
        }
        for axis in 0..2 {
            let (k, g) = (self.kernel[axis], &self.geometry);
            if !global && (k == 0 || k > super::conv::MAX_EXTENT) {
                return Err(AttrError::new("kernel", u64::from(super::conv::MAX_EXTENT), u64::from(k)));
            }
            // A window that lies in the padding alone would have no value.
            let pad = g.pads[axis].max(g.pads[axis + 2]);
            if !global && u64::from(pad) >= u64::from(k) {
                return Err(AttrError::new("pads below the kernel size", u64::from(k), u64::from(pad)));
            }
            if !global && pad > 0 && g.dilations[axis] > 1 {
                return Err(AttrError::new("dilation of a padded pool", 1, u64::from(g.dilations[axis])));
            }
        }
        Ok(())
    }
}

impl Pool2d {
    /// The window in taps for an input of `height` × `width`.
    pub fn window(&self, height: usize, width: usize) -> [usize; 2] {
        if self.kernel == [0, 0] { [height, width] } else { self.kernel.map(|k| k as usize) }
    }
}

/// `x` `[N, C, H, W]` → `y` `[N, C, OH, OW]`: the largest element of each window. Padding never wins. Any NaN
/// in the window gives NaN. An empty height or width is refused, as by all poolings.
pub static MAX_POOL2D: OpDescriptor = OpDescriptor {
    code: 5,
    name: "MaxPool2d",
    path: "pool::MAX_POOL2D",
    inputs: &[Operand::data("x", 'T', ORDERED)],
    outputs: &[Operand::data("y", 'T', ORDERED)],
    attr_size: core::mem::size_of::<Pool2d>(),
    check_attrs: |b| attributes::<Pool2d>(b).map(|_| ()),
    shape_rule: pool_shape,
    cost: pool_cost,
    ..OpDescriptor::BASE
};

/// `x` `[N, C, H, W]` → `y` `[N, C, OH, OW]`: the mean of each window. Floats: the sum in f32 (f64 in f64), row by row,
/// divided once and rounded once. i8 and u8: the exact sum, divided and rounded half to even, so input and output have
/// one quantisation; the zero point must be 0 where padding is counted.
pub static AVERAGE_POOL2D: OpDescriptor = OpDescriptor {
    code: 6,
    name: "AveragePool2d",
    path: "pool::AVERAGE_POOL2D",
    inputs: &[Operand::data("x", 'T', ORDERED)],
    outputs: &[Operand::data("y", 'T', ORDERED)],
    attr_size: core::mem::size_of::<Pool2d>(),
    check_attrs: |b| attributes::<Pool2d>(b).map(|_| ()),
    shape_rule: pool_shape,
    cost: pool_cost,
    ..OpDescriptor::BASE
};

/// `round_half_even(sum / count)`; 0 for a count of 0.
pub fn divide_half_even(sum: i64, count: i64) -> i64 {
    if count <= 0 {
        return 0;
    }
    let (q, r) = (sum.div_euclid(count), sum.rem_euclid(count));
    // `r` against the other part of `count`, which unlike `2 · r` cannot overflow.
    let other = count - r;
    q + i64::from(r > other || (r == other && q & 1 == 1))
}

fn pool_shape(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>, out: &mut [Dims]) -> Result<(), ShapeError> {
    let a: Pool2d = attributes(args.attrs)?;
    let x = args.input(0)?;
    x.expect_rank(4)?;
    let mut y = Dims::new(&[x.get(0)?, x.get(1)?])?;
    for axis in 0..2 {
        let size = x.get(axis + 2)?;
        // A window in the padding alone would have no value.
        let one = alg.constant(1)?;
        alg.require_at_most("a pooled axis of at least one element", one, size)?;
        y.push(if a.kernel == [0, 0] {
            one
        } else {
            a.geometry.positions(alg, axis, size, u64::from(a.kernel[axis]))?
        })?;
    }
    set_output(out, y)
}

fn pool_cost(s: &StepShapes<'_>) -> Cost {
    let taps =
        attributes::<Pool2d>(s.attrs).map_or([1, 1], |a| a.window(s.input(0).dim(2), s.input(0).dim(3)));
    s.element_cost((taps[0] as u64).saturating_mul(taps[1] as u64))
}

#[cfg(test)]
mod tests {
    use super::divide_half_even;

    #[test]
    fn means_round_half_to_even() {
        for (sum, count, want) in
            [(1, 2, 0), (3, 2, 2), (5, 2, 2), (-1, 2, 0), (-3, 2, -2), (-7, 3, -2), (9, 0, 0)]
        {
            assert_eq!(divide_half_even(sum, count), want, "{sum}/{count}");
        }
    }
}
