//! Buffers: which memory they lie in, how the host reaches them, and who may use them when.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ash::vk;
use serinette_dispatch::{ShellError, Usage};

use crate::device::{Device, Owned};

/// From this size on, writes into uncached device memory are spread over threads.
const PARALLEL_COPY: usize = 16 << 20;
const MAX_COPY_THREADS: usize = 8;

/// What memory is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Lives on the device.
    Device(Usage),
    /// Filled by the host, read by the device.
    Upload,
    /// Filled by the device (or the host), read by the host.
    Readback,
}

/// A buffer on the device. Clones are not offered: a recording keeps what it uses alive by itself.
pub struct Buffer(Arc<Inner>);

struct Inner {
    // In this order: the buffer goes before its memory.
    raw: Owned<vk::Buffer>,
    mapping: Option<Mapping>,
    memory: Memory,
    /// Bytes that may be used: what was asked for, rounded up to whole words, at least one.
    bytes: u64,
    flags: vk::MemoryPropertyFlags,
    usage: Option<Usage>,
    /// Order in which locks of several buffers are taken.
    id: u64,
    /// Held while the device or the host uses the contents.
    lock: RwLock<()>,
    /// Submitted work that has not been seen to end; above 0 outside of the lock only after a timeout.
    pending: AtomicU32,
}

/// An allocation.
struct Memory {
    raw: vk::DeviceMemory,
    bytes: u64,
    device: Arc<Device>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory is of this device and this is its only owner; the buffer in it is gone. A mapping ends
        // with it.
        unsafe { self.device.raw.free_memory(self.raw, None) };
        self.device.allocations.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where the host sees the memory: valid for the allocation's bytes as long as it lives.
#[derive(Clone, Copy)]
struct Mapping(NonNull<u8>);

// SAFETY: the address is valid on every thread; who accesses it when is settled by the lock of the buffer.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.0.bytes)
            .field("usage", &self.0.usage)
            .finish_non_exhaustive()
    }
}

impl Buffer {
    /// A buffer on the device, contents undefined.
    pub(crate) fn on_device(device: &Arc<Device>, bytes: u64, usage: Usage) -> Result<Self, ShellError> {
        Self::new(device, bytes, Purpose::Device(usage))
    }

    /// Host-visible memory for copies, zeroed.
    pub(crate) fn staging(device: &Arc<Device>, bytes: u64, purpose: Purpose) -> Result<Self, ShellError> {
        let buffer = Self::new(device, bytes, purpose)?;
        // What fresh memory holds may be another process's data; nobody shall see it.
        buffer.zero_mapped()?;
        Ok(buffer)
    }

    fn new(device: &Arc<Device>, bytes: u64, purpose: Purpose) -> Result<Self, ShellError> {
        let limit = device.physical.info.caps.max_buffer;
        if bytes > limit {
            return Err(ShellError::Limit { what: "buffer bytes", limit, needed: bytes });
        }
        // The limit is a multiple of 4. Vulkan has no empty buffers.
        let bytes = bytes.next_multiple_of(4).max(4);
        let copies = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let usage = match purpose {
            Purpose::Device(Usage::Indirect) => {
                copies | vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::INDIRECT_BUFFER
            }
            Purpose::Device(_) => copies | vk::BufferUsageFlags::STORAGE_BUFFER,
            Purpose::Upload | Purpose::Readback => copies,
        };
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device is alive; the size is above 0 and at most what the device allows.
        let raw = unsafe { device.raw.create_buffer(&info, None) }
            .map_err(|e| device.error("vkCreateBuffer", e, bytes))?;
        let raw = Owned::new(device, raw);
        // SAFETY: the buffer was just made.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw.raw) };
        let (memory, flags) = allocate(device, &needs, purpose)?;
        // SAFETY: both are fresh, the memory is of an allowed type and as large as required.
        unsafe { device.raw.bind_buffer_memory(raw.raw, memory.raw, 0) }
            .map_err(|e| device.error("vkBindBufferMemory", e, bytes))?;
        let wanted = device.direct || !matches!(purpose, Purpose::Device(_));
        let mapping = if wanted && flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) {
            map(device, &memory, purpose)?
        } else {
            None
        };
        let usage = match purpose {
            Purpose::Device(usage) => Some(usage),
            _ => None,
        };
        Ok(Self(Arc::new(Inner {
            raw,
            mapping,
            memory,
            bytes,
            flags,
            usage,
            id: device.id(),
            lock: RwLock::new(()),
            pending: AtomicU32::new(0),
        })))
    }

    /// Bytes that may be used: those asked for, rounded up to a multiple of 4, and at least 4.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Another owner of the same buffer.
    pub(crate) fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn raw(&self) -> vk::Buffer {
        self.0.raw.raw
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0.memory.device
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.0.usage
    }

    /// Whether the host can write without a copy on the device.
    pub(crate) fn writable(&self) -> bool {
        self.0.mapping.is_some()
    }

    /// Whether the host can read without a copy on the device, at the speed of memory.
    pub(crate) fn readable(&self) -> bool {
        self.0.mapping.is_some() && self.0.flags.contains(vk::MemoryPropertyFlags::HOST_CACHED)
    }

    /// Keeps everybody else off the contents. Refused after a timeout, while work may still use them.
    pub(crate) fn exclusive(&self) -> Result<RwLockWriteGuard<'_, ()>, ShellError> {
        let guard = self.0.lock.write().unwrap_or_else(PoisonError::into_inner);
        if self.0.pending.load(Ordering::Acquire) > 0 { Err(ShellError::Timeout) } else { Ok(guard) }
    }

    /// Keeps writers off the contents.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.0.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that work using the buffer is about to be submitted. The caller holds its lock.
    pub(crate) fn begin_work(&self) {
        self.0.pending.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that such work has ended.
    pub(crate) fn end_work(&self) {
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
    }

    /// The range, if it lies in the buffer and is made of whole words.
    pub(crate) fn check_range(&self, offset: u64, bytes: u64) -> Result<(), ShellError> {
        if !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(ShellError::Invalid("offsets and lengths are multiples of 4"));
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= self.0.bytes => Ok(()),
            _ => Err(ShellError::Invalid("the range lies outside the buffer")),
        }
    }

    /// Writes through the mapping. The caller holds the lock exclusively.
    pub(crate) fn write_mapped(&self, offset: u64, bytes: &[u8]) -> Result<(), ShellError> {
        let target = self.mapped_range(offset, bytes.len())?;
        // A flush writes whole atoms back, also the bytes beside the range: they have to be fresh.
        self.invalidate(offset, bytes.len() as u64)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_COPY_THREADS);
        if bytes.len() < PARALLEL_COPY || threads < 2 || self.readable() {
            // SAFETY: `mapped_range` checked that the range is mapped; the lock keeps the device and other threads off
            // it, and `bytes` is no device memory, which is never lent out while the lock is free.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.0.as_ptr(), bytes.len()) };
        } else {
            let part = bytes.len().div_ceil(threads).next_multiple_of(4096);
            std::thread::scope(|scope| {
                for (i, bytes) in bytes.chunks(part).enumerate() {
                    let copy = move || {
                        let target = target;
                        // SAFETY: as above; the parts are disjoint and lie in the range.
                        unsafe {
                            let to = target.0.as_ptr().add(i * part);
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                        }
                    };
                    if std::thread::Builder::new().spawn_scoped(scope, copy).is_err() {
                        copy();
                    }
                }
            });
        }
        self.flush(offset, bytes.len() as u64)
    }

    /// Reads through the mapping. The caller holds the lock.
    pub(crate) fn read_mapped(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ShellError> {
        let source = self.mapped_range(offset, bytes.len())?;
        self.invalidate(offset, bytes.len() as u64)?;
        // SAFETY: `mapped_range` checked that the range is mapped; the lock keeps writers off it.
        unsafe { std::ptr::copy_nonoverlapping(source.0.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Sets the whole mapped buffer to zero.
    pub(crate) fn zero_mapped(&self) -> Result<(), ShellError> {
        let bytes = host_len(self.0.bytes)?;
        let target = self.mapped_range(0, bytes)?;
        // SAFETY: the range is mapped; the buffer is new or its lock held by the caller.
        unsafe { std::ptr::write_bytes(target.0.as_ptr(), 0, bytes) };
        self.flush(0, self.0.bytes)
    }

    /// The first `bytes` of a mapped buffer.
    ///
    /// # Safety
    ///
    /// Neither the device nor anybody else touches the buffer during the borrow, and no other slice of it is alive.
    pub(crate) unsafe fn slice_mut(&mut self, bytes: usize) -> Result<&mut [u8], ShellError> {
        let start = self.mapped_range(0, bytes)?;
        // SAFETY: the range is mapped, was zeroed when the buffer was made, and is the caller's alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.0.as_ptr(), bytes) })
    }

    /// Makes what the host wrote visible to the device.
    pub(crate) fn flush(&self, offset: u64, bytes: u64) -> Result<(), ShellError> {
        let Some(range) = self.atoms(offset, bytes) else { return Ok(()) };
        let device = self.device();
        // SAFETY: the memory is mapped as a whole and the range lies in it, made of whole atoms.
        unsafe { device.raw.flush_mapped_memory_ranges(&[range]) }
            .map_err(|e| device.error("vkFlushMappedMemoryRanges", e, bytes))
    }

    /// Makes what the device wrote visible to the host.
    pub(crate) fn invalidate(&self, offset: u64, bytes: u64) -> Result<(), ShellError> {
        let Some(range) = self.atoms(offset, bytes) else { return Ok(()) };
        let device = self.device();
        // SAFETY: the memory is mapped as a whole and the range lies in it, made of whole atoms.
        unsafe { device.raw.invalidate_mapped_memory_ranges(&[range]) }
            .map_err(|e| device.error("vkInvalidateMappedMemoryRanges", e, bytes))
    }

    /// The range in whole atoms; `None` where the memory is coherent or the range empty.
    fn atoms(&self, offset: u64, bytes: u64) -> Option<vk::MappedMemoryRange<'static>> {
        if bytes == 0 || self.0.flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT) {
            return None;
        }
        let atom = self.device().physical.properties.limits.non_coherent_atom_size.max(1);
        let start = offset - offset % atom;
        let end = (offset + bytes).next_multiple_of(atom);
        let size = if end >= self.0.memory.bytes { vk::WHOLE_SIZE } else { end - start };
        Some(vk::MappedMemoryRange::default().memory(self.0.memory.raw).offset(start).size(size))
    }

    /// Where a range is mapped, if it is.
    fn mapped_range(&self, offset: u64, bytes: usize) -> Result<Mapping, ShellError> {
        let mapping = self.0.mapping.ok_or(ShellError::Invalid("the host does not see this memory"))?;
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.0.bytes => {}
            _ => return Err(ShellError::Invalid("the range lies outside the buffer")),
        }
        // SAFETY: the offset is at most the size of the mapping, which the host could map, so it fits `usize`.
        Ok(Mapping(unsafe { mapping.0.add(offset as usize) }))
    }
}

/// A number of bytes as a length on the host.
pub(crate) fn host_len(bytes: u64) -> Result<usize, ShellError> {
    // Rust objects are at most isize::MAX bytes.
    isize::try_from(bytes).map(|bytes| bytes as usize).map_err(|_| ShellError::OutOfMemory { bytes })
}

/// Allocates memory of the best type that has room.
fn allocate(
    device: &Arc<Device>,
    needs: &vk::MemoryRequirements,
    purpose: Purpose,
) -> Result<(Memory, vk::MemoryPropertyFlags), ShellError> {
    let properties = &device.physical.memory;
    let types = properties.memory_types_as_slice();
    let mut candidates: Vec<(u32, usize)> = (0..types.len())
        .filter(|i| needs.memory_type_bits & (1 << i) != 0)
        .filter_map(|i| {
            score(properties, i, purpose, device.physical.info.caps.unified_memory).map(|score| (score, i))
        })
        .collect();
    // Best first; of equals the first, for drivers list faster types first.
    candidates.sort_by_key(|&(score, _)| std::cmp::Reverse(score));

    let limit = device.physical.properties.limits.max_memory_allocation_count;
    let alive = device.allocations.fetch_add(1, Ordering::Relaxed);
    let count = Count(device);
    if alive >= limit {
        return Err(ShellError::Limit {
            what: "memory allocations",
            limit: limit.into(),
            needed: u64::from(alive) + 1,
        });
    }
    let bytes = needs.size;
    for (_, index) in candidates {
        let kind = types[index];
        // Drivers may crash, and validation complains, where a heap is asked for more than it has.
        let heap =
            properties.memory_heaps_as_slice().get(kind.heap_index as usize).map_or(0, |heap| heap.size);
        if bytes > heap {
            continue;
        }
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(index as u32);
        // SAFETY: the type exists, the size is above 0 and at most that of the heap.
        match unsafe { device.raw.allocate_memory(&info, None) } {
            Ok(raw) => {
                std::mem::forget(count);
                return Ok((Memory { raw, bytes, device: Arc::clone(device) }, kind.property_flags));
            }
            Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {}
            Err(code) => return Err(device.error("vkAllocateMemory", code, bytes)),
        }
    }
    Err(ShellError::OutOfMemory { bytes })
}

/// Takes an allocation out of the count again unless it came about.
struct Count<'a>(&'a Device);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.allocations.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How well a memory type suits a purpose; `None` if not at all.
fn score(
    properties: &vk::PhysicalDeviceMemoryProperties,
    index: usize,
    purpose: Purpose,
    unified: bool,
) -> Option<u32> {
    use vk::MemoryPropertyFlags as Flags;
    let kind = properties.memory_types_as_slice().get(index)?;
    let flags = kind.property_flags;
    // Need features or usages that are not switched on.
    let special =
        Flags::PROTECTED | Flags::LAZILY_ALLOCATED | Flags::DEVICE_COHERENT_AMD | Flags::DEVICE_UNCACHED_AMD;
    if flags.intersects(special) {
        return None;
    }
    let has = |flag: Flags| u32::from(flags.contains(flag));
    let visible = flags.contains(Flags::HOST_VISIBLE);
    match purpose {
        Purpose::Device(usage) => {
            let direct = if !visible {
                // Plain device memory: the choice for what only kernels touch.
                2
            } else if unified {
                // Shared with the host. Cached is best: downloads are plain reads too.
                3 + has(Flags::HOST_CACHED) + has(Flags::HOST_COHERENT)
            } else if usage == Usage::Weights && in_main_heap(properties, kind.heap_index) {
                // The host reaches all of the device's memory: weights are written straight into it.
                3
            } else {
                // A window of device memory, often small: the last resort.
                1
            };
            Some(direct + 8 * has(Flags::DEVICE_LOCAL))
        }
        // The host writes and the device reads once: leave device memory to those who need it.
        Purpose::Upload => {
            let remote = 1 - has(Flags::DEVICE_LOCAL);
            visible.then(|| 4 * has(Flags::HOST_COHERENT) + 2 * has(Flags::HOST_CACHED) + remote)
        }
        // Uncached reads are a hundred times slower.
        Purpose::Readback => {
            let remote = 1 - has(Flags::DEVICE_LOCAL);
            visible.then(|| 4 * has(Flags::HOST_CACHED) + 2 * has(Flags::HOST_COHERENT) + remote)
        }
    }
}

/// Whether a heap is the largest one on the device.
fn in_main_heap(properties: &vk::PhysicalDeviceMemoryProperties, index: u32) -> bool {
    let heaps = properties.memory_heaps_as_slice();
    let local = |heap: &&vk::MemoryHeap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL);
    let largest = heaps.iter().filter(local).map(|heap| heap.size).max();
    heaps.get(index as usize).is_some_and(|heap| local(&heap) && Some(heap.size) == largest)
}

/// Maps an allocation. Staging memory must be mapped; device memory may stay unmapped where addresses are scarce.
fn map(device: &Device, memory: &Memory, purpose: Purpose) -> Result<Option<Mapping>, ShellError> {
    // SAFETY: the memory is host-visible, fresh, and not mapped.
    let mapped = unsafe { device.raw.map_memory(memory.raw, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
    match mapped {
        Ok(start) => match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Some(Mapping(start))),
            None => Err(ShellError::Driver { call: "vkMapMemory", code: 0 }),
        },
        Err(vk::Result::ERROR_MEMORY_MAP_FAILED) if matches!(purpose, Purpose::Device(_)) => Ok(None),
        Err(code) => Err(device.error("vkMapMemory", code, memory.bytes)),
    }
}
