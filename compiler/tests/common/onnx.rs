//! ONNX files of a test, made by hand.

use prost::Message;
use serinette_compiler::onnx::proto::*;
use serinette_compiler::{Error, Graph};

/// An input or output of type `kind`; a size is a number, a name, or empty for one without a name.
pub fn info(name: &str, kind: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = |d: &&str| match d.parse() {
        Ok(n) => DimensionProto { dim_value: Some(n), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: (!d.is_empty()).then(|| (*d).to_owned()) },
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: kind, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// A node that is named after its first output.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|s| (*s).into()).collect(),
        output: outputs.iter().map(|s| (*s).into()).collect(),
        name: outputs.first().map_or(String::new(), |o| format!("{o}_node")),
        op_type: op.into(),
        attribute,
        ..Default::default()
    }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), f: Some(f), kind: 1, ..Default::default() }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i: Some(i), kind: 2, ..Default::default() }
}

pub fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto { name: name.into(), s: Some(s.as_bytes().to_vec().into()), kind: 3, ..Default::default() }
}

pub fn body(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), g: Some(Box::new(g)), kind: 5, ..Default::default() }
}

pub fn floats(name: &str, v: &[f32]) -> AttributeProto {
    AttributeProto { name: name.into(), floats: v.into(), kind: 6, ..Default::default() }
}

pub fn ints(name: &str, v: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: v.into(), kind: 7, ..Default::default() }
}

/// A tensor of type `kind` from its bytes.
pub fn tensor<T: bytemuck::NoUninit>(name: &str, kind: i32, dims: &[i64], values: &[T]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.into(),
        data_type: kind,
        raw_data: Some(bytemuck::cast_slice::<T, u8>(values).to_vec().into()),
        ..Default::default()
    }
}

/// A tensor in the field of its type instead of in bytes.
pub fn i64s(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    let (name, dims, int64_data) = (name.into(), dims.into(), values.into());
    TensorProto { name, dims, data_type: 7, int64_data, ..Default::default() }
}

/// A tensor in the field of its type instead of in bytes.
pub fn f32s(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let (name, dims, float_data) = (name.into(), dims.into(), values.into());
    TensorProto { name, dims, data_type: 1, float_data, ..Default::default() }
}

pub fn graph(
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
    input: Vec<ValueInfoProto>,
    output: Vec<ValueInfoProto>,
) -> GraphProto {
    GraphProto { node, initializer, input, output, ..Default::default() }
}

/// The file of a graph in the opset `domain` of `version`.
pub fn file(graph: GraphProto, domain: &str, version: i64) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: domain.into(), version }];
    ModelProto { ir_version: 10, graph: Some(graph), opset_import, ..Default::default() }.encode_to_vec()
}

/// Why the only node that is refused is refused.
pub fn reason(result: Result<Graph, Error>) -> String {
    match result {
        Err(Error::Unsupported(list)) => list.iter().map(|u| u.reason.clone()).collect(),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("accepted"),
    }
}

/// What is said of a graph that means nothing.
pub fn wrong(result: Result<Graph, Error>) -> String {
    match result {
        Err(Error::Unsupported(list)) => panic!("{list:?}"),
        Err(e) => e.to_string(),
        Ok(_) => panic!("accepted"),
    }
}
