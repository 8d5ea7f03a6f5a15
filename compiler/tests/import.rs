//! The importer on files that are wrong, hostile, or ask for more than it can do.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::onnx::*;
use common::{Array, Session, model};
use serinette_compiler::onnx::proto::*;
use serinette_compiler::onnx::{AxisSize, ImportOptions, import};
use serinette_compiler::{CompileOptions, Error, Graph, compile};

fn read(graph: GraphProto) -> Result<Graph, Error> {
    import(file(graph, "", 17), &ImportOptions::default())
}

fn x() -> ValueInfoProto {
    info("x", 1, &["n", "6"])
}

fn session(g: Graph) -> Session {
    Session::new(&compile(g, &CompileOptions::default()).unwrap().bytes)
}

#[test]
fn all_unsupported_nodes_are_listed_at_once() {
    let nodes = vec![
        node("Det", &["x"], &["a"], vec![]),
        node("Relu", &["a"], &["b"], vec![]),
        node("Softmax", &["x"], &["c"], vec![int("axis", 1), int("temperature", 2)]),
        node("NonMaxSuppression", &["b", "c"], &["y"], vec![]),
    ];
    let Err(Error::Unsupported(list)) = read(graph(nodes, vec![], vec![x()], vec![info("y", 1, &[])])) else {
        panic!()
    };
    let found: Vec<_> = list.iter().map(|u| (u.node.as_str(), u.op.as_str())).collect();
    assert_eq!(found, [("a_node", "Det"), ("c_node", "Softmax"), ("y_node", "NonMaxSuppression")]);
    assert!(list[1].reason.contains("temperature"));
}

#[test]
fn wrong_graphs_are_errors() {
    let relu = |from: &str, to: &str| node("Relu", &[from], &[to], vec![]);
    let y = || info("y", 1, &[]);
    let name_error = |nodes, what: &str| match read(graph(nodes, vec![], vec![x()], vec![y()])) {
        Err(Error::Name { what: found, .. }) => assert!(found.contains(what), "{found}"),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("accepted"),
    };
    name_error(vec![relu("b", "a"), relu("a", "b"), relu("b", "y")], "cycle");
    name_error(vec![relu("nowhere", "y")], "nothing defines");
    name_error(vec![relu("x", "y"), relu("x", "y")], "twice");
    name_error(vec![relu("x", "x")], "twice");
    name_error(vec![relu("x", "z")], "nothing defines");
    assert!(read(graph(vec![], vec![], vec![x()], vec![info("x", 1, &[])])).is_ok());

    // Sizes that contradict the data, are negative, or absurd.
    let bad = [i64s("k", &[3], &[1, 2]), i64s("k", &[-1], &[]), i64s("k", &[i64::MAX, i64::MAX], &[])];
    for t in bad {
        assert!(read(graph(vec![relu("x", "y")], vec![t], vec![x()], vec![y()])).is_err());
    }
    let huge = info("x", 1, &["4000000000", "4000000000"]);
    assert!(matches!(
        read(graph(vec![relu("x", "y")], vec![], vec![huge], vec![y()])),
        Err(Error::Count { .. })
    ));
    let unknown = i64s("k", &[1], &[1]);
    let unknown = TensorProto { data_type: 99, ..unknown };
    assert!(matches!(read(graph(vec![], vec![unknown], vec![x()], vec![y()])), Err(Error::Malformed { .. })));
}

#[test]
fn nesting_is_bounded() {
    let mut inner =
        graph(vec![node("Relu", &["x"], &["r0"], vec![])], vec![], vec![], vec![info("r0", 1, &[])]);
    for depth in 1..12 {
        let out = format!("r{depth}");
        // Both arms define the same names: each sees only its own scope.
        let n =
            node("If", &["c"], &[&out], vec![body("then_branch", inner.clone()), body("else_branch", inner)]);
        inner = graph(vec![n], vec![], vec![], vec![info(&out, 1, &[])]);
        if depth == 3 || depth == 11 {
            let whole = GraphProto { input: vec![x(), info("c", 9, &["1"])], ..inner.clone() };
            assert_eq!(read(whole).is_ok(), depth == 3);
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let original = model("joint/joint.onnx");
    let mut seed = 3u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..400 {
        let mut bytes = original.clone();
        if round % 4 == 0 {
            bytes.truncate(next(original.len()));
        }
        for _ in 0..=next(6) {
            if !bytes.is_empty() {
                let at = next(bytes.len());
                bytes[at] = next(256) as u8;
            }
        }
        match import(bytes, &ImportOptions::default()).map(|g| compile(g, &CompileOptions::default())) {
            Ok(Ok(_)) => accepted += 1,
            _ => refused += 1,
        }
    }
    // Most of the file is weights, where any byte is as good as another.
    assert!(accepted > 50 && refused > 50, "{accepted} accepted, {refused} refused");
}

#[test]
fn sizes_get_names_and_bounds() {
    let anonymous = info("x", 1, &["", "6"]);
    let nodes = || vec![node("Relu", &["x"], &["y"], vec![])];
    let g = read(graph(nodes(), vec![], vec![anonymous.clone()], vec![info("y", 1, &["5", "6"])])).unwrap();
    let s = &g.dims.symbols()[0];
    assert_eq!((s.name.as_str(), s.low, s.high), ("x[0]", 1, 64));
    assert!(g.notes.iter().any(|n| n.contains("x[0]")));
    let options = ImportOptions { bounds: [("x[0]".to_owned(), (21, 4))].into(), ..Default::default() };
    let bytes = file(graph(nodes(), vec![], vec![anonymous], vec![info("y", 1, &["7", "7", "7"])]), "", 17);
    let g = import(bytes.clone(), &options).unwrap();
    let s = &g.dims.symbols()[0];
    assert_eq!((s.low, s.high, s.multiple_of), (4, 20, 4));
    assert!(g.notes.iter().any(|n| n.contains("declared shape is wrong")));
    let options = ImportOptions { bounds: [("nobody".to_owned(), (1, 1))].into(), ..Default::default() };
    match import(bytes.clone(), &options) {
        Err(e @ Error::Unknown { .. }) => assert!(e.to_string().contains("x[0]"), "{e}"),
        _ => panic!("accepted"),
    }
    let shapes = [("x".to_owned(), vec![AxisSize::Number(3), AxisSize::AsDeclared])].into();
    let g = import(bytes, &ImportOptions { shapes, ..Default::default() }).unwrap();
    assert!(g.dims.symbols().is_empty());
}

#[test]
fn int64_edges_are_cast() {
    let nodes = vec![
        node("Gather", &["x", "i"], &["g"], vec![int("axis", 1)]),
        node("ArgMax", &["g"], &["top"], vec![int("axis", 1), int("keepdims", 0)]),
        node("Add", &["top", "one"], &["y"], vec![]),
    ];
    let one = i64s("one", &[1], &[1]);
    let g =
        read(graph(nodes, vec![one], vec![x(), info("i", 7, &["k"])], vec![info("y", 7, &["n"])])).unwrap();
    assert!(g.notes.iter().filter(|n| n.contains("int64")).count() >= 3);
    let mut s = session(g);
    let x = Array::new(&[2, 6], &[0f32, 1.0, 5.0, 3.0, 4.0, 2.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0]);
    let run = s.run("main", &[("x", x.clone()), ("i", Array::new(&[3], &[-1i64, 2, 0]))]);
    assert_eq!(run.fault, None);
    assert_eq!(run.outputs["y"].bytes, Array::new(&[2], &[2i64, 3]).bytes);
    // An index far out of 32 bits stays out of range.
    let run = s.run("main", &[("x", x), ("i", Array::new(&[3], &[1i64 << 32, 2, 0]))]);
    assert!(run.fault.is_some());
}

#[test]
fn gemm_forms_agree_with_plain_arithmetic() {
    let (w, c, v) = (common::random(1, 12), common::random(2, 2), common::random(3, 18));
    for (trans, row) in [(false, true), (true, true), (true, false)] {
        let dims: &[i64] = if trans { &[2, 6] } else { &[6, 2] };
        let (alpha, beta) = (float("alpha", 0.5), float("beta", 2.0));
        let n = node("Gemm", &["x", "w", "c"], &["y"], vec![alpha, beta, int("transB", i64::from(trans))]);
        let c_dims: &[i64] = if row { &[1, 2] } else { &[1] };
        let inits = vec![f32s("w", dims, &w), f32s("c", c_dims, &c[..if row { 2 } else { 1 }])];
        let mut s = session(read(graph(vec![n], inits, vec![x()], vec![info("y", 1, &["n", "2"])])).unwrap());
        let found = s.run("main", &[("x", Array::new(&[3, 6], &v))]).outputs["y"].f32();
        let want: Vec<f32> = (0..6)
            .map(|i| {
                let (m, n) = (i / 2, i % 2);
                let at = |k: usize| if trans { n * 6 + k } else { k * 2 + n };
                let sum: f64 = (0..6).map(|k| f64::from(v[m * 6 + k]) * f64::from(w[at(k)])).sum();
                (0.5 * sum + 2.0 * f64::from(c[if row { n } else { 0 }])) as f32
            })
            .collect();
        common::near(&found, &want, 1e-6, "gemm");
    }
}
