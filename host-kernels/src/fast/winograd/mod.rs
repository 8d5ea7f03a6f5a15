//! Convolution with 3 × 3 taps and stride 1 by F(4 × 4, 3 × 3): 36 multiplications for 16 results instead of 144 (Winograd 1980; Lavin
//! and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
//!
//! The output is cut into tiles of 4 × 4. The patches of the input below them and the weights are transformed to 36 points each;
//! at each point the sum over the channels is a matrix product; the sums are transformed back. The result of a tile depends on nothing
//! but the tile, so bits do not depend on how the work is split.
//!
//! Rounding errors are relative to the largest element of a patch and of the weights. Numbers that are not finite, or so large or small
//! that a transform could overflow or lose them, are left to the product with the unfolded input ([`Layer::suits`]).

mod transform;

use super::parallel::{Shared, for_each, threads};
use super::tile::{Kernels, Tile, kernels};
use super::workspace;
use core::ops::Range;
use serinette_core::Shape;
use transform::{Finish, MOST_LANES, POINTS, Transforms, transforms};

/// Rows and columns of the output in a tile.
const TILE: usize = 4;
/// Rows and columns of the input below a tile.
const PATCH: usize = 6;
/// Most tiles in a panel: two vectors.
const MOST_WIDTH: usize = 2 * MOST_LANES;
/// Rows of a product that are computed at a time, by most.
const MOST_ROWS: usize = 12;
/// Floats between the lines of a patch that is taken apart, with room for a vector that starts at the last tile.
const SPREAD: usize = MOST_WIDTH + MOST_LANES;
/// Floats for the transformed input of some panels (more only where one panel needs more): 1.5 MiB, three quarters of a
/// second cache of 2 MiB.
const INPUT: usize = 384 * 1024;
/// Most channels: one panel of them takes 2.3 MiB.
const MOST_CHANNELS: usize = 512;

/// A convolution. Weights are `[outputs, channels, 3, 3]`.
pub(super) struct Layer<'a> {
    pub batch: usize,
    pub channels: usize,
    pub outputs: usize,
    /// Height and width.
    pub input: [usize; 2],
    /// Height and width.
    pub output: [usize; 2],
    /// Rows above and columns to the left.
    pub pads: [usize; 2],
    pub w: &'a [f32],
    /// One for each output, or empty.
    pub bias: &'a [f32],
    pub relu: bool,
}

/// Tiles of one row of tiles that lie in one panel.
#[derive(Clone, Copy, Default)]
struct Run {
    image: usize,
    /// Row and column of the first, in tiles.
    row: usize,
    column: usize,
    /// Its place in the panel.
    place: usize,
    tiles: usize,
}

/// Where the parts of the workspace are, in floats.
struct Memory {
    /// Between points of the input in a panel, and of the weights.
    input_point: usize,
    weights_row: usize,
    panel: usize,
    panels: usize,
    weights: usize,
    sums: usize,
    spread: usize,
    taps: usize,
    total: usize,
}

impl Memory {
    fn new(channels: usize, panels: usize) -> Memory {
        // Odd numbers of lines, so that points do not fall into one set of a cache.
        let input_point = channels * MOST_WIDTH + MOST_LANES;
        let weights_row = channels.next_multiple_of(MOST_LANES) + MOST_LANES;
        let panel = POINTS * input_point;
        let panels = (INPUT / panel).clamp(1, panels.max(1));
        let weights = panels * panel;
        let sums = weights + POINTS * MOST_ROWS * weights_row;
        let spread = sums + POINTS * MOST_ROWS * MOST_WIDTH;
        let taps = spread + POINTS * SPREAD;
        let total = taps + 9 * channels.next_multiple_of(MOST_LANES);
        Memory { input_point, weights_row, panel, panels, weights, sums, spread, taps, total }
    }
}

/// Whether a layer of these sizes is computed faster this way than as a product with the unfolded input. `lanes` is the width of a
/// vector.
fn pays(batch: usize, channels: usize, outputs: usize, output: [usize; 2], lanes: usize) -> bool {
    let vectors = (batch * output[0].div_ceil(TILE) * output[1].div_ceil(TILE)).div_ceil(lanes);
    let unfolded = (batch * (output[0] * output[1]).div_ceil(lanes)) as f64;
    // Vector operations for a pair of channel and output; transforms are shared by all outputs, or all channels.
    let transforms = 500.0 * vectors as f64 * (1.0 / outputs as f64 + 1.0 / channels as f64);
    channels <= MOST_CHANNELS && (POINTS * vectors) as f64 + 30.0 + transforms < 10.0 * unfolded
}

/// Bytes of workspace that a thread needs for a convolution of these shapes if it is computed this way, at most.
pub(super) fn workspace_bytes(x: &Shape, w: &Shape, y: &Shape) -> usize {
    let [channels, outputs] = [w.dim(1), w.dim(0)];
    let (batch, output) = (y.dim(0), [y.dim(2), y.dim(3)]);
    let narrowest =
        [4, 8, MOST_LANES].into_iter().find(|lanes| pays(batch, channels, outputs, output, *lanes));
    match narrowest.filter(|_| [w.dim(2), w.dim(3)] == [3, 3] && x.dim(1) == channels) {
        Some(lanes) => {
            let tiles = batch * output[0].div_ceil(TILE) * output[1].div_ceil(TILE);
            Memory::new(channels, tiles.div_ceil(2 * lanes)).total * size_of::<f32>()
        }
        None => 0,
    }
}

impl Layer<'_> {
    /// Whether the layer is computed faster, and as exactly, this way. `x` is all that it reads.
    pub fn suits(&self, x: &[f32]) -> bool {
        let lanes = kernels().width / 2;
        if !pays(self.batch, self.channels, self.outputs, self.output, lanes) {
            return false;
        }
        let (x, w) = (f64::from(largest(x)), f64::from(largest(self.w)));
        // Transforms make numbers at most 2500 times as large, and their sums are over channels. Below, products
        // must not come near the subnormal numbers.
        let most = x * w * self.channels as f64 * 2500.0;
        x < 1e36 && w < 1e36 && most < 1e38 && (most == 0.0 || x * w > 1e-28)
    }

    /// Computes the layer from `x`, `[batch, channels, height, width]`, into `y`. Slices that do not fit the sizes, which callers have checked,
    /// are left alone.
    ///
    /// # Safety
    /// `y` has the planes of all images, and nobody else touches them.
    pub unsafe fn run(&self, x: &[f32], y: Shared) {
        let fit = x.len() == self.batch * self.channels * self.input[0] * self.input[1]
            && self.w.len() == self.outputs * self.channels * 9
            && (self.bias.is_empty() || self.bias.len() == self.outputs)
            && self.channels <= MOST_CHANNELS;
        debug_assert!(fit);
        if !fit {
            return;
        }
        let (kernels, transforms) = (kernels(), transforms());
        let tiles = self.batch * self.tiles_of_image();
        // Tiles are split first; outputs where there are too few, and then each task transforms the input for itself.
        let panels = tiles.div_ceil(kernels.width);
        let tile_parts = threads().min(panels).max(1);
        let output_parts = (threads() / tile_parts).clamp(1, self.outputs.div_ceil(kernels.rows).max(1));
        for_each(tile_parts * output_parts, |task| {
            let (part, other) = (task % tile_parts, task / tile_parts);
            let cut = |part: usize| (panels * part / tile_parts * kernels.width).min(tiles);
            let outputs = self.outputs * other / output_parts..self.outputs * (other + 1) / output_parts;
            let memory = Memory::new(self.channels, panels);
            workspace::with_room(memory.total, |floats| {
                self.part(
                    kernels,
                    transforms,
                    x,
                    cut(part)..cut(part + 1),
                    outputs.clone(),
                    &memory,
                    floats,
                    y,
                );
            });
        });
    }

    fn tiles_of_image(&self) -> usize {
        self.output[0].div_ceil(TILE) * self.output[1].div_ceil(TILE)
    }

    /// The results of some tiles for some outputs, which no other task touches.
    #[allow(clippy::too_many_arguments)] // two ranges, functions, memory, where from, where to
    fn part(
        &self,
        kernels: &Kernels,
        transforms: &Transforms,
        x: &[f32],
        tiles: Range<usize>,
        outputs: Range<usize>,
        memory: &Memory,
        floats: &mut [f32],
        y: Shared,
    ) {
        let Some(floats) = floats.get_mut(..memory.total) else { return };
        let base = floats.as_mut_ptr();
        let width = kernels.width;
        // Rows of equal height, rather than a low one at the end.
        let rows = outputs.len().div_ceil(outputs.len().div_ceil(kernels.rows).max(1)).max(1);
        for block in tiles.clone().step_by(memory.panels * width) {
            let block = block..tiles.end.min(block + memory.panels * width);
            for (i, first) in block.clone().step_by(width).enumerate() {
                let panel = first..block.end.min(first + width);
                // SAFETY: panel `i` is one of `memory.panels`, behind which the weights begin; the place of the patch
                // is in its own part of the memory.
                unsafe {
                    self.transform(
                        transforms,
                        x,
                        panel,
                        memory,
                        base.add(i * memory.panel),
                        base.add(memory.spread),
                    )
                };
            }
            for first in outputs.clone().step_by(rows) {
                let rows = first..outputs.end.min(first + rows);
                // SAFETY: `run` has checked that there are weights for every output; there is memory for so many rows.
                unsafe {
                    for (i, output) in rows.clone().enumerate() {
                        let w = self.w.as_ptr().add(output * self.channels * 9);
                        let u = base.add(memory.weights + i * memory.weights_row);
                        (transforms.weights)(
                            w,
                            self.channels,
                            base.add(memory.taps),
                            u,
                            MOST_ROWS * memory.weights_row,
                        );
                    }
                }
                for (i, first) in block.clone().step_by(width).enumerate() {
                    let panel = first..block.end.min(first + width);
                    // SAFETY: the panel has been transformed, and the weights of the rows.
                    unsafe { self.product(kernels, transforms, panel, rows.clone(), memory, base, i, y) };
                }
            }
        }
    }

    /// Calls `f` for the runs of a panel.
    fn runs(&self, panel: Range<usize>, mut f: impl FnMut(Run)) {
        let [high, wide] = self.output.map(|n| n.div_ceil(TILE));
        let mut tile = panel.start;
        while tile < panel.end {
            let (row, column) = (tile / wide, tile % wide);
            let tiles = (wide - column).min(panel.end - tile);
            f(Run { image: row / high, row: row % high, column, place: tile - panel.start, tiles });
            tile += tiles;
        }
    }

    /// The patches of a panel of tiles at the points, for every channel.
    ///
    /// # Safety
    /// `v` has room for a panel, `spread` for a patch of [`SPREAD`] tiles.
    unsafe fn transform(
        &self,
        transforms: &Transforms,
        x: &[f32],
        panel: Range<usize>,
        memory: &Memory,
        v: *mut f32,
        spread: *mut f32,
    ) {
        let [height, width] = self.input;
        let count = panel.len();
        let wide = panel_width(count);
        for channel in 0..self.channels {
            self.runs(panel.clone(), |run| {
                let plane = (run.image * self.channels + channel) * height * width;
                // Modulo 2^usize, so that rows and columns of the padding are beyond the last.
                let left = (TILE * run.column).wrapping_sub(self.pads[1]);
                let seen = TILE * run.tiles + PATCH - TILE;
                for i in 0..PATCH {
                    let row = (TILE * run.row + i).wrapping_sub(self.pads[0]);
                    let line = if row < height { x.get(plane + row * width..).unwrap_or(&[]) } else { &[] };
                    let read = TILE * run.tiles.next_multiple_of(MOST_LANES) + TILE;
                    // SAFETY: `out` has room for the panel's tiles behind this one and a vector; `line` has as many
                    // elements as are read.
                    unsafe {
                        let out = spread.add(i * PATCH * SPREAD + run.place);
                        if left < width && left + seen <= width && line.len() >= left + read {
                            (transforms.spread)(line.as_ptr().add(left), run.tiles, out, SPREAD);
                        } else {
                            let mut padded = [0.0f32; TILE * (MOST_WIDTH + 1)];
                            copy_padded(&line[..line.len().min(width)], left, &mut padded[..seen]);
                            (transforms.spread)(padded.as_ptr(), run.tiles, out, SPREAD);
                        }
                    }
                }
            });
            // SAFETY: the patch is complete up to `count`, and there is room for whole vectors.
            unsafe { (transforms.input)(spread, SPREAD, count, v.add(channel * wide), memory.input_point) };
        }
    }

    /// Sums at the points for a panel of tiles and some outputs, transformed to results.
    ///
    /// # Safety
    /// Panel `index` and the weights of `rows` are in `memory` at `base`.
    #[allow(clippy::too_many_arguments)] // two ranges, functions, memory, where to
    unsafe fn product(
        &self,
        kernels: &Kernels,
        transforms: &Transforms,
        panel: Range<usize>,
        rows: Range<usize>,
        memory: &Memory,
        base: *mut f32,
        index: usize,
        y: Shared,
    ) {
        let count = panel.len();
        let wide = panel_width(count);
        let tile = if wide == kernels.width { kernels.tile } else { kernels.narrow };
        let sums = base.wrapping_add(memory.sums);
        for point in 0..POINTS {
            let t = Tile {
                k: self.channels,
                a: base.wrapping_add(memory.weights + point * MOST_ROWS * memory.weights_row),
                a_stride: memory.weights_row,
                b: base.wrapping_add(index * memory.panel + point * memory.input_point),
                b_stride: wide,
                y: sums.wrapping_add(point * MOST_ROWS * MOST_WIDTH),
                y_stride: MOST_WIDTH,
                add: false,
                finish: None,
            };
            // SAFETY: rows of weights, rows of the panel and of the sums lie in their parts of the workspace.
            unsafe { tile(rows.len(), &t) };
        }
        let [height, width] = self.output;
        for (i, output) in rows.enumerate() {
            let bias = self.bias.get(output).copied().unwrap_or(0.0);
            let mut results = [0.0f32; TILE * TILE * MOST_WIDTH];
            // SAFETY: sums of whole vectors were computed; the results are as many for a panel of most tiles.
            unsafe {
                let m = sums.add(i * MOST_WIDTH);
                let finish = Finish { bias, relu: self.relu };
                (transforms.output)(
                    m,
                    MOST_ROWS * MOST_WIDTH,
                    count,
                    finish,
                    results.as_mut_ptr(),
                    TILE * MOST_WIDTH,
                );
            }
            self.runs(panel.clone(), |run| {
                let corner = (run.image * self.outputs + output) * height * width + TILE * run.column;
                let n = (TILE * run.tiles).min(width - TILE * run.column);
                for i in 0..TILE.min(height - TILE * run.row) {
                    let from = &results[i * TILE * MOST_WIDTH + TILE * run.place..][..n];
                    let to = y.at(corner + (TILE * run.row + i) * width);
                    // SAFETY: a part of a row of this plane, which no other task writes.
                    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, n) };
                }
            });
        }
    }
}

/// Tiles of a panel with room for so many: one vector or two.
fn panel_width(tiles: usize) -> usize {
    let width = kernels().width;
    if tiles <= width / 2 { width / 2 } else { width }
}

/// The elements of a line from `left` (modulo 2^usize) on, zeros before and behind it.
fn copy_padded(line: &[f32], left: usize, out: &mut [f32]) {
    let before = if left < line.len() { 0 } else { left.wrapping_neg().min(out.len()) };
    let (zeros, out) = out.split_at_mut(before);
    zeros.fill(0.0);
    let inside = line.get(left.wrapping_add(before)..).unwrap_or(&[]);
    let (there, behind) = out.split_at_mut(inside.len().min(out.len()));
    there.copy_from_slice(&inside[..there.len()]);
    behind.fill(0.0);
}

/// The largest magnitude; not finite where any number is not.
fn largest(x: &[f32]) -> f32 {
    // As whole numbers magnitudes have the order of the numbers, and those of NaN come last.
    f32::from_bits(x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::pays;

    /// The op suite's cases of this method are computed by it whatever the width of vectors.
    #[test]
    fn cases_of_the_suite_are_large_enough() {
        for lanes in [4, 8, 16] {
            assert!(pays(1, 20, 24, [19, 22], lanes), "{lanes} lanes");
            assert!(pays(2, 16, 33, [19, 16], lanes), "{lanes} lanes");
            assert!(pays(1, 17, 24, [17, 38], lanes), "{lanes} lanes");
        }
    }
}
