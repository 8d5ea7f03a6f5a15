//! Where the time of a run goes on the host, step by step.

use crate::failure::Failure;
use crate::units;
use serde_json::{Value, json};
use serinette::core::op;
use serinette::{Model, Session, TensorView};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Runs that are timed; of each step the fastest counts.
const RUNS: usize = 10;

/// One step, or all steps of one op.
#[derive(Clone, Default)]
struct Row {
    name: String,
    op: &'static str,
    time: Duration,
    macs: u64,
    bytes: u64,
    steps: usize,
}

impl Row {
    fn rates(&self) -> (f64, f64) {
        let seconds = self.time.as_secs_f64().max(1e-9);
        (self.macs as f64 / seconds / 1e9, self.bytes as f64 / seconds / 1e9)
    }

    fn json(&self) -> Value {
        let (gmacs, gigabytes) = self.rates();
        json!({
            "name": self.name, "op": self.op, "ms": units::ms(self.time), "steps": self.steps,
            "gmac_per_s": gmacs, "gb_per_s": gigabytes,
        })
    }
}

/// The times of the steps of an entry.
pub struct Profile {
    steps: Vec<Row>,
    ops: Vec<Row>,
    total: Duration,
}

/// Runs an entry and takes the time of each step. What a step of a loop takes in all its trips is added up.
pub fn take(
    model: &Model,
    session: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorView<'_>)],
) -> Result<Profile, Failure> {
    let mut best: BTreeMap<u32, Row> = BTreeMap::new();
    for _ in 0..RUNS {
        let mut this: BTreeMap<u32, Row> = BTreeMap::new();
        session.run_timed(entry, inputs, &mut |t| {
            let row = this.entry(t.step).or_default();
            row.time += t.time;
            row.macs = row.macs.saturating_add(t.cost.macs);
            row.bytes = row.bytes.saturating_add(t.cost.bytes);
            row.steps += 1;
        })?;
        for (step, row) in this {
            match best.get_mut(&step) {
                Some(b) if b.time <= row.time => {}
                Some(b) => *b = row,
                None => drop(best.insert(step, row)),
            }
        }
    }
    let program = model.program();
    let mut ops: BTreeMap<&str, Row> = BTreeMap::new();
    let mut steps = Vec::new();
    for (step, row) in best {
        let signature = program.steps.get(step).and_then(|s| program.signatures.get(s.link));
        let described = signature.ok().and_then(|s| op::find(op::ALL, s.op, s.version));
        let op = described.map_or("custom op", |d| d.name);
        let name = model.step_name(step).unwrap_or_else(|| format!("step {step}"));
        let all = ops.entry(op).or_insert_with(|| Row { name: op.into(), op, ..Row::default() });
        all.time += row.time;
        all.macs = all.macs.saturating_add(row.macs);
        all.bytes = all.bytes.saturating_add(row.bytes);
        all.steps += row.steps;
        steps.push(Row { name, op, ..row });
    }
    steps.sort_by_key(|r| std::cmp::Reverse(r.time));
    let mut ops: Vec<Row> = ops.into_values().collect();
    ops.sort_by_key(|r| std::cmp::Reverse(r.time));
    let total = steps.iter().map(|r| r.time).sum();
    Ok(Profile { steps, ops, total })
}

impl Profile {
    /// Ops, then the longest steps, as text.
    pub fn print(&self, most: usize, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "steps: {:.3} ms, the sum of the fastest of {RUNS} runs each", units::ms(self.total))?;
        writeln!(out, "{:>10} {:>6} {:>6} {:>8} {:>8}", "ms", "%", "steps", "GMAC/s", "GB/s")?;
        for row in self.ops.iter() {
            self.line(row, row.op, out)?;
        }
        writeln!(out)?;
        for row in self.steps.iter().take(most) {
            self.line(row, &format!("{} {}", row.op, row.name), out)?;
        }
        Ok(())
    }

    fn line(&self, row: &Row, what: &str, out: &mut impl Write) -> std::io::Result<()> {
        let share = 100.0 * row.time.as_secs_f64() / self.total.as_secs_f64().max(1e-12);
        let (gmacs, gigabytes) = row.rates();
        let ms = units::ms(row.time);
        writeln!(out, "{ms:>10.4} {share:>6.1} {:>6} {gmacs:>8.2} {gigabytes:>8.2}  {what}", row.steps)
    }

    /// The same for programs.
    pub fn json(&self, most: usize) -> Value {
        json!({
            "total_ms": units::ms(self.total),
            "ops": self.ops.iter().map(Row::json).collect::<Vec<_>>(),
            "steps": self.steps.iter().take(most).map(Row::json).collect::<Vec<_>>(),
        })
    }
}
