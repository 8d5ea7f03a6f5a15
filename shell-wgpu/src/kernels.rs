//! Layouts and pipelines.

use crate::cache::Cache;
use crate::errors::{Errors, lock};
use crate::options::CachePolicy;
use serinette_dispatch::{DeviceCaps, Interface, KernelLibrary, KernelSource, MAX_PARAMS, ShellError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wgpu::{BindingType, BufferBindingType};

/// Bytes of a kernel's parameters as a uniform: the most words there can be, and the largest alignment of uniform
/// offsets that WebGPU lets a device ask for.
pub(crate) const UNIFORM_SLOT: u64 = 4 * MAX_PARAMS as u64;
/// Most threads that compile.
const MAX_THREADS: usize = 8;
/// The WGSL front end recurses; without optimisation it needs more than a thread's usual 2 MiB.
const STACK_BYTES: usize = 8 << 20;

/// The bind group of an [`Interface`], with parameters as immediates or as a uniform.
pub(crate) struct Layout {
    pub(crate) group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

/// How a kernel's parameters reach it, and what it binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) gate: bool,
    pub(crate) uniform: bool,
}

/// The kernels of a device's library.
pub(crate) struct Kernels {
    sources: &'static [KernelSource],
    /// Indexed by [`Form::index`].
    layouts: [Layout; 4],
    immediate_bytes: u32,
    checked: bool,
    cache: Option<Cache>,
    ready: Mutex<Vec<Option<wgpu::ComputePipeline>>>,
    /// Held while compiling, so that two threads do not compile the same.
    loading: Mutex<()>,
}

impl Form {
    fn index(self) -> usize {
        2 * usize::from(self.gate) + usize::from(self.uniform)
    }
}

impl Kernels {
    pub(crate) fn new(
        device: &wgpu::Device,
        errors: &Errors,
        info: &wgpu::AdapterInfo,
        library: &'static dyn KernelLibrary,
        caps: &DeviceCaps,
        checked: bool,
        cache: &CachePolicy,
    ) -> Result<Kernels, ShellError> {
        let sources = library.kernels();
        if sources.iter().any(|k| k.param_words as usize > MAX_PARAMS) {
            return Err(ShellError::Invalid("a kernel with more than 64 parameter words"));
        }
        let fits = |k: &&KernelSource| 4 * k.param_words <= caps.immediate_bytes;
        let immediates = sources.iter().filter(fits).map(|k| 4 * k.param_words).max().unwrap_or(0);
        let layouts = errors.scoped(device, "create_pipeline_layout", 0, || {
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(gate, uniform)| Layout::new(device, Form { gate, uniform }, immediates))
        })?;
        // A checked pipeline differs from an unchecked one, and the driver's key for it too, so they may share a file.
        let cache = Cache::open(device, errors, info, sources, cache);
        let ready = Mutex::new(vec![None; sources.len()]);
        let immediate_bytes = caps.immediate_bytes;
        Ok(Kernels { sources, layouts, immediate_bytes, checked, cache, ready, loading: Mutex::new(()) })
    }

    /// A kernel's description.
    pub(crate) fn source(&self, kernel: u16) -> Result<&'static KernelSource, ShellError> {
        self.sources
            .get(usize::from(kernel))
            .ok_or(ShellError::Invalid("a kernel that the library does not have"))
    }

    /// The form in which a kernel is compiled on this device.
    pub(crate) fn form(&self, source: &KernelSource) -> Form {
        Form {
            gate: source.interface == Interface::Gate,
            uniform: 4 * source.param_words > self.immediate_bytes,
        }
    }

    pub(crate) fn layout(&self, form: Form) -> &Layout {
        &self.layouts[form.index()]
    }

    /// A pipeline that [`load`](Self::load) has made.
    pub(crate) fn pipeline(&self, kernel: u16) -> Option<wgpu::ComputePipeline> {
        lock(&self.ready).get(usize::from(kernel)).cloned().flatten()
    }

    /// Compiles kernels that are not compiled yet, on several threads, and keeps the cache file up to date. Reports
    /// the first failure, after trying all.
    pub(crate) fn load(
        &self,
        device: &wgpu::Device,
        errors: &Errors,
        kernels: &[u16],
    ) -> Result<(), ShellError> {
        let _one_at_a_time = lock(&self.loading);
        let mut missing: Vec<u16> = Vec::new();
        for &k in kernels {
            self.source(k)?;
            if self.pipeline(k).is_none() {
                missing.push(k);
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let work = || {
            while let Some(&k) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.compile(device, errors, k) {
                    Ok(pipeline) => lock(&self.ready)[usize::from(k)] = Some(pipeline),
                    Err(e) => drop(lock(&failure).get_or_insert(e)),
                }
            }
        };
        let threads =
            std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_THREADS).min(missing.len());
        std::thread::scope(|scope| {
            let builder =
                || std::thread::Builder::new().name("serinette-pipelines".into()).stack_size(STACK_BYTES);
            let spawned = (0..threads).filter(|_| builder().spawn_scoped(scope, work).is_ok()).count();
            if spawned == 0 {
                work();
            }
        });
        if let Some(cache) = &self.cache {
            cache.save();
        }
        lock(&failure).take().map_or(Ok(()), Err)
    }

    fn compile(
        &self,
        device: &wgpu::Device,
        errors: &Errors,
        kernel: u16,
    ) -> Result<wgpu::ComputePipeline, ShellError> {
        let source = self.source(kernel)?;
        let form = self.form(source);
        let text = if form.uniform { source.wgsl_uniform } else { source.wgsl_immediate };
        let pipeline = errors.scoped(device, source.name, 0, || {
            let descriptor = wgpu::ShaderModuleDescriptor {
                label: Some(source.name),
                source: wgpu::ShaderSource::Wgsl(text.into()),
            };
            let module = if self.checked {
                device.create_shader_module(descriptor)
            } else {
                // SAFETY: the text is a kernel of a `KernelLibrary`, whose implementer vouches (unsafe trait) that
                // kernels stay inside the operands they are given and end.
                unsafe {
                    device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
                }
            };
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(source.name),
                layout: Some(&self.layout(form).pipeline),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // Kernels write workgroup memory before they read it; clearing it costs start-up time.
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: self.cache.as_ref().map(Cache::handle),
            })
        });
        pipeline.map_err(|e| match e {
            ShellError::Driver { .. } => ShellError::Kernel(source.name),
            other => other,
        })
    }
}

impl Layout {
    /// All kernels of a form share a layout, with room for the most parameters, so that bind groups stay bound from
    /// kernel to kernel.
    fn new(device: &wgpu::Device, form: Form, immediates: u32) -> Layout {
        let entry = |binding, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let second = BufferBindingType::Storage { read_only: !form.gate };
        let read_write = BufferBindingType::Storage { read_only: false };
        let mut entries =
            vec![entry(0, read_write, false), entry(1, second, false), entry(2, read_write, false)];
        if form.uniform {
            entries.push(entry(3, BufferBindingType::Uniform, true));
        }
        let group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("serinette"),
            entries: &entries,
        });
        let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("serinette"),
            bind_group_layouts: &[Some(&group)],
            immediate_size: if form.uniform { 0 } else { immediates },
        });
        Layout { group, pipeline }
    }
}
