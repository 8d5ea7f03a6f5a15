//! From commands to an owned list that a run encodes without looking anything up.

use crate::buffer::{WgpuBuffer, check_range};
use crate::device::Inner;
use crate::kernels::{Form, UNIFORM_SLOT};
use crate::wait::Mappings;
use serinette_dispatch::{Buffers, Command, Dispatch, KernelSource, ShellError, Target, Window};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use wgpu::BufferUsages;

/// Bytes of two timestamps.
const TIMES_BYTES: u64 = 16;

/// A recorded run. Keeps its buffers and its device alive.
pub struct WgpuRecording {
    pub(crate) inner: Arc<Inner>,
    pub(crate) arena: wgpu::Buffer,
    pub(crate) control: wgpu::Buffer,
    pub(crate) indirect: Option<wgpu::Buffer>,
    pub(crate) parts: Vec<Part>,
    pub(crate) launches: Vec<Launch>,
    /// Parameter bytes of the launches with immediates.
    pub(crate) immediates: Vec<u8>,
    pub(crate) pipelines: Vec<wgpu::ComputePipeline>,
    pub(crate) groups: Vec<wgpu::BindGroup>,
    /// What `write` fills; copied to `input`.
    pub(crate) host_input: Vec<u8>,
    /// Mapped for writing between runs.
    pub(crate) input: Option<wgpu::Buffer>,
    /// Mapped for reading at the end of a run.
    pub(crate) output: Option<wgpu::Buffer>,
    pub(crate) output_bytes: u64,
    pub(crate) timer: Option<Timer>,
    /// The commands of the next run, encoded while the device works on this one.
    pub(crate) next: Option<wgpu::CommandBuffer>,
    pub(crate) mappings: Arc<Mappings>,
    /// Why there can be no further run.
    pub(crate) failed: Option<ShellError>,
}

/// A stretch of commands.
#[derive(Debug)]
pub(crate) enum Part {
    Write {
        from: u64,
        to: Target,
        offset: u64,
        bytes: u64,
    },
    Clear {
        buffer: Target,
        offset: u64,
        bytes: u64,
    },
    Read {
        from: Target,
        offset: u64,
        bytes: u64,
        to: u64,
    },
    /// Launches of one compute pass.
    Pass(Range<usize>),
}

/// One dispatch.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Index in [`WgpuRecording::pipelines`].
    pub(crate) pipeline: u32,
    /// Index in [`WgpuRecording::groups`].
    pub(crate) group: u32,
    pub(crate) params: Params,
    pub(crate) grid: Grid,
}

#[derive(Debug)]
pub(crate) enum Params {
    /// A range of [`WgpuRecording::immediates`].
    Immediates(Range<usize>),
    /// Byte offset in the uniform buffer.
    Uniform(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Grid {
    Direct([u32; 3]),
    /// Byte offset in the indirect buffer.
    Indirect(u64),
}

/// Timestamps of the first and last pass.
pub(crate) struct Timer {
    pub(crate) queries: wgpu::QuerySet,
    pub(crate) resolved: wgpu::Buffer,
    /// Where they lie in the output staging memory.
    pub(crate) at: u64,
}

/// What decides a bind group.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    form: Form,
    arena: Window,
    /// Not used by gates.
    weights: Option<Window>,
}

struct Recorder<'a> {
    inner: &'a Inner,
    buffers: &'a Buffers<'a, WgpuBuffer>,
    input_bytes: u64,
    output_bytes: u64,
    parts: Vec<Part>,
    launches: Vec<Launch>,
    immediates: Vec<u8>,
    uniforms: Vec<u8>,
    kernels: HashMap<u16, u32>,
    groups: HashMap<GroupKey, u32>,
}

impl WgpuRecording {
    pub(crate) fn new(
        inner: Arc<Inner>,
        buffers: &Buffers<'_, WgpuBuffer>,
        commands: &[Command],
        input_bytes: u64,
        output_bytes: u64,
    ) -> Result<WgpuRecording, ShellError> {
        inner.errors.alive()?;
        for buffer in [Some(buffers.arena), buffers.weights, Some(buffers.control), buffers.indirect] {
            buffer.map_or(Ok(()), |b| b.check(&inner))?;
        }
        let mut recorder = Recorder::new(&inner, buffers, input_bytes, output_bytes);
        for command in commands {
            recorder.command(command)?;
        }
        let Recorder { parts, launches, immediates, uniforms, kernels, groups, .. } = recorder;

        let used: Vec<u16> = in_order(&kernels);
        inner.kernels.load(&inner.device, &inner.errors, &used)?;
        let pipelines: Option<Vec<_>> = used.iter().map(|&k| inner.kernels.pipeline(k)).collect();
        let pipelines = pipelines.ok_or(ShellError::Invalid("a kernel that could not be loaded"))?;
        let uniforms = uniform_buffer(&inner, &uniforms)?;
        let groups = bind_groups(&inner, buffers, uniforms.as_ref(), &in_order(&groups))?;

        let staging = |label, bytes, usage, mapped| {
            (bytes > 0).then(|| inner.raw_buffer(label, bytes, usage, mapped)).transpose()
        };
        let padded = |bytes: u64| bytes.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let input = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
        let input = staging("input", padded(input_bytes), input, true)?;
        let timed = inner.tick_ns.is_some() && !launches.is_empty();
        let timer = if timed { Some(Timer::new(&inner, padded(output_bytes))?) } else { None };
        let output = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let bytes = padded(output_bytes).saturating_add(if timed { TIMES_BYTES } else { 0 });
        let output = staging("output", bytes, output, false)?;
        let host_input = zeroed(input_bytes)?;

        let mut recording = WgpuRecording {
            arena: buffers.arena.raw.clone(),
            control: buffers.control.raw.clone(),
            indirect: buffers.indirect.map(|b| b.raw.clone()),
            inner: Arc::clone(&inner),
            parts,
            launches,
            immediates,
            pipelines,
            groups,
            host_input,
            input,
            output,
            output_bytes,
            timer,
            next: None,
            mappings: Arc::default(),
            failed: None,
        };
        // wgpu checks commands as they are encoded, so what it refuses is refused here.
        let commands = inner.errors.scoped(&inner.device, "record", 0, || recording.encode())?;
        recording.next = Some(commands);
        Ok(recording)
    }
}

impl std::fmt::Debug for WgpuRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WgpuRecording")
            .field("parts", &self.parts.len())
            .field("launches", &self.launches.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Timer {
    fn new(inner: &Inner, at: u64) -> Result<Timer, ShellError> {
        let queries = inner.errors.scoped(&inner.device, "create_query_set", TIMES_BYTES, || {
            inner.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("times"),
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            })
        })?;
        let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        Ok(Timer { queries, resolved: inner.raw_buffer("times", TIMES_BYTES, usage, false)?, at })
    }
}

impl<'a> Recorder<'a> {
    fn new(
        inner: &'a Inner,
        buffers: &'a Buffers<'a, WgpuBuffer>,
        input_bytes: u64,
        output_bytes: u64,
    ) -> Recorder<'a> {
        Recorder {
            inner,
            buffers,
            input_bytes,
            output_bytes,
            parts: Vec::new(),
            launches: Vec::new(),
            immediates: Vec::new(),
            uniforms: Vec::new(),
            kernels: HashMap::new(),
            groups: HashMap::new(),
        }
    }

    fn command(&mut self, command: &Command) -> Result<(), ShellError> {
        match *command {
            Command::Write { from, to, offset, bytes } => {
                check_range(from, bytes, self.input_bytes, "a write from outside the input staging memory")?;
                check_range(offset, bytes, self.bytes(to), "a write outside its buffer or not in words")?;
                self.part(bytes, Part::Write { from, to, offset, bytes });
            }
            Command::Clear { buffer, offset, bytes } => {
                check_range(offset, bytes, self.bytes(buffer), "a clear outside its buffer or not in words")?;
                self.part(bytes, Part::Clear { buffer, offset, bytes });
            }
            Command::Read { from, offset, bytes, to } => {
                check_range(offset, bytes, self.bytes(from), "a read outside its buffer or not in words")?;
                check_range(to, bytes, self.output_bytes, "a read to outside the output staging memory")?;
                self.part(bytes, Part::Read { from, offset, bytes, to });
            }
            Command::Dispatch { ref dispatch, arena, weights, indirect } => {
                self.dispatch(dispatch, arena, weights, indirect)?;
            }
            // wgpu orders dispatches and copies of the same buffers by itself.
            Command::Barrier => {}
        }
        Ok(())
    }

    fn bytes(&self, target: Target) -> u64 {
        match target {
            Target::Arena => self.buffers.arena.bytes,
            Target::Control => self.buffers.control.bytes,
        }
    }

    fn part(&mut self, bytes: u64, part: Part) {
        if bytes > 0 {
            self.parts.push(part);
        }
    }

    fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        arena: Window,
        weights: Window,
        indirect: Option<u32>,
    ) -> Result<(), ShellError> {
        let source = self.inner.kernels.source(dispatch.kernel)?;
        if dispatch.param_words > source.param_words {
            return Err(ShellError::Invalid("more parameter words than the kernel reads"));
        }
        let form = self.inner.kernels.form(source);
        self.window(arena, self.buffers.arena.bytes, "a window outside the arena or not aligned")?;
        let weights = match self.buffers.weights {
            _ if form.gate => {
                self.gate(indirect)?;
                None
            }
            _ if weights.bytes == 0 => None,
            Some(buffer) => {
                self.window(weights, buffer.bytes, "a window outside the weights or not aligned")?;
                Some(weights)
            }
            None => return Err(ShellError::Invalid("a window of weights without weights")),
        };
        let Some(grid) = self.grid(dispatch.grid, indirect)? else { return Ok(()) };
        let params = self.params(source, form, dispatch)?;
        let pipeline = number(&mut self.kernels, dispatch.kernel);
        let group = number(&mut self.groups, GroupKey { form, arena, weights });
        let at = self.launches.len();
        self.launches.push(Launch { pipeline, group, params, grid });
        match self.parts.last_mut() {
            Some(Part::Pass(range)) => range.end = at + 1,
            _ => self.parts.push(Part::Pass(at..at + 1)),
        }
        Ok(())
    }

    fn window(&self, window: Window, total: u64, what: &'static str) -> Result<(), ShellError> {
        let caps = &self.inner.caps;
        if window.bytes > caps.max_binding {
            let (limit, needed) = (caps.max_binding, window.bytes);
            return Err(ShellError::Limit { what: "bytes of a window", limit, needed });
        }
        if window.bytes == 0 || !window.offset.is_multiple_of(u64::from(caps.window_align)) {
            return Err(ShellError::Invalid(what));
        }
        check_range(window.offset, window.bytes, total, what)
    }

    fn gate(&self, indirect: Option<u32>) -> Result<(), ShellError> {
        if self.buffers.indirect.is_none() {
            return Err(ShellError::Invalid("a gate without an indirect buffer"));
        }
        if indirect.is_some() {
            return Err(ShellError::Invalid("a gate that takes its grid from the buffer that it writes"));
        }
        Ok(())
    }

    /// `None` where there is nothing to do.
    fn grid(&self, grid: [u32; 3], indirect: Option<u32>) -> Result<Option<Grid>, ShellError> {
        for (needed, limit) in grid.into_iter().zip(self.inner.caps.max_workgroups) {
            if needed > limit {
                let (limit, needed) = (u64::from(limit), u64::from(needed));
                return Err(ShellError::Limit { what: "workgroups along an axis", limit, needed });
            }
        }
        let Some(record) = indirect else {
            return Ok(if grid.contains(&0) { None } else { Some(Grid::Direct(grid)) });
        };
        let buffer =
            self.buffers.indirect.ok_or(ShellError::Invalid("a record without an indirect buffer"))?;
        let offset = 12 * u64::from(record);
        check_range(offset, 12, buffer.bytes, "a record outside the indirect buffer")?;
        Ok(Some(Grid::Indirect(offset)))
    }

    fn params(
        &mut self,
        source: &KernelSource,
        form: Form,
        dispatch: &Dispatch,
    ) -> Result<Params, ShellError> {
        let words = dispatch.params.iter().take(source.param_words as usize);
        let into = if form.uniform { &mut self.uniforms } else { &mut self.immediates };
        let at = into.len();
        into.extend(words.flat_map(|w| w.to_le_bytes()));
        if !form.uniform {
            return Ok(Params::Immediates(at..into.len()));
        }
        into.resize(at + UNIFORM_SLOT as usize, 0);
        let limit = u64::from(u32::MAX);
        let offset = u32::try_from(at).map_err(|_| ShellError::Limit {
            what: "bytes of parameters",
            limit,
            needed: at as u64,
        })?;
        Ok(Params::Uniform(offset))
    }
}

/// The number of a key, the next one if it is new.
fn number<K: std::hash::Hash + Eq>(map: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = map.len() as u32;
    *map.entry(key).or_insert(next)
}

/// The keys by their numbers.
fn in_order<K: Copy>(map: &HashMap<K, u32>) -> Vec<K> {
    let mut keys: Vec<(u32, K)> = map.iter().map(|(k, n)| (*n, *k)).collect();
    keys.sort_unstable_by_key(|(n, _)| *n);
    keys.into_iter().map(|(_, k)| k).collect()
}

fn zeroed(bytes: u64) -> Result<Vec<u8>, ShellError> {
    let out_of_memory = ShellError::OutOfMemory { bytes };
    let len = usize::try_from(bytes).map_err(|_| out_of_memory)?;
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).map_err(|_| out_of_memory)?;
    vec.resize(len, 0);
    Ok(vec)
}

fn uniform_buffer(inner: &Inner, bytes: &[u8]) -> Result<Option<wgpu::Buffer>, ShellError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
    let buffer = inner.raw_buffer("parameters", bytes.len() as u64, usage, false)?;
    inner.errors.scoped(&inner.device, "write_buffer", bytes.len() as u64, || {
        inner.queue.write_buffer(&buffer, 0, bytes);
    })?;
    Ok(Some(buffer))
}

fn bind_groups(
    inner: &Inner,
    buffers: &Buffers<'_, WgpuBuffer>,
    uniforms: Option<&wgpu::Buffer>,
    keys: &[GroupKey],
) -> Result<Vec<wgpu::BindGroup>, ShellError> {
    keys.iter().map(|key| bind_group(inner, buffers, uniforms, key)).collect()
}

fn bind_group(
    inner: &Inner,
    buffers: &Buffers<'_, WgpuBuffer>,
    uniforms: Option<&wgpu::Buffer>,
    key: &GroupKey,
) -> Result<wgpu::BindGroup, ShellError> {
    let part = |buffer, offset, bytes| wgpu::BufferBinding { buffer, offset, size: NonZeroU64::new(bytes) };
    let second = match (key.form.gate, buffers.indirect, key.weights, buffers.weights) {
        (true, Some(indirect), _, _) => part(&indirect.raw, 0, indirect.bytes),
        (_, _, Some(window), Some(weights)) => part(&weights.raw, window.offset, window.bytes),
        _ => inner.no_weights.as_entire_buffer_binding(),
    };
    let mut bindings = vec![
        part(&buffers.arena.raw, key.arena.offset, key.arena.bytes),
        second,
        part(&buffers.control.raw, 0, buffers.control.bytes),
    ];
    bindings.extend(uniforms.filter(|_| key.form.uniform).map(|u| part(u, 0, UNIFORM_SLOT)));
    let entries: Vec<wgpu::BindGroupEntry<'_>> = (0..)
        .zip(bindings)
        .map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: wgpu::BindingResource::Buffer(b) })
        .collect();
    inner.errors.scoped(&inner.device, "create_bind_group", 0, || {
        inner.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("serinette"),
            layout: &inner.kernels.layout(key.form).group,
            entries: &entries,
        })
    })
}
