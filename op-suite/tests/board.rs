//! The suite as files: vectors, the runner that firmware uses, and what is made of its results.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serinette_core::{DType, op};
use serinette_host_kernels::registry;
use serinette_op_suite::board::{Expectations, judge, run_here, write_vectors};
use serinette_op_suite::{Case, cases};
use serinette_op_suite_runner::wire::{Outcome, Results, Status};
use serinette_op_suite_runner::{Device, Error};

const PLENTY: usize = 64 << 20;

fn vectors(cases: &[Case]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_vectors(cases, &mut bytes).unwrap();
    bytes
}

fn results(vectors: &[u8], memory: usize) -> Result<Vec<u8>, Error> {
    let kernel = |s: &_| registry::find(s).map(|r| r.kernel);
    run_here(vectors, memory, Device { ops: op::ALL, kernel: &kernel })
}

/// Where each outcome of a file of results starts.
fn outcomes(results: &[u8]) -> Vec<(usize, Outcome)> {
    let mut at = size_of::<Results>();
    let mut all = Vec::new();
    while at < results.len() {
        let outcome: Outcome = bytemuck::pod_read_unaligned(&results[at..at + size_of::<Outcome>()]);
        all.push((at, outcome));
        at += size_of::<Outcome>() + outcome.bytes as usize;
    }
    all
}

/// The first case of an op whose only output has this type and elements.
fn first(all: &[Case], op: &str, dtype: DType) -> Vec<Case> {
    let fits = |c: &&Case| {
        c.name.starts_with(op)
            && c.outputs[0].dtype == dtype
            && c.outputs[0].elements() > 3
            && !c.expect_fault
    };
    vec![all.iter().find(fits).unwrap().clone()]
}

#[test]
fn every_case_through_the_runner() {
    let all = cases();
    let here = results(&vectors(&all), PLENTY).unwrap();
    let verdict = judge(&all, &here, &here).unwrap();
    assert!(verdict.failures.is_empty(), "{:?}", verdict.failures);
    assert!(verdict.refused.is_empty() && verdict.cases_refused == 0 && verdict.other_nans == 0, "{verdict}");
    assert!(verdict.passed >= all.len(), "{verdict}");
}

#[test]
fn what_does_not_fit_is_counted_and_expected() {
    let all = cases();
    let file = vectors(&all);
    let (small, here) = (results(&file, 8192).unwrap(), results(&file, PLENTY).unwrap());
    let verdict = judge(&all, &small, &here).unwrap();
    let refused: usize = verdict.refused.values().sum();
    assert!(verdict.failures.is_empty(), "{:?}", verdict.failures);
    assert!(refused > 10 && verdict.passed > 1000, "{verdict}");
    assert!(
        verdict.to_string().contains(&format!("{refused} not for this board (memory: {refused})")),
        "{verdict}"
    );

    let mut list: Vec<_> =
        verdict.refused.keys().map(|(op, limit)| format!("{op} {limit}  # as here")).collect();
    let compare = |lines: &[String]| Expectations::parse(&lines.join("\n")).unwrap().compare(&verdict);
    assert_eq!(compare(&list), Vec::<String>::new());
    let last = list.pop().unwrap();
    assert_eq!(compare(&list).len(), 1);
    list.extend([last, "Size memory".into()]);
    assert_eq!(compare(&list), ["`Size memory` is out of date: the board refuses nothing by it"]);
    for bad in ["Size", "Size memory memory", "Size memory\nSize memory"] {
        assert!(Expectations::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_device_without_a_kernel_says_so() {
    let all = cases();
    let file = vectors(&all);
    let here = results(&file, PLENTY).unwrap();
    let kernel = |s: &_| registry::find(s).filter(|r| r.name != "softmax::softmax::f32").map(|r| r.kernel);
    let ops: Vec<_> = op::ALL.iter().copied().filter(|o| o.name != "Gather").collect();
    let poor = run_here(&file, PLENTY, Device { ops: &ops, kernel: &kernel }).unwrap();
    let verdict = judge(&all, &poor, &here).unwrap();
    let refused: Vec<_> = verdict.refused.keys().collect();
    assert_eq!(refused, [&("Gather", "kernel"), &("Softmax", "kernel")]);
    assert!(verdict.failures.is_empty() && verdict.cases_refused > 20, "{verdict}");
}

#[test]
fn wrong_results_are_failures() {
    let all = cases();
    let after = |(at, _): (usize, Outcome)| at + size_of::<Outcome>();
    // An integer that is off by one; a float that is off by its last bit, well within the tolerance of the case; a fault
    // where there is none.
    for (op, dtype, message) in [("QMatMul", DType::I8, "element"), ("Softmax", DType::F32, "other bits")] {
        let cases = first(&all, op, dtype);
        let here = results(&vectors(&cases), PLENTY).unwrap();
        for run in outcomes(&here) {
            let mut wrong = here.clone();
            wrong[after(run)] ^= 1;
            let verdict = judge(&cases, &wrong, &here).unwrap();
            assert!(verdict.failures.len() == 1 && verdict.failures[0].contains(message), "{verdict:?}");
            let mut wrong = here.clone();
            wrong[run.0] = Status::Fault as u8;
            assert!(judge(&cases, &wrong, &here).unwrap().failures[0].contains("fault"));
        }
    }
    // A device that refuses what would fit, and one that refuses for no known reason.
    let cases = first(&all, "Relu", DType::F32);
    let file = vectors(&cases);
    let here = results(&file, PLENTY).unwrap();
    let small = results(&file, 0).unwrap();
    assert_eq!(judge(&cases, &small, &here).unwrap().passed, 0);
    let mut boastful = small.clone();
    // The memory that it says it has.
    boastful[18] = 1;
    assert!(judge(&cases, &boastful, &here).unwrap().failures[0].contains("refused"));
    let mut unknown = small.clone();
    unknown[size_of::<Results>()] = 200;
    assert!(judge(&cases, &unknown, &here).unwrap().failures[0].contains("unknown status"));
    // Files that are no results of these cases.
    for bad in [&here[..here.len() - 1], &here[..30], &here[..5], &[&here[..], &[0]].concat(), &file] {
        judge(&cases, bad, &here).unwrap_err();
    }
}

/// Attributes, shapes and types that the op does not accept never reach the kernel.
#[test]
fn impossible_steps_are_refused() {
    let all = cases();
    let status = |case: Case| {
        let results = results(&vectors(&[case]), PLENTY).unwrap();
        Status::from_code(outcomes(&results)[0].1.status).unwrap()
    };
    let good = first(&all, "MatMul", DType::F32).remove(0);
    assert_eq!(status(good.clone()), Status::Done);
    let mut case = good.clone();
    case.attrs[0] = 77;
    assert_eq!(status(case), Status::Attributes);
    let mut case = good.clone();
    case.attrs.pop();
    assert_eq!(status(case), Status::Attributes);
    let mut case = good.clone();
    case.outputs[0].dims.push(1);
    assert_eq!(status(case), Status::Shape);
    let mut case = good.clone();
    case.outputs[0].dtype = DType::I32;
    assert_eq!(status(case), Status::Operands);
    let mut case = good.clone();
    case.inputs[1] = None;
    assert_eq!(status(case), Status::Operands);
    let mut case = good.clone();
    case.in_place = vec![(0, 0)];
    let results = results(&vectors(&[case]), PLENTY).unwrap();
    assert_eq!(outcomes(&results).last().unwrap().1.status, Status::Operands as u32);
}

/// Damaged vectors end in an error or in outcomes, whatever they say.
#[test]
fn damaged_vectors_never_panic() {
    let some: Vec<_> =
        cases().into_iter().filter(|c| vectors(std::slice::from_ref(c)).len() < 1500).step_by(9).collect();
    let mut random = oorandom::Rand64::new(7);
    let (mut whole, mut broken) = (0, 0);
    for case in some.iter().cycle().take(20_000) {
        let mut file = vectors(std::slice::from_ref(case));
        for _ in 0..random.rand_range(1..4) {
            let at = random.rand_range(0..file.len() as u64) as usize;
            file[at] = [0, 1, 2, 8, 16, 127, 255, file[at] ^ 1][random.rand_range(0..8) as usize];
        }
        if random.rand_range(0..8) == 0 {
            file.truncate(random.rand_range(0..file.len() as u64) as usize);
        }
        match results(&file, 4096) {
            Ok(_) => whole += 1,
            Err(_) => broken += 1,
        }
    }
    println!("{whole} streams to the end, {broken} not");
    assert!(whole > 1000 && broken > 1000, "{whole} {broken}");
}
