//! The generated Rust file and the files beside it.

use crate::compile::Compiled;
use crate::error::{Error, ErrorKind, Place};
use crate::template::{Interface, Params};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The text of `kernels.rs`: for the same kernels always the same.
pub fn rust(kernels: &[Compiled]) -> Result<String, Error> {
    let mut s = String::from(
        "// Generated from the shader templates.\n\n\
         const fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {\n    \
         let mut out = [0; N];\n    let mut i = 0;\n    while i < N {\n        \
         out[i] = u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);\n        \
         i += 1;\n    }\n    out\n}\n\n",
    );
    for c in kernels {
        let (name, upper) = (&c.kernel.name, c.kernel.name.to_uppercase());
        let _ = writeln!(
            s,
            "static {upper}_SPIRV: [u32; {}] = words(include_bytes!(\"{name}.spv\"));",
            c.spirv.len()
        );
    }
    s += "\n/// The kernels, in the order of their index constants.\n\
          pub static KERNELS: &[serinette_dispatch::KernelSource] = &[\n";
    for c in kernels {
        let (name, upper) = (&c.kernel.name, c.kernel.name.to_uppercase());
        let interface = match c.kernel.interface {
            Interface::Compute => "Compute",
            Interface::Gate => "Gate",
        };
        let _ = writeln!(
            s,
            "    serinette_dispatch::KernelSource {{\n        name: \"{name}\",\n        \
             wgsl_immediate: include_str!(\"{name}.immediate.wgsl\"),\n        \
             wgsl_uniform: include_str!(\"{name}.uniform.wgsl\"),\n        spirv: &{upper}_SPIRV,\n        \
             workgroup: {:?},\n        param_words: {},\n        \
             interface: serinette_dispatch::Interface::{interface},\n    }},",
            c.workgroup,
            c.kernel.params.words(),
        );
    }
    s += "];\n";
    for (i, c) in kernels.iter().enumerate() {
        let upper = c.kernel.name.to_uppercase();
        let _ = writeln!(s, "\n/// Index of kernel `{}`.\npub const {upper}: u16 = {i};", c.kernel.name);
    }
    let mut structs: BTreeMap<&str, (&Params, &Place)> = BTreeMap::new();
    for c in kernels {
        let p = &c.kernel.params;
        if p.name.is_empty() {
            continue;
        }
        match structs.insert(&p.name, (p, &c.kernel.place)) {
            Some((other, at)) if other != p => {
                let text = format!("parameters `{}` differ from those of the kernel at {at}", p.name);
                return Err(
                    Error::new(ErrorKind::Directive, c.kernel.place.clone(), text).of_kernel(&c.kernel.name)
                );
            }
            _ => {}
        }
    }
    for (p, _) in structs.values() {
        param_struct(&mut s, p);
    }
    Ok(s)
}

fn param_struct(s: &mut String, p: &Params) {
    let name = &p.name;
    let _ = writeln!(
        s,
        "\n/// Parameter words, in the order in which kernels read them.\n\
         #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n#[repr(C)]\npub struct {name} {{"
    );
    for f in &p.fields {
        let _ = match f.array {
            None => writeln!(s, "    /// Word `{0}`.\n    pub {0}: u32,", f.name),
            Some(n) => writeln!(s, "    /// Words `{0}`.\n    pub {0}: [u32; {n}],", f.name),
        };
    }
    let _ = writeln!(
        s,
        "}}\n\nimpl {name} {{\n    /// The words with zeros after them, and how many the kernel reads.\n    \
         pub fn words(&self) -> ([u32; serinette_dispatch::MAX_PARAMS], u32) {{\n        \
         let mut w = [0; serinette_dispatch::MAX_PARAMS];"
    );
    let mut at = 0;
    for f in &p.fields {
        let n = f.array.unwrap_or(1);
        let _ = match f.array {
            None => writeln!(s, "        w[{at}] = self.{};", f.name),
            Some(n) => writeln!(s, "        w[{at}..{}].copy_from_slice(&self.{});", at + n, f.name),
        };
        at += n;
    }
    let _ = write!(s, "        (w, {})\n    }}\n}}\n", p.words());
}

/// Writes `kernels.rs` and its includes; files that are already right are left alone.
pub fn write(out: &Path, kernels: &[Compiled]) -> Result<(), Error> {
    let mut files = vec![("kernels.rs".to_string(), rust(kernels)?.into_bytes())];
    for c in kernels {
        let name = &c.kernel.name;
        files.push((format!("{name}.spv"), c.spirv.iter().flat_map(|w| w.to_le_bytes()).collect()));
        files.push((format!("{name}.immediate.wgsl"), c.wgsl_immediate.clone().into_bytes()));
        files.push((format!("{name}.uniform.wgsl"), c.wgsl_uniform.clone().into_bytes()));
    }
    for (name, bytes) in files {
        let path = out.join(name);
        if std::fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        std::fs::write(&path, bytes).map_err(|e| {
            Error::new(ErrorKind::Io, Place::new(&path, 0), format!("cannot be written: {e}"))
        })?;
    }
    Ok(())
}
