//! Loads, verifies, binds and runs blobs the way a host does.

use serinette_core::op;
use serinette_core::schedule::error::Error;
use serinette_core::schedule::exec::Progress;
use serinette_core::schedule::record::*;
use serinette_core::schedule::{
    Bindings, Executor, Kernel, Limits, Live, Memory, Program, Report, bind, verify,
};
use serinette_host_kernels::registry;

/// Bytes whose first one lies at a multiple of 64.
#[derive(Clone)]
pub struct Aligned {
    words: Vec<Line>,
    length: usize,
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Aligned {
    /// `length` bytes of one value.
    pub fn filled(length: usize, byte: u8) -> Aligned {
        Aligned { words: vec![Line([byte; 64]); length.div_ceil(64)], length }
    }

    /// A copy.
    pub fn of(bytes: &[u8]) -> Aligned {
        let mut a = Aligned::filled(bytes.len(), 0);
        a.bytes_mut().copy_from_slice(bytes);
        a
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}

/// Most live ranges and expressions that the harness gives room for.
pub const ROOM: usize = 1 << 16;

/// Verifies a file against all ops. Room is made as a careful host does: for what the header says, up to [`ROOM`].
pub fn check(file: &[u8], limits: &Limits) -> Result<Report, Error> {
    let program = Program::parse(file, file.len() as u64)?;
    let mut live = vec![Live::default(); (program.header.max_live as usize).min(ROOM)];
    let mut exprs = vec![0; program.exprs.len()];
    verify(&program, op::ALL, limits, &mut live, &mut exprs)
}

/// Verifies with the usual limits.
pub fn check_default(file: &[u8]) -> Result<Report, Error> {
    check(file, &Limits::default())
}

/// What the harness is willing to allocate and to run: hostile blobs may ask for more within their bounds.
pub const MOST_BYTES: u64 = 1 << 22;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The bytes of the entry's outputs, then of all persistent values, then of the inputs that it keeps.
    Done(Vec<Vec<u8>>),
    /// The entry is too large, or a kernel is missing: not run.
    Skipped,
    /// An error value.
    Failed(Error),
}

/// One run of an entry.
pub struct Run<'a> {
    /// Plan.
    pub plan: u32,
    /// Entry.
    pub entry: u32,
    /// Values of the symbols.
    pub symbols: &'a [u64],
    /// Bytes for each input, cut or repeated to its length.
    pub inputs: &'a [Vec<u8>],
    /// Bytes of the work arena before the run.
    pub poison: u8,
    /// Bytes of the persistent values, in the order of the values; empty: poison-free defaults
    /// (see [`initial`]).
    pub persistent: &'a [Vec<u8>],
}

/// A kernel for each signature; `None` where one is missing.
pub fn kernels(program: &Program<'_>) -> Option<Vec<Kernel>> {
    program.signatures.iter().map(|(_, s)| registry::find(s).map(|r| r.kernel)).collect()
}

/// The roots that live from run to run, in order.
pub fn persistent(program: &Program<'_>) -> Vec<u32> {
    let lives =
        |v: &Value| v.view == view::NONE && matches!(v.role, role::STATE | role::PARAM | role::DERIVED);
    program.values.iter().filter(|(_, v)| lives(v)).map(|(id, _)| id).collect()
}

/// The inputs of an entry that keep their contents during the run.
pub fn kept(program: &Program<'_>, entry: &Entry) -> Result<Vec<u32>, Error> {
    let keeps = |id: &u32| program.values.get(*id).is_ok_and(|v| v.flags & value_flag::KEEP != 0);
    Ok(program.entry_inputs(entry)?.filter(keeps).collect())
}

/// Initial contents of persistent values: weights for params that have some, else small numbers from the id.
pub fn initial(program: &Program<'_>, file: &[u8], b: &Bindings<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let fill = |id: u32| {
        let (v, bytes) = (program.values.get(id)?, b.value(id, &[])?.bytes);
        let section = program.weights.get(v.section).ok();
        Ok(match section {
            Some(w) => {
                let at = (w.offset + v.data_offset) as usize;
                file.get(at..).and_then(|f| f.get(..bytes)).map_or(vec![0; bytes], <[u8]>::to_vec)
            }
            None => (0..bytes).map(|i| if i % 4 == 3 { 0x3f } else { (i as u32 * 7 + id) as u8 }).collect(),
        })
    };
    persistent(program).into_iter().map(fill).collect()
}

/// A copy of `bytes` of another length: cut, or repeated.
pub fn fit(bytes: &[u8], length: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(if bytes.is_empty() { 0 } else { length }).collect()
}

/// Whether the entry's work at these bounds is small enough to be run in a test.
pub fn small(report: &Report) -> bool {
    report.steps < 20_000 && report.macs < 20_000_000 && report.bytes < 50_000_000
}

/// Binds and runs. The file must be at a multiple of 8 in memory.
pub fn run(file: &[u8], run: &Run<'_>) -> Outcome {
    match try_run(file, run) {
        Ok(outcome) => outcome,
        Err(e) => Outcome::Failed(e),
    }
}

fn try_run(file: &[u8], run: &Run<'_>) -> Result<Outcome, Error> {
    let program = Program::parse(file, file.len() as u64)?;
    let mut exprs = vec![0; program.exprs.len()];
    let bindings = bind(&program, op::ALL, run.plan, run.symbols, &mut exprs)?;
    let Some(kernels) = kernels(&program) else { return Ok(Outcome::Skipped) };
    let plan = bindings.plan();
    let arenas: Vec<_> = program.arenas.range(plan.arenas[0], plan.arenas[1])?.map(|(_, a)| *a).collect();
    if arenas.iter().map(|a| a.bytes).fold(0, u64::saturating_add) > MOST_BYTES {
        return Ok(Outcome::Skipped);
    }
    let mut memory: Vec<Aligned> =
        arenas.iter().map(|a| Aligned::filled(a.bytes as usize, run.poison)).collect();
    let entry = program.entries.get(run.entry)?;
    let mut put = |id: u32, bytes: &[u8]| -> Result<(), Error> {
        let v = bindings.value(id, &[])?;
        if let serinette_core::schedule::bind::Place::Arena { arena, offset } = v.place {
            memory[arena as usize].bytes_mut()[offset..offset + v.bytes]
                .copy_from_slice(&fit(bytes, v.bytes));
        }
        Ok(())
    };
    let roots = persistent(&program);
    let contents =
        if run.persistent.is_empty() { initial(&program, file, &bindings)? } else { run.persistent.to_vec() };
    for (id, bytes) in roots.iter().zip(&contents) {
        put(*id, bytes)?;
    }
    for (i, id) in program.entry_inputs(entry)?.enumerate() {
        put(id, run.inputs.get(i).map_or(&[0x3e, 0x11, 0x80, 0x3f][..], |b| b))?;
    }
    let weights: Vec<Aligned> = program
        .weights
        .iter()
        .map(|(_, w)| Aligned::of(&file[w.offset as usize..(w.offset + w.bytes) as usize]))
        .collect();
    let mut slices: Vec<&mut [u8]> = memory.iter_mut().map(Aligned::bytes_mut).collect();
    let weights: Vec<&[u8]> = weights.iter().map(Aligned::bytes).collect();
    let mut executor = Executor::new(bindings, &kernels, run.entry)?;
    let mut arena_memory = Memory { arenas: &mut slices, weights: &weights };
    // The verifier's count of steps is a promise; twice that is never reached.
    let mut polls = 0;
    while executor.poll(&mut arena_memory, 1000)? == Progress::Running {
        polls += 1;
        assert!(polls < 1000, "a run takes more steps than the verifier said");
    }
    let mut outputs = Vec::new();
    for id in program.entry_outputs(entry)?.chain(roots).chain(kept(&program, entry)?) {
        let v = bindings.value(id, &[])?;
        outputs.push(match v.place {
            serinette_core::schedule::bind::Place::Arena { arena, offset } => {
                slices[arena as usize][offset..offset + v.bytes].to_vec()
            }
            serinette_core::schedule::bind::Place::Weights { section, offset } => {
                weights[section as usize][offset..offset + v.bytes].to_vec()
            }
        });
    }
    Ok(Outcome::Done(outputs))
}
