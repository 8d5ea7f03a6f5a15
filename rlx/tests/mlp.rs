//! A two-layer perceptron through RLX's own session.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Mlp, TARGETS, Weights, bits, devices, random};
use rlx_ir::DType;
use rlx_runtime::Session;
use serinette::{Model, SessionOptions, TensorView};
use serinette_compiler::Profile;
use serinette_rlx::{BlobOptions, Target, to_blob, to_blob_with};

const SIZES: [Mlp; 4] =
    [Mlp::new(7, 13, 29, 5), Mlp::new(1, 1, 1, 1), Mlp::new(3, 131, 67, 33), Mlp::new(65, 17, 9, 70)];

#[test]
fn runs_with_params_set_after_compile_and_set_again() {
    for (device, target) in devices() {
        assert!(rlx_runtime::is_available(device));
        for mlp in SIZES {
            let what = format!("{target:?}");
            let mut compiled = Session::new(device).compile(mlp.graph());
            let (first, second, x) = (mlp.weights(1), mlp.weights(100), mlp.x(7));
            first.set(&mut compiled);
            let y = compiled.run(&[("x", &x)]);
            assert_eq!(y.len(), 1);
            mlp.check(&what, &y[0], &x, &first);
            assert_eq!(bits(&compiled.run(&[("x", &x)])[0]), bits(&y[0]), "{what}: two runs, other bits");
            assert_eq!(compiled.host_execution_summary(), None, "{what}: steps on the host");

            second.set(&mut compiled);
            let x2 = mlp.x(8);
            mlp.check(&what, &compiled.run(&[("x", &x2)])[0], &x2, &second);
            // Only one of them anew.
            let mixed = Weights { b1: first.b1.clone(), ..second.clone() };
            compiled.set_param("b1", &first.b1);
            mlp.check(&what, &compiled.run(&[("x", &x2)])[0], &x2, &mixed);
        }
    }
}

#[test]
fn clones_have_their_own_params() {
    let mlp = Mlp::new(7, 13, 29, 5);
    for (device, target) in devices() {
        let mut original = Session::new(device).compile(mlp.graph());
        assert!(original.capabilities().clone && original.capabilities().typed_io);
        let all = [mlp.weights(10), mlp.weights(20), mlp.weights(30)];
        all[0].set(&mut original);
        // One clone from before the first run and one from after it.
        let mut early = original.clone();
        let x = mlp.x(1);
        mlp.check("original", &original.run(&[("x", &x)])[0], &x, &all[0]);
        let mut late = original.clone();
        mlp.check("clone with the same weights", &early.run(&[("x", &x)])[0], &x, &all[0]);
        all[1].set(&mut early);
        all[2].set(&mut late);
        for round in 0..3 {
            let x = mlp.x(round + 40);
            for (c, w) in [&mut original, &mut early, &mut late].into_iter().zip(&all) {
                mlp.check(&format!("{target:?} round {round}"), &c.run(&[("x", &x)])[0], &x, w);
            }
        }
        // A clone outlives what it was cloned from, and runs on another thread.
        drop(original);
        drop(early);
        let (x, w) = (x.clone(), all[2].clone());
        std::thread::spawn(move || mlp.check("thread", &late.run(&[("x", &x)])[0], &x, &w)).join().unwrap();
    }
}

#[test]
fn what_was_not_given_is_zero() {
    let mlp = Mlp::new(3, 11, 19, 6);
    let w = mlp.weights(3);
    for (device, target) in devices() {
        let what = format!("{target:?}");
        let mut compiled = Session::new(device).compile(mlp.graph());
        for (name, data) in w.named().into_iter().filter(|(n, _)| *n != "w1") {
            compiled.set_param(name, data);
        }
        let x = mlp.x(2);
        let zero = Weights { w1: vec![0.0; w.w1.len()], ..w.clone() };
        mlp.check(&what, &compiled.run(&[("x", &x)])[0], &x, &zero);
        assert!(compiled.check_bindings(&["x"]).is_err(), "RLX reports the missing param when asked");
        w.set(&mut compiled);
        mlp.check(&what, &compiled.run(&[("x", &x)])[0], &x, &w);
        // After a run with other numbers: no stale input is left in its place.
        mlp.check(&what, &compiled.run(&[])[0], &vec![0.0; x.len()], &w);
        // Params that the graph does not have, as in a checkpoint, are no error.
        compiled.set_param("of another model", &[1.0]);
        mlp.check(&what, &compiled.run(&[("x", &x)])[0], &x, &w);
    }
}

#[test]
fn typed_data_are_converted() {
    let mlp = Mlp::new(5, 9, 14, 3);
    // Numbers that f16 and f64 hold, so that all types give the same result.
    let coarse = |v: &[f32]| -> Vec<f32> { v.iter().map(|x| (x * 64.0).round() / 64.0).collect() };
    let (x, mut w) = (coarse(&mlp.x(5)), mlp.weights(50));
    w.w1 = coarse(&w.w1);
    for (device, target) in devices() {
        let mut compiled = Session::new(device).compile(mlp.graph());
        w.set(&mut compiled);
        let f32_bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        let plain = compiled.run_typed(&[("x", &f32_bytes, DType::F32)]);
        assert_eq!(plain[0].1, DType::F32);
        let y: Vec<f32> = plain[0].0.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
        mlp.check(&format!("{target:?}"), &y, &x, &w);

        let f64_bytes: Vec<u8> = x.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
        assert_eq!(compiled.run_typed(&[("x", &f64_bytes, DType::F64)]), plain);
        let halves: Vec<u8> = w.w1.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
        compiled.set_param("w1", &vec![0.5; w.w1.len()]);
        compiled.set_param_typed("w1", &halves, DType::F16);
        assert_eq!(compiled.run_typed(&[("x", &f32_bytes, DType::F32)]), plain);

        // A part of a param: its last number.
        let last = w.w1.len() - 1;
        let mut other = w.clone();
        other.w1[last] = -3.5;
        assert!(compiled.set_param_range("w1", last * 4, &(-3.5f32).to_le_bytes()));
        assert!(!compiled.set_param_range("w1", last * 4 + 1, &[0; 4]), "past the end");
        mlp.check("range", &compiled.run(&[("x", &x)])[0], &x, &other);
    }
}

#[test]
fn wrong_inputs_are_named() {
    let mlp = Mlp::new(2, 3, 4, 5);
    for (device, _) in devices() {
        let mut compiled = Session::new(device).compile(mlp.graph());
        let short = compiled.try_run(&[("x", &[0.0; 5])]).unwrap_err().to_string();
        assert!(short.contains("`x`") && short.contains('5') && short.contains('6'), "{short}");
        let unknown = compiled.try_run(&[("y", &[0.0; 6])]).unwrap_err().to_string();
        assert!(unknown.contains("`y`"), "{unknown}");
    }
}

#[test]
fn the_saved_blob_gives_the_same_bits() {
    let mlp = Mlp::new(7, 13, 29, 5);
    let (w, x) = (mlp.weights(4), mlp.x(4));
    let shapes: [(&str, &[usize]); 4] = [("w1", &[13, 29]), ("b1", &[29]), ("w2", &[29, 5]), ("b2", &[5])];
    let blob = to_blob(&mlp.graph()).unwrap();
    assert_eq!(blob, to_blob(&mlp.graph()).unwrap(), "the same graph, other bytes");
    devices();
    for (device, target) in TARGETS {
        let mut compiled = Session::new(device).compile(mlp.graph());
        w.set(&mut compiled);
        let expected = compiled.run(&[("x", &x)]);

        let model = Model::from_bytes(blob.clone()).unwrap();
        model.check_digests().unwrap();
        let name = match target {
            Target::Host => "host",
            Target::Vulkan => "vulkan",
            Target::Wgpu => "wgpu",
        };
        let device = serinette::Device::open(name).unwrap();
        let mut session = model.session(&device, &SessionOptions::default()).unwrap();
        let missing = session.run("main", &[("x", TensorView::f32(&[7, 13], &x))]).map(|_| ()).unwrap_err();
        assert!(matches!(missing, serinette::Error::MissingParam { .. }), "{missing}");
        for (name, data) in w.named() {
            let shape = shapes.iter().find(|(n, _)| *n == name).unwrap().1;
            session.set_param(name, &TensorView::f32(shape, data)).unwrap();
        }
        let outputs = session.run("main", &[("x", TensorView::f32(&[7, 13], &x))]).unwrap();
        let y = outputs.named("output0").unwrap();
        assert_eq!(y.shape(), [7, 5]);
        assert_eq!(bits(&y.view().to_f32().unwrap()), bits(&expected[0]), "{target:?}");
    }
}

#[test]
fn a_blob_for_the_edge_brings_its_weights() {
    let mlp = Mlp::new(1, 21, 10, 3);
    let (w, x) = (mlp.weights(6), random(9, 21));
    let bytes = |v: &[f32]| -> Vec<u8> { v.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let weights = w.named().into_iter().map(|(n, v)| (n.into(), bytes(v))).collect();
    let options = BlobOptions { profiles: vec![Profile::mcu()], weights };
    let model = Model::from_bytes(to_blob_with(&mlp.graph(), &options).unwrap()).unwrap();
    let mut session = model.session(&serinette::Device::Host, &SessionOptions::default()).unwrap();
    let outputs = session.run("main", &[("x", TensorView::f32(&[1, 21], &x))]).unwrap();
    mlp.check("edge", &outputs.get(0).unwrap().view().to_f32().unwrap(), &x, &w);

    let mut wrong = options.clone();
    wrong.weights.insert("w3".into(), Vec::new());
    let e = to_blob_with(&mlp.graph(), &wrong).unwrap_err().to_string();
    assert!(e.contains("w3") && e.contains("w1"), "{e}");
    let mut short = options;
    short.weights.insert("b1".into(), vec![0; 39]);
    let e = to_blob_with(&mlp.graph(), &short).unwrap_err().to_string();
    assert!(e.contains("b1") && e.contains("39") && e.contains("40"), "{e}");
}
