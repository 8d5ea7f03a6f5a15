//! `serinette diff`.

use super::{print_json, tell};
use crate::args::{CompileArgs, Diff};
use crate::diff::{self, Part, Row};
use crate::failure::Failure;
use crate::{compile, facts, units};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Rows of a part that are shown without `--full`.
const ROWS: usize = 20;

/// Shows in what two models differ.
pub fn run(args: &Diff) -> Result<(), Failure> {
    let flags = CompileArgs::default();
    let onnx = [compile::is_onnx(&args.first)?, compile::is_onnx(&args.second)?];
    // Flags are for the ONNX files among the two; two blobs take none.
    let load = |file: &Path, onnx: bool, other: bool| {
        let loaded = compile::load(file, if onnx || !other { &args.compile } else { &flags })?;
        tell(&loaded.notes);
        Ok::<_, Failure>(loaded.model)
    };
    let a = load(&args.first, onnx[0], onnx[1])?;
    let b = load(&args.second, onnx[1], onnx[0])?;
    let identical = a.bytes() == b.bytes();
    let parts = diff::of((&a, &facts::of(&a)?.0), (&b, &facts::of(&b)?.0))?;
    let differ: Vec<&str> =
        parts.iter().filter(|p| p.in_meaning && !p.rows.is_empty()).map(|p| p.name).collect();
    if args.json {
        print_json(&json!({ "same": differ.is_empty(), "identical": identical, "parts": parts }))?;
    } else {
        print(&parts, identical, differ.is_empty(), args.full)?;
    }
    if differ.is_empty() {
        return Ok(());
    }
    let (first, second) = (args.first.display(), args.second.display());
    Err(Failure::new(format!("{first} and {second} differ in {}", differ.join(", "))))
}

fn print(parts: &[Part], identical: bool, same: bool, full: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for p in parts.iter().filter(|p| !p.rows.is_empty()) {
        let aside = if p.in_meaning { "" } else { " (does not change what the model means)" };
        writeln!(
            out,
            "{}{}{aside}",
            p.name,
            p.summary.as_ref().map(|s| format!(": {s}")).unwrap_or_default()
        )?;
        let most = if full { usize::MAX } else { ROWS };
        for r in p.rows.iter().take(most) {
            row(&mut out, r)?;
        }
        if let more @ 1.. = p.rows.len().saturating_sub(most) {
            writeln!(out, "  … and {more} more; --full shows them")?;
        }
    }
    let equal: Vec<&str> = parts.iter().filter(|p| p.rows.is_empty()).map(|p| p.name).collect();
    if identical {
        writeln!(out, "every byte is the same")?;
    } else if same {
        writeln!(out, "the same in meaning; equal: {}", equal.join(", "))?;
    } else {
        writeln!(out, "equal: {}", equal.join(", "))?;
    }
    Ok(())
}

fn row(out: &mut dyn Write, r: &Row) -> Result<(), Failure> {
    let note = r.note.as_ref().map(|n| format!("; {n}")).unwrap_or_default();
    match (&r.a, &r.b) {
        (Value::Null, b) => writeln!(out, "  + {}: {}{note}", r.key, text(b))?,
        (a, Value::Null) => writeln!(out, "  − {}: {}{note}", r.key, text(a))?,
        (a, b) if a == b => writeln!(out, "  ~ {}: {}{note}", r.key, text(a))?,
        (a, b) => writeln!(out, "  ~ {}: {} → {}{}{note}", r.key, text(a), text(b), more(a, b))?,
    }
    Ok(())
}

fn text(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string(), units::count),
        other => other.to_string(),
    }
}

/// How much more a number is: in per cent, where that says something.
fn more(a: &Value, b: &Value) -> String {
    let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) else { return String::new() };
    let percent = 100.0 * (b as f64 / a.max(1) as f64 - 1.0);
    let sign = if b > a { '+' } else { '−' };
    match percent.abs() {
        p if a > 0 && (0.05..1000.0).contains(&p) => format!(" ({sign}{p:.1} %)"),
        _ => format!(" ({sign}{})", units::count(a.abs_diff(b))),
    }
}
