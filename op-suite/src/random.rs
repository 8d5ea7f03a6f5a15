//! Random tensors with fixed seeds.

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

    /// Numbers of any type but complex ones: floats in −2..2, integers of all sizes, bools.
    pub(crate) fn numbers(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 | DType::F64 => self.floats(dtype, dims),
            DType::Bool => self.small(dtype, dims, 0, 1),
            _ => self.any(dtype, dims),
        }
    }

    /// Whole numbers in `low..=high` of any type but complex ones; below 0 they wrap in unsigned types.
    pub(crate) fn small(&mut self, dtype: DType, dims: &[usize], low: i64, high: i64) -> Tensor {
        let x = self.list(dims, |r| r.integer(low, high));
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 | DType::F64 => {
                Tensor::float(dtype, dims, &x.iter().map(|x| *x as f64).collect::<Vec<_>>())
            }
            _ => Tensor::integer(dtype, dims, &x.iter().map(|x| i128::from(*x)).collect::<Vec<_>>()),
        }
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

/// Every pair of the elements of a list `[n]`, as two tensors `[n, n]`.
pub(crate) fn pairs(list: &Tensor) -> (Tensor, Tensor) {
    let n = list.elements();
    let pick = |f: fn(usize, usize) -> usize| {
        let bytes = (0..n * n).flat_map(|i| list.element(f(i, n)).to_vec()).collect();
        Tensor::new(list.dtype, &[n, n], bytes)
    };
    (pick(|i, n| i / n), pick(|i, n| i % n))
}

/// Numbers that arithmetic in a type treats specially: extremes, zeros, NaN, infinities; no subnormals of f32.
pub(crate) fn special(dtype: DType) -> Tensor {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::F32 => Tensor::f32(&[SPECIAL.len()], &SPECIAL),
        DType::F16 => Tensor::f16_bits(&[SPECIAL_HALVES.len()], &SPECIAL_HALVES),
        DType::BF16 => Tensor::float(dtype, &[SPECIAL.len()], &SPECIAL.map(f64::from)),
        DType::F64 => {
            let mut all = SPECIAL.map(f64::from).to_vec();
            all.extend([f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), 1e-300, -1e300]);
            Tensor::float(dtype, &[all.len()], &all)
        }
        DType::Bool => Tensor::integer(dtype, &[2], &[0, 1]),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            let most = (1i128 << bits) - 1;
            let all = [0, 1, 2, 3, 7, 8, most, most - 1, most / 2, most / 2 + 1, 97];
            Tensor::integer(dtype, &[all.len()], &all)
        }
        _ => {
            let most = (1i128 << (bits - 1)) - 1;
            let all = [0, 1, -1, 2, -2, 3, -7, most, -most - 1, most - 1, -most, 97, -100];
            Tensor::integer(dtype, &[all.len()], &all)
        }
    }
}
