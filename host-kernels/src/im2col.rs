//! Convolution as a matrix product over an unfolded input.
//!
//! A block of output positions is unfolded into a matrix: one row for each tap of the window (channel, height,
//! width), one column for each position, zero where the tap lies in the padding. Each output channel of the group
//! is then a sum of these rows. The rows are long and contiguous whatever the width of the image.

use crate::OUT_OF_RANGE;
use crate::arithmetic::{Arithmetic, BLOCK, Sums, Taps};
use crate::conv::Window;
use crate::product;
use serinette_core::op::conv::IM2COL_COLUMNS;
use serinette_core::schedule::KernelError;

/// Output channels from which on the unfolding is paid for by reading it often.
const LEAST_OUTPUTS: usize = 4;

/// Whether unfolding is faster than reading the input in place.
pub(crate) fn pays(window: &Window) -> bool {
    window.outputs_per_group() >= LEAST_OUTPUTS
}

fn rows(window: &Window) -> usize {
    product(&[window.channels, window.taps[0], window.taps[1]])
}

fn columns(window: &Window) -> usize {
    product(&window.output).min(IM2COL_COLUMNS)
}

/// Whether `scratch` elements hold a block of the size that the op's description asks for.
pub(crate) fn fits(window: &Window, scratch: usize) -> bool {
    product(&[rows(window), columns(window)]) <= scratch
}

/// The whole convolution. `y` is not empty and `scratch` [`fits`].
pub(crate) fn convolve(
    arithmetic: &Sums<'_, f32>,
    window: &Window,
    x: &[f32],
    w: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    let (per_group, plane) = (window.outputs_per_group(), product(&window.output));
    for (group, y) in y.chunks_exact_mut(per_group * plane).enumerate() {
        let (batch, group) = (group / window.groups, group % window.groups);
        let planes = window.group(x, batch, group)?;
        for first in (0..plane).step_by(columns(window)) {
            let width = columns(window).min(plane - first);
            let unfolded = scratch.get_mut(..rows(window) * width).ok_or(OUT_OF_RANGE)?;
            for (tap, row) in unfolded.chunks_exact_mut(width).enumerate() {
                unfold(window, planes, tap, first, row);
            }
            for (output, y) in y.chunks_exact_mut(plane).enumerate() {
                let channel = group * per_group + output;
                let y = y.get_mut(first..).and_then(|y| y.get_mut(..width)).ok_or(OUT_OF_RANGE)?;
                multiply(arithmetic, channel, window.weights(w, channel)?, unfolded, y)?;
            }
        }
    }
    Ok(())
}

/// Fills one row of the unfolded matrix: tap number `tap`, positions from `first` on.
fn unfold(window: &Window, planes: &[f32], tap: usize, first: usize, row: &mut [f32]) {
    let [kernel_height, kernel_width] = window.taps;
    let (line, tap_x) = (tap / kernel_width, tap % kernel_width);
    let (channel, tap_y) = (line / kernel_height, line % kernel_height);
    let width = window.output[1];
    let mut filled = 0;
    while filled < row.len() {
        let (y, left) = ((first + filled) / width, (first + filled) % width);
        let Some(part) = row.get_mut(filled..).and_then(|r| {
            let n = r.len().min(width - left);
            r.get_mut(..n)
        }) else {
            return;
        };
        filled += part.len();
        match window.row(planes, channel, y, tap_y) {
            Some(source) => {
                for (i, cell) in part.iter_mut().enumerate() {
                    *cell = source.get(window.source(1, left + i, tap_x)).copied().unwrap_or(0.0);
                }
            }
            None => part.fill(0.0),
        }
    }
}

/// `y = activation(bias + weights · unfolded)` for one output channel.
fn multiply(
    arithmetic: &Sums<'_, f32>,
    channel: usize,
    weights: &[f32],
    unfolded: &[f32],
    y: &mut [f32],
) -> Result<(), KernelError> {
    let width = y.len();
    for (block, y) in y.chunks_mut(BLOCK).enumerate() {
        let mut acc = [arithmetic.start(channel); BLOCK];
        let acc = acc.get_mut(..y.len()).ok_or(OUT_OF_RANGE)?;
        let mut taps = Taps::new(1);
        for (w, row) in weights.iter().zip(unfolded.chunks_exact(width)) {
            let row = row.get(block * BLOCK..).and_then(|r| r.get(..acc.len())).ok_or(OUT_OF_RANGE)?;
            taps.add(arithmetic, acc, row, *w);
        }
        taps.flush(arithmetic, acc);
        for (y, acc) in y.iter_mut().zip(acc) {
            *y = arithmetic.finish(channel, *acc);
        }
    }
    Ok(())
}
