//! How much of the stack was used. The start-up code has painted it (feature `paint-stack` of `cortex-m-rt`).

use core::ptr::{addr_of, read_volatile};
use cortex_m_rt::STACK_PAINT_VALUE;

unsafe extern "C" {
    // From the linker script: the first word of the stack, which grows down to it, and the one behind its last.
    static _stack_end: u32;
    static _stack_start: u32;
}

/// Bytes of the stack, and how many of them were never written. 0 of those: it may have run into the memory below.
pub fn room_and_unused() -> (usize, usize) {
    let (lowest, top) = (addr_of!(_stack_end), addr_of!(_stack_start));
    let words = (top as usize - lowest as usize) / 4;
    // SAFETY: every word from `_stack_end` up to `_stack_start` is RAM that the linker gave to the stack alone, and is
    // initialised: the start-up code painted it. Reading is volatile, because the stack in use changes underneath.
    let painted = (0..words).take_while(|i| unsafe { read_volatile(lowest.add(*i)) } == STACK_PAINT_VALUE);
    (words * 4, painted.count() * 4)
}
