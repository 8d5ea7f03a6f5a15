//! Work on weights and params that is moved into the entry `prepare`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, near, random};
use serinette_compiler::{
    CompileOptions, Data, Error, GraphBuilder, LoopSpec, Packing, Profile, Trips, Value, compile,
};
use serinette_core::DType;
use serinette_core::schedule::record::role;

fn options(packing: Packing) -> CompileOptions {
    CompileOptions { packing: Some(packing), ..CompileOptions::default() }
}

fn named(names: &[&str]) -> Packing {
    Packing::Named(names.iter().map(|n| (*n).to_owned()).collect())
}

/// Numbers that f16 holds exactly, and their bits.
fn halves(seed: u64, n: usize) -> (Vec<f32>, Vec<u16>) {
    let exact: Vec<f32> = random(seed, n).iter().map(|v| (v * 64.0).round() / 64.0).collect();
    let bits = exact.iter().map(|v| {
        // All are below 1 with at most 6 binary digits.
        let (sign, b) = ((v.to_bits() >> 16) as u16 & 0x8000, v.abs().to_bits());
        if b == 0 { sign } else { sign | ((b >> 13) as u16).wrapping_sub(112 << 10) }
    });
    let bits = bits.collect();
    (exact, bits)
}

/// `a [m, k] · b [k, n]` in 64 bits.
fn product(a: &[f32], b: &[f32], (m, k, n): (usize, usize, usize)) -> Vec<f32> {
    let at = |i: usize| {
        let (row, column) = (i / n, i % n);
        (0..k).map(|j| f64::from(a[row * k + j]) * f64::from(b[j * n + column])).sum::<f64>() as f32
    };
    (0..m * n).map(at).collect()
}

fn transposed(w: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..rows * columns).map(|i| w[(i % rows) * columns + i / rows]).collect()
}

/// A half-precision weight `[5, 6]` that two entries transpose, widen and multiply with.
fn two_entries() -> (GraphBuilder, Vec<f32>) {
    let (exact, bits) = halves(1, 30);
    let mut b = GraphBuilder::new();
    let w = b.weight("w", DType::F16, &[5, 6], Data::from_slice(&bits)).unwrap();
    for (entry, rows) in [("first", 2u64), ("second", 3)] {
        b.entry(entry).unwrap();
        let x = b.input("x", DType::F32, &[rows.into(), 6.into()]).unwrap();
        let t = b.transpose("t", w, &[1, 0]).unwrap();
        let t = b.cast("wide", t, DType::F32).unwrap();
        let y = b.matmul("y", x, t, None).unwrap();
        b.output("y", y).unwrap();
    }
    (b, exact)
}

#[test]
fn what_two_entries_derive_is_there_once() {
    for (packing, prepare, main) in [
        // The transposition takes the place of the weight in the file.
        (Packing::Always, &["Cast"][..], &["MatMul"][..]),
        (named(&["w"]), &["Cast"], &["MatMul"]),
        (Packing::Never, &[], &["Cast", "MatMul"]),
    ] {
        let (b, w) = two_entries();
        let c = compile(b.finish().unwrap(), &options(packing.clone())).unwrap();
        let mut s = Session::new(&c.bytes);
        if packing == Packing::Never {
            assert!(s.program().entry("prepare").is_none());
            assert_eq!(c.report.plans[0].derived_bytes, 0);
        } else {
            assert_eq!(s.ops_of("prepare"), prepare);
            assert!((120..=192).contains(&c.report.plans[0].derived_bytes), "{:?}", c.report.plans);
            assert!(c.report.notes.iter().any(|n| n.contains("prepare")), "{:?}", c.report.notes);
        }
        assert_eq!((s.ops_of("first").as_slice(), s.ops_of("second").as_slice()), (main, main));
        for (entry, rows) in [("first", 2), ("second", 3)] {
            let x = random(rows as u64, rows * 6);
            let found = s.run(entry, &[("x", Array::new(&[rows, 6], &x))]).outputs["y"].f32();
            near(&found, &product(&x, &transposed(&w, 5, 6), (rows, 6, 5)), 1e-6, entry);
        }
    }
}

#[test]
fn a_weight_used_both_ways_is_not_stored_twice() {
    let w = random(4, 48);
    let build = || {
        let mut b = GraphBuilder::new();
        let weight = b.weight("w", DType::F32, &[6, 8], Data::from_slice(&w)).unwrap();
        b.entry("there_and_back").unwrap();
        let x = b.input("x", DType::F32, &[2.into(), 6.into()]).unwrap();
        let y = b.matmul("there", x, weight, None).unwrap();
        let t = b.transpose("t", weight, &[1, 0]).unwrap();
        let z = b.matmul("back", y, t, None).unwrap();
        b.output("z", z).unwrap();
        b.finish().unwrap()
    };
    let x = random(5, 12);
    let want = product(&product(&x, &w, (2, 6, 8)), &transposed(&w, 6, 8), (2, 8, 6));
    for (packing, bytes) in [(Packing::Always, 192), (Packing::Never, 384)] {
        let c = compile(build(), &options(packing.clone())).unwrap();
        assert_eq!(c.report.weight_bytes, bytes, "{packing:?}");
        let mut s = Session::new(&c.bytes);
        let found = s.run("there_and_back", &[("x", Array::new(&[2, 6], &x))]);
        near(&found.outputs["z"].f32(), &want, 1e-5, "z");
    }
    // Read in one way only, the other order takes its place.
    let mut b = GraphBuilder::new();
    let weight = b.weight("w", DType::F32, &[6, 8], Data::from_slice(&w)).unwrap();
    for entry in ["first", "second"] {
        b.entry(entry).unwrap();
        let x = b.input("x", DType::F32, &[2.into(), 8.into()]).unwrap();
        let t = b.transpose("t", weight, &[1, 0]).unwrap();
        let y = b.matmul("y", x, t, None).unwrap();
        b.output("y", y).unwrap();
    }
    let c = compile(b.finish().unwrap(), &options(Packing::Always)).unwrap();
    assert_eq!((c.report.weight_bytes, c.report.plans[0].derived_bytes), (192, 0));
}

/// A param that is scaled, reshaped (by two readers) and used inside a loop and an arm; another entry changes it.
fn params() -> GraphBuilder {
    let mut b = GraphBuilder::new();
    let gain = b.param("gain", DType::F32, &[2, 3], Some(Data::from_slice(&[1f32, 2., 3., 4., 5., 6.])));
    let gain = gain.unwrap();
    let by = b.constant(DType::F32, &[3], Data::from_slice(&[2f32, 0.5, -1.0])).unwrap();
    b.entry("main").unwrap();
    let x = b.input("x", DType::F32, &[6.into()]).unwrap();
    let c = b.input("c", DType::Bool, &[]).unwrap();
    let spec = LoopSpec {
        name: "loop",
        trips: Trips { most: 2.into(), count: None },
        condition: None,
        initial: &[x],
    };
    let out = b.loop_(spec, |b, _, v| {
        let g = b.mul("scaled", gain, by)?;
        let g = b.reshape("flat", g, &[6.into()])?;
        Ok(vec![b.mul("next", v[0], g)?])
    });
    let y = out.unwrap()[0];
    let arm = |b: &mut GraphBuilder, y: Value| -> Result<Vec<Value>, Error> {
        let g = b.mul("scaled", gain, by)?;
        let g = b.reshape("flat", g, &[6.into()])?;
        let g = b.relu("positive", g)?;
        Ok(vec![b.add("sum", y, g)?])
    };
    let z = b.if_("if", c, |b| arm(b, y), |_| Ok(vec![y])).unwrap();
    b.output("y", z[0]).unwrap();
    b.entry("train").unwrap();
    let step = b.input("step", DType::F32, &[2.into(), 3.into()]).unwrap();
    let new = b.add("new", gain, step).unwrap();
    b.update(gain, new).unwrap();
    b.output("gain_now", gain).unwrap();
    b
}

#[test]
fn computation_on_params_leaves_loops_and_arms() {
    let c = compile(params().finish().unwrap(), &CompileOptions::default()).unwrap();
    let mut s = Session::new(&c.bytes);
    let mut prepare = s.ops_of("prepare");
    prepare.sort_unstable();
    assert_eq!(prepare, ["Mul", "Relu"]);
    assert_eq!(s.ops_of("main"), ["Copy", "Loop", "Mul", "End", "If", "Add", "Else", "Copy", "End"]);
    let by = [2f32, 0.5, -1.0];
    let x = random(9, 6);
    let check = |s: &mut Session, gain: &[f32], what: &str| {
        for c in [0u8, 1] {
            let inputs = [("x", Array::new(&[6], &x)), ("c", Array::new(&[], &[c]))];
            let found = s.run("main", &inputs).outputs["y"].f32();
            let want: Vec<f32> = (0..6)
                .map(|i| {
                    let g = f64::from(gain[i]) * f64::from(by[i % 3]);
                    (f64::from(x[i]) * g * g + if c == 1 { g.max(0.0) } else { 0.0 }) as f32
                })
                .collect();
            near(&found, &want, 1e-6, what);
        }
    };
    check(&mut s, &[1., 2., 3., 4., 5., 6.], "initial contents");
    let other = random(3, 6);
    s.set("gain", &Array::new(&[2, 3], &other));
    check(&mut s, &other, "set");
    let step = random(8, 6);
    let run = s.run("train", &[("step", Array::new(&[2, 3], &step))]);
    // An output that is a param is a copy of what it was, and the param keeps its name.
    assert_eq!(run.outputs["gain_now"].f32(), other);
    assert!(
        s.program()
            .values
            .iter()
            .any(|(_, v)| v.role == role::PARAM && s.program().text(v.name) == Ok("gain"))
    );
}

#[test]
fn what_looks_up_or_grows_stays_in_the_run() {
    let mut b = GraphBuilder::new();
    let w = b.weight("w", DType::F32, &[4, 512], Data::from_slice(&random(1, 2048))).unwrap();
    let small = b.weight("small", DType::F32, &[1, 1], Data::from_slice(&[0.5f32])).unwrap();
    let p = b.param("p", DType::F32, &[64, 1], Some(Data::from_slice(&random(2, 64)))).unwrap();
    let indices = b.constant(DType::I32, &[2], Data::from_slice(&[9i32, 1])).unwrap();
    b.entry("main").unwrap();
    let rows = b.gather("rows", w, indices, 0).unwrap();
    b.output("rows", rows).unwrap();
    let ones = b.constant(DType::F32, &[1, 64], Data::from_slice(&[1f32; 64])).unwrap();
    let wide = b.mul("wide", p, ones).unwrap();
    let y = b.mul("y", wide, small).unwrap();
    b.output("y", y).unwrap();
    let c = compile(b.finish().unwrap(), &options(Packing::Always)).unwrap();
    let mut s = Session::new(&c.bytes);
    // 16 KiB from 512 bytes are computed again rather than kept; a bad position is the run's to report.
    assert!(s.program().entry("prepare").is_none());
    assert!(s.run("main", &[]).fault.is_some());
}

#[test]
fn names_to_pack_must_exist() {
    let (b, _) = two_entries();
    match compile(b.finish().unwrap(), &options(named(&["v"]))) {
        Err(e @ Error::Unknown { .. }) => assert!(e.to_string().contains("there are: w"), "{e}"),
        other => panic!("{other:?}"),
    }
    // For microcontrollers time is cheaper than memory.
    let (b, _) = two_entries();
    let mcu = CompileOptions { profiles: vec![Profile::mcu()], ..CompileOptions::default() };
    assert_eq!(compile(b.finish().unwrap(), &mcu).unwrap().report.plans[0].derived_bytes, 0);
}

#[test]
fn a_prepare_entry_made_by_hand_takes_the_rest() {
    let (exact, bits) = halves(7, 12);
    let mut b = GraphBuilder::new();
    let w = b.weight("w", DType::F16, &[3, 4], Data::from_slice(&bits)).unwrap();
    b.prepare("mine").unwrap();
    let t = b.transpose("t", w, &[1, 0]).unwrap();
    let t = b.derive("t", t).unwrap();
    b.entry("prepare").unwrap();
    let x = b.input("x", DType::F32, &[2.into(), 4.into()]).unwrap();
    let wide = b.cast("t", t, DType::F32).unwrap();
    let y = b.matmul("y", x, wide, None).unwrap();
    b.output("y", y).unwrap();
    let c = compile(b.finish().unwrap(), &options(Packing::Always)).unwrap();
    let mut s = Session::new(&c.bytes);
    assert_eq!((s.ops_of("mine"), s.ops_of("prepare")), (vec!["Transpose", "Cast"], vec!["MatMul"]));
    let x = random(2, 8);
    let found = s.run("prepare", &[("x", Array::new(&[2, 4], &x))]).outputs["y"].f32();
    near(&found, &product(&x, &transposed(&exact, 3, 4), (2, 4, 3)), 1e-6, "y");
}
