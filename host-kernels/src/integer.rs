//! Products and convolutions of 8-bit integers with zero points that are operands.

use crate::arithmetic::Arithmetic;
use crate::expect;
use crate::matmul::{Sizes, multiply_rows};
use crate::number::Byte;
use crate::registry::{Registered, sets::I8, sets::I32, sets::U8};
use crate::spatial::{Grid, convolve};
use serinette_core::op;
use serinette_core::op::integer::Product;
use serinette_core::op::spatial::Conv;
use serinette_core::schedule::{KernelError, Operands, StepView};

macro_rules! kernels {
    ($($name:ident: $call:ident::<$x:ty, $w:ty, $y:ty>, $op:expr, $xs:ident, $at:literal $ws:ident => $ys:ident;)+) => {
        $(#[doc = concat!("`", stringify!($call), "` of ", stringify!($x), " and ", stringify!($w), ", giving ", stringify!($y), ".")]
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            $call::<$x, $w, $y>(step, ops)
        })+
        /// The kernels of this family.
        pub(crate) static KERNELS: &[Registered] = &[$(Registered {
            op: &$op,
            name: concat!("integer::", stringify!($name)),
            input: Some($xs),
            also: Some(($at, $ws)),
            output: $ys,
            kernel: $name,
        }),+];
    };
}

kernels! {
    conv_i8_i8: conv::<i8, i8, i32>, op::integer::CONV_INTEGER, I8, 1 I8 => I32;
    conv_i8_u8: conv::<i8, u8, i32>, op::integer::CONV_INTEGER, I8, 1 U8 => I32;
    conv_u8_i8: conv::<u8, i8, i32>, op::integer::CONV_INTEGER, U8, 1 I8 => I32;
    conv_u8_u8: conv::<u8, u8, i32>, op::integer::CONV_INTEGER, U8, 1 U8 => I32;
    matmul_i8_i8: matmul::<i8, i8, i32>, op::integer::MATMUL_INTEGER, I8, 1 I8 => I32;
    matmul_i8_u8: matmul::<i8, u8, i32>, op::integer::MATMUL_INTEGER, I8, 1 U8 => I32;
    matmul_u8_i8: matmul::<u8, i8, i32>, op::integer::MATMUL_INTEGER, U8, 1 I8 => I32;
    matmul_u8_u8: matmul::<u8, u8, i32>, op::integer::MATMUL_INTEGER, U8, 1 U8 => I32;
    scaled_conv_i8_i8_i8: scaled_conv::<i8, i8, i8>, op::integer::QLINEAR_CONV, I8, 3 I8 => I8;
    scaled_conv_i8_i8_u8: scaled_conv::<i8, i8, u8>, op::integer::QLINEAR_CONV, I8, 3 I8 => U8;
    scaled_conv_i8_u8_i8: scaled_conv::<i8, u8, i8>, op::integer::QLINEAR_CONV, I8, 3 U8 => I8;
    scaled_conv_i8_u8_u8: scaled_conv::<i8, u8, u8>, op::integer::QLINEAR_CONV, I8, 3 U8 => U8;
    scaled_conv_u8_i8_i8: scaled_conv::<u8, i8, i8>, op::integer::QLINEAR_CONV, U8, 3 I8 => I8;
    scaled_conv_u8_i8_u8: scaled_conv::<u8, i8, u8>, op::integer::QLINEAR_CONV, U8, 3 I8 => U8;
    scaled_conv_u8_u8_i8: scaled_conv::<u8, u8, i8>, op::integer::QLINEAR_CONV, U8, 3 U8 => I8;
    scaled_conv_u8_u8_u8: scaled_conv::<u8, u8, u8>, op::integer::QLINEAR_CONV, U8, 3 U8 => U8;
    scaled_matmul_i8_i8_i8: scaled_matmul::<i8, i8, i8>, op::integer::QLINEAR_MATMUL, I8, 3 I8 => I8;
    scaled_matmul_i8_i8_u8: scaled_matmul::<i8, i8, u8>, op::integer::QLINEAR_MATMUL, I8, 3 I8 => U8;
    scaled_matmul_i8_u8_i8: scaled_matmul::<i8, u8, i8>, op::integer::QLINEAR_MATMUL, I8, 3 U8 => I8;
    scaled_matmul_i8_u8_u8: scaled_matmul::<i8, u8, u8>, op::integer::QLINEAR_MATMUL, I8, 3 U8 => U8;
    scaled_matmul_u8_i8_i8: scaled_matmul::<u8, i8, i8>, op::integer::QLINEAR_MATMUL, U8, 3 I8 => I8;
    scaled_matmul_u8_i8_u8: scaled_matmul::<u8, i8, u8>, op::integer::QLINEAR_MATMUL, U8, 3 I8 => U8;
    scaled_matmul_u8_u8_i8: scaled_matmul::<u8, u8, i8>, op::integer::QLINEAR_MATMUL, U8, 3 U8 => I8;
    scaled_matmul_u8_u8_u8: scaled_matmul::<u8, u8, u8>, op::integer::QLINEAR_MATMUL, U8, 3 U8 => U8;
}

/// One number for all, or one for each channel; absent ones are the type's zero.
#[derive(Clone, Copy)]
struct Each<'a, T>(&'a [T]);

impl<'a, T: bytemuck::Pod> Each<'a, T> {
    /// Operand `i`, with one element or `count`.
    fn of(ops: &Operands<'a>, i: usize, count: usize) -> Result<Each<'a, T>, KernelError> {
        match ops.optional::<T>(i)? {
            None => Ok(Each(&[])),
            Some(v) if v.len() == 1 || v.len() == count => Ok(Each(v)),
            Some(v) => Err(KernelError::new("elements of a scale or zero point", count, v.len())),
        }
    }

    fn get(&self, i: usize) -> T {
        let v = match self.0 {
            [one] => Some(one),
            all => all.get(i),
        };
        v.copied().unwrap_or(T::zeroed())
    }
}

/// What becomes of a sum.
trait Finish<Y>: Copy {
    fn finish(&self, channel: usize, acc: i32) -> Y;
}

/// The sum is the result.
#[derive(Clone, Copy)]
struct Plain;

impl Finish<i32> for Plain {
    #[inline(always)]
    fn finish(&self, _: usize, acc: i32) -> i32 {
        acc
    }
}

/// The sum times a scale, rounded, moved by a zero point.
#[derive(Clone, Copy)]
struct Scaled<'a> {
    /// Scale of the left operand.
    left: f32,
    /// Scales of the channels of the right one.
    right: Each<'a, f32>,
    result: f32,
    zero: i32,
}

impl<Y: Byte> Finish<Y> for Scaled<'_> {
    #[inline(always)]
    fn finish(&self, channel: usize, acc: i32) -> Y {
        let scale = self.left * self.right.get(channel) / self.result;
        // A cast of NaN is 0, and one beyond the range saturates.
        let scaled = libm::rintf(acc as f32 * scale) as i32;
        Y::saturate(scaled.saturating_add(self.zero))
    }
}

/// Sums of products of two 8-bit numbers less their zero points, modulo 2^32. `X` are the elements of rows, `W` the
/// factors.
struct Bytes<'a, X, W, Y, F> {
    /// Zero point of the row elements.
    x_zero: i32,
    /// Zero points of the factors, by channel.
    w_zero: Each<'a, W>,
    /// That of this channel.
    factor_zero: i32,
    /// What the sum starts from, by channel.
    bias: &'a [i32],
    /// Zero points of the row elements, by channel, and what they are to be multiplied with at the end.
    column_zero: Each<'a, X>,
    row_sum: i32,
    finish: F,
    result: core::marker::PhantomData<Y>,
}

impl<X, W: Copy, Y, F: Copy> Clone for Bytes<'_, X, W, Y, F> {
    fn clone(&self) -> Self {
        Bytes { w_zero: Each(self.w_zero.0), column_zero: Each(self.column_zero.0), ..*self }
    }
}

impl<X: Byte, W: Byte, Y: Copy, F: Finish<Y>> Arithmetic for Bytes<'_, X, W, Y, F> {
    type X = X;
    type W = W;
    type Acc = i32;
    type Y = Y;
    const ZERO: i32 = 0;

    fn at(&self, channel: usize) -> Self {
        Bytes { factor_zero: self.w_zero.get(channel).widen(), ..self.clone() }
    }
    #[inline(always)]
    fn widen(&self, w: W) -> i32 {
        w.widen() - self.factor_zero
    }
    #[inline(always)]
    fn mac(&self, acc: i32, x: X, w: i32) -> i32 {
        acc.wrapping_add((x.widen() - self.x_zero).wrapping_mul(w))
    }
    #[inline(always)]
    fn add(&self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    fn start(&self, channel: usize) -> i32 {
        let bias = self.bias.get(channel).copied().unwrap_or(0);
        bias.wrapping_sub(self.column_zero.get(channel).widen().wrapping_mul(self.row_sum))
    }
    #[inline(always)]
    fn finish(&self, channel: usize, acc: i32) -> Y {
        self.finish.finish(channel, acc)
    }
}

/// The numbers of a convolution.
struct Conv8<'a> {
    /// Operands: the input's zero point, the weights, their zero points, the bias.
    at: [usize; 4],
    grid: Grid,
    ops: Operands<'a>,
}

impl<'a> Conv8<'a> {
    fn new(step: &StepView<'_>, ops: Operands<'a>, at: [usize; 4]) -> Result<Conv8<'a>, KernelError> {
        let attrs: Conv = step.attributes()?;
        let (x, w, y) = (step.input(0)?, step.input(at[1])?, step.output(0)?);
        Ok(Conv8 { at, grid: Grid::new(x, w, y, &attrs.spatial, attrs.groups)?, ops })
    }

    fn run<X: Byte, W: Byte, Y: bytemuck::Pod>(mut self, finish: impl Finish<Y>) -> Result<(), KernelError> {
        let [x_zero, w, w_zero, bias] = self.at;
        let bias = self.ops.optional::<i32>(bias)?;
        if let Some(bias) = bias {
            expect("elements of the bias", self.grid.outputs, bias.len())?;
        }
        let arithmetic = Bytes {
            x_zero: Each::<X>::of(&self.ops, x_zero, 1)?.get(0).widen(),
            w_zero: Each::<W>::of(&self.ops, w_zero, self.grid.outputs)?,
            factor_zero: 0,
            bias: bias.unwrap_or(&[]),
            column_zero: Each(&[]),
            row_sum: 0,
            finish,
            result: core::marker::PhantomData,
        };
        convolve(
            &arithmetic,
            &self.grid,
            self.ops.input::<X>(0)?,
            self.ops.input::<W>(w)?,
            self.ops.output(0)?,
        )
    }
}

fn conv<X: Byte, W: Byte, Y: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError>
where
    Plain: Finish<Y>,
{
    // There is no bias: no operand has this number.
    Conv8::new(step, ops, [2, 1, 3, usize::MAX])?.run::<X, W, Y>(Plain)
}

fn scaled_conv<X: Byte, W: Byte, Y: Byte>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let conv = Conv8::new(step, ops, [2, 3, 5, 8])?;
    let of = |i| Each::<f32>::of(&conv.ops, i, 1).map(|v| v.get(0));
    let finish = Scaled {
        left: of(1)?,
        right: Each::of(&conv.ops, 4, conv.grid.outputs)?,
        result: of(6)?,
        zero: Each::<Y>::of(&conv.ops, 7, 1)?.get(0).widen(),
    };
    conv.run::<X, W, Y>(finish)
}

/// A product whose right operand and its zero points are `b` and `b_zero`; the zero points of the left one are operand
/// 2. `finish` makes what becomes of the sums of a row.
fn product<X: Byte, W: Byte, Y: bytemuck::Pod, F: Finish<Y>>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    [b, b_zero]: [usize; 2],
    finish: impl Fn(usize) -> F,
) -> Result<(), KernelError> {
    let attrs: Product = step.attributes()?;
    let (rows, sizes) = sizes(step, b)?;
    let a_zero = Each::<X>::of(&ops, 2, rows)?;
    let b_zero = Each::<W>::of(&ops, b_zero, sizes.n)?;
    let (a, b, y) = (ops.input::<X>(0)?, ops.input::<W>(b)?, ops.output::<Y>(0)?);
    multiply_rows(&sizes, a, b, y, attrs.transpose_b != 0, |row, elements: &[X]| {
        let row = row % rows.max(1);
        let zero = a_zero.get(row).widen();
        // Σ (a − az)(b − bz) = Σ (a − az)·b − bz · Σ (a − az).
        let row_sum = elements.iter().fold(0i32, |sum, a| sum.wrapping_add(a.widen() - zero));
        Bytes::<W, X, Y, F> {
            x_zero: 0,
            w_zero: Each(&[]),
            factor_zero: zero,
            bias: &[],
            column_zero: b_zero,
            row_sum,
            finish: finish(row),
            result: core::marker::PhantomData,
        }
    })
}

/// The rows of one matrix of `a`, and the sizes of the product, which may take all batches as one tall matrix.
fn sizes(step: &StepView<'_>, b: usize) -> Result<(usize, Sizes), KernelError> {
    let a = step.input(0)?;
    let sizes = Sizes::of(a, step.input(b)?, step.output(0)?)?;
    Ok((a.dim(a.rank() - 2), sizes))
}

fn matmul<X: Byte, W: Byte, Y: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: Operands<'_>,
) -> Result<(), KernelError>
where
    Plain: Finish<Y>,
{
    product::<X, W, Y, Plain>(step, ops, [1, 3], |_| Plain)
}

fn scaled_matmul<X: Byte, W: Byte, Y: Byte>(
    step: &StepView<'_>,
    ops: Operands<'_>,
) -> Result<(), KernelError> {
    let (rows, sizes) = sizes(step, 3)?;
    let left = Each::<f32>::of(&ops, 1, rows)?;
    let right = Each::<f32>::of(&ops, 4, sizes.n)?;
    let result = Each::<f32>::of(&ops, 6, 1)?.get(0);
    let zero = Each::<Y>::of(&ops, 7, 1)?.get(0).widen();
    product::<X, W, Y, Scaled<'_>>(step, ops, [3, 5], |row| Scaled {
        left: left.get(row),
        right,
        result,
        zero,
    })
}
