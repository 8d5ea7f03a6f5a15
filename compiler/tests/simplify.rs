//! Algebra that changes no result: fewer steps, the same numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, near, random};
use serinette_compiler::{CompileOptions, Data, Error, GraphBuilder, Size, Value, compile};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::matmul::MatMul;
use serinette_core::op::{NoAttributes, OpDescriptor};

type Build = fn(&mut GraphBuilder, Value) -> Result<Value, Error>;

fn number(b: &mut GraphBuilder, x: f32) -> Result<Value, Error> {
    b.constant(DType::F32, &[], Data::from_slice(&[x]))
}

fn with(
    b: &mut GraphBuilder,
    op: &'static OpDescriptor,
    x: Value,
    y: f32,
    first: bool,
) -> Result<Value, Error> {
    let y = number(b, y)?;
    let operands = if first { [y, x] } else { [x, y] };
    b.op("", op, Binary::default(), &operands)
}

/// Runs what `build` makes of `x` `[2, 3, 4]`: the ops that are left, `x` and the result.
fn run(build: Build) -> (Vec<&'static str>, Vec<f32>, Vec<f32>) {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[2.into(), 3.into(), 4.into()]).unwrap();
    let y = build(&mut b, x).unwrap();
    // A result of its own, so that what is simplified is not an output.
    let y = b.relu("y", y).unwrap();
    b.output("y", y).unwrap();
    let mut s = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
    let x = random(5, 24);
    let y = s.run("main", &[("x", Array::new(&[2, 3, 4], &x))]).outputs["y"].f32();
    (s.ops(), x, y)
}

fn transposed(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let t = b.transpose("", x, &[1, 2, 0])?;
    b.transpose("", t, &[1, 2, 0])
}

fn back(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let t = b.transpose("", x, &[1, 2, 0])?;
    b.transpose("", t, &[2, 0, 1])
}

fn one_element(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let r = b.reshape("", x, &[2.into(), Size::Number(1), 12.into()])?;
    b.transpose("", r, &[1, 0, 2])
}

fn twice(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let (p, q) = (b.sigmoid("p", x)?, b.sigmoid("q", x)?);
    b.op("", &binary::SUB, Binary::default(), &[p, q])
}

#[test]
fn what_changes_nothing_goes() {
    let same: Vec<(&str, Build)> = vec![
        ("x · 1", |b, x| with(b, &binary::MUL, x, 1.0, false)),
        ("1 · x", |b, x| with(b, &binary::MUL, x, 1.0, true)),
        ("x / 1", |b, x| with(b, &binary::DIV, x, 1.0, false)),
        ("x − 0", |b, x| with(b, &binary::SUB, x, 0.0, false)),
        ("x + (−0)", |b, x| with(b, &binary::ADD, x, -0.0, false)),
        ("cast", |b, x| b.cast("", x, DType::F32)),
        ("there and back", back),
    ];
    for (what, build) in same {
        let (ops, x, y) = run(build);
        assert_eq!(ops, ["Relu"], "{what}");
        let want: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
        assert_eq!(y, want, "{what}");
    }
}

#[test]
fn what_changes_something_stays() {
    // A sum with +0 makes +0 of −0; 1 / x, 0 − x are no identities.
    let (ops, _, _) = run(|b, x| with(b, &binary::ADD, x, 0.0, false));
    assert_eq!(ops, ["Add"]);
    let (ops, x, y) = run(|b, x| with(b, &binary::DIV, x, 1.0, true));
    assert_eq!(ops, ["Div"]);
    near(&y, &x.iter().map(|x| (1.0 / x).max(0.0)).collect::<Vec<_>>(), 1e-6, "1 / x");
    let (ops, x, y) = run(|b, x| with(b, &binary::SUB, x, 0.0, true));
    assert_eq!(ops, ["Sub"]);
    near(&y, &x.iter().map(|x| (-x).max(0.0)).collect::<Vec<_>>(), 0.0, "0 − x");
    // An operand that makes the result larger.
    let (ops, x, y) = run(|b, x| {
        let ones = b.constant(DType::F32, &[2, 1, 1, 1], Data::from_slice(&[1f32, 1.0]))?;
        b.mul("", x, ones)
    });
    assert_eq!((ops, y.len()), (vec!["Mul"], 2 * x.len()));
}

#[test]
fn powers_and_quotients_become_products() {
    let (ops, x, y) = run(|b, x| {
        let two = number(b, 2.0)?;
        b.op("", &binary::POW, NoAttributes {}, &[x, two])
    });
    assert_eq!(ops, ["Mul"]);
    assert_eq!(y, x.iter().map(|x| x * x).collect::<Vec<_>>());
    let (ops, x, y) = run(|b, x| with(b, &binary::DIV, x, -8.0, false));
    assert_eq!(ops, ["Mul"]);
    assert_eq!(y, x.iter().map(|x| (x / -8.0).max(0.0)).collect::<Vec<_>>());
    // The inverse of three is rounded, that of the least normal number's half is no normal number.
    for divisor in [3.0, f32::MIN_POSITIVE / 4.0, 0.0, f32::INFINITY, f32::NAN] {
        let mut b = GraphBuilder::new();
        b.entry("main").unwrap();
        let x = b.input("x", DType::F32, &[5.into()]).unwrap();
        let y = with(&mut b, &binary::DIV, x, divisor, false).unwrap();
        b.output("y", y).unwrap();
        let s = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
        assert_eq!(s.ops(), ["Div"], "{divisor}");
    }
}

#[test]
fn transposes_join_or_go() {
    let (ops, x, y) = run(transposed);
    assert_eq!(ops.iter().filter(|o| **o == "Transpose").count(), 1, "{ops:?}");
    // Out axis i is in axis [2, 0, 1][i].
    let want: Vec<f32> = (0..24)
        .map(|i| {
            let (a, b, c) = (i / 6, i / 3 % 2, i % 3);
            x[(b * 3 + c) * 4 + a].max(0.0)
        })
        .collect();
    assert_eq!(y, want);
    let (ops, x, y) = run(one_element);
    assert_eq!(ops, ["Relu"]);
    assert_eq!(y, x.iter().map(|x| x.max(0.0)).collect::<Vec<_>>());
}

#[test]
fn equal_computations_are_one() {
    let (ops, x, y) = run(twice);
    assert_eq!(ops, ["Sigmoid", "Sub"]);
    assert_eq!(y, vec![0.0; x.len()]);
}

#[test]
fn a_transposed_operand_is_read_the_other_way_round() {
    for transpose_b in [0, 1] {
        let mut b = GraphBuilder::new();
        b.entry("main").unwrap();
        let x = b.input("x", DType::F32, &[2.into(), 3.into(), 5.into()]).unwrap();
        // [2, K, N] or [2, N, K] after the transpose.
        let shape = if transpose_b == 0 { [2, 4, 5] } else { [2, 5, 4] };
        let w = b.input("w", DType::F32, &shape.map(Size::Number)).unwrap();
        let t = b.transpose("", w, &[0, 2, 1]).unwrap();
        let y = b.matmul_with("y", MatMul { activation: 0, transpose_b }, x, t, None).unwrap();
        b.output("y", y).unwrap();
        let mut s = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
        assert_eq!(s.ops(), ["MatMul"]);
        let (x, w) = (random(1, 30), random(2, 40));
        let at = |n: usize, k: usize, col: usize| {
            let (rows, row, column) = if transpose_b == 0 { (5, col, k) } else { (4, k, col) };
            f64::from(w[n * 20 + row * rows + column])
        };
        let want: Vec<f32> = (0..24)
            .map(|i| {
                let (n, m, col) = (i / 12, i / 4 % 3, i % 4);
                (0..5).map(|k| f64::from(x[(n * 3 + m) * 5 + k]) * at(n, k, col)).sum::<f64>() as f32
            })
            .collect();
        let dims = shape.map(|d| d as usize);
        let inputs = [("x", Array::new(&[2, 3, 5], &x)), ("w", Array::new(&dims, &w))];
        near(&s.run("main", &inputs).outputs["y"].f32(), &want, 1e-5, "y");
    }
}
