//! Small readings of ONNX files for tools: the names of a graph, a tensor in a file of its own.

use super::proto::{ModelProto, TensorProto};
use super::tensor::Constant;
use crate::data::Data;
use crate::error::Error;
use bytes::Bytes;
use prost::Message;
use serinette_core::DType;

/// A tensor with its contents.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// Elements, little-endian, in the bytes of their type.
    pub data: Data,
}

/// Reads a file that holds one `TensorProto`, such as those beside the models of the ONNX backend tests.
///
/// # Errors
/// Bytes that are no tensor message, an element type that does not exist here (strings, sub-byte types), contents that do
/// not fit the dimensions.
pub fn read_tensor(file: impl Into<Bytes>) -> Result<Tensor, Error> {
    let t = TensorProto::decode(file.into());
    let t = t.map_err(|e| Error::malformed("tensor", format!("not a tensor message: {e}")))?;
    let c = Constant::read(&t, "tensor")?;
    Ok(Tensor { dtype: c.dtype, dims: c.dims, data: c.data })
}

/// Names of the inputs of a model that no initialiser fills, and of its outputs, in order.
///
/// # Errors
/// Bytes that are no ONNX model.
pub fn graph_io(file: &[u8]) -> Result<(Vec<String>, Vec<String>), Error> {
    let model = ModelProto::decode(file);
    let model = model.map_err(|e| Error::malformed("file", format!("not an ONNX model: {e}")))?;
    let graph = model.graph.ok_or(Error::malformed("file", "an ONNX model without a graph"))?;
    let filled = |name: &str| graph.initializer.iter().any(|t| t.name == name);
    let inputs = graph.input.iter().map(|v| v.name.clone()).filter(|n| !filled(n)).collect();
    Ok((inputs, graph.output.iter().map(|v| v.name.clone()).collect()))
}
