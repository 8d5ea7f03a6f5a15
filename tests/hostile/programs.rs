//! The hand-made blobs verify, run, and give the numbers of a computation in 64 bits.

use crate::harness::base::{self, numbers};
use crate::harness::run::{Aligned, Outcome, Run, check_default, run};
use serinette_core::schedule::record::Plan;

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
        assert!(want.iter().any(|y| *y == 0.0) || batch == 1, "the numbers should make relu act");
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
