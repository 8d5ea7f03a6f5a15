//! Results against what a test expects.

use serinette::{DType, TensorView};
use serinette_compiler::onnx::Tensor;

const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// An error naming the first element that is off.
pub fn compare(got: &TensorView<'_>, want: &Tensor) -> Result<(), String> {
    let shape: Vec<u64> = got.shape.iter().map(|d| *d as u64).collect();
    if got.dtype != want.dtype {
        return Err(format!("element type {}, expected {}", got.dtype, want.dtype));
    }
    if shape != want.dims {
        return Err(format!("shape {shape:?}, expected {:?}", want.dims));
    }
    let bytes = want.data.as_bytes();
    if got.bytes.len() != bytes.len() {
        return Err(format!("{} bytes, expected {}", got.bytes.len(), bytes.len()));
    }
    let (numbers, expected) = (numbers(got.dtype, got.bytes), numbers(got.dtype, bytes));
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= ABSOLUTE + RELATIVE * b.abs()
    };
    match numbers.iter().zip(&expected).position(|(a, b)| !near(*a, *b)) {
        Some(i) => Err(format!("element {i} is {}, expected {} (shape {shape:?})", numbers[i], expected[i])),
        None => Ok(()),
    }
}

/// The elements as numbers, 64-bit integers rounded.
fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
    }
    match dtype {
        DType::F32 | DType::C64 => each(bytes, |b| f32::from_le_bytes(b).into()),
        DType::F64 | DType::C128 => each(bytes, f64::from_le_bytes),
        DType::F16 => each(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
        DType::BF16 => each(bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
        DType::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        DType::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        DType::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        DType::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        DType::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        DType::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        DType::U64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        _ => each(bytes, |b| u8::from_le_bytes(b).into()),
    }
}
