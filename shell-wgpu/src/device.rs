//! Finding and opening devices.

use crate::errors::{Errors, code};
use crate::kernels::Kernels;
use crate::options::{CachePolicy, DeviceInfo, Options, Selector};
use serinette_dispatch::{DeviceCaps, KernelLibrary, MAX_WINDOW, ShellError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wgpu::{DeviceType, DownlevelFlags, Features};

/// Storage buffers that a kernel binds.
const STORAGE_BINDINGS: u32 = 3;

/// A device opened with a kernel library. Clones are handles to the same device.
#[derive(Clone)]
pub struct WgpuDevice {
    pub(crate) inner: Arc<Inner>,
}

/// What all handles, buffers and recordings of a device share.
pub(crate) struct Inner {
    /// Tells the buffers of one device from those of another.
    pub(crate) id: u64,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) caps: DeviceCaps,
    pub(crate) library: &'static dyn KernelLibrary,
    pub(crate) errors: Arc<Errors>,
    pub(crate) kernels: Kernels,
    /// Nanoseconds of a tick; `None` where time is not measured.
    pub(crate) tick_ns: Option<f32>,
    pub(crate) transfer_timeout: Duration,
    /// Bound where a model has no weights.
    pub(crate) no_weights: wgpu::Buffer,
}

/// How the shell uses a device, beyond which device it is.
struct Mode {
    force_uniform_params: bool,
    checked: bool,
    timestamps: bool,
    cache: CachePolicy,
    transfer_timeout: Duration,
}

impl From<&Options> for Mode {
    fn from(o: &Options) -> Mode {
        Mode {
            force_uniform_params: o.force_uniform_params,
            checked: o.checked,
            timestamps: o.timestamps,
            cache: o.cache.clone(),
            transfer_timeout: o.transfer_timeout,
        }
    }
}

impl WgpuDevice {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// `Unavailable` where there is no device, none that matches, or none with compute shaders; `Invalid` for a
    /// library with impossible kernels; else what the driver says.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(options: &Options, library: &'static dyn KernelLibrary) -> Result<WgpuDevice, ShellError> {
        crate::wait::block_on(WgpuDevice::open_async(options, library))
    }

    /// Opens a device without blocking. Errors as for `open`.
    pub async fn open_async(
        options: &Options,
        library: &'static dyn KernelLibrary,
    ) -> Result<WgpuDevice, ShellError> {
        let adapter = select(adapters(options).await, options)?;
        require_compute(&adapter)?;
        let wanted = Features::IMMEDIATES
            | Features::PIPELINE_CACHE
            | Features::TIMESTAMP_QUERY
            | Features::SUBGROUP
            | Features::SHADER_F16;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("serinette"),
            required_features: adapter.features() & wanted,
            required_limits: adapter.limits(),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|e| {
            log::error!("request_device: {e}");
            ShellError::Driver { call: "request_device", code: code::OPEN }
        })?;
        let errors = Arc::new(Errors::default());
        errors.watch(&device);
        WgpuDevice::assemble(adapter.get_info(), device, queue, errors, library, &options.into())
    }

    /// Uses a device that an application has opened, and shares its queue. The application's own error and
    /// device-lost handlers stay in place. Immediates, timestamps and the pipeline cache are used if the device has
    /// their features; pipelines are kept where [`CachePolicy::Default`] says.
    ///
    /// # Errors
    ///
    /// As for `open`.
    pub fn from_parts(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        library: &'static dyn KernelLibrary,
    ) -> Result<WgpuDevice, ShellError> {
        require_compute(adapter)?;
        let errors = Arc::new(Errors::default());
        WgpuDevice::assemble(
            adapter.get_info(),
            device,
            queue,
            errors,
            library,
            &(&Options::default()).into(),
        )
    }

    fn assemble(
        info: wgpu::AdapterInfo,
        device: wgpu::Device,
        queue: wgpu::Queue,
        errors: Arc<Errors>,
        library: &'static dyn KernelLibrary,
        mode: &Mode,
    ) -> Result<WgpuDevice, ShellError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let caps = caps(&device, &info, mode.force_uniform_params);
        if device.limits().max_storage_buffers_per_shader_stage < STORAGE_BINDINGS {
            return Err(ShellError::Unavailable("fewer than 3 storage buffers a shader"));
        }
        let kernels = Kernels::new(&device, &errors, &info, library, &caps, mode.checked, &mode.cache)?;
        let no_weights = errors.scoped(&device, "create_buffer", 256, || {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("no weights"),
                size: 256,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        })?;
        let timed = mode.timestamps && device.features().contains(Features::TIMESTAMP_QUERY);
        let tick_ns = timed.then(|| queue.get_timestamp_period());
        let inner = Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            info,
            device,
            queue,
            caps,
            library,
            errors,
            kernels,
            tick_ns,
            transfer_timeout: mode.transfer_timeout,
            no_weights,
        };
        Ok(WgpuDevice { inner: Arc::new(inner) })
    }

    /// The devices that [`Options::backends`] has, in the order that [`Selector::Index`] counts. Empty where there is
    /// no driver.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn devices(options: &Options) -> Vec<DeviceInfo> {
        crate::wait::block_on(WgpuDevice::devices_async(options))
    }

    /// [`devices`](Self::devices) without blocking.
    pub async fn devices_async(options: &Options) -> Vec<DeviceInfo> {
        let adapters = adapters(options).await;
        adapters.iter().enumerate().map(|(i, a)| DeviceInfo::new(i, &a.get_info())).collect()
    }

    /// Text of the last failure that wgpu or the driver reported; empty if there was none.
    pub fn last_error(&self) -> String {
        self.inner.errors.last()
    }

    /// Name, interface and driver of the device.
    pub fn adapter_info(&self) -> &wgpu::AdapterInfo {
        &self.inner.info
    }

    /// wgpu's device, for applications that share it.
    pub fn wgpu_device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// wgpu's queue.
    pub fn wgpu_queue(&self) -> &wgpu::Queue {
        &self.inner.queue
    }
}

impl std::fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let i = &self.inner.info;
        f.debug_struct("WgpuDevice")
            .field("name", &i.name)
            .field("backend", &i.backend)
            .finish_non_exhaustive()
    }
}

async fn adapters(options: &Options) -> Vec<wgpu::Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = options.backends;
    // No validation layers; and without wgpu's own check of indirect grids, which would cost a dispatch each (gates
    // write only grids that were checked when recording) and cap buffers at 4 GiB.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor).enumerate_adapters(options.backends).await
}

fn select(mut adapters: Vec<wgpu::Adapter>, options: &Options) -> Result<wgpu::Adapter, ShellError> {
    if adapters.is_empty() {
        return Err(ShellError::Unavailable("no driver has a device"));
    }
    let chosen = match &options.device {
        Selector::Any => {
            let able = |a: &wgpu::Adapter| require_compute(a).is_err();
            let best = adapters.iter().enumerate().min_by_key(|(_, a)| {
                (able(a), rank(a.get_info().device_type, options.power == wgpu::PowerPreference::LowPower))
            });
            best.map(|(i, _)| i)
        }
        Selector::Index(i) => Some(*i).filter(|&i| i < adapters.len()),
        Selector::Name(name) => {
            let name = name.to_lowercase();
            adapters.iter().position(|a| a.get_info().name.to_lowercase().contains(&name))
        }
    };
    match (chosen, &options.device) {
        (Some(i), _) => Ok(adapters.swap_remove(i)),
        (None, Selector::Index(_)) => Err(ShellError::Unavailable("no device of that number")),
        (None, _) => Err(ShellError::Unavailable("no device of that name")),
    }
}

fn rank(kind: DeviceType, low_power: bool) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => u8::from(low_power),
        DeviceType::IntegratedGpu => u8::from(!low_power),
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

fn require_compute(adapter: &wgpu::Adapter) -> Result<(), ShellError> {
    let needed = DownlevelFlags::COMPUTE_SHADERS | DownlevelFlags::INDIRECT_EXECUTION;
    if adapter.get_downlevel_capabilities().flags.contains(needed) {
        Ok(())
    } else {
        Err(ShellError::Unavailable("the device has no compute shaders or no indirect dispatch"))
    }
}

fn caps(device: &wgpu::Device, info: &wgpu::AdapterInfo, force_uniform: bool) -> DeviceCaps {
    let (l, f) = (device.limits(), device.features());
    let immediates = f.contains(Features::IMMEDIATES) && !force_uniform;
    let subgroup = f.contains(Features::SUBGROUP);
    DeviceCaps {
        max_workgroups: [l.max_compute_workgroups_per_dimension; 3],
        max_invocations: l.max_compute_invocations_per_workgroup,
        shared_bytes: l.max_compute_workgroup_storage_size,
        // A multiple of 4, as the size of a window must be.
        max_binding: l.max_storage_buffer_binding_size.min(MAX_WINDOW) & !3,
        max_buffer: l.max_buffer_size & !3,
        window_align: l.min_storage_buffer_offset_alignment.max(4),
        immediate_bytes: if immediates { l.max_immediate_size } else { 0 },
        subgroup: if subgroup { [info.subgroup_min_size, info.subgroup_max_size] } else { [1, 1] },
        unified_memory: matches!(info.device_type, DeviceType::IntegratedGpu | DeviceType::Cpu),
    }
}
