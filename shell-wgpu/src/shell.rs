//! The contract.

use crate::buffer::WgpuBuffer;
use crate::device::WgpuDevice;
use crate::record::WgpuRecording;
use serinette_dispatch::{Buffers, Command, DeviceCaps, KernelLibrary, RunTimes, Shell, ShellError, Usage};
use std::sync::Arc;
use std::time::Duration;

impl Shell for WgpuDevice {
    type Buffer = WgpuBuffer;
    type Recording = WgpuRecording;

    fn name(&self) -> &str {
        &self.inner.info.name
    }

    fn caps(&self) -> &DeviceCaps {
        &self.inner.caps
    }

    fn library(&self) -> &'static dyn KernelLibrary {
        self.inner.library
    }

    fn buffer(&self, bytes: u64, usage: Usage) -> Result<WgpuBuffer, ShellError> {
        self.inner.buffer(bytes, usage)
    }

    fn upload(&self, buffer: &WgpuBuffer, offset: u64, bytes: &[u8]) -> Result<(), ShellError> {
        self.inner.upload(buffer, offset, bytes)
    }

    fn download(&self, buffer: &WgpuBuffer, offset: u64, bytes: &mut [u8]) -> Result<(), ShellError> {
        self.inner.download(buffer, offset, bytes)
    }

    fn load_kernels(&self, kernels: &[u16]) -> Result<(), ShellError> {
        self.inner.kernels.load(&self.inner.device, &self.inner.errors, kernels)
    }

    unsafe fn record(
        &self,
        buffers: Buffers<'_, WgpuBuffer>,
        commands: &[Command],
        input_bytes: u64,
        output_bytes: u64,
    ) -> Result<WgpuRecording, ShellError> {
        WgpuRecording::new(Arc::clone(&self.inner), &buffers, commands, input_bytes, output_bytes)
    }

    fn run(
        &self,
        recording: &mut WgpuRecording,
        write: &mut dyn FnMut(&mut [u8]),
        read: &mut dyn FnMut(&[u8]),
        timeout: Duration,
    ) -> Result<RunTimes, ShellError> {
        if !Arc::ptr_eq(&recording.inner, &self.inner) {
            return Err(ShellError::Invalid("a recording of another device"));
        }
        recording.run(write, read, timeout)
    }
}
