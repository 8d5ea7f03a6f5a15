//! Several graphs and files as entries of one program.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, model, near, npz, random};
use serinette_compiler::onnx::{EntryFile, ImportOptions, import, import_entries};
use serinette_compiler::{
    CompileOptions, Compiled, Data, Error, Graph, GraphBuilder, LoopSpec, Profile, Trips, compile, merge,
};
use serinette_core::DType;
use serinette_core::schedule::record::{entry_kind, role};
use std::collections::BTreeMap;

/// The two graphs of the joint model with one state, one param and two plans.
fn joint() -> Compiled {
    let files = [
        EntryFile::new("main", model("joint/joint.onnx")),
        EntryFile::new("match", model("joint/match.onnx")),
    ];
    let options = ImportOptions {
        states: vec![("state_in".into(), "state_out".into())],
        params: vec!["class_scale".into()],
        hints: Some(String::from_utf8(model("joint/hint.json")).unwrap()),
        bounds: [("batch", 8), ("n", 16), ("rows", 8), ("weight_rows", 8)]
            .map(|(n, most)| (n.to_owned(), (most, 1)))
            .into(),
        ..ImportOptions::default()
    };
    let small = Profile { bounds: [("batch".to_owned(), 1)].into(), ..Profile::mcu() };
    let profiles = vec![Profile::desktop(), small];
    let graph = import_entries(&files, &options).unwrap();
    compile(graph, &CompileOptions { profiles, ..CompileOptions::default() }).unwrap()
}

fn count(s: &Session, wanted: u8) -> Vec<String> {
    let p = s.program();
    let named = p.values.iter().filter(|(_, v)| v.role == wanted && v.view == 0);
    named.map(|(_, v)| p.text(v.name).unwrap().to_owned()).collect()
}

#[test]
fn two_files_share_weights_state_and_what_is_derived() {
    let c = joint();
    let s = Session::new(&c.bytes);
    let p = s.program();
    let entries: Vec<_> = p.entries.iter().map(|(_, e)| (p.text(e.name).unwrap(), e.kind)).collect();
    let call = entry_kind::CALL;
    assert_eq!(entries, [("main", call), ("match", call), ("prepare", entry_kind::PREPARE)]);
    assert_eq!(
        (count(&s, role::STATE), count(&s, role::PARAM)),
        (vec!["state_in".into()], vec!["class_scale".into()])
    );
    let mut derived = count(&s, role::DERIVED);
    derived.sort();
    // The second layer reads its weights as they are, the other way round.
    assert_eq!(derived, ["class_factor", "gain", "w3"]);
    let weights = count(&s, role::WEIGHT);
    assert_eq!(weights.iter().filter(|w| *w == "w1").count(), 1, "{weights:?}");
    // Of 2 KiB each, the first two layers are in the file once.
    let alone = |file: &str| {
        let graph = import(model(file), &ImportOptions::default()).unwrap();
        compile(graph, &CompileOptions::default()).unwrap().report.weight_bytes
    };
    let (main, other) = (alone("joint/joint.onnx"), alone("joint/match.onnx"));
    assert!(c.report.weight_bytes + 4096 <= main + other, "{} {main} {other}", c.report.weight_bytes);
    assert!(c.report.weight_bytes < main + 128, "{} {main}", c.report.weight_bytes);
    let provenance = std::str::from_utf8(p.provenance).unwrap();
    assert_eq!(provenance.lines().count(), 3, "{provenance}");
}

fn check(found: &common::Run, want: &BTreeMap<String, Array>, what: &str) {
    assert_eq!(found.fault, None);
    for (name, a) in &found.outputs {
        assert_eq!(a.dims, want[name].dims, "{what} {name}");
        match name.as_str() {
            "top" | "nearest" => assert_eq!(a.i32(), want[name].i32(), "{what} {name}"),
            // f32 sums beside 64-bit ones: some 1e-6 after a dozen layers of width 16 to 32.
            _ => near(&a.f32(), &want[name].f32(), 1e-5, &format!("{what} {name}")),
        }
    }
}

#[test]
fn one_entry_sees_the_state_that_the_other_leaves() {
    let mut s = Session::new(&joint().bytes);
    let runs = npz(&model("joint/state_runs.npz"));
    for run in 0..3 {
        let pick = |name: &str| {
            let a = &runs[name];
            let one = a.bytes.len() / a.dims[0];
            Array { dims: a.dims[1..].to_vec(), bytes: a.bytes[run * one..(run + 1) * one].to_vec() }
        };
        let want = runs.keys().map(|n| (n.clone(), pick(n))).collect();
        let feed = |names: [&'static str; 2]| names.map(|n| (n, pick(n)));
        check(&s.run("main", &feed(["x", "indices"])), &want, &format!("main {run}"));
        check(&s.run("match", &feed(["query", "row_weights"])), &want, &format!("match {run}"));
    }
}

#[test]
fn what_depends_on_a_param_follows_it() {
    let mut s = Session::new(&joint().bytes);
    let want = npz(&model("joint/match_4.npz"));
    let inputs = ["query", "row_weights"].map(|n| (n, want[n].clone()));
    // The state is zero here and was not there: what is compared is how scores scale.
    let before = s.run("match", &inputs).outputs["scores"].f32();
    let scale = random(3, 10);
    s.set("class_scale", &Array::new(&[10], &scale));
    let after = s.run("match", &inputs).outputs["scores"].f32();
    let old = import(model("joint/match.onnx"), &ImportOptions::default()).unwrap();
    let old: Vec<f32> = old
        .tensors
        .iter()
        .find(|t| t.name == "class_scale")
        .and_then(|t| t.source.immutable_data())
        .unwrap()
        .numbers()
        .collect();
    let scaled: Vec<f32> = before
        .iter()
        .enumerate()
        .map(|(i, v)| (f64::from(*v) / f64::from(old[i % 10]) * f64::from(scale[i % 10])) as f32)
        .collect();
    near(&after, &scaled, 1e-5, "scores");
}

/// A graph `name(x [n, 4]) = relu(x · w)` with one loop, one state and one symbol.
fn small(name: &str, w: &[f32], high: u64, state: &[u64], hint: &str) -> Graph {
    let mut b = GraphBuilder::new();
    let n = b.symbol("n", 1, high, 1).unwrap();
    let w = b.weight("w", DType::F32, &[4, w.len() as u64 / 4], Data::from_slice(w)).unwrap();
    let s = b.state("s", DType::F32, state).unwrap();
    b.entry(name).unwrap();
    let x = b.input("x", DType::F32, &[n.into(), 4.into()]).unwrap();
    let spec = LoopSpec {
        name: "twice",
        trips: Trips { most: 2.into(), count: None },
        condition: None,
        initial: &[x],
    };
    // The counter goes into the sum, so that each entry's loop must keep its own.
    let out = b.loop_(spec, |b, counter, v| {
        let i = b.size_scalar("i", counter)?;
        let i = b.cast("f", i, DType::F32)?;
        Ok(vec![b.add("sum", v[0], i)?])
    });
    let size = b.size_scalar("size", n).unwrap();
    b.output("size", size).unwrap();
    let y = b.matmul("y", out.unwrap()[0], w, None).unwrap();
    b.output("y", y).unwrap();
    let new = b.add("new", s, s).unwrap();
    b.update(s, new).unwrap();
    b.hint("y", hint);
    b.metadata("name", name);
    b.finish().unwrap()
}

#[test]
fn graphs_made_by_hand_merge() {
    let w = random(1, 8);
    let (first, second) = (small("a", &w, 8, &[2], "{}"), small("b", &w, 8, &[2], "{}"));
    let graph = merge(vec![first, second]).unwrap();
    // Both loops count; the size is one.
    assert_eq!(graph.dims.symbols().len(), 3, "{:?}", graph.dims.symbols());
    assert!(graph.notes.iter().any(|n| n.contains("name")), "{:?}", graph.notes);
    let mut s = Session::new(&compile(graph, &CompileOptions::default()).unwrap().bytes);
    assert_eq!((count(&s, role::WEIGHT).len(), count(&s, role::STATE).len()), (1, 1));
    for (entry, n) in [("a", 2), ("b", 3)] {
        let x = random(n as u64, n * 4);
        let run = s.run(entry, &[("x", Array::new(&[n, 4], &x))]);
        let want = |i: usize| {
            let sum = (0..4).map(|k| (f64::from(x[i / 2 * 4 + k]) + 1.0) * f64::from(w[k * 2 + i % 2]));
            sum.sum::<f64>() as f32
        };
        near(&run.outputs["y"].f32(), &(0..n * 2).map(want).collect::<Vec<_>>(), 1e-6, entry);
        assert_eq!(run.outputs["size"].i32(), [n as i32]);
    }
}

#[test]
fn names_that_mean_two_things_are_errors() {
    let w = random(1, 8);
    let with = |second: Graph| merge(vec![small("a", &w, 8, &[2], "{}"), second]);
    let mut other = w.clone();
    other[5] += 1.0;
    for (graph, texts) in [
        (
            small("b", &other, 8, &[2], "{}"),
            &["weight 'w'", "entry 'a'", "entry 'b'", "from element 5 on"][..],
        ),
        (small("b", &random(2, 12), 8, &[2], "{}"), &["weight 'w'", "[4, 2]", "[4, 3]"]),
        (small("b", &w, 9, &[2], "{}"), &["size 'n'", "1 to 8", "1 to 9"]),
        (small("b", &w, 8, &[3], "{}"), &["state 's'", "f32 [2]", "f32 [3]"]),
        (small("b", &w, 8, &[2], "[]"), &["hint 'y'", "{}", "[]"]),
        (small("a", &w, 8, &[2], "{}"), &["used twice", "\"a\""]),
    ] {
        match with(graph) {
            Err(e) => texts.iter().for_each(|t| assert!(e.to_string().contains(t), "{t}: {e}")),
            Ok(_) => panic!("accepted: {texts:?}"),
        }
    }
    let mut b = GraphBuilder::new();
    b.param("w", DType::F32, &[4, 2], None).unwrap();
    b.entry("b").unwrap();
    assert!(matches!(with(b.finish().unwrap()), Err(Error::Conflict { .. })));
}

#[test]
fn options_concern_any_of_the_files() {
    let files = || {
        vec![
            EntryFile::new("main", model("joint/joint.onnx")),
            EntryFile::new("match", model("joint/match.onnx")),
        ]
    };
    let wrong = |options: ImportOptions, texts: &[&str]| match import_entries(&files(), &options) {
        Err(e) => texts.iter().for_each(|t| assert!(e.to_string().contains(t), "{t}: {e}")),
        Ok(_) => panic!("accepted: {texts:?}"),
    };
    let none = ImportOptions::default;
    wrong(
        ImportOptions { bounds: [("rowz".into(), (4, 1))].into(), ..none() },
        &["no size", "'rowz'", "did you mean 'rows'"],
    );
    wrong(ImportOptions { shapes: [("querry".into(), vec![])].into(), ..none() }, &["no input", "'query'"]);
    wrong(ImportOptions { states: vec![("state_in".into(), "state_ou".into())], ..none() }, &["'state_out'"]);
    wrong(ImportOptions { states: vec![("state_im".into(), "state_out".into())], ..none() }, &["'state_in'"]);
    wrong(
        ImportOptions { params: vec!["class_scales".into()], ..none() },
        &["no initialiser", "'class_scale'"],
    );
    let hints = |text: &str| ImportOptions { hints: Some(text.into()), ..none() };
    wrong(hints(r#"{"outputs": {"scorse": {}}}"#), &["no output", "did you mean 'scores'"]);
    import_entries(&files(), &hints(r#"{"outputs": {"scores": {}, "rows": {}}}"#)).unwrap();
    let same = vec![EntryFile::new("main", model("joint/joint.onnx")); 2];
    let twice = import_entries(&same, &none());
    assert!(matches!(twice, Err(Error::Name { .. })), "{:?}", twice.err());
}
