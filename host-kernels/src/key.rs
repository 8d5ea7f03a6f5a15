//! Numbers as integers of the same order, for searches that need neither conversions nor cases for NaN.

use crate::number::{BF16, F16};

/// An element type with an order.
pub(crate) trait Ordered: bytemuck::Pod {
    /// An integer of the same size.
    type Key: Ord + Copy;
    /// Below the key of every number, or that of the least integer.
    const LEAST: Self::Key;
    /// Above the key of every number, or that of the greatest integer.
    const GREATEST: Self::Key;
    /// The key of the least number.
    const LOWEST: Self::Key;
    /// The key of the greatest number.
    const HIGHEST: Self::Key;
    /// A key that rises with the number, that of −0 below that of 0; `nan` for NaN.
    fn key(self, nan: Self::Key) -> Self::Key;
    /// The number of a key, for [`LEAST`](Self::LEAST) and [`GREATEST`](Self::GREATEST) NaN where there is one.
    fn of_key(key: Self::Key) -> Self;
    /// The same with one key for 0 and −0.
    fn rank(self, nan: Self::Key) -> Self::Key;
}

/// Floats: a sign and a magnitude (`$bits`, infinity `$inf`) as a number in two's complement. What has the sign rises the
/// other way.
macro_rules! floats {
    ($($t:ty, $bits:ty, $key:ty, $inf:expr, $to:expr, $from:expr;)+) => {
        $(impl Ordered for $t {
            type Key = $key;
            const LEAST: $key = <$key>::MIN;
            const GREATEST: $key = <$key>::MAX;
            const LOWEST: $key = !$inf;
            const HIGHEST: $key = $inf;
            #[inline(always)]
            fn key(self, nan: $key) -> $key {
                let bits = $to(self) as $key;
                if bits & <$key>::MAX > $inf { nan } else { bits ^ (bits >> (<$key>::BITS - 1) & <$key>::MAX) }
            }
            #[inline(always)]
            fn of_key(key: $key) -> $t {
                $from((key ^ (key >> (<$key>::BITS - 1) & <$key>::MAX)) as $bits)
            }
            #[inline(always)]
            fn rank(self, nan: $key) -> $key {
                let key = self.key(nan);
                // −1 is −0.
                if key == -1 { 0 } else { key }
            }
        })+
    };
}

floats! {
    f32, u32, i32, 0x7f80_0000, f32::to_bits, f32::from_bits;
    f64, u64, i64, 0x7ff0_0000_0000_0000, f64::to_bits, f64::from_bits;
    F16, u16, i16, 0x7c00, |x: F16| x.0, F16;
    BF16, u16, i16, 0x7f80, |x: BF16| x.0, BF16;
}

macro_rules! integers {
    ($($t:ty)+) => {
        $(impl Ordered for $t {
            type Key = $t;
            const LEAST: $t = <$t>::MIN;
            const GREATEST: $t = <$t>::MAX;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            #[inline(always)]
            fn key(self, _: $t) -> $t {
                self
            }
            #[inline(always)]
            fn of_key(key: $t) -> $t {
                key
            }
            #[inline(always)]
            fn rank(self, _: $t) -> $t {
                self
            }
        })+
    };
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

#[cfg(test)]
mod tests {
    use super::Ordered;
    use crate::number::{F16, Stored};

    #[test]
    fn keys_rise_with_the_numbers_and_come_back() {
        let mut all: std::vec::Vec<F16> = (0..=u16::MAX).map(F16).collect();
        for x in &all {
            let key = x.key(i16::MAX);
            assert!(x.load().is_nan() || F16::of_key(key).0 == x.0);
            assert!(x.load().is_nan() == (key == i16::MAX) && x.key(i16::MIN) <= key);
            assert!(x.load().is_nan() || (F16::LOWEST..=F16::HIGHEST).contains(&key));
        }
        assert!(F16::of_key(F16::LEAST).load().is_nan() && F16::of_key(F16::GREATEST).load().is_nan());
        all.sort_by_key(|x| x.rank(i16::MAX));
        let numbers: std::vec::Vec<f32> = all.iter().map(|x| x.load()).collect();
        assert!(numbers.windows(2).all(|w| w[0] <= w[1] || w[1].is_nan()));
        assert!(F16(0x8000).rank(0) == F16(0).rank(0) && F16(0x8000).key(0) < F16(0).key(0));
    }
}
