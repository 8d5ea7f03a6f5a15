//! Small kernels with the interface of real ones.

use std::sync::LazyLock;

use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use serinette_dispatch::{
    DeviceCaps, Dispatch, Gate, Interface, KernelLibrary, KernelSource, LowerError, LowerStep,
};

/// Parameters: from, to, count, factor.
pub const AFFINE: u16 = 0;
/// Parameters: from, to, count, first word of the weights.
pub const AFFINE_WEIGHTS: u16 = 1;
/// Parameters: condition word, first record, records, first control word of the table.
pub const GATE: u16 = 2;
/// Rounds of a generator on one word. Parameters: word, rounds.
pub const SPIN: u16 = 3;
/// Declares a capability that no Vulkan device has.
pub const FOREIGN: u16 = 4;
/// More parameters than there are push constants.
pub const TOO_MANY_PARAMETERS: u16 = 5;
/// A workgroup larger than any device allows.
pub const TOO_WIDE: u16 = 6;
/// No SPIR-V.
pub const GARBAGE: u16 = 7;
/// Writes the workgroup numbers along all axes. Parameters: to.
pub const GRID: u16 = 8;
/// One more than the last.
pub const COUNT: u16 = 9;

const BINDINGS: &str = "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read_write> control: array<u32>;
struct Parameters { a: u32, b: u32, c: u32, d: u32 }
var<immediate> p: Parameters;
";

const GATE_BINDINGS: &str = "
@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read_write> records: array<u32>;
@group(0) @binding(2) var<storage, read_write> control: array<u32>;
struct Parameters { a: u32, b: u32, c: u32, d: u32 }
var<immediate> p: Parameters;
";

const AFFINE_BODY: &str = "
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.c { arena[p.b + id.x] = arena[p.a + id.x] * p.d + 1u; }
}";

const AFFINE_WEIGHTS_BODY: &str = "
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.c { arena[p.b + id.x] = arena[p.a + id.x] * weights[p.d + id.x] + 1u; }
}";

const GATE_BODY: &str = "
@compute @workgroup_size(1)
fn main() {
    let open = arena[p.a] != 0u;
    for (var i = 0u; i < 3u * p.c; i++) {
        records[3u * p.b + i] = select(0u, control[p.d + i], open);
    }
}";

const SPIN_BODY: &str = "
@compute @workgroup_size(1)
fn main() {
    var x = arena[p.a];
    for (var i = 0u; i < p.b; i++) {
        x ^= x << 13u;
        x ^= x >> 17u;
        x ^= x << 5u;
    }
    arena[p.a] = x;
}";

const GRID_BODY: &str = "
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    arena[p.a + (id.z * n.y + id.y) * n.x + id.x] = id.x + 100u * id.y + 10000u * id.z;
}";

/// The library of the tests.
pub static LIBRARY: Library = Library;

pub struct Library;

// SAFETY: the kernels touch what their parameters name, and end.
unsafe impl KernelLibrary for Library {
    fn kernels(&self) -> &'static [KernelSource] {
        static KERNELS: LazyLock<Vec<KernelSource>> = LazyLock::new(kernels);
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

    fn gate(&self, _: &Gate, _: &DeviceCaps, _: &mut dyn FnMut(Dispatch)) -> Result<(), LowerError> {
        Err(LowerError::NoKernel)
    }
}

fn kernels() -> Vec<KernelSource> {
    let plain = |name, bindings: &str, body: &str, workgroup, interface| KernelSource {
        name,
        wgsl_immediate: "",
        wgsl_uniform: "",
        spirv: compile(&format!("{bindings}{body}")).leak(),
        workgroup: [workgroup, 1, 1],
        param_words: 4,
        interface,
    };
    let affine = plain("affine", BINDINGS, AFFINE_BODY, 64, Interface::Compute);
    vec![
        affine,
        plain("affine_weights", BINDINGS, AFFINE_WEIGHTS_BODY, 64, Interface::Compute),
        plain("gate", GATE_BINDINGS, GATE_BODY, 1, Interface::Gate),
        plain("spin", BINDINGS, SPIN_BODY, 1, Interface::Compute),
        // Header; OpCapability Kernel.
        KernelSource {
            name: "foreign",
            spirv: &[0x0723_0203, 0x0001_0300, 0, 1, 0, 2 << 16 | 17, 6],
            ..affine
        },
        KernelSource { name: "too_many_parameters", param_words: 33, ..affine },
        KernelSource { name: "too_wide", workgroup: [1 << 30, 8, 1], ..affine },
        KernelSource { name: "garbage", spirv: &[1, 2, 3, 4, 5, 6], ..affine },
        plain("grid", BINDINGS, GRID_BODY, 1, Interface::Compute),
    ]
}

fn compile(wgsl: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(wgsl).unwrap();
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    let unchecked = BoundsCheckPolicies {
        index: BoundsCheckPolicy::Unchecked,
        buffer: BoundsCheckPolicy::Unchecked,
        image_load: BoundsCheckPolicy::Unchecked,
        binding_array: BoundsCheckPolicy::Unchecked,
    };
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: unchecked,
        force_loop_bounding: false,
        use_storage_input_output_16: false,
        ..spv::Options::default()
    };
    spv::write_vec(&module, &info, &options, None).unwrap()
}
