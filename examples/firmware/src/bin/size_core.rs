//! [`size_empty`] plus the core for an embedded blob: reader, precomputed bindings, executor. The kernel does nothing,
//! so kernels are not counted.
#![no_std]
#![no_main]

use serinette_core::schedule::{Bindings, Executor, Kernel, KernelError, Memory, Operands, Program, StepView};
use serinette_firmware_example::classifier::{BLOB, EXPRS, PLAN};

fn nothing(_: &StepView<'_>, _: Operands<'_>) -> Result<(), KernelError> {
    Ok(())
}

static KERNELS: [Kernel; 16] = [nothing; 16];
static ARENA: spin::Mutex<[u64; 512]> = spin::Mutex::new([0; 512]);

#[cortex_m_rt::entry]
fn main() -> ! {
    let arena = &mut *ARENA.lock();
    let mut run = || {
        let program = Program::parse(&BLOB.0, BLOB.0.len() as u64)?;
        let bindings = Bindings::precomputed(program, PLAN, &EXPRS)?;
        let arenas: &mut [&mut [u8]] = &mut [serinette_core::try_cast_slice_mut(arena).unwrap_or_default()];
        Executor::new(bindings, &KERNELS, 0)?.run(&mut Memory { arenas, weights: &[&BLOB.0] })
    };
    let failed = run().is_err();
    loop {
        core::hint::black_box(failed);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
