//! The rules of the kernel library that neither WGSL nor the validator knows.

use crate::error::{Error, ErrorKind, Place};
use crate::spirv::capability_code;
use crate::template::Kernel;
use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{AddressSpace, Block, Function, Module, ShaderStage, Statement, TypeInner};
use std::collections::BTreeSet;

/// Most parameter words: every Vulkan device has 128 bytes of push constants.
pub const MAX_PARAM_WORDS: u32 = 32;
/// Most invocations of a workgroup: WebGPU's default limit.
pub const MAX_INVOCATIONS: u32 = 256;
/// Most bytes of workgroup memory: WebGPU's default limit.
pub const MAX_SHARED: u32 = 16 << 10;
/// The snippet with the one index check that all devices share, and its function.
pub const INDEX_SNIPPET: &str = "checked_index";

fn broken(place: Place, text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Lint, place, text)
}

/// Rules about the text and the declarations.
pub(crate) fn source(kernel: &Kernel) -> Result<(), Error> {
    let words = kernel.params.words();
    if words > MAX_PARAM_WORDS {
        return Err(broken(
            kernel.place.clone(),
            format!("{words} parameter words; {MAX_PARAM_WORDS} is what every device has"),
        ));
    }
    if let Some(c) = kernel.capabilities.iter().find(|c| capability_code(c).is_none()) {
        return Err(broken(kernel.place.clone(), format!("unknown capability `{c}`")));
    }
    let mut calls = 0;
    for (text, place) in kernel.body.lines().zip(&kernel.lines) {
        let code = text.split("//").next().unwrap_or("");
        let squeezed: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        for target in squeezed.split("bitcast<").skip(1) {
            if !is_word_type(target) {
                return Err(broken(
                    place.clone(),
                    "`bitcast` to a type that is not one of 32-bit words: to half-precision vectors it is \
                     written as single precision; use `unpack2x16float`",
                ));
            }
        }
        // Calls outside of the snippet that defines the check.
        if place.file.file_stem().is_none_or(|f| f != INDEX_SNIPPET) {
            calls += squeezed.matches("checked_index(").count();
        }
    }
    if kernel.index && (calls == 0 || !kernel.includes.contains(INDEX_SNIPPET)) {
        return Err(broken(
            kernel.place.clone(),
            format!("an operand holds positions: include `{INDEX_SNIPPET}` and read positions through it"),
        ));
    }
    Ok(())
}

/// Whether the text after `bitcast<` begins with a scalar of 32 bits or a vector of such.
fn is_word_type(text: &str) -> bool {
    const SCALARS: [&str; 3] = ["u32>", "i32>", "f32>"];
    let inner = ["vec2<", "vec3<", "vec4<"].iter().find_map(|v| text.strip_prefix(v)).unwrap_or(text);
    SCALARS.iter().any(|s| inner.starts_with(s))
        || ["vec2", "vec3", "vec4"]
            .iter()
            .find_map(|v| text.strip_prefix(v))
            .is_some_and(|t| ["u>", "i>", "f>"].iter().any(|s| t.starts_with(s)))
}

/// Rules about the parsed module. Gives the size of its workgroup.
pub(crate) fn module(kernel: &Kernel, module: &Module, info: &ModuleInfo) -> Result<[u32; 3], Error> {
    let place = || kernel.place.clone();
    if module.overrides.iter().next().is_some() {
        return Err(broken(place(), "`override`: the SPIR-V writer has none; use a template key"));
    }
    let [entry] = module.entry_points.as_slice() else {
        return Err(broken(place(), format!("{} entry points instead of one", module.entry_points.len())));
    };
    if entry.name != "main" || entry.stage != ShaderStage::Compute {
        return Err(broken(place(), "the entry point must be the compute shader `main`"));
    }
    let size = entry.workgroup_size;
    let invocations = size.iter().fold(1u32, |a, d| a.saturating_mul(*d));
    if invocations > MAX_INVOCATIONS {
        return Err(broken(place(), format!("{invocations} invocations; {MAX_INVOCATIONS} is the most")));
    }
    let shared = module
        .global_variables
        .iter()
        .filter(|(_, v)| v.space == AddressSpace::WorkGroup)
        .filter_map(|(_, v)| module.types.get_handle(v.ty).ok()?.inner.try_size(module.to_ctx()))
        .fold(0u32, u32::saturating_add);
    if shared > MAX_SHARED {
        return Err(broken(place(), format!("{shared} bytes of workgroup memory; {MAX_SHARED} is the most")));
    }
    scalar_stores(kernel, module, &entry.function, info.get_entry_point(0))?;
    for (handle, function) in module.functions.iter() {
        scalar_stores(kernel, module, function, &info[handle])?;
    }
    Ok(size)
}

/// A store of one component of a vector in a buffer is a read and a write of the others on some devices.
fn scalar_stores(
    kernel: &Kernel,
    module: &Module,
    function: &Function,
    info: &FunctionInfo,
) -> Result<(), Error> {
    let mut found = false;
    walk(&function.body, &mut |s| {
        if let Statement::Store { pointer, .. } = s {
            let inner = info[*pointer].ty.inner_with(&module.types);
            found |= matches!(
                inner,
                TypeInner::ValuePointer { size: None, space: AddressSpace::Storage { .. }, .. }
            );
        }
    });
    if found {
        let text = "stores one component of a vector in a buffer; store whole vectors, or declare words";
        return Err(broken(kernel.place.clone(), text));
    }
    Ok(())
}

fn walk(block: &Block, each: &mut dyn FnMut(&Statement)) {
    for s in block.iter() {
        each(s);
        match s {
            Statement::Block(b) => walk(b, each),
            Statement::If { accept, reject, .. } => {
                walk(accept, each);
                walk(reject, each);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|c| walk(&c.body, each)),
            Statement::Loop { body, continuing, .. } => {
                walk(body, each);
                walk(continuing, each);
            }
            _ => {}
        }
    }
}

/// The module needs nothing that its kernel does not declare.
pub(crate) fn capabilities(kernel: &Kernel, found: &BTreeSet<u32>) -> Result<(), Error> {
    let declared: BTreeSet<u32> = std::iter::once("Shader")
        .chain(kernel.capabilities.iter().map(String::as_str))
        .filter_map(capability_code)
        .collect();
    match found.difference(&declared).next() {
        Some(c) => Err(broken(kernel.place.clone(), format!("needs the undeclared capability {c}"))),
        None => Ok(()),
    }
}
