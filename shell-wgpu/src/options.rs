//! What to open, and what there is to open.

use std::path::PathBuf;
use std::time::Duration;

/// Which device to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// The best by [`Options::power`]; software devices come last.
    #[default]
    Any,
    /// The device of this [`DeviceInfo::index`].
    Index(usize),
    /// The first device whose name contains this text, upper and lower case alike.
    Name(String),
}

/// Where compiled pipelines are kept between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// `serinette` in the user's cache directory (`XDG_CACHE_HOME`, `LOCALAPPDATA`, or `.cache` in `HOME`); nowhere if
    /// none of these is set.
    #[default]
    Default,
    /// This directory, which is made if it is not there.
    Directory(PathBuf),
    /// Nowhere.
    Off,
}

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Programming interfaces to look for devices in.
    pub backends: wgpu::Backends,
    /// Which device.
    pub device: Selector,
    /// What [`Selector::Any`] prefers: `LowPower` integrated devices, otherwise discrete ones.
    pub power: wgpu::PowerPreference,
    /// Pass parameters as uniforms even where the device has immediates. For tests.
    pub force_uniform_params: bool,
    /// Compile kernels with bounds checks, loop bounds and division checks. For tests: up to a quarter slower.
    pub checked: bool,
    /// Measure the time on the device, where it can be measured.
    pub timestamps: bool,
    /// Where compiled pipelines are kept. Used on Vulkan; elsewhere drivers keep their own.
    pub cache: CachePolicy,
    /// Longest wait for each part (up to 32 MiB) of an upload or download.
    pub transfer_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backends: wgpu::Backends::all(),
            device: Selector::Any,
            power: wgpu::PowerPreference::HighPerformance,
            force_uniform_params: false,
            checked: false,
            timestamps: true,
            cache: CachePolicy::Default,
            transfer_timeout: Duration::from_secs(60),
        }
    }
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number for [`Selector::Index`]; stable while drivers and devices stay the same.
    pub index: usize,
    /// Name, for people and [`Selector::Name`].
    pub name: String,
    /// Programming interface.
    pub backend: wgpu::Backend,
    /// Discrete, integrated, software …
    pub kind: wgpu::DeviceType,
    /// Vendor number (a PCI id where it fits 16 bits).
    pub vendor: u32,
    /// Device number of the vendor.
    pub device: u32,
    /// Driver and its version.
    pub driver: String,
}

impl DeviceInfo {
    pub(crate) fn new(index: usize, info: &wgpu::AdapterInfo) -> DeviceInfo {
        DeviceInfo {
            index,
            name: info.name.clone(),
            backend: info.backend,
            kind: info.device_type,
            vendor: info.vendor,
            device: info.device,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        }
    }
}
