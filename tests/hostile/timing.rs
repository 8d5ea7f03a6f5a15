//! How long verification takes. Times are printed (`cargo test --release timing -- --nocapture`), not compared:
//! machines differ. What is compared is which blobs are refused.

use crate::harness::run::{Aligned, check_default};
use crate::synthetic as s;
use serinette_compiler::blob::Blob;
use serinette_core::op;
use serinette_core::schedule::{Limits, Live, Program, Reason, bind, verify};
use std::time::Instant;

/// Microseconds of the fastest of several verifications, and of several bindings.
fn fastest(blob: &Blob) -> (f64, f64, usize) {
    let file = Aligned::of(&blob.to_bytes());
    let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
    let mut live = vec![Live::default(); program.header.max_live as usize];
    let mut exprs = vec![0; program.exprs.len()];
    let symbols = vec![3; program.symbols.len()];
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..if program.steps.len() < 5000 { 100 } else { 20 } {
        let start = Instant::now();
        verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs).unwrap();
        best.0 = best.0.min(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        bind(&program, op::ALL, 0, &symbols, &mut exprs).unwrap();
        best.1 = best.1.min(start.elapsed().as_secs_f64() * 1e6);
    }
    (best.0, best.1, program.steps.len())
}

#[test]
fn timing_of_large_programs() {
    for (steps, wave) in [(1_000, 1), (3_000, 1), (10_000, 1), (10_000, 8)] {
        let (verify, bind, n) = fastest(&s::large(steps, wave));
        let each = |t: f64| t / n as f64;
        println!(
            "{n} steps, waves of {wave}: verify {verify:.0} us ({:.3} us a step), bind {bind:.0} us ({:.3} us a step)",
            each(verify),
            each(bind)
        );
    }
}

/// Shapes that could make the time grow faster than the file.
#[test]
fn timing_of_hostile_shapes() {
    type Case = (&'static str, fn(u32) -> Blob, [u32; 2], Option<Reason>);
    let cases: [Case; 6] = [
        ("slots in descending order", s::descending, [10_000, 20_000], None),
        ("long names", s::long_names, [10_000, 20_000], None),
        ("guards", s::guards, [32_768, 65_536], None),
        ("long attributes", s::long_attributes, [5_000, 10_000], Some(Reason::Bounded)),
        ("shared lists", s::shared_lists, [5_000, 10_000], Some(Reason::PlanOverlap)),
        ("deep lists", s::deep_lists, [5_000, 10_000], None),
    ];
    for (name, make, sizes, want) in cases {
        let times = sizes.map(|n| {
            let file = Aligned::of(&make(n).to_bytes());
            let start = Instant::now();
            let found = check_default(file.bytes());
            assert_eq!(found.map_err(|e| e.reason).err(), want, "{name}");
            (start.elapsed().as_secs_f64() * 1e6, file.bytes().len())
        });
        let [(a, _), (b, bytes)] = times;
        println!("{name}: {a:.0} us, twice as many {b:.0} us ({bytes} bytes, {:.1} times)", b / a);
    }
    let mut blob = s::guards(1);
    blob.max_live = u32::MAX;
    assert_eq!(check_default(Aligned::of(&blob.to_bytes()).bytes()).unwrap_err().reason, Reason::MaxLive);
}
