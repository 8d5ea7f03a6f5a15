//! Planning, verification, and a simulation of memory that knows nothing of either.

use crate::builder::Builder;
use crate::random::Random;
use serinette_compiler::blob::Blob;
use serinette_core::NONE;
use serinette_core::plan::{
    FirstRecords, Options, Output, Planned, StepInfo, Unit, Workspace, offsets, plan, required,
};
use serinette_core::schedule::{Error, Limits, Live, Program, record::*, verify};
use std::collections::HashMap;

/// The file of a blob at an address that is a multiple of 8.
pub struct File {
    bytes: Vec<u8>,
    start: usize,
}

impl File {
    pub fn new(blob: &Blob) -> File {
        let file = blob.to_bytes();
        let mut bytes = vec![0; file.len() + 8];
        let start = bytes.as_ptr().align_offset(8);
        bytes[start..start + file.len()].copy_from_slice(&file);
        File { bytes, start }
    }

    pub fn parse(&self) -> Result<Program<'_>, Error> {
        let file = &self.bytes[self.start..self.bytes.len() - 8 + self.start];
        Program::parse(file, file.len() as u64)
    }
}

/// Plans `blob`, appends the records.
pub fn planned(blob: &mut Blob, options: &Options) -> Result<Planned, Error> {
    let file = File::new(blob);
    let program = file.parse()?;
    let n = required(&program);
    let high: Vec<u64> = blob.symbols.iter().map(|s| s.high).collect();
    let mut slots = vec![Slot { arena: 9, reserved: 9, offset: 9, bytes: 9 }; n.slots];
    let mut value_slots = vec![9; n.values];
    let mut scratch_slots = vec![9; n.steps];
    let mut waves = vec![Wave { first_step: 9, steps: 9, defs: [9; 2], kills: [9; 2] }; n.steps];
    let mut slot_lists = vec![9; n.slot_lists];
    let nothing = Arena { name: Text::default(), space: 9, reserved: 9, bytes: 9, align: 9 };
    let mut arenas = vec![nothing; n.arenas];
    let mut work = Workspace {
        exprs: &mut vec![9; n.exprs],
        units: &mut vec![Unit::default(); n.values],
        steps: &mut vec![StepInfo::default(); n.steps],
        blocks: &mut vec![offsets::Block::default(); n.slots],
        order: &mut vec![9; n.slots],
        trial: &mut vec![9; n.slots],
        keys: &mut vec![9; n.slots],
        best: &mut vec![9; n.slots],
        placed: &mut vec![offsets::Placed::default(); n.slots],
        loads: &mut vec![9; n.loads],
    };
    let mut out = Output {
        slots: &mut slots,
        value_slots: &mut value_slots,
        scratch_slots: &mut scratch_slots,
        waves: &mut waves,
        slot_lists: &mut slot_lists,
        arenas: &mut arenas,
    };
    let p = plan(&program, op::ALL, &high, options, &mut work, &mut out)?;
    let first = FirstRecords {
        bounds: blob.bounds.len() as u32,
        arenas: blob.arenas.len() as u32,
        slots: blob.slots.len() as u32,
        waves: blob.waves.len() as u32,
        slot_lists: blob.slot_lists.len() as u32,
        value_slots: blob.value_slots.len() as u32,
        scratch_slots: blob.scratch_slots.len() as u32,
    };
    blob.bounds.extend(blob.symbols.iter().map(|s| Bound { low: s.low, high: s.high }));
    blob.arenas.extend(&arenas[..p.arenas as usize]);
    blob.slots.extend(&slots[..p.slots as usize]);
    blob.waves.extend(&waves[..p.waves as usize]);
    blob.slot_lists.extend(&slot_lists[..p.slot_lists as usize]);
    blob.value_slots.extend(value_slots);
    blob.scratch_slots.extend(scratch_slots);
    blob.plans.push(p.record(options, Text::default(), blob.symbols.len() as u32, &first));
    blob.max_live = blob.max_live.max(p.max_live);
    Ok(p)
}

pub fn verified(blob: &Blob) -> Result<u32, Error> {
    let file = File::new(blob);
    let program = file.parse()?;
    let mut live = vec![Live::default(); blob.max_live as usize];
    let mut exprs = vec![0; blob.exprs.len()];
    Ok(verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs)?.max_live)
}

/// Runs every entry in a simulated memory in which each word holds the id of the value written there, and checks
/// that every read finds what it should, whichever arms and however many trips are taken; and that no step of a
/// wave writes what another one of it touches.
pub fn simulate(blob: &Blob, plan: usize, random: &mut Random) {
    let plan = &blob.plans[plan];
    let mut memory: HashMap<u32, Vec<u32>> = HashMap::new();
    for e in &blob.entries {
        for (a, arena) in
            blob.arenas[plan.arenas[0] as usize..].iter().take(plan.arenas[1] as usize).enumerate()
        {
            let words = memory.entry(a as u32).or_insert_with(|| vec![NONE; arena.bytes as usize / 4]);
            if arena.space == space::WORK {
                words.fill(NONE);
            }
        }
        let range = |v: u32| {
            let x = &blob.values[v as usize];
            let root = &blob.values[x.root as usize];
            let slot = blob.value_slots[(plan.value_slots + x.root) as usize];
            let s = &blob.slots[(plan.slots[0] + slot) as usize];
            let number = |e: u32| match blob.exprs[e as usize].op {
                expr_op::CONSTANT => blob.exprs[e as usize].b,
                _ => blob.symbols[blob.exprs[e as usize].a as usize].high,
            };
            let elements: u64 =
                (x.dims..x.dims + u32::from(x.rank)).map(|d| number(blob.dims[d as usize])).product();
            let size = DType::from_code(root.dtype).unwrap().size() as u64;
            let start = s.offset + if x.start == NONE { 0 } else { number(x.start) * size };
            (s.arena, (start / 4) as usize..(start + elements * size).div_ceil(4) as usize)
        };
        let operands = |first: u32, n: u32| blob.operands[first as usize..(first + n) as usize].to_vec();
        for v in operands(e.operands, e.inputs) {
            let (arena, words) = range(v);
            memory.get_mut(&arena).unwrap()[words].fill(v);
        }
        for v in (0..blob.values.len() as u32).filter(|v| blob.values[*v as usize].role >= role::PARAM) {
            if blob.values[v as usize].view == view::NONE {
                let (arena, words) = range(v);
                memory.get_mut(&arena).unwrap()[words].fill(v);
            }
        }
        let check = |memory: &HashMap<u32, Vec<u32>>, step: u32, v: u32| {
            let (arena, words) = range(v);
            let root = blob.values[v as usize].root;
            assert!(memory[&arena][words].iter().all(|w| *w == root), "step {step} reads value {v}");
        };
        let mut trips: Vec<(u32, u64)> = vec![];
        let mut next = e.first_step;
        while next < e.first_step + e.steps {
            let s = &blob.steps[next as usize];
            let inputs: Vec<u32> =
                operands(s.operands, s.inputs.into()).into_iter().filter(|v| *v != NONE).collect();
            let outputs = operands(s.operands + u32::from(s.inputs), s.outputs.into());
            let mut follow = next + 1;
            match s.kind {
                step_kind::OP => {
                    inputs.iter().for_each(|v| check(&memory, next, *v));
                    let scratch = blob.scratch_slots[(plan.scratch_slots + next) as usize];
                    if scratch != NONE {
                        let s = &blob.slots[(plan.slots[0] + scratch) as usize];
                        let words = (s.offset / 4) as usize..((s.offset + s.bytes) / 4) as usize;
                        memory.get_mut(&s.arena).unwrap()[words].fill(NONE - 1);
                    }
                    for v in outputs {
                        let (arena, words) = range(v);
                        memory.get_mut(&arena).unwrap()[words].fill(blob.values[v as usize].root);
                    }
                }
                step_kind::IF => {
                    inputs.iter().for_each(|v| check(&memory, next, *v));
                    if random.below(2) == 0 {
                        follow = s.link + u32::from(blob.steps[s.link as usize].kind == step_kind::ELSE);
                    }
                }
                step_kind::ELSE => follow = s.link,
                step_kind::LOOP => {
                    inputs.iter().for_each(|v| check(&memory, next, *v));
                    let n = random.below(3) as u64;
                    if n == 0 {
                        follow = s.link + 1;
                    } else {
                        trips.push((next, n));
                    }
                }
                _ => {
                    let open = &blob.steps[s.link as usize];
                    if open.kind == step_kind::LOOP {
                        // What the trip wrote is what the next one reads.
                        let n = u32::from(open.inputs);
                        let before = operands(open.operands + 2, n - 2);
                        for (b, a) in before.iter().zip(operands(open.operands + n, n - 2)) {
                            check(&memory, next, a);
                            let (arena, words) = range(*b);
                            memory.get_mut(&arena).unwrap()[words].fill(*b);
                        }
                        let (step, left) = trips.pop().unwrap();
                        if left > 1 {
                            trips.push((step, left - 1));
                            follow = step + 1;
                        }
                    }
                }
            }
            next = follow;
        }
        operands(e.operands + e.inputs, e.outputs).into_iter().for_each(|v| check(&memory, next, v));

        // Waves: the words that steps touch.
        for w in blob.waves[plan.waves[0] as usize..].iter().take(plan.waves[1] as usize) {
            let mut touched: Vec<(u32, u32, std::ops::Range<usize>, bool)> = vec![];
            for id in w.first_step..w.first_step + w.steps {
                let s = &blob.steps[id as usize];
                let inputs = operands(s.operands, s.inputs.into()).into_iter().map(|v| (v, false));
                let outputs = operands(s.operands + u32::from(s.inputs), s.outputs.into());
                for (v, writes) in inputs.chain(outputs.into_iter().map(|v| (v, true))) {
                    if v == NONE {
                        continue;
                    }
                    let (arena, words) = range(v);
                    for (step, a, other, wrote) in &touched {
                        let meet = *a == arena && other.start < words.end && words.start < other.end;
                        assert!(
                            *step == id || !meet || !(writes || *wrote),
                            "steps {step} and {id} in one wave"
                        );
                    }
                    touched.push((id, arena, words, writes));
                }
            }
        }
    }
}

/// Plans for both profiles, verifies and simulates.
pub fn check(mut b: Builder, seed: u64) -> [Planned; 2] {
    let both = [Options::DESKTOP, Options::MCU].map(|o| {
        let p = planned(&mut b.blob, &o).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let arena = b.blob.arenas[b.blob.plans.last().unwrap().arenas[0] as usize];
        assert!(p.peak >= p.lower_bound && arena.bytes >= p.peak, "seed {seed}: {p:?} {arena:?}");
        p
    });
    let live = verified(&b.blob).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!(live <= b.blob.max_live, "seed {seed}");
    for round in 0..4 {
        let mut random = Random(seed * 4 + round + 1);
        simulate(&b.blob, 0, &mut random);
        simulate(&b.blob, 1, &mut random);
    }
    both
}

pub fn waves(b: &Blob, plan: usize) -> Vec<(u32, u32)> {
    let p = &b.plans[plan];
    b.waves[p.waves[0] as usize..].iter().take(p.waves[1] as usize).map(|w| (w.first_step, w.steps)).collect()
}
