//! Conversion between element types: a module for each type to convert from, a function for each to convert to.

use crate::number::{BF16, F16, round_bf16};
use crate::registry::{Registered, sets};
use crate::{expect, float16};
use serinette_core::op;
use serinette_core::op::NoAttributes;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// A truth value as its byte.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct Bool(u8);

/// Conversion to `Y`, as the op defines it.
trait To<Y> {
    fn to(self) -> Y;
}

fn cast<X: bytemuck::Pod + To<Y>, Y: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (x, y) = (ops.input::<X>(0)?, ops.output::<Y>(0)?);
    expect("elements of x", step.input(0)?.elements(), x.len())?;
    expect("elements of y", x.len(), y.len())?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x.to());
    Ok(())
}

/// A number as the nearest f32, unless it lies between two: then the one of them whose last bit is 1. Rounded again to
/// a type of at most 22 digits, that gives what rounding once would have given (Boldo and Melquiond, "When double
/// rounding is odd", 2005).
trait Odd: Copy {
    fn odd(self) -> f32;
}

/// `nearest`, or its neighbour towards zero where it is beyond the exact number, with the last bit set if not exact.
fn odd(nearest: f32, exact: bool, beyond: bool) -> f32 {
    let bits = nearest.to_bits() - u32::from(beyond);
    f32::from_bits(if exact || nearest.is_nan() { bits } else { bits | 1 })
}

impl Odd for f32 {
    fn odd(self) -> f32 {
        self
    }
}

impl Odd for f64 {
    fn odd(self) -> f32 {
        let nearest = self as f32;
        let back = f64::from(nearest);
        odd(nearest, back == self, back.abs() > self.abs())
    }
}

// Conversions between primitive types: `as` from float to integer truncates, saturates and gives 0 for NaN; between
// integers it wraps; from integer to float it rounds to nearest even.
macro_rules! primitives {
    ($($x:ty => [$($y:ty)+];)+) => {$($(
        impl To<$y> for $x {
            #[inline(always)]
            fn to(self) -> $y {
                self as $y
            }
        }
    )+)+};
}

primitives! {
    f32 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    f64 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    i8 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    i16 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    i32 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    i64 => [f32 f64 i8 i16 i64 u8 u16 u32 u64];
    u8 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    u16 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    u32 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    u64 => [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
}

impl To<i32> for i64 {
    #[inline(always)]
    fn to(self) -> i32 {
        self.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }
}

macro_rules! integers {
    ($($x:ty)+) => {$(
        impl Odd for $x {
            fn odd(self) -> f32 {
                let nearest = self as f32;
                // An f32 of this size is a whole number below 2^127.
                let (back, exact) = (nearest as i128, self as i128);
                odd(nearest, back == exact, back.unsigned_abs() > exact.unsigned_abs())
            }
        }
    )+};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

// To and from storage types and truth values.
macro_rules! storage {
    ($($t:ty)+) => {$(
        impl To<F16> for $t {
            fn to(self) -> F16 {
                F16(float16::from_f32(self.odd()))
            }
        }
        impl To<BF16> for $t {
            fn to(self) -> BF16 {
                BF16(round_bf16(self.odd()))
            }
        }
        impl To<Bool> for $t {
            #[inline(always)]
            fn to(self) -> Bool {
                Bool(u8::from(self != (0 as $t)))
            }
        }
        impl To<$t> for F16 {
            fn to(self) -> $t {
                float16::to_f32(self.0).to()
            }
        }
        impl To<$t> for BF16 {
            fn to(self) -> $t {
                wide(self).to()
            }
        }
        impl To<$t> for Bool {
            #[inline(always)]
            fn to(self) -> $t {
                u8::from(self.0 != 0).to()
            }
        }
    )+};
}

storage!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

fn wide(x: BF16) -> f32 {
    f32::from_bits(u32::from(x.0) << 16)
}

macro_rules! between_storage {
    ($($x:ty => $y:ty, $f:expr;)+) => {$(
        impl To<$y> for $x {
            #[inline(always)]
            fn to(self) -> $y {
                $f(self)
            }
        }
    )+};
}

between_storage! {
    F16 => F16, |x| x;
    BF16 => BF16, |x| x;
    F16 => BF16, |x: F16| BF16(round_bf16(float16::to_f32(x.0)));
    BF16 => F16, |x: BF16| F16(float16::from_f32(wide(x)));
    F16 => Bool, |x: F16| Bool(u8::from(x.0 & 0x7fff != 0));
    BF16 => Bool, |x: BF16| Bool(u8::from(x.0 & 0x7fff != 0));
    Bool => Bool, |x: Bool| Bool(u8::from(x.0 != 0));
    Bool => F16, |x: Bool| u8::from(x.0 != 0).to();
    Bool => BF16, |x: Bool| u8::from(x.0 != 0).to();
}

macro_rules! casts {
    ($($module:ident: $x:ty = $from:ident;)+) => {
        $(casts!(@one $module: $x = $from, [to_f32: f32 = F32, to_f16: F16 = F16, to_bf16: BF16 = BF16, to_f64: f64 = F64,
            to_i8: i8 = I8, to_i16: i16 = I16, to_i32: i32 = I32, to_i64: i64 = I64, to_u8: u8 = U8, to_u16: u16 = U16,
            to_u32: u32 = U32, to_u64: u64 = U64, to_bool: Bool = BOOL]);)+
        /// The kernels of this family.
        pub(crate) static OPS: &[&[Registered]] = &[$($module::KERNELS),+];
    };
    (@one $module:ident: $x:ty = $from:ident, [$($name:ident: $y:ty = $to:ident),+]) => {
        #[doc = concat!("`Cast` ", stringify!($module), ".")]
        pub mod $module {
            use super::*;
            $(
                #[doc = concat!("`Cast` ", stringify!($module), " ", stringify!($name), ".")]
                pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    cast::<$x, $y>(step, ops)
                }
            )+
            /// One for each type to convert to.
            pub(crate) static KERNELS: &[Registered] = &[$(Registered {
                op: &op::cast::CAST,
                name: concat!("cast::", stringify!($module), "::", stringify!($name)),
                input: Some(sets::$from),
                also: None,
                output: sets::$to,
                kernel: $name,
            }),+];
        }
    };
}

casts! {
    from_f32: f32 = F32;
    from_f16: F16 = F16;
    from_bf16: BF16 = BF16;
    from_f64: f64 = F64;
    from_i8: i8 = I8;
    from_i16: i16 = I16;
    from_i32: i32 = I32;
    from_i64: i64 = I64;
    from_u8: u8 = U8;
    from_u16: u16 = U16;
    from_u32: u32 = U32;
    from_u64: u64 = U64;
    from_bool: Bool = BOOL;
}
