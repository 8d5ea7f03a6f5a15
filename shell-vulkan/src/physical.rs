//! Physical devices: which there are and what they can do.

use ash::vk;
use serinette_dispatch::{DeviceCaps, MAX_WINDOW, ShellError};

use crate::device::driver_error;
use crate::instance::{Instance, has_extension};

/// Push-constant bytes that the pipeline layout has: what every Vulkan device offers.
pub(crate) const PUSH_BYTES: u32 = 128;

/// Which device to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// The device at this place in the list of [`crate::devices`].
    Index(usize),
    /// The first whose name contains this text, regardless of case.
    Name(String),
    /// The best: discrete before integrated before virtual before processor.
    #[default]
    Any,
}

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares memory with the host.
    Integrated,
    /// A GPU inside a virtual machine.
    Virtual,
    /// The processor itself.
    Cpu,
    /// Something else.
    Other,
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, from the driver.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The driver's name and version as its maker writes them; the bare version number where the driver gives none.
    pub driver: String,
    /// Vulkan version: major, minor, patch.
    pub api_version: [u32; 3],
    /// Limits that matter to kernels.
    pub caps: DeviceCaps,
}

/// A physical device, with all that is needed to open it.
pub(crate) struct Physical {
    pub raw: vk::PhysicalDevice,
    pub info: DeviceInfo,
    pub queue_family: u32,
    /// Valid bits of a timestamp, 0 where the queue has none.
    pub timestamp_bits: u32,
    pub properties: vk::PhysicalDeviceProperties,
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub extensions: Vec<vk::ExtensionProperties>,
}

impl Physical {
    /// Whether the device has this core version.
    pub fn at_least(&self, version: u32) -> bool {
        self.properties.api_version >= version
    }
}

/// The usable devices: Vulkan 1.1 and a compute queue.
pub(crate) fn enumerate(instance: &Instance) -> Result<Vec<Physical>, ShellError> {
    // SAFETY: the instance is alive.
    let all = unsafe { instance.raw.enumerate_physical_devices() }.map_err(|error| match error {
        vk::Result::ERROR_INITIALIZATION_FAILED => ShellError::Unavailable("no Vulkan driver starts"),
        error => driver_error("vkEnumeratePhysicalDevices", error, 0),
    })?;
    let mut usable = Vec::with_capacity(all.len());
    for raw in all {
        usable.extend(describe(instance, raw)?);
    }
    Ok(usable)
}

/// Takes the chosen device out of the list.
pub(crate) fn select(mut devices: Vec<Physical>, selector: &Selector) -> Result<Physical, ShellError> {
    if devices.is_empty() {
        return Err(ShellError::Unavailable("no device with Vulkan 1.1 and a compute queue"));
    }
    let found = match selector {
        Selector::Index(index) => (*index < devices.len()).then_some(*index),
        Selector::Name(name) => {
            let name = name.to_lowercase();
            devices.iter().position(|device| device.info.name.to_lowercase().contains(&name))
        }
        Selector::Any => (0..devices.len()).min_by_key(|&i| devices[i].info.kind),
    };
    found
        .map(|index| devices.swap_remove(index))
        .ok_or(ShellError::Unavailable("no device of that number or name"))
}

fn describe(instance: &Instance, raw: vk::PhysicalDevice) -> Result<Option<Physical>, ShellError> {
    let instance = &instance.raw;
    // SAFETY: `raw` is a physical device of the instance.
    let (properties, families) = unsafe {
        (
            instance.get_physical_device_properties(raw),
            instance.get_physical_device_queue_family_properties(raw),
        )
    };
    let compute = families
        .iter()
        .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0);
    let Some(queue_family) = compute.filter(|_| properties.api_version >= vk::API_VERSION_1_1) else {
        return Ok(None);
    };
    // SAFETY: as above.
    let extensions = unsafe { instance.enumerate_device_extension_properties(raw) }
        .map_err(|e| driver_error("vkEnumerateDeviceExtensionProperties", e, 0))?;
    // SAFETY: as above.
    let memory = unsafe { instance.get_physical_device_memory_properties(raw) };

    let has = |version, name| properties.api_version >= version || has_extension(&extensions, name);
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut maintenance3 = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let has_sizes = has(vk::API_VERSION_1_3, ash::ext::subgroup_size_control::NAME);
    let has_maintenance4 = has(vk::API_VERSION_1_3, ash::khr::maintenance4::NAME);
    let has_driver = has(vk::API_VERSION_1_2, ash::khr::driver_properties::NAME);
    let mut chain =
        vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup).push_next(&mut maintenance3);
    if has_sizes {
        chain = chain.push_next(&mut sizes);
    }
    if has_maintenance4 {
        chain = chain.push_next(&mut maintenance4);
    }
    if has_driver {
        chain = chain.push_next(&mut driver);
    }
    // SAFETY: the device has Vulkan 1.1, and every structure in the chain belongs to a version or an extension
    // that it has.
    unsafe { instance.get_physical_device_properties2(raw, &mut chain) };

    let largest_buffer =
        if has_maintenance4 { maintenance4.max_buffer_size } else { maintenance3.max_memory_allocation_size };
    let subgroup = match (has_sizes, subgroup.subgroup_size) {
        (true, _) => [sizes.min_subgroup_size.max(1), sizes.max_subgroup_size.max(1)],
        (false, size) => [size.max(1); 2],
    };
    let kind = match properties.device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
        vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    };
    let info = DeviceInfo {
        name: text(properties.device_name_as_c_str()),
        kind,
        driver: if has_driver {
            format!("{} {}", text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()))
        } else {
            properties.driver_version.to_string()
        },
        api_version: [
            vk::api_version_major(properties.api_version),
            vk::api_version_minor(properties.api_version),
            vk::api_version_patch(properties.api_version),
        ],
        caps: caps(&properties.limits, &memory, kind, largest_buffer, subgroup),
    };
    Ok(Some(Physical {
        raw,
        info,
        queue_family: queue_family as u32,
        timestamp_bits: families[queue_family].timestamp_valid_bits,
        properties,
        memory,
        extensions,
    }))
}

fn caps(
    limits: &vk::PhysicalDeviceLimits,
    memory: &vk::PhysicalDeviceMemoryProperties,
    kind: DeviceKind,
    largest_buffer: u64,
    subgroup: [u32; 2],
) -> DeviceCaps {
    let largest_heap = memory.memory_heaps_as_slice().iter().map(|heap| heap.size).max().unwrap_or(0);
    let shared = vk::MemoryPropertyFlags::DEVICE_LOCAL | vk::MemoryPropertyFlags::HOST_VISIBLE;
    let visible = memory.memory_types_as_slice().iter().any(|kind| kind.property_flags.contains(shared));
    DeviceCaps {
        max_workgroups: limits.max_compute_work_group_count,
        max_invocations: limits.max_compute_work_group_invocations,
        shared_bytes: limits.max_compute_shared_memory_size,
        max_binding: u64::from(limits.max_storage_buffer_range).min(MAX_WINDOW) & !3,
        max_buffer: largest_buffer.min(largest_heap) & !3,
        // Powers of two below 2^32 by the specification.
        window_align: (limits.min_storage_buffer_offset_alignment.max(4)) as u32,
        immediate_bytes: limits.max_push_constants_size.min(PUSH_BYTES),
        subgroup,
        unified_memory: visible && matches!(kind, DeviceKind::Integrated | DeviceKind::Cpu),
    }
}

fn text(text: Result<&std::ffi::CStr, std::ffi::FromBytesUntilNulError>) -> String {
    text.map_or_else(|_| String::from("unknown"), |text| text.to_string_lossy().into_owned())
}
