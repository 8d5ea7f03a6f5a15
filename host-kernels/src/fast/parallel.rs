//! Splitting work over the threads of the pool that the caller runs in.

/// Threads that work may be split over: those of the rayon pool around this call, or 1 outside of any.
pub(super) fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// Calls `f` for every task. Without a pool, and for a single task, on this thread in order.
pub(super) fn for_each(tasks: usize, f: impl Fn(usize) + Sync) {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    if tasks <= 1 || threads() == 1 {
        (0..tasks).for_each(f);
    } else {
        (0..tasks).into_par_iter().for_each(&f);
    }
}

/// A pointer that tasks write disjoint parts through.
#[derive(Clone, Copy)]
pub(super) struct Shared(pub *mut f32);

impl Shared {
    /// Where element `i` is.
    pub fn at(self, i: usize) -> *mut f32 {
        self.0.wrapping_add(i)
    }
}

// SAFETY: whoever makes one promises that tasks touch disjoint elements.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Elements of a chunk that is worth a task.
const CHUNK: usize = 1 << 14;

/// Calls `f` for parts of `0..n`, one for each thread where that is worth it.
pub(super) fn chunks(n: usize, f: impl Fn(core::ops::Range<usize>) + Sync) {
    chunks_of(n, 1, f);
}

/// The same for things of `each` elements.
pub(super) fn chunks_of(n: usize, each: usize, f: impl Fn(core::ops::Range<usize>) + Sync) {
    let parts = threads().min(n.saturating_mul(each).div_ceil(CHUNK)).min(n).max(1);
    for_each(parts, |part| f(n * part / parts..n * (part + 1) / parts));
}
