//! Buffers, and moving bytes into and out of them outside of runs.

use crate::device::Inner;
use crate::errors::code;
use crate::wait::Mappings;
use serinette_dispatch::{ShellError, Usage};
use std::sync::Arc;
use wgpu::BufferUsages;

/// Bytes moved at a time: bounds the staging memory.
const CHUNK: u64 = 32 << 20;
/// Smallest buffer: one element of the widest type that a kernel may declare.
const MIN_BYTES: u64 = 16;

/// Memory on the device. wgpu frees it when the last handle is dropped and no work uses it any more.
#[derive(Debug)]
pub struct WgpuBuffer {
    pub(crate) raw: wgpu::Buffer,
    pub(crate) bytes: u64,
    /// [`Inner::id`].
    pub(crate) device: u64,
}

impl WgpuBuffer {
    /// Its size in bytes: what was asked for, rounded up to a multiple of 4 and at least 16.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn check(&self, inner: &Inner) -> Result<(), ShellError> {
        if self.device == inner.id { Ok(()) } else { Err(ShellError::Invalid("a buffer of another device")) }
    }
}

/// Refuses a range that is not word-aligned or not inside `total` bytes.
pub(crate) fn check_range(offset: u64, bytes: u64, total: u64, what: &'static str) -> Result<(), ShellError> {
    let aligned = offset.is_multiple_of(4) && bytes.is_multiple_of(4);
    if aligned && offset.checked_add(bytes).is_some_and(|end| end <= total) {
        Ok(())
    } else {
        Err(ShellError::Invalid(what))
    }
}

impl Inner {
    /// A buffer of a size that is a positive multiple of 4 and within limits.
    pub(crate) fn raw_buffer(
        &self,
        label: &str,
        bytes: u64,
        usage: BufferUsages,
        mapped: bool,
    ) -> Result<wgpu::Buffer, ShellError> {
        if bytes > self.caps.max_buffer {
            let limit = self.caps.max_buffer;
            return Err(ShellError::Limit { what: "bytes of a buffer", limit, needed: bytes });
        }
        self.errors.scoped(&self.device, "create_buffer", bytes, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size: bytes,
                usage,
                mapped_at_creation: mapped,
            })
        })
    }

    /// A buffer for a caller; wgpu clears it before its first use.
    pub(crate) fn buffer(&self, bytes: u64, usage: Usage) -> Result<WgpuBuffer, ShellError> {
        let (label, extra) = match usage {
            Usage::Weights => ("weights", BufferUsages::empty()),
            Usage::Storage => ("storage", BufferUsages::empty()),
            Usage::Indirect => ("indirect", BufferUsages::INDIRECT),
        };
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST | extra;
        // Sizes near 2^64 are over every limit, rounded or not.
        let bytes = bytes.checked_next_multiple_of(4).unwrap_or(u64::MAX).max(MIN_BYTES);
        let raw = self.raw_buffer(label, bytes, usage, false)?;
        Ok(WgpuBuffer { raw, bytes, device: self.id })
    }

    pub(crate) fn upload(&self, buffer: &WgpuBuffer, offset: u64, bytes: &[u8]) -> Result<(), ShellError> {
        buffer.check(self)?;
        check_range(
            offset,
            bytes.len() as u64,
            buffer.bytes,
            "an upload outside its buffer or not in words",
        )?;
        let mut before: Option<wgpu::SubmissionIndex> = None;
        for (i, chunk) in bytes.chunks(CHUNK as usize).enumerate() {
            let at = offset + i as u64 * CHUNK;
            let submission = self.errors.scoped(&self.device, "write_buffer", chunk.len() as u64, || {
                self.queue.write_buffer(&buffer.raw, at, chunk);
                self.queue.submit([])
            })?;
            // One chunk is copied by the device while the next is filled.
            if let Some(earlier) = before.replace(submission) {
                self.wait(earlier, self.transfer_timeout)?;
            }
        }
        before.map_or(Ok(()), |last| self.wait(last, self.transfer_timeout))
    }

    pub(crate) fn download(
        &self,
        buffer: &WgpuBuffer,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), ShellError> {
        buffer.check(self)?;
        let total = bytes.len() as u64;
        check_range(offset, total, buffer.bytes, "a download outside its buffer or not in words")?;
        if total == 0 {
            return self.errors.alive();
        }
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let staging = self.raw_buffer("download", total.min(CHUNK), usage, false)?;
        let mappings = Arc::new(Mappings::default());
        for (i, chunk) in bytes.chunks_mut(CHUNK as usize).enumerate() {
            let at = offset + i as u64 * CHUNK;
            let submission = self.errors.scoped(&self.device, "download", chunk.len() as u64, || {
                let mut encoder = self.device.create_command_encoder(&Default::default());
                encoder.copy_buffer_to_buffer(&buffer.raw, at, &staging, 0, chunk.len() as u64);
                let submission = self.queue.submit([encoder.finish()]);
                mappings.map(&staging, wgpu::MapMode::Read);
                submission
            })?;
            mappings.wait(self, submission, self.transfer_timeout)?;
            self.mapped(&staging, chunk.len() as u64, |data| chunk.copy_from_slice(data))?;
        }
        Ok(())
    }

    /// Shows the first bytes of a mapped buffer, and unmaps it, whatever happens in between.
    pub(crate) fn mapped(
        &self,
        buffer: &wgpu::Buffer,
        bytes: u64,
        see: impl FnOnce(&[u8]),
    ) -> Result<(), ShellError> {
        let _unmap = Unmap(buffer);
        match buffer.get_mapped_range(..bytes) {
            Ok(view) => {
                see(&view);
                Ok(())
            }
            Err(e) => {
                self.errors.note(format!("get_mapped_range: {e}"));
                Err(ShellError::Driver { call: "get_mapped_range", code: code::MAP })
            }
        }
    }
}

/// Unmaps a buffer when dropped, so also when a caller's closure panics.
struct Unmap<'a>(&'a wgpu::Buffer);

impl Drop for Unmap<'_> {
    fn drop(&mut self) {
        self.0.unmap();
    }
}
