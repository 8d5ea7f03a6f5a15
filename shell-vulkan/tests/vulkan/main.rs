//! The shell on a real driver (a software one will do), with the validation layer watching: each test fails on any
//! message of the layer, and fails where there is no device.
//!
//! Where tests hang on NVIDIA's driver, run them with `--test-threads=1` (see "Threads that end" in the crate's
//! documentation).
//!
//! `SERINETTE_VULKAN_NO_VALIDATION=1` runs the tests without the layer, for machines that lack it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cache;
mod compute;
mod kernels;
mod lifetime;
mod refusal;

use std::ops::Deref;
use std::time::Duration;

use serinette_dispatch::{Buffers, Command, Dispatch, MAX_PARAMS, Shell, ShellError, Usage, Window};
use serinette_vulkan::{Buffer, CachePolicy, MessageLog, Options, Recording, VulkanDevice};

use kernels::LIBRARY;

/// Plenty for everything here, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A device whose validation messages are checked when it is dropped. Declared first in a test, it is dropped last.
struct Gpu {
    device: Option<VulkanDevice>,
    log: MessageLog,
}

impl Gpu {
    fn open() -> Self {
        Self::with(CachePolicy::Off)
    }

    fn with(cache: CachePolicy) -> Self {
        let device = VulkanDevice::open(&Options { cache, ..options() }, &LIBRARY).expect("a Vulkan device");
        let log = device.messages();
        Self { device: Some(device), log }
    }

    /// Records commands over a session's buffers.
    fn record(
        &self,
        session: &Session,
        commands: &[Command],
        input: u64,
        output: u64,
    ) -> Result<Recording, ShellError> {
        // SAFETY: the tests' dispatches name operands inside their windows; what the tests do wrong on purpose is among
        // the things that the shell checks.
        unsafe { self.deref().record(session.buffers(), commands, input, output) }
    }
}

impl Deref for Gpu {
    type Target = VulkanDevice;

    fn deref(&self) -> &VulkanDevice {
        self.device.as_ref().unwrap()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The layer also reports what was not destroyed.
        self.device = None;
        if !std::thread::panicking() {
            assert_eq!(self.log.messages(), Vec::<String>::new());
        }
    }
}

fn options() -> Options {
    let validation = std::env::var_os("SERINETTE_VULKAN_NO_VALIDATION").is_none();
    Options { cache: CachePolicy::Off, validation, hazards: true, timestamps: true, ..Options::default() }
}

/// Buffers of one session.
struct Session {
    arena: Buffer,
    weights: Option<Buffer>,
    control: Buffer,
    indirect: Option<Buffer>,
}

impl Session {
    fn new(gpu: &VulkanDevice, arena_words: u64) -> Self {
        Self {
            arena: gpu.buffer(arena_words * 4, Usage::Storage).unwrap(),
            weights: None,
            control: gpu.buffer(256, Usage::Storage).unwrap(),
            indirect: None,
        }
    }

    fn buffers(&self) -> Buffers<'_, Buffer> {
        Buffers {
            arena: &self.arena,
            weights: self.weights.as_ref(),
            control: &self.control,
            indirect: self.indirect.as_ref(),
        }
    }

    /// The whole arena as a window.
    fn whole(&self) -> Window {
        Window { offset: 0, bytes: self.arena.bytes() }
    }
}

const NO_WINDOW: Window = Window { offset: 0, bytes: 0 };

fn dispatch(kernel: u16, grid: [u32; 3], parameters: &[u32]) -> Dispatch {
    let mut params = [0; MAX_PARAMS];
    params[..parameters.len()].copy_from_slice(parameters);
    Dispatch { kernel, grid, params, param_words: parameters.len() as u32, after_barrier: false }
}

/// `arena[to + i] = arena[from + i] * factor + 1` for `count` words.
fn affine(session: &Session, from: u32, to: u32, count: u32, factor: u32) -> Command {
    Command::Dispatch {
        dispatch: dispatch(kernels::AFFINE, [count.div_ceil(64), 1, 1], &[from, to, count, factor]),
        arena: session.whole(),
        weights: NO_WINDOW,
        indirect: None,
    }
}

/// Random words from a seed (xorshift).
fn random(count: usize, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 21) as u32
    };
    (0..count).map(|_| next()).collect()
}

fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn download(gpu: &VulkanDevice, buffer: &Buffer, from: usize, count: usize) -> Vec<u32> {
    let mut bytes = vec![0xee; count * 4];
    gpu.download(buffer, from as u64 * 4, &mut bytes).unwrap();
    to_words(&bytes)
}

/// Runs a recording that takes and gives words.
fn run(gpu: &VulkanDevice, recording: &mut Recording, input: &[u32]) -> Result<Vec<u32>, ShellError> {
    let mut output = Vec::new();
    gpu.run(
        recording,
        &mut |staging| staging[..input.len() * 4].copy_from_slice(&to_bytes(input)),
        &mut |staging| output = to_words(staging),
        PATIENCE,
    )?;
    Ok(output)
}
