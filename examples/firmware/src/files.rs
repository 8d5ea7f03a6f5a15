//! Files of the machine that emulates or debugs the board, through semihosting.

use cortex_m_semihosting::{nr, syscall};
use serinette_op_suite_runner::{Link, LinkError};

/// Name of the vectors, in the directory where the emulator runs.
const VECTORS: &core::ffi::CStr = c"suite.vectors";
/// Name of the results.
const RESULTS: &core::ffi::CStr = c"suite.results";

/// An open file.
struct File(usize);

impl File {
    fn open(name: &core::ffi::CStr, mode: usize) -> Result<File, LinkError> {
        // SAFETY: SYS_OPEN takes the address of a name that ends in a zero, a mode, and the length of the name without the
        // zero; it only reads the name, which outlives the call.
        let handle = unsafe { syscall!(OPEN, name.as_ptr(), mode, name.count_bytes()) };
        if handle == usize::MAX { Err(LinkError) } else { Ok(File(handle)) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: SYS_CLOSE takes a handle; this one came from SYS_OPEN and is closed once. A failure cannot be helped here:
        // the host finds the file incomplete.
        unsafe { syscall!(CLOSE, self.0) };
    }
}

/// The files of the suite.
pub struct Files {
    vectors: File,
    results: File,
}

impl Files {
    /// Opens both.
    pub fn open() -> Result<Files, LinkError> {
        let vectors = File::open(VECTORS, nr::open::R_BINARY)?;
        Ok(Files { vectors, results: File::open(RESULTS, nr::open::RW_TRUNC_BINARY)? })
    }
}

impl Link for Files {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), LinkError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: SYS_READ takes a handle that is open and writes at most as many bytes to the address as it is told;
        // the slice is exclusive and that long. It gives the number of bytes that it did not write.
        match unsafe { syscall!(READ, self.vectors.0, bytes.as_mut_ptr(), bytes.len()) } {
            0 => Ok(()),
            _ => Err(LinkError),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: SYS_WRITE takes a handle that is open and reads as many bytes from the address as it is told; the
        // slice is that long. It gives the number of bytes that it did not take.
        match unsafe { syscall!(WRITE, self.results.0, bytes.as_ptr(), bytes.len()) } {
            0 => Ok(()),
            _ => Err(LinkError),
        }
    }
}
