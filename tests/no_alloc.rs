//! Verifying, binding and running allocate nothing.
#![allow(missing_docs)] // a test binary has no readers of its documentation
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failed test panics

#[path = "hostile/harness/mod.rs"]
mod harness;

use harness::base;
use harness::choice::Seeded;
use harness::random::{Options, program};
use harness::run::{Aligned, kernels};
use serinette_core::op;
use serinette_core::schedule::exec::Memory;
use serinette_core::schedule::{Executor, Limits, Live, Program, bind, verify};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on unchanged to the system allocator, whose contract is the same. Counting touches
// a thread-local number without a destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`, which is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above with this layout, hence from the system allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() -> usize {
    COUNT.with(Cell::get)
}

#[test]
fn nothing_is_allocated() {
    let before = count();
    drop(vec![1u8; 100]);
    assert_eq!(count(), before + 1, "the allocator counts");
    let random = program(&mut Seeded(7), Options { ops: 60, live: 8, wave: 4, regions: true, depth: 4 });
    for blob in [base::chain(), base::everything().0, random] {
        let file = Aligned::of(&blob.to_bytes());
        let file = file.bytes();
        let program = Program::parse(file, file.len() as u64).unwrap();
        let mut live = vec![Live::default(); program.header.max_live as usize];
        let mut exprs = vec![0; program.exprs.len()];
        let kernels = kernels(&program).unwrap();
        for (plan_id, plan) in program.plans.iter() {
            let arenas = program.arenas.range(plan.arenas[0], plan.arenas[1]).unwrap();
            let mut memory: Vec<Aligned> =
                arenas.map(|(_, a)| Aligned::filled(a.bytes as usize, 0)).collect();
            let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Aligned::bytes_mut).collect();
            let weights: Vec<Aligned> = blob.weight_data.iter().map(|w| Aligned::of(w)).collect();
            let weights: Vec<&[u8]> = weights.iter().map(Aligned::bytes).collect();
            let symbols = vec![2; program.symbols.len()];

            let start = count();
            let program = Program::parse(file, file.len() as u64).unwrap();
            assert!(program.crc_matches());
            verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs).unwrap();
            let bindings = bind(&program, op::ALL, plan_id, &symbols, &mut exprs).unwrap();
            for (entry, _) in program.entries.iter() {
                let mut run = Executor::new(bindings, &kernels, entry).unwrap();
                run.run(&mut Memory { arenas: &mut arenas, weights: &weights }).unwrap();
            }
            assert_eq!(count(), start, "something allocates");
        }
    }
}
