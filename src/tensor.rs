//! Tensors as callers give and get them.

use serinette_core::DType;

/// A dense row-major tensor that the caller owns.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: &'a [usize],
    /// The elements, little-endian, in the bytes of their type.
    pub bytes: &'a [u8],
}

/// A dense row-major tensor that owns its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The elements, little-endian, in the bytes of their type.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// As callers give it.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }
}

impl<'a> TensorView<'a> {
    /// f32 elements.
    pub fn f32(shape: &'a [usize], data: &'a [f32]) -> TensorView<'a> {
        TensorView { dtype: DType::F32, shape, bytes: bytemuck::cast_slice(data) }
    }

    /// i32 elements.
    pub fn i32(shape: &'a [usize], data: &'a [i32]) -> TensorView<'a> {
        TensorView { dtype: DType::I32, shape, bytes: bytemuck::cast_slice(data) }
    }

    /// The elements of floating-point tensors as f32 and of integers and bools as their values; `None` for other
    /// types.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let b = self.bytes;
        fn four<T>(b: &[u8], f: impl Fn([u8; 4]) -> T) -> Vec<T> {
            b.chunks_exact(4).map(|c| f([c[0], c[1], c[2], c[3]])).collect()
        }
        Some(match self.dtype {
            DType::F32 => four(b, f32::from_le_bytes),
            DType::I32 => four(b, |c| i32::from_le_bytes(c) as f32),
            DType::F16 => {
                b.chunks_exact(2).map(|c| half::f16::from_le_bytes([c[0], c[1]]).to_f32()).collect()
            }
            DType::BF16 => {
                b.chunks_exact(2).map(|c| half::bf16::from_le_bytes([c[0], c[1]]).to_f32()).collect()
            }
            DType::F64 => b
                .chunks_exact(8)
                .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)
                .collect(),
            DType::I8 => b.iter().map(|x| f32::from(*x as i8)).collect(),
            DType::U8 => b.iter().map(|x| f32::from(*x)).collect(),
            DType::Bool => b.iter().map(|x| f32::from(u8::from(*x != 0))).collect(),
            DType::I64 => b
                .chunks_exact(8)
                .map(|c| i64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)
                .collect(),
            _ => return None,
        })
    }
}
