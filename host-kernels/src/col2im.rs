//! The sum of overlapping blocks. Every row of an image collects what lies on it, block element by block element.

use crate::functions::Elementary;
use crate::number::{BF16, F16, Stored};
use crate::registry::{Registered, kernels, sets};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::col2im as op;
use serinette_core::op::col2im::{Col2Im, MAX_AXES};
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[KERNELS];

static KERNELS: &[Registered] = kernels! { col2im:
    op::COL2IM => f32, sets::F32 => sets::F32;
    op::COL2IM => f16, sets::F16 => sets::F16;
    op::COL2IM => bf16, sets::BF16 => sets::BF16;
    op::COL2IM => f64, sets::F64 => sets::F64;
};

/// `Col2Im` of f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    col2im::<f32>(step, ops)
}

/// `Col2Im` of f16.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    col2im::<F16>(step, ops)
}

/// `Col2Im` of bf16.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    col2im::<BF16>(step, ops)
}

/// `Col2Im` of f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    col2im::<f64>(step, ops)
}

/// Elements of a row that are summed at a time.
const WIDTH: usize = 64;

/// One axis of the image.
#[derive(Clone, Copy, Default)]
struct Axis {
    size: usize,
    block: usize,
    stride: i64,
    dilation: i64,
    pad: i64,
    /// How many blocks there are along it.
    positions: usize,
}

impl Axis {
    fn new(a: &Col2Im, i: usize, size: usize) -> Axis {
        let of = |list: &[u32; MAX_AXES]| i64::from(list.get(i).copied().unwrap_or(1));
        let (stride, dilation, pad) = (of(&a.strides), of(&a.dilations), of(&a.pads_before));
        let padded = i64::try_from(size).unwrap_or(0).saturating_add(pad + of(&a.pads_after));
        let room = padded - (of(&a.blocks) - 1) * dilation;
        let positions = if room > 0 { (room - 1) / stride + 1 } else { 0 };
        Axis { size, block: of(&a.blocks) as usize, stride, dilation, pad, positions: positions as usize }
    }

    /// Where in the padded image, relative to the start of a block, position `at` is with element `k` of the block on it.
    fn start(&self, at: usize, k: usize) -> i64 {
        at as i64 + self.pad - k as i64 * self.dilation
    }

    /// The block whose element `k` lies on position `at`.
    fn block_at(&self, at: usize, k: usize) -> Option<usize> {
        let start = self.start(at, k);
        if start % self.stride != 0 {
            return None;
        }
        usize::try_from(start / self.stride).ok().filter(|l| *l < self.positions)
    }
}

fn col2im<T: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Col2Im = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    let rank = out.rank().checked_sub(2).filter(|r| (1..=MAX_AXES).contains(r));
    let rank = rank.ok_or(KernelError::new("rank of y", 4, out.rank()))?;
    if y.is_empty() {
        return Ok(());
    }
    let mut all = [Axis::default(); MAX_AXES];
    for (i, axis) in all.iter_mut().enumerate().take(rank) {
        *axis = Axis::new(&attrs, i, out.dim(i + 2));
    }
    let axes = all.get(..rank).unwrap_or(&[]);
    let (outer, last) = axes.split_at(rank - 1);
    let [last] = last else { return Err(OUT_OF_RANGE) };
    let image = Image {
        outer,
        last: *last,
        columns: axes.iter().fold(1usize, |n, a| n.saturating_mul(a.positions)),
        block: axes.iter().fold(1usize, |n, a| n.saturating_mul(a.block)),
    };
    let planes = out.outer(2);
    expect("elements of x", product(&[planes, image.block, image.columns]), x.len())?;
    if x.is_empty() {
        y.fill(T::zeroed());
        return Ok(());
    }
    let plane = product(&[image.block, image.columns]);
    let rows = outer_rows(&out, rank);
    for (i, y) in y.chunks_exact_mut(last.size).enumerate() {
        let x = x.get((i / rows).wrapping_mul(plane)..).and_then(|x| x.get(..plane)).ok_or(OUT_OF_RANGE)?;
        for (block, y) in y.chunks_mut(WIDTH).enumerate() {
            image.row(i % rows, block * WIDTH, x, y)?;
        }
    }
    Ok(())
}

/// Rows of one image.
fn outer_rows(out: &Shape, rank: usize) -> usize {
    product(out.dims().get(2..rank + 1).unwrap_or(&[])).max(1)
}

struct Image<'a> {
    /// All axes but the innermost.
    outer: &'a [Axis],
    last: Axis,
    columns: usize,
    /// Elements of a block.
    block: usize,
}

impl Image<'_> {
    /// The elements from column `first` on of row `row`.
    fn row<T: Stored>(&self, row: usize, first: usize, x: &[T], y: &mut [T]) -> Result<(), KernelError> {
        let mut sums = [T::Wide::of(0.0); WIDTH];
        let mut at = [0usize; MAX_AXES];
        let mut rest = row;
        for (at, axis) in at.iter_mut().zip(self.outer).rev() {
            (*at, rest) = (rest % axis.size, rest / axis.size);
        }
        // Elements of a block along the outer axes.
        let lines = self.block / self.last.block;
        for line in 0..lines {
            let Some(blocks) = self.blocks(line, &at) else { continue };
            for k in 0..self.last.block {
                let column = (line * self.last.block + k).wrapping_mul(self.columns);
                let start = column.wrapping_add(blocks.wrapping_mul(self.last.positions));
                let x = x.get(start..).and_then(|x| x.get(..self.last.positions)).ok_or(OUT_OF_RANGE)?;
                self.add(first, k, x, sums.get_mut(..y.len()).ok_or(OUT_OF_RANGE)?);
            }
        }
        y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::store(sum));
        Ok(())
    }

    /// The blocks along the outer axes whose element `line` lies on the row at these positions.
    fn blocks(&self, line: usize, at: &[usize; MAX_AXES]) -> Option<usize> {
        let (mut k, mut blocks, mut scale) = (line, 0usize, 1usize);
        for (axis, at) in self.outer.iter().zip(at).rev() {
            let l = axis.block_at(*at, k % axis.block)?;
            k /= axis.block;
            blocks = blocks.wrapping_add(l.wrapping_mul(scale));
            scale = scale.wrapping_mul(axis.positions);
        }
        Some(blocks)
    }

    /// Adds element `k` of every block that lies on one of the columns from `first` on.
    fn add<T: Stored>(&self, first: usize, k: usize, x: &[T], sums: &mut [T::Wide]) {
        let (start, stride) = (self.last.start(first, k), self.last.stride);
        // The first block that lies on them, and the column it lies on.
        let l = if start > 0 { (start + stride - 1) / stride } else { 0 };
        let Ok(column) = usize::try_from(l * stride - start) else { return };
        let x = usize::try_from(l).ok().and_then(|l| x.get(l..)).unwrap_or(&[]);
        let Some(sums) = sums.get_mut(column..) else { return };
        let sums = sums.iter_mut().step_by(usize::try_from(stride).unwrap_or(1).max(1));
        sums.zip(x).for_each(|(sum, x)| *sum = *sum + x.load());
    }
}
