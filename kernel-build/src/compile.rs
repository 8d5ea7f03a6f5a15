//! An expanded kernel to WGSL in both forms and to SPIR-V.

use crate::error::{Error, ErrorKind, Place};
use crate::lint;
use crate::spirv;
use crate::template::{Interface, Kernel};
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use std::fmt::Write;

/// A kernel in every form that shells take.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The description that it was made from.
    pub kernel: Kernel,
    /// WGSL with parameters as immediates.
    pub wgsl_immediate: String,
    /// WGSL with parameters as a uniform at binding 3.
    pub wgsl_uniform: String,
    /// SPIR-V 1.3 with parameters as push constants.
    pub spirv: Vec<u32>,
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
}

/// Where parameters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamSpace {
    /// Immediates, which Vulkan calls push constants.
    Immediate,
    /// A uniform at binding 3.
    Uniform,
}

/// Compiles and checks one kernel.
pub fn compile(kernel: Kernel) -> Result<Compiled, Error> {
    let name = kernel.name.clone();
    compile_inner(kernel).map_err(|e| e.of_kernel(&name))
}

fn compile_inner(kernel: Kernel) -> Result<Compiled, Error> {
    lint::source(&kernel)?;
    let (head, wgsl_immediate) = source(&kernel, ParamSpace::Immediate);
    let (module, info) = parse(&kernel, head, &wgsl_immediate)?;
    let workgroup = lint::module(&kernel, &module, &info)?;
    let (uniform_head, wgsl_uniform) = source(&kernel, ParamSpace::Uniform);
    parse(&kernel, uniform_head, &wgsl_uniform)?;
    let words = write(&kernel, module)?;
    let unreadable = |e: spirv::Malformed| Error::new(ErrorKind::Spirv, kernel.place.clone(), e.to_string());
    let spirv = spirv::mend(&words, kernel.exact).map_err(unreadable)?;
    lint::capabilities(&kernel, &spirv::capabilities(&spirv).map_err(unreadable)?)?;
    Ok(Compiled { kernel, wgsl_immediate, wgsl_uniform, spirv, workgroup })
}

/// The whole WGSL of a kernel, and how many lines stand before its body.
pub fn source(kernel: &Kernel, space: ParamSpace) -> (usize, String) {
    let mut s = String::new();
    let element = |binding: &str, usual: &'static str| {
        let own = kernel.elements.iter().find(|(b, _)| b == binding);
        own.map_or(usual.to_string(), |(_, t)| t.clone())
    };
    let (second, control) = match kernel.interface {
        Interface::Compute => ("var<storage, read> weights", "atomic<u32>"),
        Interface::Gate => ("var<storage, read_write> indirect", "u32"),
    };
    let bindings = [
        ("var<storage, read_write> arena", element("arena", "u32")),
        (second, element("weights", "u32")),
        ("var<storage, read_write> control", element("control", control)),
    ];
    for (i, (var, element)) in bindings.iter().enumerate() {
        let _ = writeln!(s, "@group(0) @binding({i}) {var}: array<{element}>;");
    }
    if !kernel.params.fields.is_empty() {
        s += "struct Params {\n";
        for f in &kernel.params.fields {
            match f.array {
                None => {
                    let _ = writeln!(s, "    {}: u32,", f.name);
                }
                Some(n) => (0..n).for_each(|i| {
                    let _ = writeln!(s, "    {}{i}: u32,", f.name);
                }),
            }
        }
        s += match space {
            ParamSpace::Immediate => "}\nvar<immediate> p: Params;\n",
            ParamSpace::Uniform => "}\n@group(0) @binding(3) var<uniform> p: Params;\n",
        };
    }
    let head = s.matches('\n').count();
    s += &kernel.body;
    (head, s)
}

fn parse(kernel: &Kernel, head: usize, wgsl: &str) -> Result<(naga::Module, ModuleInfo), Error> {
    let place = |line: Option<u32>| {
        let at = line.and_then(|l| (l as usize).checked_sub(head + 1)).and_then(|i| kernel.lines.get(i));
        at.unwrap_or(&kernel.place).clone()
    };
    let fail = |place: Place, text: String| Error::new(ErrorKind::Wgsl, place, text);
    let module = naga::front::wgsl::parse_str(wgsl)
        .map_err(|e| fail(place(e.location(wgsl).map(|l| l.line_number)), e.emit_to_string(wgsl)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| fail(place(e.location(wgsl).map(|l| l.line_number)), e.emit_to_string(wgsl)))?;
    Ok((module, info))
}

/// SPIR-V without any run-time check: kernels get sizes that were proved, and guard what depends on data.
/// Functions of snippets that the kernel does not call are left out.
fn write(kernel: &Kernel, mut module: naga::Module) -> Result<Vec<u32>, Error> {
    naga::compact::compact(&mut module, naga::compact::KeepUnused::No);
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| Error::new(ErrorKind::Wgsl, kernel.place.clone(), e.to_string()))?;
    let unchecked = BoundsCheckPolicy::Unchecked;
    let allowed = std::iter::once("Shader")
        .chain(kernel.capabilities.iter().map(String::as_str))
        .filter_map(spirv::capability_code)
        .filter_map(spv::Capability::from_u32)
        .collect();
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        fake_missing_bindings: false,
        capabilities: Some(allowed),
        bounds_check_policies: BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        use_storage_input_output_16: false,
        emit_int_div_checks: false,
        binding_map: (0..4)
            .map(|binding| {
                (
                    naga::ResourceBinding { group: 0, binding },
                    spv::BindingInfo { descriptor_set: 0, binding, binding_array_size: None },
                )
            })
            .collect(),
        ..spv::Options::default()
    };
    let entry = spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".into() };
    spv::write_vec(&module, &info, &options, Some(&entry)).map_err(|e| {
        let kind = match e {
            spv::Error::MissingCapabilities(..) => ErrorKind::Lint,
            _ => ErrorKind::Spirv,
        };
        Error::new(
            kind,
            kernel.place.clone(),
            format!("{e}; declare it with `//# capability`, or do without"),
        )
    })
}
