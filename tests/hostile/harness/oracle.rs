//! The soundness oracle: whatever the verifier accepts must run, and must compute what the program means.

use super::reference::{self, Undefined};
use super::run::{Outcome, Run, check, persistent, run, small};
use serinette_compiler::blob::Blob;
use serinette_core::op;
use serinette_core::schedule::error::Reason;
use serinette_core::schedule::record::*;
use serinette_core::schedule::{Limits, Program, bind};

/// What became of a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It verified.
    pub accepted: bool,
    /// Runs that were compared.
    pub compared: usize,
}

/// Limits on mutated blobs: enough for every seed, small enough to run each.
pub fn limits() -> Limits {
    Limits { steps: 20_000, macs: 20_000_000, bytes: 50_000_000 }
}

/// Some values of the symbols within the plan's bounds: the lowest, the highest, something between.
fn sizes(program: &Program<'_>, plan: &Plan) -> Vec<Vec<u64>> {
    let pick = |f: fn(u64, u64) -> u64| {
        program
            .symbols
            .iter()
            .map(|(id, s)| {
                let b = program.bounds.get(plan.bounds[0] + id).unwrap();
                let v = f(b.low, b.high);
                let above = v.checked_next_multiple_of(s.multiple_of).filter(|v| *v <= b.high);
                above.unwrap_or(v / s.multiple_of * s.multiple_of)
            })
            .collect::<Vec<u64>>()
    };
    vec![pick(|l, _| l), pick(|_, h| h), pick(|l, h| l + (h - l) / 2)]
}

/// Verifies a blob; if it is accepted, binds and runs every plan and entry at several sizes and compares the
/// outputs with those of private memory. Panics where the verifier let something through.
pub fn judge(blob: &Blob) -> Verdict {
    judge_with(blob, true)
}

/// [`judge`], the comparison with the reversed order of steps in waves left out on request.
pub fn judge_with(blob: &Blob, reverse: bool) -> Verdict {
    let file = super::run::Aligned::of(&blob.to_bytes());
    let mut verdict = judge_bytes(file.bytes());
    if verdict.accepted && reverse {
        verdict.compared += reversed(blob, file.bytes());
    }
    verdict
}

/// [`judge`] for a file.
pub fn judge_bytes(file: &[u8]) -> Verdict {
    let mut verdict = Verdict::default();
    let report = match check(file, &limits()) {
        Ok(report) => report,
        Err(e) => {
            assert_ne!(e.reason, Reason::Corrupt, "verification met its own contradiction: {e}");
            return verdict;
        }
    };
    verdict.accepted = true;
    assert!(small(&report), "limits are kept");
    let program = Program::parse(file, file.len() as u64).unwrap();
    for (plan_id, plan) in program.plans.iter() {
        for symbols in sizes(&program, plan) {
            let mut exprs = vec![0; program.exprs.len()];
            if bind(&program, op::ALL, plan_id, &symbols, &mut exprs).is_err() {
                continue;
            }
            for (entry, _) in program.entries.iter() {
                verdict.compared += usize::from(compare(file, &program, plan_id, entry, &symbols));
            }
        }
    }
    verdict
}

/// Inputs of an entry that make data-dependent branches and trips go several ways.
fn inputs(program: &Program<'_>, entry: u32, way: u32) -> Vec<Vec<u8>> {
    let e = program.entries.get(entry).unwrap();
    let bytes = |id: u32| -> Vec<u8> {
        let v = program.values.get(id).unwrap();
        match v.dtype {
            1 => (0..16).flat_map(|i| ((i * 5 + id + way) as f32 / 3.0 - 2.5).to_le_bytes()).collect(),
            7 => (way as i32 * 2 + (id as i32 % 2)).to_le_bytes().to_vec(),
            _ => (0..24).map(|i| (i * 3 + id + way) as u8 & 1).collect(),
        }
    };
    program.entry_inputs(e).unwrap().map(bytes).collect()
}

fn compare(file: &[u8], program: &Program<'_>, plan: u32, entry: u32, symbols: &[u64]) -> bool {
    let mut compared = false;
    for way in 0..2 {
        let inputs = inputs(program, entry, way);
        let go = |poison| run(file, &Run { plan, entry, symbols, inputs: &inputs, poison, persistent: &[] });
        let (a, b) = match (go(0x00), go(0xff)) {
            (Outcome::Done(a), Outcome::Done(b)) => (a, b),
            (Outcome::Skipped, Outcome::Skipped) => return compared,
            (a, b) => panic!("a verified and bound blob does not run: {a:?}, {b:?}"),
        };
        assert_eq!(a, b, "outputs depend on what was in memory before");
        match reference::outputs(file, plan, entry, symbols, &inputs, &[]) {
            Ok(want) => assert_eq!(a, want, "outputs differ from those of private memory"),
            Err(e @ (Undefined::Unwritten(..) | Undefined::Range(_))) => panic!("accepted, but {e:?}"),
            Err(e) => panic!("the reference does not run what runs: {e:?}"),
        }
        compared = true;
    }
    compared
}

/// Runs each plan with the steps of every wave in reverse order: without hazards nothing may change.
fn reversed(blob: &Blob, file: &[u8]) -> usize {
    let mut compared = 0;
    let program = Program::parse(file, file.len() as u64).unwrap();
    for (plan_id, plan) in program.plans.iter() {
        let mut other = blob.clone();
        let mut changed = false;
        for w in &blob.waves[plan.waves[0] as usize..][..plan.waves[1] as usize] {
            let (first, n) = (w.first_step as usize, w.steps as usize);
            changed |= n > 1;
            other.steps[first..first + n].reverse();
            other.scratch_slots[plan.scratch_slots as usize + first..][..n].reverse();
        }
        if !changed {
            continue;
        }
        let other = super::run::Aligned::of(&other.to_bytes());
        let symbols = sizes(&program, plan).pop().unwrap();
        for (entry, _) in program.entries.iter() {
            let inputs = inputs(&program, entry, 1);
            let go = |file| {
                run(
                    file,
                    &Run {
                        plan: plan_id,
                        entry,
                        symbols: &symbols,
                        inputs: &inputs,
                        poison: 1,
                        persistent: &[],
                    },
                )
            };
            match (go(file), go(other.bytes())) {
                (Outcome::Done(a), Outcome::Done(b)) => {
                    assert_eq!(a, b, "the order of steps in a wave matters");
                    compared += 1;
                }
                (Outcome::Done(_), other) => panic!("a wave in reverse order does not run: {other:?}"),
                _ => {}
            }
        }
    }
    compared
}

/// The persistent values of a blob, for tests that look at them behind the outputs.
pub fn persistent_of(file: &[u8]) -> Vec<u32> {
    Program::parse(file, file.len() as u64).map(|p| persistent(&p)).unwrap_or_default()
}
