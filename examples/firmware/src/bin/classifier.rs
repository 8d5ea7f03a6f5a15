//! The int8 classifier on a Cortex-M3: no heap, no operating system, only the kernels that the blob uses.
//!
//! It runs the model one step at a time, as a loop that feeds a watchdog would, and prints a checksum of every
//! 8-bit result, so that the bits can be compared with those of other devices.
#![no_std]
#![no_main]

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use serinette_core::schedule::bind::Place;
use serinette_core::schedule::{Error, Progress};
use serinette_core::DType;
use serinette_firmware_example::{classifier, picture::PICTURE};

#[entry]
fn main() -> ! {
    let status = match classify() {
        Ok(()) => debug::EXIT_SUCCESS,
        Err(e) => {
            hprintln!("failed: rule {}, record {}, expected {}, found {}", e.reason.code(), e.index, e.expected, e.found);
            debug::EXIT_FAILURE
        }
    };
    debug::exit(status);
    loop {}
}

fn classify() -> Result<(), Error> {
    let memory = &mut *classifier::MEMORY.lock();
    classifier::init(memory)?;
    classifier::main::image(memory).copy_from_slice(&PICTURE);

    let mut executor = classifier::executor(classifier::main::ENTRY)?;
    let bindings = classifier::bindings()?;
    let (mut steps, mut checksum) = (0u32, FNV_OFFSET);
    loop {
        // Here a real device would feed its watchdog, or look whether to cancel.
        let step = executor.step();
        let progress = classifier::poll(&mut executor, memory, 1)?;
        steps += 1;
        let record = bindings.program().steps.get(step)?;
        for v in bindings.program().step_outputs(record)? {
            let value = bindings.value(v, &[])?;
            if let (DType::I8, Place::Arena { arena: 0, offset }) = (value.dtype, value.place) {
                let bytes = memory.arena_0.0.get(offset..offset + value.bytes).unwrap_or(&[]);
                checksum = bytes.iter().fold(checksum, |h, b| (h ^ u32::from(*b)).wrapping_mul(FNV_PRIME));
            }
        }
        if progress == Progress::Done {
            break;
        }
    }
    let probabilities = classifier::main::probabilities(memory);
    let best = (0..probabilities.len()).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b])).unwrap_or(0);
    // Parts per million: printing floats would cost 20 KB of flash.
    hprintln!("class {} probability_ppm {}", best, (probabilities[best] * 1e6) as u32);
    hprintln!("steps {} checksum {:08x}", steps, checksum);
    hprintln!(
        "arena {} state {} derived {} blob {}",
        classifier::ARENA_BYTES,
        classifier::STATE_BYTES,
        classifier::DERIVED_BYTES,
        classifier::BLOB.0.len()
    );
    Ok(())
}

/// FNV-1a, 32 bits (Fowler, Noll, Vo).
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
