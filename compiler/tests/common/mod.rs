//! Runs blobs on the host, and reads the vectors of the bundled models.
#![allow(dead_code)] // each test binary uses a part

pub mod onnx;

use serinette_core::op;
use serinette_core::schedule::bind::{Bindings, Place, bind, solve_symbols};
use serinette_core::schedule::record::{Entry, entry_kind, role, symbol_kind};
use serinette_core::schedule::{Executor, Kernel, Limits, Live, Memory, Program, verify};
use serinette_core::{DType, Shape};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tensor of a test: shape and bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub dims: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Array {
    pub fn new<T: bytemuck::NoUninit>(dims: &[usize], values: &[T]) -> Array {
        Array { dims: dims.to_vec(), bytes: bytemuck::cast_slice(values).to_vec() }
    }
    pub fn f32(&self) -> Vec<f32> {
        self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    pub fn i32(&self) -> Vec<i32> {
        self.bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

pub struct Session {
    words: Vec<u64>,
    total: u64,
    /// Arenas by plan order, 8-byte words.
    arenas: Vec<Vec<u64>>,
    /// Whether derived values are up to date.
    prepared: bool,
}

pub struct Run {
    pub outputs: BTreeMap<String, Array>,
    pub fault: Option<u32>,
}

impl Session {
    pub fn new(bytes: &[u8]) -> Session {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        let mut s = Session { words, total: bytes.len() as u64, arenas: Vec::new(), prepared: false };
        let program = s.program();
        assert!(program.crc_matches());
        let mut live = vec![Live::default(); program.header.max_live as usize];
        let mut exprs = vec![0; program.exprs.len()];
        verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs).unwrap();
        let plan = program.plans.get(0).unwrap();
        let sizes: Vec<u64> = (0..plan.arenas[1]).map(|a| program.arena(plan, a).unwrap().bytes).collect();
        s.arenas = sizes.iter().map(|n| vec![0u64; (*n as usize).div_ceil(8)]).collect();
        s.initial_params();
        s
    }

    /// Params that have contents get them.
    fn initial_params(&mut self) {
        let program = self.program();
        let mut found = Vec::new();
        for (_, v) in program.values.iter().filter(|(_, v)| v.role == role::PARAM && v.section != u32::MAX) {
            let at = (program.weights.get(v.section).unwrap().offset + v.data_offset) as usize;
            let file: &[u8] = bytemuck::cast_slice(&self.words);
            let bytes = file[at..at + v.data_bytes as usize].to_vec();
            found.push((program.text(v.name).unwrap().to_owned(), Array { dims: vec![], bytes }));
        }
        found.iter().for_each(|(name, a)| self.set(name, a));
    }

    pub fn program(&self) -> Program<'_> {
        Program::parse(bytemuck::cast_slice(&self.words), self.total).unwrap()
    }

    fn weights<'a>(&self, program: &Program<'a>, file: &'a [u8]) -> Vec<&'a [u8]> {
        program.weights.iter().map(|(_, w)| &file[w.offset as usize..(w.offset + w.bytes) as usize]).collect()
    }

    /// Runs an entry, and before it `prepare` where weights or params changed, as a session does.
    pub fn run(&mut self, entry: &str, inputs: &[(&str, Array)]) -> Run {
        if !self.prepared {
            let prepare = |(_, e): &(u32, &Entry)| e.kind == entry_kind::PREPARE;
            let found = self.program().entries.iter().find(prepare).map(|(_, e)| e.name);
            if let Some(name) = found {
                let name = self.program().text(name).unwrap().to_owned();
                self.run_only(&name, &[]);
            }
            self.prepared = true;
        }
        self.run_only(entry, inputs)
    }

    /// Runs one entry. Work memory is filled with a pattern first, so that nothing unwritten passes for zero.
    fn run_only(&mut self, entry: &str, inputs: &[(&str, Array)]) -> Run {
        let mut arenas = std::mem::take(&mut self.arenas);
        let file: &[u8] = bytemuck::cast_slice(&self.words);
        let program = self.program();
        let plan = program.plans.get(0).unwrap();
        let (entry_id, e) = program.entry(entry).unwrap();
        for (i, a) in arenas.iter_mut().enumerate() {
            if program.arena(plan, i as u32).unwrap().space == 0 {
                a.fill(0x7fc0_1234_7fc0_5678);
            }
        }
        let ids: Vec<u32> = program.entry_inputs(e).unwrap().collect();
        let named = |id: u32| program.text(program.values.get(id).unwrap().name).unwrap();
        let arrays: Vec<&Array> = ids
            .iter()
            .map(|id| {
                &inputs.iter().find(|(n, _)| *n == named(*id)).unwrap_or_else(|| panic!("{}", named(*id))).1
            })
            .collect();
        let shapes: Vec<Option<Shape>> = arrays.iter().map(|a| Shape::new(&a.dims)).collect();
        let mut found = vec![None; program.symbols.len()];
        solve_symbols(&program, e, &shapes, &mut found).unwrap();
        let symbols: Vec<u64> = program
            .symbols
            .iter()
            .zip(&found)
            .map(|((_, s), f)| if s.kind == symbol_kind::COUNTER { 0 } else { f.unwrap_or(s.high) })
            .collect();
        let mut exprs = vec![0; program.exprs.len()];
        let bindings = bind(&program, op::ALL, 0, &symbols, &mut exprs).unwrap();
        for (id, a) in ids.iter().zip(&arrays) {
            write(&bindings, &mut arenas, *id, &a.bytes);
        }
        let kernels: Vec<Kernel> = program
            .signatures
            .iter()
            .map(|(_, s)| serinette_host_kernels::registry::find(s).unwrap_or_else(|| panic!("{s:?}")).kernel)
            .collect();
        let weights = self.weights(&program, file);
        let mut executor = Executor::new(bindings, &kernels, entry_id).unwrap();
        let mut slices: Vec<&mut [u8]> = arenas.iter_mut().map(|a| bytemuck::cast_slice_mut(a)).collect();
        executor.run(&mut Memory { arenas: &mut slices, weights: &weights }).unwrap();
        let fault = executor.fault().step();
        let mut outputs = BTreeMap::new();
        for id in program.entry_outputs(e).unwrap() {
            outputs.insert(named(id).to_owned(), read(&bindings, &arenas, id));
        }
        self.arenas = arenas;
        Run { outputs, fault }
    }

    /// Sets a param.
    pub fn set(&mut self, name: &str, array: &Array) {
        let mut arenas = std::mem::take(&mut self.arenas);
        let program = self.program();
        let symbols: Vec<u64> = program.symbols.iter().map(|(_, s)| s.high).collect();
        let mut exprs = vec![0; program.exprs.len()];
        let bindings = bind(&program, op::ALL, 0, &symbols, &mut exprs).unwrap();
        let (id, _) = program
            .values
            .iter()
            .find(|(_, v)| v.role == role::PARAM && program.text(v.name) == Ok(name))
            .unwrap();
        write(&bindings, &mut arenas, id, &array.bytes);
        self.arenas = arenas;
        self.prepared = false;
    }

    /// Names of the ops of all steps, with region edges by kind number.
    pub fn ops(&self) -> Vec<&'static str> {
        let entries = self.program().entries.iter().map(|(_, e)| e.name);
        entries.flat_map(|n| self.ops_of(self.program().text(n).unwrap())).collect()
    }

    /// Names of the ops of one entry.
    pub fn ops_of(&self, entry: &str) -> Vec<&'static str> {
        let program = self.program();
        let (_, e) = program.entry(entry).unwrap();
        let steps: Vec<_> = program.steps.range(e.first_step, e.steps).unwrap().map(|(_, s)| *s).collect();
        steps
            .iter()
            .map(|s| match s.kind {
                0 => {
                    let sig = program.signatures.get(s.link).unwrap();
                    op::find(op::ALL, sig.op, sig.version).unwrap().name
                }
                1 => "If",
                2 => "Else",
                3 => "Loop",
                _ => "End",
            })
            .collect()
    }
}

fn write(bindings: &Bindings<'_>, arenas: &mut [Vec<u64>], id: u32, bytes: &[u8]) {
    let v = bindings.value(id, &[]).unwrap();
    assert_eq!(v.bytes, bytes.len());
    let Place::Arena { arena, offset } = v.place else { panic!("not in an arena") };
    let a: &mut [u8] = bytemuck::cast_slice_mut(&mut arenas[arena as usize]);
    a[offset..offset + v.bytes].copy_from_slice(bytes);
}

fn read(bindings: &Bindings<'_>, arenas: &[Vec<u64>], id: u32) -> Array {
    let v = bindings.value(id, &[]).unwrap();
    let Place::Arena { arena, offset } = v.place else { panic!("not in an arena") };
    let a: &[u8] = bytemuck::cast_slice(&arenas[arena as usize]);
    Array { dims: v.shape.dims().to_vec(), bytes: a[offset..offset + v.bytes].to_vec() }
}

/// A file of the bundled models.
pub fn model(path: &str) -> Vec<u8> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models").join(path);
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The arrays of an uncompressed `.npz` file.
pub fn npz(bytes: &[u8]) -> BTreeMap<String, Array> {
    let u16_at = |i: usize| usize::from(u16::from_le_bytes([bytes[i], bytes[i + 1]]));
    let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap()) as usize;
    // The end record points at the directory, which points at the members.
    let end = (0..bytes.len() - 21).rev().find(|i| bytes[*i..].starts_with(b"PK\x05\x06")).unwrap();
    let (count, mut at) = (u16_at(end + 10), u32_at(end + 16));
    let mut arrays = BTreeMap::new();
    for _ in 0..count {
        assert_eq!(u16_at(at + 10), 0, "stored, not compressed");
        let (size, name_len, extra, comment) =
            (u32_at(at + 24), u16_at(at + 28), u16_at(at + 30), u16_at(at + 32));
        let name = std::str::from_utf8(&bytes[at + 46..at + 46 + name_len]).unwrap();
        let local = u32_at(at + 42);
        let data = local + 30 + u16_at(local + 26) + u16_at(local + 28);
        arrays.insert(name.trim_end_matches(".npy").to_owned(), npy(&bytes[data..data + size]));
        at += 46 + name_len + extra + comment;
    }
    arrays
}

fn npy(bytes: &[u8]) -> Array {
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
    assert!(text.contains("'fortran_order': False"));
    let open = text.find('(').unwrap();
    let close = text[open..].find(')').unwrap() + open;
    let dims = text[open + 1..close].split(',').filter_map(|d| d.trim().parse().ok()).collect();
    Array { dims, bytes: bytes[10 + header..].to_vec() }
}

/// An error unless all values are near: `|a − b| ≤ tolerance · (1 + |b|)`.
pub fn near(found: &[f32], want: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}[{i}]: {a} instead of {b}");
    }
}

/// Pseudo-random numbers in (−1, 1).
pub fn random(seed: u64, n: usize) -> Vec<f32> {
    let mut s = seed.wrapping_mul(2).wrapping_add(1);
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((s >> 40) as f32 / (1u64 << 23) as f32) - 1.0
        })
        .collect()
}

/// Keeps the import used in every binary.
pub const F32: DType = DType::F32;
