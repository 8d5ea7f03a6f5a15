//! Weights for graphs that are built: tensors of a safetensors file or an archive of NumPy arrays, by name.
//!
//! ```no_run
//! use serinette_compiler::{GraphBuilder, WeightFile};
//! let file = WeightFile::safetensors(std::fs::read("model.safetensors")?)?;
//! let mut b = GraphBuilder::new();
//! let w = b.weight_of(&file, "encoder.weight")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::builder::GraphBuilder;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::Tensor;
use bytes::Bytes;
use npyz::{Order, TypeChar};
use serinette_core::DType;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// Tensors by name.
#[derive(Clone, Debug, Default)]
pub struct WeightFile {
    tensors: BTreeMap<String, Tensor>,
}

impl WeightFile {
    /// The tensors of a safetensors file, which share its bytes.
    ///
    /// # Errors
    /// Bytes that are no such file, and element types that do not exist here (8-bit floats and narrower).
    pub fn safetensors(file: impl Into<Bytes>) -> Result<WeightFile, Error> {
        use safetensors::{Dtype, SafeTensors};
        let file = file.into();
        let wrong = |e: String| Error::malformed("safetensors file", e);
        let parsed = SafeTensors::deserialize(&file).map_err(|e| wrong(e.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (name, t) in parsed.iter() {
            let dtype = match t.dtype() {
                Dtype::BOOL => DType::Bool,
                Dtype::U8 => DType::U8,
                Dtype::I8 => DType::I8,
                Dtype::I16 => DType::I16,
                Dtype::U16 => DType::U16,
                Dtype::F16 => DType::F16,
                Dtype::BF16 => DType::BF16,
                Dtype::I32 => DType::I32,
                Dtype::U32 => DType::U32,
                Dtype::F32 => DType::F32,
                Dtype::F64 => DType::F64,
                Dtype::I64 => DType::I64,
                Dtype::U64 => DType::U64,
                other => return Err(wrong(format!("tensor {name}: element type {other:?} is not known"))),
            };
            let dims = t.shape().iter().map(|d| *d as u64).collect();
            let data = Data::from(file.slice_ref(t.data()));
            tensors.insert(name.to_owned(), Tensor { dtype, dims, data });
        }
        Ok(WeightFile { tensors })
    }

    /// The arrays of a `.npz` file, little-endian and in C order as `numpy.savez` writes them.
    ///
    /// # Errors
    /// Bytes that are no such file, and arrays of texts, objects, other byte or axis orders.
    pub fn npz(file: impl Into<Bytes>) -> Result<WeightFile, Error> {
        let wrong = |e: String| Error::malformed("npz file", e);
        let archive = zip::ZipArchive::new(Cursor::new(file.into()));
        let mut archive = archive.map_err(|e| wrong(e.to_string()))?;
        let mut tensors = BTreeMap::new();
        for i in 0..archive.len() {
            let mut member = archive.by_index(i).map_err(|e| wrong(e.to_string()))?;
            let name = member.name().map_err(|e| wrong(e.to_string()))?.into_owned();
            let name =
                name.strip_suffix(".npy").ok_or_else(|| wrong(format!("{name} is no array")))?.to_owned();
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).map_err(|e| wrong(format!("array {name}: {e}")))?;
            let tensor = array(&bytes).map_err(|e| wrong(format!("array {name}: {e}")))?;
            tensors.insert(name, tensor);
        }
        Ok(WeightFile { tensors })
    }

    /// The names, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor by its name.
    ///
    /// # Errors
    /// A name that is not there; the error says the nearest.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, Error> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::unknown("weight", name, self.tensors.keys().cloned().collect()))
    }
}

/// The contents of a `.npy` file.
fn array(bytes: &[u8]) -> Result<Tensor, String> {
    let mut rest = bytes;
    let file = npyz::NpyFile::new(&mut rest).map_err(|e| e.to_string())?;
    let (kind, order, shape) = (file.dtype(), file.order(), file.shape().to_vec());
    drop(file);
    let npyz::DType::Plain(kind) = kind else { return Err("records are not known".into()) };
    let wide = kind.num_bytes().unwrap_or(0);
    let dtype = match (kind.type_char(), wide) {
        (TypeChar::Bool, 1) => DType::Bool,
        (TypeChar::Int, 1) => DType::I8,
        (TypeChar::Int, 2) => DType::I16,
        (TypeChar::Int, 4) => DType::I32,
        (TypeChar::Int, 8) => DType::I64,
        (TypeChar::Uint, 1) => DType::U8,
        (TypeChar::Uint, 2) => DType::U16,
        (TypeChar::Uint, 4) => DType::U32,
        (TypeChar::Uint, 8) => DType::U64,
        (TypeChar::Float, 2) => DType::F16,
        (TypeChar::Float, 4) => DType::F32,
        (TypeChar::Float, 8) => DType::F64,
        _ => return Err(format!("elements of type {kind}: expected numbers or bools")),
    };
    if kind.to_string().starts_with('>') {
        return Err("big-endian elements: expected little-endian ones".into());
    }
    if order == Order::Fortran && shape.len() > 1 {
        return Err("axes in Fortran order: expected C order".into());
    }
    let expected = shape.iter().try_fold(dtype.size() as u64, |n, d| n.checked_mul(*d));
    if expected != Some(rest.len() as u64) {
        return Err(format!("shape {shape:?} of {dtype}: {} bytes of elements", rest.len()));
    }
    Ok(Tensor { dtype, dims: shape, data: Data::from(rest.to_vec()) })
}

impl GraphBuilder {
    /// A tensor of a file as a weight of the same name.
    ///
    /// # Errors
    /// A name that the file does not have, or that the graph has already.
    pub fn weight_of(&mut self, file: &WeightFile, name: &str) -> Result<Value, Error> {
        let t = file.tensor(name)?;
        self.weight(name, t.dtype, &t.dims, t.data.clone())
    }
}
