//! `serinette inspect`.

use super::{compile::print_needs, print_json, tell};
use crate::args::Inspect;
use crate::facts::{self, PortFacts};
use crate::failure::Failure;
use crate::{compile, files, page, units};
use std::io::Write;

/// Shows what is in a model.
pub fn run(args: &Inspect) -> Result<(), Failure> {
    let loaded = compile::load(&args.file, &args.compile)?;
    tell(&loaded.notes);
    let (f, needs) = facts::of(&loaded.model)?;
    if args.json {
        return print_json(&f);
    }
    let mut out = std::io::stdout().lock();
    if let Some(path) = &args.html {
        let title = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy();
        let html = page::write(&title, &loaded.model, &f, &needs)?;
        files::write_bytes(path, html.as_bytes())?;
        writeln!(out, "{}: {}", path.display(), units::bytes(html.len() as u64))?;
        return Ok(());
    }
    writeln!(out, "{}: format {}, {}", args.file.display(), f.format, units::bytes(f.file_bytes))?;
    writeln!(out, "  digest   {}", f.digest)?;
    print_needs(&mut out, &f, &needs)?;
    for e in &f.entries {
        let kind = if e.kind == "prepare" { "prepare, " } else { "" };
        writeln!(out, "entry {}: {kind}{} steps", e.name, e.steps)?;
        for p in f.inputs.iter().filter(|p| p.entry == e.name) {
            print_port(&mut out, "in ", p)?;
        }
        for p in f.outputs.iter().filter(|p| p.entry == e.name) {
            print_port(&mut out, "out", p)?;
        }
    }
    writeln!(out, "ops")?;
    for o in &f.ops {
        writeln!(out, "  {:>5} × {} {} → {}", o.count, o.op, o.inputs.join(" "), o.outputs.join(" "))?;
    }
    for p in &f.plans {
        let bounds: Vec<String> = p.bounds.iter().map(|(n, b)| format!(", {n} ≤ {b}")).collect();
        let memory = units::bytes(p.arena_bytes);
        writeln!(out, "plan {} ({}): {} waves, {memory}{}", p.name, p.profile, p.waves, bounds.concat())?;
    }
    for (k, v) in &f.metadata {
        writeln!(out, "{k}: {v}")?;
    }
    Ok(())
}

fn print_port(out: &mut dyn Write, what: &str, p: &PortFacts) -> Result<(), Failure> {
    let dims = p.shape.as_array().map(Vec::as_slice).unwrap_or_default();
    let dims: Vec<String> =
        dims.iter().map(|d| d.as_str().map_or_else(|| d.to_string(), String::from)).collect();
    let kind = p.hint.as_ref().and_then(|h| h.get("kind")).and_then(|k| k.as_str());
    let kind = kind.map(|k| format!(" ({k})")).unwrap_or_default();
    writeln!(out, "  {what} {}: {} [{}]{kind}", p.name, p.dtype, dims.join(", "))?;
    Ok(())
}
