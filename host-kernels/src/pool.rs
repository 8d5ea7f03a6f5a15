//! 2-D pooling: the windows of `pools`, over two axes.

use crate::number;
use crate::pools::{max_of, mean_of, open};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64, I8, U8},
};
use serinette_core::op;
use serinette_core::op::pool::{Pool2d, divide_half_even};
use serinette_core::op::pools::Pool;
use serinette_core::op::spatial::Spatial;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { pool:
    op::pool::MAX_POOL2D => max_f32, F32 => F32;
    op::pool::MAX_POOL2D => max_f16, F16 => F16;
    op::pool::MAX_POOL2D => max_bf16, BF16 => BF16;
    op::pool::MAX_POOL2D => max_f64, F64 => F64;
    op::pool::MAX_POOL2D => max_i8, I8 => I8;
    op::pool::MAX_POOL2D => max_u8, U8 => U8;
    op::pool::AVERAGE_POOL2D => average_f32, F32 => F32;
    op::pool::AVERAGE_POOL2D => average_f16, F16 => F16;
    op::pool::AVERAGE_POOL2D => average_bf16, BF16 => BF16;
    op::pool::AVERAGE_POOL2D => average_f64, F64 => F64;
    op::pool::AVERAGE_POOL2D => average_i8, I8 => I8;
    op::pool::AVERAGE_POOL2D => average_u8, U8 => U8;
};

macro_rules! typed {
    ($($name:ident = $call:ident::<$t:ty>, $doc:literal;)+) => {
        $(#[doc = $doc]
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            $call::<$t>(step, ops, &general(step)?)
        })+
    };
}

typed! {
    max_f32 = max_of::<f32>, "`MaxPool2d` in f32.";
    max_f16 = max_of::<number::F16>, "`MaxPool2d` of binary16.";
    max_bf16 = max_of::<number::BF16>, "`MaxPool2d` of bfloat16.";
    max_f64 = max_of::<f64>, "`MaxPool2d` in f64.";
    max_i8 = max_of::<i8>, "`MaxPool2d` in i8.";
    max_u8 = max_of::<u8>, "`MaxPool2d` in u8.";
    average_f32 = mean_of::<f32>, "`AveragePool2d` in f32.";
    average_f16 = mean_of::<number::F16>, "`AveragePool2d` of binary16: sums in f32, rounded once.";
    average_bf16 = mean_of::<number::BF16>, "`AveragePool2d` of bfloat16: sums in f32, rounded once.";
    average_f64 = mean_of::<f64>, "`AveragePool2d` in f64.";
    average_i8 = whole_mean::<i8>, "`AveragePool2d` in i8.";
    average_u8 = whole_mean::<u8>, "`AveragePool2d` in u8.";
}

/// The same windows over three axes.
fn general(step: &StepView<'_>) -> Result<Pool, KernelError> {
    let a: Pool2d = step.attributes()?;
    for shape in [step.input(0)?, step.output(0)?] {
        crate::expect("rank", 4, shape.rank())?;
    }
    // A window over the whole input has no gaps, whatever the attributes say.
    if a.kernel == [0, 0] {
        return Ok(Pool { count_padding: a.count_padding, ..Pool::GLOBAL });
    }
    let (g, three) = (&a.geometry, |one: u32, [a, b]: [u32; 2]| [one, a, b]);
    let spatial = Spatial {
        strides: three(1, g.strides),
        before: three(0, [g.pads[0], g.pads[1]]),
        after: three(0, [g.pads[2], g.pads[3]]),
        dilations: three(1, g.dilations),
    };
    Ok(Pool { spatial, kernel: three(1, a.kernel), count_padding: a.count_padding, ..Pool::GLOBAL })
}

/// The exact sums, divided and rounded half to even.
fn whole_mean<T: number::Byte>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    a: &Pool,
) -> Result<(), KernelError> {
    let Some((windows, x, y)) = open::<T>(step, &mut ops, a)? else { return Ok(()) };
    let add = |sum: i64, x: T, _| sum.wrapping_add(i64::from(x.widen()));
    windows.fold(x, 0, add, |i, sum, counts| {
        let count = if a.count_padding != 0 { counts.padded } else { counts.elements };
        if let Some(y) = y.get_mut(i) {
            // A mean of bytes is a byte.
            *y = T::saturate(divide_half_even(sum, i64::try_from(count).unwrap_or(i64::MAX)) as i32);
        }
    })
}
