//! `serinette bench`.

use super::compare::SEED;
use super::{print_json, tell, verify};
use crate::args::{Bench, DeviceName};
use crate::failure::Failure;
use crate::profile::{self, Profile};
use crate::{compile, device, entry, input, units};
use serde_json::{Value, json};
use serinette::{Model, RunStats, Session, SessionOptions};
use std::io::Write;
use std::time::{Duration, Instant};

/// Runs before the clock counts.
const WARM_UP: usize = 3;
/// Time for the timed runs of a device, unless their number is given.
const TIME: Duration = Duration::from_secs(2);

/// A device in the race.
struct Runner {
    id: String,
    name: String,
    session: Session,
    first_result: Duration,
    verify: Duration,
    stats: RunStats,
    times: Vec<Duration>,
}

/// Times a model, device beside device.
pub fn run(args: &Bench) -> Result<(), Failure> {
    let options = SessionOptions { threads: args.threads as usize, ..SessionOptions::default() };
    // A blob is opened anew for each device; what was compiled in memory is kept in memory.
    let compiled = if compile::is_onnx(&args.file)? {
        let (bytes, notes) = compile::compile(&args.file, &[], &args.compile)?;
        tell(&notes);
        Some(bytes)
    } else {
        None
    };
    let load = || match &compiled {
        Some(bytes) => Ok(Model::from_bytes(bytes.clone())?),
        None => compile::load(&args.file, &args.compile).map(|l| l.model),
    };
    let model = load()?;
    let callable = entry::pick(&model, args.inputs.entry.as_deref())?;
    let inputs = input::load(&model, &callable, &args.inputs, Some(SEED))?;
    tell(&inputs.notes);
    let names = if args.device.is_empty() { &[DeviceName::One("auto".into())][..] } else { &args.device };
    let views = inputs.views();
    let mut runners = Vec::new();
    for id in device::ids(names) {
        let within = |e: Failure| e.within(&id);
        let start = Instant::now();
        let opened = device::open(&id)?;
        let model = load()?;
        let mut session = inputs.session(&model, &opened.device, &options).map_err(within)?;
        session.run(callable.name, &views).map_err(|e| within(e.into()))?;
        let first_result = start.elapsed();
        let stats = session.stats();
        let (verify, times) = (verify::time(&model)?, Vec::new());
        runners.push(Runner { name: opened.device.name(), id, session, first_result, verify, stats, times });
    }
    // Devices take turns, so that a machine that slows down does so for all.
    let mut slowest = Duration::ZERO;
    for r in &mut runners {
        for _ in 0..WARM_UP {
            slowest = slowest.max(timed(r, callable.name, &views)?);
        }
    }
    let fit = TIME.as_nanos() / slowest.as_nanos().max(1);
    let count = args.runs.unwrap_or_else(|| u32::try_from(fit).unwrap_or(u32::MAX).clamp(10, 1000));
    for _ in 0..count {
        for r in &mut runners {
            let time = timed(r, callable.name, &views)?;
            r.times.push(time);
        }
    }
    for r in &mut runners {
        r.times.sort_unstable();
    }
    let host = runners.iter_mut().find(|r| r.id == "host");
    let profile = match (args.steps, host) {
        (None, _) => None,
        (Some(_), None) => return Err(Failure::usage("--steps times the host; give --device host")),
        (Some(_), Some(r)) => Some(profile::take(&model, &mut r.session, callable.name, &views)?),
    };
    print(args, &runners, count, profile.as_ref())
}

fn timed(
    r: &mut Runner,
    entry: &str,
    inputs: &[(&str, serinette::TensorView<'_>)],
) -> Result<Duration, Failure> {
    let start = Instant::now();
    let done = r.session.run(entry, inputs);
    let time = start.elapsed();
    done.map(|_| time).map_err(|e| Failure::from(e).within(&r.id))
}

/// The nearest-rank percentile of sorted times.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The middle of sorted times.
fn median(sorted: &[Duration]) -> Duration {
    let at = |i: usize| sorted.get(i).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { at(half) } else { (at(half.saturating_sub(1)) + at(half)) / 2 }
}

fn print(args: &Bench, runners: &[Runner], runs: u32, profile: Option<&Profile>) -> Result<(), Failure> {
    let peak = peak_rss();
    if args.json {
        let each: Vec<Value> = runners.iter().map(|r| to_json(args, r, runs, peak)).collect();
        let mut all = match each.as_slice() {
            [only] => only.clone(),
            several => json!({ "results": several }),
        };
        if let (Some(p), Some(all)) = (profile, all.as_object_mut()) {
            all.insert("profile".into(), p.json(args.steps.unwrap_or_default()));
        }
        return print_json(&all);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {runs} runs on each device", args.file.display())?;
    let width = runners.iter().map(|r| r.id.len()).max().unwrap_or(0).max(6);
    let heads = ["median", "min", "p95", "first result", "verify"];
    write!(out, "{:<width$}", "ms")?;
    for h in heads {
        write!(out, " {h:>12}")?;
    }
    writeln!(out)?;
    for r in runners {
        write!(out, "{:<width$}", r.id)?;
        for d in
            [median(&r.times), percentile(&r.times, 0), percentile(&r.times, 95), r.first_result, r.verify]
        {
            write!(out, " {:>12.3}", units::ms(d))?;
        }
        writeln!(out, "  {}", r.name)?;
    }
    if let Some(peak) = peak {
        writeln!(out, "peak memory of this process: {}", units::bytes(peak))?;
    }
    if let Some(p) = profile {
        p.print(args.steps.unwrap_or_default(), &mut out)?;
    }
    Ok(())
}

fn to_json(args: &Bench, r: &Runner, runs: u32, peak: Option<u64>) -> Value {
    json!({
        "device": r.id,
        "device_name": r.name,
        "threads": args.threads,
        "runs": runs,
        "median_ms": units::ms(median(&r.times)),
        "min_ms": units::ms(percentile(&r.times, 0)),
        "p95_ms": units::ms(percentile(&r.times, 95)),
        "first_result_ms": units::ms(r.first_result),
        "verify_ms": units::ms(r.verify),
        "peak_rss_bytes": peak,
        "host_steps": r.stats.host_steps,
        "host_bytes_copied": r.stats.host_bytes_copied,
    })
}

/// The most memory that this process ever had resident, where the system tells.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        let ms = |n: u64| Duration::from_millis(n);
        let times: Vec<Duration> = (1..=20).map(ms).collect();
        assert_eq!(percentile(&times, 0), ms(1));
        assert_eq!(percentile(&times, 95), ms(19));
        assert_eq!(percentile(&times, 100), ms(20));
        assert_eq!(median(&times), Duration::from_micros(10_500));
        assert_eq!(median(&times[..5]), ms(3));
        assert_eq!(median(&[]), Duration::ZERO);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_tells_the_peak() {
        assert!(peak_rss().is_some_and(|b| b > 100_000));
    }
}
