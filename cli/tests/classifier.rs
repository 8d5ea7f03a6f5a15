//! The bundled classifier through the program: from ONNX to a label.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Folder, Said, f32s, model, npy, say, serinette};
use serde_json::Value;

fn picture(name: &str) -> String {
    model(&format!("fashion/samples/{name}"))
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(model("fashion/expected.json")).unwrap()).unwrap()
}

/// Compiles a model with hints into a folder.
fn blob(folder: &Folder, name: &str) -> (String, Said) {
    let out = folder.path(&format!("{name}.srn"));
    let (onnx, hint) = (model(&format!("fashion/{name}.onnx")), model("fashion/hint.json"));
    let said = serinette(&["compile", &onnx, "-o", &out, "--hint", &hint]);
    assert_eq!(said.code, 0, "{}", said.err);
    (out, said)
}

#[test]
fn an_onnx_file_and_a_picture_give_a_label() {
    let (onnx, hint) = (model("fashion/fashion_int8.onnx"), model("fashion/hint.json"));
    let said = serinette(&[
        "run",
        &onnx,
        "--hint",
        &hint,
        "--input",
        &picture("ankle_boot_0.png"),
        "--device",
        "host",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("ankle_boot"), "{}", said.out);
}

/// Labels and probabilities of all samples. The f32 model: 1e-4, sums in another order. The int8 model computes
/// integers up to the logits, so only softmax differs; one unit of a rounding edge would show as 0.05.
#[test]
fn every_sample_has_its_label_and_probability() {
    let folder = Folder::new();
    for name in ["fashion", "fashion_int8"] {
        let (srn, _) = blob(&folder, name);
        for (file, want) in expected().as_object().unwrap() {
            let said =
                serinette(&["run", &srn, "--input", &picture(file), "--device", "host", "--json"]).json();
            assert_eq!(said["device"], "host");
            assert_eq!((&said["host_steps"], &said["host_bytes_copied"]), (&0.into(), &0.into()));
            assert!(said["first_ms"].as_f64().unwrap() > 0.0 && said["run_ms"].as_f64().unwrap() > 0.0);
            let best = &said["outputs"][0]["top"][0][0];
            assert_eq!(best["label"], want[name]["label"], "{name} {file}");
            let (found, want) =
                (best["score"].as_f64().unwrap(), want[name]["probability"].as_f64().unwrap());
            assert!((found - want).abs() < 1e-4, "{name} {file}: {found}, expected {want}");
        }
    }
}

#[test]
fn compiling_says_what_is_needed_and_inspect_agrees() {
    let folder = Folder::new();
    let (srn, said) = blob(&folder, "fashion_int8");
    for word in ["weights", "arena", "lower bound", "state", "multiply-adds", "steps"] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    assert_eq!(folder.names(), ["fashion_int8.srn"]);
    let facts = say(&format!("inspect {srn} --json")).json();
    let number = |k: &str| facts[k].as_u64().unwrap_or_else(|| panic!("{k}: {facts}"));
    let (arena, bound) = (number("arena_bytes"), number("arena_lower_bound_bytes"));
    assert!(arena >= bound && arena as f64 <= 1.02 * bound as f64, "{arena} of {bound}");
    assert!(number("macs") >= 1_646_112, "one picture takes 1,646,112");
    assert!(number("weight_bytes") >= 33_192);
    assert_eq!((number("state_bytes"), number("derived_bytes")), (0, 0));
    assert!(number("steps") >= number("waves") && number("waves") > 0);
    assert_eq!(facts["entries"][0]["name"], "main");
    assert_eq!(facts["inputs"][0]["name"], "image");
    assert_eq!(facts["inputs"][0]["shape"][3], 28);
    assert_eq!(facts["inputs"][0]["hint"]["kind"], "image");
    assert_eq!(facts["outputs"][0]["hint"]["labels"][9], "ankle_boot");
    assert!(facts["ops"].as_array().unwrap().iter().any(|o| o["op"].as_str().unwrap().contains("Softmax")));
    let text = say(&format!("inspect {srn}"));
    assert!(text.code == 0 && text.out.contains("image: f32 [batch, 1, 28, 28] (image)"), "{}", text.out);
}

#[test]
fn the_same_model_gives_the_same_blob() {
    let (a, b) = (Folder::new(), Folder::new());
    let (a, b) = (blob(&a, "fashion").0, std::fs::read(blob(&b, "fashion").0).unwrap());
    assert_eq!(std::fs::read(a).unwrap(), b);
}

#[test]
fn profiles_bounds_and_shapes_reach_the_blob() {
    let folder = Folder::new();
    let (onnx, out) = (model("fashion/fashion.onnx"), folder.path("m.srn"));
    let line = format!("compile {onnx} -o {out} --profile mcu --bound batch=12:4");
    assert_eq!(say(&line).code, 0, "{}", say(&line).err);
    let facts = say(&format!("inspect {out} --json")).json();
    let s = &facts["symbols"][0];
    assert_eq!((&s["name"], &s["high"], &s["multiple_of"]), (&"batch".into(), &12.into(), &4.into()));
    assert_eq!(facts["plans"][0]["profile"], "mcu");
    assert!(facts["arena_bytes"].as_u64().unwrap() >= 12 * 28 * 28 * 4);
    let said = say(&format!("run {out} --device host --input random:1 --json"));
    assert_eq!(said.json()["outputs"][0]["shape"][0], 4, "the least multiple");

    assert_eq!(say(&format!("compile {onnx} -o {out} --shape image=2,1,28,28")).code, 0);
    let facts = say(&format!("inspect {out} --json")).json();
    assert_eq!(facts["inputs"][0]["shape"], serde_json::json!([2, 1, 28, 28]));
}

#[test]
fn arrays_in_and_out() {
    let folder = Folder::new();
    let (srn, _) = blob(&folder, "fashion");
    let data: Vec<f32> = (0..3 * 784).map(|i| ((i * 7919) % 251) as f32 / 100.0 - 1.0).collect();
    std::fs::write(folder.path("x.npy"), npy("<f4", &[3, 1, 28, 28], &f32s(&data))).unwrap();
    let (x, y, all) = (folder.path("x.npy"), folder.path("y.npy"), folder.path("all.npz"));
    let line =
        format!("run {srn} --device host --input image={x} --output probabilities={y} --output {all} --json");
    let said = say(&line).json();
    let o = &said["outputs"][0];
    assert_eq!(o["shape"], serde_json::json!([3, 10]));
    let values: Vec<f32> =
        o["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
    for row in values.chunks(10) {
        // Ten f32 numbers near 0.1, each rounded once.
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let written = std::fs::read(&y).unwrap();
    assert_eq!(&written[written.len() - 120..], f32s(&values), "the file holds what JSON says");
    // What was written can be read: as an array of another name it is refused by shape, not by format.
    say(&format!("run {srn} --device host --input image={all}"))
        .fails(1, &["image", "[batch, 1, 28, 28]", "[3, 10]"]);
    say(&format!("run {srn} --device host --input {all}"))
        .fails(1, &["no input named 'probabilities'", "image"]);
}

#[test]
fn a_state_is_kept_and_random_indices_are_in_range() {
    let joint = model("joint/joint.onnx");
    let line = format!("run {joint} --state state_in=state_out --device host --json --dim n=5");
    for seed in 0..8 {
        let inputs = format!("--input x=random:{seed} --input indices=random:{seed}");
        let said = say(&format!("{line} {inputs}")).json();
        let names: Vec<&str> =
            said["outputs"].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"rows") && !names.contains(&"state_out"), "{names:?}");
    }
    let facts = say(&format!("inspect {joint} --state state_in=state_out --json")).json();
    assert!(facts["state_bytes"].as_u64().unwrap() >= 64);
}

#[test]
fn reference_vectors_of_the_joint_model() {
    let (joint, vectors) = (model("joint/joint.onnx"), model("joint/reference_3.npz"));
    // The archive holds outputs too: inputs are picked by name.
    let inputs: String = ["x", "indices", "state_in"].map(|n| format!(" --input {n}={vectors}")).concat();
    let said = say(&format!("run {joint} --device host --json{inputs}")).json();
    let outputs = said["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 4);
    let probabilities = outputs.iter().find(|o| o["name"] == "probabilities").unwrap();
    assert_eq!(probabilities["shape"], serde_json::json!([3, 10]));
}

#[test]
fn times_of_a_device() {
    let folder = Folder::new();
    let (srn, _) = blob(&folder, "fashion_int8");
    let b = say(&format!("bench {srn} --device host --runs 20 --json")).json();
    let ms = |k: &str| b[k].as_f64().unwrap_or_else(|| panic!("{k}: {b}"));
    assert!(0.0 < ms("min_ms") && ms("min_ms") <= ms("median_ms") && ms("median_ms") <= ms("p95_ms"), "{b}");
    assert!(ms("first_result_ms") > 0.0 && ms("verify_ms") > 0.0 && ms("verify_ms") < ms("first_result_ms"));
    assert!(b["peak_rss_bytes"].is_null() || b["peak_rss_bytes"].as_u64().unwrap() > 100_000);
    assert_eq!((&b["runs"], &b["device"]), (&20.into(), &"host".into()));
    assert_eq!(b["threads"], 1);
    let more = say(&format!("bench {srn} --device host --runs 3 --threads 2 --json"));
    assert!(more.code == 0 && more.json()["threads"] == 2, "{}", more.err);
}

#[test]
fn a_picture_of_another_size_is_resized_and_a_note_says_so() {
    let folder = Folder::new();
    let (srn, _) = blob(&folder, "fashion");
    let small = image::open(picture("trouser_0.png")).unwrap().to_rgb8();
    let big = image::imageops::resize(&small, 84, 56, image::imageops::FilterType::Triangle);
    big.save(folder.path("big.png")).unwrap();
    let said = say(&format!("run {srn} --device host --input {}", folder.path("big.png")));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("resized from 84 × 56 to 28 × 28"), "{}", said.err);
    assert!(said.out.lines().nth(2).unwrap().contains("trouser"), "{}", said.out);
}

#[test]
fn every_device_found_agrees() {
    let folder = Folder::new();
    let (srn, _) = blob(&folder, "fashion_int8");
    let said =
        serinette(&["run", &srn, "--device", "all", "--json", "--input", &picture("bag_0.png")]).json();
    let runs = said["runs"].as_array().unwrap();
    let listed = say("devices --json").json();
    assert_eq!(runs.len(), listed["devices"].as_array().unwrap().len());
    for r in runs {
        assert_eq!(r["outputs"][0]["top"][0][0]["label"], "bag", "{}", r["device"]);
    }
}
