//! `compile --explain`.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Folder, model, say};
use serde_json::Value;

fn number(v: &Value) -> i64 {
    v.as_i64().unwrap()
}

fn count(v: &Value) -> i64 {
    v.as_array().unwrap().len() as i64
}

#[test]
fn numbers_add_up_from_pass_to_pass() {
    for flags in ["fashion/fashion_int8.onnx --bound batch=4", "fashion/fashion.onnx --pack none"] {
        let all = say(&format!("compile {} --explain=json", model(flags))).json();
        let mut last = all["import"].clone();
        let ops: i64 = last["ops"].as_object().unwrap().values().map(number).sum();
        assert_eq!(ops, number(&last["nodes"]));
        let passes = all["passes"].as_array().unwrap();
        assert!(passes.len() > 10);
        for p in passes {
            for key in ["nodes", "constant_bytes", "peak_bytes"] {
                assert_eq!(p["before"][key], last[key], "{p}");
            }
            let nodes = |when: &str| number(&p[when]["nodes"]);
            assert_eq!(nodes("before") - count(&p["gone"]) + count(&p["new"]), nodes("after"), "{p}");
            let ops = p["ops"].as_object().unwrap().values();
            let more: i64 = ops.map(|o| number(&o["after"]) - number(&o["before"])).sum();
            assert_eq!(nodes("before") + more, nodes("after"), "{p}");
            let lists: i64 = ["gone", "new", "altered", "moved"].iter().map(|k| count(&p[*k])).sum();
            assert!(p["changed"].as_bool().unwrap() || lists == 0, "{p}");
            last = p["after"].clone();
        }
        assert!(all["plans"][0]["arena_lower_bound_bytes"].is_u64());
    }
}

#[test]
fn what_became_of_nodes() {
    let onnx = model("fashion/fashion_int8.onnx");
    let all = say(&format!("compile {onnx} --explain=json")).json();
    let pass = |name: &str| all["passes"].as_array().unwrap().iter().find(|p| p["pass"] == name).unwrap();
    let relu = &pass("fuse")["gone"][0];
    assert_eq!(relu["op"], "Relu");
    assert_eq!((&relu["fate"], &relu["into"]["op"]), (&"into".into(), &"Conv2d".into()));
    let folded = pass("fold")["gone"].as_array().unwrap();
    assert!(folded.iter().all(|g| g["fate"] == "constant" && g["bytes"].as_u64() > Some(0)));
    assert!(pass("clean")["gone"].as_array().unwrap().iter().all(|g| g["fate"] == "dropped"));
}

#[test]
fn rows_and_nodes() {
    let folder = Folder::new();
    let onnx = model("fashion/fashion.onnx");
    let rows = say(&format!("compile {onnx} --explain"));
    assert_eq!(rows.code, 0, "{}", rows.err);
    assert!(
        rows.out.contains("Relu −9; 9 went into others") && rows.out.contains("lower bound"),
        "{}",
        rows.out
    );
    assert!(rows.out.contains("found nothing to do: ") && !rows.out.contains("→"), "{}", rows.out);
    let full = say(&format!("compile {onnx} --explain=full"));
    assert!(full.out.contains("− Relu ") && full.out.contains(" → Conv2d "), "{}", full.out);
    // It changes nothing about the blob.
    let (plain, told) = (folder.path("plain.srn"), folder.path("told.srn"));
    assert_eq!(say(&format!("compile {onnx} -o {plain}")).code, 0);
    assert!(say(&format!("compile {onnx} -o {told} --explain")).out.contains("told.srn: "));
    assert_eq!(std::fs::read(plain).unwrap(), std::fs::read(told).unwrap());
    say(&format!("compile {onnx} --explain=rowz")).fails(2, &["rowz", "rows, full, json"]);
    say(&format!("compile {onnx}")).fails(2, &["--output"]);
}

#[test]
fn entries_that_are_moved_to_prepare() {
    let flags = "--state state_in=state_out --param class_scale";
    let onnx = (model("joint/joint.onnx"), model("joint/match.onnx"));
    let all = say(&format!("compile {} --entry match={} {flags} --explain=json", onnx.0, onnx.1)).json();
    let passes = all["passes"].as_array().unwrap();
    let pack = passes.iter().find(|p| p["pass"] == "pack").unwrap();
    let moved = pack["moved"].as_array().unwrap();
    // What both entries compute is computed once.
    assert_eq!(pack["gone"][0]["fate"], "replaced", "{pack}");
    assert!(!moved.is_empty() && pack["reordered"] == false, "{pack}");
}
