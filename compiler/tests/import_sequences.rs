//! Ops over sequences: n-grams, spectra, attention by a state, steps of optimisers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::onnx::*;
use common::{Array, Session, near, random};
use serinette_compiler::onnx::proto::*;
use serinette_compiler::onnx::{ImportOptions, import};
use serinette_compiler::{CompileOptions, Error, Graph, compile};

fn read(graph: GraphProto) -> Result<Graph, Error> {
    let domain = graph.node.first().map_or(String::new(), |n| n.domain.clone());
    let version = if domain.is_empty() { 27 } else { 1 };
    import(file(graph, &domain, version), &ImportOptions::default())
}

fn session(g: GraphProto) -> Session {
    Session::new(&compile(read(g).unwrap(), &CompileOptions::default()).unwrap().bytes)
}

#[test]
fn ngrams_are_counted_and_weighted() {
    // Items 2 and 5, and the pairs (2, 5), (5, 5); columns out of order, one of them empty.
    let (pool, indexes, weights) = ([2i64, 5, 2, 5, 5, 5], [4i64, 0, 1, 2], [0.5f32, 2.0, 3.0, -1.5]);
    let case = |mode: &str, extra: Vec<AttributeProto>| {
        let mut attributes = vec![
            text("mode", mode),
            int("min_gram_length", 1),
            int("max_gram_length", 2),
            int("max_skip_count", 1),
            ints("pool_int64s", &pool),
            ints("ngram_counts", &[0, 2]),
            ints("ngram_indexes", &indexes),
            floats("weights", &weights),
        ];
        attributes.extend(extra);
        let n = node("TfIdfVectorizer", &["x"], &["y"], attributes);
        graph(vec![n], vec![], vec![info("x", 6, &["n", "6"])], vec![info("y", 1, &["n", "5"])])
    };
    let rows = [[2i32, 5, 5, 2, 7, 5], [5, 5, 5, 5, 5, 2]];
    for mode in ["TF", "IDF", "TFIDF"] {
        let mut want = vec![0f32; 10];
        for (r, row) in rows.iter().enumerate() {
            for (g, gram) in [&pool[0..1], &pool[1..2], &pool[2..4], &pool[4..6]].into_iter().enumerate() {
                let skips = if gram.len() == 1 { 1 } else { 2 };
                let at = |start: usize, apart: usize| {
                    gram.iter()
                        .enumerate()
                        .all(|(j, v)| row.get(start + j * apart).is_some_and(|found| i64::from(*found) == *v))
                };
                let count = (1..=skips).flat_map(|apart| (0..6).map(move |start| (start, apart)));
                let count = count.filter(|(start, apart)| at(*start, *apart)).count() as f64;
                let weight = f64::from(weights[g]);
                want[r * 5 + indexes[g] as usize] = match mode {
                    "TF" => count,
                    "IDF" => count.min(1.0) * weight,
                    _ => count * weight,
                } as f32;
            }
        }
        let x = Array::new(&[2, 6], rows.as_flattened());
        near(&session(case(mode, vec![])).run("main", &[("x", x)]).outputs["y"].f32(), &want, 1e-6, mode);
    }
    let strings = AttributeProto { name: "pool_strings".into(), kind: 8, ..Default::default() };
    assert!(reason(read(case("TF", vec![strings]))).contains("strings"));
    assert!(wrong(read(case("often", vec![]))).contains("often"));
}

#[test]
fn a_transform_and_its_inverse_are_the_signal() {
    // Half of the spectrum of 7 real points, and back, along the first axis.
    let n = 7;
    let nodes = vec![
        node("DFT", &["x", "", "axis"], &["s"], vec![int("onesided", 1)]),
        node("DFT", &["s", "length", "axis"], &["y"], vec![int("onesided", 1), int("inverse", 1)]),
    ];
    let constants = vec![tensor("axis", 7, &[], &[0i64]), tensor("length", 7, &[], &[n as i64])];
    let outputs = vec![info("s", 1, &["4", "k", "2"]), info("y", 1, &["7", "k", "1"])];
    let mut s = session(graph(nodes, constants, vec![info("x", 1, &["7", "k", "1"])], outputs));
    let x = random(11, 3 * n);
    let run = s.run("main", &[("x", Array::new(&[n, 3, 1], &x))]).outputs;
    let mut want = Vec::new();
    for bin in 0..4 {
        for k in 0..3 {
            let sum = |f: fn(f64) -> f64| -> f32 {
                let angle = |i: usize| std::f64::consts::TAU * (bin * i) as f64 / n as f64;
                (0..n).map(|i| f64::from(x[i * 3 + k]) * f(angle(i))).sum::<f64>() as f32
            };
            want.extend([sum(f64::cos), -sum(f64::sin)]);
        }
    }
    near(&run["s"].f32(), &want, 1e-5, "spectrum");
    near(&run["y"].f32(), &x, 1e-5, "signal");

    let open = node("DFT", &["x", "", "axis"], &["y"], vec![]);
    let inputs = vec![info("x", 1, &["n", "3", "1"])];
    let g = graph(vec![open], vec![tensor("axis", 7, &[], &[0i64])], inputs, vec![info("y", 1, &[])]);
    assert!(reason(read(g)).contains("open"));
}

#[test]
fn attention_by_a_state_takes_any_number_of_steps() {
    let attributes = vec![int("q_num_heads", 2), int("kv_num_heads", 1), text("update_rule", "gated_delta")];
    let n = node("LinearAttention", &["q", "k", "v", "s", "d", "b"], &["y", "s2"], attributes);
    let inputs = vec![
        info("q", 1, &["1", "t", "6"]),
        info("k", 1, &["1", "t", "3"]),
        info("v", 1, &["1", "t", "2"]),
        info("s", 1, &["1", "1", "3", "2"]),
        info("d", 1, &["1", "t", "3"]),
        info("b", 1, &["1", "t", "1"]),
    ];
    let outputs = vec![info("y", 1, &["1", "t", "4"]), info("s2", 1, &["1", "1", "3", "2"])];
    let mut session = session(graph(vec![n], vec![], inputs, outputs));
    for steps in [1usize, 5] {
        let (q, k, v) = (random(1, 6 * steps), random(2, 3 * steps), random(3, 2 * steps));
        let (start, decay, rate) = (random(4, 6), random(5, 3 * steps), random(6, steps));
        let mut state: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
        let mut want = Vec::new();
        for t in 0..steps {
            for i in 0..6 {
                state[i] *= f64::from(decay[t * 3 + i / 2]).exp();
            }
            let held = |j: usize| (0..3).map(|i| f64::from(k[t * 3 + i]) * state[i * 2 + j]).sum::<f64>();
            let taken = [0, 1].map(|j| f64::from(rate[t]) * (f64::from(v[t * 2 + j]) - held(j)));
            for i in 0..6 {
                state[i] += f64::from(k[t * 3 + i / 2]) * taken[i % 2];
            }
            for (head, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let q = |i: usize| f64::from(q[t * 6 + head * 3 + i]);
                want.push(((0..3).map(|i| q(i) * state[i * 2 + j]).sum::<f64>() / 3f64.sqrt()) as f32);
            }
        }
        let run = session.run(
            "main",
            &[
                ("q", Array::new(&[1, steps, 6], &q)),
                ("k", Array::new(&[1, steps, 3], &k)),
                ("v", Array::new(&[1, steps, 2], &v)),
                ("s", Array::new(&[1, 1, 3, 2], &start)),
                ("d", Array::new(&[1, steps, 3], &decay)),
                ("b", Array::new(&[1, steps, 1], &rate)),
            ],
        );
        near(&run.outputs["y"].f32(), &want, 1e-5, "answers");
        let state: Vec<f32> = state.iter().map(|x| *x as f32).collect();
        near(&run.outputs["s2"].f32(), &state, 1e-5, "state");
    }
}

/// The domain of the optimisers is enough: the file names no version of the standard ops.
#[test]
fn files_of_another_domain_need_no_standard_ops() {
    let momentum = |domain: &str| {
        let attributes = vec![float("alpha", 0.9), float("beta", 0.5), float("norm_coefficient", 0.01)];
        let mut n = node("Momentum", &["r", "t", "x", "g", "v"], &["x2", "v2"], attributes);
        n.domain = domain.into();
        let inputs = vec![
            info("r", 1, &[]),
            info("t", 7, &[]),
            info("x", 1, &["3"]),
            info("g", 1, &["3"]),
            info("v", 1, &["3"]),
        ];
        graph(vec![n], vec![], inputs, vec![info("x2", 1, &["3"]), info("v2", 1, &["3"])])
    };
    assert!(reason(read(momentum("org.example"))).contains("not known"));
    let mut s = session(momentum("ai.onnx.preview.training"));
    let (x, g, v) = (random(1, 3), random(2, 3), random(3, 3));
    for count in [0i64, 4] {
        let run = s.run(
            "main",
            &[
                ("r", Array::new(&[], &[0.1f32])),
                ("t", Array::new(&[], &[count])),
                ("x", Array::new(&[3], &x)),
                ("g", Array::new(&[3], &g)),
                ("v", Array::new(&[3], &v)),
            ],
        );
        let share = if count > 0 { 0.5 } else { 1.0 };
        let speed: Vec<f64> = (0..3)
            .map(|i| 0.9 * f64::from(v[i]) + share * (f64::from(g[i]) + 0.01 * f64::from(x[i])))
            .collect();
        let moved: Vec<f32> = (0..3).map(|i| (f64::from(x[i]) - 0.1 * speed[i]) as f32).collect();
        near(&run.outputs["x2"].f32(), &moved, 1e-6, "parameters");
        near(&run.outputs["v2"].f32(), &speed.iter().map(|v| *v as f32).collect::<Vec<_>>(), 1e-6, "speed");
    }
}
