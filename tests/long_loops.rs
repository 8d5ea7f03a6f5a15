//! Loops on GPUs that are too long for one submission, or whose trip count does not outlast its slot.
#![cfg(all(feature = "vulkan", feature = "wgpu", feature = "compiler"))]
#![allow(clippy::unwrap_used)]

use serinette::{Device, Model, SessionOptions, TensorView};
use serinette_compiler::{CompileOptions, GraphBuilder, LoopSpec, Trips, compile};
use serinette_core::DType;

const WIDTH: usize = 5;

/// `rows` trips of `acc ← acc · decay + x[trip]`, at most as many as `count` says where there is one.
fn model(rows: usize, counted: bool) -> Model {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let (n, width) = (rows as u64, WIDTH as u64);
    let x = b.input("x", DType::F32, &[n.into(), width.into()]).unwrap();
    let start = b.input("start", DType::F32, &[width.into()]).unwrap();
    let decay = b.input("decay", DType::F32, &[width.into()]).unwrap();
    let count = counted.then(|| b.input("count", DType::I32, &[]).unwrap());
    let spec = LoopSpec {
        name: "filter",
        trips: Trips { most: n.into(), count },
        condition: None,
        initial: &[start],
    };
    let out = b
        .loop_(spec, |b, trip, c| {
            let i = b.size_scalar("trip", trip)?;
            let row = b.gather("row", x, i, 0)?;
            let kept = b.mul("kept", c[0], decay)?;
            Ok(vec![b.add("acc", kept, row)?])
        })
        .unwrap();
    b.output("y", out[0]).unwrap();
    let compiled = compile(b.finish().unwrap(), &CompileOptions::default()).unwrap();
    Model::from_bytes(compiled.bytes).unwrap()
}

fn run(model: &Model, device: &str, rows: usize, count: Option<i32>) -> Vec<f32> {
    let device = Device::open(device).unwrap();
    let mut session = model.session(&device, &SessionOptions::default()).unwrap();
    let x: Vec<f32> = (0..rows * WIDTH).map(|i| ((i * 37 % 101) as f32 - 50.0) / 16.0).collect();
    let (start, decay) = ([0.5, -1.0, 2.0, 3.5, -4.0], [0.5, 0.75, -0.5, 0.25, 0.875]);
    let shape = [rows, WIDTH];
    let mut inputs = vec![
        ("x", TensorView::f32(&shape, &x)),
        ("start", TensorView::f32(&[WIDTH], &start)),
        ("decay", TensorView::f32(&[WIDTH], &decay)),
    ];
    let count = count.map(|c| [c]);
    inputs.extend(count.as_ref().map(|c| ("count", TensorView::i32(&[], c))));
    // Twice: the recording is used again.
    session.run("main", &inputs).unwrap();
    session.run("main", &inputs).unwrap().named("y").unwrap().view().to_f32().unwrap()
}

/// The same in 64 bits.
fn want(rows: usize, trips: usize) -> Vec<f64> {
    let mut acc = [0.5, -1.0, 2.0, 3.5, -4.0];
    for t in 0..trips.min(rows) {
        for (c, d) in [0.5, 0.75, -0.5, 0.25, 0.875].iter().enumerate() {
            acc[c] = acc[c] * d + (((t * WIDTH + c) * 37 % 101) as f64 - 50.0) / 16.0;
        }
    }
    acc.to_vec()
}

fn check(rows: usize, count: Option<i32>) {
    let model = model(rows, count.is_some());
    let trips = count.map_or(rows, |c| usize::try_from(c).unwrap_or(0));
    let want = want(rows, trips);
    for device in ["host", "vulkan", "wgpu"] {
        let got = run(&model, device, rows, count);
        for (g, w) in got.iter().zip(&want) {
            // The decay forgets: errors do not pile up.
            assert!(
                (f64::from(*g) - w).abs() < 1e-5 * (1.0 + w.abs()),
                "{device}, {rows} rows: {got:?}, {want:?}"
            );
        }
    }
}

#[test]
fn loops_longer_than_a_submission() {
    // Four dispatches a trip and a barrier between them: 24,000 commands.
    check(3000, None);
}

#[test]
fn counted_loops() {
    for count in [-3, 0, 1, 40, 1000] {
        check(60, Some(count));
    }
}

#[test]
fn counted_loops_longer_than_gates_reach() {
    check(2500, Some(2111));
}
