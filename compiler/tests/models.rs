//! The bundled models: import, compile, run on the host, compare with vectors made by another runtime.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, model, near, npz};
use serinette_compiler::onnx::{AxisSize, ImportOptions, import};
use serinette_compiler::{CompileOptions, Compiled, Profile, compile};

fn compiled(path: &str, options: &ImportOptions, profile: Profile) -> Compiled {
    let graph = import(model(path), options).unwrap_or_else(|e| panic!("{path}: {e}"));
    let options = CompileOptions { profiles: vec![profile], scratch: None, packing: None };
    compile(graph, &options).unwrap_or_else(|e| panic!("{path}: {e}"))
}

const OUTPUTS: [&str; 4] = ["probabilities", "top", "rows", "state_out"];

fn compare(found: &common::Run, want: &std::collections::BTreeMap<String, Array>, what: &str) {
    // f32 sums in another order than the reference: some 1e-6 after a dozen layers of width 16 to 32.
    for (name, array) in &found.outputs {
        if name == "top" {
            assert_eq!(array.i32(), want[name].i32(), "{what} {name}");
        } else {
            near(&array.f32(), &want[name].f32(), 1e-5, &format!("{what} {name}"));
        }
        assert_eq!(array.dims, want[name].dims, "{what} {name}");
    }
}

#[test]
fn joint_model_matches_the_reference() {
    for profile in [Profile::desktop(), Profile::mcu()] {
        let c = compiled("joint/joint.onnx", &ImportOptions::default(), profile);
        let mut s = Session::new(&c.bytes);
        for batch in [1, 3, 5] {
            let want = npz(&model(&format!("joint/reference_{batch}.npz")));
            let inputs = ["x", "indices", "state_in"].map(|n| (n, want[n].clone()));
            let found = s.run("main", &inputs);
            assert_eq!(found.outputs.keys().map(String::as_str).collect::<Vec<_>>(), {
                let mut o = OUTPUTS.to_vec();
                o.sort_unstable();
                o
            });
            assert_eq!(found.fault, None);
            compare(&found, &want, &format!("batch {batch}"));
        }
    }
}

#[test]
fn joint_model_keeps_its_state() {
    let options = ImportOptions {
        states: vec![("state_in".into(), "state_out".into())],
        shapes: [("x".to_owned(), vec![AxisSize::Number(1), AxisSize::AsDeclared])].into(),
        ..ImportOptions::default()
    };
    let c = compiled("joint/joint.onnx", &options, Profile::mcu());
    let mut s = Session::new(&c.bytes);
    let runs = npz(&model("joint/state_runs.npz"));
    let pick = |name: &str, run: usize| {
        let a = &runs[name];
        let one = a.bytes.len() / a.dims[0];
        Array { dims: a.dims[1..].to_vec(), bytes: a.bytes[run * one..(run + 1) * one].to_vec() }
    };
    for run in 0..3 {
        let found = s.run("main", &[("x", pick("x", run)), ("indices", pick("indices", run))]);
        assert!(!found.outputs.contains_key("state_out"));
        let want = OUTPUTS.iter().map(|n| ((*n).to_owned(), pick(n, run))).collect();
        compare(&found, &want, &format!("run {run}"));
    }
}

#[test]
fn joint_model_reads_zero_for_bad_indices() {
    let c = compiled("joint/joint.onnx", &ImportOptions::default(), Profile::desktop());
    let mut s = Session::new(&c.bytes);
    let want = npz(&model("joint/reference_1.npz"));
    let indices = Array::new(&[4], &[-1i32, 10, i32::MIN, 9]);
    let inputs = [("x", want["x"].clone()), ("indices", indices), ("state_in", want["state_in"].clone())];
    let found = s.run("main", &inputs);
    let rows = found.outputs["rows"].f32();
    assert!(found.fault.is_some());
    assert_eq!(rows[..16], rows[48..]);
    assert!(rows[16..48].iter().all(|v| *v == 0.0) && rows[..16].iter().any(|v| *v != 0.0));
}

#[test]
fn joint_model_uses_every_part_of_the_format() {
    let c = compiled("joint/joint.onnx", &ImportOptions::default(), Profile::desktop());
    let ops = Session::new(&c.bytes).ops();
    for op in ["Loop", "If", "Else", "End", "QMatMul", "Quantize", "Dequantize", "Cast", "Gather", "ArgMax"] {
        assert!(ops.contains(&op), "{op} in {ops:?}");
    }
    // Bias and activation went into the products; the loop runs without copies inside.
    assert!(!ops.contains(&"Relu"), "{ops:?}");
    let (open, end) = (ops.iter().position(|o| *o == "Loop"), ops.iter().position(|o| *o == "End"));
    assert_eq!(ops[open.unwrap() + 1..end.unwrap()], ["MatMul", "Add"]);
    assert!(!c.bytes.is_empty() && c.report.notes.iter().any(|n| n.contains("batch")));
}

#[test]
fn compilation_is_deterministic() {
    for path in ["joint/joint.onnx", "fashion/fashion.onnx", "fashion/fashion_int8.onnx"] {
        let once = || compiled(path, &ImportOptions::default(), Profile::desktop()).bytes;
        assert_eq!(once(), once(), "{path}");
    }
}

#[test]
fn int8_classifier_is_all_integer_inside() {
    let c = compiled("fashion/fashion_int8.onnx", &ImportOptions::default(), Profile::mcu());
    let ops = Session::new(&c.bytes).ops();
    let count = |op: &str| ops.iter().filter(|o| **o == op).count();
    assert_eq!(
        (count("QConv2d"), count("QMatMul"), count("MaxPool2d"), count("AveragePool2d")),
        (9, 1, 2, 1)
    );
    assert_eq!((count("Quantize"), count("Dequantize"), count("Softmax")), (1, 1, 1), "{ops:?}");
    assert_eq!(ops.len(), 16, "{ops:?}");
}

#[test]
fn arenas_are_near_their_lower_bound() {
    for (path, batch) in
        [("joint/joint.onnx", 5), ("fashion/fashion.onnx", 1), ("fashion/fashion_int8.onnx", 1)]
    {
        for profile in [Profile::desktop(), Profile::mcu()] {
            let options = ImportOptions {
                bounds: [("batch".to_owned(), (batch, 1))].into(),
                ..ImportOptions::default()
            };
            let c = compiled(path, &options, profile);
            let p = &c.report.plans[0];
            assert!(p.lower_bound_bytes > 0);
            assert!(
                p.arena_bytes as f64 <= 1.02 * p.lower_bound_bytes as f64,
                "{path} {}: {} of {}",
                p.name,
                p.arena_bytes,
                p.lower_bound_bytes
            );
        }
    }
}

/// A sample as the models want it: `(pixel − mean) · scale`, from the hint that travels with the model.
fn sample(name: &str) -> Array {
    let hint: serde_json::Value = serde_json::from_slice(&model("fashion/hint.json")).unwrap();
    let number = |k: &str| hint["inputs"]["image"][k][0].as_f64().unwrap() as f32;
    let (mean, scale) = (number("mean"), number("scale"));
    let file = model(&format!("fashion/samples/{name}"));
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height, info.color_type), (28, 28, png::ColorType::Grayscale));
    let values: Vec<f32> = pixels[..784].iter().map(|p| (f32::from(*p) - mean) * scale).collect();
    Array::new(&[1, 1, 28, 28], &values)
}

#[test]
fn classifiers_agree_with_the_reference_on_the_samples() {
    let expected: serde_json::Value = serde_json::from_slice(&model("fashion/expected.json")).unwrap();
    // f32: sums in another order. int8: rare ties of one step may round the other way.
    for (name, tolerance) in [("fashion", 1e-4), ("fashion_int8", 0.02)] {
        let hints = Some(String::from_utf8(model("fashion/hint.json")).unwrap());
        let options = ImportOptions { hints, ..ImportOptions::default() };
        let c = compiled(&format!("fashion/{name}.onnx"), &options, Profile::mcu());
        let mut s = Session::new(&c.bytes);
        assert_eq!(s.program().hints.len(), 2);
        for (file, want) in expected.as_object().unwrap() {
            let run = s.run("main", &[("image", sample(file))]);
            let p = run.outputs["probabilities"].f32();
            let best = (0..10).max_by(|a, b| p[*a].total_cmp(&p[*b])).unwrap();
            assert_eq!(best as u64, want["class"].as_u64().unwrap(), "{name} {file}");
            let want = want[name]["probability"].as_f64().unwrap();
            assert!((f64::from(p[best]) - want).abs() <= tolerance, "{name} {file}: {} for {want}", p[best]);
        }
    }
}
