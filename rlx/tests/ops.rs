//! Every op that is taken, and what happens to the others.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Mlp, bits, devices, f32s, random};
use rlx_driver::Device;
use rlx_ir::op::{Activation, BinaryOp, PadMode};
use rlx_ir::{DType, Dim, Graph, Op, Shape};
use rlx_runtime::{CompileError, CompileOptions, CompiledGraph, Session};
use serinette_rlx::{Error, Target, register_as, to_blob};

/// Compiles a graph for every target and compares its outputs, run twice, with the expected ones within `tolerance`
/// of the larger of 1 and their magnitude.
fn expect(graph: &Graph, inputs: &[(&str, &[f32])], expected: &[Vec<f64>], tolerance: f64) {
    for (device, target) in devices() {
        let mut compiled = Session::new(device).compile(graph.clone());
        check(&mut compiled, &format!("{} on {target:?}", graph.name), inputs, expected, tolerance);
    }
}

fn check(
    compiled: &mut CompiledGraph,
    what: &str,
    inputs: &[(&str, &[f32])],
    expected: &[Vec<f64>],
    tolerance: f64,
) {
    let found = compiled.run(inputs);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (o, (f, e)) in found.iter().zip(expected).enumerate() {
        assert_eq!(f.len(), e.len(), "{what}, output {o}");
        for (i, (f, e)) in f.iter().zip(e).enumerate() {
            let error = (f64::from(*f) - e).abs();
            let same = (f.is_nan() && e.is_nan()) || f64::from(*f) == *e;
            assert!(
                same || error <= tolerance * e.abs().max(1.0),
                "{what}, output {o} [{i}]: {f}, expected {e}"
            );
        }
    }
    let again = compiled.run(inputs);
    for (a, b) in found.iter().zip(&again) {
        assert_eq!(bits(a), bits(b), "{what}: two runs, other bits");
    }
}

fn wide(v: &[f32]) -> Vec<f64> {
    v.iter().map(|x| f64::from(*x)).collect()
}

/// `[rows, k] · [k, n]`.
fn product(a: &[f32], b: &[f32], k: usize, n: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for row in a.chunks(k) {
        for j in 0..n {
            y.push(row.iter().enumerate().map(|(i, x)| f64::from(*x) * f64::from(b[i * n + j])).sum());
        }
    }
    y
}

#[test]
fn fused_products() {
    // 60 products of numbers below 1: an error below 62 · 60 · 2⁻²⁴.
    let (m, k, n) = (5, 60, 7);
    let (x, w, b) = (random(1, m * k), random(2, k * n), random(3, n));
    let plain = product(&x, &w, k, n);
    for activation in [None, Some(Activation::Relu)] {
        for bias_dims in [&[n][..], &[1, n]] {
            let mut g = Graph::new("dense");
            let xs = g.input("x", f32s(&[m, k]));
            let (ws, bs) = (g.input("w", f32s(&[k, n])), g.input("b", f32s(bias_dims)));
            let y = g.add_node(Op::FusedMatMulBiasAct { activation }, vec![xs, ws, bs], f32s(&[m, n]));
            g.set_outputs(vec![y]);
            let expected: Vec<f64> = plain
                .iter()
                .enumerate()
                .map(|(i, v)| v + f64::from(b[i % n]))
                .map(|v| if activation.is_some() { v.max(0.0) } else { v })
                .collect();
            expect(&g, &[("x", &x), ("w", &w), ("b", &b)], &[expected], 2.3e-4);
        }
    }
}

#[test]
fn products_of_batches() {
    let (batch, m, k, n) = (3, 4, 11, 5);
    let x = random(4, batch * m * k);
    // A left without batch, one weight for all, a weight with batch axes of length 1, a weight for each.
    type Case<'a> = (&'a [usize], &'a [usize], &'a [usize], usize);
    let cases: [Case<'_>; 4] = [
        (&[batch, m, k], &[k, n], &[batch, m, n], 1),
        (&[batch, m, k], &[1, k, n], &[batch, m, n], 1),
        (&[batch * m, k], &[1, k, n], &[1, batch * m, n], 1),
        (&[batch, m, k], &[batch, k, n], &[batch, m, n], batch),
    ];
    for (a, b, y_dims, matrices) in cases {
        let w = random(5, matrices * k * n);
        let mut g = Graph::new("batch");
        let (xs, ws) = (g.input("x", f32s(a)), g.input("w", f32s(b)));
        let y = g.matmul(xs, ws, f32s(y_dims));
        g.set_outputs(vec![y]);
        let expected = (0..matrices)
            .flat_map(|i| {
                let (rows, cols) = (x.len() / matrices, k * n);
                product(&x[i * rows..(i + 1) * rows], &w[i * cols..(i + 1) * cols], k, n)
            })
            .collect();
        expect(&g, &[("x", &x), ("w", &w)], &[expected], 1e-5);
    }
}

#[test]
fn elementwise_with_broadcasting_and_special_numbers() {
    let (rows, cols) = (3, 7);
    let mut x = random(6, rows * cols);
    (x[0], x[5], x[9], x[20]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0);
    let (column, row) = (random(7, rows), random(8, cols));
    let mut g = Graph::new("elementwise");
    let xs = g.input("x", f32s(&[rows, cols]));
    let (cs, rs) = (g.input("column", f32s(&[rows, 1])), g.input("row", f32s(&[cols])));
    let scale = g.add_node(Op::Constant { data: 2.5f32.to_le_bytes().to_vec() }, vec![], f32s(&[]));
    let a = g.binary(BinaryOp::Add, xs, cs, f32s(&[rows, cols]));
    let m = g.binary(BinaryOp::Mul, a, rs, f32s(&[rows, cols]));
    let s = g.binary(BinaryOp::Mul, scale, m, f32s(&[rows, cols]));
    let s = g.add_node(Op::StopGradient, vec![s], f32s(&[rows, cols]));
    let r = g.activation(Activation::Relu, s, f32s(&[rows, cols]));
    g.set_outputs(vec![r, a]);
    let sums: Vec<f64> = x.iter().enumerate().map(|(i, v)| f64::from(v + column[i / cols])).collect();
    let result = sums
        .iter()
        .enumerate()
        .map(|(i, v)| v * f64::from(row[i % cols]) * 2.5)
        .map(|v| if v > 0.0 || v.is_nan() { v } else { 0.0 })
        .collect();
    // Two roundings after the sum, which is exact here.
    expect(&g, &[("x", &x), ("column", &column), ("row", &row)], &[result, sums], 2.5e-7);
}

#[test]
fn movement() {
    let x = random(9, 2 * 3 * 5);
    let mut g = Graph::new("movement");
    let xs = g.input("x", f32s(&[2, 3, 5]));
    let t = g.add_node(Op::Transpose { perm: vec![2, 0, 1] }, vec![xs], f32s(&[5, 2, 3]));
    let r = g.add_node(Op::Reshape { new_shape: vec![-1, 6] }, vec![t], f32s(&[5, 6]));
    let n = g.add_node(Op::Narrow { axis: 0, start: 1, len: 3 }, vec![r], f32s(&[3, 6]));
    let s = g.add_node(Op::Slice { axis: 1, start: 1, len: 2, step: 3 }, vec![r], f32s(&[5, 2]));
    let c = g.add_node(Op::Concat { axis: 0 }, vec![n, r, n], f32s(&[11, 6]));
    let many = g.add_node(Op::Concat { axis: 1 }, vec![s; 19], f32s(&[5, 38]));
    g.set_outputs(vec![c, s, many]);
    let at = |i: usize, j: usize| f64::from(x[j * 5 + i]);
    let rows = |from: usize, n: usize| (from..from + n).flat_map(move |i| (0..6).map(move |j| at(i, j)));
    let joined = rows(1, 3).chain(rows(0, 5)).chain(rows(1, 3)).collect();
    let sliced = (0..5).flat_map(|i| [at(i, 1), at(i, 4)]).collect();
    let repeated = (0..5).flat_map(|i| [at(i, 1), at(i, 4)].repeat(19)).collect();
    expect(&g, &[("x", &x)], &[joined, sliced, repeated], 0.0);
}

#[test]
fn softmax_along_each_axis() {
    let x: Vec<f32> = random(10, 4 * 9).iter().map(|v| v * 30.0).collect();
    for axis in [-2, -1, 0, 1] {
        let mut g = Graph::new("softmax");
        let xs = g.input("x", f32s(&[4, 9]));
        let y = g.add_node(Op::Softmax { axis }, vec![xs], f32s(&[4, 9]));
        g.set_outputs(vec![y]);
        let group = |i: usize| if axis.rem_euclid(2) == 1 { i / 9 } else { i % 9 };
        let e: Vec<f64> = x.iter().map(|v| f64::from(*v).exp()).collect();
        let sum = |of| -> f64 { e.iter().enumerate().filter(|(i, _)| group(*i) == of).map(|(_, v)| v).sum() };
        let expected = e.iter().enumerate().map(|(i, v)| v / sum(group(i))).collect();
        // exp of an f32 difference of up to 60: 60 · 2⁻²⁴ from the difference, the rest from exp and the sum.
        expect(&g, &[("x", &x)], &[expected], 1e-5);
    }
}

#[test]
fn other_element_types() {
    let x = [0.0, 1.5, -2.25, 300.0, f32::NAN, -1e10, 7.0];
    let n = x.len();
    let of = |t| Shape::new(&[n], t);
    let mut g = Graph::new("types");
    let xs = g.input("x", f32s(&[n]));
    let is = g.input("i", of(DType::I32));
    let hs = g.input("h", of(DType::F16));
    let i = g.add_node(Op::Cast { to: DType::I32 }, vec![xs], of(DType::I32));
    let sum = g.binary(BinaryOp::Add, i, is, of(DType::I32));
    let b = g.add_node(Op::Cast { to: DType::Bool }, vec![xs], of(DType::Bool));
    let h = g.binary(BinaryOp::Mul, hs, hs, of(DType::F16));
    let back = g.add_node(Op::Cast { to: DType::F32 }, vec![h], of(DType::F32));
    g.set_outputs(vec![sum, b, h, back]);
    let (int, half) =
        ([5.0, -6.0, 7.0, 16_777_216.0, 1.0, 0.0, -7.0], [0.5, 3.0, -0.1, 300.0, 1e-4, 2.0, 9.0]);
    let sums = vec![5.0, -5.0, 5.0, 16_777_516.0, 1.0, -2_147_483_648.0, 0.0];
    let bools = vec![0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    let squares: Vec<f64> = half
        .iter()
        .map(|v| half::f16::from_f32(*v).to_f32())
        .map(|v| half::f16::from_f32(v * v).to_f64())
        .collect();
    expect(&g, &[("x", &x), ("i", &int), ("h", &half)], &[sums, bools, squares.clone(), squares], 0.0);

    for (device, _) in devices() {
        let mut compiled = Session::new(device).compile(g.clone());
        let types: Vec<DType> = compiled.run_typed(&[]).iter().map(|o| o.1).collect();
        assert_eq!(types, [DType::I32, DType::Bool, DType::F16, DType::F32]);
        // What f32 cannot hold goes through unchanged.
        let big: Vec<u8> = [16_777_217i32, 3, 4, 5, 6, 7, 8].iter().flat_map(|v| v.to_le_bytes()).collect();
        let out = compiled.run_typed(&[("i", &big, DType::I32)]);
        assert_eq!(out[0].0, big);
    }
}

#[test]
fn outputs_keep_their_order_whatever_they_are() {
    let (x, w) = (random(11, 6), random(12, 6));
    let mut g = Graph::new("outputs");
    let (xs, ws) = (g.input("x", f32s(&[2, 3])), g.param("w", f32s(&[2, 3])));
    g.input("never read", f32s(&[4]));
    g.param("not needed", f32s(&[9]));
    let flat = g.add_node(Op::Reshape { new_shape: vec![6] }, vec![xs], f32s(&[6]));
    let sum = g.binary(BinaryOp::Add, xs, ws, f32s(&[2, 3]));
    // An unknown op that no output needs is no obstacle.
    g.activation(Activation::Erf, sum, f32s(&[2, 3]));
    g.set_outputs(vec![sum, xs, ws, sum, flat, xs]);
    g.name_output(3, "output0");
    let sums: Vec<f64> = x.iter().zip(&w).map(|(a, b)| f64::from(a + b)).collect();
    let expected = [sums.clone(), wide(&x), wide(&w), sums, wide(&x), wide(&x)];
    for (device, target) in devices() {
        let mut compiled = Session::new(device).compile(g.clone());
        compiled.set_param("w", &w);
        compiled.set_param("not needed", &[1.0; 9]);
        check(&mut compiled, &format!("{target:?}"), &[("never read", &[0.0; 4]), ("x", &x)], &expected, 0.0);
        assert_eq!(compiled.run_read_outputs(&[("x", &x)], Some(&[2])), std::slice::from_ref(&w));
        let raw = compiled.run_raw(&[("x", &x)]);
        assert_eq!(raw.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [6; 6]);
    }
}

#[test]
fn ops_that_rlx_rewrites_are_taken() {
    let x = random(13, 6);
    let mut g = Graph::new("pad");
    let xs = g.input("x", f32s(&[2, 3]));
    let pad = Op::Pad { pads: vec![[1, 0], [0, 2]], mode: PadMode::Constant(-1.5) };
    let y = g.add_node(pad, vec![xs], f32s(&[3, 5]));
    g.set_outputs(vec![y]);
    let expected = (0..3)
        .flat_map(|i| (0..5).map(move |j| (i, j)))
        .map(|(i, j)| if i > 0 && j < 3 { f64::from(x[(i - 1) * 3 + j]) } else { -1.5 })
        .collect();
    expect(&g, &[("x", &x)], &[expected], 0.0);
}

#[test]
fn dimensions_that_are_open_are_bound_at_the_run() {
    let mut g = Graph::new("open");
    let open = |n: usize| Shape::from_dims(&[Dim::Dynamic(0), Dim::Static(n)], DType::F32);
    let (xs, ws) = (g.input("x", open(3)), g.param("w", f32s(&[3, 4])));
    let y = g.matmul(xs, ws, open(4));
    g.set_outputs(vec![y]);
    let w = random(14, 12);
    for (device, target) in devices() {
        let mut compiled = Session::new(device).compile(g.clone());
        compiled.set_param("w", &w);
        for rows in [1, 5, 2] {
            let x = random(rows as u64, rows * 3);
            let expected = [product(&x, &w, 3, 4)];
            check(&mut compiled, &format!("{target:?}, {rows} rows"), &[("x", &x)], &expected, 1e-6);
        }
    }
    let e = to_blob(&g).unwrap_err();
    assert!(e.to_string().contains("?0"), "{e}");
}

#[test]
fn hir_modules_and_bound_params() {
    let mlp = Mlp::new(3, 5, 8, 2);
    let (w, x) = (mlp.weights(15), mlp.x(15));
    for (device, target) in devices() {
        let mut hir = rlx_ir::hir::HirModule::new("hir");
        let xs = hir.input("x", f32s(&[3, 5]));
        let (w1, b1) = (hir.param("w1", f32s(&[5, 8])), hir.param("b1", f32s(&[8])));
        let (w2, b2) = (hir.param("w2", f32s(&[8, 2])), hir.param("b2", f32s(&[2])));
        let h = hir.linear_fused(xs, w1, b1, Some(Activation::Relu), f32s(&[3, 8]));
        let y = hir.linear(h, w2, Some(b2), None, f32s(&[3, 2]));
        hir.set_outputs(vec![y]);
        let mut compiled = Session::new(device).compile_hir(hir).unwrap();
        w.set(&mut compiled);
        mlp.check(&format!("{target:?}"), &compiled.run(&[("x", &x)])[0], &x, &w);

        // RLX knows no shapes of a module that came this way, so the adapter's own checks speak.
        for (inputs, words) in
            [([("x", &x[1..])], ["'x'", "15", "56"]), ([("y", &x[..])], ["'y'", "input", "x"])]
        {
            let run = std::panic::AssertUnwindSafe(|| compiled.run(&inputs));
            let text = *std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
            assert!(words.iter().all(|w| text.contains(w)), "{text}");
        }

        let bindings = w.named().into_iter().map(|(n, v)| (n.to_string(), v.to_vec())).collect();
        let options = CompileOptions { param_bindings: Some(bindings), ..CompileOptions::default() };
        let mut bound = Session::new(device).compile_with(mlp.graph(), &options);
        mlp.check("bound", &bound.run(&[("x", &x)])[0], &x, &w);
        let other = mlp.weights(16);
        other.set(&mut bound);
        mlp.check("bound, then set", &bound.run(&[("x", &x)])[0], &x, &other);
    }
}

#[test]
fn a_precision_policy_is_honoured() {
    let mlp = Mlp::new(4, 9, 6, 3);
    let (w, x) = (mlp.weights(17), mlp.x(17));
    for (device, target) in devices() {
        let plain = || Session::new(device);
        let policy = rlx_runtime::PrecisionPolicy::AutoMixedConservative;
        let [full, mixed] = [plain(), plain().with_policy(policy)].map(|session| {
            let mut compiled = session.compile(mlp.graph());
            w.set(&mut compiled);
            compiled.run(&[("x", &x)]).remove(0)
        });
        assert_ne!(bits(&full), bits(&mixed), "{target:?}: f16 gives the same bits as f32");
        let worst = full.iter().zip(&mixed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // A dozen roundings to 11 bits of numbers below 8.
        assert!(worst < 12.0 * 8.0 / 2048.0, "{target:?}: {worst}");
    }
}

#[test]
fn everything_that_is_refused_is_named_at_once() {
    devices();
    let s = || f32s(&[2, 3]);
    let mut g = Graph::new("refused");
    let x = g.input("x", s());
    let a = g.activation(Activation::Gelu, x, s());
    let b = g.binary(BinaryOp::Sub, x, a, s());
    let c = g.append_node(Op::Activation(Activation::Tanh), vec![x], s(), Some("gate".into()));
    let d = g.binary(BinaryOp::Mul, b, c, s());
    g.set_outputs(vec![d]);
    let Err(Error::Unsupported(all)) = to_blob(&g) else { panic!("taken") };
    assert_eq!(all.iter().map(|u| u.node).collect::<Vec<_>>(), [a.0, b.0, c.0]);
    assert_eq!(all[2].name.as_deref(), Some("gate"));
    for (device, _) in common::TARGETS {
        let e = Session::new(device).try_compile(g.clone()).err().expect("taken");
        assert!(matches!(e, CompileError::Backend(_)), "{e}");
        let text = e.to_string();
        assert!(["Gelu", "Sub", "Tanh", "gate"].iter().all(|w| text.contains(w)), "{text}");
        let e = Session::new(device).compile_module(g.clone().module()).err().expect("taken").to_string();
        assert!(["Gelu", "Sub", "Tanh", "gate"].iter().all(|w| e.contains(w)), "{e}");
    }

    // A kind that is not in the list: RLX finds out by itself.
    let mut g = Graph::new("kind");
    let x = g.input("x", s());
    let y = g.add_node(Op::Cholesky, vec![x], f32s(&[3, 3]));
    g.set_outputs(vec![y]);
    assert!(!rlx_runtime::supports_graph(Device::Vulkan, &g));
    let e = to_blob(&g).unwrap_err().to_string();
    assert!(e.to_lowercase().contains("cholesky"), "{e}");

    // Types that the op table does not have for an op, and shapes that are not what the op gives.
    let mut g = Graph::new("types");
    let x = g.input("x", Shape::new(&[4], DType::Bool));
    let y = g.binary(BinaryOp::Add, x, x, Shape::new(&[4], DType::Bool));
    g.set_outputs(vec![y]);
    let e = to_blob(&g).unwrap_err().to_string();
    assert!(e.contains("bool"), "{e}");
    let mut g = Graph::new("shape");
    let (x, w) = (g.input("x", s()), g.param("w", f32s(&[3, 5])));
    let y = g.matmul(x, w, f32s(&[2, 4]));
    g.set_outputs(vec![y]);
    let e = to_blob(&g).unwrap_err().to_string();
    assert!(e.contains("[2, 4]") && e.contains("[2, 5]"), "{e}");
}

#[test]
fn every_device_of_rlx_can_be_a_slot() {
    // Those without a test of their own here, so that the other tests keep theirs.
    let free = [
        Device::Cpu,
        Device::Metal,
        Device::Mlx,
        Device::Ane,
        Device::Cuda,
        Device::Rocm,
        Device::Xdna,
        Device::Egpu,
        Device::OneApi,
        Device::Tpu,
        Device::Hexagon,
        Device::Gpu,
        Device::WebGpu,
    ];
    let mlp = Mlp::new(2, 3, 4, 5);
    let (w, x) = (mlp.weights(1), mlp.x(1));
    for device in free {
        assert!(!rlx_runtime::is_available(device), "{device:?}");
        register_as(device, Target::Host).unwrap();
        assert!(rlx_runtime::registered_devices().contains(&device));
        let mut compiled = Session::new(device).compile(mlp.graph());
        w.set(&mut compiled);
        mlp.check(&format!("{device:?}"), &compiled.run(&[("x", &x)])[0], &x, &w);
    }
}
