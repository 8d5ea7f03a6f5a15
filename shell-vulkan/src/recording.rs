//! Commands to one command buffer that is submitted as often as the recording runs.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ash::vk;
use serinette_dispatch::{
    Buffers, Command, Dispatch, Interface, RunTimes, ShellError, Target, Usage, Window,
};

use crate::Context;
use crate::check::{Bounds, RECORD_BYTES};
use crate::device::Owned;
use crate::memory::{Buffer, Purpose, host_len};
use crate::physical::PUSH_BYTES;
use crate::pipeline::BINDINGS;
use crate::transfer::GRACE;

/// Arena, control, weights, indirect.
const MAX_BUFFERS: usize = 4;

/// Recorded commands with their staging memory and descriptors.
pub struct Recording {
    /// Left alone where the device may still use it.
    parts: ManuallyDrop<Parts>,
    /// Whether a run was submitted and not seen to end.
    pending: bool,
}

/// What a submitted recording needs.
struct Parts {
    commands: vk::CommandBuffer,
    fence: Owned<vk::Fence>,
    timestamps: Option<Owned<vk::QueryPool>>,
    input: Buffer,
    output: Buffer,
    input_len: usize,
    output_len: usize,
    /// The buffers of the commands, each once, in the order in which they are locked.
    used: Vec<Used>,
    _descriptors: Option<Owned<vk::DescriptorPool>>,
    _pool: Owned<vk::CommandPool>,
    context: Arc<Context>,
}

struct Used {
    buffer: Buffer,
    /// Whether the commands only read it.
    read_only: bool,
}

/// A held lock of a buffer.
enum Guard<'a> {
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Exclusive { _guard: RwLockWriteGuard<'a, ()> },
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("input_bytes", &self.parts.input_len)
            .field("output_bytes", &self.parts.output_len)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// Records.
    ///
    /// # Safety
    ///
    /// As [`Shell::record`](serinette_dispatch::Shell::record).
    pub(crate) unsafe fn new(
        context: &Arc<Context>,
        buffers: &Buffers<'_, Buffer>,
        commands: &[Command],
        input_bytes: u64,
        output_bytes: u64,
    ) -> Result<Self, ShellError> {
        let device = &context.device;
        let used = used(context, buffers)?;
        let bounds = Bounds {
            caps: &device.physical.info.caps,
            kernels: context.library.kernels(),
            arena: buffers.arena.bytes(),
            weights: buffers.weights.map(Buffer::bytes),
            control: buffers.control.bytes(),
            indirect: buffers.indirect.map(Buffer::bytes),
            input: input_bytes,
            output: output_bytes,
        };
        bounds.buffers()?;
        commands.iter().try_for_each(|command| bounds.command(command))?;

        let mut kernels: Vec<u16> = launches(commands).map(|launch| launch.dispatch.kernel).collect();
        kernels.sort_unstable();
        kernels.dedup();
        context.pipelines.load(&kernels)?;

        let input = Buffer::staging(device, input_bytes, Purpose::Upload)?;
        let output = Buffer::staging(device, output_bytes, Purpose::Readback)?;
        let (descriptors, sets) = descriptor_sets(context, buffers, commands)?;
        let timestamps = if context.timestamps { Some(query_pool(context)?) } else { None };
        let pool = device.command_pool(vk::CommandPoolCreateFlags::empty())?;
        // SAFETY: the pool is new and used here only.
        let command_buffer = unsafe { device.command_buffer(&pool)? };
        let fence = device.fence()?;
        let parts = Parts {
            commands: command_buffer,
            fence,
            timestamps,
            input,
            output,
            input_len: host_len(input_bytes)?,
            output_len: host_len(output_bytes)?,
            used,
            _descriptors: descriptors,
            _pool: pool,
            context: Arc::clone(context),
        };

        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: the command buffer is new.
        unsafe { device.raw.begin_command_buffer(parts.commands, &begin) }
            .map_err(|e| device.error("vkBeginCommandBuffer", e, 0))?;
        // SAFETY: the command buffer is being recorded, all objects are alive and kept by `parts`, ranges were checked
        // above, and the caller promises that kernels stay within their windows.
        unsafe { record(&parts, buffers, commands, &sets)? };
        // SAFETY: it was begun above.
        unsafe { device.raw.end_command_buffer(parts.commands) }
            .map_err(|e| device.error("vkEndCommandBuffer", e, 0))?;
        Ok(Self { parts: ManuallyDrop::new(parts), pending: false })
    }

    /// Fills the input staging memory, runs, shows the output staging memory. Allocates nothing.
    pub(crate) fn run(
        &mut self,
        context: &Arc<Context>,
        write: &mut dyn FnMut(&mut [u8]),
        read: &mut dyn FnMut(&[u8]),
        timeout: Duration,
    ) -> Result<RunTimes, ShellError> {
        if !Arc::ptr_eq(context, &self.parts.context) {
            return Err(ShellError::Invalid("a recording of another device"));
        }
        let device = &context.device;
        device.check_alive()?;
        let Self { parts, pending } = self;
        let parts: &mut Parts = parts;
        // After a timeout the work may have ended by now.
        parts.finish(pending, Duration::ZERO)?;

        let input_len = parts.input_len;
        // SAFETY: nothing is pending, so the device does not touch the memory, and it belongs to this recording, which
        // is borrowed exclusively.
        write(unsafe { parts.input.slice_mut(input_len)? });
        parts.input.flush(0, input_len as u64)?;
        parts.submit_and_wait(pending, timeout)?;
        let times = RunTimes { device: parts.device_time() };

        let output_len = parts.output_len;
        parts.output.invalidate(0, output_len as u64)?;
        // SAFETY: as above; the run has ended.
        read(unsafe { parts.output.slice_mut(output_len)? });
        Ok(times)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        match self.parts.finish(&mut self.pending, GRACE) {
            // SAFETY: dropped once, here; nothing is pending, or the device is lost and does no more work.
            Ok(()) | Err(ShellError::DeviceLost) => unsafe { ManuallyDrop::drop(&mut self.parts) },
            // The device may still use all of it: it stays, and the device with it.
            Err(_) => {}
        }
    }
}

impl Parts {
    /// One submission, one wait.
    fn submit_and_wait(&self, pending: &mut bool, timeout: Duration) -> Result<(), ShellError> {
        let device = &self.context.device;
        let mut guards: [Option<Guard<'_>>; MAX_BUFFERS] = Default::default();
        for (guard, used) in guards.iter_mut().zip(&self.used) {
            *guard = Some(if used.read_only {
                Guard::Shared { _guard: used.buffer.shared() }
            } else {
                Guard::Exclusive { _guard: used.buffer.exclusive()? }
            });
        }
        // SAFETY: nothing is pending on the fence.
        unsafe { device.reset(&self.fence)? };
        self.used.iter().for_each(|used| used.buffer.begin_work());
        // SAFETY: the command buffer is complete and not pending, the fence is reset; `Recording` keeps all parts until
        // the work has ended.
        if let Err(error) = unsafe { device.submit(self.commands, self.fence.raw) } {
            self.used.iter().for_each(|used| used.buffer.end_work());
            return Err(error);
        }
        *pending = true;
        self.finish(pending, timeout)
    }

    /// Waits for submitted work, if there is any.
    fn finish(&self, pending: &mut bool, timeout: Duration) -> Result<(), ShellError> {
        if !*pending {
            return Ok(());
        }
        let waited = self.context.device.wait(&self.fence, timeout);
        if matches!(waited, Ok(()) | Err(ShellError::DeviceLost)) {
            *pending = false;
            self.used.iter().for_each(|used| used.buffer.end_work());
        }
        waited
    }

    /// Time between the two timestamps of the last run.
    fn device_time(&self) -> Option<Duration> {
        let device = &self.context.device;
        let pool = self.timestamps.as_ref()?;
        let mut ticks = [0u64; 2];
        // SAFETY: the pool has two queries, both written by the run, which has ended.
        unsafe {
            device.raw.get_query_pool_results(pool.raw, 0, &mut ticks, vk::QueryResultFlags::TYPE_64).ok()?;
        }
        let mask = u64::MAX >> (64 - device.physical.timestamp_bits.clamp(1, 64));
        let passed = ticks[1].wrapping_sub(ticks[0]) & mask;
        let period = f64::from(device.physical.properties.limits.timestamp_period);
        Some(Duration::from_nanos((passed as f64 * period) as u64))
    }
}

/// The buffers in the order of their locks, if they are distinct, of this device and of the right kind.
fn used(context: &Context, buffers: &Buffers<'_, Buffer>) -> Result<Vec<Used>, ShellError> {
    let given = [
        Some((buffers.arena, false)),
        Some((buffers.control, false)),
        buffers.weights.map(|buffer| (buffer, true)),
        buffers.indirect.map(|buffer| (buffer, false)),
    ];
    let mut used: Vec<Used> = given
        .into_iter()
        .flatten()
        .map(|(buffer, read_only)| Used { buffer: buffer.share(), read_only })
        .collect();
    used.iter().try_for_each(|used| context.device.check_own(&used.buffer))?;
    used.sort_by_key(|used| used.buffer.id());
    if used.windows(2).any(|pair| pair[0].buffer.id() == pair[1].buffer.id()) {
        return Err(ShellError::Invalid("a buffer in two places of one recording"));
    }
    if buffers.indirect.is_some_and(|buffer| buffer.usage() != Some(Usage::Indirect)) {
        return Err(ShellError::Invalid("an indirect buffer that was not made as one"));
    }
    Ok(used)
}

/// A dispatch that does something.
struct Launch<'a> {
    dispatch: &'a Dispatch,
    arena: Window,
    weights: Window,
    indirect: Option<u32>,
}

impl<'a> Launch<'a> {
    fn of(command: &'a Command) -> Option<Self> {
        match command {
            Command::Dispatch { dispatch, arena, weights, indirect }
                if indirect.is_some() || !dispatch.grid.contains(&0) =>
            {
                Some(Self { dispatch, arena: *arena, weights: *weights, indirect: *indirect })
            }
            _ => None,
        }
    }
}

fn launches(commands: &[Command]) -> impl Iterator<Item = Launch<'_>> {
    commands.iter().filter_map(Launch::of)
}

/// What makes descriptor sets differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SetKey {
    arena: Window,
    weights: Window,
    gate: bool,
}

type Sets = HashMap<SetKey, vk::DescriptorSet>;

fn set_key(context: &Context, launch: &Launch<'_>) -> Result<SetKey, ShellError> {
    let kernel = context.library.kernels().get(usize::from(launch.dispatch.kernel));
    let interface = kernel.ok_or(ShellError::Invalid("the library has no kernel of that number"))?.interface;
    let none = Window { offset: 0, bytes: 0 };
    let weights = match interface {
        Interface::Compute if launch.weights.bytes > 0 => launch.weights,
        _ => none,
    };
    // Kernels that touch nothing of the arena still need something bound.
    let arena = if launch.arena.bytes > 0 { launch.arena } else { Window { offset: 0, bytes: 4 } };
    Ok(SetKey { arena, weights, gate: interface == Interface::Gate })
}

/// One descriptor set for each distinct combination of windows and interface.
fn descriptor_sets(
    context: &Context,
    buffers: &Buffers<'_, Buffer>,
    commands: &[Command],
) -> Result<(Option<Owned<vk::DescriptorPool>>, Sets), ShellError> {
    let device = &context.device;
    let mut sets = Sets::new();
    for launch in launches(commands) {
        sets.insert(set_key(context, &launch)?, vk::DescriptorSet::null());
    }
    if sets.is_empty() {
        return Ok((None, sets));
    }
    let count = u32::try_from(sets.len()).ok().filter(|count| count.checked_mul(BINDINGS).is_some());
    let count = count.ok_or(ShellError::Invalid("too many distinct windows"))?;
    let sizes = [vk::DescriptorPoolSize::default()
        .ty(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(count * BINDINGS)];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
    // SAFETY: the device is alive, the structure valid.
    let pool = unsafe { device.raw.create_descriptor_pool(&info, None) }
        .map_err(|e| device.error("vkCreateDescriptorPool", e, 0))?;
    let pool = Owned::new(device, pool);
    let layouts = vec![context.pipelines.set_layout.raw; sets.len()];
    let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool.raw).set_layouts(&layouts);
    // SAFETY: the pool is new, has room for these sets, and is used here only; the layout is alive.
    let made = unsafe { device.raw.allocate_descriptor_sets(&info) }
        .map_err(|e| device.error("vkAllocateDescriptorSets", e, 0))?;
    for ((key, set), made) in sets.iter_mut().zip(made) {
        *set = made;
        let whole =
            |buffer: &Buffer| vk::DescriptorBufferInfo::default().buffer(buffer.raw()).range(buffer.bytes());
        let part = |buffer: &Buffer, window: Window| {
            vk::DescriptorBufferInfo::default().buffer(buffer.raw()).offset(window.offset).range(window.bytes)
        };
        let second = match (key.gate, buffers.indirect, buffers.weights) {
            (true, Some(indirect), _) => whole(indirect),
            (false, _, Some(weights)) if key.weights.bytes > 0 => part(weights, key.weights),
            _ => whole(&context.dummy),
        };
        let bound = [part(buffers.arena, key.arena), second, whole(buffers.control)];
        let writes = [vk::WriteDescriptorSet::default()
            .dst_set(made)
            .dst_binding(0)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&bound)];
        // SAFETY: the set is new and unused; a write of three descriptors from binding 0 fills bindings 0 to 2, which are
        // alike; ranges and alignment were checked.
        unsafe { device.raw.update_descriptor_sets(&writes, &[]) };
    }
    Ok((Some(pool), sets))
}

fn query_pool(context: &Context) -> Result<Owned<vk::QueryPool>, ShellError> {
    let device = &context.device;
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
    // SAFETY: the device is alive, the structure valid.
    let pool = unsafe { device.raw.create_query_pool(&info, None) }
        .map_err(|e| device.error("vkCreateQueryPool", e, 0))?;
    Ok(Owned::new(device, pool))
}

/// Kinds of work, for barriers.
#[derive(Clone, Copy, Default)]
struct Work {
    compute: bool,
    transfer: bool,
    indirect: bool,
}

impl Work {
    fn of(command: &Command) -> Self {
        match (command, Launch::of(command)) {
            (_, Some(launch)) => Self { compute: true, transfer: false, indirect: launch.indirect.is_some() },
            (
                Command::Write { bytes, .. } | Command::Clear { bytes, .. } | Command::Read { bytes, .. },
                None,
            ) => Self { transfer: *bytes > 0, ..Self::default() },
            _ => Self::default(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            compute: self.compute || other.compute,
            transfer: self.transfer || other.transfer,
            indirect: self.indirect || other.indirect,
        }
    }

    fn any(self) -> bool {
        self.compute || self.transfer || self.indirect
    }

    fn stages(self) -> vk::PipelineStageFlags {
        let pick = |there, stage| if there { stage } else { vk::PipelineStageFlags::empty() };
        pick(self.compute, vk::PipelineStageFlags::COMPUTE_SHADER)
            | pick(self.transfer, vk::PipelineStageFlags::TRANSFER)
            | pick(self.indirect, vk::PipelineStageFlags::DRAW_INDIRECT)
    }

    fn writes(self) -> vk::AccessFlags {
        let pick = |there, access| if there { access } else { vk::AccessFlags::empty() };
        pick(self.compute, vk::AccessFlags::SHADER_WRITE)
            | pick(self.transfer, vk::AccessFlags::TRANSFER_WRITE)
    }

    fn accesses(self) -> vk::AccessFlags {
        let pick = |there, access| if there { access } else { vk::AccessFlags::empty() };
        self.writes()
            | pick(self.compute, vk::AccessFlags::SHADER_READ)
            | pick(self.transfer, vk::AccessFlags::TRANSFER_READ)
            | pick(self.indirect, vk::AccessFlags::INDIRECT_COMMAND_READ)
    }
}

/// Records all commands between barriers towards earlier submissions and the host.
///
/// # Safety
///
/// The command buffer of `parts` is being recorded; `parts` keeps the buffers; the commands were checked against them;
/// `sets` has a set for each launch.
unsafe fn record(
    parts: &Parts,
    buffers: &Buffers<'_, Buffer>,
    commands: &[Command],
    sets: &Sets,
) -> Result<(), ShellError> {
    let context = &parts.context;
    let raw = &context.device.raw;
    let commands_raw = parts.commands;
    let all = commands.iter().map(Work::of).fold(Work::default(), Work::and);
    let barrier = |from: vk::PipelineStageFlags, writes, to: vk::PipelineStageFlags, accesses| {
        let memory = [vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(accesses)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded; stages are not empty and fit a compute queue.
        unsafe { raw.cmd_pipeline_barrier(commands_raw, from, to, none, &memory, &[], &[]) };
    };
    let target = |target| match target {
        Target::Arena => buffers.arena.raw(),
        Target::Control => buffers.control.raw(),
    };
    let stamp = |stage, query| {
        if let Some(pool) = &parts.timestamps {
            // SAFETY: the pool has two queries, reset before, and the queue writes timestamps.
            unsafe { raw.cmd_write_timestamp(commands_raw, stage, pool.raw, query) };
        }
    };

    if let Some(pool) = &parts.timestamps {
        // SAFETY: the pool has two queries.
        unsafe { raw.cmd_reset_query_pool(commands_raw, pool.raw, 0, 2) };
    }
    let host = vk::PipelineStageFlags::HOST;
    let everything = Work { compute: true, transfer: true, indirect: true };
    if all.any() {
        let writes = everything.writes() | vk::AccessFlags::HOST_WRITE;
        barrier(everything.stages() | host, writes, all.stages(), all.accesses());
    }
    stamp(vk::PipelineStageFlags::TOP_OF_PIPE, 0);

    let mut due = false;
    // Work since the last barrier: what came before is settled.
    let mut since = Work::default();
    let mut pipeline = vk::Pipeline::null();
    let mut set = vk::DescriptorSet::null();
    for command in commands {
        let work = Work::of(command);
        due |= match command {
            Command::Barrier => true,
            Command::Dispatch { dispatch, .. } => dispatch.after_barrier,
            _ => false,
        };
        if !work.any() {
            continue;
        }
        if due && since.any() {
            barrier(since.stages(), since.writes(), all.stages(), all.accesses());
            since = Work::default();
        }
        due = false;
        since = since.and(work);
        match *command {
            Command::Write { from, to, offset, bytes } => {
                let region = [vk::BufferCopy { src_offset: from, dst_offset: offset, size: bytes }];
                // SAFETY: both ranges lie in their buffers, which are distinct and allow transfers.
                unsafe { raw.cmd_copy_buffer(commands_raw, parts.input.raw(), target(to), &region) };
            }
            Command::Clear { buffer, offset, bytes } => {
                // SAFETY: the range lies in the buffer, in whole words, and is not empty.
                unsafe { raw.cmd_fill_buffer(commands_raw, target(buffer), offset, bytes, 0) };
            }
            Command::Read { from, offset, bytes, to } => {
                let region = [vk::BufferCopy { src_offset: offset, dst_offset: to, size: bytes }];
                // SAFETY: both ranges lie in their buffers, which are distinct and allow transfers.
                unsafe { raw.cmd_copy_buffer(commands_raw, target(from), parts.output.raw(), &region) };
            }
            Command::Dispatch { .. } => {
                let Some(launch) = Launch::of(command) else { continue };
                let missing = ShellError::Invalid("a kernel that is not loaded");
                let wanted = context.pipelines.get(launch.dispatch.kernel).ok_or(missing)?;
                let key = set_key(context, &launch)?;
                let wanted_set =
                    sets.get(&key).copied().ok_or(ShellError::Invalid("windows without a set"))?;
                if pipeline != wanted {
                    pipeline = wanted;
                    // SAFETY: the pipeline is alive as long as the context, which `parts` keeps.
                    unsafe {
                        raw.cmd_bind_pipeline(commands_raw, vk::PipelineBindPoint::COMPUTE, pipeline);
                    }
                }
                if set != wanted_set {
                    set = wanted_set;
                    // SAFETY: the set is of the layout's only set layout and kept by `parts`.
                    unsafe {
                        raw.cmd_bind_descriptor_sets(
                            commands_raw,
                            vk::PipelineBindPoint::COMPUTE,
                            context.pipelines.layout.raw,
                            0,
                            &[set],
                            &[],
                        );
                    }
                }
                // SAFETY: promised by the caller; pipeline and set are bound.
                unsafe { launch_one(parts, &launch, buffers) };
            }
            Command::Barrier => {}
        }
    }

    stamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE, 1);
    if all.any() {
        let accesses = vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE;
        barrier(all.stages(), all.writes(), host, accesses);
    }
    Ok(())
}

/// Pushes the parameters and launches.
///
/// # Safety
///
/// As [`record`]; pipeline and descriptor set are bound.
unsafe fn launch_one(parts: &Parts, launch: &Launch<'_>, buffers: &Buffers<'_, Buffer>) {
    let context = &parts.context;
    let raw = &context.device.raw;
    let dispatch = launch.dispatch;
    let declared =
        context.library.kernels().get(usize::from(dispatch.kernel)).map_or(0, |kernel| kernel.param_words);
    let mut bytes = [0u8; PUSH_BYTES as usize];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(dispatch.params) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let used = bytes.len().min(dispatch.param_words.max(declared) as usize * 4);
    if used > 0 {
        let layout = context.pipelines.layout.raw;
        // SAFETY: the layout has 128 bytes of push constants for compute; the range is in whole words.
        unsafe {
            raw.cmd_push_constants(parts.commands, layout, vk::ShaderStageFlags::COMPUTE, 0, &bytes[..used]);
        }
    }
    match (launch.indirect, buffers.indirect) {
        (Some(record), Some(indirect)) => {
            // SAFETY: the record lies in the buffer, which was made for indirect use; what gates write there are grids of
            // dispatches of the library, or zeros.
            unsafe {
                raw.cmd_dispatch_indirect(parts.commands, indirect.raw(), u64::from(record) * RECORD_BYTES);
            }
        }
        (Some(_), None) => {}
        (None, _) => {
            let [x, y, z] = dispatch.grid;
            // SAFETY: the grid is within the device's limits.
            unsafe { raw.cmd_dispatch(parts.commands, x, y, z) };
        }
    }
}
