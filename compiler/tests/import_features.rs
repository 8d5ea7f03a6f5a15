//! Shape arithmetic, model-local functions, tensors in files beside the model.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::onnx::*;
use common::{Array, Session};
use prost::Message;
use serinette_compiler::onnx::proto::*;
use serinette_compiler::onnx::{EntryFile, ImportOptions, import, import_entries};
use serinette_compiler::{CompileOptions, Error, compile};

fn model(graph: GraphProto, functions: Vec<FunctionProto>) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, functions, ..Default::default() }
        .encode_to_vec()
}

fn session(file: Vec<u8>) -> Session {
    let graph = import(file, &ImportOptions::default()).unwrap();
    Session::new(&compile(graph, &CompileOptions::default()).unwrap().bytes)
}

/// A node of one input and no attributes becomes the op of its name.
#[test]
fn functions_of_one_tensor_are_imported() {
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 1] = [("Sigmoid", |x| 1.0 / (1.0 + (-x).exp()))];
    for (op, f) in functions {
        let mut s = session(model(
            GraphProto {
                node: vec![node(op, &["x"], &["y"], vec![])],
                input: vec![info("x", 1, &["n", "7"])],
                output: vec![info("y", 1, &["n", "7"])],
                ..Default::default()
            },
            vec![],
        ));
        assert_eq!(s.ops(), [op]);
        let x: Vec<f32> = (0..21).map(|i| i as f32 * 0.61 - 5.3).collect();
        let y = s.run("main", &[("x", Array::new(&[3, 7], &x))]).outputs["y"].clone();
        assert_eq!(y.dims, [3, 7]);
        for (x, y) in x.iter().zip(y.f32()) {
            let want = f(f64::from(*x));
            assert!((f64::from(y) - want).abs() <= want.abs() * 1e-6, "{op} of {x}: {y}, not {want}");
        }
    }
}

/// `[n, 2, m]` to `[n, m, 2]` by way of `Shape`, `Gather`, `Mul`, `Concat`, and on to `[n · m, 2]`, `[2, −1]`.
#[test]
fn shapes_follow_from_shapes() {
    let nodes = vec![
        node("Shape", &["x"], &["shape"], vec![]),
        node("Gather", &["shape", "zero"], &["n"], vec![]),
        node("Gather", &["shape", "last"], &["m"], vec![]),
        node("Mul", &["n", "m"], &["nm"], vec![]),
        node("Unsqueeze", &["nm", "axis"], &["nm1"], vec![]),
        node("Concat", &["nm1", "two"], &["flat_shape"], vec![int("axis", 0)]),
        node("Reshape", &["x", "flat_shape"], &["flat"], vec![]),
        node("Slice", &["shape", "one", "three"], &["tail"], vec![]),
        node("Concat", &["open", "tail"], &["back_shape"], vec![int("axis", 0)]),
        node("Reshape", &["flat", "back_shape"], &["y"], vec![]),
        node("Add", &["nm", "zero"], &["count"], vec![]),
    ];
    let initializer = vec![
        i64s("zero", &[], &[0]),
        i64s("last", &[], &[-1]),
        i64s("axis", &[1], &[0]),
        i64s("one", &[1], &[1]),
        i64s("two", &[1], &[2]),
        i64s("three", &[1], &[3]),
        i64s("open", &[1], &[-1]),
    ];
    let input = vec![info("x", 1, &["n", "2", "m"])];
    let output = vec![info("y", 1, &["n", "2", "m"]), info("flat", 1, &["k", "2"]), info("count", 7, &[])];
    let mut s =
        session(model(GraphProto { node: nodes, initializer, input, output, ..Default::default() }, vec![]));
    for (n, m) in [(1, 3), (4, 5), (2, 1)] {
        let x: Vec<f32> = (0..n * 2 * m).map(|i| i as f32 * 0.75 - 2.0).collect();
        let run = s.run("main", &[("x", Array::new(&[n, 2, m], &x))]);
        assert_eq!((&run.outputs["y"].dims, run.outputs["y"].f32()), (&vec![n, 2, m], x.clone()));
        assert_eq!((&run.outputs["flat"].dims, run.outputs["flat"].f32()), (&vec![n * m, 2], x));
        let count: i64 = bytemuck::pod_read_unaligned(&run.outputs["count"].bytes);
        assert_eq!(count, (n * m) as i64);
    }
}

/// `scaled(x, w; axis) = softmax(x · w; axis)`, called from a function that calls it twice.
#[test]
fn functions_are_expanded() {
    let text = |s: &str| s.to_owned();
    let opset = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let inner = FunctionProto {
        name: text("scaled"),
        domain: text("mine"),
        input: vec![text("a"), text("b")],
        output: vec![text("r")],
        attribute: vec![text("axis")],
        node: vec![
            node("Mul", &["a", "b"], &["t"], vec![]),
            node(
                "Softmax",
                &["t"],
                &["r"],
                vec![AttributeProto { ref_attr_name: text("axis"), ..int("axis", 0) }],
            ),
        ],
        opset_import: opset.clone(),
        ..Default::default()
    };
    let call = |inputs: &[&str], output: &str, axis: i64| NodeProto {
        domain: text("mine"),
        ..node("scaled", inputs, &[output], vec![int("axis", axis)])
    };
    let outer = FunctionProto {
        name: text("twice"),
        domain: text("mine"),
        input: vec![text("x"), text("w")],
        output: vec![text("y")],
        node: vec![call(&["x", "w"], "t", 1), call(&["t", "w"], "y", 0)],
        opset_import: opset,
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![NodeProto { domain: text("mine"), ..node("twice", &["t", "w"], &["y"], vec![]) }],
        initializer: vec![f32s("w", &[1, 3], &[0.5, -1.0, 2.0])],
        input: vec![info("t", 1, &["2", "3"])],
        output: vec![info("y", 1, &["2", "3"])],
        ..Default::default()
    };
    let file = model(graph.clone(), vec![inner.clone(), outer.clone()]);
    let x = [0.25f32, 1.5, -0.75, 2.0, 0.0, 1.0];
    let got = session(file).run("main", &[("t", Array::new(&[2, 3], &x))]).outputs["y"].f32();
    let w = [0.5f64, -1.0, 2.0];
    let e: Vec<f64> = x.iter().enumerate().map(|(i, x)| (f64::from(*x) * w[i % 3]).exp()).collect();
    let rows: Vec<f64> = (0..6).map(|i| e[i] / e[i / 3 * 3..][..3].iter().sum::<f64>()).collect();
    let f: Vec<f64> = rows.iter().enumerate().map(|(i, x)| (x * w[i % 3]).exp()).collect();
    for i in 0..6 {
        let want = f[i] / (f[i % 3] + f[i % 3 + 3]);
        assert!((f64::from(got[i]) - want).abs() < 1e-6, "{got:?}");
    }
    // A function that calls itself is refused.
    let mut again = inner;
    again.node.push(call(&["a", "b"], "u", 0));
    let error = import(model(graph, vec![again, outer]), &ImportOptions::default()).err().unwrap();
    assert!(matches!(error, Error::Count { .. }), "{error}");
}

#[test]
fn tensors_lie_in_files_beside_the_model() {
    let folder = std::env::temp_dir().join(format!("serinette-external-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("data")).unwrap();
    let numbers: Vec<f32> = (0..10).map(|i| i as f32 * 1.5 - 3.0).collect();
    std::fs::write(folder.join("data/weights.bin"), bytemuck::cast_slice::<f32, u8>(&numbers)).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let file = |location: &str, offset: &str, length: &str| {
        let w = TensorProto {
            name: "w".into(),
            dims: vec![4],
            data_type: 1,
            data_location: 1,
            external_data: vec![
                entry("location", location),
                entry("offset", offset),
                entry("length", length),
            ],
            ..Default::default()
        };
        let graph = GraphProto {
            node: vec![node("Add", &["x", "w"], &["y"], vec![])],
            initializer: vec![w],
            input: vec![info("x", 1, &["4"])],
            output: vec![info("y", 1, &["4"])],
            ..Default::default()
        };
        EntryFile::new("main", model(graph, vec![]))
    };
    let read = |f: EntryFile| import_entries(&[f], &ImportOptions::default());
    let graph = read(file("data/weights.bin", "8", "16").in_folder(&folder)).unwrap();
    let mut s = Session::new(&compile(graph, &CompileOptions::default()).unwrap().bytes);
    let got = s.run("main", &[("x", Array::new(&[4], &[1f32, 2.0, 3.0, 4.0]))]).outputs["y"].f32();
    assert_eq!(got, [1.0, 3.5, 6.0, 8.5]);
    for (location, offset, length, wanted) in [
        ("data/none.bin", "0", "16", "none.bin"),
        ("../weights.bin", "0", "16", "below the folder"),
        ("/etc/hostname", "0", "16", "below the folder"),
        ("", "0", "16", "below the folder"),
        ("data/weights.bin", "32", "16", "at 32, 16 bytes"),
        ("data/weights.bin", "0", "18446744073709551615", "in"),
        ("data/weights.bin", "-4", "16", "\"-4\""),
        ("data/weights.bin", "0", "12", "bytes of data"),
    ] {
        let error = read(file(location, offset, length).in_folder(&folder)).err().unwrap().to_string();
        assert!(error.contains(wanted), "{location} {offset} {length}: {error}");
    }
    let error = read(file("data/weights.bin", "8", "16")).err().unwrap().to_string();
    assert!(error.contains("not read from a folder"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
