//! Conversion between element types: a kernel `FROM_to_TO` for every pair.

use crate::{expect, float16};
use serinette_core::op::NoAttributes;
use serinette_core::schedule::{KernelError, Operands, StepView};

fn cast<X: bytemuck::Pod, Y: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(X) -> Y,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (x, y) = (ops.input::<X>(0)?, ops.output::<Y>(0)?);
    expect("elements of x", step.input(0)?.elements(), x.len())?;
    expect("elements of y", x.len(), y.len())?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
    Ok(())
}

macro_rules! casts {
    ($($name:ident: $x:ty => $y:ty, $f:expr;)+) => {$(
        #[doc = concat!("`Cast`, `", stringify!($name), "`.")]
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            let convert: fn($x) -> $y = $f;
            cast(step, ops, convert)
        }
    )+};
}

// Binary16 travels as its bits in u16, bool as its byte in u8. `as` from float to integer truncates, saturates and
// gives 0 for NaN; between integers it wraps; from integer to float it rounds to nearest even. Integers go to
// binary16 through f32: those that f32 would round are beyond the largest binary16 anyway.
casts! {
    f32_to_f32: f32 => f32, |x| x;
    f32_to_f16: f32 => u16, float16::from_f32;
    f32_to_i8: f32 => i8, |x| x as i8;
    f32_to_i32: f32 => i32, |x| x as i32;
    f32_to_i64: f32 => i64, |x| x as i64;
    f32_to_bool: f32 => u8, |x| u8::from(x != 0.0);
    f16_to_f32: u16 => f32, float16::to_f32;
    f16_to_f16: u16 => u16, |x| x;
    f16_to_i8: u16 => i8, |x| float16::to_f32(x) as i8;
    f16_to_i32: u16 => i32, |x| float16::to_f32(x) as i32;
    f16_to_i64: u16 => i64, |x| float16::to_f32(x) as i64;
    f16_to_bool: u16 => u8, |x| u8::from(x & 0x7fff != 0);
    i8_to_f32: i8 => f32, f32::from;
    i8_to_f16: i8 => u16, |x| float16::from_f32(f32::from(x));
    i8_to_i8: i8 => i8, |x| x;
    i8_to_i32: i8 => i32, i32::from;
    i8_to_i64: i8 => i64, i64::from;
    i8_to_bool: i8 => u8, |x| u8::from(x != 0);
    i32_to_f32: i32 => f32, |x| x as f32;
    i32_to_f16: i32 => u16, |x| float16::from_f32(x as f32);
    i32_to_i8: i32 => i8, |x| x as i8;
    i32_to_i32: i32 => i32, |x| x;
    i32_to_i64: i32 => i64, i64::from;
    i32_to_bool: i32 => u8, |x| u8::from(x != 0);
    i64_to_f32: i64 => f32, |x| x as f32;
    i64_to_f16: i64 => u16, |x| float16::from_f32(x as f32);
    i64_to_i8: i64 => i8, |x| x as i8;
    i64_to_i32: i64 => i32, |x| x.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    i64_to_i64: i64 => i64, |x| x;
    i64_to_bool: i64 => u8, |x| u8::from(x != 0);
    bool_to_f32: u8 => f32, |x| f32::from(x != 0);
    bool_to_f16: u8 => u16, |x| float16::from_f32(f32::from(x != 0));
    bool_to_i8: u8 => i8, |x| i8::from(x != 0);
    bool_to_i32: u8 => i32, |x| i32::from(x != 0);
    bool_to_i64: u8 => i64, |x| i64::from(x != 0);
    bool_to_bool: u8 => u8, |x| u8::from(x != 0);
}
