//! Depth-wise convolution: every plane of the input with its own taps. A band of the input is copied with its padding, the
//! columns sorted by their remainder modulo the stride, so that every tap reads contiguous floats.

use super::parallel::{Shared, for_each};
use super::tile::{STEP, Shifts, kernels};
use super::workspace;
use crate::conv::Window;

/// Most taps of a window; larger windows go the slow way.
const MAX_TAPS: usize = 256;

/// One group for each channel, one output for each.
pub(super) fn convolve(window: &Window, x: &[f32], w: &[f32], bias: &[f32], relu: bool, y: &mut [f32]) {
    let (input, output) = (window.input[0] * window.input[1], window.output[0] * window.output[1]);
    let taps = window.taps[0] * window.taps[1];
    let y = Shared(y.as_mut_ptr());
    for_each(window.batch * window.outputs, |plane| {
        let channel = plane % window.outputs;
        let (Some(x), Some(w)) = (
            x.get(plane * input..).and_then(|x| x.get(..input)),
            w.get(channel * taps..).and_then(|w| w.get(..taps)),
        ) else {
            return;
        };
        // SAFETY: `y` has a part of `output` elements for each plane, as the caller has checked; this task alone has it.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(plane * output), output) };
        let bias = bias.get(channel).copied().unwrap_or(0.0);
        workspace::with(|memory| one_plane(window, x, w, bias, relu, y, memory));
    });
}

fn one_plane(
    window: &Window,
    x: &[f32],
    w: &[f32],
    bias: f32,
    relu: bool,
    y: &mut [f32],
    memory: &mut [f32],
) {
    let [out_height, out_width] = window.output;
    let (stride, dilation) = (window.stride(1), window.dilation(1));
    let reach = (window.taps[1] - 1) * dilation;
    // Floats of one remainder in a row of the copy.
    let phase = out_width + reach / stride;
    let line = phase.saturating_mul(stride.min(reach + 1));
    // Where rows follow one another in the copy as they do in the result, they are computed as one, gaps included.
    let joined = window.stride(0) == 1 && line < 2 * STEP;
    // Rows of the input that so many rows of the output see.
    let rows_for =
        |rows: usize| (rows - 1) * window.stride(0) + (window.taps[0] - 1) * window.dilation(0) + 1;
    // The copy, what a tile may read behind it, and the joined rows.
    let need = |rows: usize| {
        rows_for(rows).saturating_mul(line).saturating_add(STEP + if joined { rows * line } else { 0 })
    };
    let mut band = out_height;
    while band > 1 && need(band) > memory.len() {
        band = band.div_ceil(2);
    }
    let mut offsets = [0; MAX_TAPS];
    let Some(offsets) = offsets.get_mut(..w.len()).filter(|_| need(band) <= memory.len()) else {
        return slowly(window, x, w, bias, relu, y);
    };
    for (tap, offset) in offsets.iter_mut().enumerate() {
        let (row, column) = (tap / window.taps[1], tap % window.taps[1] * dilation);
        *offset = row * window.dilation(0) * line + column % stride * phase + column / stride;
    }
    for (number, y) in y.chunks_mut(band * out_width).enumerate() {
        let rows = y.len() / out_width;
        let (copy, results) = memory.split_at_mut(rows_for(rows) * line + STEP);
        copy_band(window, x, number * band, rows_for(rows), phase, line, copy);
        let copy = &*copy;
        let shifts = |first: usize| Shifts { x: &copy[first..], offsets, w, bias, relu };
        if joined {
            let results = &mut results[..(rows - 1) * line + out_width];
            // SAFETY: `kernels` gives those of this processor.
            unsafe { (kernels().shifts)(&shifts(0), results) };
            for (y, from) in y.chunks_exact_mut(out_width).zip(results.chunks(line)) {
                y.copy_from_slice(&from[..out_width]);
            }
            continue;
        }
        for (row, y) in y.chunks_exact_mut(out_width).enumerate() {
            // SAFETY: `kernels` gives those of this processor.
            unsafe { (kernels().shifts)(&shifts(row * window.stride(0) * line), y) };
        }
    }
}

/// Copies the rows of the input that the output rows from `first` on see.
fn copy_band(
    window: &Window,
    x: &[f32],
    first: usize,
    rows: usize,
    phase: usize,
    line: usize,
    memory: &mut [f32],
) {
    let [height, width] = window.input;
    let stride = window.stride(1);
    let pad = window.pad(1);
    // Modulo 2^usize: rows in the padding are at least the height.
    let top = window.source(0, first, 0);
    for (row, copy) in memory.chunks_exact_mut(line).take(rows).enumerate() {
        let source = top.wrapping_add(row);
        if source >= height {
            copy.fill(0.0);
            continue;
        }
        let from = &x[source * width..][..width];
        for (remainder, copy) in copy.chunks_exact_mut(phase).enumerate() {
            // Element `j` is column `j · stride + remainder − pad` of the input.
            let before = pad.saturating_sub(remainder).div_ceil(stride).min(copy.len());
            let (zeros, rest) = copy.split_at_mut(before);
            zeros.fill(0.0);
            let start = (before * stride + remainder).saturating_sub(pad);
            let inside = from.get(start..).unwrap_or(&[]);
            let count = inside.len().div_ceil(stride).min(rest.len());
            let (there, behind) = rest.split_at_mut(count);
            if stride == 1 {
                there.copy_from_slice(&inside[..count]);
            } else {
                there.iter_mut().zip(inside.iter().step_by(stride)).for_each(|(y, x)| *y = *x);
            }
            behind.fill(0.0);
        }
    }
}

/// Tap by tap, where not even one row of the copy fits.
fn slowly(window: &Window, x: &[f32], w: &[f32], bias: f32, relu: bool, y: &mut [f32]) {
    let [height, width] = window.input;
    for (position, y) in y.iter_mut().enumerate() {
        let (row, column) = (position / window.output[1], position % window.output[1]);
        let mut sum = bias;
        for (tap, w) in w.iter().enumerate() {
            let (r, c) =
                (window.source(0, row, tap / window.taps[1]), window.source(1, column, tap % window.taps[1]));
            if r < height && c < width {
                sum += w * x[r * width + c];
            }
        }
        *y = if relu { serinette_core::op::unary::relu(sum) } else { sum };
    }
}
