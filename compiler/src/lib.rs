//! Compiler: graph builder, ONNX importer, passes, planning and the blob writer.

pub mod blob;
