//! `diff`.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "common/onnx.rs"]
mod onnx;

use common::{Folder, Said, f32s, model, say};
use onnx::{Data, Node, Port};
use serde_json::Value;

/// The document of `--json`, whatever the exit code.
fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap()
}

/// The rows of a part.
fn rows<'d>(document: &'d Value, name: &str) -> &'d [Value] {
    let part = document["parts"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap();
    part["rows"].as_array().unwrap()
}

/// The parts that differ.
fn differ(document: &Value) -> Vec<&str> {
    let parts = document["parts"].as_array().unwrap().iter();
    parts.filter(|p| !p["rows"].as_array().unwrap().is_empty()).map(|p| p["name"].as_str().unwrap()).collect()
}

#[test]
fn the_same_model() {
    let folder = Folder::new();
    let (onnx, blob) = (model("fashion/fashion.onnx"), folder.path("a.srn"));
    say(&format!("compile {onnx} -o {blob}"));
    for other in [&blob, &onnx] {
        let said = say(&format!("diff {blob} {other}"));
        assert_eq!((said.code, said.out.as_str()), (0, "every byte is the same\n"), "{}", said.err);
    }
    let all = say(&format!("diff {blob} {onnx} --json")).json();
    assert!(all["same"] == true && all["identical"] == true && differ(&all).is_empty());
    // Flags are for the ONNX file; two blobs take none.
    let said = say(&format!("diff {blob} {onnx} --bound batch=4 --json"));
    assert_eq!(said.code, 1);
    let all = document(&said);
    assert_eq!(differ(&all), ["file", "sizes", "memory", "cost"]);
    let size = &rows(&all, "sizes")[0];
    assert_eq!(
        (&size["key"], &size["a"], &size["b"]),
        (&"batch".into(), &"1 to 64".into(), &"1 to 4".into())
    );
    say(&format!("diff {blob} {blob} --bound batch=4")).fails(2, &["--bound"]);
}

#[test]
fn names_alone_mean_nothing() {
    let folder = Folder::new();
    let path = folder.path("renamed.onnx");
    let mut file = std::fs::read(model("fashion/fashion.onnx")).unwrap();
    let places: Vec<usize> = (0..file.len()).filter(|i| file[*i..].starts_with(b"pw3.weight")).collect();
    assert!(places.len() >= 2);
    places.iter().for_each(|at| file[*at] = b'q');
    std::fs::write(&path, file).unwrap();
    let onnx = model("fashion/fashion.onnx");
    let said = say(&format!("diff {onnx} {path}"));
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("pw3.weight → qw3.weight") && said.out.contains("the same in meaning"),
        "{}",
        said.out
    );
    let all = say(&format!("diff {onnx} {path} --json")).json();
    assert!(all["same"] == true && all["identical"] == false);
    assert_eq!(differ(&all), ["file", "metadata", "names"]);
}

#[test]
fn weights() {
    let folder = Folder::new();
    let (a, b) = (folder.path("a.srn"), folder.path("b.srn"));
    say(&format!("compile {} -o {a}", model("fashion/fashion.onnx")));
    let mut bytes = std::fs::read(&a).unwrap();
    // The weights lie at the end of the file; this is the sign of a number.
    let last = bytes.len() - 1;
    bytes[last] ^= 0x80;
    std::fs::write(&b, bytes).unwrap();
    let said = say(&format!("diff {a} {b}"));
    said.fails(1, &["a.srn", "b.srn differ in weights"]);
    assert!(
        said.out.contains("1 of 10 elements differ, by at most") && said.out.contains("(element 9: "),
        "{}",
        said.out
    );
    assert_eq!(differ(&document(&say(&format!("diff {a} {b} --json")))), ["weights"]);
}

#[test]
fn another_model() {
    let (a, b) = (model("fashion/fashion.onnx"), model("fashion/fashion_int8.onnx"));
    let said = say(&format!("diff {a} {b} --json"));
    said.fails(1, &["differ in ops, steps, weights, memory, cost"]);
    let all = document(&said);
    assert!(rows(&all, "entries").is_empty() && rows(&all, "inputs and outputs").is_empty());
    let conv = rows(&all, "ops").iter().find(|r| r["key"] == "Conv2d f32 f32 f32 → f32").unwrap();
    assert!(conv["a"] == 9 && conv["b"].is_null());
    let pool = rows(&all, "steps").iter().find(|r| r["key"] == "main step 1" && !r["b"].is_null()).unwrap();
    assert!(pool["note"].as_str().unwrap().contains("operands' types or sizes"), "{pool}");
    let text = say(&format!("diff {a} {b}"));
    assert!(
        text.out.contains("more; --full shows them") && !text.out.contains("fc.bias_q: "),
        "{}",
        text.out
    );
    let full = say(&format!("diff {a} {b} --full"));
    assert!(!full.out.contains("--full") && full.out.len() > text.out.len());
    // And the other way round: what is gone is there.
    let back = document(&say(&format!("diff {b} {a} --json")));
    for part in ["ops", "steps", "weights"] {
        assert_eq!(rows(&back, part).len(), rows(&all, part).len(), "{part}");
    }
}

#[test]
fn operands_of_equal_steps() {
    let folder = Folder::new();
    let write = |name: &str, first: [&str; 2], second: [&str; 2], w: [f32; 3]| {
        let nodes = [
            Node("Sin", "s", &["x"], &["a"], vec![]),
            Node("Mul", "m", &["x", "w"], &["b"], vec![]),
            Node("Sub", "d", &first, &["c"], vec![]),
            Node("Sub", "e", &second, &["y"], vec![]),
        ];
        let (x, y) = ([Port("x", 1, &[3])], [Port("y", 1, &[3])]);
        let path = folder.path(name);
        let graph = onnx::graph(&nodes, &x, &y, &[Data(Port("w", 1, &[3]), f32s(&w))]);
        std::fs::write(&path, onnx::model(&graph)).unwrap();
        path
    };
    let w = [1.0, 2.0, 3.0];
    let a = write("a.onnx", ["a", "b"], ["c", "x"], w);
    let swapped = write("b.onnx", ["b", "a"], ["c", "x"], w);
    let said = say(&format!("diff {a} {swapped} --json"));
    let all = document(&said);
    assert_eq!(differ(&all), ["file", "metadata", "steps"], "{}", said.out);
    let [row] = rows(&all, "steps") else { panic!("{all}") };
    assert_eq!(row["note"], "operand 0 is step 0 (s), then step 1 (m)");
    let other = write("c.onnx", ["a", "b"], ["c", "x"], [1.0, 2.5, f32::NAN]);
    let said = say(&format!("diff {a} {other}"));
    assert!(said.out.contains("2 of 3 elements differ, by at most inf (element 2: 3 → NaN)"), "{}", said.out);
    let input = write("d.onnx", ["a", "b"], ["x", "c"], w);
    let all = document(&say(&format!("diff {a} {input} --json")));
    assert_eq!(rows(&all, "steps")[0]["note"], "operand 0 is step 2 (d), then input x");
}

#[test]
fn files_that_are_no_models() {
    let folder = Folder::new();
    let (onnx, blob) = (model("fashion/fashion.onnx"), folder.path("a.srn"));
    say(&format!("compile {onnx} -o {blob}"));
    let bytes = std::fs::read(&blob).unwrap();
    for (name, length) in [("half.srn", bytes.len() / 2), ("head.srn", 100), ("none.srn", 0)] {
        let path = folder.path(name);
        std::fs::write(&path, &bytes[..length]).unwrap();
        say(&format!("diff {blob} {path}")).fails(1, &[name]);
        say(&format!("diff {path} {onnx}")).fails(1, &[name]);
    }
    say(&format!("diff {blob} {}", folder.path("missing.onnx"))).fails(1, &["missing.onnx"]);
    say(&format!("diff {blob}")).fails(2, &["<SECOND>"]);
}
