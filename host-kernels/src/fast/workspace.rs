//! Memory for packed operands: one block for each thread, made at its first use.

use std::boxed::Box;
use std::cell::RefCell;

/// Floats of a workspace at least: 384 KiB, so that it stays in the second cache.
pub(super) const FLOATS: usize = 96 * 1024;

/// A block that starts on a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; 16]);

std::thread_local! {
    static WORKSPACE: RefCell<Box<[Line]>> = RefCell::new(Box::from([]));
    static OUTER: RefCell<Box<[Line]>> = RefCell::new(Box::from([]));
}

/// As [`with_room`], for a kernel that calls a product, which has the workspace for itself.
pub(super) fn outer<R>(floats: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    OUTER.with(|cell| borrow(cell, floats, f))
}

/// Calls `f` with the workspace of this thread, of at least [`FLOATS`]. Its contents are whatever was left there.
pub(super) fn with<R>(f: impl FnOnce(&mut [f32]) -> R) -> R {
    with_room(FLOATS, f)
}

/// Calls `f` with the workspace of this thread, which grows to so many floats if it has fewer.
pub(super) fn with_room<R>(floats: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    WORKSPACE.with(|cell| borrow(cell, floats.max(FLOATS), f))
}

fn borrow<R>(cell: &RefCell<Box<[Line]>>, floats: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    match cell.try_borrow_mut() {
        Ok(mut lines) => {
            let wanted = floats.div_ceil(16);
            if lines.len() < wanted {
                *lines = std::vec![Line([0.0; 16]); wanted].into_boxed_slice();
            }
            // SAFETY: a line is sixteen floats without padding, so the lines are sixteen times as many floats in a row; the
            // borrow of the cell lasts as long as the slice.
            f(unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), lines.len() * 16) })
        }
        // A kernel that calls another one from inside: give it its own.
        Err(_) => f(&mut std::vec![0.0; floats]),
    }
}
