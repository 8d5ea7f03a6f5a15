//! Random numbers of the importer: their distribution, new ones in every run, the same ones in every session.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::onnx::*;
use common::{Array, Session, near, random};
use serinette_compiler::onnx::proto::*;
use serinette_compiler::onnx::{ImportOptions, import};
use serinette_compiler::{CompileOptions, Error, Graph, compile};

fn read(
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
    input: Vec<ValueInfoProto>,
    output: Vec<ValueInfoProto>,
) -> Result<Graph, Error> {
    import(file(graph(node, initializer, input, output), "", 21), &ImportOptions::default())
}

fn session(g: Result<Graph, Error>) -> Session {
    Session::new(&compile(g.unwrap(), &CompileOptions::default()).unwrap().bytes)
}

/// Mean and standard deviation.
fn moments(v: &[f32]) -> (f64, f64) {
    let n = v.len() as f64;
    let mean = v.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = v.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[test]
fn numbers_follow_their_distribution_and_are_new_in_every_run() {
    let shape = AttributeProto { name: "shape".into(), ints: vec![64, 128], kind: 7, ..Default::default() };
    let make = || {
        let uniform = vec![shape.clone(), float("low", -1.0), float("high", 3.0)];
        session(read(
            vec![
                node("RandomUniform", &[], &["u"], uniform),
                node("RandomNormalLike", &["x"], &["n"], vec![float("mean", 2.0), float("scale", 0.5)]),
                node("RandomNormalLike", &["x"], &["other"], vec![]),
            ],
            vec![],
            vec![info("x", 1, &["8192"])],
            vec![info("u", 1, &["64", "128"]), info("n", 1, &["8192"]), info("other", 1, &["8192"])],
        ))
    };
    let x = Array::new(&[8192], &random(1, 8192));
    let (mut first, mut second) = (make(), make());
    let one = first.run("main", &[("x", x.clone())]).outputs;
    let two = first.run("main", &[("x", x.clone())]).outputs;
    assert_eq!(one, second.run("main", &[("x", x)]).outputs);
    for (name, mean, deviation) in [("u", 1.0, 4.0 / 12f64.sqrt()), ("n", 2.0, 0.5), ("other", 0.0, 1.0)] {
        assert_ne!(one[name].bytes, two[name].bytes);
        for run in [&one, &two] {
            let (m, d) = moments(&run[name].f32());
            assert!((m - mean).abs() < 0.06 && (d - deviation).abs() < 0.04, "{name}: {m}, {d}");
        }
    }
    assert!(one["u"].f32().iter().all(|v| (-1.0..=3.0).contains(v)));
    // Nodes differ.
    let standard: Vec<f32> = one["n"].f32().iter().map(|v| (v - 2.0) * 2.0).collect();
    assert!(standard.iter().zip(one["other"].f32()).any(|(a, b)| (a - b).abs() > 0.1));
}

#[test]
fn dropout_in_training_keeps_the_expectation() {
    let tensors = vec![
        TensorProto { name: "ratio".into(), data_type: 1, float_data: vec![0.25], ..Default::default() },
        TensorProto { name: "training".into(), data_type: 9, int32_data: vec![1], ..Default::default() },
    ];
    let dropout = node("Dropout", &["x", "ratio", "training"], &["y", "mask"], vec![]);
    let outputs = vec![info("y", 1, &["4096"]), info("mask", 9, &["4096"])];
    let mut s = session(read(vec![dropout], tensors, vec![info("x", 1, &["4096"])], outputs));
    let x = random(3, 4096);
    let run = s.run("main", &[("x", Array::new(&[4096], &x))]).outputs;
    let mask = &run["mask"].bytes;
    let kept = mask.iter().filter(|b| **b != 0).count() as f64 / 4096.0;
    assert!((kept - 0.75).abs() < 0.03, "{kept}");
    let want: Vec<f32> = x
        .iter()
        .zip(mask)
        .map(|(x, keep)| if *keep != 0 { (f64::from(*x) / 0.75) as f32 } else { 0.0 })
        .collect();
    near(&run["y"].f32(), &want, 1e-6, "dropout");
}

#[test]
fn draws_follow_the_probabilities() {
    let draw = node("Multinomial", &["x"], &["y"], vec![int("sample_size", 4096), int("dtype", 7)]);
    let toss = node("Bernoulli", &["p"], &["b"], vec![int("dtype", 6), float("seed", 1.5)]);
    let inputs = vec![info("x", 1, &["1", "3"]), info("p", 1, &["4096"])];
    let outputs = vec![info("y", 7, &["1", "4096"]), info("b", 6, &["4096"])];
    let mut s = session(read(vec![draw, toss], vec![], inputs, outputs));
    let weights = [0.2f64, 0.5, 0.3];
    let p: Vec<f32> = (0..4096).map(|i| i as f32 / 4096.0).collect();
    let run = s
        .run(
            "main",
            &[("x", Array::new(&[1, 3], &weights.map(|w| w.ln() as f32))), ("p", Array::new(&[4096], &p))],
        )
        .outputs;
    let drawn: Vec<i64> =
        run["y"].bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    for (class, weight) in weights.iter().enumerate() {
        let part = drawn.iter().filter(|c| **c == class as i64).count() as f64 / 4096.0;
        assert!((part - weight).abs() < 0.03, "{class}: {part}");
    }
    let heads = run["b"].i32();
    let (low, high) = heads.split_at(2048);
    let part = |v: &[i32]| f64::from(v.iter().sum::<i32>()) / 2048.0;
    assert!((part(low) - 0.25).abs() < 0.04 && (part(high) - 0.75).abs() < 0.04);
}

#[test]
fn loops_draw_no_random_numbers() {
    let inner = GraphProto {
        node: vec![
            node("RandomNormalLike", &["s"], &["s2"], vec![]),
            node("Identity", &["c"], &["c2"], vec![]),
        ],
        input: vec![info("i", 7, &[]), info("c", 9, &[]), info("s", 1, &["3"])],
        output: vec![info("c2", 9, &[]), info("s2", 1, &["3"])],
        ..Default::default()
    };
    let four = TensorProto { name: "four".into(), data_type: 7, int64_data: vec![4], ..Default::default() };
    let repeat = node("Loop", &["four", "", "x"], &["y"], vec![body("body", inner)]);
    match read(vec![repeat], vec![four], vec![info("x", 1, &["3"])], vec![info("y", 1, &["3"])]) {
        Err(Error::Unsupported(list)) => assert!(list[0].reason.contains("subgraph"), "{list:?}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}
