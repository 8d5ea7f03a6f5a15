//! `run --tap`.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "common/onnx.rs"]
mod onnx;

use common::{Folder, f32s, model, npy, say};
use onnx::{Data, Node, Port};
use serde_json::Value;

const FLOAT: u64 = 1;
const INT64: u64 = 7;
const BOOL: u64 = 9;

const X: [f32; 6] = [0.5, -1.0, 2.0, 0.25, 3.0, -0.75];

fn int64s(data: &[i64]) -> Vec<u8> {
    data.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Writes a model and its input `x`; gives the start of a command line.
fn command(folder: &Folder, graph: &[u8]) -> String {
    let (file, x) = (folder.path("model.onnx"), folder.path("x.npy"));
    std::fs::write(&file, onnx::model(graph)).unwrap();
    std::fs::write(&x, npy("<f4", &[2, 3], &f32s(&X))).unwrap();
    format!("run {file} --input x={x}")
}

/// The runs of a document: of one device or of all.
fn runs(all: &Value) -> Vec<&Value> {
    all["runs"].as_array().map_or_else(|| vec![all], |r| r.iter().collect())
}

/// Asserts what a tap holds on every device.
fn holds(all: &Value, name: &str, shape: &[usize], values: impl Iterator<Item = f32>) {
    let values: Vec<f32> = values.collect();
    for run in runs(all) {
        let tap = run["taps"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap();
        assert_eq!(tap["shape"], serde_json::json!(shape), "{tap}");
        let found = tap["values"].as_array().unwrap();
        assert_eq!(found.len(), values.len());
        for (f, v) in found.iter().zip(&values) {
            assert!(
                (f.as_f64().unwrap() as f32 - v).abs() < 1e-5,
                "{} {name}: {tap}, {values:?}",
                run["device"]
            );
        }
    }
}

/// Views, parts, and an activation that goes into a sum.
fn views() -> Vec<u8> {
    let nodes = [
        Node("Sin", "n_sin", &["x"], &["sin"], vec![]),
        Node("Reshape", "n_tall", &["sin", "tall_shape"], &["tall"], vec![]),
        Node("Neg", "n_z", &["tall"], &["z"], vec![]),
        Node("Exp", "n_exp", &["x"], &["exp"], vec![]),
        Node("Abs", "n_abs", &["x"], &["abs"], vec![]),
        Node("Concat", "n_all", &["exp", "abs", "sin"], &["all"], vec![]),
        Node("Slice", "n_some", &["all", "from", "to", "axis"], &["some"], vec![]),
        Node("Add", "n_sum", &["some", "x"], &["sum"], vec![]),
        Node("Relu", "n_relu", &["sum"], &["relu"], vec![]),
        Node("Neg", "n_y", &["relu"], &["y"], vec![]),
    ];
    let number = |name, n: &[i64]| Data(Port(name, INT64, &[1]), int64s(n));
    let data = [
        Data(Port("tall_shape", INT64, &[2]), int64s(&[3, 2])),
        number("from", &[1]),
        number("to", &[3]),
        number("axis", &[0]),
    ];
    onnx::graph(
        &nodes,
        &[Port("x", FLOAT, &[2, 3])],
        &[Port("y", FLOAT, &[2, 3]), Port("z", FLOAT, &[3, 2])],
        &data,
    )
}

#[test]
fn views_and_parts() {
    let folder = Folder::new();
    let start = command(&folder, &views());
    let taps = "--tap sin --tap tall --tap all --tap some --tap relu --tap y --tap step:n_sum";
    let all = say(&format!("{start} {taps} --device all --json")).json();
    let joined: Vec<f32> =
        X.iter().map(|x| x.exp()).chain(X.iter().map(|x| x.abs())).chain(X.iter().map(|x| x.sin())).collect();
    let relu: Vec<f32> = joined[3..9].iter().zip(&X).map(|(a, b)| (a + b).max(0.0)).collect();
    holds(&all, "sin", &[2, 3], X.iter().map(|x| x.sin()));
    holds(&all, "tall", &[3, 2], X.iter().map(|x| x.sin()));
    holds(&all, "all", &[6, 3], joined.iter().copied());
    holds(&all, "some", &[2, 3], joined[3..9].iter().copied());
    holds(&all, "relu", &[2, 3], relu.iter().copied());
    holds(&all, "y", &[2, 3], relu.iter().map(|x| -x));
    // What the step of the sum gives has the activation in it.
    holds(&all, "step:n_sum", &[2, 3], relu.iter().copied());
    let text = say(&format!("{start} --tap tall --device host"));
    assert!(text.out.contains("tap  tall f32 [3, 2]"), "{}", text.out);
}

#[test]
fn names_that_no_value_has() {
    let folder = Folder::new();
    let start = command(&folder, &views());
    for (name, texts) in [
        ("sum", &["--tap sum", "after pass fuse", "Add n_sum gives something else"][..]),
        ("x", &["it is an input"]),
        ("sim", &["computes no tensor of this name", "the likest: sin,"]),
        ("n_sum", &["step:n_sum shows what the step of this name gives"]),
        ("step:n_sun", &["no step of this name", "the likest: n_sin, n_sum"]),
        ("tall_shape", &["computes no tensor"]),
    ] {
        say(&format!("{start} --tap {name}")).fails(1, texts);
    }
    // A blob does not know what it was made from, and one for microcontrollers has no names of values.
    let (file, blob, x) = (folder.path("model.onnx"), folder.path("a.srn"), folder.path("x.npy"));
    say(&format!("compile {file} -o {blob}"));
    say(&format!("run {blob} --input {x} --tap sum")).fails(1, &["no tensor of this name", "the likest: "]);
    assert_eq!(say(&format!("run {blob} --input {x} --tap relu --device host")).code, 0);
    say(&format!("compile {file} -o {blob} --profile mcu"));
    say(&format!("run {blob} --input {x} --tap relu")).fails(1, &["no tensor of this name"]);
    assert_eq!(say(&format!("run {blob} --input {x} --tap step:n_exp --device host")).code, 0);
    let fashion = model("fashion/fashion.onnx");
    say(&format!("run {fashion} --input random:1 --tap conv1.weight")).fails(1, &["it is a weight"]);
}

#[test]
fn files() {
    let folder = Folder::new();
    let start = command(&folder, &views());
    let (tall, all) = (folder.path("tall.npy"), folder.path("all.npz"));
    let said = say(&format!("{start} --device host --tap tall --output tall={tall} --output {all}"));
    assert_eq!(said.code, 0, "{}", said.err);
    let sines: Vec<f32> = X.iter().map(|x| x.sin()).collect();
    let bytes = std::fs::read(&tall).unwrap();
    assert!(bytes.windows(6).any(|w| w == b"(3, 2,") && bytes.len() == 128 + 24);
    for (b, s) in bytes[128..].chunks(4).zip(&sines) {
        assert!((f32::from_le_bytes(b.try_into().unwrap()) - s).abs() < 1e-6);
    }
    let archive = std::fs::read(&all).unwrap();
    for name in [&b"tall.npy"[..], b"y.npy", b"z.npy"] {
        assert!(archive.windows(name.len()).any(|w| w == name));
    }
    say(&format!("{start} --output tall={tall}")).fails(1, &["'tall'"]);
    // A tapped output is one array.
    let said = say(&format!("{start} --device host --tap z --output z={tall} --output {all}"));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(std::fs::read(&tall).unwrap().starts_with(b"\x93NUMPY"));
}

/// A loop of `n` trips that adds `x` to what it carries, and doubles the sum.
fn repeated() -> Vec<u8> {
    let body = onnx::graph(
        &[
            Node("Identity", "b_go", &["go_in"], &["go_out"], vec![]),
            Node("Add", "b_add", &["sum_in", "x"], &["added"], vec![]),
            Node("Exp", "b_exp", &["added"], &["inside"], vec![]),
            Node("Add", "b_out", &["inside", "added"], &["sum_out"], vec![]),
        ],
        &[Port("trip", INT64, &[]), Port("go_in", BOOL, &[]), Port("sum_in", FLOAT, &[2, 3])],
        &[Port("go_out", BOOL, &[]), Port("sum_out", FLOAT, &[2, 3])],
        &[],
    );
    let nodes = [
        Node("Mul", "n_first", &["x", "zero"], &["first"], vec![]),
        Node("Loop", "n_loop", &["n", "", "first"], &["total"], vec![("body", body)]),
        Node("Neg", "n_y", &["total"], &["y"], vec![]),
    ];
    let inputs = [Port("x", FLOAT, &[2, 3]), Port("n", INT64, &[])];
    onnx::graph(
        &nodes,
        &inputs,
        &[Port("y", FLOAT, &[2, 3])],
        &[Data(Port("zero", FLOAT, &[]), f32s(&[0.0]))],
    )
}

#[test]
fn of_a_loop_the_last_trip_is_shown() {
    let folder = Folder::new();
    let start = command(&folder, &repeated());
    let n = folder.path("n.npy");
    let (mut sum, mut inside) = ([0.0f32; 6], [0.0f32; 6]);
    for trips in 0..3i64 {
        std::fs::write(&n, npy("<i8", &[], &int64s(&[trips]))).unwrap();
        let all = say(&format!("{start} --input n={n} --tap total --device all --json")).json();
        holds(&all, "total", &[2, 3], sum.iter().copied());
        let line = format!("{start} --input n={n} --tap inside --tap sum_out --device all --json");
        if trips == 0 {
            say(&line).fails(1, &["--tap inside", "a loop that made no trip"]);
        } else {
            let all = say(&line).json();
            holds(&all, "inside", &[2, 3], inside.iter().copied());
            holds(&all, "sum_out", &[2, 3], sum.iter().copied());
        }
        for (i, x) in X.iter().enumerate() {
            // Small, so that a few trips stay comparable.
            inside[i] = (sum[i] + x).exp();
            sum[i] = inside[i] + sum[i] + x;
        }
        if sum.iter().any(|s| s.abs() > 50.0) {
            break;
        }
    }
}

#[test]
fn of_a_condition_one_arm_is_shown() {
    let folder = Folder::new();
    let arm = |op, inner, out| {
        let nodes = [Node(op, inner, &["x"], &[inner], vec![]), Node("Neg", out, &[inner], &[out], vec![])];
        onnx::graph(&nodes, &[], &[Port(out, FLOAT, &[2, 3])], &[])
    };
    let arms = vec![("then_branch", arm("Sin", "yes", "t")), ("else_branch", arm("Exp", "no", "e"))];
    let nodes =
        [Node("If", "n_if", &["c"], &["either"], arms), Node("Neg", "n_y", &["either"], &["y"], vec![])];
    let inputs = [Port("c", BOOL, &[]), Port("x", FLOAT, &[2, 3])];
    let start = command(&folder, &onnx::graph(&nodes, &inputs, &[Port("y", FLOAT, &[2, 3])], &[]));
    let c = folder.path("c.npy");
    for taken in [true, false] {
        std::fs::write(&c, npy("|b1", &[], &[u8::from(taken)])).unwrap();
        let (there, other) = if taken { ("yes", "no") } else { ("no", "yes") };
        let all =
            say(&format!("{start} --input c={c} --tap {there} --tap either --device all --json")).json();
        let inner = |x: &f32| if taken { x.sin() } else { x.exp() };
        holds(&all, there, &[2, 3], X.iter().map(inner));
        holds(&all, "either", &[2, 3], X.iter().map(|x| -inner(x)));
        say(&format!("{start} --input c={c} --tap {other}")).fails(1, &["arm that was not taken"]);
    }
}

#[test]
fn state_starts_as_in_the_first_run() {
    let flags = "--state state_in=state_out --param class_scale --input indices=random:1 --input random:3";
    let start = format!("run {} {flags} --json", model("joint/joint.onnx"));
    let all = say(&format!("{start} --device all --tap state_decayed --tap state_out --tap gain --tap rows"))
        .json();
    for run in runs(&all) {
        let tap = |name: &str| run["taps"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap();
        let numbers = |name: &str| -> Vec<f64> {
            tap(name)["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        // The state before the run is zero, however often the model ran for its times.
        assert!(numbers("state_decayed").iter().all(|v| *v == 0.0));
        assert!(numbers("state_out").iter().any(|v| *v != 0.0));
        // What is prepared once can be looked at, and so can outputs.
        assert!(!numbers("gain").is_empty());
        let rows = run["outputs"].as_array().unwrap().iter().find(|o| o["name"] == "rows").unwrap();
        assert_eq!(tap("rows"), rows);
    }
    say(&format!("{start} --tap state_in")).fails(1, &["it is state"]);
    say(&format!("{start} --tap class_scale")).fails(1, &["it is a param"]);
}
