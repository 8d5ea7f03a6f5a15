//! Tensors stored in the file.

use super::proto::TensorProto;
use crate::data::Data;
use crate::error::Error;
use serinette_core::{DType, MAX_RANK};

/// Constant contents: type, sizes, bytes.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub data: Data,
}

/// The element type of an ONNX code.
pub(super) fn dtype(code: i32) -> Option<DType> {
    Some(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        14 => DType::C64,
        15 => DType::C128,
        16 => DType::BF16,
        _ => return None,
    })
}

impl Constant {
    /// The contents of a tensor message. Raw bytes are shared with the file.
    pub fn read(t: &TensorProto, at: &str) -> Result<Constant, Error> {
        let name = if t.name.is_empty() { at } else { &t.name };
        let dtype = dtype(t.data_type).ok_or_else(|| {
            Error::malformed(name, format!("element type code {} is not known", t.data_type))
        })?;
        if t.data_location != 0 {
            return Err(Error::malformed(name, "data in another file is not supported"));
        }
        if t.dims.len() > MAX_RANK {
            return Err(Error::count(name, "axes", MAX_RANK as u64, t.dims.len() as u64));
        }
        let dims = t.dims.iter().map(|d| u64::try_from(*d)).collect::<Result<Vec<_>, _>>();
        let dims = dims.map_err(|_| Error::malformed(name, format!("negative dimension in {:?}", t.dims)))?;
        let bytes = dims.iter().try_fold(dtype.size() as u64, |n, d| n.checked_mul(*d));
        let bytes = bytes.ok_or(Error::count(name, "bytes of a tensor", u64::MAX, u64::MAX))?;
        let data = match &t.raw_data {
            Some(raw) => Data::from(raw.clone()),
            None => typed(t, dtype),
        };
        if data.len() as u64 != bytes {
            return Err(Error::count(name, "bytes of data", bytes, data.len() as u64));
        }
        Ok(Constant { name: t.name.clone(), dtype, dims, data })
    }

    /// The elements as i64, for integer types.
    pub fn integers(&self) -> Option<Vec<i64>> {
        Some(match self.dtype {
            DType::I64 => self.data.numbers::<i64>().collect(),
            DType::I32 => self.data.numbers::<i32>().map(i64::from).collect(),
            DType::I8 => self.data.numbers::<i8>().map(i64::from).collect(),
            DType::Bool | DType::U8 => self.data.numbers::<u8>().map(i64::from).collect(),
            _ => return None,
        })
    }

    /// Whether the elements are floating-point numbers.
    pub fn floating(&self) -> bool {
        matches!(self.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// The elements as f32, for floating-point tensors.
    pub fn floats(&self) -> Option<Vec<f32>> {
        Some(match self.dtype {
            DType::F32 => self.data.numbers().collect(),
            DType::F64 => self.data.numbers::<f64>().map(|x| x as f32).collect(),
            DType::F16 => self.data.numbers::<u16>().map(|x| half::f16::from_bits(x).to_f32()).collect(),
            DType::BF16 => self.data.numbers::<u16>().map(|x| half::bf16::from_bits(x).to_f32()).collect(),
            _ => return None,
        })
    }
}

/// The bytes of a tensor stored as typed numbers.
fn typed(t: &TensorProto, dtype: DType) -> Data {
    let small = |size: usize| {
        let bytes = t.int32_data.iter().flat_map(|v| v.to_le_bytes().into_iter().take(size));
        Data::from(bytes.collect::<Vec<u8>>())
    };
    match dtype {
        DType::F32 | DType::C64 => Data::from_slice(&t.float_data),
        DType::F64 | DType::C128 => Data::from_slice(&t.double_data),
        DType::I64 => Data::from_slice(&t.int64_data),
        DType::U64 => Data::from_slice(&t.uint64_data),
        DType::U32 => Data::from_slice(&t.uint64_data.iter().map(|v| *v as u32).collect::<Vec<_>>()),
        other => small(other.size()),
    }
}
