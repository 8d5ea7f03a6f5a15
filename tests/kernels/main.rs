//! The GPU kernels on every shell that finds a device.
//!
//! A case is laid out in an arena whose gaps hold a pattern, so that a write outside of the output shows. Where no
//! device is found, the tests fail: a software driver (lavapipe) will do.
#![cfg(any(feature = "vulkan", feature = "wgpu"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gates;
mod harness;
mod stress;
mod suite;

use serinette::kernels::Library;
use serinette_dispatch::Shell;

/// Everything, on one device: a device is opened once for all, since each kernel is compiled once for it.
fn all<S: Shell>(shell: &S) {
    suite::suite(shell);
    stress::stress(shell);
    gates::gates(shell);
}

#[cfg(feature = "vulkan")]
#[test]
fn on_vulkan() {
    let options = serinette_vulkan::Options {
        cache: serinette_vulkan::CachePolicy::Off,
        validation: std::env::var_os("SERINETTE_VALIDATION").is_some(),
        ..Default::default()
    };
    match serinette_vulkan::VulkanDevice::open(&options, &Library) {
        Ok(device) => {
            all(&device);
            let messages = device.messages().messages();
            assert!(messages.is_empty(), "{}", messages.join("\n"));
        }
        Err(e) => panic!("no Vulkan device, not even lavapipe: {e}"),
    }
}

#[cfg(feature = "wgpu")]
fn wgpu(force_uniform_params: bool) {
    let options = serinette_wgpu::Options {
        cache: serinette_wgpu::CachePolicy::Off,
        force_uniform_params,
        ..Default::default()
    };
    match serinette_wgpu::WgpuDevice::open(&options, &Library) {
        Ok(device) => all(&device),
        Err(e) => panic!("no device, not even lavapipe: {e}"),
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn on_wgpu() {
    wgpu(false);
}

#[cfg(feature = "wgpu")]
#[test]
fn on_wgpu_with_uniform_parameters() {
    wgpu(true);
}
