//! Which instruction set this processor has.

use core::sync::atomic::{AtomicU8, Ordering};
use std::vec::Vec;

/// An instruction set that the tiles are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Isa {
    /// Whatever the compiler makes of plain Rust.
    Portable = 1,
    /// NEON: 4 lanes.
    Neon = 2,
    /// AVX2 with FMA: 8 lanes.
    Avx2 = 3,
    /// AVX-512F: 16 lanes.
    Avx512 = 4,
}

/// Code of the instruction set in use, 0 until it is first asked for.
static USED: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use: the best of this processor, unless [`use_isa`] chose another.
pub fn isa() -> Isa {
    let all = [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::Avx512];
    let used = USED.load(Ordering::Relaxed);
    match all.iter().find(|isa| **isa as u8 == used) {
        Some(isa) => *isa,
        None => {
            let best = available().first().copied().unwrap_or(Isa::Portable);
            USED.store(best as u8, Ordering::Relaxed);
            best
        }
    }
}

/// Takes a lesser instruction set from now on, in the whole process, for tests and for comparison. False, and without
/// effect, where the processor does not have it.
pub fn use_isa(isa: Isa) -> bool {
    let there = available().contains(&isa);
    if there {
        USED.store(isa as u8, Ordering::Relaxed);
    }
    there
}

/// The instruction sets of this processor, best first.
pub fn available() -> Vec<Isa> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        if std::arch::is_x86_feature_detected!("avx512f") {
            found.push(Isa::Avx512);
        }
        found.push(Isa::Avx2);
    }
    #[cfg(target_arch = "aarch64")]
    found.push(Isa::Neon);
    found.push(Isa::Portable);
    found
}

/// Plain Rust that is compiled once for each instruction set.
pub(super) trait Job {
    /// Does it. To be `#[inline(always)]`. `FMA` says whether there are fused multiply-adds; without, `mul_add` would be a
    /// call.
    fn run<const FMA: bool>(self);
}

/// Does a job with the instruction set in use.
pub(super) fn run(job: impl Job) {
    match isa() {
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(job) },
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(job) },
        Isa::Neon => job.run::<true>(),
        _ => job.run::<false>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn run_avx512(job: impl Job) {
    job.run::<true>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2(job: impl Job) {
    job.run::<true>();
}
