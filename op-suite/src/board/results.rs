//! Results against expected values, and against the host's bits.

use super::vectors::{Job, jobs};
use crate::{Case, Tensor, check};
use serinette_core::DType;
use serinette_op_suite_runner::wire::{MAGIC, Outcome, Results, Status, VERSION};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a device made of the suite.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Bytes of memory that the device has for one case.
    pub memory: u64,
    /// Runs that were right.
    pub passed: usize,
    /// Runs that were wrong, and how.
    pub failures: Vec<String>,
    /// Runs that the device is too small for, by op and limit.
    pub refused: BTreeMap<(&'static str, &'static str), usize>,
    /// Cases of which the device did no run.
    pub cases_refused: usize,
    /// All cases.
    pub cases: usize,
    /// Runs that gave another NaN than the host and are the same otherwise. Which NaN an operation gives is not defined.
    pub other_nans: usize,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused: usize = self.refused.values().sum();
        write!(f, "{} passed, {} failed, {refused} not for this board", self.passed, self.failures.len())?;
        let mut reasons = BTreeMap::new();
        for ((_, reason), count) in &self.refused {
            *reasons.entry(reason).or_insert(0) += count;
        }
        if !reasons.is_empty() {
            let list: Vec<_> = reasons.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
            write!(f, " ({})", list.join(", "))?;
        }
        write!(
            f,
            "\n{} cases, {} of them without a run; {} bytes for a case; bits as on this host but for the NaN of {} runs",
            self.cases, self.cases_refused, self.memory, self.other_nans
        )
    }
}

/// Judges the results of a device. `host` holds those of the host kernels for the same vectors, made with as much memory
/// as they want. An error is a file that cannot be read as results of these cases.
pub fn judge(cases: &[Case], device: &[u8], host: &[u8]) -> Result<Verdict, String> {
    let jobs = jobs(cases).map_err(|e| e.to_string())?;
    let (mut device, mut host) = (Reader::new("device", device), Reader::new("host", host));
    let memory = device.head(jobs.len())?;
    host.head(jobs.len())?;

    let mut verdict = Verdict { memory, cases: cases.len(), ..Verdict::default() };
    let mut ran = BTreeSet::new();
    for job in &jobs {
        let ((outcome, bytes), (reference, right)) = (device.next()?, host.next()?);
        match judge_run(job, memory, (&outcome, bytes), (&reference, right)) {
            Ok(Run::Same) => verdict.passed += 1,
            Ok(Run::OtherNan) => {
                verdict.passed += 1;
                verdict.other_nans += 1;
            }
            Ok(Run::Refused(limit)) => {
                *verdict.refused.entry((job.op.name, limit.name())).or_insert(0) += 1;
                continue;
            }
            Err(e) => verdict.failures.push(format!("{}: {e}", job.name())),
        }
        ran.insert(&job.case.name);
    }
    device.end()?;
    host.end()?;
    verdict.cases_refused = cases.len() - ran.len();
    Ok(verdict)
}

/// A run that is not wrong.
enum Run {
    Same,
    OtherNan,
    Refused(Status),
}

fn judge_run(
    job: &Job<'_>,
    memory: u64,
    (outcome, bytes): (&Outcome, &[u8]),
    (reference, right): (&Outcome, &[u8]),
) -> Result<Run, String> {
    let status = Status::from_code(outcome.status).ok_or(format!("unknown status {}", outcome.status))?;
    if status.is_limit() {
        // A device that says it is too small must be.
        if status == Status::Memory && reference.needed <= memory {
            return Err(format!("takes {} of {memory} bytes, but was refused for memory", reference.needed));
        }
        return Ok(Run::Refused(status));
    }
    if !status.has_outputs() {
        let (what, expected, found) = (outcome.what(), outcome.expected, outcome.found);
        return Err(format!("{}: {what}: expected {expected}, found {found}", status.name()));
    }
    if (status == Status::Fault) != job.case.expect_fault {
        return Err(format!("fault word: {}", status.name()));
    }
    let got = split(job.case, bytes)?;
    check(job.case, &got)?;
    // The host's own results are checked by its own tests.
    let host = split(job.case, right).map_err(|e| format!("on the host: {e}"))?;
    let mut verdict = Run::Same;
    for (o, (got, host)) in got.iter().zip(&host).enumerate() {
        for i in (0..got.elements()).filter(|i| got.element(*i) != host.element(*i)) {
            if !(is_nan(got, i) && is_nan(host, i)) {
                let (got, host) = (got.show(i), host.show(i));
                return Err(format!(
                    "other bits than the host: output {o} element {i} is {got}, there {host}"
                ));
            }
            verdict = Run::OtherNan;
        }
    }
    Ok(verdict)
}

/// Whether a float is none.
fn is_nan(t: &Tensor, i: usize) -> bool {
    let float = matches!(t.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
    float && t.number(i).is_some_and(f64::is_nan)
}

/// The bytes of all outputs as tensors.
fn split(case: &Case, mut bytes: &[u8]) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for want in &case.outputs {
        let (own, rest) = bytes.split_at_checked(want.bytes.len()).ok_or(format!(
            "{} bytes left for an output of {}",
            bytes.len(),
            want.bytes.len()
        ))?;
        tensors.push(Tensor::new(want.dtype, &want.dims, own.to_vec()));
        bytes = rest;
    }
    if bytes.is_empty() { Ok(tensors) } else { Err(format!("{} bytes too many", bytes.len())) }
}

/// Reads a file of results.
struct Reader<'a> {
    name: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(name: &'static str, rest: &'a [u8]) -> Reader<'a> {
        Reader { name, rest }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let (front, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or(format!("results of the {} end {bytes} bytes early", self.name))?;
        self.rest = rest;
        Ok(front)
    }

    /// The memory of the device.
    fn head(&mut self, runs: usize) -> Result<u64, String> {
        let head: Results = bytemuck::pod_read_unaligned(self.take(size_of::<Results>())?);
        if (head.magic, head.version, head.runs as usize) != (MAGIC, VERSION, runs) {
            return Err(format!("results of the {} are not of {runs} runs in version {VERSION}", self.name));
        }
        Ok(head.memory)
    }

    fn next(&mut self) -> Result<(Outcome, &'a [u8]), String> {
        let outcome: Outcome = bytemuck::pod_read_unaligned(self.take(size_of::<Outcome>())?);
        let bytes = usize::try_from(outcome.bytes).map_err(|e| e.to_string())?;
        Ok((outcome, self.take(bytes)?))
    }

    fn end(&self) -> Result<(), String> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(format!("results of the {} go on for {n} bytes", self.name)),
        }
    }
}
