//! Host memory aligned for every kernel.

use bytemuck::{Pod, Zeroable};

/// Alignment of host memory in bytes: a cache line, and more than any element needs.
pub const ALIGN: usize = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

/// Zeroed bytes that start at a multiple of [`ALIGN`].
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes; `None` where the memory is not to be had.
    pub fn new(len: usize) -> Option<Buffer> {
        let count = len.div_ceil(ALIGN);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line([0; ALIGN]));
        Some(Buffer { lines, len })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice::<Line, u8>(&self.lines).get(..self.len).unwrap_or(&[])
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut::<Line, u8>(&mut self.lines).get_mut(..self.len).unwrap_or(&mut [])
    }
}
