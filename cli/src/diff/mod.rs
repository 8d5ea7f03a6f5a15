//! In what two models differ, as rows that a person can read: each has a key and what either model has there.

mod flow;
mod steps;
mod weights;

use crate::facts::Facts;
use crate::failure::Failure;
use serde::Serialize;
use serde_json::{Value, json};
use serinette::Model;
use std::collections::BTreeMap;

/// One thing that differs.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What.
    pub key: String,
    /// In the first model; null if it has no such thing.
    pub a: Value,
    /// In the second.
    pub b: Value,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What differs of one kind.
#[derive(Debug, Serialize)]
pub struct Part {
    /// Which.
    pub name: &'static str,
    /// Whether it bears on what a model computes or needs.
    pub in_meaning: bool,
    /// How much is alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What differs.
    pub rows: Vec<Row>,
}

/// Compares two models.
pub fn of(a: (&Model, &Facts), b: (&Model, &Facts)) -> Result<Vec<Part>, Failure> {
    let part = |name, in_meaning, of: fn(&Facts) -> Listing| Part {
        name,
        in_meaning,
        summary: None,
        rows: rows(&of(a.1), &of(b.1)),
    };
    let weights = weights::compare(a.0, b.0)?;
    let (steps, mut names) = steps::compare(a.0, b.0, &weights.pairs)?;
    names.extend(weights.names);
    Ok(vec![
        part("file", false, file),
        part("metadata", false, metadata),
        Part { name: "names", in_meaning: false, summary: None, rows: names },
        part("sizes", true, sizes),
        part("entries", true, entries),
        part("inputs and outputs", true, ports),
        part("ops", true, ops),
        steps,
        weights.part,
        part("memory", true, memory),
        part("cost", true, cost),
    ])
}

/// What a model has, by key.
type Listing = BTreeMap<String, Value>;

fn rows(a: &Listing, b: &Listing) -> Vec<Row> {
    let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
    let row = |key: &String| {
        let of = |l: &Listing| l.get(key).cloned().unwrap_or_default();
        (of(a) != of(b)).then(|| Row { key: key.clone(), a: of(a), b: of(b), note: None })
    };
    keys.filter_map(row).collect()
}

fn file(f: &Facts) -> Listing {
    let pairs = [
        ("format", json!(f.format)),
        ("bytes", json!(f.file_bytes)),
        ("digest", json!(f.digest)),
        ("self-tests", json!(f.self_tests)),
    ];
    pairs.map(|(k, v)| (k.into(), v)).into()
}

fn metadata(f: &Facts) -> Listing {
    f.metadata.iter().map(|(k, v)| (k.clone(), json!(v))).collect()
}

fn sizes(f: &Facts) -> Listing {
    let each = |s: &crate::facts::SymbolFacts| {
        let multiple =
            if s.multiple_of > 1 { format!(", a multiple of {}", s.multiple_of) } else { String::new() };
        (s.name.clone(), json!(format!("{} to {}{multiple}", s.low, s.high)))
    };
    f.symbols.iter().map(each).collect()
}

/// Their kinds, and the order of their inputs and outputs.
fn entries(f: &Facts) -> Listing {
    let each = |e: &crate::facts::EntryFacts| {
        let (inputs, outputs) = (e.inputs.join(", "), e.outputs.join(", "));
        (e.name.clone(), json!(format!("{} ({inputs}) → ({outputs})", e.kind)))
    };
    f.entries.iter().map(each).collect()
}

fn ports(f: &Facts) -> Listing {
    let mut all = Listing::new();
    for (what, ports) in [("input", &f.inputs), ("output", &f.outputs)] {
        for p in ports {
            let key = format!("{} {what} {}", p.entry, p.name);
            let dims = p.shape.as_array().map(Vec::as_slice).unwrap_or_default();
            let dims: Vec<String> =
                dims.iter().map(|d| d.as_str().map_or_else(|| d.to_string(), String::from)).collect();
            if let Some(hint) = &p.hint {
                all.insert(format!("{key}, hint"), hint.clone());
            }
            all.insert(key, json!(format!("{} [{}]", p.dtype, dims.join(", "))));
        }
    }
    all
}

fn ops(f: &Facts) -> Listing {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for o in &f.ops {
        let key = format!("{} {} → {}", o.op, o.inputs.join(" "), o.outputs.join(" "));
        *counts.entry(key).or_default() += o.count;
    }
    counts.into_iter().map(|(k, n)| (k, json!(n))).collect()
}

fn memory(f: &Facts) -> Listing {
    let pairs = [
        ("state bytes", f.state_bytes),
        ("param bytes", f.param_bytes),
        ("derived bytes", f.derived_bytes),
        ("weight bytes", f.weight_bytes),
    ];
    let mut all: Listing = pairs.map(|(k, n)| (k.into(), json!(n))).into();
    for p in &f.plans {
        let mut add = |what: &str, v: Value| drop(all.insert(format!("plan {}, {what}", p.name), v));
        add("profile", json!(p.profile));
        add("arena bytes", json!(p.arena_bytes));
        add("lower bound of the work arena", json!(p.arena_lower_bound_bytes));
        add("waves", json!(p.waves));
        for (name, high) in &p.bounds {
            add(&format!("{name} at most"), json!(high));
        }
    }
    all
}

fn cost(f: &Facts) -> Listing {
    let pairs = [("multiply-adds", f.macs), ("bytes moved", f.bytes_moved), ("steps", f.steps)];
    pairs.map(|(k, n)| (k.into(), json!(n))).into()
}
