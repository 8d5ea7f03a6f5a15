//! The joint model through the program: two files, every kind of record, every device.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Folder, Said, model, say, serinette};
use serinette::core::schedule::record::SectionId;

/// Compiles as `models/README.md` says, with further flags, into a folder.
fn compiled(folder: &Folder, flags: &str) -> (String, Said) {
    let (out, hint) = (folder.path("joint.srn"), model("joint/hint.json"));
    let (joint, other) = (model("joint/joint.onnx"), model("joint/match.onnx"));
    let line = format!(
        "compile {joint} --entry match={other} --state state_in=state_out --param class_scale --hint {hint} \
         --bound batch=8 --bound n=16 --bound rows=8 --bound weight_rows=8 \
         --profile desktop --profile mcu:batch=1 -o {out} {flags}"
    );
    (out, say(&line))
}

/// With self-tests from known vectors and from a seed.
fn blob(folder: &Folder) -> String {
    let (out, said) =
        compiled(folder, &format!("--self-test {} --self-test 7", model("joint/self_test.npz")));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("tests    4") && said.out.contains("derived"), "{}", said.out);
    assert!(said.err.contains("entry prepare"), "{}", said.err);
    out
}

#[test]
fn every_kind_of_record_is_there() {
    let folder = Folder::new();
    let model = serinette::Model::open(blob(&folder)).unwrap();
    model.check_digests().unwrap();
    let program = model.program();
    let reserved = [SectionId::BlockFormats, SectionId::Signature, SectionId::Attachments, SectionId::Tuning];
    for id in SectionId::ALL {
        let section = program.sections.iter().find(|(_, s)| s.id == id as u32);
        let count = section.map_or(0, |(_, s)| s.count);
        assert_eq!(count == 0, reserved.contains(&id), "{id:?}: {count} records");
    }
    let facts = say(&format!("inspect {} --json", folder.path("joint.srn"))).json();
    let list = |key: &str, field: &str| -> Vec<String> {
        let all = facts[key].as_array().unwrap().iter();
        all.map(|o| o[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list("entries", "name"), ["main", "match", "prepare"]);
    assert_eq!(list("plans", "name"), ["desktop", "mcu:batch=1"]);
    assert_eq!(
        (&facts["plans"][1]["bounds"]["batch"], &facts["plans"][1]["bounds"]["n"]),
        (&1.into(), &16.into())
    );
    let ops = list("ops", "op");
    for op in ["QMatMul", "Gather", "Cast", "Quantize", "ArgMax", "Transpose"] {
        assert!(ops.iter().any(|o| o == op), "{op}: {ops:?}");
    }
    let bytes = |key: &str| facts[key].as_u64().unwrap();
    assert!(bytes("state_bytes") >= 64 && bytes("param_bytes") >= 40 && bytes("derived_bytes") >= 1040);
    assert_eq!(facts["self_tests"], 4);
}

#[test]
fn self_tests_pass_on_every_device() {
    let folder = Folder::new();
    let srn = blob(&folder);
    let said = say(&format!("verify {srn} --device all"));
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let devices = say("devices --json").json()["devices"].as_array().unwrap().len();
    let agreed = said.out.lines().filter(|l| l.contains("agree on")).count();
    assert_eq!(agreed, 4 * devices, "{}", said.out);
    for text in ["outputs of main agree", "outputs of match agree", "rows 3", "batch 2"] {
        assert!(said.out.contains(text), "{text}: {}", said.out);
    }
    // One byte of an expected output: the last 16 are the arg-max of the last vector, padded.
    let mut bytes = std::fs::read(&srn).unwrap();
    let at = bytes.len() - 16;
    bytes[at] ^= 1;
    std::fs::write(&srn, bytes).unwrap();
    say(&format!("verify {srn}")).fails(1, &["weight section", "digest"]);
}

#[test]
fn both_entries_agree_on_every_device() {
    let folder = Folder::new();
    let srn = blob(&folder);
    let vectors = model("joint/self_test.npz");
    for (entry, inputs) in [("main", ["x", "indices"]), ("match", ["query", "row_weights"])] {
        let inputs: String = inputs.map(|n| format!(" --input {n}={vectors}")).concat();
        let said = say(&format!("run {srn} --entry {entry} --device all --json{inputs}")).json();
        assert_eq!(said["differences"], serde_json::json!([]), "{entry}");
        assert_eq!(said["failures"], serde_json::json!([]), "{entry}");
        // What is derived is computed again after its param was set, everywhere the same.
        let set = format!("{inputs} --input class_scale=random:5");
        let other = say(&format!("run {srn} --entry {entry} --device all --json{set}")).json();
        assert_eq!((&other["differences"], &other["failures"]), (&said["differences"], &said["failures"]));
        let output = |runs: &serde_json::Value| runs["runs"][0]["outputs"][0]["values"].clone();
        assert_ne!(output(&said), output(&other));
        for d in say("devices --json").json()["devices"].as_array().unwrap() {
            let id = d["id"].as_str().unwrap();
            if id != "host" {
                let said = say(&format!("compare {srn} host {id} --entry {entry}{set}"));
                assert_eq!(said.code, 0, "{id}: {}", said.err);
            }
        }
    }
}

#[test]
fn a_run_takes_the_plan_of_its_sizes() {
    let folder = Folder::new();
    let srn = blob(&folder);
    for batch in [1, 5] {
        let said = say(&format!(
            "run {srn} --entry main --dim batch={batch} --dim n=2 --device host --json --input random:1 --input random:2"
        ));
        assert_eq!(said.json()["outputs"][0]["shape"][0], batch);
    }
}

#[test]
fn packing_is_a_choice() {
    let folder = Folder::new();
    let derived = |flags: &str| {
        let (out, said) = compiled(&folder, flags);
        assert_eq!(said.code, 0, "{}", said.err);
        say(&format!("inspect {out} --json")).json()["derived_bytes"].as_u64().unwrap()
    };
    let (none, some, all) = (derived("--pack none"), derived("--pack w3_f16"), derived("--pack all"));
    assert!(none == 0 && some >= 1040 && some < all, "{none} {some} {all}");
    assert_eq!(derived(""), all);
    compiled(&folder, "--pack w3_f61").1.fails(1, &["no weight or param", "'w3_f16'"]);
    compiled(&folder, "--pack all --pack w3_f16").1.fails(2, &["--pack all"]);
}

#[test]
fn what_does_not_fit_together_is_said() {
    let folder = Folder::new();
    let fails = |flags: &str, code: i32, texts: &[&str]| compiled(&folder, flags).1.fails(code, texts);
    let other = model("joint/match.onnx");
    fails(&format!("--entry match={other}"), 1, &["used twice", "match"]);
    fails(&format!("--entry main={other}"), 1, &["used twice", "main"]);
    fails("--entry second=nowhere.onnx", 1, &["nowhere.onnx", "no such file"]);
    fails("--entry second", 2, &["NAME=FILE.onnx"]);
    fails("--bound rosw=4", 1, &["'rosw'", "did you mean 'rows'"]);
    fails("--shape querry=2,16", 1, &["'querry'", "did you mean 'query'"]);
    fails("--state state_im=state_out", 1, &["'state_im'", "did you mean 'state_in'"]);
    fails("--param class_scal", 1, &["'class_scal'", "did you mean 'class_scale'"]);
    fails("--profile mcu:bacth=1", 1, &["'bacth'", "did you mean 'batch'"]);
    fails("--profile mc", 2, &["'mcu'"]);
    fails("--self-test seven", 2, &["seed", ".npz"]);
    fails("--self-test nowhere.npz", 1, &["nowhere.npz"]);
    // Arrays of another state: what the host computes is not what they say.
    let wrong = model("joint/reference_3.npz");
    fails(&format!("--self-test {wrong}"), 1, &["reference_3.npz", "entry 'main'", "'probabilities'"]);
    let lacking = model("fashion/samples/bag_0.png");
    fails(&format!("--self-test {lacking}"), 2, &[".npz"]);
    assert!(!folder.names().contains(&"joint.srn".to_owned()));
    // A model whose weight of the same name is another one.
    let fashion = model("fashion/fashion.onnx");
    let quantised = model("fashion/fashion_int8.onnx");
    let line = ["compile", &fashion, "--entry", &format!("int8={quantised}"), "-o", &folder.path("f.srn")];
    let said = serinette(&line);
    assert_eq!(said.code, 0, "names differ, so both fit in one file: {}", said.err);
}
