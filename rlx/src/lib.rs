//! RLX graphs on Serinette's devices.
//!
//! ```no_run
//! use rlx_driver::Device;
//! use rlx_runtime::Session;
//! use serinette_rlx::Target;
//!
//! # fn main() -> Result<(), serinette_rlx::Error> {
//! serinette_rlx::register_as(Device::Vulkan, Target::Vulkan)?;
//! # let graph = rlx_ir::Graph::new("model");
//! std::fs::write("model.srn", serinette_rlx::to_blob(&graph)?).ok(); // the same graph for an edge device
//! let mut compiled = Session::new(Device::Vulkan).compile(graph);
//! compiled.set_param("w", &[0.5; 12]);
//! let outputs = compiled.run(&[("x", &[1.0; 3])]);
//! # Ok(()) }
//! ```
//!
//! RLX finds backends in a registry that is keyed by its closed list of devices. [`register_as`] puts Serinette
//! behind one of them; the whole way from the graph to the device is then Serinette's: RLX's graph becomes a graph
//! of `serinette-compiler`, that becomes a blob in memory, and sessions on the blob run it. [`to_blob`] gives the
//! same blob as bytes.
//!
//! # What is taken
//! [`SUPPORTED_OPS`] lists the kinds. RLX's list knows kinds only, so some members of a kind are refused when the
//! graph is compiled, all of them in one error ([`Error::Unsupported`]): of the binary functions `Add` and `Mul`
//! are taken, of the activations `Relu`, of the element types those that the op table has for the op. Kinds that
//! are not listed are first rewritten by RLX's own passes, as RLX does for its own backends.
//!
//! # Errors
//! Inside this crate errors are values. RLX's traits have no place for them, so exactly there ([`SerinetteBackend`]
//! and the compiled graphs it makes) they become RLX's `LowerError`, or else panics with the text of the error,
//! which RLX's `try_…` functions catch.

mod backend;
mod blob;
mod convert;
mod error;
mod executable;
mod register;
mod translate;

pub use backend::{SUPPORTED_OPS, SerinetteBackend};
pub use blob::{BlobOptions, to_blob, to_blob_with};
pub use error::{Error, Unsupported};
pub use register::{Registration, Target, register, register_as};
