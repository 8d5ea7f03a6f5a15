//! The op suite, in every placement, and once more with limits that fold grids and forbid large workgroups.

use crate::harness::{Placement, STEP, run};
use serinette_core::op::binary::MUL;
use serinette_dispatch::{DeviceCaps, Shell};
use serinette_op_suite::{Case, Tensor, Tolerance, cases, check};
use std::collections::{BTreeMap, BTreeSet};

/// Ops and element types that have no kernel yet, so that their steps run on the host: `OP: TYPE …` a line. What is found must
/// be exactly this.
const HOST_ONLY: &str = include_str!("host_only.txt");

/// Under what a case stands in the list: the element types that it converts from and to, or works on.
fn key(case: &Case) -> (String, String) {
    let op = case.name.split('/').next().unwrap_or_default().to_string();
    let types = if op == "Cast" {
        case.name.split('/').nth(1).unwrap_or_default().replace(" to ", ">")
    } else {
        let first = case.inputs.iter().flatten().next().or(case.outputs.first());
        first.map_or(String::new(), |t| t.dtype.name().into())
    };
    (op, types)
}

/// The list in its form.
fn text(found: &BTreeSet<(String, String)>) -> String {
    let mut lines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (op, types) in found {
        lines.entry(op).or_default().push(types);
    }
    lines.iter().map(|(op, types)| format!("{op}: {}\n", types.join(" "))).collect()
}

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
    let (mut ran, mut failures, mut host_only) = (0, Vec::new(), BTreeSet::new());
    for case in &cases() {
        let mut placements = vec![Placement::Arena, Placement::Weights];
        placements.extend(case.in_place.iter().map(|(i, o)| Placement::InPlace(*i, *o)));
        for placement in placements {
            match one(shell, shell.caps(), case, placement) {
                Ok(true) => ran += 1,
                Ok(false) => {
                    host_only.insert(key(case));
                }
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
    let (found, listed) = (text(&host_only), HOST_ONLY);
    for (what, a, b) in [
        ("has no kernel, and is not listed", &*found, listed),
        ("is listed, but out of date", listed, &*found),
    ] {
        for line in a.lines().filter(|l| !b.lines().any(|m| m == *l)) {
            failures.push(format!("tests/kernels/host_only.txt: {what}: {line}"));
        }
    }
    println!("{}: {ran} runs, flushes subnormals: {flushes}, {} failures", shell.name(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 100, "only {ran} runs");
}
