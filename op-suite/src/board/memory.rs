//! The runner in this process.

use serinette_op_suite_runner::{Device, Error, Link, LinkError, run};

/// Both streams in memory.
struct InMemory<'a> {
    vectors: &'a [u8],
    results: Vec<u8>,
}

impl Link for InMemory<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), LinkError> {
        let (front, rest) = self.vectors.split_at_checked(bytes.len()).ok_or(LinkError)?;
        bytes.copy_from_slice(front);
        self.vectors = rest;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.results.extend_from_slice(bytes);
        Ok(())
    }
}

/// The results of a device whose kernels can be called from here, with `memory` bytes for one case.
pub fn run_here(vectors: &[u8], memory: usize, device: Device<'_>) -> Result<Vec<u8>, Error> {
    let mut link = InMemory { vectors, results: Vec::new() };
    // The runner starts at an aligned byte.
    let mut memory = vec![0; memory + 16];
    run(&mut link, &mut memory, device)?;
    Ok(link.results)
}
