//! Devices: the host, Vulkan, wgpu.

use crate::error::Error;

#[cfg(any(feature = "vulkan", feature = "wgpu"))]
static LIBRARY: crate::kernels::Library = crate::kernels::Library;

/// Something that runs models. Cloning gives another handle.
#[derive(Clone)]
#[non_exhaustive]
pub enum Device {
    /// The processor, with the host kernels.
    Host,
    /// A Vulkan device.
    #[cfg(feature = "vulkan")]
    Vulkan(serinette_vulkan::VulkanDevice),
    /// A device of wgpu.
    #[cfg(feature = "wgpu")]
    Wgpu(serinette_wgpu::WgpuDevice),
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What to give to [`Device::open`]: `host`, `vulkan:0`, `wgpu:1`.
    pub id: String,
    /// Name, from the driver.
    pub name: String,
    /// Kind (`discrete`, `integrated`, `software`, …) and driver, for people.
    pub detail: String,
    /// Whether it is a real accelerator rather than a software driver.
    pub accelerator: bool,
}

impl Device {
    /// Opens a device by description: `auto` (the first accelerator of [`Device::list`], else the host), `host`,
    /// `vulkan`, `wgpu`, each optionally with a number (`vulkan:1`) or a part of the name (`vulkan:llvmpipe`).
    pub fn open(description: &str) -> Result<Device, Error> {
        let (kind, which) = match description.split_once(':') {
            Some((k, w)) => (k, Some(w)),
            None => (description, None),
        };
        match (kind, which) {
            ("host", None) => Ok(Device::Host),
            ("auto", None) => match Device::list().iter().find(|d| d.accelerator) {
                Some(d) => Device::open(&d.id),
                None => Ok(Device::Host),
            },
            #[cfg(feature = "vulkan")]
            ("vulkan", which) => Ok(Device::Vulkan(open_vulkan(description, which)?)),
            #[cfg(feature = "wgpu")]
            ("wgpu", which) => Ok(Device::Wgpu(open_wgpu(description, which)?)),
            _ => Err(no_device(description, "expected auto, host, vulkan[:N] or wgpu[:N]")),
        }
    }

    /// Every device that can be opened: Vulkan devices, wgpu devices, the host. Drivers that are missing give none.
    #[cfg_attr(
        not(any(feature = "vulkan", feature = "wgpu")),
        expect(clippy::vec_init_then_push, reason = "the host is the last of what the features give")
    )]
    pub fn list() -> Vec<DeviceInfo> {
        let mut all = Vec::new();
        #[cfg(feature = "vulkan")]
        for (i, d) in serinette_vulkan::devices(&Default::default()).unwrap_or_default().iter().enumerate() {
            let kind = format!("{:?}", d.kind).to_lowercase();
            all.push(DeviceInfo {
                id: format!("vulkan:{i}"),
                name: d.name.clone(),
                accelerator: kind != "cpu",
                detail: format!("{kind}, {}", d.driver),
            });
        }
        #[cfg(feature = "wgpu")]
        for d in serinette_wgpu::WgpuDevice::devices(&Default::default()) {
            let kind = format!("{:?}", d.kind).to_lowercase();
            all.push(DeviceInfo {
                id: format!("wgpu:{}", d.index),
                name: d.name,
                accelerator: kind != "cpu",
                detail: format!("{kind}, {:?}, {}", d.backend, d.driver),
            });
        }
        all.push(DeviceInfo {
            id: "host".into(),
            name: std::env::consts::ARCH.into(),
            detail: "processor".into(),
            accelerator: false,
        });
        all
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        match self {
            Device::Host => format!("host ({})", std::env::consts::ARCH),
            #[cfg(feature = "vulkan")]
            Device::Vulkan(d) => format!("vulkan ({})", serinette_dispatch::Shell::name(d)),
            #[cfg(feature = "wgpu")]
            Device::Wgpu(d) => format!("wgpu ({})", serinette_dispatch::Shell::name(d)),
        }
    }

    /// `host`, `vulkan` or `wgpu`.
    pub fn kind(&self) -> &'static str {
        match self {
            Device::Host => "host",
            #[cfg(feature = "vulkan")]
            Device::Vulkan(_) => "vulkan",
            #[cfg(feature = "wgpu")]
            Device::Wgpu(_) => "wgpu",
        }
    }

    /// Whether plans with several steps in a wave suit it.
    pub(crate) fn parallel(&self) -> bool {
        !matches!(self, Device::Host)
    }
}

fn no_device(wanted: &str, reason: impl ToString) -> Error {
    Error::NoDevice { wanted: wanted.into(), reason: reason.to_string() }
}

#[cfg(feature = "vulkan")]
fn open_vulkan(wanted: &str, which: Option<&str>) -> Result<serinette_vulkan::VulkanDevice, Error> {
    use serinette_vulkan::{Options, Selector, VulkanDevice};
    let device = match which.map(|w| (w, w.parse())) {
        None => Selector::Any,
        Some((_, Ok(number))) => Selector::Index(number),
        Some((name, Err(_))) => Selector::Name(name.into()),
    };
    let options = Options { device, timestamps: true, ..Default::default() };
    VulkanDevice::open(&options, &LIBRARY).map_err(|e| no_device(wanted, e))
}

#[cfg(feature = "wgpu")]
fn open_wgpu(wanted: &str, which: Option<&str>) -> Result<serinette_wgpu::WgpuDevice, Error> {
    use serinette_wgpu::{Options, Selector, WgpuDevice};
    let device = match which.map(|w| (w, w.parse())) {
        None => Selector::Any,
        Some((_, Ok(number))) => Selector::Index(number),
        Some((name, Err(_))) => Selector::Name(name.into()),
    };
    WgpuDevice::open(&Options { device, ..Default::default() }, &LIBRARY).map_err(|e| no_device(wanted, e))
}
