//! Bytes of constant tensors, shared and never copied.

use bytes::Bytes;
use std::fmt;

/// Little-endian, dense, row-major bytes of a tensor. Clones and slices share the memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Data(Bytes);

impl Data {
    /// Bytes of a static, for models that are part of a program.
    pub const fn from_static(bytes: &'static [u8]) -> Data {
        Data(Bytes::from_static(bytes))
    }

    /// Bytes of a slice of numbers, copied once.
    pub fn from_slice<T: bytemuck::NoUninit>(values: &[T]) -> Data {
        Data(Bytes::copy_from_slice(bytemuck::cast_slice(values)))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers, whatever the alignment; a rest that is no whole number is left out.
    pub fn numbers<T: bytemuck::AnyBitPattern>(&self) -> impl Iterator<Item = T> + '_ {
        self.0.chunks_exact(std::mem::size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned)
    }
}

impl From<Vec<u8>> for Data {
    fn from(v: Vec<u8>) -> Data {
        Data(Bytes::from(v))
    }
}

impl From<Bytes> for Data {
    fn from(b: Bytes) -> Data {
        Data(b)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}
