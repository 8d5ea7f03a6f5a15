//! Uploads, downloads and zero-fills outside recordings: plain copies where the host sees the memory, else through
//! two staging buffers, one filled (or emptied) by the host while the device works on the other.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;
use serinette_dispatch::ShellError;

use crate::device::{Device, Owned};
use crate::memory::{Buffer, Purpose, host_len};

/// Bounds of the size of a staging buffer.
const MIN_STAGING: u64 = 64 << 10;
const MAX_STAGING: u64 = 8 << 20;
/// How long a single copy may take: it waits for whatever is in the queue before it.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long the end waits for copies that did not end in time.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Copies between host and device.
pub(crate) struct Transfer {
    state: Mutex<ManuallyDrop<State>>,
    device: Arc<Device>,
}

struct State {
    slots: [Slot; 2],
    _pool: Owned<vk::CommandPool>,
}

/// One copy that may be under way.
struct Slot {
    commands: vk::CommandBuffer,
    fence: Owned<vk::Fence>,
    staging: Option<Buffer>,
    /// The buffer that the pending copy uses.
    pending: Option<Buffer>,
}

impl Transfer {
    pub fn new(device: &Arc<Device>) -> Result<Self, ShellError> {
        let pool = device.command_pool(
            vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT,
        )?;
        let slot = || {
            // SAFETY: the pool is used here only, and later only under the lock.
            let commands = unsafe { device.command_buffer(&pool)? };
            Ok::<_, ShellError>(Slot { commands, fence: device.fence()?, staging: None, pending: None })
        };
        let slots = [slot()?, slot()?];
        let state = Mutex::new(ManuallyDrop::new(State { slots, _pool: pool }));
        Ok(Self { state, device: Arc::clone(device) })
    }

    /// Sets a whole buffer to zero.
    pub fn zero(&self, buffer: &Buffer) -> Result<(), ShellError> {
        let _guard = buffer.exclusive()?;
        if buffer.writable() {
            return buffer.zero_mapped();
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut state.slots[0];
        slot.finish(&self.device)?;
        slot.submit(&self.device, buffer, |raw, commands, _| {
            // SAFETY: the command buffer is being recorded; the buffer allows transfers and has whole words.
            unsafe { raw.cmd_fill_buffer(commands, buffer.raw(), 0, vk::WHOLE_SIZE, 0) };
        })?;
        slot.finish(&self.device)
    }

    /// Writes bytes into a buffer.
    pub fn upload(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), ShellError> {
        buffer.check_range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let _guard = buffer.exclusive()?;
        if buffer.writable() {
            return buffer.write_mapped(offset, bytes);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let size = state.prepare(&self.device, bytes.len() as u64)?;
        let mut at = offset;
        for (i, part) in bytes.chunks(size).enumerate() {
            let slot = &mut state.slots[i % 2];
            slot.finish(&self.device)?;
            slot.staging()?.write_mapped(0, part)?;
            let region = vk::BufferCopy { src_offset: 0, dst_offset: at, size: part.len() as u64 };
            slot.submit(&self.device, buffer, |raw, commands, staging| {
                // SAFETY: the command buffer is being recorded; both ranges lie in their buffers.
                unsafe { raw.cmd_copy_buffer(commands, staging, buffer.raw(), &[region]) };
            })?;
            at += region.size;
        }
        state.finish(&self.device)
    }

    /// Reads bytes from a buffer.
    pub fn download(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), ShellError> {
        buffer.check_range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let _guard = buffer.exclusive()?;
        if buffer.readable() {
            return buffer.read_mapped(offset, bytes);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let size = state.prepare(&self.device, bytes.len() as u64)?;
        let mut at = offset;
        // The host empties one staging buffer while the device fills the other.
        let mut before: Option<&mut [u8]> = None;
        for (i, part) in bytes.chunks_mut(size).enumerate() {
            let region = vk::BufferCopy { src_offset: at, dst_offset: 0, size: part.len() as u64 };
            state.slots[i % 2].submit(&self.device, buffer, |raw, commands, staging| {
                // SAFETY: the command buffer is being recorded; both ranges lie in their buffers.
                unsafe { raw.cmd_copy_buffer(commands, buffer.raw(), staging, &[region]) };
            })?;
            at += region.size;
            if let Some(part) = before.replace(part) {
                state.slots[(i + 1) % 2].take(&self.device, part)?;
            }
        }
        if let Some(part) = before {
            let last = state.slots.iter_mut().find(|slot| slot.pending.is_some());
            last.ok_or(ShellError::Invalid("no copy under way"))?.take(&self.device, part)?;
        }
        Ok(())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let idle = state.slots.iter_mut().all(|slot| slot.finish_within(&self.device, GRACE).is_ok());
        if idle {
            // SAFETY: dropped once, here; nothing is pending.
            unsafe { ManuallyDrop::drop(state) };
        }
        // Otherwise the device may still write to the staging buffers: they stay, and the device with them.
    }
}

impl State {
    /// Waits for old copies and makes both staging buffers large enough; gives their usable size.
    fn prepare(&mut self, device: &Arc<Device>, bytes: u64) -> Result<usize, ShellError> {
        self.finish(device)?;
        let wanted = bytes.clamp(MIN_STAGING, MAX_STAGING).next_power_of_two();
        for slot in &mut self.slots {
            if slot.staging.as_ref().is_none_or(|staging| staging.bytes() < wanted) {
                // The old one goes first.
                slot.staging = None;
                slot.staging = Some(Buffer::staging(device, wanted, Purpose::Readback)?);
            }
        }
        host_len(wanted)
    }

    fn finish(&mut self, device: &Device) -> Result<(), ShellError> {
        self.slots.iter_mut().try_for_each(|slot| slot.finish(device))
    }
}

impl Slot {
    fn staging(&self) -> Result<&Buffer, ShellError> {
        self.staging.as_ref().ok_or(ShellError::Invalid("no staging memory"))
    }

    /// Waits for the pending copy, if there is one.
    fn finish(&mut self, device: &Device) -> Result<(), ShellError> {
        self.finish_within(device, DEADLINE)
    }

    fn finish_within(&mut self, device: &Device, timeout: Duration) -> Result<(), ShellError> {
        let Some(buffer) = &self.pending else { return Ok(()) };
        let waited = device.wait(&self.fence, timeout);
        match waited {
            Ok(()) => {}
            // A lost device does no more work.
            Err(ShellError::DeviceLost) => {}
            Err(error) => return Err(error),
        }
        buffer.end_work();
        self.pending = None;
        waited
    }

    /// Waits for the pending copy and takes what it put into the staging buffer.
    fn take(&mut self, device: &Device, bytes: &mut [u8]) -> Result<(), ShellError> {
        self.finish(device)?;
        self.staging()?.read_mapped(0, bytes)
    }

    /// Records one copy or fill of `buffer`, whose lock the caller holds, and submits it. `record` gets the handle of
    /// the staging buffer, null where there is none.
    fn submit(
        &mut self,
        device: &Arc<Device>,
        buffer: &Buffer,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer, vk::Buffer),
    ) -> Result<(), ShellError> {
        self.finish(device)?;
        let raw = &device.raw;
        let staging = self.staging.as_ref().map_or(vk::Buffer::null(), Buffer::raw);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is not pending (just waited for) and its pool is used only under the lock that the
        // caller holds; beginning it resets it, as its pool allows.
        unsafe { raw.begin_command_buffer(self.commands, &begin) }
            .map_err(|e| device.error("vkBeginCommandBuffer", e, 0))?;
        let before = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE)];
        let work = vk::PipelineStageFlags::COMPUTE_SHADER
            | vk::PipelineStageFlags::TRANSFER
            | vk::PipelineStageFlags::DRAW_INDIRECT;
        let after = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE)];
        let none = vk::DependencyFlags::empty();
        let copy = vk::PipelineStageFlags::TRANSFER;
        // SAFETY: the command buffer is being recorded; the stages and accesses fit a compute queue.
        unsafe { raw.cmd_pipeline_barrier(self.commands, work, copy, none, &before, &[], &[]) };
        record(raw, self.commands, staging);
        let host = vk::PipelineStageFlags::HOST;
        // SAFETY: as above.
        unsafe { raw.cmd_pipeline_barrier(self.commands, copy, host, none, &after, &[], &[]) };
        // SAFETY: recording was begun above.
        unsafe { raw.end_command_buffer(self.commands) }
            .map_err(|e| device.error("vkEndCommandBuffer", e, 0))?;
        // SAFETY: nothing is pending on the fence.
        unsafe { device.reset(&self.fence)? };
        buffer.begin_work();
        // SAFETY: the command buffer is complete and not pending, the fence reset; `pending` and the slot keep what the
        // copy uses until it has ended.
        match unsafe { device.submit(self.commands, self.fence.raw) } {
            Ok(()) => {
                self.pending = Some(buffer.share());
                Ok(())
            }
            Err(error) => {
                buffer.end_work();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serinette_dispatch::Usage;

    use super::*;
    use crate::instance::{Checks, Instance};
    use crate::physical::{Selector, enumerate, select};

    /// Bytes that do not repeat (xorshift).
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        (0..length.div_ceil(8)).flat_map(|_| next()).collect()
    }

    /// Runs the same copies through mapped memory (where there is any) and through staging memory.
    #[test]
    fn copies_of_many_sizes_arrive_both_ways() {
        let off = std::env::var_os("SERINETTE_VULKAN_NO_VALIDATION").is_some();
        let checks = if off { Checks::None } else { Checks::Hazards };
        let instance = Arc::new(Instance::open(None, checks).unwrap());
        let log = instance.messages();
        let size = 35_000_012;
        let noise = noise(size as usize + 100);
        for direct in [true, false] {
            let physical = select(enumerate(&instance).unwrap(), &Selector::Any).unwrap();
            let device = Arc::new(Device::open(Arc::clone(&instance), physical, direct).unwrap());
            let transfer = Transfer::new(&device).unwrap();
            for usage in [Usage::Weights, Usage::Storage, Usage::Indirect] {
                let buffer = Buffer::on_device(&device, size, usage).unwrap();
                assert!(direct || !buffer.writable());
                transfer.zero(&buffer).unwrap();
                let mut expected = vec![0u8; size as usize];
                // One word, odd counts of words, one staging buffer and a word, several of them, everything.
                let cases: [(usize, usize); 7] = [
                    (4, 4),
                    (1_000_004, 12),
                    (0, 65_532),
                    (40, 65_540),
                    (96, (8 << 20) + 4),
                    (444, 25 << 20),
                    (0, size as usize),
                ];
                for (case, (offset, length)) in cases.into_iter().enumerate() {
                    // Other bytes each time, at the same place too.
                    let bytes = &noise[1 + 9 * case..][..length];
                    transfer.upload(&buffer, offset as u64, bytes).unwrap();
                    expected[offset..offset + length].copy_from_slice(bytes);
                    let mut seen = vec![0xaa; size as usize];
                    transfer.download(&buffer, 0, &mut seen).unwrap();
                    assert!(seen == expected, "direct {direct}, {usage:?}, {length} bytes at {offset}");
                    let mut part = vec![0xaa; length];
                    transfer.download(&buffer, offset as u64, &mut part).unwrap();
                    assert!(part == bytes, "direct {direct}, {usage:?}, {length} bytes from {offset}");
                }
                transfer.zero(&buffer).unwrap();
                let mut seen = vec![0xaa; size as usize];
                transfer.download(&buffer, 0, &mut seen).unwrap();
                assert!(seen.iter().all(|&byte| byte == 0));

                for (offset, length) in [(2, 4), (4, 6), (size, 4), (size - 4, 8), (u64::MAX - 3, 4)] {
                    let mut bytes = vec![0; length];
                    let outcomes = [
                        transfer.upload(&buffer, offset, &bytes),
                        transfer.download(&buffer, offset, &mut bytes),
                    ];
                    for outcome in outcomes {
                        assert!(matches!(outcome, Err(ShellError::Invalid(_))), "{length} bytes at {offset}");
                    }
                }
                transfer.upload(&buffer, size, &[]).unwrap();
                transfer.download(&buffer, size, &mut []).unwrap();
            }
            let weak = Arc::downgrade(&device);
            drop((transfer, device));
            assert!(weak.upgrade().is_none(), "something still holds the device");
        }
        drop(instance);
        assert_eq!(log.messages(), Vec::<String>::new());
    }
}
