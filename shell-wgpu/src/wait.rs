//! Waiting for the device, with a deadline.

use crate::device::Inner;
use crate::errors::{Errors, code, lock};
use serinette_dispatch::ShellError;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Longest wait handed to a driver: some add it to the clock and would overflow.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// Runs a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Counts mappings that have not arrived.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    state: Mutex<(u32, bool)>,
    arrived: Condvar,
}

impl Mappings {
    /// Asks for a buffer to be mapped, whole. It must be mappable, not mapped and not empty.
    pub(crate) fn map(self: &Arc<Mappings>, buffer: &wgpu::Buffer, mode: wgpu::MapMode) {
        lock(&self.state).0 += 1;
        let mappings = Arc::clone(self);
        buffer.map_async(mode, .., move |result| {
            let mut state = lock(&mappings.state);
            state.0 -= 1;
            state.1 |= result.is_err();
            mappings.arrived.notify_all();
        });
    }

    /// Waits for a submission and then for the mappings. On `Timeout` they are still on their way.
    pub(crate) fn wait(
        &self,
        inner: &Inner,
        submission: wgpu::SubmissionIndex,
        timeout: Duration,
    ) -> Result<(), ShellError> {
        let deadline = Instant::now().checked_add(timeout.min(LONGEST));
        inner.wait(submission, timeout)?;
        // Another thread's poll may have taken our callbacks and be about to call them.
        let mut state = lock(&self.state);
        while state.0 > 0 {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Err(ShellError::Timeout);
            }
            let pause = Duration::from_millis(2);
            state = self.arrived.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
            if state.0 > 0 {
                drop(state);
                inner.poll(wgpu::PollType::Poll)?;
                state = lock(&self.state);
            }
        }
        if std::mem::take(&mut state.1) {
            drop(state);
            inner.errors.alive()?;
            inner.errors.note("a buffer could not be mapped".into());
            return Err(ShellError::Driver { call: "map_async", code: code::MAP });
        }
        Ok(())
    }
}

impl Inner {
    /// Waits until a submission has ended.
    pub(crate) fn wait(
        &self,
        submission: wgpu::SubmissionIndex,
        timeout: Duration,
    ) -> Result<(), ShellError> {
        let timeout = Some(timeout.min(LONGEST));
        self.poll(wgpu::PollType::Wait { submission_index: Some(submission), timeout })
    }

    fn poll(&self, poll: wgpu::PollType) -> Result<(), ShellError> {
        // wgpu turns the loss of a device during a poll into a panic, raised after all its locks are released.
        judge(&self.errors, catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))))
    }
}

/// What a poll, or the panic that it ended in, means.
fn judge(
    errors: &Errors,
    polled: std::thread::Result<Result<wgpu::PollStatus, wgpu::PollError>>,
) -> Result<(), ShellError> {
    match polled {
        Ok(Ok(_)) => errors.alive(),
        Ok(Err(wgpu::PollError::Timeout)) => {
            errors.alive()?;
            Err(ShellError::Timeout)
        }
        // The index came from our own queue, so this submission was dropped: that happens on lost devices only.
        Ok(Err(error)) => {
            errors.lose(format!("poll: {error}"));
            Err(ShellError::DeviceLost)
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            errors.lose(format!("poll: {}", text.unwrap_or("failed")));
            Err(ShellError::DeviceLost)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_that_fail_are_told_apart() {
        let errors = Errors::default();
        assert_eq!(judge(&errors, Ok(Ok(wgpu::PollStatus::QueueEmpty))), Ok(()));
        assert_eq!(judge(&errors, Ok(Err(wgpu::PollError::Timeout))), Err(ShellError::Timeout));
        assert_eq!(errors.alive(), Ok(()), "a timeout loses nothing");
        let panic =
            catch_unwind(|| -> Result<_, _> { std::panic::resume_unwind(Box::new(String::from("gone"))) });
        assert_eq!(judge(&errors, panic), Err(ShellError::DeviceLost));
        assert_eq!(errors.last(), "poll: gone");
        assert_eq!(
            judge(&errors, Ok(Ok(wgpu::PollStatus::QueueEmpty))),
            Err(ShellError::DeviceLost),
            "for good"
        );
        assert_eq!(judge(&errors, Ok(Err(wgpu::PollError::Timeout))), Err(ShellError::DeviceLost));

        let errors = Errors::default();
        let wrong = wgpu::PollError::WrongSubmissionIndex(2, 1);
        assert_eq!(judge(&errors, Ok(Err(wrong))), Err(ShellError::DeviceLost));
    }
}
