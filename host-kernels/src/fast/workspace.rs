//! Memory for packed operands: one block of fixed size for each thread, made at its first use.

use std::boxed::Box;
use std::cell::RefCell;

/// Floats of a workspace: 384 KiB, so that it stays in the second cache.
pub(super) const FLOATS: usize = 96 * 1024;

/// A block that starts on a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; 16]);

std::thread_local! {
    static WORKSPACE: RefCell<Box<[Line]>> = RefCell::new(Box::from([]));
}

/// Calls `f` with the workspace of this thread. Its contents are whatever was left there.
pub(super) fn with<R>(f: impl FnOnce(&mut [f32]) -> R) -> R {
    WORKSPACE.with(|cell| match cell.try_borrow_mut() {
        Ok(mut lines) => {
            if lines.is_empty() {
                *lines = std::vec![Line([0.0; 16]); FLOATS / 16].into_boxed_slice();
            }
            // SAFETY: a line is sixteen floats without padding, so the lines are `FLOATS` floats in a row; the borrow of
            // the cell lasts as long as the slice.
            f(unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), lines.len() * 16) })
        }
        // A kernel that calls another one from inside: give it its own.
        Err(_) => f(&mut std::vec![0.0; FLOATS]),
    })
}
