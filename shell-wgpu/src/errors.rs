//! wgpu's failures as values: error scopes around calls, the sticky device-lost flag, the last text.

use serinette_dispatch::ShellError;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Codes of [`ShellError::Driver`]. wgpu has texts, not numbers: see
/// [`WgpuDevice::last_error`](crate::WgpuDevice::last_error).
pub mod code {
    /// wgpu refused the call as invalid.
    pub const VALIDATION: i32 = 1;
    /// An internal error of wgpu or the driver.
    pub const INTERNAL: i32 = 2;
    /// The device could not be opened.
    pub const OPEN: i32 = 3;
    /// A buffer could not be mapped.
    pub const MAP: i32 = 4;
}

/// Locks, also after a panic elsewhere: the values behind the shell's locks are whole at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a device's failures.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    lost: AtomicBool,
    last: Mutex<String>,
}

impl Errors {
    /// Sets the handlers of a device that belongs to the shell. Without them wgpu panics on stray errors.
    pub(crate) fn watch(self: &Arc<Errors>, device: &wgpu::Device) {
        let errors = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| errors.note(error.to_string())));
        let errors = Arc::clone(self);
        device.set_device_lost_callback(move |reason, text| {
            errors.lose(format!("device lost ({reason:?}): {text}"));
        });
    }

    /// Logs a failure and keeps its text.
    pub(crate) fn note(&self, text: String) {
        log::error!("{text}");
        *lock(&self.last) = text;
    }

    /// Marks the device as lost, for good.
    pub(crate) fn lose(&self, text: String) {
        if !self.lost.swap(true, Ordering::AcqRel) {
            self.note(text);
        }
    }

    /// The last text.
    pub(crate) fn last(&self) -> String {
        lock(&self.last).clone()
    }

    /// `DeviceLost` once the device is lost.
    pub(crate) fn alive(&self) -> Result<(), ShellError> {
        if self.lost.load(Ordering::Acquire) { Err(ShellError::DeviceLost) } else { Ok(()) }
    }

    /// Runs calls on the device; whatever wgpu reports about them becomes the error. `bytes` is what an
    /// out-of-memory error says was asked for.
    pub(crate) fn scoped<T>(
        &self,
        device: &wgpu::Device,
        call: &'static str,
        bytes: u64,
        calls: impl FnOnce() -> T,
    ) -> Result<T, ShellError> {
        self.alive()?;
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let value = calls();
        let validation = ready(validation.pop());
        let internal = ready(internal.pop());
        let memory = ready(memory.pop());
        // A lost device makes everything else invalid too, so it is named first.
        self.alive()?;
        match memory.or(internal).or(validation) {
            None => Ok(value),
            Some(error) => {
                self.note(format!("{call}: {error}"));
                Err(match error {
                    wgpu::Error::OutOfMemory { .. } => ShellError::OutOfMemory { bytes },
                    wgpu::Error::Validation { .. } => ShellError::Driver { call, code: code::VALIDATION },
                    wgpu::Error::Internal { .. } => ShellError::Driver { call, code: code::INTERNAL },
                })
            }
        }
    }
}

/// The value of a future that wgpu has completed already, as all its native error scopes are.
fn ready<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        // In a browser errors arrive later; the uncaptured-error handler is not told of them, the log of the page is.
        std::task::Poll::Pending => None,
    }
}
