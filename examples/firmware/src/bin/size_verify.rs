//! [`size_core`] plus the verifier and binding, with the ops that the blob uses.
#![no_std]
#![no_main]

use serinette_core::schedule::{
    Executor, Kernel, KernelError, Limits, Live, Memory, Operands, Program, StepView, bind, verify,
};
use serinette_firmware_example::classifier::{BLOB, EXPRS, OPS, PLAN};

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
        let mut exprs = [0; EXPRS.len()];
        verify(&program, &OPS, &Limits::default(), &mut [Live::default(); 16], &mut exprs)?;
        let bindings = bind(&program, &OPS, PLAN, &[1], &mut exprs)?;
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
