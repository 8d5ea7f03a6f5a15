//! Convolutions over one to three spatial axes: every output row is a sum of input rows times a weight.

use crate::arithmetic::{Arithmetic, BLOCK, Taps};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::Shape;
use serinette_core::op::pools::planes;
use serinette_core::op::spatial::Spatial;
use serinette_core::schedule::KernelError;

/// The sizes of a convolution over three axes; fewer have ones in front. Positions are computed modulo 2^usize: a
/// position in the padding before the input wraps to a number that is at least the size of the input, so one comparison
/// finds both kinds of padding.
pub(crate) struct Grid {
    pub(crate) batch: usize,
    /// Input channels of one group.
    pub(crate) channels: usize,
    pub(crate) groups: usize,
    /// Output channels of all groups.
    pub(crate) outputs: usize,
    pub(crate) input: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) taps: [usize; 3],
    pub(crate) strides: [usize; 3],
    /// Padding before the input.
    pub(crate) pads: [usize; 3],
    pub(crate) dilations: [usize; 3],
}

impl Grid {
    /// The sizes of a convolution of these shapes.
    pub(crate) fn new(x: Shape, w: Shape, y: Shape, g: &Spatial, groups: u32) -> Result<Grid, KernelError> {
        if !(3..=5).contains(&x.rank()) {
            return Err(KernelError::new("rank", 5, x.rank()));
        }
        expect("rank", x.rank(), w.rank())?;
        expect("rank", x.rank(), y.rank())?;
        let (groups, channels, outputs) = (groups as usize, w.dim(1), w.dim(0));
        expect("batches", x.dim(0), y.dim(0))?;
        expect("output channels", outputs, y.dim(1))?;
        expect("input channels", product(&[channels, groups]), x.dim(1))?;
        expect("output channels beyond whole groups", 0, outputs.checked_rem(groups).unwrap_or(1))?;
        let grid = Grid {
            batch: x.dim(0),
            channels,
            groups,
            outputs,
            input: planes(&x),
            output: planes(&y),
            taps: planes(&w),
            strides: g.strides.map(|s| s as usize),
            pads: g.before.map(|p| p as usize),
            dilations: g.dilations.map(|d| d as usize),
        };
        if grid.taps.contains(&0) { Err(KernelError::new("kernel size", 1, 0)) } else { Ok(grid.flattened()) }
    }

    /// One tap without gaps or padding does not see the shape of the input: take it as one long row.
    fn flattened(self) -> Grid {
        let plain = self.taps == [1; 3] && self.strides == [1; 3] && self.pads == [0; 3];
        if plain && self.input == self.output {
            let long = [1, 1, product(&self.input)];
            return Grid { input: long, output: long, ..self };
        }
        self
    }

    /// An error unless operands of `x`, `w` and `y` elements are of these sizes.
    pub(crate) fn check(&self, x: usize, w: usize, y: usize) -> Result<(), KernelError> {
        let planes = product(&[self.batch, self.channels, self.groups]);
        expect("elements of x", product(&[planes, product(&self.input)]), x)?;
        expect("elements of w", product(&[self.outputs, self.channels, product(&self.taps)]), w)?;
        expect("elements of y", product(&[self.batch, self.outputs, product(&self.output)]), y)
    }

    /// Position in the input along `axis` of tap `tap` of the window at `position`.
    fn source(&self, axis: usize, position: usize, tap: usize) -> usize {
        let start = position.wrapping_mul(self.strides[axis]).wrapping_sub(self.pads[axis]);
        start.wrapping_add(tap.wrapping_mul(self.dilations[axis]))
    }

    /// The output columns whose window lies within the width of the input.
    fn interior(&self) -> core::ops::Range<usize> {
        let (width, stride, pad) = (self.input[2], self.strides[2], self.pads[2]);
        let reach = (self.taps[2] - 1).saturating_mul(self.dilations[2]);
        let first = pad.div_ceil(stride).min(self.output[2]);
        let end = width.saturating_add(pad).saturating_sub(reach).div_ceil(stride);
        first..end.clamp(first, self.output[2])
    }
}

/// The whole convolution.
pub(crate) fn convolve<A: Arithmetic>(
    arithmetic: &A,
    grid: &Grid,
    x: &[A::X],
    w: &[A::W],
    y: &mut [A::Y],
) -> Result<(), KernelError> {
    grid.check(x.len(), w.len(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let [depth, height, width] = grid.output;
    let interior = grid.interior();
    let (per_group, volume) = (grid.outputs / grid.groups, grid.channels * product(&grid.input));
    let filter = grid.channels * product(&grid.taps);
    for (plane, y) in y.chunks_exact_mut(depth * height * width).enumerate() {
        let (batch, channel) = (plane / grid.outputs, plane % grid.outputs);
        let group = batch * grid.groups + channel / per_group;
        let line = Line {
            arithmetic: &arithmetic.at(channel),
            grid,
            planes: x.get(group * volume..).and_then(|x| x.get(..volume)).ok_or(OUT_OF_RANGE)?,
            weights: w.get(channel * filter..).and_then(|w| w.get(..filter)).ok_or(OUT_OF_RANGE)?,
            channel,
        };
        for (row, y) in y.chunks_exact_mut(width).enumerate() {
            let row = [row / height, row % height];
            let (left, rest) = y.split_at_mut_checked(interior.start).ok_or(OUT_OF_RANGE)?;
            let (middle, right) = rest.split_at_mut_checked(interior.len()).ok_or(OUT_OF_RANGE)?;
            line.edge(row, 0, left);
            for (block, y) in middle.chunks_mut(BLOCK).enumerate() {
                line.interior(row, interior.start + block * BLOCK, y)?;
            }
            line.edge(row, interior.end, right);
        }
    }
    Ok(())
}

/// What makes one output channel of one batch.
struct Line<'a, A: Arithmetic> {
    arithmetic: &'a A,
    grid: &'a Grid,
    /// The input of its group.
    planes: &'a [A::X],
    weights: &'a [A::W],
    channel: usize,
}

impl<'a, A: Arithmetic> Line<'a, A> {
    /// Calls `each` with the rows of the input that output row `row` sees, and the weights of each, in the order of the
    /// weights.
    #[inline(always)]
    fn rows(&self, row: [usize; 2], mut each: impl FnMut(&'a [A::X], &'a [A::W])) {
        let Line { grid, planes, mut weights, .. } = *self;
        let ([depth, height, width], [deep, tall, wide]) = (grid.input, grid.taps);
        let (front, top) = (grid.source(0, row[0], 0), grid.source(1, row[1], 0));
        for channel in 0..grid.channels {
            let mut z = front;
            for _ in 0..deep {
                let lines = channel.wrapping_mul(depth).wrapping_add(z).wrapping_mul(height);
                let mut y = top;
                for _ in 0..tall {
                    let Some((here, rest)) = weights.split_at_checked(wide) else { return };
                    weights = rest;
                    if z < depth && y < height {
                        let source = planes.get(lines.wrapping_add(y).wrapping_mul(width)..);
                        if let Some(source) = source.and_then(|s| s.get(..width)) {
                            each(source, here);
                        }
                    }
                    y = y.wrapping_add(grid.dilations[1]);
                }
                z = z.wrapping_add(grid.dilations[0]);
            }
        }
    }

    /// At most [`BLOCK`] results from column `first` on, whose windows lie within the width of the input.
    fn interior(&self, row: [usize; 2], first: usize, y: &mut [A::Y]) -> Result<(), KernelError> {
        let Line { arithmetic, grid, .. } = *self;
        let mut acc = [arithmetic.start(self.channel); BLOCK];
        let acc = acc.get_mut(..y.len()).ok_or(OUT_OF_RANGE)?;
        let start = grid.source(2, first, 0);
        let mut taps = Taps::new(grid.strides[2]);
        self.rows(row, |source, weights| {
            let mut at = start;
            for w in weights {
                taps.add(arithmetic, acc, source.get(at..).unwrap_or(&[]), *w);
                at = at.wrapping_add(grid.dilations[2]);
            }
        });
        taps.flush(arithmetic, acc);
        for (y, acc) in y.iter_mut().zip(acc) {
            *y = arithmetic.finish(self.channel, *acc);
        }
        Ok(())
    }

    /// Results from column `first` on, whose windows may reach into the padding.
    fn edge(&self, row: [usize; 2], first: usize, y: &mut [A::Y]) {
        let Line { arithmetic, grid, .. } = *self;
        for (column, y) in y.iter_mut().enumerate() {
            let mut acc = arithmetic.start(self.channel);
            let start = grid.source(2, first.wrapping_add(column), 0);
            self.rows(row, |source, weights| {
                let mut at = start;
                for w in weights {
                    if let Some(x) = source.get(at) {
                        acc = arithmetic.mac(acc, *x, arithmetic.widen(*w));
                    }
                    at = at.wrapping_add(grid.dilations[2]);
                }
            });
            *y = arithmetic.finish(self.channel, acc);
        }
    }
}
