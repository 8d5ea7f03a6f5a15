//! Transposed convolution. Output columns that are a stride apart meet the same taps of the kernel, each with
//! neighbouring elements of the input: the columns of one remainder modulo the stride are a plain sum of shifted input
//! rows, whose inner loops are contiguous.

use crate::arithmetic::{Arithmetic, BLOCK, Sums, Taps};
use crate::number::{self, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64},
};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::conv_transpose::ConvTranspose;
use serinette_core::op::pools::planes;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { conv_transpose:
    op::conv_transpose::CONV_TRANSPOSE => f32, F32 => F32;
    op::conv_transpose::CONV_TRANSPOSE => f16, F16 => F16;
    op::conv_transpose::CONV_TRANSPOSE => bf16, BF16 => BF16;
    op::conv_transpose::CONV_TRANSPOSE => f64, F64 => F64;
};

/// `ConvTranspose` in f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    transposed::<f32>(step, ops)
}

/// `ConvTranspose` of binary16.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    transposed::<number::F16>(step, ops)
}

/// `ConvTranspose` of bfloat16.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    transposed::<number::BF16>(step, ops)
}

/// `ConvTranspose` in f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    transposed::<f64>(step, ops)
}

/// The sizes of a transposed convolution.
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Input channels of a group.
    pub(crate) channels: usize,
    /// Output channels of a group.
    pub(crate) outputs: usize,
    /// Elements along three axes, where fewer are given with ones before them.
    pub(crate) input: [usize; 3],
    pub(crate) taps: [usize; 3],
    pub(crate) output: [usize; 3],
}

impl Sizes {
    pub(crate) fn new(step: &StepView<'_>, attrs: &ConvTranspose) -> Result<Sizes, KernelError> {
        let (x, w, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
        if !(3..=5).contains(&x.rank()) {
            return Err(KernelError::new("rank", 5, x.rank()));
        }
        expect("rank", x.rank(), w.rank())?;
        expect("rank", x.rank(), y.rank())?;
        let (groups, outputs, channels) = (attrs.groups as usize, w.dim(1), x.dim(1));
        expect("batches", x.dim(0), y.dim(0))?;
        expect("channels", channels, w.dim(0))?;
        expect("channels beyond whole groups", 0, channels.checked_rem(groups).unwrap_or(1))?;
        expect("output channels", product(&[outputs, groups]), y.dim(1))?;
        let (input, taps, output) = (planes(&x), planes(&w), planes(&y));
        Ok(Sizes { batch: x.dim(0), groups, channels: channels / groups, outputs, input, taps, output })
    }

    /// Compares the lengths of the operands with the sizes.
    pub(crate) fn check(&self, x: usize, w: usize, bias: Option<usize>, y: usize) -> Result<(), KernelError> {
        let (batch, outputs) = (self.batch, product(&[self.groups, self.outputs]));
        let channels = product(&[self.groups, self.channels]);
        expect("elements of x", product(&[batch, channels, product(&self.input)]), x)?;
        expect("elements of w", product(&[channels, self.outputs, product(&self.taps)]), w)?;
        expect("elements of y", product(&[batch, outputs, product(&self.output)]), y)?;
        bias.map_or(Ok(()), |n| expect("elements of the bias", outputs, n))
    }

    /// The input channels of the `part`-th group, counted through all batches.
    pub(crate) fn input_of<'x, T>(&self, x: &'x [T], part: usize) -> Option<&'x [T]> {
        let n = product(&[self.channels, product(&self.input)]);
        x.get(part.wrapping_mul(n)..)?.get(..n)
    }

    /// The weights of a group.
    pub(crate) fn weights_of<'w, T>(&self, w: &'w [T], group: usize) -> Option<&'w [T]> {
        let n = product(&[self.channels, self.outputs, product(&self.taps)]);
        w.get(group.wrapping_mul(n)..)?.get(..n)
    }
}

/// One axis.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    taps: usize,
    stride: usize,
    pad: usize,
    dilation: usize,
}

impl Axis {
    /// The element of the input that tap `tap` carries to position `position` of the result, modulo 2^usize, so that
    /// elements before the input wrap to numbers beyond its size. `None` where the tap does not meet the position.
    fn source(&self, position: usize, tap: usize) -> Option<usize> {
        let (at, reach) = (position.checked_add(self.pad)?, tap.checked_mul(self.dilation)?);
        let distance = at.abs_diff(reach);
        if distance % self.stride != 0 {
            return None;
        }
        let steps = distance / self.stride;
        Some(if at >= reach { steps } else { steps.wrapping_neg() })
    }

    /// The taps that meet a position, each with its element of the input.
    fn meeting(&self, position: usize) -> impl Iterator<Item = (usize, usize)> + Clone + use<> {
        // Taps meet a position again after `stride / gcd` taps, then `dilation / gcd` elements earlier.
        let common = gcd(self.stride, self.dilation);
        let (period, back) = (self.stride / common, self.dilation / common);
        let first = (0..period.min(self.taps)).find_map(|tap| Some((tap, self.source(position, tap)?)));
        let (tap, source) = first.unwrap_or((self.taps, 0));
        (tap..self.taps).step_by(period).scan(source, move |source, tap| {
            let here = *source;
            *source = here.wrapping_sub(back);
            Some((tap, here))
        })
    }
}

fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// What makes one output channel of one batch.
struct Plane<'a, E> {
    sums: &'a Sums<'a, E>,
    axes: [Axis; 3],
    /// The input channels of its group.
    planes: &'a [E],
    /// The weights of its group.
    weights: &'a [E],
    /// Output channels of a group, this one's number among them and among all.
    per_group: usize,
    output: usize,
    channel: usize,
}

fn transposed<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ConvTranspose = step.attributes()?;
    let s = Sizes::new(step, &attrs)?;
    let (x, w, y) = (ops.input::<E>(0)?, ops.input::<E>(1)?, ops.output::<E>(0)?);
    let bias = ops.optional::<E>(2)?;
    s.check(x.len(), w.len(), bias.map(<[E]>::len), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let sums = &Sums { bias, activation: Activation::from_code(attrs.activation)? };
    let g = &attrs.spatial;
    let axes = core::array::from_fn(|i| Axis {
        size: s.input[i],
        taps: s.taps[i],
        stride: g.strides[i] as usize,
        pad: g.before[i] as usize,
        dilation: g.dilations[i] as usize,
    });
    let outputs = s.groups * s.outputs;
    for (plane, y) in y.chunks_exact_mut(product(&s.output)).enumerate() {
        let channel = plane % outputs;
        let part = plane / s.outputs;
        let plane = Plane {
            sums,
            axes,
            planes: s.input_of(x, part).ok_or(OUT_OF_RANGE)?,
            weights: s.weights_of(w, part % s.groups).ok_or(OUT_OF_RANGE)?,
            per_group: s.outputs,
            output: channel % s.outputs,
            channel,
        };
        for (row, y) in y.chunks_exact_mut(s.output[2]).enumerate() {
            plane.row([row / s.output[1], row % s.output[1]], y)?;
        }
    }
    Ok(())
}

impl<'a, E: Stored> Plane<'a, E> {
    /// Calls `each` with the input rows that reach output row `row`, and the weights of each.
    fn rows(&self, row: [usize; 2], mut each: impl FnMut(&'a [E], &'a [E])) {
        let [down, tall, wide] = self.axes;
        let volume = down.size.wrapping_mul(tall.size).wrapping_mul(wide.size);
        let filter = down.taps.wrapping_mul(tall.taps).wrapping_mul(wide.taps);
        // Taps in the padding add nothing.
        let front = down.meeting(row[0]).filter(|(_, z)| *z < down.size);
        let top = tall.meeting(row[1]).filter(|(_, y)| *y < tall.size);
        let channels = self.planes.len().checked_div(volume).unwrap_or(0);
        for channel in 0..channels {
            let planes = self.planes.get(channel * volume..).unwrap_or(&[]);
            let filters =
                self.weights.get((channel * self.per_group + self.output) * filter..).unwrap_or(&[]);
            for (tap_z, z) in front.clone() {
                for (tap_y, y) in top.clone() {
                    let source = planes.get((z * tall.size + y) * wide.size..);
                    let weights = filters.get((tap_z * tall.taps + tap_y) * wide.taps..);
                    let source = source.and_then(|s| s.get(..wide.size));
                    if let (Some(source), Some(weights)) = (source, weights.and_then(|w| w.get(..wide.taps)))
                    {
                        each(source, weights);
                    }
                }
            }
        }
    }

    /// One row of results.
    fn row(&self, row: [usize; 2], y: &mut [E]) -> Result<(), KernelError> {
        let wide = self.axes[2];
        if self.planes.is_empty() {
            // Nothing to sum, however many taps the kernel has.
            y.fill(self.sums.finish(self.channel, self.sums.start(self.channel)));
            return Ok(());
        }
        for remainder in 0..wide.stride.min(y.len()) {
            // Column `remainder + j · stride` meets element `j + shift` of the input.
            let columns = (y.len() - remainder).div_ceil(wide.stride);
            let taps = wide.meeting(remainder);
            let shifts = taps.clone().map(|(_, shift)| shift as isize);
            let least = shifts.clone().min().unwrap_or(0);
            let most = shifts.max().unwrap_or(0);
            // The columns whose elements are all within the row.
            let begin = usize::try_from(-least).unwrap_or(0).min(columns);
            let end = (wide.size as isize).saturating_sub(most).max(0) as usize;
            let end = end.clamp(begin, columns);
            let y = y.get_mut(remainder..).ok_or(OUT_OF_RANGE)?;
            let mut column = 0;
            while column < columns {
                let inside = (begin..end).contains(&column);
                let limit = if column < begin {
                    begin
                } else if inside {
                    end
                } else {
                    columns
                };
                let count = (limit - column).min(BLOCK);
                let mut acc = [self.sums.start(self.channel); BLOCK];
                let acc = acc.get_mut(..count).ok_or(OUT_OF_RANGE)?;
                if inside {
                    let mut sum = Taps::new(1);
                    self.rows(row, |source, weights| {
                        for (tap, shift) in taps.clone() {
                            let source = source.get(column.wrapping_add(shift)..).unwrap_or(&[]);
                            if let Some(w) = weights.get(tap) {
                                sum.add(self.sums, acc, source, *w);
                            }
                        }
                    });
                    sum.flush(self.sums, acc);
                } else {
                    self.rows(row, |source, weights| {
                        for (tap, shift) in taps.clone() {
                            let Some(w) = weights.get(tap) else { continue };
                            let w = self.sums.widen(*w);
                            for (j, acc) in acc.iter_mut().enumerate() {
                                if let Some(x) = source.get((column + j).wrapping_add(shift)) {
                                    *acc = self.sums.mac(*acc, *x, w);
                                }
                            }
                        }
                    });
                }
                let y = y.get_mut(column * wide.stride..).ok_or(OUT_OF_RANGE)?;
                for (y, acc) in y.iter_mut().step_by(wide.stride).zip(acc) {
                    *y = self.sums.finish(self.channel, *acc);
                }
                column += count;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn taps_are_those_of_a_search() {
        for stride in 1..6 {
            for dilation in 1..5 {
                for taps in 1..7 {
                    let axis = Axis { size: 9, taps, stride, pad: 3, dilation };
                    for position in 0..17 {
                        let found: std::vec::Vec<_> = axis.meeting(position).collect();
                        let all: std::vec::Vec<_> =
                            (0..taps).filter_map(|t| Some((t, axis.source(position, t)?))).collect();
                        assert_eq!(found, all);
                        for (tap, source) in all {
                            let from = (position + 3) as isize - (tap * dilation) as isize;
                            assert_eq!(source as isize * stride as isize, from);
                        }
                    }
                }
            }
        }
    }
}
