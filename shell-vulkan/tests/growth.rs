//! Runs do not make the process grow. A test of its own: it looks at the memory of the whole process, which other
//! tests beside it would change.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
#[path = "vulkan/kernels.rs"]
mod kernels;

use std::time::Duration;

use serinette_dispatch::{Buffers, Command, Dispatch, MAX_PARAMS, Shell, Target, Usage, Window};
use serinette_vulkan::{CachePolicy, Options, VulkanDevice};

/// Without the validation layer, which keeps books of its own.
#[test]
fn runs_do_not_make_the_process_grow() {
    let options = Options { cache: CachePolicy::Off, timestamps: true, ..Options::default() };
    let gpu = VulkanDevice::open(&options, &kernels::LIBRARY).expect("a Vulkan device");
    let arena = gpu.buffer(4096 * 4, Usage::Storage).unwrap();
    let control = gpu.buffer(64, Usage::Storage).unwrap();
    let mut params = [0; MAX_PARAMS];
    params[..4].copy_from_slice(&[0, 2048, 1001, 3]);
    let dispatch =
        Dispatch { kernel: kernels::AFFINE, grid: [16, 1, 1], params, param_words: 4, after_barrier: false };
    let window = Window { offset: 0, bytes: arena.bytes() };
    let commands = [
        Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 4004 },
        Command::Barrier,
        Command::Dispatch {
            dispatch,
            arena: window,
            weights: Window { offset: 0, bytes: 0 },
            indirect: None,
        },
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 8192, bytes: 4004, to: 0 },
    ];
    let buffers = Buffers { arena: &arena, weights: None, control: &control, indirect: None };
    // SAFETY: the operands lie in the window.
    let mut recording = unsafe { gpu.record(buffers, &commands, 4004, 4004) }.unwrap();
    let mut seed = 0u32;
    let mut run_many = |runs: u32| {
        for _ in 0..runs {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut seen = 0;
            let (word, expected) = (seed.to_le_bytes(), seed.wrapping_mul(3).wrapping_add(1));
            gpu.run(
                &mut recording,
                &mut |input| input[4000..].copy_from_slice(&word),
                &mut |output| seen = u32::from_le_bytes(output[4000..].try_into().unwrap()),
                Duration::from_secs(60),
            )
            .unwrap();
            assert_eq!(seen, expected);
        }
    };
    // Drivers settle in.
    run_many(300);
    let before = resident_kib();
    run_many(2000);
    let grown = resident_kib().saturating_sub(before);
    // Half a page a run would be 4000 KiB.
    assert!(grown < 2000, "grown by {grown} KiB");
}

/// Memory of the process in RAM.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
