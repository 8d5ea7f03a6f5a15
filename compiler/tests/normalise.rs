//! Exporters' spellings of layer norms become one op, and compute the same.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, near, random};
use serinette_compiler::{CompileOptions, Data, Error, GraphBuilder, Value, compile};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::reduce::{MEAN, Reduce};
use serinette_core::op::{NoAttributes, unary};

const SIZES: [usize; 3] = [2, 3, 5];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spelling {
    Divided,
    Reciprocal,
    /// Over the second axis alone, which is not the last.
    Inner,
    /// The squares of something else.
    Other,
}

fn op(
    b: &mut GraphBuilder,
    op: &'static serinette_core::op::OpDescriptor,
    x: &[Value],
) -> Result<Value, Error> {
    b.op("", op, Binary::default(), x)
}

/// `centred`: layer norm, else RMS norm.
fn norm(b: &mut GraphBuilder, x: Value, centred: bool, spelling: Spelling) -> Result<Value, Error> {
    let axes = if spelling == Spelling::Inner { 0b010 } else { 0b100 };
    let reduce = Reduce { axes, keep_axes: 1 };
    let d = match centred {
        true => {
            let m = b.op("", &MEAN, reduce, &[x])?;
            op(b, &binary::SUB, &[x, m])?
        }
        false => x,
    };
    let two = b.constant(DType::F32, &[], Data::from_slice(&[2f32]))?;
    let below = if spelling == Spelling::Other { b.sigmoid("", d)? } else { d };
    let square = b.op("", &binary::POW, NoAttributes {}, &[below, two])?;
    let v = b.op("", &MEAN, reduce, &[square])?;
    let e = b.constant(DType::F32, &[], Data::from_slice(&[1e-3f32]))?;
    let sum = op(b, &binary::ADD, &[v, e])?;
    let root = b.op("", &unary::SQRT, NoAttributes {}, &[sum])?;
    if spelling == Spelling::Reciprocal {
        let r = b.op("", &unary::RECIPROCAL, NoAttributes {}, &[root])?;
        return b.mul("", r, d);
    }
    op(b, &binary::DIV, &[d, root])
}

fn run(
    centred: bool,
    spelling: Spelling,
    scale: bool,
    bias: bool,
) -> (Vec<&'static str>, Vec<f32>, Vec<f32>) {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &SIZES.map(|d| (d as u64).into())).unwrap();
    let (s, t) = (random(3, 5), random(4, 5));
    let mut y = norm(&mut b, x, centred, spelling).unwrap();
    if scale {
        let s = b.weight("s", DType::F32, &[5], Data::from_slice(&s)).unwrap();
        y = b.mul("scaled", y, s).unwrap();
    }
    if bias {
        let t = b.weight("t", DType::F32, &[5], Data::from_slice(&t)).unwrap();
        y = b.add("shifted", y, t).unwrap();
    }
    b.output("y", y).unwrap();
    let mut session = Session::new(&compile(b.finish().unwrap(), &CompileOptions::default()).unwrap().bytes);
    let x: Vec<f32> = random(9, 30).iter().map(|x| x * 3.0 + 0.7).collect();
    let found = session.run("main", &[("x", Array::new(&SIZES, &x))]).outputs["y"].f32();
    let at = |i: usize| f64::from(x[i]);
    let want = (0..30).map(|i| {
        // The elements that are normalised with this one.
        let row: Vec<f64> = match spelling {
            Spelling::Inner => (0..3).map(|j| at(i / 15 * 15 + j * 5 + i % 5)).collect(),
            _ => (0..5).map(|j| at(i / 5 * 5 + j)).collect(),
        };
        let n = row.len() as f64;
        let mean = if centred { row.iter().sum::<f64>() / n } else { 0.0 };
        let of = |d: f64| if spelling == Spelling::Other { 1.0 / (1.0 + (-d).exp()) } else { d };
        let square = row.iter().map(|x| of(x - mean).powi(2)).sum::<f64>() / n;
        let y = (at(i) - mean) / (square + 1e-3).sqrt();
        let y = if scale { y * f64::from(s[i % 5]) } else { y };
        (if bias { y + f64::from(t[i % 5]) } else { y }) as f32
    });
    (session.ops(), found, want.collect())
}

#[test]
fn spellings_become_norms() {
    for (centred, name) in [(true, "LayerNorm"), (false, "RmsNorm")] {
        for spelling in [Spelling::Divided, Spelling::Reciprocal] {
            for (scale, bias) in [(false, false), (true, false), (true, true), (false, true)] {
                let (ops, found, want) = run(centred, spelling, scale, bias);
                // An RMS norm has no bias, and a bias without a scale goes into a layer norm.
                let more: &[&str] = if bias && !centred { &["Add"] } else { &[] };
                assert_eq!(ops, [&[name][..], more].concat(), "{spelling:?} {scale} {bias}");
                near(&found, &want, 1e-5, name);
            }
        }
    }
}

#[test]
fn what_is_no_norm_stays() {
    for (centred, spelling) in [(true, Spelling::Inner), (true, Spelling::Other), (false, Spelling::Other)] {
        let (ops, found, want) = run(centred, spelling, true, true);
        assert!(ops.contains(&"ReduceMean") && ops.contains(&"Sqrt"), "{spelling:?}: {ops:?}");
        near(&found, &want, 1e-5, "no norm");
    }
}
