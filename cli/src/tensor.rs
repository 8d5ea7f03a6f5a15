//! Tensors that own their elements.

use serinette::compare::Tolerance;
use serinette::{DType, TensorView};

/// A dense row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// As the library takes it.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    /// Whether two tensors differ: floating-point numbers by more than the tolerance, others at all.
    pub fn differs(&self, other: &Tensor, t: Tolerance) -> bool {
        if (self.dtype, &self.shape) != (other.dtype, &other.shape) {
            return true;
        }
        let floats = matches!(self.dtype, DType::F32 | DType::F16);
        let (Some(a), Some(b), true) = (self.view().to_f32(), other.view().to_f32(), floats) else {
            return self.bytes != other.bytes;
        };
        let close = |p: f32, q: f32| {
            p == q
                || (p.is_nan() && q.is_nan())
                || (p - q).abs() <= t.absolute + t.relative * p.abs().max(q.abs())
        };
        // A difference of infinities is NaN, or within an infinite tolerance: only equal ones are close.
        a.iter().zip(&b).any(|(p, q)| !close(*p, *q) || (p != q && (p.is_infinite() || q.is_infinite())))
    }

    /// A tensor of numbers rounded to an element type: integers to the nearest (ties to even) and saturating.
    /// `None` for types that hold no such numbers.
    pub fn of_f32(dtype: DType, shape: Vec<usize>, data: &[f32]) -> Option<Tensor> {
        // Casts from floats saturate, and make 0 of NaN.
        let each = |x: &f32| -> Option<Vec<u8>> {
            let r = x.round_ties_even();
            Some(match dtype {
                DType::F32 => x.to_le_bytes().to_vec(),
                DType::F16 => half::f16::from_f32(*x).to_le_bytes().to_vec(),
                DType::BF16 => half::bf16::from_f32(*x).to_le_bytes().to_vec(),
                DType::F64 => f64::from(*x).to_le_bytes().to_vec(),
                DType::I8 => (r as i8).to_le_bytes().to_vec(),
                DType::I16 => (r as i16).to_le_bytes().to_vec(),
                DType::I32 => (r as i32).to_le_bytes().to_vec(),
                DType::I64 => (r as i64).to_le_bytes().to_vec(),
                DType::U8 => vec![r as u8],
                DType::U16 => (r as u16).to_le_bytes().to_vec(),
                DType::U32 => (r as u32).to_le_bytes().to_vec(),
                DType::U64 => (r as u64).to_le_bytes().to_vec(),
                _ => return None,
            })
        };
        let mut bytes = Vec::with_capacity(data.len().saturating_mul(dtype.size()));
        for x in data {
            bytes.extend(each(x)?);
        }
        Some(Tensor { dtype, shape, bytes })
    }
}

/// `[1, 28, 28]`.
pub fn shape_text(shape: &[usize]) -> String {
    format!("{shape:?}")
}

/// The product of dimensions; `None` where it is too large.
pub fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn differences() {
        let (t, one) = (Tolerance { relative: 0.1, absolute: 0.0 }, [1.0, f32::NAN, f32::INFINITY]);
        let of = |d: &[f32]| Tensor::of_f32(DType::F32, vec![d.len()], d).unwrap();
        assert!(!of(&one).differs(&of(&[1.05, f32::NAN, f32::INFINITY]), t));
        assert!(of(&one).differs(&of(&[1.2, f32::NAN, f32::INFINITY]), t));
        assert!(of(&one).differs(&of(&[1.0, 0.0, f32::INFINITY]), t));
        assert!(of(&one).differs(&of(&[1.0, f32::NAN, f32::MAX]), t));
        assert!(of(&one).differs(&of(&[1.0, f32::NAN]), t));
    }

    #[test]
    fn numbers_are_rounded_to_the_type() {
        let data = [0.5, 1.5, -200.0, 300.0, f32::NAN];
        let t = Tensor::of_f32(DType::I8, vec![5], &data).unwrap();
        assert_eq!(t.bytes, [0i8, 2, -128, 127, 0].map(|x| x as u8));
        assert!(Tensor::of_f32(DType::Bool, vec![5], &data).is_none());
        let h = Tensor::of_f32(DType::F16, vec![1], &[1.0]).unwrap();
        assert_eq!(h.bytes, 0x3C00u16.to_le_bytes());
    }
}
