//! Products and sums for each channel go into the convolution before them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session};
use serinette_compiler::{CompileOptions, Data, GraphBuilder, compile};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::conv::{Conv2d, Geometry};

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + seed * 11) % 53) as f32 / 16.0 - 1.5).collect()
}

/// Builds `relu(((conv(x, w) − m) / d) · s + t)`; `shared` lets something else read the convolution too.
fn run(shared: bool, vector: bool) -> (Vec<&'static str>, Vec<f32>, Vec<f32>) {
    let (c, o, h) = (3u64, 4u64, 5u64);
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[2.into(), c.into(), h.into(), h.into()]).unwrap();
    let w = b.weight("w", DType::F32, &[o, c, 3, 3], Data::from_slice(&numbers(108, 1))).unwrap();
    let bias = b.weight("b", DType::F32, &[o], Data::from_slice(&numbers(4, 2))).unwrap();
    let geometry = Geometry { pads: [1; 4], ..Geometry::default() };
    let y = b.conv2d("conv", Conv2d { geometry, groups: 1, activation: 0 }, x, w, Some(bias)).unwrap();
    // A vector for the channels, or one for the columns, which must stay.
    let dims = if vector { vec![o, 1, 1] } else { vec![h] };
    let n = dims.iter().product::<u64>() as usize;
    let constants: Vec<_> = (3..7)
        .map(|seed| {
            let x: Vec<f32> = numbers(n, seed).iter().map(|x| x + 2.0).collect();
            b.constant(DType::F32, &dims, Data::from_slice(&x)).unwrap()
        })
        .collect();
    let mut z = y;
    for (op, c) in [&binary::SUB, &binary::DIV, &binary::MUL, &binary::ADD].into_iter().zip(&constants) {
        z = b.op(op.name, op, Binary::default(), &[z, *c]).unwrap();
    }
    let z = b.relu("relu", z).unwrap();
    b.output("z", z).unwrap();
    if shared {
        b.output("y", y).unwrap();
    }
    let compiled = compile(b.finish().unwrap(), &CompileOptions::default()).unwrap();
    let mut s = Session::new(&compiled.bytes);
    let x = numbers(2 * 75, 8);
    let got = s.run("main", &[("x", Array::new(&[2, 3, 5, 5], &x))]).outputs["z"].f32();

    let (w, bias) = (numbers(108, 1), numbers(4, 2));
    let at = |n: usize, c: usize, i: i64, j: i64| {
        let inside = (0..5).contains(&i) && (0..5).contains(&j);
        if inside { f64::from(x[((n * 3 + c) * 5 + i as usize) * 5 + j as usize]) } else { 0.0 }
    };
    let mut want = Vec::new();
    for (n, o, i, j) in (0..200).map(|k| (k / 100, k / 25 % 4, k / 5 % 5, k % 5)) {
        let mut sum = f64::from(bias[o]);
        for t in 0..27 {
            let (c, di, dj) = (t / 9, t / 3 % 3, t % 3);
            sum += f64::from(w[o * 27 + t]) * at(n, c, (i + di) as i64 - 1, (j + dj) as i64 - 1);
        }
        let k = if vector { o } else { j };
        let v = |seed| f64::from(numbers(k + 1, seed)[k] + 2.0);
        want.push((((sum - v(3)) / v(4)) * v(5) + v(6)).max(0.0) as f32);
    }
    (s.ops(), got, want)
}

#[test]
fn chains_go_into_the_convolution() {
    for (shared, vector, ops) in [
        (false, true, vec!["Conv2d"]),
        (true, true, vec!["Conv2d", "Sub", "Div", "Mul", "Add"]),
        (false, false, vec!["Conv2d", "Sub", "Div", "Mul", "Add"]),
    ] {
        let (found, got, want) = run(shared, vector);
        assert_eq!(found, ops, "shared {shared}, vector {vector}");
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 2e-4 * (1.0 + w.abs()), "{g} {w}");
        }
        assert!(got.iter().any(|g| *g > 0.5) && got.contains(&0.0));
    }
}

/// `relu(conv_transpose(x, w) · s + t)` in two groups, or a convolution of one axis.
#[test]
fn other_convolutions_take_them_too() {
    use serinette_core::op::conv_transpose::{CONV_TRANSPOSE, ConvTranspose};
    use serinette_core::op::spatial::Spatial;
    // x [1, 4, 3], w [4, 3, 2]: groups of two channels in, three out; stride 2, so that y is [1, 6, 6].
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[1.into(), 4.into(), 3.into()]).unwrap();
    let w = b.weight("w", DType::F32, &[4, 3, 2], Data::from_slice(&numbers(24, 1))).unwrap();
    let spatial = Spatial { strides: [1, 1, 2], ..Spatial::PLAIN };
    let attrs = ConvTranspose { spatial, output_padding: [0; 3], groups: 2, activation: 0, reserved: 0 };
    let y = b.op("conv", &CONV_TRANSPOSE, attrs, &[x, w]).unwrap();
    let s = b.constant(DType::F32, &[1, 6, 1], Data::from_slice(&numbers(6, 2))).unwrap();
    let t = b.constant(DType::F32, &[6, 1], Data::from_slice(&numbers(6, 3))).unwrap();
    let y = b.mul("scaled", y, s).unwrap();
    let y = b.add("shifted", y, t).unwrap();
    let y = b.relu("y", y).unwrap();
    b.output("y", y).unwrap();
    let mut session = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
    assert_eq!(session.ops(), ["ConvTranspose"]);
    let x = numbers(12, 4);
    let found = session.run("main", &[("x", Array::new(&[1, 4, 3], &x))]).outputs["y"].f32();
    let (w, s, t) = (numbers(24, 1), numbers(6, 2), numbers(6, 3));
    let want = |o: usize, p: usize| {
        let (group, within) = (o / 3, o % 3);
        let sum: f64 = (0..2)
            .map(|c| {
                let c = group * 2 + c;
                f64::from(x[c * 3 + p / 2]) * f64::from(w[(c * 3 + within) * 2 + p % 2])
            })
            .sum();
        (sum * f64::from(s[o]) + f64::from(t[o])).max(0.0)
    };
    assert!(found.iter().any(|y| *y > 0.5) && found.contains(&0.0));
    for (i, y) in found.iter().enumerate() {
        let want = want(i / 6, i % 6);
        assert!((f64::from(*y) - want).abs() < 1e-5 * (1.0 + want), "{i}: {y} {want}");
    }
}

/// A convolution of one axis lies between reshapes.
#[test]
fn reshapes_are_no_obstacle() {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[2.into(), 3.into(), 7.into()]).unwrap();
    let lifted = b.reshape("lifted", x, &[2.into(), 3.into(), 1.into(), 7.into()]).unwrap();
    let w = b.weight("w", DType::F32, &[4, 3, 1, 3], Data::from_slice(&numbers(36, 1))).unwrap();
    let attrs = Conv2d { geometry: Geometry::default(), groups: 1, activation: 0 };
    let y = b.conv2d("conv", attrs, lifted, w, None).unwrap();
    let y = b.reshape("flat", y, &[2.into(), 4.into(), 5.into()]).unwrap();
    let t = b.constant(DType::F32, &[4, 1], Data::from_slice(&numbers(4, 3))).unwrap();
    let y = b.add("shifted", y, t).unwrap();
    let y = b.relu("y", y).unwrap();
    b.output("y", y).unwrap();
    let mut session = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
    // A view that is a result is copied.
    assert_eq!(session.ops(), ["Conv2d", "Copy"]);
    let x = numbers(42, 4);
    let found = session.run("main", &[("x", Array::new(&[2, 3, 7], &x))]).outputs["y"].f32();
    let (w, t) = (numbers(36, 1), numbers(4, 3));
    for (i, y) in found.iter().enumerate() {
        let (n, o, p) = (i / 20, i / 5 % 4, i % 5);
        let sum: f64 =
            (0..9).map(|k| f64::from(x[n * 21 + k / 3 * 7 + p + k % 3]) * f64::from(w[o * 9 + k])).sum();
        let want = (sum + f64::from(t[o])).max(0.0);
        assert!((f64::from(*y) - want).abs() < 1e-5 * (1.0 + want), "{i}: {y} {want}");
    }
    assert!(found.iter().any(|y| *y > 0.5) && found.contains(&0.0));
}
