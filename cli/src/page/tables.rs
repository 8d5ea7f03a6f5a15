//! The tables of the page: ops, entries, steps, weights.

use super::{Content, ROWS, escape, share, unwritten};
use crate::failure::Failure;
use crate::steps::StepFacts;
use crate::units::{bytes, count};
use serinette::core::op::Cost;
use serinette::core::schedule::record::role;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Writes all tables.
pub fn write(page: &mut String, c: &Content<'_>) -> Result<(), Failure> {
    ops(page, c).map_err(unwritten)?;
    entries(page, c).map_err(unwritten)?;
    steps(page, c)?;
    weights(page, c)
}

/// A table; one of many rows is folded up. `columns` that start with `#` are numbers.
fn table(page: &mut String, what: &str, columns: &[&str], rows: &[Row]) -> std::fmt::Result {
    let folded = rows.len() > ROWS;
    if folded {
        writeln!(page, "<details><summary>{} {what}</summary>", rows.len())?;
    }
    page.push_str("<table><tr>");
    for c in columns {
        match c.strip_prefix('#') {
            Some(c) => write!(page, "<th class=\"n\">{c}</th>")?,
            None => write!(page, "<th>{c}</th>")?,
        }
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str(if row.mark { "<tr class=\"wave\">" } else { "<tr>" });
        for (cell, column) in row.cells.iter().zip(columns) {
            let class = if column.starts_with('#') { " class=\"n\"" } else { "" };
            write!(page, "<td{class}>{}</td>", escape(cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str(if folded { "</table></details>\n" } else { "</table>\n" });
    Ok(())
}

/// A row, not escaped.
#[derive(Default)]
struct Row {
    cells: Vec<String>,
    /// Set apart from the row before.
    mark: bool,
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Row {
        Row { cells, mark: false }
    }
}

fn ops(page: &mut String, c: &Content<'_>) -> std::fmt::Result {
    let mut by_op: BTreeMap<&str, (u64, Cost)> = BTreeMap::new();
    let mut all = Cost::default();
    for s in c.at.steps.iter().filter(|s| s.computes) {
        let (n, sum) = by_op.entry(&s.op).or_default();
        (*n, *sum, all) = (*n + 1, sum.plus(s.cost), all.plus(s.cost));
    }
    let mut ops: Vec<_> = by_op.into_iter().collect();
    ops.sort_by_key(|(_, (_, cost))| std::cmp::Reverse((cost.macs, cost.bytes)));
    let row = |(op, (n, cost)): (&str, (u64, Cost))| {
        let Cost { macs, bytes } = cost;
        Row::from(vec![
            op.into(),
            count(n),
            count(macs),
            share(macs, all.macs),
            count(bytes),
            share(bytes, all.bytes),
        ])
    };
    let rows: Vec<Row> = ops.into_iter().map(row).collect();
    page.push_str("<h2>Ops</h2>\n<p>All entries, sizes at their bounds, loops at their most trips.</p>\n");
    table(page, "ops", &["op", "#steps", "#multiply-adds", "#share", "#bytes moved", "#share"], &rows)
}

fn entries(page: &mut String, c: &Content<'_>) -> std::fmt::Result {
    page.push_str("<h2>Entries</h2>\n");
    let mut rows = Vec::new();
    for (id, e) in (0u32..).zip(&c.facts.entries) {
        let steps = c.at.steps.iter().filter(|s| s.entry == id);
        let cost = steps.fold(Cost::default(), |sum, s| sum.plus(s.cost));
        let ports = |all: &[crate::facts::PortFacts]| -> String {
            let of = all.iter().filter(|p| p.entry == e.name);
            let shape = |p: &crate::facts::PortFacts| p.shape.to_string().replace('"', "").replace(',', ", ");
            of.map(|p| format!("{}: {} {}", p.name, p.dtype, shape(p))).collect::<Vec<_>>().join("; ")
        };
        rows.push(Row::from(vec![
            e.name.clone(),
            e.kind.into(),
            count(e.steps.into()),
            count(cost.macs),
            count(cost.bytes),
            ports(&c.facts.inputs),
            ports(&c.facts.outputs),
        ]));
    }
    let columns = ["entry", "kind", "#steps", "#multiply-adds", "#bytes moved", "inputs", "outputs"];
    table(page, "entries", &columns, &rows)?;
    if c.facts.plans.len() > 1 {
        page.push_str("<h2>Plans</h2>\n");
        let plan = |p: &crate::facts::PlanFacts| {
            let bounds: Vec<String> = p.bounds.iter().map(|(n, b)| format!("{n} ≤ {b}")).collect();
            let numbers = [p.arena_bytes, p.arena_lower_bound_bytes, p.waves.into()].map(count);
            let texts = vec![p.name.clone(), p.profile.into(), bounds.join(", ")];
            Row::from(texts.into_iter().chain(numbers).collect::<Vec<_>>())
        };
        let rows: Vec<Row> = c.facts.plans.iter().map(plan).collect();
        let columns = ["plan", "profile", "bounds", "#bytes of all arenas", "#lower bound of work", "#waves"];
        table(page, "plans", &columns, &rows)?;
    }
    Ok(())
}

fn steps(page: &mut String, c: &Content<'_>) -> Result<(), Failure> {
    let row = |s: &StepFacts| -> Result<Row, Failure> {
        let outputs: Result<Vec<String>, Failure> = match s.computes {
            true => s.outputs.iter().map(|v| c.at.describe(*v)).collect(),
            false => Ok(Vec::new()),
        };
        let live = c.memory.live.get(s.id as usize).copied().unwrap_or(0);
        let trips = if s.trips > 1 { format!("{} ×", count(s.trips)) } else { String::new() };
        let cells = vec![
            count(s.id.into()),
            c.facts.entries.get(s.entry as usize).map(|e| e.name.clone()).unwrap_or_default(),
            s.op.clone(),
            s.name.clone(),
            outputs?.join("; "),
            trips,
            count(s.cost.macs),
            count(s.cost.bytes),
            count(live),
            count(s.wave.into()),
        ];
        Ok(Row { cells, mark: s.barrier })
    };
    let rows: Vec<Row> = c.at.steps.iter().map(row).collect::<Result<_, _>>()?;
    page.push_str("<h2>Steps</h2>\n<p>A line above a step: it starts a wave, so devices wait there for the steps before.</p>\n");
    let columns = [
        "#step",
        "entry",
        "op",
        "name",
        "outputs",
        "#trips",
        "#multiply-adds",
        "#bytes moved",
        "#live bytes",
        "#wave",
    ];
    table(page, "steps", &columns, &rows).map_err(unwritten)
}

fn weights(page: &mut String, c: &Content<'_>) -> Result<(), Failure> {
    let program = c.model.program();
    let mut found: Vec<(u64, Row)> = Vec::new();
    let (mut constants, mut constant_bytes) = (0u64, 0u64);
    for (id, v) in program.values.iter() {
        let role = match v.role {
            role::WEIGHT => "weight",
            role::PARAM => "param",
            role::STATE => "state",
            role::DERIVED => "derived",
            role::CONSTANT if v.root == id => {
                (constants, constant_bytes) = (constants + 1, constant_bytes.saturating_add(v.data_bytes));
                continue;
            }
            _ => continue,
        };
        if v.root == id {
            let size = c.at.bytes(id)?;
            let cells = vec![c.tensor_name(id, None), role.into(), c.at.describe(id)?, count(size)];
            found.push((size, cells.into()));
        }
    }
    found.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let rows: Vec<Row> = found.into_iter().map(|(_, r)| r).collect();
    let mut write = || -> std::fmt::Result {
        page.push_str("<h2>Weights, params, state</h2>\n");
        writeln!(
            page,
            "<p>{} of weights and constants in the file; {} unnamed constants hold {} of them.</p>",
            bytes(c.facts.weight_bytes),
            count(constants),
            bytes(constant_bytes)
        )?;
        table(page, "tensors", &["name", "role", "type and shape", "#bytes"], &rows)
    };
    write().map_err(unwritten)
}
