//! One logical device, its queue, owners of its handles, and error codes.

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ash::{ext, khr, vk};
use serinette_dispatch::ShellError;

use crate::instance::{Instance, has_extension};
use crate::memory::Buffer;
use crate::physical::Physical;

/// Held exclusively while a device is destroyed, shared while threads of this crate that call the driver may end.
///
/// NVIDIA's driver (580.159) hangs where these meet: a thread that ends holds a lock of the driver and wants that of
/// the destruction, which waits for a worker thread of the driver, which wants the first lock in order to end.
pub(crate) static TEARDOWN: RwLock<()> = RwLock::new(());

/// A logical device with one queue. Everything made from it holds an `Arc` of it.
pub(crate) struct Device {
    pub raw: ash::Device,
    /// The queue; Vulkan wants one submitter at a time.
    queue: Mutex<vk::Queue>,
    /// SPIR-V capabilities that kernels may declare.
    capabilities: Vec<u32>,
    /// Whether pipelines report how they were made.
    pub feedback: bool,
    /// Whether the host may write to device memory that it sees; tests switch it off to reach the staged copies.
    pub direct: bool,
    /// Set once the driver reports that the device is gone.
    lost: AtomicBool,
    /// Memory allocations alive.
    pub allocations: AtomicU32,
    next_id: AtomicU64,
    pub physical: Physical,
    // Last: destroyed after the device.
    pub instance: Arc<Instance>,
}

impl Device {
    /// Opens a device of the instance, with the optional features that kernels can use.
    pub fn open(instance: Arc<Instance>, physical: Physical, direct: bool) -> Result<Self, ShellError> {
        let has = |version, name| physical.at_least(version) || has_extension(&physical.extensions, name);
        let mut extensions: Vec<*const c_char> = Vec::new();
        // A feature that is in the core of the device's version needs no extension.
        let mut optional = |version: u32, name: &'static std::ffi::CStr| {
            let there = has(version, name);
            if there && !physical.at_least(version) {
                extensions.push(name.as_ptr());
            }
            there
        };
        let has_small = optional(vk::API_VERSION_1_2, khr::shader_float16_int8::NAME);
        let has_storage8 = optional(vk::API_VERSION_1_2, khr::_8bit_storage::NAME);
        let has_dot = optional(vk::API_VERSION_1_3, khr::shader_integer_dot_product::NAME);
        let feedback = optional(vk::API_VERSION_1_3, ext::pipeline_creation_feedback::NAME);
        // A layered implementation demands that this one is switched on.
        optional(u32::MAX, khr::portability_subset::NAME);

        let mut storage16 = vk::PhysicalDevice16BitStorageFeatures::default();
        let mut small = vk::PhysicalDeviceShaderFloat16Int8Features::default();
        let mut storage8 = vk::PhysicalDevice8BitStorageFeatures::default();
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut storage16);
        if has_small {
            features = features.push_next(&mut small);
        }
        if has_storage8 {
            features = features.push_next(&mut storage8);
        }
        if has_dot {
            features = features.push_next(&mut dot);
        }
        // SAFETY: the device has Vulkan 1.1 and each structure in the chain belongs to what it has.
        unsafe { instance.raw.get_physical_device_features2(physical.raw, &mut features) };
        let offered = features.features;
        let wanted = vk::PhysicalDeviceFeatures::default()
            .shader_int16(offered.shader_int16 != 0)
            .shader_int64(offered.shader_int64 != 0)
            .shader_float64(offered.shader_float64 != 0);
        // The structures are chained anew below.
        storage16.p_next = std::ptr::null_mut();
        small.p_next = std::ptr::null_mut();
        storage8.p_next = std::ptr::null_mut();
        dot.p_next = std::ptr::null_mut();
        // Input and output of graphics stages; nothing here uses it.
        storage16.storage_input_output16 = vk::FALSE;
        let capabilities = capabilities(&instance, &physical, &wanted, &storage16, &small, &storage8, &dot);

        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(physical.queue_family)
            .queue_priorities(&priorities)];
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .enabled_features(&wanted)
            .push_next(&mut storage16);
        if has_small {
            info = info.push_next(&mut small);
        }
        if has_storage8 {
            info = info.push_next(&mut storage8);
        }
        if has_dot {
            info = info.push_next(&mut dot);
        }
        // SAFETY: the family exists and has a queue; the extensions and features are those that the device offers.
        let raw = unsafe { instance.raw.create_device(physical.raw, &info, None) }
            .map_err(|e| driver_error("vkCreateDevice", e, 0))?;
        // SAFETY: the device was made with one queue of this family.
        let queue = unsafe { raw.get_device_queue(physical.queue_family, 0) };
        Ok(Self {
            raw,
            queue: Mutex::new(queue),
            capabilities,
            feedback,
            direct,
            lost: AtomicBool::new(false),
            allocations: AtomicU32::new(0),
            next_id: AtomicU64::new(0),
            physical,
            instance,
        })
    }

    /// A number that no other object of the device has.
    pub fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses a device that is gone.
    pub fn check_alive(&self) -> Result<(), ShellError> {
        if self.lost.load(Ordering::Relaxed) { Err(ShellError::DeviceLost) } else { Ok(()) }
    }

    /// Refuses a buffer of another device.
    pub fn check_own(&self, buffer: &Buffer) -> Result<(), ShellError> {
        if std::ptr::eq(self, &**buffer.device()) {
            Ok(())
        } else {
            Err(ShellError::Invalid("a buffer of another device"))
        }
    }

    /// Whether a kernel may declare this SPIR-V capability.
    pub fn allows(&self, capability: u32) -> bool {
        self.capabilities.contains(&capability)
    }

    /// The error value for a code of the driver. `bytes` is what was asked for, 0 where no size was named. Remembers
    /// that the device is gone.
    pub fn error(&self, call: &'static str, code: vk::Result, bytes: u64) -> ShellError {
        let error = driver_error(call, code, bytes);
        if error == ShellError::DeviceLost {
            self.lost.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Submits a command buffer; the fence is signalled when it has run.
    ///
    /// # Safety
    ///
    /// The command buffer is complete and not pending, what it uses stays alive until the fence is signalled, and the
    /// fence is unsignalled and without work.
    pub unsafe fn submit(&self, commands: vk::CommandBuffer, fence: vk::Fence) -> Result<(), ShellError> {
        let buffers = [commands];
        let info = [vk::SubmitInfo::default().command_buffers(&buffers)];
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock makes this the only use of the queue; the rest is promised by the caller.
        unsafe { self.raw.queue_submit(*queue, &info, fence) }.map_err(|e| self.error("vkQueueSubmit", e, 0))
    }

    /// Waits until a fence is signalled, [`ShellError::Timeout`] if it is not within `timeout`.
    pub fn wait(&self, fence: &Owned<vk::Fence>, timeout: Duration) -> Result<(), ShellError> {
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the fence is alive and of this device (its owner is borrowed).
        match unsafe { self.raw.wait_for_fences(&[fence.raw], true, nanoseconds) } {
            Ok(()) => Ok(()),
            Err(vk::Result::TIMEOUT) => Err(ShellError::Timeout),
            Err(code) => Err(self.error("vkWaitForFences", code, 0)),
        }
    }

    /// Makes a fence unsignalled.
    ///
    /// # Safety
    ///
    /// No submitted work will signal the fence.
    pub unsafe fn reset(&self, fence: &Owned<vk::Fence>) -> Result<(), ShellError> {
        // SAFETY: the fence is alive; the caller promises that no work is pending on it.
        unsafe { self.raw.reset_fences(&[fence.raw]) }.map_err(|e| self.error("vkResetFences", e, 0))
    }

    /// A new fence, unsignalled.
    pub fn fence(self: &Arc<Self>) -> Result<Owned<vk::Fence>, ShellError> {
        // SAFETY: the device is alive, the structure valid.
        let raw = unsafe { self.raw.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(|e| self.error("vkCreateFence", e, 0))?;
        Ok(Owned::new(self, raw))
    }

    /// A new command pool for the device's queue.
    pub fn command_pool(
        self: &Arc<Self>,
        flags: vk::CommandPoolCreateFlags,
    ) -> Result<Owned<vk::CommandPool>, ShellError> {
        let info =
            vk::CommandPoolCreateInfo::default().queue_family_index(self.physical.queue_family).flags(flags);
        // SAFETY: the device is alive, the family is that of its queue.
        let raw = unsafe { self.raw.create_command_pool(&info, None) }
            .map_err(|e| self.error("vkCreateCommandPool", e, 0))?;
        Ok(Owned::new(self, raw))
    }

    /// A command buffer of a pool, freed with it.
    ///
    /// # Safety
    ///
    /// No other thread uses the pool meanwhile.
    pub unsafe fn command_buffer(
        &self,
        pool: &Owned<vk::CommandPool>,
    ) -> Result<vk::CommandBuffer, ShellError> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool.raw).command_buffer_count(1);
        // SAFETY: the pool is alive (its owner is borrowed) and, as the caller promises, not in use elsewhere.
        let made = unsafe { self.raw.allocate_command_buffers(&info) }
            .map_err(|e| self.error("vkAllocateCommandBuffers", e, 0))?;
        made.first().copied().ok_or(ShellError::Driver { call: "vkAllocateCommandBuffers", code: 0 })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _alone = TEARDOWN.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: every object of the device holds an `Arc` of it, so none is left; no work is pending, for whoever
        // submits waits for the end or leaks its objects and with them the device.
        unsafe { self.raw.destroy_device(None) };
    }
}

/// SPIR-V capabilities that kernels may use on a device opened with these features.
fn capabilities(
    instance: &Instance,
    physical: &Physical,
    base: &vk::PhysicalDeviceFeatures,
    storage16: &vk::PhysicalDevice16BitStorageFeatures<'_>,
    small: &vk::PhysicalDeviceShaderFloat16Int8Features<'_>,
    storage8: &vk::PhysicalDevice8BitStorageFeatures<'_>,
    dot: &vk::PhysicalDeviceShaderIntegerDotProductFeatures<'_>,
) -> Vec<u32> {
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup);
    // SAFETY: the device has Vulkan 1.1.
    unsafe { instance.raw.get_physical_device_properties2(physical.raw, &mut properties) };
    let in_compute = subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    let subgroups = |operation| in_compute && subgroup.supported_operations.contains(operation);
    // Numbers from the SPIR-V specification, section "Capability".
    [
        (0, true),                                        // Matrix
        (1, true),                                        // Shader
        (9, small.shader_float16 != 0),                   // Float16
        (10, base.shader_float64 != 0),                   // Float64
        (11, base.shader_int64 != 0),                     // Int64
        (22, base.shader_int16 != 0),                     // Int16
        (39, small.shader_int8 != 0),                     // Int8
        (61, subgroups(vk::SubgroupFeatureFlags::BASIC)), // GroupNonUniform…
        (62, subgroups(vk::SubgroupFeatureFlags::VOTE)),
        (63, subgroups(vk::SubgroupFeatureFlags::ARITHMETIC)),
        (64, subgroups(vk::SubgroupFeatureFlags::BALLOT)),
        (65, subgroups(vk::SubgroupFeatureFlags::SHUFFLE)),
        (66, subgroups(vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE)),
        (67, subgroups(vk::SubgroupFeatureFlags::CLUSTERED)),
        (68, subgroups(vk::SubgroupFeatureFlags::QUAD)),
        (4433, storage16.storage_buffer16_bit_access != 0), // StorageBuffer16BitAccess
        (4434, storage16.uniform_and_storage_buffer16_bit_access != 0),
        (4435, storage16.storage_push_constant16 != 0),
        (4448, storage8.storage_buffer8_bit_access != 0), // StorageBuffer8BitAccess
        (4449, storage8.uniform_and_storage_buffer8_bit_access != 0),
        (4450, storage8.storage_push_constant8 != 0),
        (6016, dot.shader_integer_dot_product != 0), // DotProductInputAll, …4x8Bit, …4x8BitPacked, DotProduct
        (6017, dot.shader_integer_dot_product != 0),
        (6018, dot.shader_integer_dot_product != 0),
        (6019, dot.shader_integer_dot_product != 0),
    ]
    .into_iter()
    .filter_map(|(capability, there)| there.then_some(capability))
    .collect()
}

/// The error value for a code of the driver. `bytes` is what was asked for, 0 where no size was named.
pub(crate) fn driver_error(call: &'static str, code: vk::Result, bytes: u64) -> ShellError {
    match code {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY
        | vk::Result::ERROR_FRAGMENTED_POOL
        | vk::Result::ERROR_FRAGMENTATION
        | vk::Result::ERROR_MEMORY_MAP_FAILED => ShellError::OutOfMemory { bytes },
        vk::Result::ERROR_DEVICE_LOST => ShellError::DeviceLost,
        code => ShellError::Driver { call, code: code.as_raw() },
    }
}

/// A kind of handle that is destroyed through its device.
pub(crate) trait Destroy: Copy {
    /// # Safety
    ///
    /// The handle is of this device, not yet destroyed and not in use.
    unsafe fn destroy(self, device: &ash::Device);
}

macro_rules! destroy {
    ($($handle:ty: $call:ident),* $(,)?) => {$(
        impl Destroy for $handle {
            unsafe fn destroy(self, device: &ash::Device) {
                // SAFETY: promised by the caller.
                unsafe { device.$call(self, None) }
            }
        }
    )*};
}

destroy! {
    vk::Buffer: destroy_buffer,
    vk::CommandPool: destroy_command_pool,
    vk::DescriptorPool: destroy_descriptor_pool,
    vk::DescriptorSetLayout: destroy_descriptor_set_layout,
    vk::Fence: destroy_fence,
    vk::Pipeline: destroy_pipeline,
    vk::PipelineCache: destroy_pipeline_cache,
    vk::PipelineLayout: destroy_pipeline_layout,
    vk::QueryPool: destroy_query_pool,
    vk::ShaderModule: destroy_shader_module,
}

/// A handle that is destroyed when dropped. Whoever submits work that uses it keeps it until the work has ended.
pub(crate) struct Owned<T: Destroy> {
    pub raw: T,
    device: Arc<Device>,
}

impl<T: Destroy> Owned<T> {
    /// Takes a fresh handle of the device.
    pub fn new(device: &Arc<Device>, raw: T) -> Self {
        Self { raw, device: Arc::clone(device) }
    }
}

impl<T: Destroy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is of this device and this is its only owner; work that used it has ended (see the type).
        unsafe { self.raw.destroy(&self.device.raw) };
    }
}
