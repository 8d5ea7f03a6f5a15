//! Tensors as plain data.

use crate::reference::half;
use serinette_core::DType;

/// A dense row-major tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Vec<usize>,
    /// Elements, little-endian. Not aligned: a runner copies them to where its kernels want them.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of raw bytes.
    pub fn new(dtype: DType, dims: &[usize], bytes: Vec<u8>) -> Tensor {
        debug_assert_eq!(bytes.len(), dims.iter().product::<usize>() * dtype.size());
        Tensor { dtype, dims: dims.to_vec(), bytes }
    }

    /// From f32.
    pub fn f32(dims: &[usize], x: &[f32]) -> Tensor {
        Tensor::new(DType::F32, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// From i8.
    pub fn i8(dims: &[usize], x: &[i8]) -> Tensor {
        Tensor::new(DType::I8, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// From i32.
    pub fn i32(dims: &[usize], x: &[i32]) -> Tensor {
        Tensor::new(DType::I32, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// From i64.
    pub fn i64(dims: &[usize], x: &[i64]) -> Tensor {
        Tensor::new(DType::I64, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// From truth values, stored as 0 and 1.
    pub fn bool(dims: &[usize], x: &[bool]) -> Tensor {
        Tensor::new(DType::Bool, dims, x.iter().map(|x| u8::from(*x)).collect())
    }

    /// From the bits of binary16.
    pub fn f16_bits(dims: &[usize], x: &[u16]) -> Tensor {
        Tensor::new(DType::F16, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// Floats rounded once to a floating-point type; f32 where `dtype` is none.
    pub fn float(dtype: DType, dims: &[usize], x: &[f64]) -> Tensor {
        let bits = |f: fn(f64) -> u16| x.iter().flat_map(|x| f(*x).to_le_bytes()).collect();
        match dtype {
            DType::F16 => Tensor::new(dtype, dims, bits(half::from_f64)),
            DType::BF16 => Tensor::new(dtype, dims, bits(half::bf16_from_f64)),
            DType::F64 => Tensor::new(dtype, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            _ => Tensor::f32(dims, &x.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        }
    }

    /// Integers modulo 2^bits of an integer type; what is not zero is true in a bool.
    pub fn integer(dtype: DType, dims: &[usize], x: &[i128]) -> Tensor {
        let bytes = x.iter().flat_map(|x| {
            let x = if dtype == DType::Bool { i128::from(*x != 0) } else { *x };
            x.to_le_bytes().into_iter().take(dtype.size())
        });
        Tensor::new(dtype, dims, bytes.collect())
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// The bytes of element `i`.
    pub fn element(&self, i: usize) -> &[u8] {
        let size = self.dtype.size();
        self.bytes.get(i * size..(i + 1) * size).unwrap_or(&[])
    }

    /// Element `i` as a number, exactly but for 64-bit integers beyond 2^53; `None` for complex numbers.
    pub fn number(&self, i: usize) -> Option<f64> {
        let b = self.element(i);
        let wide = |signed: bool| {
            let fill = if signed && b.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
            let mut all = [fill; 16];
            all.get_mut(..b.len())?.copy_from_slice(b);
            Some(i128::from_le_bytes(all))
        };
        match self.dtype {
            DType::F32 => Some(f64::from(f32::from_bits(wide(false)? as u32))),
            DType::BF16 => Some(f64::from(f32::from_bits((wide(false)? as u32) << 16))),
            DType::F16 => Some(half::to_f64(wide(false)? as u16)),
            DType::F64 => Some(f64::from_bits(wide(false)? as u64)),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Some(wide(true)? as f64),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => Some(wide(false)? as f64),
            _ => None,
        }
    }

    /// Every element as a number.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        (0..self.elements()).map(|i| self.number(i).unwrap_or(f64::NAN)).collect()
    }

    /// Every element as an integer without loss; for integer types and bool.
    pub(crate) fn wide_integers(&self) -> Vec<i128> {
        let signed = matches!(self.dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        (0..self.elements())
            .map(|i| {
                let b = self.element(i);
                let fill = if signed && b.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
                let mut all = [fill; 16];
                all[..b.len()].copy_from_slice(b);
                i128::from_le_bytes(all)
            })
            .collect()
    }

    /// Every element as an integer; for integer types.
    pub(crate) fn integers(&self) -> Vec<i64> {
        (0..self.elements())
            .map(|i| {
                let b = self.element(i);
                let fill = if b.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
                let mut all = [fill; 8];
                all[..b.len()].copy_from_slice(b);
                i64::from_le_bytes(all)
            })
            .collect()
    }

    /// Element `i` for a person.
    pub(crate) fn show(&self, i: usize) -> String {
        match self.number(i) {
            Some(x) => format!("{x:?} ({:02x?})", self.element(i)),
            None => format!("{:02x?}", self.element(i)),
        }
    }
}

/// The multi-index of element `i`.
pub(crate) fn position(dims: &[usize], mut i: usize) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (at, d) in at.iter_mut().zip(dims).rev() {
        *at = i % d;
        i /= d;
    }
    at
}

/// The element at a multi-index.
pub(crate) fn offset(dims: &[usize], at: &[usize]) -> usize {
    dims.iter().zip(at).fold(0, |o, (d, i)| o * d + i)
}
