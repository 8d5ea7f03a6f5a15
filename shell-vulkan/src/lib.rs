//! Vulkan shell: runs dispatches through `ash`, the loader opened at run time.
//!
//! ```text
//! instance   loader, instance, validation messages
//! physical   which devices there are, what they can do
//! device     one logical device; owned handles; error codes
//! memory     buffers: memory types, mappings, flushes
//! transfer   uploads, downloads and zero-fills outside recordings
//! pipeline   layouts, kernels to pipelines in parallel        cache  the file that keeps them
//! check      commands against buffers and limits
//! recording  commands to one reusable command buffer; running it
//! ```
//!
//! # Who owns what
//!
//! Every Vulkan object is in an owner that holds its device, the device holds its instance, the instance holds
//! the loader. So handles, buffers and recordings can be dropped in any order and on any thread, and several
//! devices, or one device opened several times, live side by side in a process.
//!
//! One instance of a process, the first that is no longer needed, is left alive on purpose: it keeps the drivers
//! loaded, which some need in order to be used again.
//!
//! # Who waits for whom
//!
//! A buffer carries a lock. A run holds the locks of the arena, control and indirect buffers exclusively and that
//! of the weights shared, from submission to completion; uploads and downloads hold theirs exclusively. So
//! safe code cannot make the host and the device touch the same memory at once. Sessions with buffers of
//! their own only share the queue, whose lock is held for the submission alone.
//!
//! # Work that does not end
//!
//! After [`ShellError::Timeout`] the device may still use the recording and its buffers. They then refuse further
//! work, and dropping the recording waits a little longer and otherwise leaks it, with its buffers and its
//! device, instead of freeing memory under a running kernel.
//!
//! # Threads that end
//!
//! NVIDIA's driver (seen in 580.159) can hang where a thread that has called it ends at the moment in which another
//! thread destroys a device. The shell keeps its own threads out of this; an application that closes devices while
//! such threads of its own end should close them on one thread, after joining the others.
//!
//! # Devices
//!
//! Vulkan 1.1 with a compute queue is enough. Optional features (16-bit and 8-bit storage, half-precision and
//! integer types, integer dot products) are switched on where present; a kernel that needs an absent one is
//! refused by [`Shell::load_kernels`].

mod cache;
mod check;
mod device;
mod instance;
mod memory;
mod physical;
mod pipeline;
mod recording;
mod transfer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serinette_dispatch::{Buffers, Command, DeviceCaps, KernelLibrary, RunTimes, Shell, ShellError, Usage};

pub use cache::CachePolicy;
pub use instance::MessageLog;
pub use memory::Buffer;
pub use physical::{DeviceInfo, DeviceKind, Selector};
pub use pipeline::PipelineStats;
pub use recording::Recording;

/// How to open a device. The default takes the best device, the system's loader and the default cache directory,
/// without validation and timestamps.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The Vulkan loader (`libvulkan.so.1`, …); `None`: found by the system under its usual name.
    ///
    /// The library is trusted like any other code of the process.
    pub loader: Option<PathBuf>,
    /// Which device.
    pub device: Selector,
    /// Where compiled pipelines are kept between processes.
    pub cache: CachePolicy,
    /// Switch the Khronos validation layer on and collect its messages ([`VulkanDevice::messages`]).
    pub validation: bool,
    /// With [`validation`](Self::validation): have the layer look for missing barriers too. It takes a dispatch to
    /// read and write the whole of its windows, so it also reports dispatches side by side that touch different
    /// parts of one arena: of use only where a barrier stands between any two dispatches.
    pub hazards: bool,
    /// Measure [`RunTimes::device`] with timestamp queries, where the queue has them.
    pub timestamps: bool,
}

impl Options {
    fn checks(&self) -> instance::Checks {
        match (self.validation, self.hazards) {
            (false, _) => instance::Checks::None,
            (true, false) => instance::Checks::Validation,
            (true, true) => instance::Checks::Hazards,
        }
    }
}

/// Lists the devices that [`VulkanDevice::open`] can open, in the order of [`Selector::Index`].
///
/// # Errors
///
/// [`ShellError::Unavailable`] where there is no loader, no driver, or the validation layer that `options` asks for
/// is not installed. A system with drivers but without a usable device gives an empty list.
pub fn devices(options: &Options) -> Result<Vec<DeviceInfo>, ShellError> {
    let instance = instance::Instance::open(options.loader.as_deref(), options.checks())?;
    let found = physical::enumerate(&instance)?;
    Ok(found.into_iter().map(|physical| physical.info).collect())
}

/// An open device with a kernel library. Clones are handles to the same device.
#[derive(Clone)]
pub struct VulkanDevice {
    context: Arc<Context>,
}

/// What the handles of one opened device share.
pub(crate) struct Context {
    pub library: &'static dyn KernelLibrary,
    pub timestamps: bool,
    pub pipelines: pipeline::Pipelines,
    pub transfer: transfer::Transfer,
    /// Bound in place of weights where a model has none.
    pub dummy: Buffer,
    pub device: Arc<device::Device>,
}

impl VulkanDevice {
    /// Opens a device for the kernels of `library`.
    ///
    /// # Errors
    ///
    /// [`ShellError::Unavailable`] where loader, driver, compute queue, the chosen device or the requested validation
    /// layer is missing; otherwise what the driver reports. A cache file that cannot be used is no error.
    pub fn open(options: &Options, library: &'static dyn KernelLibrary) -> Result<Self, ShellError> {
        let instance = Arc::new(instance::Instance::open(options.loader.as_deref(), options.checks())?);
        let physical = physical::select(physical::enumerate(&instance)?, &options.device)?;
        let device = Arc::new(device::Device::open(instance, physical, true)?);
        let transfer = transfer::Transfer::new(&device)?;
        let dummy = Buffer::on_device(&device, 16, Usage::Storage)?;
        transfer.zero(&dummy)?;
        let pipelines = pipeline::Pipelines::new(&device, library, &options.cache)?;
        let timestamps = options.timestamps && device.physical.timestamp_bits > 0;
        Ok(Self { context: Arc::new(Context { library, timestamps, pipelines, transfer, dummy, device }) })
    }

    /// What was found out about the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.context.device.physical.info
    }

    /// The messages of the validation layer so far. The log outlives the device, so it also gets what the layer
    /// says about its destruction. Empty without [`Options::validation`].
    pub fn messages(&self) -> MessageLog {
        self.context.device.instance.messages()
    }

    /// Pipelines made so far, and what they took.
    pub fn pipeline_stats(&self) -> PipelineStats {
        self.context.pipelines.stats()
    }

    /// Writes the pipeline cache file if pipelines were made since it was read or written, and says whether it
    /// wrote. Dropping the last handle does the same and ignores errors.
    ///
    /// # Errors
    ///
    /// What the file system reports, or the driver refusing to hand out its cache.
    pub fn save_cache(&self) -> io::Result<bool> {
        self.context.pipelines.save()
    }
}

impl Shell for VulkanDevice {
    type Buffer = Buffer;
    type Recording = Recording;

    fn name(&self) -> &str {
        &self.info().name
    }

    fn caps(&self) -> &DeviceCaps {
        &self.info().caps
    }

    fn library(&self) -> &'static dyn KernelLibrary {
        self.context.library
    }

    fn buffer(&self, bytes: u64, usage: Usage) -> Result<Buffer, ShellError> {
        self.context.device.check_alive()?;
        let buffer = Buffer::on_device(&self.context.device, bytes, usage)?;
        self.context.transfer.zero(&buffer)?;
        Ok(buffer)
    }

    fn upload(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), ShellError> {
        self.context.device.check_alive()?;
        self.context.device.check_own(buffer)?;
        self.context.transfer.upload(buffer, offset, bytes)
    }

    fn download(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), ShellError> {
        self.context.device.check_alive()?;
        self.context.device.check_own(buffer)?;
        self.context.transfer.download(buffer, offset, bytes)
    }

    fn load_kernels(&self, kernels: &[u16]) -> Result<(), ShellError> {
        self.context.device.check_alive()?;
        self.context.pipelines.load(kernels)
    }

    unsafe fn record(
        &self,
        buffers: Buffers<'_, Buffer>,
        commands: &[Command],
        input_bytes: u64,
        output_bytes: u64,
    ) -> Result<Recording, ShellError> {
        self.context.device.check_alive()?;
        // SAFETY: the caller promises what `Shell::record` demands, which is what `Recording::new` demands.
        unsafe { Recording::new(&self.context, &buffers, commands, input_bytes, output_bytes) }
    }

    fn run(
        &self,
        recording: &mut Recording,
        write: &mut dyn FnMut(&mut [u8]),
        read: &mut dyn FnMut(&[u8]),
        timeout: Duration,
    ) -> Result<RunTimes, ShellError> {
        recording.run(&self.context, write, read, timeout)
    }
}
