//! The hand-made blobs verify, run, and give the numbers of a computation in 64 bits.

use crate::harness::base::{self, numbers};
use crate::harness::build::Build;
use crate::harness::draft::Draft;
use crate::harness::oracle::judge;
use crate::harness::run::{Aligned, Outcome, Run, check_default, run};
use serinette_core::DType;
use serinette_core::dtype::DTypeSet;
use serinette_core::op::{self, OpDescriptor, Operand, unary};
use serinette_core::schedule::exec::{KernelError, Operands, StepView};
use serinette_core::schedule::record::*;
use serinette_core::schedule::{Executor, Kernel, Limits, Live, Memory, Program, bind, verify};

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|f| f.to_le_bytes()).collect()
}

/// Sums of at most eight products of numbers below 4: the error of f32 is below 16 · 2^-23.
fn close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((f64::from(*g) - w).abs() <= 1e-5 * (1.0 + w.abs()), "{got:?} is not {want:?}");
    }
}

/// `a [m, k] · b [k, n]`.
fn product(a: &[f64], b: &[f64], k: usize, n: usize) -> Vec<f64> {
    let row = |r: &[f64]| (0..n).map(|j| (0..k).map(|i| r[i] * b[i * n + j]).sum()).collect::<Vec<f64>>();
    a.chunks(k).flat_map(row).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

#[test]
fn chain_computes() {
    let file = Aligned::of(&base::chain().to_bytes());
    let report = check_default(file.bytes()).unwrap();
    assert_eq!((report.steps, report.max_live), (2, 2));
    let (w, bias) = base::chain_weights();
    for batch in [1, 2, 9] {
        let x = numbers(batch * 5, 77);
        let want: Vec<f64> = product(&wide(&x), &wide(&w), 5, 3)
            .iter()
            .enumerate()
            .map(|(i, y)| (y + f64::from(bias[i % 3])).max(0.0))
            .collect();
        let symbols = [batch as u64];
        let r =
            Run { plan: 0, entry: 0, symbols: &symbols, inputs: &[bytes(&x)], poison: 0xff, persistent: &[] };
        let Outcome::Done(out) = run(file.bytes(), &r) else { panic!("does not run") };
        close(&floats(&out[0]), &want);
        assert!(want.contains(&0.0) || batch == 1, "the numbers should make relu act");
    }
}

#[test]
fn everything_computes() {
    let (blob, _) = base::everything();
    let file = Aligned::of(&blob.to_bytes());
    check_default(file.bytes()).unwrap();
    let [w, p, w2, taps] = base::everything_weights();
    let (w, p, w2, taps) = (wide(&w), wide(&p), wide(&w2), wide(&taps));
    let most = |plan: &Plan| blob.bounds[plan.bounds[0] as usize].high;
    let transposed: Vec<f64> = (0..16).map(|i| w[i % 4 * 4 + i / 4]).collect();
    let mut seen = [false; 2];
    for (plan_id, plan) in blob.plans.iter().enumerate() {
        for (n, trips, s0) in [(1, 0, 0.5f32), (2, 3, -0.25), (most(plan), 9, 1.5), (1, -7, 0.0)] {
            let s = [s0, 1.25, -3.0, 0.125];
            // The order of the values: p, s, d.
            let mut persistent =
                vec![bytes(&p.iter().map(|v| *v as f32).collect::<Vec<_>>()), bytes(&s), vec![0; 64]];
            let symbols = [n, 0];
            let prepare = Run {
                plan: plan_id as u32,
                entry: 0,
                symbols: &symbols,
                inputs: &[],
                poison: 0xaa,
                persistent: &persistent,
            };
            let Outcome::Done(out) = run(file.bytes(), &prepare) else { panic!("prepare does not run") };
            close(&floats(&out[2]), &transposed);
            persistent = out;

            let rows = n as usize;
            let x = numbers(rows * 4, 5 + trips as u32);
            let inputs = [bytes(&x), (trips as i32).to_le_bytes().to_vec()];
            let main = Run {
                plan: plan_id as u32,
                entry: 1,
                symbols: &symbols,
                inputs: &inputs,
                poison: 0xff,
                persistent: &persistent,
            };
            let Outcome::Done(out) = run(file.bytes(), &main) else { panic!("main does not run") };
            let x = wide(&x);
            let h: Vec<f64> =
                product(&x, &transposed, 4, 4).iter().enumerate().map(|(i, v)| v + p[i % 4]).collect();
            let c: Vec<f64> =
                h.iter().map(|v| v.max(0.0)).chain(x.iter().zip(&h).map(|(a, b)| a + b)).collect();
            close(&floats(&out[0]), &c);
            close(&floats(&out[1]), &product(&c, &w2, 8, 1));
            close(&floats(&out[2]), &product(&x, &taps, 4, 1));
            let trip = |i: usize| {
                if (i as i64) < trips { h.iter().map(|v| v * i as f64 + v).collect() } else { x.clone() }
            };
            let acc: Vec<f64> = (0..4).flat_map(trip).collect();
            close(&floats(&out[3]), &acc);
            let first = s0 > 0.0;
            seen[usize::from(first)] = true;
            let s = wide(&s);
            let result: Vec<f64> = s.iter().zip(&p).map(|(s, p)| if first { s + p } else { s * p }).collect();
            close(&floats(&out[4]), &result);
            let next: Vec<f64> = s.iter().zip(&result).map(|(a, b)| a + b).collect();
            close(&floats(&out[6]), &next);
        }
    }
    assert_eq!(seen, [true; 2], "both arms run");
}

/// Views without elements may begin anywhere: neither a place behind the slot nor one that another result shares
/// matters.
#[test]
fn empty_views_run() {
    let mut b = Build::default();
    let (_, n) = b.symbol("n", 0, 0);
    let (two, three, five, eight) = (b.constant(2), b.constant(3), b.constant(5), b.constant(8));
    let x = b.value(DType::F32, role::INPUT, &[n, eight, five]);
    let window = b.view(x, view::WINDOW, &[n, two, five], |v| (v.axis, v.start) = (1, three));
    let y = b.value(DType::F32, role::INTERMEDIATE, &[n, eight, five]);
    let update = b.view(y, view::WINDOW, &[n, two, five], |v| (v.axis, v.start) = (1, five));
    b.op(&unary::RELU, &[0u8; 0], &[x], &[y], [0; 4]);
    b.op(&unary::RELU, &[0u8; 0], &[window], &[update], [0; 4]);
    b.entry("main", entry_kind::CALL, &[x], &[y, update]);
    let mut d = Draft::default();
    d.wave(1, &[y], &[]);
    d.wave(1, &[], &[]);
    d.plan(&b, &[[0, 0]], 8).write(&mut b.blob, "plan");
    b.blob.max_live = 2;
    assert!(judge(&b.blob).compared > 0);
}

static SPLIT: OpDescriptor = OpDescriptor {
    code: op::CUSTOM_BASE,
    version: 1,
    name: "Split",
    path: "split",
    inputs: &[Operand::data("x", 'T', DTypeSet::ANY)],
    outputs: &[Operand::data("a", 'T', DTypeSet::ANY), Operand::data("b", 'T', DTypeSet::ANY)],
    variadic: false,
    declared_output: true,
    attr_size: 0,
    check_attrs: |_| Ok(()),
    attr_exprs: |_, _| (),
    shape_rule: |_, _, _| Ok(()),
    cost: |s| s.element_cost(1),
    scratch: |_, _| 0,
    in_place: &[],
};

fn split(_: &StepView<'_>, mut operands: Operands<'_>) -> Result<(), KernelError> {
    let x: &[f32] = operands.input(0)?;
    let (a, b) = (operands.output::<f32>(0)?, operands.output::<f32>(1)?);
    let (head, tail) = x.split_at_checked(a.len()).ok_or(KernelError::new("elements", a.len(), x.len()))?;
    a.copy_from_slice(head);
    b.copy_from_slice(tail);
    Ok(())
}

/// Two results of one step in the parts of one root, either of them empty.
#[test]
fn empty_parts_run() {
    let mut b = Build::default();
    let ((_, n), (_, m)) = (b.symbol("n", 0, 4), b.symbol("m", 0, 4));
    let sum = b.expr(expr_op::ADD, n, m.into());
    let zero = b.constant(0);
    let x = b.value(DType::F32, role::INPUT, &[sum]);
    let c = b.value(DType::F32, role::INTERMEDIATE, &[sum]);
    let c0 = b.view(c, view::PART, &[n], |v| (v.start, v.part, v.parts) = (zero, 0, 2));
    let c1 = b.view(c, view::PART, &[m], |v| (v.start, v.part, v.parts) = (n, 1, 2));
    b.op(&SPLIT, &[0u8; 0], &[x], &[c0, c1], [0; 4]);
    b.entry("main", entry_kind::CALL, &[x], &[c]);
    let mut d = Draft::default();
    d.wave(1, &[c], &[]);
    d.plan(&b, &[[0, 4], [0, 4]], 8).write(&mut b.blob, "plan");
    b.blob.max_live = 2;
    let file = Aligned::of(&b.blob.to_bytes());
    let program = Program::parse(file.bytes(), file.bytes().len() as u64).unwrap();
    let ops: &[&'static OpDescriptor] = &[&SPLIT];
    let mut exprs = vec![0; program.exprs.len()];
    verify(&program, ops, &Limits::default(), &mut [Live::default(); 2], &mut exprs).unwrap();
    for (n, m) in [(0, 3), (3, 0), (1, 2), (4, 4), (0, 0)] {
        let bindings = bind(&program, ops, 0, &[n, m], &mut exprs).unwrap();
        let mut arena = Aligned::filled(b.blob.arenas[0].bytes as usize, 0xff);
        let values = bytes(&numbers((n + m) as usize, 3));
        arena.bytes_mut()[b.blob.slots[0].offset as usize..][..values.len()].copy_from_slice(&values);
        let kernels: [Kernel; 1] = [split];
        let mut run = Executor::new(bindings, &kernels, 0).unwrap();
        run.run(&mut Memory { arenas: &mut [arena.bytes_mut()], weights: &[] }).unwrap();
        assert_eq!(&arena.bytes()[b.blob.slots[1].offset as usize..][..values.len()], values);
    }
}
