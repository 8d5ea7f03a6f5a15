//! Random programs, and programs with a few bytes changed.

use crate::builder::Builder;
use crate::simulate::*;
use serinette_core::schedule::{Limits, record::*};
use serinette_core::{DType, NONE, op};

pub struct Random(u64);

impl Random {
    /// A number below `n` (splitmix64).
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    pub fn size(&mut self) -> u64 {
        [1, 3, 17, 64, 100, 257, 1000, 4096][self.below(8)] + self.below(5) as u64
    }
}

/// Steps into `scope`, the values that can be read here; the first `outer` of them belong to regions around.
/// Shapes mostly do not fit the ops: that is no business of a memory plan.
pub fn random_steps(b: &mut Builder, r: &mut Random, scope: &mut Vec<u32>, depth: usize, states: &[u32]) {
    let outer = scope.len();
    for _ in 0..1 + r.below(if depth == 0 { 25 } else { 8 }) {
        let x = scope[r.below(scope.len())];
        match r.below(12) {
            0..4 => {
                let (z, n) = (scope[r.below(scope.len())], r.size());
                let y = b.temp(n);
                b.add(x, z, y);
                scope.push(y);
            }
            4 | 5 if scope.len() > outer => {
                // In place over a value of this very region; nothing can read that any more.
                let at = outer + r.below(scope.len() - outer);
                let (x, n) = (scope.swap_remove(at), r.size());
                if b.blob.values[x as usize].view == view::NONE {
                    let y = b.temp(n);
                    b.relu(x, y, true);
                    scope.push(y);
                }
            }
            6 => {
                let sizes: Vec<u64> = (0..1 + r.below(5)).map(|_| r.size()).collect();
                let (whole, parts) = b.parts(&sizes);
                for p in parts {
                    let x = scope[r.below(scope.len())];
                    b.copy(x, p);
                }
                scope.push(whole);
            }
            7 => {
                let y = b.conv(1 + r.below(9) as u64);
                scope.push(y);
            }
            8 if !states.is_empty() => {
                let s = states[r.below(states.len())];
                let (y, n) = (b.window(s, r.below(100) as u64, 20), r.size());
                b.copy(x, y);
                let z = b.temp(n);
                b.add(s, x, z);
                scope.push(z);
            }
            9 | 10 if depth < 4 => {
                let c = b.condition(x);
                let results: Vec<u32> = (0..r.below(3)).map(|_| b.temp(r.size())).collect();
                b.begin_if(c, &results);
                for arm in 0..2 {
                    let mut inner = scope.clone();
                    random_steps(b, r, &mut inner, depth + 1, states);
                    for y in &results {
                        let x = inner[r.below(inner.len())];
                        b.copy(x, *y);
                    }
                    if arm == 0 {
                        b.begin_else();
                    }
                }
                b.end();
                scope.extend(results);
            }
            11 if depth < 4 => {
                let carried: Vec<(u32, u32)> = (0..r.below(3))
                    .map(|_| {
                        let n = r.size();
                        (b.temp(n), b.temp(n))
                    })
                    .collect();
                for (before, _) in &carried {
                    b.copy(x, *before);
                }
                let mut inner = scope.clone();
                inner.extend(carried.iter().map(|c| c.0));
                b.begin_loop(1 + r.below(9) as u64, &carried);
                random_steps(b, r, &mut inner, depth + 1, states);
                // Values made in the body; the carried ones are overwritten one by one.
                let made = inner.split_off(scope.len() + carried.len());
                for (before, after) in &carried {
                    match made.len() {
                        0 => b.relu(*before, *after, true),
                        n => b.copy(made[r.below(n)], *after),
                    };
                }
                b.end();
                scope.extend(carried.iter().map(|c| c.0));
            }
            _ => {
                let y = b.temp(r.size());
                b.relu(x, y, false);
                scope.push(y);
            }
        }
    }
}

#[test]
fn random_programs_verify_and_read_what_they_wrote() {
    let (mut ratios, mut worst, mut exact) = (0.0, 1.0f64, 0);
    let rounds = 150;
    for seed in 0..rounds {
        let mut r = Random(seed);
        let mut b = Builder::default();
        let states: Vec<u32> = (0..r.below(3)).map(|_| b.value(role::STATE, &[150])).collect();
        for name in &["main", "other"][..1 + r.below(2)] {
            let inputs: Vec<u32> = (0..1 + r.below(3)).map(|_| b.value(role::INPUT, &[r.size()])).collect();
            if r.below(4) == 0 {
                b.blob.values[inputs[0] as usize].flags = value_flag::KEEP;
            }
            let mut scope = inputs.clone();
            random_steps(&mut b, &mut r, &mut scope, 0, &states);
            let outputs: Vec<u32> = (0..1 + r.below(2)).map(|_| scope[r.below(scope.len())]).collect();
            b.entry(name, &inputs, &outputs);
        }
        for p in check(b, seed) {
            let ratio = p.peak as f64 / p.lower_bound as f64;
            ratios += ratio / (2 * rounds) as f64;
            worst = worst.max(ratio);
            exact += u32::from(p.peak == p.lower_bound);
        }
    }
    println!("peak / lower bound: mean {ratios:.5}, worst {worst:.4}, {exact} of {} exact", 2 * rounds);
    assert!(ratios < 1.002 && worst < 1.02, "mean {ratios:.5}, worst {worst:.4}");
}

/// Programs with a few bytes changed: an error or a plan, never a panic, and never a wrong claim.
#[test]
fn damaged_programs_never_panic() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut r = Random(seed ^ 0xdead);
        let mut b = Builder::default();
        let states = [b.value(role::STATE, &[150])];
        let x = b.value(role::INPUT, &[r.size()]);
        let mut scope = vec![x];
        random_steps(&mut b, &mut r, &mut scope, 1, &states);
        b.entry("main", &[x], &[*scope.last().unwrap()]);
        let blob = &mut b.blob;
        for _ in 0..1 + r.below(3) {
            let word = [0, 1, 2, 7, NONE, NONE - 1, r.below(60) as u32, r.below(1 << 32) as u32][r.below(8)];
            let (v, s) = (r.below(blob.values.len()), r.below(blob.steps.len()));
            let operand = r.below(blob.operands.len());
            match r.below(16) {
                0 => blob.values[v].root = word,
                1 => blob.values[v].view = word as u8,
                2 => blob.values[v].dims = word,
                3 => blob.values[v].rank = word as u8,
                4 => blob.values[v].role = word as u8,
                5 => blob.values[v].part = word as u16,
                6 => blob.steps[s].link = word,
                7 => blob.steps[s].kind = word as u8,
                8 => blob.steps[s].operands = word,
                9 => blob.steps[s].in_place[r.below(4)] = word as u8,
                10 => blob.steps[s].inputs = word as u8,
                11 => blob.steps[s].outputs = word as u8,
                12 => blob.operands[operand] = word,
                13 => blob.entries[0].steps = word,
                14 => blob.entries[0].operands = word,
                _ => blob.exprs[0].b = u64::from(word) << 20,
            }
        }
        let result = planned(blob, &Options { effort: 10_000, ..Options::DESKTOP });
        refused += u32::from(result.is_err());
    }
    assert!((500..3000).contains(&refused), "{refused}");
}
