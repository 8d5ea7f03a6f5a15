//! The oracle over random programs and mutated plans.

use crate::harness::base;
use crate::harness::choice::Seeded;
use crate::harness::oracle::{Verdict, judge};
use crate::harness::random::{Options, program};
use crate::harness::{attack, mutate, run::check_default};
use serinette_compiler::blob::Blob;

const OPTIONS: Options = Options { ops: 14, live: 6, wave: 4, regions: true, depth: 3 };

#[test]
fn hand_made_blobs_agree_with_private_memory() {
    for blob in [base::chain(), base::everything().0] {
        let v = judge(&blob);
        assert!(v.accepted && v.compared >= 3, "{v:?}");
    }
}

#[test]
fn random_programs_are_accepted() {
    for seed in 0..400 {
        let blob = program(&mut Seeded(seed), OPTIONS);
        if let Err(e) = check_default(&blob.to_bytes()) {
            panic!("a valid program is refused, seed {seed}: {e}");
        }
        let v = judge(&blob);
        assert!(v.accepted && v.compared > 0, "seed {seed}: {v:?}");
    }
}

fn hunt(seeds: std::ops::Range<u64>, each: u64, mutation: fn(&mut Blob, &mut Seeded)) -> (usize, Verdict) {
    let (mut accepted, mut total) = (0, Verdict::default());
    for seed in seeds {
        let base = match seed % 8 {
            0 => base::everything().0,
            1 => base::chain(),
            _ => program(&mut Seeded(seed), Options { regions: seed % 2 == 0, ..OPTIONS }),
        };
        for round in 0..each {
            let mut blob = base.clone();
            mutation(&mut blob, &mut Seeded(seed << 20 | round));
            let v = judge(&blob);
            accepted += usize::from(v.accepted);
            total.compared += v.compared;
        }
    }
    (accepted, total)
}

#[test]
fn accepted_plans_compute_the_same() {
    let (accepted, v) = hunt(0..100, 100, mutate::plan);
    assert!(accepted > 1000, "too few mutated plans are accepted to mean anything: {accepted} {v:?}");
}

#[test]
fn accepted_records_run() {
    let (accepted, v) = hunt(1000..1100, 100, mutate::records);
    assert!(accepted > 500, "too few mutated blobs are accepted to mean anything: {accepted} {v:?}");
}

#[test]
fn attacks_on_regions_fail() {
    let (mut accepted, mut refused) = (0, 0);
    let options = Options { ops: 8, live: 5, wave: 2, regions: true, depth: 2 };
    for seed in 0..250 {
        let base = program(&mut Seeded(seed), options);
        for round in 0..40 {
            let mut blob = base.clone();
            attack::regions(&mut blob, &mut Seeded(seed << 20 | round));
            if judge(&blob).accepted { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused");
}
