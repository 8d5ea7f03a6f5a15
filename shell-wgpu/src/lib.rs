//! The wgpu shell: runs dispatches on Vulkan, Metal and DX12.
//!
//! [`WgpuDevice`] implements [`Shell`](serinette_dispatch::Shell): buffers, pipelines made from the library's WGSL,
//! recordings that are encoded again for every run (wgpu has no reusable command buffers).
//!
//! # Parameters
//!
//! Where the device has immediates and room for a kernel's words, the immediate form of the kernel is used; else the
//! uniform form, with one 256-byte slot a dispatch in a buffer that is filled when recording.
//!
//! # Order
//!
//! wgpu itself puts a memory barrier before every dispatch that binds a buffer written earlier, also within a pass,
//! and usage is tracked a dispatch at a time, so a gate that writes the indirect buffer and the dispatches that take
//! their grids from it may share a pass. [`Command::Barrier`](serinette_dispatch::Command::Barrier) therefore adds
//! nothing.
//!
//! # Failures
//!
//! Every failure is a [`ShellError`](serinette_dispatch::ShellError); [`WgpuDevice::last_error`] has the driver's
//! text, which is also logged. [`ShellError::Driver`](serinette_dispatch::ShellError::Driver) carries one of the codes
//! in [`code`]. When a device is lost while waiting for it, wgpu panics inside its poll; the shell catches this
//! panic (in programs built with unwinding) and returns `DeviceLost`.

// What only the blocking half uses.
#![cfg_attr(target_arch = "wasm32", allow(dead_code))]

mod cache;
mod device;
mod errors;
mod kernels;
mod options;

// What blocks on the device. In a browser nothing may block.
#[cfg(not(target_arch = "wasm32"))]
mod buffer;
#[cfg(not(target_arch = "wasm32"))]
mod record;
#[cfg(not(target_arch = "wasm32"))]
mod run;
#[cfg(not(target_arch = "wasm32"))]
mod shell;
#[cfg(not(target_arch = "wasm32"))]
mod wait;

#[cfg(not(target_arch = "wasm32"))]
pub use buffer::WgpuBuffer;
pub use device::WgpuDevice;
pub use errors::code;
pub use options::{CachePolicy, DeviceInfo, Options, Selector};
#[cfg(not(target_arch = "wasm32"))]
pub use record::WgpuRecording;
/// The version of wgpu that [`Options`], [`DeviceInfo`] and [`WgpuDevice::from_parts`] speak of.
pub use wgpu;
