//! A small library of kernels with known results, and sessions on it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use serinette_dispatch::{
    Buffers, Command, DeviceCaps, Dispatch, Gate, IN_WEIGHTS, Interface, KernelLibrary, KernelSource,
    LowerError, LowerStep, MAX_PARAMS, Shell, ShellError, Target, Usage, Window,
};
use serinette_wgpu::{CachePolicy, Options, WgpuBuffer, WgpuDevice, WgpuRecording};
use std::time::Duration;

/// `arena[to + i] = x * factor + term`, x from the arena or the weights, modulo 2^32.
pub const AFFINE: u16 = 0;
/// The gate of the contract.
pub const GATE: u16 = 1;
/// `arena[to] = Σ (i + 1) · word i` over 47 more words: too many for 128 bytes of immediates.
pub const WIDE: u16 = 2;
/// Not WGSL.
pub const BROKEN: u16 = 3;
/// Iterates a generator `steps` times on one invocation.
pub const SLOW: u16 = 4;
/// Stores 1 into the word `past` words behind the end of the window. For checked devices only.
pub const OUTSIDE: u16 = 5;

pub const LONG: Duration = Duration::from_secs(60);
pub const NONE: u32 = u32::MAX;

macro_rules! source {
    ($name:literal, $interface:ident, $words:literal, $group:expr, $fields:literal, $body:literal) => {
        KernelSource {
            name: $name,
            wgsl_immediate: concat!("struct P {", $fields, "}\nvar<immediate> p: P;", $body),
            wgsl_uniform: concat!(
                "struct P {",
                $fields,
                "}\n@group(0) @binding(3) var<uniform> p: P;",
                $body
            ),
            spirv: &[],
            workgroup: $group,
            param_words: $words,
            interface: Interface::$interface,
        }
    };
}

static KERNELS: [KernelSource; 6] = [
    source!(
        "affine", Compute, 5, [64, 1, 1],
        "n: u32, to: u32, x: u32, factor: u32, term: u32",
        "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.n) { return; }
    var x: u32;
    if ((p.x & 0x80000000u) != 0u) { x = weights[(p.x & 0x7fffffffu) + id.x]; } else { x = arena[p.x + id.x]; }
    arena[p.to + id.x] = x * p.factor + p.term;
}
"
    ),
    source!(
        "gate", Gate, 7, [1, 1, 1],
        "condition: u32, negate: u32, above: u32, flag: u32, first: u32, records: u32, grids: u32",
        "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read_write> indirect: array<u32>;
@group(0) @binding(2) var<storage, read_write> control: array<u32>;
@compute @workgroup_size(1) fn main() {
    var open = true;
    if (p.condition != 0xffffffffu) {
        open = ((arena[p.condition / 4u] >> (8u * (p.condition % 4u))) & 255u) != 0u;
    }
    if (p.negate != 0u) { open = !open; }
    if (p.above != 0xffffffffu) { open = open && control[p.above] != 0u; }
    control[p.flag] = select(0u, 1u, open);
    for (var i = 0u; i < 3u * p.records; i += 1u) {
        indirect[3u * p.first + i] = select(0u, control[p.grids + i], open);
    }
}
"
    ),
    source!(
        "wide", Compute, 48, [1, 1, 1],
        "words: array<vec4<u32>, 12>",
        "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@compute @workgroup_size(1) fn main() {
    var sum = 0u;
    for (var i = 1u; i < 48u; i += 1u) { sum += i * p.words[i / 4u][i % 4u]; }
    arena[p.words[0][0]] = sum;
}
"
    ),
    source!("broken", Compute, 1, [1, 1, 1], "n: u32", "fn main( { }"),
    source!(
        "slow", Compute, 2, [1, 1, 1],
        "to: u32, steps: u32",
        "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@compute @workgroup_size(1) fn main() {
    var x = arena[p.to];
    for (var i = 0u; i < p.steps; i += 1u) { x ^= x << 13u; x ^= x >> 17u; x ^= x << 5u; }
    arena[p.to] = x;
}
"
    ),
    source!(
        "outside", Compute, 1, [1, 1, 1],
        "past: u32",
        "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@compute @workgroup_size(1) fn main() { arena[arrayLength(&arena) + p.past] = 1u; }
"
    ),
];

pub struct Library;
pub static LIBRARY: Library = Library;

// SAFETY: the tests build dispatches of these kernels by hand, for ranges inside the bound windows; nothing is lowered.
unsafe impl KernelLibrary for Library {
    fn kernels(&self) -> &'static [KernelSource] {
        &KERNELS
    }

    fn lower(
        &self,
        _: &LowerStep<'_>,
        _: &DeviceCaps,
        _: &mut dyn FnMut(Dispatch),
    ) -> Result<(), LowerError> {
        Err(LowerError::NoKernel)
    }

    fn gate(&self, gate: &Gate, _: &DeviceCaps, emit: &mut dyn FnMut(Dispatch)) -> Result<(), LowerError> {
        let condition = gate.condition.unwrap_or(NONE);
        let words = [
            condition,
            u32::from(gate.negate),
            gate.parent.unwrap_or(NONE),
            gate.flag,
            gate.first_record,
            gate.records,
            gate.table,
        ];
        emit(dispatch(GATE, [1; 3], &words));
        Ok(())
    }
}

pub fn options() -> Options {
    Options { cache: CachePolicy::Off, ..Options::default() }
}

/// A device; the tests fail where there is none.
pub fn open(options: &Options) -> WgpuDevice {
    WgpuDevice::open(options, &LIBRARY).expect("these tests need a device; a software one will do")
}

pub fn dispatch(kernel: u16, grid: [u32; 3], words: &[u32]) -> Dispatch {
    let mut params = [0; MAX_PARAMS];
    params[..words.len()].copy_from_slice(words);
    Dispatch { kernel, grid, params, param_words: words.len() as u32, after_barrier: false }
}

pub fn affine(n: u32, to: u32, x: u32, factor: u32, term: u32) -> Dispatch {
    dispatch(AFFINE, [n.div_ceil(64), 1, 1], &[n, to, x, factor, term])
}

pub const fn in_weights(word: u32) -> u32 {
    word | IN_WEIGHTS
}

/// xorshift64*, high half.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    pub fn words(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| self.word()).collect()
    }
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// The buffers of a session.
pub struct Session {
    pub device: WgpuDevice,
    pub arena: WgpuBuffer,
    pub weights: Option<WgpuBuffer>,
    pub control: WgpuBuffer,
    pub indirect: Option<WgpuBuffer>,
}

impl Session {
    pub fn new(device: &WgpuDevice, arena: u64, weights: &[u32], records: u64) -> Session {
        let make = |bytes, usage| device.buffer(bytes, usage).unwrap();
        let weights = (!weights.is_empty()).then(|| {
            let buffer = make(4 * weights.len() as u64, Usage::Weights);
            device.upload(&buffer, 0, &bytes(weights)).unwrap();
            buffer
        });
        Session {
            device: device.clone(),
            arena: make(arena, Usage::Storage),
            weights,
            control: make(256, Usage::Storage),
            indirect: (records > 0).then(|| make(12 * records, Usage::Indirect)),
        }
    }

    pub fn buffers(&self) -> Buffers<'_, WgpuBuffer> {
        Buffers {
            arena: &self.arena,
            weights: self.weights.as_ref(),
            control: &self.control,
            indirect: self.indirect.as_ref(),
        }
    }

    /// A launch over the whole arena and weights.
    pub fn launch(&self, dispatch: Dispatch) -> Command {
        Command::Dispatch { dispatch, arena: self.all(), weights: self.all_weights(), indirect: None }
    }

    pub fn all(&self) -> Window {
        Window { offset: 0, bytes: self.arena.bytes() }
    }

    pub fn all_weights(&self) -> Window {
        Window { offset: 0, bytes: self.weights.as_ref().map_or(0, WgpuBuffer::bytes) }
    }

    pub fn record(&self, commands: &[Command], input: u64, output: u64) -> Result<WgpuRecording, ShellError> {
        // SAFETY: the tests launch kernels on ranges inside the windows, or expect a refusal.
        unsafe { self.device.record(self.buffers(), commands, input, output) }
    }

    pub fn run(&self, recording: &mut WgpuRecording, input: &[u32]) -> Vec<u32> {
        let mut output = Vec::new();
        self.device
            .run(recording, &mut |b| b.copy_from_slice(&bytes(input)), &mut |b| output = words(b), LONG)
            .unwrap();
        output
    }

    pub fn arena_words(&self, n: usize) -> Vec<u32> {
        let mut out = vec![0; 4 * n];
        self.device.download(&self.arena, 0, &mut out).unwrap();
        words(&out)
    }
}

pub fn write(words: u64) -> Command {
    Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 4 * words }
}

pub fn read(words: u64) -> Command {
    Command::Read { from: Target::Arena, offset: 0, bytes: 4 * words, to: 0 }
}
