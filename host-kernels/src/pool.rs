//! 2-D pooling.

use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::pool::{Pool2d, divide_half_even};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// `MaxPool2d` in f32.
pub fn max_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // A NaN replaces any number, and no number replaces a NaN.
    let larger = |most: f32, x: f32| if x > most || x.is_nan() { x } else { most };
    pool(step, ops, f32::NEG_INFINITY, larger, |most, _| most)
}

/// `MaxPool2d` in i8.
pub fn max_i8(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    pool(step, ops, i8::MIN, |most: i8, x: i8| most.max(x), |most, _| most)
}

/// `AveragePool2d` in f32.
pub fn average_f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    pool(step, ops, 0.0, |sum: f32, x: f32| sum + x, |sum, count| sum / count as f32)
}

/// `AveragePool2d` in i8.
pub fn average_i8(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let mean = |sum, count| divide_half_even(sum, count).clamp(-128, 127) as i8;
    pool(step, ops, 0i64, |sum, x: i8| sum.wrapping_add(i64::from(x)), mean)
}

/// One axis of the window.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    taps: usize,
    stride: usize,
    pad: usize,
    dilation: usize,
}

impl Axis {
    /// The first position within the input, and how many taps are within, of the window at `position`.
    fn within(&self, position: usize) -> (usize, usize) {
        let over = |n: usize| if self.dilation == 1 { n } else { n.div_ceil(self.dilation) };
        let start = position.saturating_mul(self.stride);
        let skipped = over(self.pad.saturating_sub(start)).min(self.taps);
        let first = start.saturating_add(skipped.saturating_mul(self.dilation)).saturating_sub(self.pad);
        (first, over(self.size.saturating_sub(first)).min(self.taps - skipped))
    }
}

/// Folds every window row by row. `finish` is given the result and the number of elements that count.
fn pool<T: bytemuck::Pod, A: Copy>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    start: A,
    fold: impl Fn(A, T) -> A,
    finish: impl Fn(A, i64) -> T,
) -> Result<(), KernelError> {
    let attrs: Pool2d = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("rank of x", 4, shape.rank())?;
    expect("rank of y", 4, out.rank())?;
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    expect("planes", shape.outer(2), out.outer(2))?;
    let [height, width] = [shape.dim(2), shape.dim(3)];
    let taps = attrs.window(height, width);
    let g = &attrs.geometry;
    let axis = |i: usize, size| Axis {
        size,
        taps: taps[i],
        stride: g.strides[i] as usize,
        pad: g.pads[i] as usize,
        dilation: g.dilations[i] as usize,
    };
    let (down, across) = (axis(0, height), axis(1, width));
    for (row, y) in y.chunks_exact_mut(out.dim(3)).enumerate() {
        let plane = row / out.dim(2);
        let (top, rows) = down.within(row % out.dim(2));
        for (column, y) in y.iter_mut().enumerate() {
            let (left, columns) = across.within(column);
            let mut value = start;
            if columns > 0 {
                for line in 0..rows {
                    let line = plane
                        .wrapping_mul(height)
                        .wrapping_add(top.wrapping_add(line.wrapping_mul(down.dilation)));
                    let source = line.wrapping_mul(width).wrapping_add(left);
                    let source = x.get(source..).ok_or(OUT_OF_RANGE)?;
                    for x in source.iter().step_by(across.dilation).take(columns) {
                        value = fold(value, *x);
                    }
                }
            }
            let count = if attrs.count_padding != 0 { (taps[0], taps[1]) } else { (rows, columns) };
            *y = finish(value, (count.0 as i64).saturating_mul(count.1 as i64));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn taps_within_the_input_are_those_a_search_finds() {
        for size in 0..7usize {
            for taps in 1..5usize {
                for (stride, pad, dilation) in
                    [(1, 0, 1), (2, 1, 1), (3, 2, 1), (1, 0, 2), (2, 0, 3), (1, 5, 2)]
                {
                    let axis = Axis { size, taps, stride, pad, dilation };
                    for position in 0..6usize {
                        let at = |tap: usize| {
                            (position * stride + tap * dilation).checked_sub(pad).filter(|p| *p < size)
                        };
                        let found = (0..taps).filter_map(at);
                        let (first, count) = axis.within(position);
                        assert_eq!(count, found.clone().count());
                        assert!(count == 0 || Some(first) == found.min());
                    }
                }
            }
        }
    }
}
