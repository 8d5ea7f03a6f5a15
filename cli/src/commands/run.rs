//! `serinette run`.

use super::compare::describe;
use super::{print_json, tell};
use crate::args::Run;
use crate::entry::Callable;
use crate::explain::Passes;
use crate::failure::Failure;
use crate::hint::{self, Hint};
use crate::input::{self, Inputs};
use crate::output::{self, Output};
use crate::tap::Taps;
use crate::{compile, device, entry, units};
use serde_json::{Value, json};
use serinette::compare::{Tolerance, first_difference};
use serinette::{Model, RunStats, Session, SessionOptions};
use std::io::Write;
use std::time::{Duration, Instant};

/// What a device made of a run.
struct Done {
    id: String,
    device_name: String,
    stats: RunStats,
    first: Duration,
    again: Duration,
    outputs: Vec<Output>,
    /// What was tapped.
    taps: Vec<Output>,
}

/// Runs a model on one device or on all.
pub fn run(args: &Run) -> Result<(), Failure> {
    let mut passes = Passes::default();
    let loaded = match args.tap.is_empty() {
        true => compile::load(&args.file, &args.compile)?,
        false => compile::load_explained(&args.file, &args.compile, &mut passes)?,
    };
    tell(&loaded.notes);
    let model = &loaded.model;
    let callable = entry::pick(model, args.inputs.entry.as_deref())?;
    let ports = entry::outputs(model, callable.record)?;
    let taps = Taps::find(model, &callable, &args.tap, &passes)?;
    let names: Vec<String> = ports.iter().map(|p| p.name.clone()).chain(taps.names()).collect();
    output::check_names(&args.output, &names)?;
    let hints: Result<Vec<Option<Hint>>, String> = ports.iter().map(|p| hint::of(model, p.value)).collect();
    let hints = hints.map_err(Failure::new)?;
    let inputs = input::load(model, &callable, &args.inputs, None)?;
    tell(&inputs.notes);

    let ids = device::ids(std::slice::from_ref(&args.device));
    let all = args.device == crate::args::DeviceName::All;
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    for id in &ids {
        match one(model, &callable, &inputs, &taps, id) {
            Ok(done) => {
                if !args.json {
                    print(&done, &hints)?;
                }
                runs.push(done);
            }
            // With several devices, one that fails does not keep the others from running.
            Err(e) => failures.push(e.within(id)),
        }
    }
    if let Some(last) = runs.last() {
        // The host is last, so its outputs are those that are written when all devices run.
        // An output that is tapped is written once.
        let inside = last.taps.iter().filter(|t| ports.iter().all(|p| p.name != t.name));
        let all: Vec<&Output> = last.outputs.iter().chain(inside).collect();
        output::write(&all, &args.output)?;
    }
    let differences = if all { differences(model, &callable, &inputs, &runs)? } else { Vec::new() };
    if args.json {
        let each: Vec<Value> = runs.iter().map(|d| to_json(d, &hints, args.values)).collect();
        if all {
            let failed: Vec<&str> = failures.iter().map(Failure::message).collect();
            print_json(&json!({ "runs": each, "differences": differences, "failures": failed }))?;
        } else if let Some(only) = each.first() {
            print_json(only)?;
        }
    } else if all && runs.len() > 1 && differences.is_empty() {
        let t = Tolerance::default();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} devices agree (relative {}, absolute {})", runs.len(), t.relative, t.absolute)?;
    }
    let problems: Vec<&str> =
        failures.iter().map(Failure::message).chain(differences.iter().map(String::as_str)).collect();
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(problems.join("\nserinette: "))) }
}

/// Runs twice on a device: the first run includes opening a session, the second shows what further runs take.
fn one(
    model: &Model,
    callable: &Callable<'_>,
    inputs: &Inputs,
    taps: &Taps,
    id: &str,
) -> Result<Done, Failure> {
    let opened = device::open(id)?;
    let views = inputs.views();
    let start = Instant::now();
    let mut session = open(model, &opened.device, inputs)?;
    let outputs = session.run(callable.name, &views)?;
    let first = start.elapsed();
    let outputs = output::collect(&outputs);
    let stats = session.stats();
    // From the same state as the first time.
    session.reset_state()?;
    let start = Instant::now();
    session.run(callable.name, &views)?;
    let again = start.elapsed();
    let taps = taps.take(&mut session, callable.name, &views, &outputs)?;
    Ok(Done { id: opened.id, device_name: opened.device.name(), stats, first, again, outputs, taps })
}

fn open(model: &Model, device: &serinette::Device, inputs: &Inputs) -> Result<Session, Failure> {
    inputs.session(model, device, &SessionOptions::default())
}

/// Compares the outputs of every device with those of the last, the host; where they differ, finds the first step.
fn differences(
    model: &Model,
    callable: &Callable<'_>,
    inputs: &Inputs,
    runs: &[Done],
) -> Result<Vec<String>, Failure> {
    let Some((host, others)) = runs.split_last() else { return Ok(Vec::new()) };
    let tolerance = Tolerance::default();
    let mut found = Vec::new();
    for other in others {
        let pairs = host.outputs.iter().zip(&other.outputs);
        let Some((a, _)) = pairs.into_iter().find(|(a, b)| a.tensor.differs(&b.tensor, tolerance)) else {
            continue;
        };
        let mut first = open(model, &device::open(&host.id)?.device, inputs)?;
        let mut second = open(model, &device::open(&other.id)?.device, inputs)?;
        let step = first_difference(&mut first, &mut second, callable.name, &inputs.views(), tolerance)?;
        found.push(match step {
            Some(d) => describe(model, &d, &host.id, &other.id),
            None => format!(
                "{} and {} differ in output '{}', but agree at every step when run step by step",
                host.id, other.id, a.name
            ),
        });
    }
    Ok(found)
}

fn print(done: &Done, hints: &[Option<Hint>]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {}", done.id, done.device_name)?;
    for (o, h) in done.outputs.iter().zip(hints) {
        output::print(&mut out, o, h.as_ref())?;
    }
    for t in &done.taps {
        write!(out, "  tap")?;
        output::print(&mut out, t, None)?;
    }
    write!(out, "  first {:.3} ms, then {:.3} ms a run", units::ms(done.first), units::ms(done.again))?;
    if done.stats.host_steps > 0 {
        let bytes = units::bytes(done.stats.host_bytes_copied);
        write!(out, "; {} steps on the host, {bytes} copied", done.stats.host_steps)?;
    }
    writeln!(out)?;
    Ok(())
}

fn to_json(done: &Done, hints: &[Option<Hint>], values: usize) -> Value {
    let outputs = done.outputs.iter().zip(hints);
    let outputs: Vec<Value> = outputs.map(|(o, h)| output::to_json(o, h.as_ref(), values)).collect();
    let taps: Vec<Value> = done.taps.iter().map(|t| output::to_json(t, None, values)).collect();
    let mut all = json!({
        "device": done.id,
        "device_name": done.device_name,
        "host_steps": done.stats.host_steps,
        "host_bytes_copied": done.stats.host_bytes_copied,
        "first_ms": units::ms(done.first),
        "run_ms": units::ms(done.again),
        "outputs": outputs,
    });
    if !taps.is_empty() {
        all["taps"] = taps.into();
    }
    all
}
