//! The memory planner against the verifier and against a simulation of memory that knows nothing of either.
#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod builder;
mod random;
mod simulate;

use builder::Builder;
use serinette_core::plan::*;
use serinette_core::schedule::{Error, Limits, Reason, record::*, verify};
use serinette_core::{DType, NONE, op};
use simulate::*;

#[test]
fn a_chain_needs_two_tensors_and_in_place_one() {
    for (in_place, bytes) in [(false, 2 * 448), (true, 448)] {
        let mut b = Builder::default();
        let n = b.symbol();
        let x = b.raw(DType::F32, role::INPUT, &[n]);
        let mut last = x;
        for _ in 0..10 {
            let y = b.raw(DType::F32, role::INTERMEDIATE, &[n]);
            b.relu(last, y, in_place);
            last = y;
        }
        b.entry("main", &[x], &[last]);
        // 100 elements of 4 bytes, rounded up to 64 and to 8.
        let [desktop, mcu] = check(b, 0);
        assert_eq!((desktop.peak, desktop.lower_bound), (bytes, bytes));
        assert_eq!(mcu.peak, if in_place { 400 } else { 800 });
        assert_eq!(mcu.slots, if in_place { 1 } else { 11 });
    }
}

#[test]
fn independent_steps_share_a_wave_until_the_first_hazard() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let (a, c, d, e) = (b.temp(10), b.temp(11), b.temp(12), b.temp(13));
    b.copy(x, a);
    b.copy(x, c); // another reader of `x`, another target
    b.add(a, c, d); // reads what the wave wrote
    b.copy(x, e);
    let f = b.temp(10);
    b.relu(x, f, true); // overwrites what the wave reads
    let (whole, parts) = b.parts(&[3, 4, 5]);
    for (p, v) in parts.iter().zip([a, c, d]) {
        b.copy(v, *p); // different parts of one tensor
    }
    let y = b.temp(12);
    b.add(whole, f, y);
    b.entry("main", &[x], &[y, e]);
    planned(&mut b.blob, &Options::DESKTOP).unwrap();
    planned(&mut b.blob, &Options::MCU).unwrap();
    assert_eq!(waves(&b.blob, 0), [(0, 2), (2, 2), (4, 4), (8, 1)]);
    assert_eq!(waves(&b.blob, 1), (0..9).map(|s| (s, 1)).collect::<Vec<_>>());
    verified(&b.blob).unwrap();
}

#[test]
fn parts_of_different_cuts_are_a_hazard() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let (whole, one) = b.parts(&[5, 5]);
    let other = b.cut(whole, &[3, 7]);
    let (t, y, z) = (b.temp(5), b.temp(7), b.temp(5));
    b.copy(x, one[1]);
    b.copy(one[1], t);
    b.copy(x, one[0]); // another part of the same cut: no hazard
    b.copy(other[1], y); // reads some of what was just written, under another number
    b.copy(one[0], z);
    b.entry("main", &[x], &[t, y, z]);
    planned(&mut b.blob, &Options::DESKTOP).unwrap();
    assert_eq!(waves(&b.blob, 0), [(0, 1), (1, 2), (3, 2)]);
    check(b, 0);
}

#[test]
fn scratch_is_live_in_its_wave_only() {
    let mut b = Builder::default();
    let y = b.conv(16);
    b.entry("main", &[], &[y]);
    let [_, mcu] = check(b, 0);
    // The input (1 · 16 · 8 · 8), the filter (16 · 9), the output (36) and 36 columns of 144 words.
    let words = 1024 + 144 + 36 + 36 * 144;
    assert_eq!(mcu.lower_bound, words * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn what_a_loop_reads_lives_through_the_loop() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[100]);
    let (before, after) = (b.temp(50), b.temp(50));
    b.copy(x, before);
    b.begin_loop(7, &[(before, after)]);
    let (u, v) = (b.temp(70), b.temp(90));
    b.add(before, x, u);
    b.relu(u, v, false);
    let w = b.temp(60);
    b.relu(v, w, false);
    b.copy(w, after);
    b.end();
    let y = b.temp(10);
    b.copy(before, y);
    b.entry("main", &[x], &[y]);
    let [_, mcu] = check(b, 0);
    // In the body: `x`, the carried pair, and two of the three temporaries of 70, 90 and 60 words.
    assert_eq!(mcu.lower_bound, (100 + 50 + 70 + 90) * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn arms_reuse_memory_and_results_outlive_them() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let c = b.condition(x);
    let result = b.temp(20);
    b.begin_if(c, &[result]);
    let u = b.temp(400);
    b.copy(x, u);
    b.copy(u, result);
    b.begin_else();
    let v = b.temp(300);
    b.copy(x, v);
    b.copy(v, result);
    b.end();
    b.entry("main", &[x], &[result]);
    let [_, mcu] = check(b, 0);
    assert_eq!(mcu.lower_bound, 40 + 8 + 80 + 1600);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn entries_share_work_memory_and_persistent_values_have_their_own() {
    let mut b = Builder::default();
    let (state, param) = (b.value(role::STATE, &[33]), b.value(role::PARAM, &[7]));
    let state2 = b.value(role::STATE, &[1]);
    let mut ends = vec![];
    for (i, name) in ["one", "two"].into_iter().enumerate() {
        let x = b.value(role::INPUT, &[1000 + i as u64]);
        let unused = b.value(role::INPUT, &[5]);
        let y = b.temp(500);
        let (low, high) = (b.window(state, 0, 16), b.window(state, 16, 17));
        b.add(x, param, y);
        b.copy(y, low);
        b.copy(y, high);
        b.copy(x, state2);
        b.entry(name, &[x, unused], &[y, state]);
        ends.push(x);
    }
    let [_, mcu] = check(b, 0);
    assert_eq!(mcu.lower_bound, (1001 + 1 + 5 + 1 + 500) * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
    assert_eq!(mcu.arenas, 3);
}

#[test]
fn an_entry_without_steps_and_unused_values_are_planned() {
    let mut b = Builder::default();
    let (x, z) = (b.value(role::INPUT, &[3]), b.value(role::INPUT, &[5]));
    b.temp(1000);
    b.entry("main", &[x, z], &[z]);
    let p = planned(&mut b.blob, &Options::MCU).unwrap();
    assert_eq!((p.waves, p.slots, p.lower_bound, p.max_live), (0, 3, 16 + 24, 2));
    verified(&b.blob).unwrap();
}

#[test]
fn broken_programs_are_refused() {
    let refuse = |what: &str, reason: Reason, change: &dyn Fn(&mut Builder, u32, u32, u32)| {
        let mut b = Builder::default();
        let x = b.value(role::INPUT, &[10]);
        let (y, z) = (b.temp(10), b.temp(10));
        change(&mut b, x, y, z);
        if b.blob.entries.is_empty() {
            b.entry("main", &[x], &[z]);
        }
        let found = planned(&mut b.blob, &Options::DESKTOP).expect_err(what).reason;
        assert_eq!(found, reason, "{what}");
    };
    refuse("output never written", Reason::Unwritten, &|b, x, y, _| {
        b.copy(x, y);
    });
    refuse("read before the write", Reason::Unwritten, &|b, _, y, z| {
        b.copy(y, z);
    });
    refuse("two entries", Reason::Role, &|b, x, y, z| {
        b.copy(x, y);
        b.entry("one", &[x], &[y]);
        b.copy(y, z);
        b.entry("two", &[], &[z]);
    });
    refuse("in place over a state", Reason::InPlace, &|b, _, _, z| {
        let s = b.value(role::STATE, &[10]);
        b.relu(s, z, true);
    });
    refuse("in place over a kept input", Reason::InPlace, &|b, x, _, z| {
        b.blob.values[x as usize].flags = value_flag::KEEP;
        b.relu(x, z, true);
    });
    refuse("two inputs in one slot", Reason::DefinedTwice, &|b, x, _, z| {
        let x2 = b.value(role::INPUT, &[10]);
        b.relu(x, z, true);
        b.relu(x2, z, true);
        b.entry("main", &[x, x2], &[z]);
    });
    refuse("a region left open", Reason::Region, &|b, x, _, z| {
        let c = b.condition(x);
        b.begin_if(c, &[]);
        b.copy(x, z);
    });
    refuse("an end without a region", Reason::Region, &|b, x, _, z| {
        b.copy(x, z);
        b.step(step_kind::END, &[], &[]);
    });
    refuse("too many regions", Reason::Depth, &|b, _, _, _| {
        (0..9).for_each(|_| b.begin_loop(1, &[]));
        (0..9).for_each(|_| b.end());
    });
    refuse("operands out of the table", Reason::Id, &|b, x, _, z| {
        let s = b.copy(x, z);
        b.blob.steps[s as usize].operands = 1000;
    });
    refuse("a value id out of the table", Reason::Id, &|b, x, _, z| {
        b.copy(x, z);
        b.blob.operands[0] = 77;
    });
    refuse("sizes that overflow", Reason::Overflow, &|b, x, _, z| {
        let y = b.value(role::INTERMEDIATE, &[1 << 40, 1 << 40]);
        b.copy(x, y);
        b.copy(y, z);
    });
    refuse("a sum that overflows", Reason::Overflow, &|b, x, _, z| {
        for _ in 0..3 {
            let y = b.temp(1 << 60);
            b.copy(x, y);
        }
        b.copy(x, z);
    });
    refuse("steps in no entry", Reason::EntryRange, &|b, x, y, z| {
        b.copy(x, z);
        b.entry("main", &[x], &[z]);
        b.copy(x, y);
    });
    refuse("a view of a view", Reason::Root, &|b, x, _, z| {
        let w = b.window(x, 0, 5);
        let v = b.window(w, 0, 2);
        b.copy(v, z);
    });
}
