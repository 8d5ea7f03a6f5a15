//! Small graphs made with the builder: every joint between passes, lowering, planner, verifier and executor.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, near, random};
use serinette_compiler::{
    CompileOptions, Data, Error, GraphBuilder, LoopSpec, Profile, Size, Trips, Value, compile,
};
use serinette_core::DType;
use serinette_core::op::quantize::{PER_TENSOR, Quantization};
use serinette_core::schedule::record::role;

fn session(b: GraphBuilder, profile: Profile) -> Session {
    let options = CompileOptions { profiles: vec![profile], scratch: None, packing: None };
    Session::new(&compile(b.finish().unwrap(), &options).unwrap().bytes)
}

fn input(b: &mut GraphBuilder, name: &str, dims: &[u64]) -> Value {
    let dims: Vec<Size> = dims.iter().map(|d| Size::Number(*d)).collect();
    b.input(name, DType::F32, &dims).unwrap()
}

fn floats(seed: u64, dims: &[usize]) -> Array {
    Array::new(dims, &random(seed, dims.iter().product()))
}

#[test]
fn entries_share_weights_and_prepared_values() {
    let w = random(1, 15);
    let mut b = GraphBuilder::new();
    let weight = b.weight("w", DType::F32, &[5, 3], Data::from_slice(&w)).unwrap();
    let gain = b.param("gain", DType::F32, &[3], None).unwrap();
    b.prepare("prepare").unwrap();
    let t = b.transpose("t", weight, &[1, 0]).unwrap();
    let packed = b.derive("packed", t).unwrap();
    b.entry("first").unwrap();
    let x = input(&mut b, "x", &[2, 3]);
    let x = b.mul("scaled", x, gain).unwrap();
    let y = b.matmul("y", x, packed, None).unwrap();
    b.output("y", y).unwrap();
    b.entry("second").unwrap();
    let x = input(&mut b, "x", &[1, 5]);
    let y = b.matmul("z", x, weight, None).unwrap();
    b.output("y", y).unwrap();
    let mut s = session(b, Profile::desktop());
    assert_eq!(s.ops(), ["Transpose", "Mul", "MatMul", "MatMul"]);
    let gain = [2.0f32, -1.0, 0.5];
    s.set("gain", &Array::new(&[3], &gain));
    let x = random(2, 6);
    let found = s.run("first", &[("x", Array::new(&[2, 3], &x))]).outputs["y"].f32();
    let want: Vec<f32> = (0..10)
        .map(|i| {
            let (m, n) = (i / 5, i % 5);
            (0..3).map(|k| f64::from(x[m * 3 + k] * gain[k]) * f64::from(w[n * 3 + k])).sum::<f64>() as f32
        })
        .collect();
    near(&found, &want, 1e-6, "first");
    let x = random(3, 5);
    let found = s.run("second", &[("x", Array::new(&[1, 5], &x))]).outputs["y"].f32();
    let want: Vec<f32> = (0..3)
        .map(|n| (0..5).map(|k| f64::from(x[k]) * f64::from(w[k * 3 + n])).sum::<f64>() as f32)
        .collect();
    near(&found, &want, 1e-6, "second");
}

#[test]
fn carried_values_may_change_places() {
    // (a, b) ← (b, a + b): neither may be overwritten before it is read.
    for profile in [Profile::desktop(), Profile::mcu()] {
        let mut b = GraphBuilder::new();
        b.entry("main").unwrap();
        let (x, y) = (input(&mut b, "x", &[3]), input(&mut b, "y", &[3]));
        let spec = LoopSpec {
            name: "fibonacci",
            trips: Trips { most: 5.into(), count: None },
            condition: None,
            initial: &[x, y],
        };
        let out = b.loop_(spec, |b, _, c| Ok(vec![c[1], b.add("sum", c[0], c[1])?])).unwrap();
        b.output("a", out[0]).unwrap();
        b.output("b", out[1]).unwrap();
        let mut s = session(b, profile);
        let (mut p, mut q) = ([1f32, 2.0, -3.0], [10f32, 0.5, 4.0]);
        let run = s.run("main", &[("x", Array::new(&[3], &p)), ("y", Array::new(&[3], &q))]);
        for _ in 0..5 {
            (p, q) = (q, [p[0] + q[0], p[1] + q[1], p[2] + q[2]]);
        }
        assert_eq!((run.outputs["a"].f32(), run.outputs["b"].f32()), (p.to_vec(), q.to_vec()));
    }
}

#[test]
fn loops_end_by_condition_and_count_from_zero() {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let limit = b.input("limit", DType::I32, &[]).unwrap();
    let count = b.input("count", DType::I32, &[1.into()]).unwrap();
    let zero = b.constant(DType::I32, &[], Data::from_slice(&[0i32])).unwrap();
    let yes = b.constant(DType::Bool, &[], Data::from_slice(&[1u8])).unwrap();
    let spec = LoopSpec {
        name: "sum",
        trips: Trips { most: 100.into(), count: Some(count) },
        condition: Some(0),
        initial: &[yes, zero],
    };
    let out = b
        .loop_(spec, |b, counter, c| {
            let i = b.size_scalar("i", counter)?;
            let sum = b.add("sum", c[1], i)?;
            Ok(vec![b.less("go", sum, limit)?, sum])
        })
        .unwrap();
    b.output("sum", out[1]).unwrap();
    let mut s = session(b, Profile::desktop());
    for (limit, count) in [(20, 50), (1000, 7), (-5, 3), (5, 0), (5, -1)] {
        let (mut sum, mut i, mut go) = (0, 0, true);
        while go && i < count {
            sum += i;
            i += 1;
            go = sum < limit;
        }
        let inputs = [("limit", Array::new(&[], &[limit])), ("count", Array::new(&[1], &[count]))];
        assert_eq!(s.run("main", &inputs).outputs["sum"].i32(), [sum], "{limit} {count}");
    }
}

#[test]
fn arms_may_return_outer_values_and_nest() {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let (x, c, d) = (
        input(&mut b, "x", &[4]),
        b.input("c", DType::Bool, &[]).unwrap(),
        b.input("d", DType::Bool, &[]).unwrap(),
    );
    let y = b.relu("y", x).unwrap();
    let out = b
        .if_(
            "outer",
            c,
            |b| Ok(vec![y, b.add("twice", x, x)?]),
            |b| {
                let inner = b.if_("inner", d, |b| Ok(vec![b.mul("square", x, x)?]), |_| Ok(vec![x]))?;
                Ok(vec![inner[0], inner[0]])
            },
        )
        .unwrap();
    let z = b.add("z", out[0], y).unwrap();
    b.output("z", z).unwrap();
    b.output("second", out[1]).unwrap();
    let mut s = session(b, Profile::desktop());
    let v = [1.5f32, -2.0, 0.25, -0.5];
    for (c, d) in [(1u8, 0u8), (0, 1), (0, 0)] {
        let inputs =
            [("x", Array::new(&[4], &v)), ("c", Array::new(&[], &[c])), ("d", Array::new(&[], &[d]))];
        let run = s.run("main", &inputs);
        let first = v.map(|x| {
            if c == 1 {
                x.max(0.0)
            } else if d == 1 {
                x * x
            } else {
                x
            }
        });
        let second = if c == 1 { v.map(|x| x + x) } else { first };
        let want: Vec<f32> = first.iter().zip(v).map(|(a, x)| a + x.max(0.0)).collect();
        assert_eq!((run.outputs["z"].f32(), run.outputs["second"].f32()), (want, second.to_vec()));
    }
}

#[test]
fn outer_concatenations_and_slices_move_nothing() {
    let mut b = GraphBuilder::new();
    let n = b.symbol("n", 1, 9, 1).unwrap();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[n.into(), 2.into()]).unwrap();
    let y = input(&mut b, "y", &[3, 2]);
    let (p, q) = (b.relu("p", x).unwrap(), b.mul("q", y, y).unwrap());
    let joined = b.concat("joined", &[p, q], 0).unwrap();
    let part = b.slice("part", joined, &[1, 0], &[1, 1], &[n.into(), 2.into()]).unwrap();
    let flat = {
        let two = b.dims().constant(2).unwrap();
        let len = b.dims().mul(n, two).unwrap();
        b.reshape("flat", part, &[len.into()]).unwrap()
    };
    let sum = b.add("sum", flat, flat).unwrap();
    b.output("sum", sum).unwrap();
    b.output("joined", joined).unwrap();
    let mut s = session(b, Profile::desktop());
    // The reshape of a window is the only copy.
    assert_eq!(s.ops(), ["Relu", "Mul", "Copy", "Add"]);
    for n in [1usize, 4, 9] {
        let (x, y) = (random(n as u64, n * 2), random(77, 6));
        let run = s.run("main", &[("x", Array::new(&[n, 2], &x)), ("y", Array::new(&[3, 2], &y))]);
        let all: Vec<f32> = x.iter().map(|v| v.max(0.0)).chain(y.iter().map(|v| v * v)).collect();
        let want: Vec<f32> = all[2..2 + 2 * n].iter().map(|v| v + v).collect();
        assert_eq!((run.outputs["joined"].f32(), run.outputs["sum"].f32()), (all, want));
    }
}

#[test]
fn parts_that_are_no_whole_words_are_moved() {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[3]);
    let scale = b.constant(DType::F32, &[], Data::from_slice(&[0.5f32])).unwrap();
    let attrs = Quantization { axis: PER_TENSOR, reserved: 0 };
    let (p, y) = (b.quantize("p", attrs, x, scale, None).unwrap(), b.relu("y", x).unwrap());
    let q = b.quantize("q", attrs, y, scale, None).unwrap();
    let joined = b.concat("joined", &[p, q], 0).unwrap();
    b.output("joined", joined).unwrap();
    let mut s = session(b, Profile::mcu());
    assert!(s.ops().contains(&"Concat"));
    let run = s.run("main", &[("x", Array::new(&[3], &[1.25f32, -3.0, 100.0]))]);
    assert_eq!(run.outputs["joined"].bytes, [2i8, -6, 127, 2, 0, 127].map(|v| v as u8));
}

#[test]
fn results_overwrite_dead_operands_but_not_kept_inputs() {
    let bytes = |keep: bool| {
        let mut b = GraphBuilder::new();
        b.entry("main").unwrap();
        let x = input(&mut b, "x", &[256]);
        if keep {
            b.keep(x).unwrap();
        }
        let y = b.mul("y", x, x).unwrap();
        let z = b.softmax("z", x, 0).unwrap();
        let s = b.add("s", y, z).unwrap();
        b.output("s", s).unwrap();
        let options = CompileOptions { profiles: vec![Profile::mcu()], scratch: None, packing: None };
        let c = compile(b.finish().unwrap(), &options).unwrap();
        let mut s = Session::new(&c.bytes);
        let x = floats(5, &[256]);
        let run = s.run("main", &[("x", x.clone())]);
        let v = x.f32();
        let total: f64 = v.iter().map(|x| f64::from(*x).exp()).sum();
        let want: Vec<f32> =
            v.iter().map(|x| (f64::from(*x) * f64::from(*x) + f64::from(*x).exp() / total) as f32).collect();
        near(&run.outputs["s"].f32(), &want, 1e-6, "sum");
        c.report.plans[0].arena_bytes
    };
    assert_eq!((bytes(false), bytes(true)), (2048, 3072));
}

#[test]
fn constants_are_folded_where_that_saves_bytes() {
    let mut b = GraphBuilder::new();
    let w = b.weight("w", DType::F32, &[2, 3], Data::from_slice(&random(4, 6))).unwrap();
    let small = b.weight("half", DType::F16, &[64], Data::from_slice(&[0x3c00u16; 64])).unwrap();
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[64]);
    let t = b.transpose("t", w, &[1, 0]).unwrap();
    let t = b.reshape("r", t, &[6.into()]).unwrap();
    b.output("w", t).unwrap();
    let wide = b.cast("wide", small, DType::F32).unwrap();
    let y = b.mul("y", x, wide).unwrap();
    b.output("y", y).unwrap();
    let mut s = session(b, Profile::desktop());
    // The transposition is gone; widening a compact weight is not, but it is done once.
    let mut ops = s.ops_of("main");
    ops.sort_unstable();
    assert_eq!((ops.as_slice(), s.ops_of("prepare").as_slice()), (&["Copy", "Mul"][..], &["Cast"][..]));
    let (x, w) = (floats(6, &[64]), random(4, 6));
    let run = s.run("main", &[("x", x.clone())]);
    assert_eq!(run.outputs["y"], x);
    assert_eq!(run.outputs["w"].f32(), [w[0], w[3], w[1], w[4], w[2], w[5]]);
}

#[test]
fn errors_are_values_that_name_the_node() {
    let mut b = GraphBuilder::new();
    assert!(matches!(b.input("x", DType::F32, &[]), Err(Error::Count { .. })));
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[2, 3]);
    let w = b.constant(DType::F32, &[4, 5], Data::from_slice(&[0f32; 20])).unwrap();
    match b.matmul("product", x, w, None) {
        Err(Error::Shape { at, source }) => {
            assert_eq!((at.as_str(), source.expected, source.found), ("product", 3, 4))
        }
        other => panic!("{other:?}"),
    }
    let i = b.cast("i", x, DType::I32).unwrap();
    assert!(matches!(b.softmax("s", i, 0), Err(Error::Types { .. })));
    assert!(matches!(b.softmax("s", x, 9), Err(Error::Attribute { .. })));
    assert!(matches!(b.add("a", x, i), Err(Error::Types { .. })));
    assert!(matches!(b.constant(DType::F32, &[2], Data::from_slice(&[1u8])), Err(Error::Count { .. })));
    assert!(matches!(b.input("x", DType::F32, &[]), Err(Error::Name { .. })));
    assert!(matches!(b.weight("", DType::F32, &[0], Data::from(vec![])), Err(Error::Name { .. })));
    assert!(matches!(b.input("big", DType::F32, &[u64::MAX.into(), 2.into()]), Err(Error::Count { .. })));
    let mut leak = None;
    let c = b.input("c", DType::Bool, &[]).unwrap();
    b.if_(
        "if",
        c,
        |b| {
            leak = Some(b.relu("inside", x)?);
            Ok(vec![])
        },
        |_| Ok(vec![]),
    )
    .unwrap();
    assert!(matches!(b.relu("outside", leak.unwrap()), Err(Error::Scope { .. })));
    assert!(matches!(GraphBuilder::new().finish(), Err(Error::Count { .. })));
}

#[test]
fn steps_are_ordered_for_a_low_peak() {
    // As built, four wide tensors are live at once; one after the other, only one is.
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[1, 8]);
    let wide = b.constant(DType::F32, &[8, 1000], Data::from_slice(&random(8, 8000))).unwrap();
    let narrow = b.constant(DType::F32, &[1000, 8], Data::from_slice(&random(9, 8000))).unwrap();
    let mut rows = Vec::new();
    for i in 0..4 {
        let s = b.constant(DType::F32, &[], Data::from_slice(&[i as f32 + 0.5])).unwrap();
        let v = b.mul(&format!("v{i}"), x, s).unwrap();
        rows.push(b.matmul(&format!("up{i}"), v, wide, None).unwrap());
    }
    let mut sum = x;
    for (i, r) in rows.iter().enumerate() {
        let v = b.matmul(&format!("down{i}"), *r, narrow, None).unwrap();
        sum = b.add(&format!("sum{i}"), sum, v).unwrap();
    }
    b.output("y", sum).unwrap();
    let options = CompileOptions { profiles: vec![Profile::mcu()], scratch: None, packing: None };
    let c = compile(b.finish().unwrap(), &options).unwrap();
    let p = &c.report.plans[0];
    assert!(p.arena_bytes < 5000, "{} bytes", p.arena_bytes);
    assert!(p.arena_bytes as f64 <= 1.02 * p.lower_bound_bytes as f64);
}

#[test]
fn outputs_that_are_something_else_too_are_copies() {
    let mut b = GraphBuilder::new();
    let (w, p) = (random(1, 4), random(2, 4));
    let weight = b.weight("w", DType::F32, &[4], Data::from_slice(&w)).unwrap();
    let param = b.param("p", DType::F32, &[4], Some(Data::from_slice(&p))).unwrap();
    let state = b.state("s", DType::F32, &[4]).unwrap();
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[4]);
    let y = b.add("y", x, param).unwrap();
    let flat = b.reshape("flat", x, &[2.into(), 2.into()]).unwrap();
    b.update(state, y).unwrap();
    for (name, v) in [("a", x), ("b", weight), ("c", param), ("d", state), ("e", y), ("f", y), ("g", flat)] {
        b.output(name, v).unwrap();
    }
    let mut s = session(b, Profile::desktop());
    let x = floats(3, &[4]);
    let sum: Vec<f32> = x.f32().iter().zip(&p).map(|(a, b)| a + b).collect();
    for before in [vec![0.0; 4], sum.clone()] {
        let found = s.run("main", &[("x", x.clone())]).outputs;
        let all: Vec<(&str, Vec<f32>)> = found.iter().map(|(n, a)| (n.as_str(), a.f32())).collect();
        let want = [x.f32(), w.clone(), p.clone(), before, sum.clone(), sum.clone(), x.f32()];
        assert_eq!(all, ["a", "b", "c", "d", "e", "f", "g"].into_iter().zip(want).collect::<Vec<_>>());
    }
    // Nothing lost its own name to an output.
    let program = s.program();
    for (name, wanted) in [("x", role::INPUT), ("p", role::PARAM), ("s", role::STATE)] {
        let of = |v: &serinette_core::schedule::record::Value| program.text(v.name).unwrap() == name;
        assert!(program.values.iter().any(|(_, v)| v.role == wanted && of(v)), "{name}");
    }
}

#[test]
fn a_state_that_an_entry_leaves_alone_is_not_copied() {
    let mut b = GraphBuilder::new();
    let state = b.state("s", DType::F32, &[4]).unwrap();
    b.entry("same").unwrap();
    b.update(state, state).unwrap();
    let y = b.add("y", state, state).unwrap();
    b.output("y", y).unwrap();
    b.entry("there_and_back").unwrap();
    let square = b.reshape("square", state, &[2.into(), 2.into()]).unwrap();
    let flat = b.reshape("flat", square, &[4.into()]).unwrap();
    b.update(state, flat).unwrap();
    let y = b.relu("y", state).unwrap();
    b.output("y", y).unwrap();
    b.entry("write").unwrap();
    let x = input(&mut b, "x", &[4]);
    b.update(state, x).unwrap();
    let mut s = session(b, Profile::desktop());
    let ops = ["same", "there_and_back", "write"].map(|e| s.ops_of(e));
    assert_eq!(ops, [vec!["Add"], vec!["Relu"], vec!["Copy"]]);
    let x = floats(4, &[4]);
    s.run("write", &[("x", x.clone())]);
    s.run("there_and_back", &[]);
    let twice: Vec<f32> = x.f32().iter().map(|v| v + v).collect();
    assert_eq!(s.run("same", &[]).outputs["y"].f32(), twice);
}

#[test]
fn a_tensor_without_elements_may_be_the_only_constant() {
    let mut b = GraphBuilder::new();
    b.entry("main").unwrap();
    let x = input(&mut b, "x", &[2, 3]);
    let nothing = b.constant(DType::F32, &[0, 3], Data::from_slice::<f32>(&[])).unwrap();
    let y = b.concat("y", &[nothing, x], 0).unwrap();
    b.output("y", y).unwrap();
    let x = floats(11, &[2, 3]);
    let found = session(b, Profile::desktop()).run("main", &[("x", x.clone())]).outputs["y"].clone();
    assert_eq!(found, x);
}
