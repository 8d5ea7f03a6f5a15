//! The op suite on the board: the kernels of small networks (`registry::find_small`) with every case that fits into RAM. The cases come
//! from a file and the results go to one, through semihosting; the host judges them (see `run.sh`).
#![no_std]
#![no_main]

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use serinette_core::op;
use serinette_firmware_example::{files::Files, stack};
use serinette_host_kernels::registry;
use serinette_op_suite_runner::{Device, Error, run};

/// What the operands of one case may take. The rest of the 64 KiB is the stack's.
const MEMORY: usize = 52 * 1024;

#[repr(align(16))]
struct Aligned([u8; MEMORY]);

static OPERANDS: spin::Mutex<Aligned> = spin::Mutex::new(Aligned([0; MEMORY]));

#[entry]
fn main() -> ! {
    let status = match suite() {
        Ok(()) => debug::EXIT_SUCCESS,
        Err(e) => {
            hprintln!("failed: {}", e);
            debug::EXIT_FAILURE
        }
    };
    debug::exit(status);
    loop {}
}

fn suite() -> Result<(), Error> {
    let kernel = |signature: &_| registry::find_small(signature).map(|r| r.kernel);
    let device = Device { ops: op::ALL, kernel: &kernel };
    let tally = run(&mut Files::open()?, &mut OPERANDS.lock().0, device)?;
    let (room, unused) = stack::room_and_unused();
    hprintln!("{} of {} runs computed, {} of {} bytes of stack used", tally.computed, tally.runs, room - unused, room);
    if unused == 0 {
        hprintln!("the stack is too small: results mean nothing");
        debug::exit(debug::EXIT_FAILURE);
    }
    Ok(())
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if let Some(at) = info.location() {
        hprintln!("panicked at {}:{}", at.file(), at.line());
    }
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
