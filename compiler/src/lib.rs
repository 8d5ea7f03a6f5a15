//! The compiler: a graph becomes a schedule blob.
//!
//! A graph is built with [`GraphBuilder`] or imported from ONNX ([`onnx`]). [`compile()`] runs the passes
//! ([`passes`]), writes the program records ([`blob`]) and plans memory.

pub mod blob;
pub mod builder;
mod data;
pub mod dims;
mod error;
pub mod graph;
pub mod onnx;

pub use builder::{GraphBuilder, LoopSpec, Size, Trips};
pub use data::Data;
pub use error::{Error, Unsupported};
pub use graph::{Graph, Value};
