//! Files mapped into memory: the one module that does so.

use std::fs::File;
use std::path::Path;

/// A file mapped read-only.
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a whole file.
    pub fn open(path: &Path) -> std::io::Result<Mapped> {
        let file = File::open(path)?;
        // SAFETY: a map may change or shrink under us when someone writes the file. Records are copied out and
        // verified from the copy; weight bytes that stay mapped are plain numbers, any of which are safe to read.
        // A file truncated while mapped raises SIGBUS, which ends the process; it cannot corrupt memory.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Mapped(map))
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
