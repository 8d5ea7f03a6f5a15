//! Element types as Rust types, and the arithmetic that the ops define on them.
//!
//! binary16 and bfloat16 are storage: their arithmetic is that of f32, rounded once. Integers wrap; a division by zero
//! gives 0.

use crate::float16;
use crate::functions::Elementary;

/// A binary16, as its bits.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct F16(pub(crate) u16);

/// A bfloat16, as its bits.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct BF16(pub(crate) u16);

/// An element stored in one type and computed in another: f16 and bf16 in f32, f32 and f64 in themselves.
pub(crate) trait Stored: bytemuck::Pod {
    /// The type of the arithmetic.
    type Wide: Elementary;
    /// Whether that is the type itself.
    const EXACT: bool = core::mem::size_of::<Self>() == core::mem::size_of::<Self::Wide>();
    /// Widens, exactly.
    fn load(self) -> Self::Wide;
    /// Rounds once.
    fn store(x: Self::Wide) -> Self;
}

macro_rules! stored {
    ($($t:ty: $wide:ty, $load:expr, $store:expr;)+) => {
        $(impl Stored for $t {
            type Wide = $wide;
            #[inline(always)]
            fn load(self) -> $wide {
                $load(self)
            }
            #[inline(always)]
            fn store(x: $wide) -> $t {
                $store(x)
            }
        })+
    };
}

stored! {
    f32: f32, |x| x, |x| x;
    f64: f64, |x| x, |x| x;
    F16: f32, |x: F16| float16::to_f32(x.0), |x| F16(float16::from_f32(x));
    BF16: f32, |x: BF16| f32::from_bits(u32::from(x.0) << 16), |x| BF16(round_bf16(x));
}

/// The nearest bfloat16, ties to even; a NaN becomes a quiet NaN.
pub(crate) fn round_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 & 0x8000 | 0x7fc0;
    }
    // Adding just under half of the last place carries where the rest is above half, or half beside an odd number.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// f32 or f64, with the functions of `libm`, which give the same bits everywhere.
pub(crate) trait Float:
    Copy
    + PartialOrd
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::Div<Output = Self>
    + core::ops::Neg<Output = Self>
{
    /// Zero.
    const ZERO: Self;
    /// `self^y`.
    fn pow(self, y: Self) -> Self;
    /// The remainder of `self / y` with the sign of `self`, exact.
    fn fmod(self, y: Self) -> Self;
    /// Whether it is no number.
    fn nan(self) -> bool;
}

macro_rules! float {
    ($($t:ty: $pow:path, $fmod:path;)+) => {
        $(impl Float for $t {
            const ZERO: $t = 0.0;
            fn pow(self, y: $t) -> $t {
                $pow(self, y)
            }
            fn fmod(self, y: $t) -> $t {
                $fmod(self, y)
            }
            #[inline(always)]
            fn nan(self) -> bool {
                self.is_nan()
            }
        })+
    };
}

float! {
    f32: libm::powf, libm::fmodf;
    f64: libm::pow, libm::fmod;
}

/// Arithmetic of an element type.
pub(crate) trait Number: bytemuck::Pod {
    /// Whether the type is a floating-point type.
    const FLOAT: bool;
    /// Zero.
    const ZERO: Self;
    /// `self + o`.
    fn plus(self, o: Self) -> Self;
    /// `self − o`.
    fn minus(self, o: Self) -> Self;
    /// `self × o`.
    fn times(self, o: Self) -> Self;
    /// `self / o`; integers are cut towards zero.
    fn over(self, o: Self) -> Self;
    /// The remainder with the sign of `self`.
    fn remainder(self, o: Self) -> Self;
    /// `self^o`.
    fn power(self, o: Self) -> Self;
    /// `−self`; the least integer wraps.
    fn negative(self) -> Self;
    /// The absolute value; the least integer wraps.
    fn size(self) -> Self;
    /// −1, 0 or 1; NaN of NaN.
    fn sign(self) -> Self;
    /// Order; `None` with a NaN.
    fn order(self, o: Self) -> Option<core::cmp::Ordering>;
    /// Whether it is no number.
    fn nan(self) -> bool;

    /// The lesser; `self` where they are equal, NaN where one is.
    #[inline(always)]
    fn least(self, o: Self) -> Self {
        if o.nan() || o.order(self) == Some(core::cmp::Ordering::Less) { o } else { self }
    }
    /// `self > 0 ? self : 0`; NaN stays NaN.
    #[inline(always)]
    fn relu(self) -> Self {
        if self.nan() || self.order(Self::ZERO) == Some(core::cmp::Ordering::Greater) {
            self
        } else {
            Self::ZERO
        }
    }
    /// The greater; `self` where they are equal, NaN where one is.
    #[inline(always)]
    fn greatest(self, o: Self) -> Self {
        if o.nan() || o.order(self) == Some(core::cmp::Ordering::Greater) { o } else { self }
    }
}

macro_rules! float_numbers {
    ($($t:ty = $zero:expr;)+) => {
        $(impl Number for $t {
            const FLOAT: bool = true;
            const ZERO: $t = $zero;
            #[inline(always)]
            fn plus(self, o: $t) -> $t {
                <$t>::store(self.load() + o.load())
            }
            #[inline(always)]
            fn minus(self, o: $t) -> $t {
                <$t>::store(self.load() - o.load())
            }
            #[inline(always)]
            fn times(self, o: $t) -> $t {
                <$t>::store(self.load() * o.load())
            }
            #[inline(always)]
            fn over(self, o: $t) -> $t {
                <$t>::store(self.load() / o.load())
            }
            fn remainder(self, o: $t) -> $t {
                <$t>::store(self.load().fmod(o.load()))
            }
            fn power(self, o: $t) -> $t {
                <$t>::store(self.load().pow(o.load()))
            }
            #[inline(always)]
            fn negative(self) -> $t {
                <$t>::store(-self.load())
            }
            #[inline(always)]
            fn size(self) -> $t {
                <$t>::store(self.load().abs())
            }
            fn sign(self) -> $t {
                let x = self.load();
                let one = <<$t as Stored>::Wide>::of(1.0);
                <$t>::store(if x > -x { one } else if x < -x { -one } else if Float::nan(x) { x } else { x.abs() })
            }
            #[inline(always)]
            fn order(self, o: $t) -> Option<core::cmp::Ordering> {
                self.load().partial_cmp(&o.load())
            }
            #[inline(always)]
            fn nan(self) -> bool {
                Float::nan(self.load())
            }
        })+
    };
}

float_numbers! {
    f32 = 0.0;
    f64 = 0.0;
    F16 = F16(0);
    BF16 = BF16(0);
}

macro_rules! integer_numbers {
    ($($t:ty)+) => {
        $(impl Number for $t {
            const FLOAT: bool = false;
            const ZERO: $t = 0;
            #[inline(always)]
            fn plus(self, o: $t) -> $t {
                self.wrapping_add(o)
            }
            #[inline(always)]
            fn minus(self, o: $t) -> $t {
                self.wrapping_sub(o)
            }
            #[inline(always)]
            fn times(self, o: $t) -> $t {
                self.wrapping_mul(o)
            }
            fn over(self, o: $t) -> $t {
                if o == 0 { 0 } else { self.wrapping_div(o) }
            }
            fn remainder(self, o: $t) -> $t {
                if o == 0 { 0 } else { self.wrapping_rem(o) }
            }
            #[allow(unused_comparisons)] // of unsigned types
            fn power(self, o: $t) -> $t {
                if o < 0 {
                    // 1 / self^−o, cut towards zero: only 1 and −1 leave anything.
                    return match self {
                        1 => 1,
                        x if x == <$t>::wrapping_sub(0, 1) => if o % 2 == 0 { 1 } else { x },
                        _ => 0,
                    };
                }
                let (mut result, mut square, mut left): ($t, $t, $t) = (1, self, o);
                while left > 0 {
                    if left % 2 == 1 {
                        result = result.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    left /= 2;
                }
                result
            }
            #[inline(always)]
            fn negative(self) -> $t {
                self.wrapping_neg()
            }
            #[inline(always)]
            #[allow(unused_comparisons)] // of unsigned types
            fn size(self) -> $t {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[allow(unused_comparisons)] // of unsigned types
            fn sign(self) -> $t {
                if self < 0 { <$t>::wrapping_sub(0, 1) } else { <$t>::from(self > 0) }
            }
            #[inline(always)]
            fn order(self, o: $t) -> Option<core::cmp::Ordering> {
                Some(self.cmp(&o))
            }
            #[inline(always)]
            fn nan(self) -> bool {
                false
            }
        })+
    };
}

/// i8 and u8.
pub(crate) trait Byte: bytemuck::Pod {
    /// As i32.
    fn widen(self) -> i32;
    /// The nearest of the type.
    fn saturate(x: i32) -> Self;
}

macro_rules! bytes {
    ($($t:ty)+) => {
        $(impl Byte for $t {
            #[inline(always)]
            fn widen(self) -> i32 {
                i32::from(self)
            }
            #[inline(always)]
            fn saturate(x: i32) -> $t {
                x.clamp(i32::from(<$t>::MIN), i32::from(<$t>::MAX)) as $t
            }
        })+
    };
}

bytes!(i8 u8);

/// What only integers have.
pub(crate) trait Integer: Number {
    /// The remainder with the sign of `o`.
    fn modulo(self, o: Self) -> Self;
    /// Every bit the other way.
    fn not(self) -> Self;
    /// Bits set in both.
    fn and(self, o: Self) -> Self;
    /// Bits set in either.
    fn or(self, o: Self) -> Self;
    /// Bits set in one.
    fn xor(self, o: Self) -> Self;
    /// `self · 2^o`; 0 where `o` is not below the width.
    fn left(self, o: Self) -> Self;
    /// `⌊self / 2^o⌋`; where `o` is not below the width 0, or −1 for what is negative.
    fn right(self, o: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)+) => {
        $(impl Integer for $t {
            #[allow(unused_comparisons)] // of unsigned types
            fn modulo(self, o: $t) -> $t {
                let r = self.remainder(o);
                if r != 0 && (r < 0) != (o < 0) { r.wrapping_add(o) } else { r }
            }
            #[inline(always)]
            fn not(self) -> $t {
                !self
            }
            #[inline(always)]
            fn and(self, o: $t) -> $t {
                self & o
            }
            #[inline(always)]
            fn or(self, o: $t) -> $t {
                self | o
            }
            #[inline(always)]
            fn xor(self, o: $t) -> $t {
                self ^ o
            }
            fn left(self, o: $t) -> $t {
                u32::try_from(o).ok().and_then(|o| self.checked_shl(o)).unwrap_or(0)
            }
            fn right(self, o: $t) -> $t {
                // Shifting out all but the sign.
                let all = (self >> (<$t>::BITS - 1)) >> 1;
                u32::try_from(o).ok().and_then(|o| self.checked_shr(o)).unwrap_or(all)
            }
        })+
    };
}

integer_numbers!(i8 i16 i32 i64 u8 u16 u32 u64);
integers!(i8 i16 i32 i64 u8 u16 u32 u64);
