//! The compiler: a graph becomes a schedule blob.
//!
//! A graph is built with [`GraphBuilder`] or imported from ONNX ([`onnx`]). [`compile()`] runs the passes
//! ([`passes`]), writes the program records ([`blob`]) and plans memory.

pub mod blob;
pub mod builder;
pub mod compile;
mod data;
pub mod dims;
mod error;
pub mod explain;
pub mod graph;
mod lower;
mod merge;
pub mod onnx;
pub mod passes;
pub mod weights;

pub use builder::{GraphBuilder, LoopSpec, Size, Trips};
pub use compile::{CompileOptions, CompileReport, Compiled, PlanReport, Profile, compile, compile_observed};
pub use data::Data;
pub use error::{Error, Unsupported};
pub use graph::{Graph, Value};
pub use lower::lower;
pub use merge::merge;
pub use passes::pack::Packing;
pub use passes::{Observer, Stage};
pub use weights::WeightFile;
