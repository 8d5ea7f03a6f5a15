//! Folding rows, and the types in which sums are taken.

use crate::functions::Elementary;
use crate::number::{BF16, F16, Number, Stored};

/// Elements that are folded side by side, which the compiler keeps in vector registers.
const LANES: usize = 16;
/// Elements of a block. A sum of blocks is more accurate than one long sum.
const BLOCK: usize = 512;

/// Folds a row in a fixed order. `zero` leaves every other operand of `merge` as it is.
#[inline]
pub(crate) fn fold<T: Copy, A: Copy>(
    x: &[T],
    zero: A,
    step: impl Fn(A, T) -> A,
    merge: impl Fn(A, A) -> A,
) -> A {
    if x.len() <= LANES {
        return x.iter().fold(zero, |a, x| step(a, *x));
    }
    let mut total = zero;
    for block in x.chunks(BLOCK) {
        let (whole, rest) = block.as_chunks::<LANES>();
        let mut lanes = [zero; LANES];
        for x in whole {
            lanes.iter_mut().zip(x).for_each(|(a, x)| *a = step(*a, *x));
        }
        lanes.iter_mut().zip(rest).for_each(|(a, x)| *a = step(*a, *x));
        let (mut all, mut left) = (&mut lanes[..], LANES);
        while left > 1 {
            left /= 2;
            let Some((low, high)) = all.split_at_mut_checked(left) else { break };
            low.iter_mut().zip(high).for_each(|(a, b)| *a = merge(*a, *b));
            all = low;
        }
        total = merge(total, lanes[0]);
    }
    total
}

/// `Σ f(x)` of a row.
#[inline]
pub(crate) fn sum<T: Copy, W: Elementary>(x: &[T], f: impl Fn(T) -> W) -> W {
    fold(x, W::of(0.0), |a, x| a + f(x), |a, b| a + b)
}

/// An element type with the types of its sums.
pub(crate) trait Summed: Number {
    /// The type of sums and products: f32 or f64, or an integer type itself.
    type Acc: Number;
    /// The type of the sum that a mean is made of: f32, f64, i64 or u64.
    type Total: Number;
    /// One.
    const ONE: Self::Acc;
    /// Widens, exactly.
    fn wide(self) -> Self::Acc;
    /// Rounds once.
    fn narrow(x: Self::Acc) -> Self;
    /// Widens, exactly.
    fn total(self) -> Self::Total;
    /// `x / n`, rounded once, or cut towards zero.
    fn mean(x: Self::Total, n: usize) -> Self;
}

macro_rules! floats {
    ($($t:ty)+) => {
        $(impl Summed for $t {
            type Acc = <$t as Stored>::Wide;
            type Total = <$t as Stored>::Wide;
            const ONE: Self::Acc = 1.0;
            #[inline(always)]
            fn wide(self) -> Self::Acc {
                self.load()
            }
            #[inline(always)]
            fn narrow(x: Self::Acc) -> $t {
                <$t>::store(x)
            }
            #[inline(always)]
            fn total(self) -> Self::Total {
                self.load()
            }
            fn mean(x: Self::Total, n: usize) -> $t {
                <$t>::store(x / n as Self::Total)
            }
        })+
    };
}

floats!(f32 F16 BF16 f64);

macro_rules! integers {
    ($total:ty: $($t:ty)+) => {
        $(impl Summed for $t {
            type Acc = $t;
            type Total = $total;
            const ONE: $t = 1;
            #[inline(always)]
            fn wide(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(x: $t) -> $t {
                x
            }
            #[inline(always)]
            fn total(self) -> $total {
                <$total>::from(self)
            }
            fn mean(x: $total, n: usize) -> $t {
                x.over(n as $total) as $t
            }
        })+
    };
}

integers!(i64: i8 i16 i32 i64);
integers!(u64: u8 u16 u32 u64);
