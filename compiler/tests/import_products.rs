//! Products, quantisation, loops and losses of the importer: values against 64-bit arithmetic, and reasons of refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::onnx::*;
use common::{Array, Session, near, random};
use serinette_compiler::onnx::proto::*;
use serinette_compiler::onnx::{ImportOptions, import};
use serinette_compiler::{CompileOptions, Error, Graph, compile};

fn read(graph: GraphProto) -> Result<Graph, Error> {
    import(file(graph, "", 21), &ImportOptions::default())
}

fn session(g: GraphProto) -> Session {
    Session::new(&compile(read(g).unwrap(), &CompileOptions::default()).unwrap().bytes)
}

#[test]
fn equations_agree_with_loops() {
    // Open sizes, a batch axis, two sums, and operands in an order that needs transpositions.
    let einsum = node("Einsum", &["a", "b", "c"], &["y"], vec![text("equation", "bki, kjb, j -> ijb")]);
    let inputs = vec![info("a", 1, &["n", "4", "3"]), info("b", 1, &["4", "5", "n"]), info("c", 1, &["5"])];
    let mut s = session(graph(vec![einsum], vec![], inputs, vec![info("y", 1, &["3", "5", "n"])]));
    let (a, b, c) = (random(1, 24), random(2, 40), random(3, 5));
    let run = s.run(
        "main",
        &[("a", Array::new(&[2, 4, 3], &a)), ("b", Array::new(&[4, 5, 2], &b)), ("c", Array::new(&[5], &c))],
    );
    let want: Vec<f32> = (0..30)
        .map(|at| {
            let (i, j, n) = (at / 10, at / 2 % 5, at % 2);
            let term = |k: usize| f64::from(a[(n * 4 + k) * 3 + i]) * f64::from(b[(k * 5 + j) * 2 + n]);
            ((0..4).map(term).sum::<f64>() * f64::from(c[j])) as f32
        })
        .collect();
    near(&run.outputs["y"].f32(), &want, 1e-6, "einsum");
}

#[test]
fn equations_that_mean_nothing_are_errors() {
    let case = |equation: &str| {
        let n = node("Einsum", &["a", "b"], &["y"], vec![text("equation", equation)]);
        let inputs = vec![info("a", 1, &["2", "3"]), info("b", 1, &["3", "3"])];
        graph(vec![n], vec![], inputs, vec![info("y", 1, &[])])
    };
    for equation in
        ["", "ij->i", "ij,jk,kl->il", "ijk,jk->i", "i,jk->ij", "ij,jk->iz", "ij,jk->ii", "i1,1k->ik"]
    {
        assert!(!wrong(read(case(equation))).is_empty(), "{equation}");
    }
    // Sizes that do not match, and a diagonal of no square.
    for equation in ["ij,ik->jk", "ii,jk->jk"] {
        assert!(!wrong(read(case(equation))).is_empty(), "{equation}");
    }
    assert!(read(case("ij,jj->i")).is_ok() && read(case("i...,j...->ij")).is_ok());
}

/// Between two u8 tensors a product is computed on the integers, as between two of i8.
#[test]
fn graphs_of_u8_are_integer_inside() {
    let (x_scale, w_scale, y_scale) = (0.02f32, 0.01f32, 0.05f32);
    let (x_zero, y_zero) = (128u8, 100u8);
    let weights: Vec<u8> = (0..24u8).map(|i| i.wrapping_mul(37)).collect();
    let scalar = |name: &str, v: f32| tensor(name, 1, &[], &[v]);
    let zero = |name: &str, v: u8| tensor(name, 2, &[], &[v]);
    let initializers = vec![
        scalar("xs", x_scale),
        zero("xz", x_zero),
        scalar("ws", w_scale),
        zero("wz", 128),
        scalar("ys", y_scale),
        zero("yz", y_zero),
        tensor("w", 2, &[6, 4], &weights),
    ];
    let nodes = vec![
        node("QuantizeLinear", &["x", "xs", "xz"], &["q"], vec![]),
        node("DequantizeLinear", &["q", "xs", "xz"], &["d"], vec![]),
        node("DequantizeLinear", &["w", "ws", "wz"], &["wd"], vec![]),
        node("MatMul", &["d", "wd"], &["m"], vec![]),
        node("QuantizeLinear", &["m", "ys", "yz"], &["y"], vec![]),
    ];
    let g = graph(nodes, initializers, vec![info("x", 1, &["n", "6"])], vec![info("y", 2, &["n", "4"])]);
    let mut s = session(g);
    let ops = s.ops();
    assert!(ops.contains(&"QMatMul") && !ops.contains(&"Dequantize"), "{ops:?}");
    let x = random(7, 18);
    let found = s.run("main", &[("x", Array::new(&[3, 6], &x))]).outputs["y"].bytes.clone();
    let quantised = |v: f64, scale: f32, zero: u8| {
        ((v / f64::from(scale)).round_ties_even() + f64::from(zero)).clamp(0.0, 255.0)
    };
    for (i, found) in found.iter().enumerate() {
        let (m, n) = (i / 4, i % 4);
        let sum: f64 = (0..6)
            .map(|k| {
                let x = quantised(x[m * 6 + k].into(), x_scale, x_zero) - f64::from(x_zero);
                x * (f64::from(weights[k * 4 + n]) - 128.0)
            })
            .sum();
        let want = quantised(sum * f64::from(x_scale) * f64::from(w_scale), y_scale, y_zero);
        // A fixed-point factor instead of a float may decide a near tie otherwise.
        assert!((f64::from(*found) - want).abs() <= 1.0, "{i}: {found}, {want}");
    }
}

#[test]
fn quantisation_that_is_not_known_has_reasons() {
    let case = |zero: TensorProto, attributes: Vec<AttributeProto>| {
        let n = node("QuantizeLinear", &["x", "s", "z"], &["y"], attributes);
        let initializers = vec![tensor("s", 1, &[2, 2], &[0.1f32, 0.2, 0.3, 0.4]), zero];
        graph(vec![n], initializers, vec![info("x", 1, &["2", "6"])], vec![info("y", 0, &[])])
    };
    let bytes = || tensor("z", 2, &[2, 2], &[1u8, 2, 3, 4]);
    assert!(reason(read(case(bytes(), vec![]))).contains("block size"));
    assert!(
        reason(read(case(tensor("z", 6, &[2, 2], &[1i32, 2, 3, 4]), vec![int("block_size", 3)])))
            .contains("i32")
    );
    assert!(wrong(read(case(bytes(), vec![int("block_size", 4), int("axis", 0)]))).contains("blocks"));
    assert!(read(case(bytes(), vec![int("block_size", 3)])).is_ok());
    assert!(reason(read(case(bytes(), vec![int("block_size", 3), int("precision", 17)]))).contains("17"));
}

/// `state' = state + x[t]`, with the state after each trip as a row.
fn sum_body(rank: usize) -> GraphProto {
    let dims = vec!["2"; rank];
    graph(
        vec![
            node("Add", &["state", "element"], &["next"], vec![]),
            node("Identity", &["next"], &["row"], vec![]),
        ],
        vec![],
        vec![info("state", 1, &dims), info("element", 1, &dims)],
        vec![info("next", 1, &dims), info("row", 1, &dims)],
    )
}

#[test]
fn scans_go_both_ways_along_any_axis() {
    let x = random(5, 10);
    for (reverse_in, reverse_out, axis_out) in [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 0)] {
        let attributes = vec![
            int("num_scan_inputs", 1),
            body("body", sum_body(1)),
            ints("scan_input_axes", &[1]),
            ints("scan_input_directions", &[reverse_in]),
            ints("scan_output_axes", &[axis_out]),
            ints("scan_output_directions", &[reverse_out]),
        ];
        let n = node("Scan", &["start", "x"], &["last", "rows"], attributes);
        let inputs = vec![info("start", 1, &["2"]), info("x", 1, &["2", "t"])];
        let mut s = session(graph(
            vec![n],
            vec![],
            inputs,
            vec![info("last", 1, &["2"]), info("rows", 1, &["a", "b"])],
        ));
        let start = [0.25f32, -0.5];
        let run =
            s.run("main", &[("start", Array::new(&[2], &start)), ("x", Array::new(&[2, 5], &x))]).outputs;
        let mut rows = vec![0f32; 10];
        let mut state = start.map(f64::from);
        for trip in 0..5 {
            let (from, to) = (
                if reverse_in == 1 { 4 - trip } else { trip },
                if reverse_out == 1 { 4 - trip } else { trip },
            );
            for i in 0..2 {
                state[i] += f64::from(x[i * 5 + from]);
                rows[if axis_out == 1 { i * 5 + to } else { to * 2 + i }] = state[i] as f32;
            }
        }
        near(&run["rows"].f32(), &rows, 1e-6, "rows");
        near(&run["last"].f32(), &state.map(|v| v as f32), 1e-6, "last");
    }
}

/// `state' = 2 · state`, and `state'` as a row; goes on as long as `go`.
fn doubling(go: NodeProto) -> GraphProto {
    let nodes =
        vec![node("Add", &["s", "s"], &["s2"], vec![]), go, node("Identity", &["s2"], &["row"], vec![])];
    let inputs = vec![info("i", 7, &[]), info("c", 9, &[]), info("s", 1, &["3"])];
    graph(nodes, vec![], inputs, vec![info("c2", 9, &[]), info("s2", 1, &["3"]), info("row", 1, &["3"])])
}

#[test]
fn loops_collect_rows() {
    let keep = || node("Identity", &["c"], &["c2"], vec![]);
    let repeat = |count: &str, go: NodeProto| {
        let nodes = vec![
            node("Size", &["like"], &["known"], vec![]),
            node("Loop", &[count, "", "x"], &["last", "rows"], vec![body("body", doubling(go))]),
        ];
        let inputs = vec![info("x", 1, &["3"]), info("like", 1, &["t"]), info("data", 7, &[])];
        let outputs = vec![info("last", 1, &["3"]), info("rows", 1, &["t", "3"])];
        graph(nodes, vec![tensor("four", 7, &[], &[4i64])], inputs, outputs)
    };
    let x = random(9, 3);
    for (count, trips) in [("known", 5usize), ("four", 4)] {
        let mut s = session(repeat(count, keep()));
        let inputs = [
            ("x", Array::new(&[3], &x)),
            ("like", Array::new(&[5], &[0f32; 5])),
            ("data", Array::new(&[], &[1i64])),
        ];
        let run = s.run("main", &inputs).outputs;
        let want: Vec<f32> =
            (0..3 * trips).map(|i| (f64::from(x[i % 3]) * 2f64.powi(i as i32 / 3 + 1)) as f32).collect();
        assert_eq!(run["rows"].dims, [trips, 3]);
        near(&run["rows"].f32(), &want, 1e-6, "rows");
        near(&run["last"].f32(), &want[want.len() - 3..], 1e-6, "last");
    }
    assert!(reason(read(repeat("data", keep()))).contains("depends on data"));
    let not = node("Not", &["c"], &["c2"], vec![]);
    assert!(reason(read(repeat("four", not))).contains("condition"));
}

#[test]
fn branches_of_different_sizes_are_refused() {
    let arm = |inputs: &[&str]| {
        graph(
            vec![node("Concat", inputs, &["r"], vec![int("axis", 0)])],
            vec![],
            vec![],
            vec![info("r", 1, &[])],
        )
    };
    let case = |other: &[&str]| {
        let branches = vec![body("then_branch", arm(&["x", "x"])), body("else_branch", arm(other))];
        let inputs = vec![info("c", 9, &["1"]), info("x", 1, &["3"])];
        graph(vec![node("If", &["c"], &["y"], branches)], vec![], inputs, vec![info("y", 1, &[])])
    };
    assert!(read(case(&["x", "x"])).is_ok());
    let why = reason(read(case(&["x", "x", "x"])));
    assert!(why.contains("[6]") && why.contains("[9]"), "{why}");
}

#[test]
fn losses_that_mean_nothing_are_errors() {
    let case = |reduction: &str, target: &[&str]| {
        let n = node("SoftmaxCrossEntropyLoss", &["x", "t"], &["y"], vec![text("reduction", reduction)]);
        let inputs = vec![info("x", 1, &["n", "4"]), info("t", 7, target)];
        graph(vec![n], vec![], inputs, vec![info("y", 1, &[])])
    };
    assert!(wrong(read(case("median", &["n"]))).contains("median"));
    assert!(wrong(read(case("sum", &["n", "2"]))).contains("axes"));
    assert!(read(case("sum", &["n"])).is_ok());
}
