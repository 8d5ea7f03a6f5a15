//! `serinette compile`.

use super::{print_json, tell};
use crate::args::{Compile, Explain};
use crate::explain::Passes;
use crate::failure::Failure;
use crate::{compile, facts, files, self_test, units};
use serinette::{Model, Requirements};
use std::io::Write;

/// Compiles a model, checks the blob, writes it and says what it will need.
pub fn run(args: &Compile) -> Result<(), Failure> {
    for file in std::iter::once(&args.model).chain(args.entry.iter().map(|e| &e.file)) {
        if !file.exists() {
            return Err(Failure::file(file, "no such file"));
        }
        if !compile::is_onnx(file)? {
            return Err(Failure::file(file, "expected an ONNX model, a file whose name ends in .onnx"));
        }
    }
    let mut passes = Passes::default();
    let (bytes, notes) = match args.explain {
        Some(_) => passes.compile(&args.model, &args.entry, &args.compile)?,
        None => compile::compile(&args.model, &args.entry, &args.compile)?,
    };
    tell(&notes);
    // What is written has been opened once: verified, with a plan.
    let model = self_test::add(Model::from_bytes(bytes)?, &args.self_test)?;
    let (f, needs) = facts::of(&model)?;
    let mut name = "not written".to_string();
    if let Some(output) = &args.output {
        files::write_bytes(output, model.bytes())?;
        name = output.display().to_string();
    }
    if args.explain == Some(Explain::Json) {
        return print_json(&passes.json(&f));
    }
    let mut out = std::io::stdout().lock();
    if let Some(how) = args.explain {
        passes.print(&mut out, how == Explain::Full)?;
    }
    writeln!(out, "{name}: {}", units::bytes(f.file_bytes))?;
    print_needs(&mut out, &f, &needs)
}

/// What a model will need.
pub fn print_needs(out: &mut dyn Write, f: &facts::Facts, needs: &Requirements) -> Result<(), Failure> {
    let ratio = f.arena_bytes as f64 / f.arena_lower_bound_bytes.max(1) as f64;
    writeln!(out, "  weights  {}", units::bytes(f.weight_bytes))?;
    writeln!(
        out,
        "  arena    {}, {ratio:.3} of the lower bound {}",
        units::bytes(f.arena_bytes),
        units::count(f.arena_lower_bound_bytes)
    )?;
    for (name, bytes) in [("state", f.state_bytes), ("params", f.param_bytes), ("derived", f.derived_bytes)] {
        if bytes > 0 || name == "state" {
            writeln!(out, "  {name:<8} {}", units::bytes(bytes))?;
        }
    }
    writeln!(out, "  outputs  {}", units::bytes(needs.outputs))?;
    writeln!(out, "  steps    {} in {} waves", units::count(f.steps), units::count(f.waves))?;
    writeln!(
        out,
        "  work     at most {} multiply-adds, {} moved",
        units::count(f.macs),
        units::bytes(f.bytes_moved)
    )?;
    if f.self_tests > 0 {
        writeln!(out, "  tests    {}", f.self_tests)?;
    }
    for s in &f.symbols {
        let multiple =
            if s.multiple_of > 1 { format!(", a multiple of {}", s.multiple_of) } else { String::new() };
        writeln!(out, "  size     {} from {} to {}{multiple}", s.name, s.low, s.high)?;
    }
    Ok(())
}
