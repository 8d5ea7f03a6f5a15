//! What the passes of the compiler did, for people and for programs.

use crate::args::{CompileArgs, EntryOf};
use crate::facts::Facts;
use crate::failure::Failure;
use crate::{compile, units};
use serde_json::{Value, json};
use serinette::compile::explain::{Change, Explanation, Fate, Gone, Measure, NodeLabel};
use std::io::Write;
use std::path::Path;

/// Ops whose number changed that a row names.
const OPS: usize = 8;

/// What the passes did.
#[derive(Default)]
pub struct Passes(Explanation);

impl Passes {
    /// Compiles; takes down what the passes do.
    pub fn compile(
        &mut self,
        file: &Path,
        entries: &[EntryOf],
        args: &CompileArgs,
    ) -> Result<(Vec<u8>, Vec<String>), Failure> {
        let observer = &mut |stage: serinette::compile::Stage<'_>| self.0.observe(stage);
        compile::compile_observed(file, entries, args, observer)
    }

    /// Why a tensor of the source model is not computed, if a pass took it out.
    pub fn fate(&self, tensor: &str) -> Option<String> {
        self.0.passes.iter().rev().find_map(|p| {
            if let Some((_, m)) = p.lost.iter().find(|(r, _)| r == tensor) {
                return Some(format!("after pass {}, {} gives something else", p.pass, label(m)));
            }
            let gone = p.gone.iter().find(|g| g.results.iter().any(|r| r == tensor))?;
            let what = match &gone.fate {
                Fate::Constant(bytes) => format!("it was computed: a constant of {}", units::bytes(*bytes)),
                Fate::Into(m) => format!("it went into {}", label(m)),
                Fate::Replaced(value) => format!("{value} is read instead"),
                Fate::Dropped => "nothing reads it".into(),
            };
            Some(format!("after pass {}, {what}", p.pass))
        })
    }

    /// A row for each pass that changed something; with `full` its nodes too.
    pub fn print(&self, out: &mut dyn Write, full: bool) -> Result<(), Failure> {
        writeln!(out, "   {:<10} {:>7} {:>15} {:>15}", "pass", "nodes", "constants", "peak")?;
        row(out, "   import    ", &self.0.start, &ops(&self.0.ops))?;
        for (i, p) in self.0.passes.iter().enumerate().filter(|(_, p)| !p.is_nothing()) {
            row(out, &format!("{:>2} {:<10}", i + 1, p.pass), &p.after, &what(p))?;
            if full {
                nodes(out, p)?;
            }
        }
        let nothing: Vec<String> = (1..)
            .zip(&self.0.passes)
            .filter(|(_, p)| p.is_nothing())
            .map(|(i, p)| format!("{i} {}", p.pass))
            .collect();
        if !nothing.is_empty() {
            writeln!(out, "   found nothing to do: {}", nothing.join(", "))?;
        }
        if let Some(order) = self.0.passes.last().filter(|p| p.reordered) {
            let (before, after) = (order.before.peak_bytes, order.after.peak_bytes);
            let gain = 100.0 * (1.0 - after as f64 / before.max(1) as f64);
            writeln!(
                out,
                "   another order of steps: {} live at most rather than {}, {gain:.1} % less",
                units::bytes(after),
                units::count(before)
            )?;
        }
        Ok(())
    }

    /// The same for programs, with the plans.
    pub fn json(&self, facts: &Facts) -> Value {
        let mut import = measure(&self.0.start);
        import["ops"] = json!(self.0.ops);
        let passes: Vec<Value> = self.0.passes.iter().map(pass).collect();
        json!({
            "import": import,
            "passes": passes,
            "plans": facts.plans,
            "arena_bytes": facts.arena_bytes,
            "arena_lower_bound_bytes": facts.arena_lower_bound_bytes,
            "file_bytes": facts.file_bytes,
        })
    }
}

fn row(out: &mut dyn Write, name: &str, m: &Measure, what: &str) -> Result<(), Failure> {
    let (constants, peak) = (units::count(m.constant_bytes), units::count(m.peak_bytes));
    writeln!(out, "{name} {:>7} {constants:>15} {peak:>15}  {what}", m.nodes)?;
    Ok(())
}

/// The commonest ops of a graph.
fn ops(all: &std::collections::BTreeMap<&'static str, usize>) -> String {
    let mut all: Vec<(&str, usize)> = all.iter().map(|(op, n)| (*op, *n)).collect();
    all.sort_by_key(|(op, n)| (std::cmp::Reverse(*n), *op));
    let texts: Vec<String> = all.iter().map(|(op, n)| format!("{op} {n}")).collect();
    first(&texts)
}

/// The first texts of a list, and how many more there are.
fn first(texts: &[String]) -> String {
    let shown = texts.get(..OPS).unwrap_or(texts).join(", ");
    match texts.len().saturating_sub(OPS) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// What a pass did, in one line.
fn what(p: &Change) -> String {
    let mut differences: Vec<(&str, i64)> = p.differences().collect();
    differences.sort_by_key(|(op, d)| (std::cmp::Reverse(d.abs()), *op));
    let signed = |d: i64| if d < 0 { format!("−{}", d.unsigned_abs()) } else { format!("+{d}") };
    let differences: Vec<String> = differences.iter().map(|(op, d)| format!("{op} {}", signed(*d))).collect();
    let of = |wanted: fn(&Fate) -> bool| p.gone.iter().filter(|g| wanted(&g.fate)).count();
    let counts = [
        (of(|f| matches!(f, Fate::Constant(_))), "computed"),
        (of(|f| matches!(f, Fate::Into(_))), "went into others"),
        (of(|f| matches!(f, Fate::Replaced(_))), "replaced"),
        (of(|f| matches!(f, Fate::Dropped)), "dropped"),
        (p.new.len(), "new"),
        (p.altered.len(), "altered"),
        (p.moved.len(), "moved"),
        (p.rewired, "read other values"),
        (usize::from(p.reordered), "other order"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0);
    let counts: Vec<String> =
        counts.map(|(n, w)| if *w == "other order" { (*w).into() } else { format!("{n} {w}") }).collect();
    let parts = [first(&differences), counts.join(", ")];
    parts.iter().filter(|p| !p.is_empty()).cloned().collect::<Vec<_>>().join("; ")
}

fn label(n: &NodeLabel) -> String {
    format!("{} {}", n.op, n.name)
}

/// The nodes that a pass changed, a line for each.
fn nodes(out: &mut dyn Write, p: &Change) -> Result<(), Failure> {
    for g in &p.gone {
        let fate = match &g.fate {
            Fate::Constant(bytes) => format!("a constant, {}", units::bytes(*bytes)),
            Fate::Into(m) => label(m),
            Fate::Replaced(value) => format!("{value} instead"),
            Fate::Dropped => "dropped, nothing reads it".into(),
        };
        writeln!(out, "     − {} → {fate}", label(&g.node))?;
    }
    for (sign, list) in [("+", &p.new), ("~", &p.altered), ("»", &p.moved)] {
        for n in list {
            writeln!(out, "     {sign} {}", label(n))?;
        }
    }
    Ok(())
}

fn measure(m: &Measure) -> Value {
    json!({ "nodes": m.nodes, "constant_bytes": m.constant_bytes, "peak_bytes": m.peak_bytes })
}

fn node(n: &NodeLabel) -> Value {
    json!({ "op": n.op, "name": n.name })
}

fn pass(p: &Change) -> Value {
    let ops = p.ops.iter().filter(|(_, (before, after))| before != after);
    let ops: serde_json::Map<String, Value> = ops
        .map(|(op, (before, after))| ((*op).into(), json!({ "before": before, "after": after })))
        .collect();
    let gone = |g: &Gone| {
        let mut gone = node(&g.node);
        let (fate, key, value) = match &g.fate {
            Fate::Constant(bytes) => ("constant", "bytes", json!(bytes)),
            Fate::Into(m) => ("into", "into", node(m)),
            Fate::Replaced(value) => ("replaced", "by", json!(value)),
            Fate::Dropped => ("dropped", "by", Value::Null),
        };
        (gone["fate"], gone[key]) = (fate.into(), value);
        gone
    };
    let list = |l: &[NodeLabel]| l.iter().map(node).collect::<Vec<_>>();
    json!({
        "pass": p.pass,
        "changed": !p.is_nothing(),
        "before": measure(&p.before),
        "after": measure(&p.after),
        "ops": ops,
        "gone": p.gone.iter().map(gone).collect::<Vec<_>>(),
        "new": list(&p.new),
        "altered": list(&p.altered),
        "moved": list(&p.moved),
        "rewired": p.rewired,
        "reordered": p.reordered,
    })
}
