//! Kernels to pipelines: one layout for all, made in parallel through a cache.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ash::vk;
use serinette_dispatch::{KernelLibrary, KernelSource, ShellError};

use crate::cache::{self, CachePolicy, Key};
use crate::device::{Device, Owned, TEARDOWN};
use crate::physical::PUSH_BYTES;

/// Storage buffers of the kernel interface: bindings 0, 1 and 2.
pub(crate) const BINDINGS: u32 = 3;
/// Drivers gain little from more threads than this.
const MAX_THREADS: usize = 8;

/// What making pipelines took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PipelineStats {
    /// Pipelines made.
    pub created: u32,
    /// Of those, the ones that the driver says it took from the cache; 0 where it does not say.
    pub cache_hits: u32,
    /// Bytes that the cache file held; 0 where there was none to use.
    pub cache_file_bytes: u64,
    /// Wall time in milliseconds, over all calls.
    pub milliseconds: f64,
}

/// The pipelines of a device.
pub(crate) struct Pipelines {
    library: &'static dyn KernelLibrary,
    /// One for each kernel, empty until loaded.
    pipelines: Box<[OnceLock<Owned<vk::Pipeline>>]>,
    stats: Mutex<PipelineStats>,
    /// Whether the driver's cache may hold more than the file.
    unsaved: AtomicBool,
    file: Option<(PathBuf, Key)>,
    cache: Owned<vk::PipelineCache>,
    pub layout: Owned<vk::PipelineLayout>,
    pub set_layout: Owned<vk::DescriptorSetLayout>,
    device: Arc<Device>,
}

impl Pipelines {
    /// Makes the layouts and reads the cache file.
    pub fn new(
        device: &Arc<Device>,
        library: &'static dyn KernelLibrary,
        policy: &CachePolicy,
    ) -> Result<Self, ShellError> {
        let kernels = library.kernels();
        let bindings: [_; BINDINGS as usize] = std::array::from_fn(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        });
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is alive, the structure valid.
        let set_layout = unsafe { device.raw.create_descriptor_set_layout(&info, None) }
            .map_err(|e| device.error("vkCreateDescriptorSetLayout", e, 0))?;
        let set_layout = Owned::new(device, set_layout);
        let set_layouts = [set_layout.raw];
        let pushed =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(PUSH_BYTES)];
        let info =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts).push_constant_ranges(&pushed);
        // SAFETY: the set layout is alive; 128 bytes of push constants are there on every device.
        let layout = unsafe { device.raw.create_pipeline_layout(&info, None) }
            .map_err(|e| device.error("vkCreatePipelineLayout", e, 0))?;
        let layout = Owned::new(device, layout);

        let key = Key::new(&device.physical.properties, kernels);
        let file = key.path(policy).map(|path| (path, key));
        let data = file.as_ref().and_then(|(path, key)| cache::read(path, key));
        let stats = PipelineStats {
            cache_file_bytes: data.as_ref().map_or(0, Vec::len) as u64,
            ..Default::default()
        };
        Ok(Self {
            library,
            pipelines: kernels.iter().map(|_| OnceLock::new()).collect(),
            stats: Mutex::new(stats),
            unsaved: AtomicBool::new(false),
            file,
            cache: pipeline_cache(device, data.as_deref())?,
            layout,
            set_layout,
            device: Arc::clone(device),
        })
    }

    /// What was made so far.
    pub fn stats(&self) -> PipelineStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pipeline of a kernel, if it was loaded.
    pub fn get(&self, kernel: u16) -> Option<vk::Pipeline> {
        self.pipelines.get(usize::from(kernel))?.get().map(|pipeline| pipeline.raw)
    }

    /// Makes the pipelines of these kernels that are not there yet.
    pub fn load(&self, kernels: &[u16]) -> Result<(), ShellError> {
        let sources = self.library.kernels();
        // Held throughout, so that two threads do not make the same pipeline.
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<(usize, &KernelSource)> = Vec::new();
        for &kernel in kernels {
            let index = usize::from(kernel);
            let (Some(source), Some(slot)) = (sources.get(index), self.pipelines.get(index)) else {
                return Err(ShellError::Invalid("the library has no kernel of that number"));
            };
            if slot.get().is_none() && !missing.iter().any(|&(known, _)| known == index) {
                check(&self.device, source)?;
                missing.push((index, source));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let hits = AtomicUsize::new(0);
        let next = AtomicUsize::new(0);
        let failure = OnceLock::new();
        let work = || {
            while let Some(&(index, source)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.create(source) {
                    Ok((pipeline, hit)) => {
                        hits.fetch_add(usize::from(hit), Ordering::Relaxed);
                        // Empty until now: whoever fills it holds the lock.
                        let _ = self.pipelines[index].set(pipeline);
                    }
                    Err(error) => {
                        let _ = failure.set(error);
                        return;
                    }
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // Drivers hang where a thread that used them ends while another destroys a device (see `TEARDOWN`).
        let no_teardown = TEARDOWN.read().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads.min(MAX_THREADS).min(missing.len()))
                // Where no thread is to be had, this one does the work.
                .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            work();
            // The scope would wait for the work only, not for the end of the threads.
            helpers.into_iter().try_for_each(std::thread::ScopedJoinHandle::join)
        })
        .map_err(|_| ShellError::Driver { call: "vkCreateComputePipelines", code: 0 })?;
        drop(no_teardown);
        let made = missing.iter().filter(|&&(index, _)| self.pipelines[index].get().is_some()).count();
        stats.created += made as u32;
        stats.cache_hits += hits.into_inner() as u32;
        stats.milliseconds += milliseconds(start.elapsed());
        if made > 0 {
            self.unsaved.store(true, Ordering::Release);
        }
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Makes one pipeline, and says whether the driver took it from the cache.
    fn create(&self, source: &KernelSource) -> Result<(Owned<vk::Pipeline>, bool), ShellError> {
        let device = &self.device;
        let refused = |call, code| match device.error(call, code, 0) {
            // Everything but a lack of memory or of the device is about the kernel.
            ShellError::Driver { .. } => ShellError::Kernel(source.name),
            error => error,
        };
        let info = vk::ShaderModuleCreateInfo::default().code(source.spirv);
        // SAFETY: the library promises valid SPIR-V; its capabilities were checked.
        let module = unsafe { device.raw.create_shader_module(&info, None) }
            .map_err(|e| refused("vkCreateShaderModule", e))?;
        let module = Owned::new(device, module);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module.raw)
            .name(c"main");
        let mut feedback = vk::PipelineCreationFeedback::default();
        let mut stage_feedback = [vk::PipelineCreationFeedback::default()];
        let mut with_feedback = vk::PipelineCreationFeedbackCreateInfo::default()
            .pipeline_creation_feedback(&mut feedback)
            .pipeline_stage_creation_feedbacks(&mut stage_feedback);
        let mut info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout.raw);
        if device.feedback {
            info = info.push_next(&mut with_feedback);
        }
        // SAFETY: module, layout and cache are alive; the kernel uses only what the layout has, as the library promises
        // by its interface. The driver locks the cache.
        let made = unsafe { device.raw.create_compute_pipelines(self.cache.raw, &[info], None) }
            .map_err(|(_, code)| refused("vkCreateComputePipelines", code))?;
        let hit = feedback.flags.contains(
            vk::PipelineCreationFeedbackFlags::VALID
                | vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT,
        );
        match made.first() {
            Some(&pipeline) => Ok((Owned::new(device, pipeline), hit)),
            None => Err(ShellError::Kernel(source.name)),
        }
    }

    /// Writes the cache file if there is something new to write.
    pub fn save(&self) -> io::Result<bool> {
        let Some((path, key)) = &self.file else { return Ok(false) };
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        // SAFETY: the cache is alive; the driver locks it.
        let saved = unsafe { self.device.raw.get_pipeline_cache_data(self.cache.raw) }
            .map_err(|code| io::Error::other(self.device.error("vkGetPipelineCacheData", code, 0)))
            .and_then(|data| cache::write(path, key, &data));
        if saved.is_err() {
            self.unsaved.store(true, Ordering::Release);
        }
        saved.map(|()| true)
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        if self.device.check_alive().is_ok() {
            // Without the file the next process is slower, that is all.
            let _ = self.save();
        }
    }
}

/// A cache with this data; an empty one where the driver does not take it.
fn pipeline_cache(device: &Arc<Device>, data: Option<&[u8]>) -> Result<Owned<vk::PipelineCache>, ShellError> {
    let make = |data: &[u8]| {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the device is alive; the data is what a driver of this device gave, as key and checksum show.
        unsafe { device.raw.create_pipeline_cache(&info, None) }
    };
    let made = match data {
        Some(data) => make(data).or_else(|_| make(&[])),
        None => make(&[]),
    };
    made.map(|cache| Owned::new(device, cache)).map_err(|e| device.error("vkCreatePipelineCache", e, 0))
}

/// Refuses a kernel that the device cannot run, or this shell cannot feed.
fn check(device: &Device, source: &KernelSource) -> Result<(), ShellError> {
    let limits = &device.physical.properties.limits;
    let atmost = |what, limit: u32, needed: u64| {
        if needed <= u64::from(limit) {
            Ok(())
        } else {
            Err(ShellError::Limit { what, limit: limit.into(), needed })
        }
    };
    atmost("parameter words of a kernel", PUSH_BYTES / 4, source.param_words.into())?;
    for (axis, &size) in source.workgroup.iter().enumerate() {
        atmost("workgroup size", limits.max_compute_work_group_size[axis], size.into())?;
    }
    let invocations =
        source.workgroup.iter().try_fold(1u64, |product, &size| product.checked_mul(size.into()));
    let invocations = invocations.unwrap_or(u64::MAX);
    atmost("invocations of a workgroup", limits.max_compute_work_group_invocations, invocations)?;
    let newest = if device.physical.at_least(vk::API_VERSION_1_3) {
        0x0001_0600
    } else if device.physical.at_least(vk::API_VERSION_1_2) {
        0x0001_0500
    } else {
        0x0001_0300
    };
    match *source.spirv {
        // Magic number, version, generator, bound, schema (SPIR-V specification, "Physical Layout").
        [0x0723_0203, version, _, _, _, ..] if version <= newest => {}
        _ => return Err(ShellError::Kernel(source.name)),
    }
    if capabilities(source.spirv).all(|capability| device.allows(capability)) {
        Ok(())
    } else {
        Err(ShellError::Kernel(source.name))
    }
}

/// The capabilities that a module declares: its first instructions.
fn capabilities(spirv: &[u32]) -> impl Iterator<Item = u32> {
    const OP_CAPABILITY: u32 = 2 << 16 | 17;
    let body = spirv.get(5..).unwrap_or(&[]);
    body.chunks_exact(2).take_while(|pair| pair[0] == OP_CAPABILITY).map(|pair| pair[1])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
