//! Blobs and runs that a single change of a hand-made blob does not give.

use super::load;
use crate::harness::base::{self, Ids};
use crate::harness::build::Build;
use crate::harness::run::{Aligned, Outcome, Run, kernels, run};
use serinette_compiler::blob::Blob;
use serinette_core::op::{self, unary};
use serinette_core::schedule::record::*;
use serinette_core::schedule::{Error, Executor, Limits, Live, Memory, Program, bind, verify};
use serinette_core::{DType, NONE};

/// Nested empty conditionals.
pub fn nested(depth: usize) -> Blob {
    let mut b = Build::default();
    let condition = b.data(DType::Bool, role::CONSTANT, &[1], &[1]);
    let opens: Vec<u32> = (0..depth).map(|_| b.edge(step_kind::IF, &[condition], &[])).collect();
    for open in opens.iter().rev() {
        let end = b.edge(step_kind::END, &[], &[]);
        b.close(&[*open, end]);
    }
    b.entry("main", entry_kind::CALL, &[], &[]);
    b.blob
}

/// A loop of empty trips around nothing.
pub fn idle(trips: u64) -> Blob {
    let mut b = Build::default();
    let open = b.edge(step_kind::LOOP, &[NONE, NONE], &[]);
    let end = b.edge(step_kind::END, &[], &[]);
    b.close(&[open, end]);
    let trips = b.constant(trips);
    b.set_loop(open, trips, None);
    b.entry("main", entry_kind::CALL, &[], &[]);
    let mut d = crate::harness::draft::Draft::default();
    d.wave(1, &[], &[]);
    d.wave(1, &[], &[]);
    d.plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob
}

/// A loop whose counter is the size that input 0 gives; the loop, too, is number 0.
pub fn counted_by_a_size() -> Blob {
    let mut b = Build::default();
    let (n, size) = b.symbol("n", 0, 9);
    let input = b.value(DType::I32, role::INPUT, &[]);
    let open = b.edge(step_kind::LOOP, &[NONE, NONE], &[]);
    let end = b.edge(step_kind::END, &[], &[]);
    b.close(&[open, end]);
    b.set_loop(open, size, Some(n));
    assert_eq!((input, open), (0, 0));
    b.entry("main", entry_kind::CALL, &[input], &[]);
    b.blob
}

/// The reshaped view of the parts' root.
pub fn reshaped(b: &Blob, i: &Ids) -> usize {
    b.values.iter().position(|v| v.view == view::RESHAPE && v.root == i.c).unwrap()
}

/// A root of eight elements that is cut twice, `3 + 5` and `5 + 3`, and written by the first part of one cut and
/// the second part of the other: elements 3 and 4 are never written (or, the other way round, written twice).
pub fn two_cuts(first: usize, second: usize, one_wave: bool, whole_before: bool) -> Blob {
    let mut b = Build::default();
    let (zero, three, five, eight) = (b.constant(0), b.constant(3), b.constant(5), b.constant(8));
    let x = [b.value(DType::F32, role::INPUT, &[three]), b.value(DType::F32, role::INPUT, &[five])];
    let all = b.value(DType::F32, role::INPUT, &[eight]);
    let c = b.value(DType::F32, role::INTERMEDIATE, &[eight]);
    let mut cut = |start: u32, n: u32, part: u16| {
        b.view(c, view::PART, &[n], |v| (v.start, v.part, v.parts) = (start, part, 2))
    };
    let parts = [[cut(zero, three, 0), cut(three, five, 1)], [cut(zero, five, 0), cut(five, three, 1)]];
    let sources = [[x[0], x[1]], [x[1], x[0]]];
    let y = b.value(DType::F32, role::INTERMEDIATE, &[eight]);
    let mut d = crate::harness::draft::Draft::default();
    let none = [0u8; 0];
    if whole_before {
        b.op(&unary::RELU, &none, &[all], &[c], [0; 4]);
        d.wave(1, &[c], &[]);
    }
    b.op(&unary::RELU, &none, &[sources[first][0]], &[parts[first][0]], [0; 4]);
    b.op(&unary::RELU, &none, &[sources[second][1]], &[parts[second][1]], [0; 4]);
    let defs: &[u32] = if whole_before { &[] } else { &[c] };
    if one_wave {
        d.wave(2, defs, &[]);
    } else {
        d.wave(1, defs, &[]);
        d.wave(1, &[], &[]);
    }
    b.op(&unary::RELU, &none, &[c], &[y], [0; 4]);
    d.wave(1, &[y], &[]);
    b.entry("main", entry_kind::CALL, &[x[0], x[1], all], &[y]);
    d.plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob.max_live = 6;
    b.blob
}

pub fn of(blob: &Blob) -> Error {
    load(Aligned::of(&blob.to_bytes()).bytes()).expect_err("accepted")
}

/// Runs a changed chain without verifying it.
pub fn run_unverified(change: fn(&mut Blob)) -> Error {
    let mut blob = base::chain();
    change(&mut blob);
    let file = Aligned::of(&blob.to_bytes());
    let r = Run { plan: 0, entry: 0, symbols: &[3], inputs: &[], poison: 0, persistent: &[] };
    match run(file.bytes(), &r) {
        Outcome::Failed(e) => e,
        other => panic!("runs: {other:?}"),
    }
}

/// Runs the chain with memory or kernels of the caller's making.
pub fn run_with(arena: usize, kernel_count: usize, misalign: usize) -> Error {
    let blob = base::chain();
    let file = Aligned::of(&blob.to_bytes());
    let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
    let mut exprs = vec![0; program.exprs.len()];
    let bindings = bind(&program, op::ALL, 0, &[2], &mut exprs).unwrap();
    let kernels = kernels(&program).unwrap();
    let mut executor = match Executor::new(bindings, &kernels[..kernel_count.min(kernels.len())], 0) {
        Ok(e) => e,
        Err(e) => return e,
    };
    let mut memory = Aligned::filled(arena, 0);
    let shifted = Aligned::of(&[vec![0; misalign], blob.weight_data[0].clone()].concat());
    let mut arenas = [memory.bytes_mut()];
    executor
        .run(&mut Memory { arenas: &mut arenas, weights: &[&shifted.bytes()[misalign..]] })
        .expect_err("runs")
}

pub fn short_room() -> Error {
    let file = Aligned::of(&base::chain().to_bytes());
    let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
    verify(&program, op::ALL, &Limits::default(), &mut [Live::default(); 8], &mut []).unwrap_err()
}

pub fn misaligned() -> Error {
    let file = [vec![0], base::chain().to_bytes()].concat();
    let file = Aligned::of(&file);
    load(&file.bytes()[1..]).unwrap_err()
}
