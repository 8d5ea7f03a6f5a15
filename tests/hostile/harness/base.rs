//! Hand-made valid blobs.

use super::build::Build;
use super::draft::Draft;
use bytemuck::cast_slice;
use serinette_compiler::blob::Blob;
use serinette_core::op::{binary, cast, compare, conv, matmul, movement, size, softmax, unary};
use serinette_core::schedule::record::*;
use serinette_core::{DType, NONE};

/// Numbers that look random and are exact in f32.
pub fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let n = |i: usize| (i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761) >> 8;
    (0..count).map(|i| (n(i) % 4001) as f32 / 1024.0 - 1.9).collect()
}

/// Weights of [`chain`]: `[5, 3]` and bias `[3]`.
pub fn chain_weights() -> (Vec<f32>, Vec<f32>) {
    (numbers(15, 1), numbers(3, 2))
}

/// `y = relu(x · w + bias)`: `x` `[B, 5]`, `B` in 1..=9, relu in place.
pub fn chain() -> Blob {
    let mut b = Build::default();
    let (_, batch) = b.symbol("batch", 1, 9);
    let (five, three) = (b.constant(5), b.constant(3));
    let (w, bias) = chain_weights();
    let x = b.value(DType::F32, role::INPUT, &[batch, five]);
    let w = b.data(DType::F32, role::WEIGHT, &[5, 3], cast_slice(&w));
    let bias = b.data(DType::F32, role::WEIGHT, &[3], cast_slice(&bias));
    let h = b.value(DType::F32, role::INTERMEDIATE, &[batch, three]);
    let y = b.value(DType::F32, role::INTERMEDIATE, &[batch, three]);
    b.op(&matmul::MATMUL, &matmul::MatMul::default(), &[x, w, bias], &[h], [0; 4]);
    b.op(&unary::RELU, &[0u8; 0], &[h], &[y], [1, 0, 0, 0]);
    b.entry("main", entry_kind::CALL, &[x], &[y]);
    let mut d = Draft { same: vec![(h, y)], ..Draft::default() };
    d.wave(1, &[h], &[x]);
    d.wave(1, &[], &[]);
    d.plan(&b, &[[1, 9]], 8).write(&mut b.blob, "any");
    b.blob.max_live = 2;
    b.blob
}

/// Ids of [`everything`] that tests look at.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // named as in the program
pub struct Ids {
    pub x: u32,
    pub trips: u32,
    pub w: u32,
    pub p: u32,
    pub s: u32,
    pub d: u32,
    pub h: u32,
    pub c: u32,
    pub c0: u32,
    pub c1: u32,
    pub acc: u32,
    pub window: u32,
    pub result: u32,
    pub z: u32,
    pub u: u32,
    pub condition: u32,
    pub if_step: u32,
    pub else_step: u32,
    pub if_end: u32,
    pub loop_step: u32,
    pub loop_end: u32,
    pub conv_step: u32,
    pub counter: u32,
    pub n: u32,
    pub k: u32,
}

/// Data of [`everything`]: `w` `[4, 4]`, `p` `[4]`, `w2` `[8, 1]`, conv kernel `[1, 1, 2, 2]`.
pub fn everything_weights() -> [Vec<f32>; 4] {
    [numbers(16, 10), numbers(4, 20), numbers(8, 30), numbers(4, 40)]
}

/// A program with everything that the format has:
///
/// ```text
/// prepare:  d = transpose(w)
/// main(x [n, 4], trips):
///   h = x · d + p                  c = [relu(h); x + h]  (two parts, one wave)
///   z = reshape(c, [n, 8]) · w2    u = conv(reshape(x, [n, 1, 2, 2]))  (with scratch)
///   acc = [x; x; x; x]; for i in 0..min(trips, 4) { acc[i] = h · i + h }
///   result = if s[0] > 0 { s + p } else { s · p }
///   s = s + result
/// outputs: c, z, u, acc, result
/// ```
pub fn everything() -> (Blob, Ids) {
    let mut b = Build::default();
    let mut id = Ids::default();
    let (_, n) = b.symbol("n", 1, 6);
    let (counter, counter_expr) = b.counter(4);
    (id.n, id.counter) = (n, counter);
    let (one, two, four, eight) = (b.constant(1), b.constant(2), b.constant(4), b.constant(8));
    let zero = b.constant(0);
    let (twice, fourfold) = (b.expr(expr_op::ADD, n, u64::from(n)), b.expr(expr_op::MUL, four, u64::from(n)));
    b.blob.guards.push(Guard { relation: 1, a: n, b: twice, reserved: 0 });
    b.blob.guards.push(Guard { relation: 0, a: n, b: n, reserved: 0 });
    let [w, p, w2, taps] = everything_weights();
    let f32s = DType::F32;
    id.x = b.value(f32s, role::INPUT, &[n, four]);
    b.blob.values[id.x as usize].flags = value_flag::KEEP;
    id.trips = b.value(DType::I32, role::INPUT, &[]);
    id.w = b.data(f32s, role::WEIGHT, &[4, 4], cast_slice(&w));
    id.p = b.data(f32s, role::PARAM, &[4], cast_slice(&p));
    let w2 = b.data(f32s, role::WEIGHT, &[8, 1], cast_slice(&w2));
    let taps = b.data(f32s, role::CONSTANT, &[1, 1, 2, 2], cast_slice(&taps));
    let nothing = b.data(f32s, role::CONSTANT, &[1], cast_slice(&[0f32]));
    id.s = b.value(f32s, role::STATE, &[four]);
    let s0 = b.view(id.s, view::WINDOW, &[one], |v| v.start = zero);
    id.d = b.value(f32s, role::DERIVED, &[four, four]);
    let permutation = movement::Transpose { permutation: [1, 0, 0, 0, 0, 0, 0, 0] };
    b.op(&movement::TRANSPOSE, &permutation, &[id.w], &[id.d], [0; 4]);
    b.entry("prepare", entry_kind::PREPARE, &[], &[]);

    let (add, none) = (binary::Binary::default(), [0u8; 0]);
    let mid = role::INTERMEDIATE;
    id.h = b.value(f32s, mid, &[n, four]);
    b.op(&matmul::MATMUL, &matmul::MatMul::default(), &[id.x, id.d, id.p], &[id.h], [0; 4]);
    id.c = b.value(f32s, mid, &[twice, four]);
    id.c0 = b.view(id.c, view::PART, &[n, four], |v| (v.start, v.part, v.parts) = (zero, 0, 2));
    id.c1 = b.view(id.c, view::PART, &[n, four], |v| (v.start, v.part, v.parts) = (n, 1, 2));
    b.op(&unary::RELU, &none, &[id.h], &[id.c0], [0; 4]);
    b.op(&binary::ADD, &add, &[id.x, id.h], &[id.c1], [0; 4]);
    let wide = b.view(id.c, view::RESHAPE, &[n, eight], |_| ());
    id.z = b.value(f32s, mid, &[n, one]);
    b.op(&matmul::MATMUL, &matmul::MatMul::default(), &[wide, w2, NONE], &[id.z], [0; 4]);
    let image = b.view(id.x, view::RESHAPE, &[n, one, two, two], |_| ());
    id.u = b.value(f32s, mid, &[n, one, one, one]);
    let attrs = conv::Conv2d { geometry: conv::Geometry::default(), groups: 1, activation: 0 };
    id.conv_step = b.op(&conv::CONV2D, &attrs, &[image, taps, NONE], &[id.u], [0; 4]);
    b.blob.steps[id.conv_step as usize].scratch = 2;
    id.acc = b.value(f32s, mid, &[fourfold, four]);
    let axis = softmax::Axis { axis: 0, reserved: 0 };
    b.op(&movement::CONCAT, &axis, &[id.x; 4], &[id.acc], [0; 4]);
    id.loop_step = b.edge(step_kind::LOOP, &[NONE, id.trips, id.acc], &[id.acc]);
    id.k = b.value(DType::I32, mid, &[]);
    let mut exprs = [0; 8];
    exprs[0] = counter_expr;
    b.op(&size::SIZE, &size::Size { exprs, count: 1, scalar: 1 }, &[], &[id.k], [0; 4]);
    let kf = b.value(f32s, mid, &[]);
    b.op(&cast::CAST, &none, &[id.k], &[kf], [0; 4]);
    let t = b.value(f32s, mid, &[n, four]);
    b.op(&binary::MUL, &add, &[id.h, kf], &[t], [0; 4]);
    id.window = b.view(id.acc, view::WINDOW, &[n, four], |v| {
        (v.start, v.counter, v.counter_stride) = (zero, counter, n);
    });
    b.op(&binary::ADD, &add, &[t, id.h], &[id.window], [0; 4]);
    id.loop_end = b.edge(step_kind::END, &[], &[]);
    b.close(&[id.loop_step, id.loop_end]);
    b.set_loop(id.loop_step, four, Some(counter));
    id.condition = b.value(DType::Bool, mid, &[one]);
    b.op(&compare::GREATER, &none, &[s0, nothing], &[id.condition], [0; 4]);
    id.result = b.value(f32s, mid, &[four]);
    id.if_step = b.edge(step_kind::IF, &[id.condition], &[id.result]);
    b.op(&binary::ADD, &add, &[id.s, id.p], &[id.result], [0; 4]);
    id.else_step = b.edge(step_kind::ELSE, &[], &[]);
    b.op(&binary::MUL, &add, &[id.s, id.p], &[id.result], [0; 4]);
    id.if_end = b.edge(step_kind::END, &[], &[]);
    b.close(&[id.if_step, id.else_step, id.if_end]);
    b.op(&binary::ADD, &add, &[id.s, id.result], &[id.s], [1, 0, 0, 0]);
    b.entry("main", entry_kind::CALL, &[id.x, id.trips], &[id.c, id.z, id.u, id.acc, id.result]);

    let mut d = Draft::default();
    d.wave(1, &[], &[]); // transpose
    d.wave(1, &[id.h], &[]);
    d.wave(2, &[id.c], &[]);
    d.wave(3, &[id.z, id.u, id.acc], &[]); // z, conv, acc
    d.scratch.push((id.conv_step, 3, 16));
    d.wave(1, &[], &[id.trips]); // loop
    d.wave(1, &[id.k], &[]);
    d.wave(1, &[kf], &[id.k]);
    d.wave(1, &[t], &[kf]);
    d.wave(1, &[], &[t]);
    d.wave(1, &[], &[id.h]); // end
    d.wave(1, &[id.condition], &[]);
    d.wave(1, &[id.result], &[id.condition]); // if
    d.wave(1, &[], &[]);
    d.wave(1, &[], &[]); // else
    d.wave(1, &[], &[]);
    d.wave(1, &[], &[]); // end
    d.wave(1, &[], &[]);
    d.plan(&b, &[[1, 6], [0, 4]], 16).write(&mut b.blob, "large");
    let mut small = d.single().plan(&b, &[[1, 2], [0, 4]], 8);
    small.arenas[0].1 += 8;
    small.write(&mut b.blob, "small");
    b.blob.plans[1].profile = profile::MCU;
    b.blob.max_live = 16;
    ancillary(&mut b, &id);
    (b.blob, id)
}

fn ancillary(b: &mut Build, id: &Ids) {
    let blob = &mut b.blob;
    let text = blob.hint_json(r#"{"kind":"audio","rate":16000}"#);
    blob.hints.push(Hint { value: id.x, reserved: 0, text });
    let name = blob.text("tests");
    blob.weights.push(WeightSection { name, ..bytemuck::Zeroable::zeroed() });
    blob.weight_data.push(vec![0; 64]);
    blob.self_tests.push(SelfTest { entry: 1, section: 1, offset: 8, tolerance: 16, reserved: 0 });
    for step in [0, id.loop_step] {
        let name = blob.text("source/node");
        blob.debug_names.push(DebugName { step, reserved: 0, name });
    }
    let (key, value) = (blob.text("licence"), blob.text("MIT"));
    blob.metadata.push(Metadata { key, value });
    blob.provenance = b"hand-made 0".to_vec();
    for (v, name) in [(id.x, "x"), (id.trips, "trips"), (id.p, "p"), (id.s, "s"), (id.acc, "acc")] {
        blob.values[v as usize].name = blob.text(name);
    }
}
