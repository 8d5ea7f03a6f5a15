//! RLX's registry of backends.
//!
//! The registry takes a plain function for each of RLX's devices, which cannot carry anything along; so there is a
//! function for each device, and a table of what it makes.

use crate::backend::SerinetteBackend;
use crate::error::Error;
use rlx_driver::Device;
use rlx_runtime::{Backend, BackendFactory, register_backend};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where Serinette runs a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The processor, with the host kernels.
    Host,
    /// A Vulkan device: the best one there is.
    Vulkan,
    /// A device of wgpu: the best one there is.
    Wgpu,
}

const TARGETS: [Target; 3] = [Target::Host, Target::Vulkan, Target::Wgpu];

/// RLX's devices. The list is closed.
const DEVICES: usize = Device::WebGpu as usize + 1;

/// The target of each of RLX's devices, as an index of [`TARGETS`].
static TARGET_OF: [AtomicU8; DEVICES] = [const { AtomicU8::new(0) }; DEVICES];

fn factory<const DEVICE: usize>() -> Box<dyn Backend> {
    let target = TARGETS.get(usize::from(TARGET_OF[DEVICE].load(Ordering::Acquire)));
    Box::new(SerinetteBackend::new(target.copied().unwrap_or(Target::Host)))
}

static FACTORIES: [BackendFactory; DEVICES] = [
    factory::<0>,
    factory::<1>,
    factory::<2>,
    factory::<3>,
    factory::<4>,
    factory::<5>,
    factory::<6>,
    factory::<7>,
    factory::<8>,
    factory::<9>,
    factory::<10>,
    factory::<11>,
    factory::<12>,
    factory::<13>,
    factory::<14>,
    factory::<15>,
];

/// Makes RLX run graphs for `device` on `target`, in place of whatever ran them before.
///
/// The target is opened here, so that RLX, which takes every registered device for available, is right. If RLX is
/// built with its own backend for `device`, RLX asks that backend whether the device is available; a device whose
/// feature is off (`Vulkan`, or `DirectX`, which has none) is free of such conditions.
///
/// # Errors
/// The target cannot be opened; nothing is registered then.
pub fn register_as(device: Device, target: Target) -> Result<(), Error> {
    open(target)?;
    let slot = device as usize;
    if let (Some(of), Some(factory)) = (TARGET_OF.get(slot), FACTORIES.get(slot)) {
        of.store(target as u8, Ordering::Release);
        register_backend(device, *factory);
    }
    Ok(())
}

/// One line of [`register`].
#[derive(Debug)]
pub struct Registration {
    /// RLX's device.
    pub device: Device,
    /// What was to run behind it.
    pub target: Target,
    /// Whether it does.
    pub outcome: Result<(), Error>,
}

/// Registers the targets that this machine has behind the devices of RLX with the same meaning: [`Target::Vulkan`]
/// as `Vulkan`, [`Target::Wgpu`] as `Gpu`. [`Target::Host`] is left to [`register_as`]: RLX's own processor backend
/// is often wanted beside.
#[must_use = "a target that this machine lacks is reported here and nowhere else"]
pub fn register() -> Vec<Registration> {
    let pairs = [(Device::Vulkan, Target::Vulkan), (Device::Gpu, Target::Wgpu)];
    pairs
        .into_iter()
        .map(|(device, target)| Registration { device, target, outcome: register_as(device, target) })
        .collect()
}

/// The opened device of each target: instances and devices take long to make, and graphs share them.
static OPEN: [Mutex<Option<serinette::Device>>; TARGETS.len()] = [const { Mutex::new(None) }; TARGETS.len()];

/// The device of a target, opened if it is not.
pub(crate) fn open(target: Target) -> Result<serinette::Device, Error> {
    // What a panicking thread leaves in a slot is whole: nothing or a device.
    let mut slot = OPEN[target as usize].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = &*slot {
        return Ok(device.clone());
    }
    let device = serinette::Device::open(match target {
        Target::Host => "host",
        Target::Vulkan => "vulkan",
        Target::Wgpu => "wgpu",
    })?;
    Ok(slot.insert(device).clone())
}

/// Drops the device of a target, after it failed: the next [`open`] makes a new one.
pub(crate) fn forget(target: Target) {
    *OPEN[target as usize].lock().unwrap_or_else(PoisonError::into_inner) = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_in_the_order_of_their_numbers() {
        for (i, t) in TARGETS.into_iter().enumerate() {
            assert_eq!(t as usize, i);
        }
    }
}
