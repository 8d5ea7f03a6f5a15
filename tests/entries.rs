//! Sessions over programs of several entries, on every device: derived values, plans, self-tests.
#![allow(missing_docs)] // a test binary has no readers of its documentation
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failed test panics
#![cfg(feature = "compiler")]

use serinette::compile::{CompileOptions, Profile, SelfTestCase, add_self_tests, compile_entries};
use serinette::compile::{EntryFile, ImportOptions};
use serinette::{DType, Device, Error, Model, Session, SessionOptions, Tensor, TensorView};
use serinette_compiler::blob::Blob;
use serinette_compiler::{Data, GraphBuilder, compile};
use std::path::Path;

/// Pseudo-random numbers in (−1, 1).
fn random(seed: u64, n: usize) -> Vec<f32> {
    let mut s = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn near(found: &[f32], want: &[f32], what: &str) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}[{i}]: {a} instead of {b}");
    }
}

/// Every device that opens, with its name.
fn devices() -> Vec<(String, Device)> {
    Device::list().into_iter().map(|d| (d.id.clone(), Device::open(&d.id).unwrap())).collect()
}

/// `main(x [n, 6]) = x · (wᵀ · gain)` with `w` and `gain` known before a run; `train` adds to `gain`.
fn trained() -> Model {
    let mut b = GraphBuilder::new();
    let w: Vec<i8> = (0..30).map(|i| ((i * 37) % 41) as i8 - 20).collect();
    let w = b.weight("w", DType::I8, &[5, 6], Data::from_slice(&w)).unwrap();
    let gain = b.param("gain", DType::F32, &[5], Some(Data::from_slice(&random(5, 5)))).unwrap();
    let n = b.symbol("n", 1, 9, 1).unwrap();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[n.into(), 6.into()]).unwrap();
    let wide = b.cast("wide", w, DType::F32).unwrap();
    let turned = b.transpose("turned", wide, &[1, 0]).unwrap();
    let scaled = b.mul("scaled", turned, gain).unwrap();
    let y = b.matmul("y", x, scaled, None).unwrap();
    b.output("y", y).unwrap();
    b.entry("train").unwrap();
    let step = b.input("step", DType::F32, &[5.into()]).unwrap();
    let new = b.add("new", gain, step).unwrap();
    b.update(gain, new).unwrap();
    Model::from_bytes(compile(b.finish().unwrap(), &Default::default()).unwrap().bytes).unwrap()
}

fn check(session: &mut Session, gain: &[f32], n: usize, what: &str) {
    let x = random(n as u64, n * 6);
    let outputs = session.run("main", &[("x", TensorView::f32(&[n, 6], &x))]).unwrap();
    let found = outputs.named("y").unwrap().view().to_f32().unwrap();
    let weight = |row: usize, column: usize| f64::from(((row * 6 + column) * 37 % 41) as i8 - 20);
    let want = (0..n * 5).map(|i| {
        let (row, column) = (i / 5, i % 5);
        let sum: f64 = (0..6).map(|k| f64::from(x[row * 6 + k]) * weight(column, k)).sum();
        (sum * f64::from(gain[column])) as f32
    });
    near(&found, &want.collect::<Vec<_>>(), what);
}

#[test]
fn derived_values_follow_params_on_every_device() {
    let model = trained();
    assert!(model.program().entry("prepare").is_some());
    for (id, device) in devices() {
        let mut s = model.session(&device, &SessionOptions::default()).unwrap();
        let first = random(5, 5);
        assert_eq!(s.param("gain").unwrap().view().to_f32().unwrap(), first, "{id}");
        check(&mut s, &first, 3, &format!("{id} initial contents"));
        let set = random(6, 5);
        s.set_param("gain", &TensorView::f32(&[5], &set)).unwrap();
        // Other sizes, so that a GPU records anew as well.
        check(&mut s, &set, 4, &format!("{id} set"));
        check(&mut s, &set, 3, &format!("{id} set, sizes as before"));
        let step = random(7, 5);
        s.run("train", &[("step", TensorView::f32(&[5], &step))]).unwrap();
        let trained: Vec<f32> = set.iter().zip(&step).map(|(a, b)| a + b).collect();
        check(&mut s, &trained, 3, &format!("{id} written by an entry"));
        assert_eq!(s.param("gain").unwrap().view().to_f32().unwrap(), trained, "{id}");
        match s.param("gian") {
            Err(e @ Error::Name { .. }) => assert!(e.to_string().contains("'gain'"), "{e}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_derived_can_be_compared() {
    let model = trained();
    let mut s = model.session(&Device::Host, &SessionOptions::default()).unwrap();
    let x = random(1, 6);
    for _ in 0..2 {
        let mut steps = Vec::new();
        s.run_tapped("main", &[("x", TensorView::f32(&[1, 6], &x))], &mut |t| steps.push(t.step)).unwrap();
        // Those of `prepare` come first, whether they are up to date or not.
        let (_, prepare) = model.program().entry("prepare").unwrap();
        assert!(steps.len() > 1 && steps[0] == prepare.first_step, "{steps:?}");
    }
}

#[test]
fn params_without_contents_cannot_be_read() {
    let mut b = GraphBuilder::new();
    let p = b.param("p", DType::F32, &[2], None).unwrap();
    b.entry("main").unwrap();
    let y = b.add("y", p, p).unwrap();
    b.output("y", y).unwrap();
    let bytes = compile(b.finish().unwrap(), &Default::default()).unwrap().bytes;
    let model = Model::from_bytes(bytes).unwrap();
    let mut s = model.session(&Device::Host, &SessionOptions::default()).unwrap();
    assert!(matches!(s.param("p"), Err(Error::MissingParam { .. })));
    s.set_param("p", &TensorView::f32(&[2], &[1.5, -2.0])).unwrap();
    assert_eq!(s.param("p").unwrap().shape, [2]);
    let outputs = s.run("main", &[]).unwrap();
    assert_eq!(outputs.named("y").unwrap().view().to_f32().unwrap(), [3.0, -4.0]);
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/joint").join(name)).unwrap()
}

/// The joint model with a plan for all sizes and one for a batch of 1.
fn joint() -> Vec<u8> {
    let files = [EntryFile::new("main", file("joint.onnx")), EntryFile::new("match", file("match.onnx"))];
    let bounds = [("batch", 8), ("n", 16), ("rows", 8), ("weight_rows", 8)];
    let import = ImportOptions {
        bounds: bounds.map(|(n, most)| (n.to_owned(), (most, 1))).into(),
        states: vec![("state_in".into(), "state_out".into())],
        params: vec!["class_scale".into()],
        ..ImportOptions::default()
    };
    let one = Profile { name: "one".into(), bounds: [("batch".to_owned(), 1)].into(), ..Profile::desktop() };
    let options = CompileOptions { import, profiles: vec![one, Profile::desktop()], packing: None };
    compile_entries(&files, &options).unwrap().bytes
}

#[test]
fn the_smallest_plan_that_admits_the_sizes_is_taken() {
    let model = Model::from_bytes(joint()).unwrap();
    for parallel in [false, true] {
        let plan = |sizes: &[(&str, u64)]| model.plan_for(parallel, sizes).unwrap().0;
        assert_eq!((plan(&[]), plan(&[("batch", 2)]), plan(&[("batch", 1)])), (1, 1, 0));
        assert_eq!(plan(&[("rows", 3)]), 1, "the batch may be anything");
    }
    assert!(matches!(model.plan_for(true, &[("bacth", 1)]), Err(Error::Name { .. })));
    let mut s = model.session_for(&Device::Host, &SessionOptions::default(), &[("batch", 1)]).unwrap();
    let needs = |sizes: &[(&str, u64)]| model.requirements_for(&Device::Host, sizes).unwrap().arena;
    assert!(needs(&[("batch", 1)]) < needs(&[]));
    let x = random(2, 32);
    let mut run = |n: usize| {
        let shape = [n, 16];
        let x = TensorView::f32(&shape, &x[..n * 16]);
        let inputs = [("x", x), ("indices", TensorView::i32(&[1], &[3]))];
        s.run("main", &inputs).map(|o| o.len())
    };
    assert_eq!(run(1).unwrap(), 3);
    match run(2) {
        Err(Error::Shape { name, expected, found }) => {
            assert_eq!((name.as_str(), expected.as_str()), ("x", "[batch, 16] with batch = 1"));
            assert_eq!(found, [2, 16]);
        }
        other => panic!("{other:?}"),
    }
}

fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
    let v = TensorView::f32(shape, data);
    Tensor { dtype: v.dtype, shape: shape.to_vec(), bytes: v.bytes.to_vec() }
}

fn cases() -> Vec<SelfTestCase> {
    let indices = TensorView::i32(&[3], &[1, 9, 4]);
    let indices = Tensor { dtype: indices.dtype, shape: vec![3], bytes: indices.bytes.to_vec() };
    let case = |entry: &str, inputs: Vec<(&str, Tensor)>| SelfTestCase {
        entry: entry.into(),
        inputs: inputs.into_iter().map(|(n, t)| (n.to_owned(), t)).collect(),
        ..SelfTestCase::default()
    };
    vec![
        case("main", vec![("indices", indices), ("x", tensor(&[2, 16], &random(3, 32)))]),
        case(
            "match",
            vec![("query", tensor(&[4, 16], &random(4, 64))), ("row_weights", tensor(&[4], &random(5, 4)))],
        ),
    ]
}

#[test]
fn self_tests_pass_on_every_device() {
    let model = Model::from_bytes(add_self_tests(joint(), &cases()).unwrap()).unwrap();
    model.check_digests().unwrap();
    assert_eq!(model.self_tests(), 2);
    for (id, device) in devices() {
        let passed = model.run_self_tests(&device).unwrap_or_else(|e| panic!("{id}: {e}"));
        let found: Vec<_> = passed.iter().map(|p| (p.entry.as_str(), p.outputs)).collect();
        assert_eq!(found, [("main", 3), ("match", 2)], "{id}");
        assert!(passed.iter().all(|p| p.deviation <= p.tolerance && p.tolerance < 1.1e-4), "{passed:?}");
        assert!(passed[1].sizes.contains(&("rows".into(), 4)), "{:?}", passed[1].sizes);
    }
    // The vectors are no weights: no device needs them.
    let plain = Model::from_bytes(joint()).unwrap();
    for (_, device) in devices() {
        let weights = |m: &Model| m.requirements(&device).unwrap().weights;
        assert_eq!(weights(&model), weights(&plain));
    }
}

#[test]
fn a_self_test_that_fails_says_what_and_where() {
    let good = add_self_tests(joint(), &cases()).unwrap();
    // The last output of the second vector is `nearest`, four i32 numbers at the very end; `scores` lie before it.
    let spoil = |from_end: usize, bytes: &[u8]| {
        let mut blob = Blob::read(&good).unwrap();
        let data = blob.weight_data.last_mut().unwrap();
        let at = data.len() - from_end;
        data[at..at + bytes.len()].copy_from_slice(bytes);
        Model::from_bytes(blob.to_bytes()).unwrap().run_self_tests(&Device::Host)
    };
    match spoil(12, &77i32.to_le_bytes()) {
        Err(Error::SelfTest(d)) => {
            let found = (d.test, d.entry.as_str(), d.output.as_str(), d.element, d.expected, d.count);
            assert_eq!(found, (1, "match", "nearest", 1, 77.0, 1));
        }
        other => panic!("{other:?}"),
    }
    match spoil(16 + 4 * 10, &1e3f32.to_le_bytes()) {
        Err(e @ Error::SelfTest(_)) => {
            let text = e.to_string();
            for part in ["self-test 1", "'match'", "'scores'", "element 30", "expected 1000"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        other => panic!("{other:?}"),
    }
    // Half of the vector.
    let mut blob = Blob::read(&good).unwrap();
    let data = blob.weight_data.last_mut().unwrap();
    data.truncate(data.len() - 8);
    let short = Model::from_bytes(blob.to_bytes()).unwrap().run_self_tests(&Device::Host);
    assert!(matches!(short, Err(Error::Blob(_))), "{short:?}");
}

#[test]
fn self_tests_must_agree_with_what_is_known() {
    let mut cases = cases();
    cases[1].expected = vec![("scores".into(), tensor(&[4, 10], &random(1, 40)))];
    assert!(matches!(add_self_tests(joint(), &cases), Err(Error::SelfTest(_))));
    cases[1].expected = vec![("scorse".into(), tensor(&[4, 10], &random(1, 40)))];
    assert!(matches!(add_self_tests(joint(), &cases), Err(Error::Name { .. })));
    cases[1].entry = "mtach".into();
    assert!(matches!(add_self_tests(joint(), &cases), Err(Error::Name { .. })));
    assert!(add_self_tests(vec![1; 300], &cases[..1]).is_err());
}

#[test]
fn a_blob_that_is_read_is_written_the_same() {
    for bytes in [joint(), add_self_tests(joint(), &cases()).unwrap()] {
        assert_eq!(Blob::read(&bytes).unwrap().to_bytes(), bytes);
    }
}

#[test]
fn metadata_is_found_by_its_key() {
    let mut b = GraphBuilder::new();
    b.metadata("labels", "cat\ndog");
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[2.into()]).unwrap();
    let y = b.relu("y", x).unwrap();
    b.output("y", y).unwrap();
    let model = Model::from_bytes(compile(b.finish().unwrap(), &Default::default()).unwrap().bytes).unwrap();
    assert_eq!(model.metadata("labels"), Some("cat\ndog"));
    assert_eq!(model.metadata("label"), None);
}
