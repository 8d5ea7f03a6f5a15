//! Serinette runs machine-learning models that were compiled once into a *schedule blob*.
//!
//! ```no_run
//! # fn main() -> Result<(), serinette::Error> {
//! use serinette::{Device, Model, SessionOptions, TensorView};
//!
//! let model = Model::open("classifier.srn")?; // verified here, before anything runs
//! let device = Device::open("auto")?;
//! println!("needs {:?}", model.requirements(&device)?); // before anything is allocated
//! let mut session = model.session(&device, &SessionOptions::default())?;
//! let image = vec![0.5f32; 28 * 28];
//! let outputs = session.run("main", &[("image", TensorView::f32(&[1, 1, 28, 28], &image))])?;
//! println!("{:?}", outputs.named("probabilities")?.view().to_f32());
//! # Ok(()) }
//! ```
//!
//! A [`Model`] is a verified blob; a [`Session`] is a model on a [`Device`] with its own memory and state. The blob
//! itself is the work of `serinette-core`, which needs no allocator and no operating system; this crate is for
//! hosts: it maps files, chooses devices and drives them.
//!
//! Features: `vulkan` and `wgpu` bring the device shells with the kernel library, `compiler` compiles ONNX models in
//! memory. All are on by default.

mod buffer;
pub mod compare;
#[cfg(feature = "compiler")]
pub mod compile;
mod cost;
mod device;
mod error;
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
pub mod kernels;
mod map;
mod model;
mod requirements;
pub mod self_test;
mod session;
mod tensor;

pub use cost::step_cost;
pub use device::{Device, DeviceInfo};
pub use error::Error;
pub use model::{Model, OpenOptions};
pub use requirements::Requirements;
pub use serinette_core as core;
pub use serinette_core::DType;
pub use session::{Output, Outputs, RunStats, SavedState, Session, SessionOptions, StepTime, Tap};
pub use tensor::{Tensor, TensorView};

/// The host kernels of a program, by signature: the fast ones, or the reference where the same bits are wanted on every
/// processor.
fn host_kernels(model: &Model, deterministic: bool) -> Result<Vec<serinette_core::schedule::Kernel>, Error> {
    use serinette_host_kernels::{fast, registry};
    let table = if deterministic { registry::table } else { fast::table };
    table(model.program()).map_err(|e| Error::NoKernel { missing: vec![e.to_string()] })
}
