//! Exporters' spellings of activations become one op, and compute the same.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session};
use serinette_compiler::{CompileOptions, Data, Error, GraphBuilder, Value, compile};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::unary::{self, Parameters};

/// What the op of a case computes of x and its gate.
type Want<'a> = &'a dyn Fn(f64, f64) -> f64;
type Build = fn(&mut GraphBuilder, Value, Value) -> Result<Value, Error>;

fn number(b: &mut GraphBuilder, x: f32) -> Result<Value, Error> {
    b.constant(DType::F32, &[], Data::from_slice(&[x]))
}

fn mul(b: &mut GraphBuilder, x: Value, y: Value) -> Result<Value, Error> {
    b.mul("", x, y)
}

fn silu(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let s = b.sigmoid("", x)?;
    b.mul("", s, x)
}

fn gelu_of_torch(b: &mut GraphBuilder, x: Value, _: Value) -> Result<Value, Error> {
    let (root, one, half) = (number(b, std::f32::consts::SQRT_2)?, number(b, 1.0)?, number(b, 0.5)?);
    let z = b.op("", &binary::DIV, Binary::default(), &[x, root])?;
    let e = b.op("", &unary::ERF, NoAttributes {}, &[z])?;
    let e = b.add("", e, one)?;
    let y = mul(b, x, e)?;
    mul(b, y, half)
}

fn gelu_halved_first(b: &mut GraphBuilder, x: Value, _: Value) -> Result<Value, Error> {
    let (root, one, half) = (number(b, std::f32::consts::FRAC_1_SQRT_2)?, number(b, 1.0)?, number(b, 0.5)?);
    let z = mul(b, root, x)?;
    let e = b.op("", &unary::ERF, NoAttributes {}, &[z])?;
    let e = b.add("", one, e)?;
    let h = mul(b, half, x)?;
    mul(b, h, e)
}

fn gelu_tanh(b: &mut GraphBuilder, x: Value, _: Value) -> Result<Value, Error> {
    let (c, k) = (number(b, 0.044715)?, number(b, 0.797_884_6)?);
    let (one, half, three) = (number(b, 1.0)?, number(b, 0.5)?, number(b, 3.0)?);
    let cube = b.op("", &binary::POW, NoAttributes {}, &[x, three])?;
    let t = mul(b, cube, c)?;
    let t = b.add("", x, t)?;
    let t = mul(b, t, k)?;
    let t = b.op("", &unary::TANH, NoAttributes {}, &[t])?;
    let t = b.add("", t, one)?;
    let h = mul(b, half, t)?;
    mul(b, x, h)
}

/// `clip(x + 3, 0, 6)`.
fn clipped(b: &mut GraphBuilder, x: Value) -> Result<Value, Error> {
    let three = number(b, 3.0)?;
    let sum = b.add("", x, three)?;
    b.op("", &unary::CLIP, Parameters { alpha: 0.0, beta: 6.0 }, &[sum])
}

/// A half that is not one, so that it must stay as it is.
fn no_gelu(b: &mut GraphBuilder, x: Value, _: Value) -> Result<Value, Error> {
    let (root, one, half) = (number(b, std::f32::consts::SQRT_2)?, number(b, 1.0)?, number(b, 0.51)?);
    let z = b.op("", &binary::DIV, Binary::default(), &[x, root])?;
    let e = b.op("", &unary::ERF, NoAttributes {}, &[z])?;
    let e = b.add("", e, one)?;
    let y = mul(b, x, e)?;
    mul(b, y, half)
}

#[test]
fn spellings_become_one_op() {
    // erf by its power series: the arguments are small.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
    let hard = |x: f64| (x / 6.0 + 0.5).clamp(0.0, 1.0);
    let cases: [(&str, Build, &[&str], Want<'_>); 10] = [
        ("silu", |b, x, _| silu(b, x), &["Swish"], &|x, _| x * sigmoid(x)),
        (
            "gate",
            |b, x, g| {
                let s = silu(b, x)?;
                b.mul("", g, s)
            },
            &["SiluMul"],
            &|x, g| x * sigmoid(x) * g,
        ),
        ("gelu", gelu_of_torch, &["Gelu"], &|x, _| gelu(x)),
        ("gelu, halved first", gelu_halved_first, &["Gelu"], &|x, _| gelu(x)),
        ("gelu by tanh", gelu_tanh, &["GeluTanh"], &|x, _| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        (
            "hard swish of paddle",
            |b, x, _| {
                let (c, six) = (clipped(b, x)?, number(b, 6.0)?);
                let y = b.mul("", x, c)?;
                b.op("", &binary::DIV, Binary::default(), &[y, six])
            },
            &["HardSwish"],
            &|x, _| x * hard(x),
        ),
        (
            "hard swish of torch",
            |b, x, _| {
                let (c, sixth) = (clipped(b, x)?, number(b, 1.0 / 6.0)?);
                let y = b.mul("", c, sixth)?;
                b.mul("", x, y)
            },
            &["HardSwish"],
            &|x, _| x * hard(x),
        ),
        (
            "hard sigmoid",
            |b, x, _| {
                let (c, six) = (clipped(b, x)?, number(b, 6.0)?);
                b.op("", &binary::DIV, Binary::default(), &[c, six])
            },
            &["HardSigmoid"],
            &|x, _| hard(x),
        ),
        (
            "no hard swish: of another",
            |b, x, g| {
                let (c, six) = (clipped(b, x)?, number(b, 6.0)?);
                let y = b.mul("", g, c)?;
                b.op("", &binary::DIV, Binary::default(), &[y, six])
            },
            &["Add", "Clip", "Mul", "Div"],
            &|x, g| g * hard(x),
        ),
        ("no gelu", no_gelu, &["Div", "Erf", "Add", "Mul", "Mul"], &|x, _| gelu(x) * 1.02),
    ];
    for (name, build, ops, want) in cases {
        let mut b = GraphBuilder::new();
        b.entry("main").unwrap();
        let x = b.input("x", DType::F32, &[3.into(), 5.into()]).unwrap();
        let g = b.input("g", DType::F32, &[5.into()]).unwrap();
        let y = build(&mut b, x, g).unwrap();
        b.output("y", y).unwrap();
        let compiled = compile(b.finish().unwrap(), &CompileOptions::default()).unwrap();
        let mut s = Session::new(&compiled.bytes);
        assert_eq!(s.ops(), ops, "{name}");
        let x: Vec<f32> = (0..15).map(|i| i as f32 * 0.37 - 2.5).collect();
        let g: Vec<f32> = (0..5).map(|i| 1.5 - i as f32).collect();
        let run = s.run("main", &[("x", Array::new(&[3, 5], &x)), ("g", Array::new(&[5], &g))]);
        for (i, y) in run.outputs["y"].f32().iter().enumerate() {
            let want = want(x[i].into(), g[i % 5].into());
            assert!((f64::from(*y) - want).abs() < 2e-6 * (1.0 + want.abs()), "{name} {i}: {y} {want}");
        }
    }
}
