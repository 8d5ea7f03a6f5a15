//! Random tensors with fixed seeds.

use crate::reference::half;
use crate::tensor::Tensor;
use serinette_core::DType;

/// A source of random numbers.
pub(crate) struct Random(oorandom::Rand64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(oorandom::Rand64::new(u128::from(seed) * 0x9e37_79b9_7f4a_7c15 + 1))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.rand_u64()
    }

    /// In `low..=high`.
    pub(crate) fn integer(&mut self, low: i64, high: i64) -> i64 {
        let count = i128::from(high) - i128::from(low) + 1;
        (i128::from(low) + i128::from(self.bits()) % count) as i64
    }

    /// In −2..2, all mantissa bits in use.
    pub(crate) fn real(&mut self) -> f64 {
        self.0.rand_float() * 4.0 - 2.0
    }

    fn list<T>(&mut self, dims: &[usize], mut f: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..dims.iter().product::<usize>()).map(|_| f(self)).collect()
    }

    /// f32 or f16 in −2..2.
    pub(crate) fn floats(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        let x = self.list(dims, Random::real);
        Tensor::float(dtype, dims, &x)
    }

    /// Whole numbers in `-most..=most` as f32 or f16.
    pub(crate) fn whole(&mut self, dtype: DType, dims: &[usize], most: i64) -> Tensor {
        let x = self.list(dims, |r| r.integer(-most, most) as f64);
        Tensor::float(dtype, dims, &x)
    }

    /// Any i8.
    pub(crate) fn i8s(&mut self, dims: &[usize]) -> Tensor {
        let x = self.list(dims, |r| r.bits() as i8);
        Tensor::i8(dims, &x)
    }

    /// i32 in `low..=high`.
    pub(crate) fn i32s(&mut self, dims: &[usize], low: i32, high: i32) -> Tensor {
        let x = self.list(dims, |r| r.integer(i64::from(low), i64::from(high)) as i32);
        Tensor::i32(dims, &x)
    }

    /// Any bytes.
    pub(crate) fn any(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        let bytes = self.list(&[dims.iter().product::<usize>() * dtype.size()], |r| r.bits() as u8);
        Tensor::new(dtype, dims, bytes)
    }

    /// One of a list.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.bits() as usize % from.len()]
    }
}

/// f32 that arithmetic treats specially: zeros, infinities, NaN, extremes, ties. No subnormals (see
/// [`SUBNORMALS`]), because devices may flush those.
pub(crate) const SPECIAL: [f32; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -1.5,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16_777_216.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    1e30,
    -1e-30,
];

/// f32 subnormals, and numbers whose sums and products with these are.
pub(crate) const SUBNORMALS: [f32; 6] = [
    f32::from_bits(1),
    f32::from_bits(0x007f_ffff),
    -f32::from_bits(0x0040_0001),
    f32::MIN_POSITIVE,
    -1.25 * f32::MIN_POSITIVE,
    0.5,
];

/// binary16 bits that arithmetic treats specially, subnormals included: they are normal in f32, in which every
/// device computes.
pub(crate) const SPECIAL_HALVES: [u16; 18] = [
    0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
    0x7e00, 0x3c01, 0x6800, 0x5c01, 0x1400,
];

/// Every pair of a list, as two tensors `[n, n]`.
pub(crate) fn pairs_f32(list: &[f32]) -> (Tensor, Tensor) {
    let n = list.len();
    let a: Vec<f32> = (0..n * n).map(|i| list[i / n]).collect();
    let b: Vec<f32> = (0..n * n).map(|i| list[i % n]).collect();
    (Tensor::f32(&[n, n], &a), Tensor::f32(&[n, n], &b))
}

/// Every pair of a list, as two tensors `[n, n]`.
pub(crate) fn pairs_f16(list: &[u16]) -> (Tensor, Tensor) {
    let n = list.len();
    let a: Vec<u16> = (0..n * n).map(|i| list[i / n]).collect();
    let b: Vec<u16> = (0..n * n).map(|i| list[i % n]).collect();
    debug_assert!(list.iter().any(|h| half::to_f64(*h).is_nan()));
    (Tensor::f16_bits(&[n, n], &a), Tensor::f16_bits(&[n, n], &b))
}

/// Every pair of a list, as two tensors `[n, n]`.
pub(crate) fn pairs_i32(list: &[i32]) -> (Tensor, Tensor) {
    let n = list.len();
    let a: Vec<i32> = (0..n * n).map(|i| list[i / n]).collect();
    let b: Vec<i32> = (0..n * n).map(|i| list[i % n]).collect();
    (Tensor::i32(&[n, n], &a), Tensor::i32(&[n, n], &b))
}
