//! Pooling over one to three spatial axes.

use crate::functions::Elementary;
use crate::number::{self, Float, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64, I8, U8},
};
use crate::{OUT_OF_RANGE, expect};
use serinette_core::Shape;
use serinette_core::op;
use serinette_core::op::pools::{Pool, planes};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { pools:
    op::pools::MAX_POOL => max_f32, F32 => F32;
    op::pools::MAX_POOL => max_f16, F16 => F16;
    op::pools::MAX_POOL => max_bf16, BF16 => BF16;
    op::pools::MAX_POOL => max_f64, F64 => F64;
    op::pools::MAX_POOL => max_i8, I8 => I8;
    op::pools::MAX_POOL => max_u8, U8 => U8;
    op::pools::MAX_POOL_INDICES => indices_f32, F32 => F32;
    op::pools::MAX_POOL_INDICES => indices_f16, F16 => F16;
    op::pools::MAX_POOL_INDICES => indices_bf16, BF16 => BF16;
    op::pools::MAX_POOL_INDICES => indices_f64, F64 => F64;
    op::pools::MAX_POOL_INDICES => indices_i8, I8 => I8;
    op::pools::MAX_POOL_INDICES => indices_u8, U8 => U8;
    op::pools::AVERAGE_POOL => average_f32, F32 => F32;
    op::pools::AVERAGE_POOL => average_f16, F16 => F16;
    op::pools::AVERAGE_POOL => average_bf16, BF16 => BF16;
    op::pools::AVERAGE_POOL => average_f64, F64 => F64;
    op::pools::LP_POOL => lp_f32, F32 => F32;
    op::pools::LP_POOL => lp_f16, F16 => F16;
    op::pools::LP_POOL => lp_bf16, BF16 => BF16;
    op::pools::LP_POOL => lp_f64, F64 => F64;
};

macro_rules! typed {
    ($($name:ident = $call:ident::<$t:ty>, $doc:literal;)+) => {
        $(#[doc = $doc]
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            $call::<$t>(step, ops)
        })+
    };
}

typed! {
    max_f32 = maximum::<f32>, "`MaxPool` in f32.";
    max_f16 = maximum::<number::F16>, "`MaxPool` of binary16.";
    max_bf16 = maximum::<number::BF16>, "`MaxPool` of bfloat16.";
    max_f64 = maximum::<f64>, "`MaxPool` in f64.";
    max_i8 = maximum::<i8>, "`MaxPool` in i8.";
    max_u8 = maximum::<u8>, "`MaxPool` in u8.";
    indices_f32 = maximum_indices::<f32>, "`MaxPoolIndices` in f32.";
    indices_f16 = maximum_indices::<number::F16>, "`MaxPoolIndices` of binary16.";
    indices_bf16 = maximum_indices::<number::BF16>, "`MaxPoolIndices` of bfloat16.";
    indices_f64 = maximum_indices::<f64>, "`MaxPoolIndices` in f64.";
    indices_i8 = maximum_indices::<i8>, "`MaxPoolIndices` in i8.";
    indices_u8 = maximum_indices::<u8>, "`MaxPoolIndices` in u8.";
    average_f32 = average::<f32>, "`AveragePool` in f32.";
    average_f16 = average::<number::F16>, "`AveragePool` of binary16: sums in f32, rounded once.";
    average_bf16 = average::<number::BF16>, "`AveragePool` of bfloat16: sums in f32, rounded once.";
    average_f64 = average::<f64>, "`AveragePool` in f64.";
    lp_f32 = norm::<f32>, "`LpPool` in f32.";
    lp_f16 = norm::<number::F16>, "`LpPool` of binary16: sums in f32, rounded once.";
    lp_bf16 = norm::<number::BF16>, "`LpPool` of bfloat16: sums in f32, rounded once.";
    lp_f64 = norm::<f64>, "`LpPool` in f64.";
}

/// An element type with an order.
pub(crate) trait Ordered: bytemuck::Pod {
    /// What is compared.
    type Key: Copy + PartialOrd;
    /// Below every number.
    const LEAST: Self::Key;
    fn key(self) -> Self::Key;
    fn of(key: Self::Key) -> Self;
}

macro_rules! ordered {
    ($($t:ty: $key:ty, $least:expr, $load:expr, $store:expr;)+) => {
        $(impl Ordered for $t {
            type Key = $key;
            const LEAST: $key = $least;
            #[inline(always)]
            fn key(self) -> $key {
                $load(self)
            }
            #[inline(always)]
            fn of(key: $key) -> $t {
                $store(key)
            }
        })+
    };
}

ordered! {
    f32: f32, f32::NEG_INFINITY, |x| x, |x| x;
    f64: f64, f64::NEG_INFINITY, |x| x, |x| x;
    number::F16: f32, f32::NEG_INFINITY, Stored::load, Stored::store;
    number::BF16: f32, f32::NEG_INFINITY, Stored::load, Stored::store;
    i8: i8, i8::MIN, |x| x, |x| x;
    u8: u8, u8::MIN, |x| x, |x| x;
}

/// One axis of the windows.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    taps: usize,
    stride: usize,
    pad: usize,
    /// The size with the padding on both sides.
    padded: usize,
    dilation: usize,
}

impl Axis {
    fn over(&self, n: usize) -> usize {
        if self.dilation == 1 { n } else { n.div_ceil(self.dilation) }
    }

    /// The first position within the input, and how many taps are within, of the window at `position`.
    fn within(&self, position: usize) -> (usize, usize) {
        let start = position.saturating_mul(self.stride);
        let skipped = self.over(self.pad.saturating_sub(start)).min(self.taps);
        let first = start.saturating_add(skipped.saturating_mul(self.dilation)).saturating_sub(self.pad);
        (first, self.over(self.size.saturating_sub(first)).min(self.taps - skipped))
    }

    /// How many taps of the window at `position` are within the padded input.
    fn counted(&self, position: usize) -> usize {
        self.over(self.padded.saturating_sub(position.saturating_mul(self.stride))).min(self.taps)
    }
}

/// The windows of a pooling.
pub(crate) struct Windows {
    planes: usize,
    axes: [Axis; 3],
    output: [usize; 3],
}

/// How many elements a window has, and how many taps of it are within the padded input.
pub(crate) struct Counts {
    pub(crate) elements: usize,
    pub(crate) padded: usize,
}

impl Windows {
    pub(crate) fn new(a: &Pool, x: Shape, y: Shape) -> Result<Windows, KernelError> {
        if !(3..=5).contains(&x.rank()) {
            return Err(KernelError::new("rank", 5, x.rank()));
        }
        expect("rank", x.rank(), y.rank())?;
        expect("planes", x.outer(2), y.outer(2))?;
        let (input, g) = (planes(&x), &a.spatial);
        let taps = a.window(input);
        let axis = |i: usize| Axis {
            size: input[i],
            taps: taps[i],
            stride: g.strides[i] as usize,
            pad: g.before[i] as usize,
            padded: input[i].saturating_add(g.before[i] as usize).saturating_add(g.after[i] as usize),
            dilation: g.dilations[i] as usize,
        };
        Ok(Windows { planes: x.outer(2), axes: core::array::from_fn(axis), output: planes(&y) })
    }

    /// Folds every window row by row, elements with their positions in `x`, and hands each result and its number to
    /// `finish`.
    pub(crate) fn fold<T: Copy, A: Copy>(
        &self,
        x: &[T],
        start: A,
        fold: impl Fn(A, T, usize) -> A,
        mut finish: impl FnMut(usize, A, Counts),
    ) -> Result<(), KernelError> {
        let [down, tall, wide] = self.axes;
        let mut result = 0;
        for plane in 0..self.planes {
            for oz in 0..self.output[0] {
                let (z, deep) = down.within(oz);
                for oy in 0..self.output[1] {
                    let (y, high) = tall.within(oy);
                    for ox in 0..self.output[2] {
                        let (left, broad) = wide.within(ox);
                        let elements = deep.saturating_mul(high).saturating_mul(broad);
                        let mut value = start;
                        if elements > 0 {
                            for dz in 0..deep {
                                for dy in 0..high {
                                    let z = z.wrapping_add(dz.wrapping_mul(down.dilation));
                                    let y = y.wrapping_add(dy.wrapping_mul(tall.dilation));
                                    let line = plane.wrapping_mul(down.size).wrapping_add(z);
                                    let line = line.wrapping_mul(tall.size).wrapping_add(y);
                                    let at = line.wrapping_mul(wide.size).wrapping_add(left);
                                    let source = x.get(at..).ok_or(OUT_OF_RANGE)?;
                                    let row = source.iter().step_by(wide.dilation).take(broad);
                                    for (i, x) in row.enumerate() {
                                        value = fold(value, *x, at.wrapping_add(i * wide.dilation));
                                    }
                                }
                            }
                        }
                        let counted = down.counted(oz).saturating_mul(tall.counted(oy));
                        let padded = counted.saturating_mul(wide.counted(ox));
                        finish(result, value, Counts { elements, padded });
                        result += 1;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The attributes, the windows, `x` and `y`; `None` for an empty result.
type Opened<'m, T> = Option<(Windows, &'m [T], &'m mut [T])>;

/// Operands of the lengths that their shapes have.
pub(crate) fn open<'m, T: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: &mut Operands<'m>,
    attrs: &Pool,
) -> Result<Opened<'m, T>, KernelError> {
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    let windows = Windows::new(attrs, shape, out)?;
    Ok(if y.is_empty() { None } else { Some((windows, x, y)) })
}

fn maximum<T: Ordered>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    max_of::<T>(step, ops, &step.attributes()?)
}

/// The largest elements.
pub(crate) fn max_of<T: Ordered>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    a: &Pool,
) -> Result<(), KernelError> {
    let Some((windows, x, y)) = open::<T>(step, &mut ops, a)? else { return Ok(()) };
    // A NaN, which is not equal to itself, replaces any number, and no number replaces a NaN.
    let larger = |most: T::Key, x: T, _: usize| {
        let x = x.key();
        #[allow(clippy::eq_op)]
        let nan = x != x;
        if x > most || nan { x } else { most }
    };
    windows.fold(x, T::LEAST, larger, |i, most, _| {
        if let Some(y) = y.get_mut(i) {
            *y = T::of(most);
        }
    })
}

fn maximum_indices<T: Ordered>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Pool = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(1)?);
    let bytes = ops.output::<u8>(1)?;
    let Some((windows, x, y)) = open::<T>(step, &mut ops, &attrs)? else {
        return expect("bytes of the indices", 0, bytes.len());
    };
    expect("indices", y.len(), out.elements())?;
    // The element type is known by its size.
    let wide = bytes.len() / y.len() == 8;
    expect("bytes of the indices", y.len().saturating_mul(if wide { 8 } else { 4 }), bytes.len())?;
    let ([_, high, broad], input) = (planes(&shape), planes(&shape));
    let volume = crate::product(&input).max(1);
    let transposed = |at: usize| {
        let (plane, at) = (at / volume, at % volume);
        let (z, y, x) = (at / broad / high, at / broad % high, at % broad);
        plane * volume + if shape.rank() == 5 { z + (y + x * high) * input[0] } else { y + x * high }
    };
    #[allow(clippy::eq_op)] // a NaN is not equal to itself
    let first_larger = |(most, at): (T::Key, Option<usize>), x: T, here: usize| {
        let x = x.key();
        let larger = at.is_none() || x > most || (x != x && most == most);
        if larger { (x, Some(here)) } else { (most, at) }
    };
    windows.fold(x, (T::LEAST, None), first_larger, |i, (most, at), _| {
        if let Some(y) = y.get_mut(i) {
            *y = T::of(most);
        }
        let at = at.map(|at| if attrs.column_major != 0 { transposed(at) } else { at });
        let position = at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX));
        let (narrow, long) =
            (i32::try_from(position).unwrap_or(i32::MAX).to_le_bytes(), position.to_le_bytes());
        let size = if wide { 8 } else { 4 };
        if let Some(to) = bytes.get_mut(i * size..).and_then(|b| b.get_mut(..size)) {
            to.copy_from_slice(if wide { &long } else { &narrow });
        }
    })
}

fn average<E: Stored>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    mean_of::<E>(step, ops, &step.attributes()?)
}

/// The means of floats.
pub(crate) fn mean_of<E: Stored>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    a: &Pool,
) -> Result<(), KernelError> {
    let Some((windows, x, y)) = open::<E>(step, &mut ops, a)? else { return Ok(()) };
    let zero = <E::Wide as Float>::ZERO;
    windows.fold(
        x,
        zero,
        |sum, x: E, _| sum + x.load(),
        |i, sum, counts| {
            let count = if a.count_padding != 0 { counts.padded } else { counts.elements };
            if let Some(y) = y.get_mut(i) {
                *y = E::store(if count == 0 { zero } else { sum / E::Wide::of(count as f64) });
            }
        },
    )
}

fn norm<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Pool = step.attributes()?;
    let Some((windows, x, y)) = open::<E>(step, &mut ops, &attrs)? else { return Ok(()) };
    let zero = <E::Wide as Float>::ZERO;
    let mut store = |i: usize, value: E::Wide| {
        if let Some(y) = y.get_mut(i) {
            *y = E::store(value);
        }
    };
    match attrs.p {
        1 => windows.fold(x, zero, |sum, x, _| sum + x.load().abs(), |i, sum, _| store(i, sum)),
        2 => {
            let square = |sum: E::Wide, x: E, _| {
                let x = x.load();
                sum + x * x
            };
            windows.fold(x, zero, square, |i, sum, _| store(i, sum.sqrt()))
        }
        p => {
            let root = E::Wide::of(1.0) / E::Wide::of(f64::from(p));
            let add = |sum: E::Wide, x: E, _| sum + power(x.load().abs(), p);
            windows.fold(x, zero, add, |i, sum, _| store(i, sum.pow(root)))
        }
    }
}

/// `x^p` by squaring.
fn power<T: Elementary>(x: T, p: u32) -> T {
    let (mut result, mut square, mut left) = (T::of(1.0), x, p);
    loop {
        if left & 1 == 1 {
            result = result * square;
        }
        left >>= 1;
        if left == 0 {
            return result;
        }
        square = square * square;
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn taps_within_the_input_are_those_a_search_finds() {
        for size in 0..7usize {
            for taps in 1..5usize {
                for (stride, pad, after, dilation) in
                    [(1, 0, 0, 1), (2, 1, 0, 1), (3, 2, 1, 1), (1, 0, 2, 2), (2, 0, 1, 3), (1, 5, 3, 2)]
                {
                    let axis = Axis { size, taps, stride, pad, padded: size + pad + after, dilation };
                    for position in 0..6usize {
                        let at = |tap: usize| {
                            (position * stride + tap * dilation).checked_sub(pad).filter(|p| *p < size)
                        };
                        let found = (0..taps).filter_map(at);
                        let (first, count) = axis.within(position);
                        assert_eq!(count, found.clone().count());
                        assert!(count == 0 || Some(first) == found.min());
                        let padded =
                            (0..taps).filter(|t| position * stride + t * dilation < size + pad + after);
                        assert_eq!(axis.counted(position), padded.count());
                    }
                }
            }
        }
    }
}
