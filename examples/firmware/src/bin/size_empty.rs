//! The yardstick for the size of the core: start-up code and nothing else.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    loop {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
