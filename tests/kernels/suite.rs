//! The op suite, in every placement, and once more with limits that fold grids and forbid large workgroups.

use crate::harness::{Placement, STEP, run};
use serinette_core::op::binary::MUL;
use serinette_dispatch::{DeviceCaps, Shell};
use serinette_op_suite::{Case, Tensor, Tolerance, cases, check};
use std::collections::BTreeMap;

/// Cases that the kernels do not run, and why: prefixes of names. A prefix that no longer fails is an error.
const NO_KERNEL: &[(&str, &str)] = &[];

/// Cases whose operands or results are subnormal in single precision. Vulkan and WebGPU let a device take these as
/// zero in arithmetic; the kernels keep them everywhere else. On a device that does so each must fail.
const SUBNORMAL: &[&str] = &["Add/f32/subnormal/", "Mul/f32/subnormal/", "Mul/f32/special/pairs"];

/// The smallest normal number times one half: zero on a device that flushes.
fn flushes<S: Shell>(shell: &S) -> bool {
    let (x, y) = (Tensor::f32(&[1], &[f32::MIN_POSITIVE]), Tensor::f32(&[1], &[0.5]));
    let case = Case {
        name: "Mul/probe".into(),
        op: (MUL.code, MUL.version),
        attrs: vec![0; MUL.attr_size],
        inputs: vec![Some(x), Some(y)],
        outputs: vec![Tensor::f32(&[1], &[f32::MIN_POSITIVE / 2.0])],
        tolerance: Tolerance::Exact,
        expect_fault: false,
        exprs: Vec::new(),
        in_place: Vec::new(),
    };
    let (got, _) = run(shell, shell.caps(), &case, Placement::Arena).unwrap().unwrap();
    got[0].number(0) == Some(0.0)
}

/// Runs a case and checks it; false where there is no kernel.
pub fn one<S: Shell>(
    shell: &S,
    caps: &DeviceCaps,
    case: &Case,
    placement: Placement,
) -> Result<bool, String> {
    let Some((got, fault)) = run(shell, caps, case, placement)? else {
        return Ok(false);
    };
    check(case, &got)?;
    let want = if case.expect_fault { STEP + 1 } else { 0 };
    if fault != want {
        return Err(format!("fault word {fault}, expected {want}"));
    }
    Ok(true)
}

/// Runs every case.
pub fn suite<S: Shell>(shell: &S) {
    let flushes = flushes(shell);
    let prefix = |case: &Case| SUBNORMAL.iter().find(|p| case.name.starts_with(**p));
    let expected = |case: &Case| flushes && prefix(case).is_some();
    let mut flushed = BTreeMap::new();
    let (mut ran, mut failures, mut hits) = (0, Vec::new(), BTreeMap::new());
    for case in &cases() {
        let mut placements = vec![Placement::Arena, Placement::Weights];
        placements.extend(case.in_place.iter().map(|(i, o)| Placement::InPlace(*i, *o)));
        for placement in placements {
            match one(shell, shell.caps(), case, placement) {
                Ok(true) => ran += 1,
                Ok(false) => match NO_KERNEL.iter().find(|(p, _)| case.name.starts_with(p)) {
                    Some((p, _)) => *hits.entry(*p).or_insert(0) += 1,
                    None => failures.push(format!("{} {placement:?}: no kernel", case.name)),
                },
                Err(_) if expected(case) => *flushed.entry(prefix(case)).or_insert(0) += 1,
                Err(e) => failures.push(format!("{} {placement:?}: {e}", case.name)),
            }
        }
    }
    let small = DeviceCaps {
        max_workgroups: [3, 5, 65_535],
        max_invocations: 64,
        shared_bytes: 4096,
        ..*shell.caps()
    };
    for case in &cases() {
        match one(shell, &small, case, Placement::Arena) {
            Ok(done) => ran += u32::from(done),
            Err(_) if expected(case) => *flushed.entry(prefix(case)).or_insert(0) += 1,
            Err(e) => failures.push(format!("{} with small limits: {e}", case.name)),
        }
    }
    for p in SUBNORMAL.iter().filter(|p| flushes && !flushed.contains_key(&Some(*p))) {
        failures
            .push(format!("`{p}` is out of date: the device flushes subnormals, and nothing fails by it"));
    }
    for (p, _) in NO_KERNEL {
        if !hits.contains_key(p) {
            failures.push(format!("the expectation `{p}` is out of date: nothing fails by it"));
        }
    }
    println!("{}: {ran} runs, flushes subnormals: {flushes}, {} failures", shell.name(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 100, "only {ran} runs");
}
