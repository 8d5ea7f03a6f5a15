//! The memory planner against the verifier and against a simulation of memory that knows nothing of either.
#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serinette_compiler::blob::Blob;
use serinette_core::plan::{
    FirstRecords, Options, Output, Planned, StepInfo, Unit, Workspace, offsets, plan, required,
};
use serinette_core::schedule::{Error, Limits, Live, Program, Reason, record::*, verify};
use serinette_core::{DType, NONE, op};
use std::collections::HashMap;

// ---- programs by hand ----

/// A program under construction. Sizes are constants or the one symbol `n`, at most 100.
#[derive(Default)]
struct Builder {
    blob: Blob,
    numbers: HashMap<u64, u32>,
    open: Vec<u32>,
    entry_first: u32,
}

impl Builder {
    fn expr(&mut self, n: u64) -> u32 {
        *self.numbers.entry(n).or_insert_with(|| {
            self.blob.exprs.push(Expr { op: expr_op::CONSTANT, reserved: [0; 3], a: 0, b: n });
            self.blob.exprs.len() as u32 - 1
        })
    }

    fn symbol(&mut self) -> u32 {
        let name = self.blob.text("n");
        let (low, high) = (1, 100);
        let kind = symbol_kind::INPUT;
        self.blob.symbols.push(Symbol {
            kind,
            change: 1,
            flags: 0,
            source: NONE,
            low,
            high,
            multiple_of: 1,
            name,
        });
        let a = self.blob.symbols.len() as u32 - 1;
        self.blob.exprs.push(Expr { op: expr_op::SYMBOL, reserved: [0; 3], a, b: 0 });
        self.blob.exprs.len() as u32 - 1
    }

    fn raw(&mut self, dtype: DType, role: u8, dims: &[u32]) -> u32 {
        let id = self.blob.values.len() as u32;
        let first = self.blob.dims.len() as u32;
        self.blob.dims.extend_from_slice(dims);
        self.blob.values.push(Value {
            dtype: dtype.code(),
            layout: 0,
            role,
            rank: dims.len() as u8,
            flags: 0,
            view: view::NONE,
            axis: 0,
            dims: first,
            root: id,
            start: NONE,
            counter: NONE,
            counter_stride: NONE,
            part: 0,
            parts: 0,
            section: NONE,
            name: Text::default(),
            reserved: 0,
            data_offset: 0,
            data_bytes: 0,
        });
        id
    }

    fn value(&mut self, role: u8, dims: &[u64]) -> u32 {
        let dims: Vec<u32> = dims.iter().map(|d| self.expr(*d)).collect();
        self.raw(DType::F32, role, &dims)
    }

    /// A tensor of intermediate results of `n` f32.
    fn temp(&mut self, n: u64) -> u32 {
        self.value(role::INTERMEDIATE, &[n])
    }

    /// A view of `n` elements of a vector from `start` on.
    fn window(&mut self, root: u32, start: u64, n: u64) -> u32 {
        let (role, start) = (self.blob.values[root as usize].role, self.expr(start));
        let id = self.value(role, &[n]);
        let v = &mut self.blob.values[id as usize];
        (v.view, v.root, v.start) = (view::WINDOW, root, start);
        id
    }

    /// The parts of a new vector.
    fn parts(&mut self, sizes: &[u64]) -> (u32, Vec<u32>) {
        let root = self.temp(sizes.iter().sum());
        (root, self.cut(root, sizes))
    }

    /// Views that cut a vector into parts.
    fn cut(&mut self, root: u32, sizes: &[u64]) -> Vec<u32> {
        let (mut start, mut ids) = (0, vec![]);
        for (k, n) in sizes.iter().enumerate() {
            let id = self.window(root, start, *n);
            let v = &mut self.blob.values[id as usize];
            (v.view, v.part, v.parts) = (view::PART, k as u16, sizes.len() as u16);
            ids.push(id);
            start += n;
        }
        ids
    }

    fn step(&mut self, kind: u8, inputs: &[u32], outputs: &[u32]) -> u32 {
        let operands = if inputs.len() + outputs.len() == 0 { 0 } else { self.blob.operands.len() as u32 };
        self.blob.operands.extend(inputs.iter().chain(outputs));
        self.blob.steps.push(Step {
            kind,
            scratch: 0,
            inputs: inputs.len() as u8,
            outputs: outputs.len() as u8,
            link: 0,
            operands,
            attrs: 0,
            attr_bytes: 0,
            in_place: [0; 4],
            max_trips: NONE,
            counter: NONE,
        });
        self.blob.steps.len() as u32 - 1
    }

    fn op(&mut self, op: &op::OpDescriptor, inputs: &[u32], outputs: &[u32]) -> u32 {
        let mut dtypes = [0; 24];
        for (d, v) in dtypes.iter_mut().zip(inputs.iter().chain(outputs)) {
            *d = self.blob.values[*v as usize].dtype;
        }
        let sig = Signature {
            op: op.code,
            version: op.version,
            inputs: inputs.len() as u8,
            outputs: outputs.len() as u8,
            variant: 0,
            dtypes,
        };
        let known = self.blob.signatures.iter().position(|s| *s == sig);
        let link = known.unwrap_or_else(|| {
            self.blob.signatures.push(sig);
            self.blob.signatures.len() - 1
        });
        let id = self.step(step_kind::OP, inputs, outputs);
        self.blob.steps[id as usize].link = link as u32;
        id
    }

    fn relu(&mut self, x: u32, y: u32, in_place: bool) -> u32 {
        let id = self.op(&op::unary::RELU, &[x], &[y]);
        self.blob.steps[id as usize].in_place[0] = in_place.into();
        id
    }

    fn copy(&mut self, x: u32, y: u32) -> u32 {
        self.op(&op::movement::COPY, &[x], &[y])
    }

    fn add(&mut self, a: u32, b: u32, y: u32) -> u32 {
        let (attrs, attr_bytes) = self.blob.attrs(&[0; 8]);
        let id = self.op(&op::binary::ADD, &[a, b], &[y]);
        let s = &mut self.blob.steps[id as usize];
        (s.attrs, s.attr_bytes) = (attrs, attr_bytes);
        id
    }

    /// A 3 × 3 convolution of 8 × 8 pixels with scratch for im2col: 36 columns of 9 · `channels` f32.
    fn conv(&mut self, channels: u64) -> u32 {
        let x = self.value(role::INTERMEDIATE, &[1, channels, 8, 8]);
        let w = self.value(role::INTERMEDIATE, &[1, channels, 3, 3]);
        let y = self.value(role::INTERMEDIATE, &[1, 1, 6, 6]);
        for v in [x, w] {
            let from = self.temp(1);
            self.size(from);
            self.copy(from, v);
        }
        let words: [u32; 10] = [1, 1, 0, 0, 0, 0, 1, 1, 1, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let (attrs, attr_bytes) = self.blob.attrs(&bytes);
        let id = self.op(&op::conv::CONV2D, &[x, w], &[y]);
        let s = &mut self.blob.steps[id as usize];
        (s.attrs, s.attr_bytes, s.scratch) = (attrs, attr_bytes, 2);
        y
    }

    /// Writes `y` out of nothing: casts the value of an expression.
    fn size(&mut self, y: u32) {
        let one = self.expr(1);
        let n = self.raw(DType::I32, role::INTERMEDIATE, &[]);
        let mut words = [0u32; 10];
        (words[0], words[8], words[9]) = (one, 1, 1);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let (attrs, attr_bytes) = self.blob.attrs(&bytes);
        let id = self.op(&op::size::SIZE, &[], &[n]);
        let s = &mut self.blob.steps[id as usize];
        (s.attrs, s.attr_bytes) = (attrs, attr_bytes);
        self.op(&op::cast::CAST, &[n], &[y]);
    }

    /// A condition computed from `x`.
    fn condition(&mut self, x: u32) -> u32 {
        let one = self.expr(1);
        let c = self.raw(DType::Bool, role::INTERMEDIATE, &[one]);
        self.op(&op::compare::LESS, &[x, x], &[c]);
        c
    }

    fn begin_if(&mut self, condition: u32, results: &[u32]) {
        let id = self.step(step_kind::IF, &[condition], results);
        self.open.push(id);
    }

    fn begin_else(&mut self) {
        let id = self.step(step_kind::ELSE, &[], &[]);
        let open = *self.open.last().unwrap();
        self.blob.steps[open as usize].link = id;
    }

    fn begin_loop(&mut self, trips: u64, carried: &[(u32, u32)]) {
        let (before, after): (Vec<u32>, Vec<u32>) = carried.iter().copied().unzip();
        let max_trips = self.expr(trips);
        let id = self.step(step_kind::LOOP, &[&[NONE, NONE], &before[..]].concat(), &after);
        self.blob.steps[id as usize].max_trips = max_trips;
        self.open.push(id);
    }

    fn end(&mut self) {
        let id = self.step(step_kind::END, &[], &[]);
        let open = self.open.pop().unwrap();
        let other = self.blob.steps[open as usize].link;
        let last = if other != 0 { other } else { open };
        self.blob.steps[last as usize].link = id;
        self.blob.steps[id as usize].link = open;
    }

    fn entry(&mut self, name: &str, inputs: &[u32], outputs: &[u32]) {
        let (name, operands) = (self.blob.text(name), self.blob.operands.len() as u32);
        self.blob.operands.extend(inputs.iter().chain(outputs));
        let steps = self.blob.steps.len() as u32 - self.entry_first;
        self.blob.entries.push(Entry {
            name,
            kind: entry_kind::CALL,
            first_step: self.entry_first,
            steps,
            operands,
            inputs: inputs.len() as u32,
            outputs: outputs.len() as u32,
            reserved: [0; 2],
        });
        self.entry_first += steps;
    }
}

// ---- planning and checking ----

/// The file of a blob at an address that is a multiple of 8.
struct File {
    bytes: Vec<u8>,
    start: usize,
}

impl File {
    fn new(blob: &Blob) -> File {
        let file = blob.to_bytes();
        let mut bytes = vec![0; file.len() + 8];
        let start = bytes.as_ptr().align_offset(8);
        bytes[start..start + file.len()].copy_from_slice(&file);
        File { bytes, start }
    }

    fn parse(&self) -> Result<Program<'_>, Error> {
        let file = &self.bytes[self.start..self.bytes.len() - 8 + self.start];
        Program::parse(file, file.len() as u64)
    }
}

/// Plans `blob`, appends the records.
fn planned(blob: &mut Blob, options: &Options) -> Result<Planned, Error> {
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

fn verified(blob: &Blob) -> Result<u32, Error> {
    let file = File::new(blob);
    let program = file.parse()?;
    let mut live = vec![Live::default(); blob.max_live as usize];
    let mut exprs = vec![0; blob.exprs.len()];
    Ok(verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs)?.max_live)
}

/// Runs every entry in a simulated memory in which each word holds the id of the value written there, and checks
/// that every read finds what it should, whichever arms and however many trips are taken; and that no step of a
/// wave writes what another one of it touches.
fn simulate(blob: &Blob, plan: usize, random: &mut Random) {
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
fn check(mut b: Builder, seed: u64) -> [Planned; 2] {
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

fn waves(b: &Blob, plan: usize) -> Vec<(u32, u32)> {
    let p = &b.plans[plan];
    b.waves[p.waves[0] as usize..].iter().take(p.waves[1] as usize).map(|w| (w.first_step, w.steps)).collect()
}

// ---- cases ----

#[test]
fn a_chain_needs_two_tensors_and_in_place_one() {
    for (in_place, bytes) in [(false, 2 * 448), (true, 448)] {
        let mut b = Builder::default();
        let n = b.symbol();
        let x = b.raw(DType::F32, role::INPUT, &[n]);
        let mut last = x;
        for _ in 0..10 {
            let y = b.raw(DType::F32, role::INTERMEDIATE, &[n]);
            b.relu(last, y, in_place);
            last = y;
        }
        b.entry("main", &[x], &[last]);
        // 100 elements of 4 bytes, rounded up to 64 and to 8.
        let [desktop, mcu] = check(b, 0);
        assert_eq!((desktop.peak, desktop.lower_bound), (bytes, bytes));
        assert_eq!(mcu.peak, if in_place { 400 } else { 800 });
        assert_eq!(mcu.slots, if in_place { 1 } else { 11 });
    }
}

#[test]
fn independent_steps_share_a_wave_until_the_first_hazard() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let (a, c, d, e) = (b.temp(10), b.temp(11), b.temp(12), b.temp(13));
    b.copy(x, a);
    b.copy(x, c); // another reader of `x`, another target
    b.add(a, c, d); // reads what the wave wrote
    b.copy(x, e);
    let f = b.temp(10);
    b.relu(x, f, true); // overwrites what the wave reads
    let (whole, parts) = b.parts(&[3, 4, 5]);
    for (p, v) in parts.iter().zip([a, c, d]) {
        b.copy(v, *p); // different parts of one tensor
    }
    let y = b.temp(12);
    b.add(whole, f, y);
    b.entry("main", &[x], &[y, e]);
    planned(&mut b.blob, &Options::DESKTOP).unwrap();
    planned(&mut b.blob, &Options::MCU).unwrap();
    assert_eq!(waves(&b.blob, 0), [(0, 2), (2, 2), (4, 4), (8, 1)]);
    assert_eq!(waves(&b.blob, 1), (0..9).map(|s| (s, 1)).collect::<Vec<_>>());
    verified(&b.blob).unwrap();
}

#[test]
fn parts_of_different_cuts_are_a_hazard() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let (whole, one) = b.parts(&[5, 5]);
    let other = b.cut(whole, &[3, 7]);
    let (t, y, z) = (b.temp(5), b.temp(7), b.temp(5));
    b.copy(x, one[1]);
    b.copy(one[1], t);
    b.copy(x, one[0]); // another part of the same cut: no hazard
    b.copy(other[1], y); // reads some of what was just written, under another number
    b.copy(one[0], z);
    b.entry("main", &[x], &[t, y, z]);
    planned(&mut b.blob, &Options::DESKTOP).unwrap();
    assert_eq!(waves(&b.blob, 0), [(0, 1), (1, 2), (3, 2)]);
    check(b, 0);
}

#[test]
fn scratch_is_live_in_its_wave_only() {
    let mut b = Builder::default();
    let y = b.conv(16);
    b.entry("main", &[], &[y]);
    let [_, mcu] = check(b, 0);
    // The input (1 · 16 · 8 · 8), the filter (16 · 9), the output (36) and 36 columns of 144 words.
    let words = 1024 + 144 + 36 + 36 * 144;
    assert_eq!(mcu.lower_bound, words * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn what_a_loop_reads_lives_through_the_loop() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[100]);
    let (before, after) = (b.temp(50), b.temp(50));
    b.copy(x, before);
    b.begin_loop(7, &[(before, after)]);
    let (u, v) = (b.temp(70), b.temp(90));
    b.add(before, x, u);
    b.relu(u, v, false);
    let w = b.temp(60);
    b.relu(v, w, false);
    b.copy(w, after);
    b.end();
    let y = b.temp(10);
    b.copy(before, y);
    b.entry("main", &[x], &[y]);
    let [_, mcu] = check(b, 0);
    // In the body: `x`, the carried pair, and two of the three temporaries of 70, 90 and 60 words.
    assert_eq!(mcu.lower_bound, (100 + 50 + 70 + 90) * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn arms_reuse_memory_and_results_outlive_them() {
    let mut b = Builder::default();
    let x = b.value(role::INPUT, &[10]);
    let c = b.condition(x);
    let result = b.temp(20);
    b.begin_if(c, &[result]);
    let u = b.temp(400);
    b.copy(x, u);
    b.copy(u, result);
    b.begin_else();
    let v = b.temp(300);
    b.copy(x, v);
    b.copy(v, result);
    b.end();
    b.entry("main", &[x], &[result]);
    let [_, mcu] = check(b, 0);
    assert_eq!(mcu.lower_bound, 40 + 8 + 80 + 1600);
    assert_eq!(mcu.peak, mcu.lower_bound);
}

#[test]
fn entries_share_work_memory_and_persistent_values_have_their_own() {
    let mut b = Builder::default();
    let (state, param) = (b.value(role::STATE, &[33]), b.value(role::PARAM, &[7]));
    let state2 = b.value(role::STATE, &[1]);
    let mut ends = vec![];
    for (i, name) in ["one", "two"].into_iter().enumerate() {
        let x = b.value(role::INPUT, &[1000 + i as u64]);
        let unused = b.value(role::INPUT, &[5]);
        let y = b.temp(500);
        let (low, high) = (b.window(state, 0, 16), b.window(state, 16, 17));
        b.add(x, param, y);
        b.copy(y, low);
        b.copy(y, high);
        b.copy(x, state2);
        b.entry(name, &[x, unused], &[y, state]);
        ends.push(x);
    }
    let [_, mcu] = check(b, 0);
    assert_eq!(mcu.lower_bound, (1001 + 1 + 5 + 1 + 500) * 4);
    assert_eq!(mcu.peak, mcu.lower_bound);
    assert_eq!(mcu.arenas, 3);
}

#[test]
fn an_entry_without_steps_and_unused_values_are_planned() {
    let mut b = Builder::default();
    let (x, z) = (b.value(role::INPUT, &[3]), b.value(role::INPUT, &[5]));
    b.temp(1000);
    b.entry("main", &[x, z], &[z]);
    let p = planned(&mut b.blob, &Options::MCU).unwrap();
    assert_eq!((p.waves, p.slots, p.lower_bound, p.max_live), (0, 3, 16 + 24, 2));
    verified(&b.blob).unwrap();
}

#[test]
fn broken_programs_are_refused() {
    let refuse = |what: &str, reason: Reason, change: &dyn Fn(&mut Builder, u32, u32, u32)| {
        let mut b = Builder::default();
        let x = b.value(role::INPUT, &[10]);
        let (y, z) = (b.temp(10), b.temp(10));
        change(&mut b, x, y, z);
        if b.blob.entries.is_empty() {
            b.entry("main", &[x], &[z]);
        }
        let found = planned(&mut b.blob, &Options::DESKTOP).expect_err(what).reason;
        assert_eq!(found, reason, "{what}");
    };
    refuse("output never written", Reason::Unwritten, &|b, x, y, _| {
        b.copy(x, y);
    });
    refuse("read before the write", Reason::Unwritten, &|b, _, y, z| {
        b.copy(y, z);
    });
    refuse("two entries", Reason::Role, &|b, x, y, z| {
        b.copy(x, y);
        b.entry("one", &[x], &[y]);
        b.copy(y, z);
        b.entry("two", &[], &[z]);
    });
    refuse("in place over a state", Reason::InPlace, &|b, _, _, z| {
        let s = b.value(role::STATE, &[10]);
        b.relu(s, z, true);
    });
    refuse("in place over a kept input", Reason::InPlace, &|b, x, _, z| {
        b.blob.values[x as usize].flags = value_flag::KEEP;
        b.relu(x, z, true);
    });
    refuse("two inputs in one slot", Reason::DefinedTwice, &|b, x, _, z| {
        let x2 = b.value(role::INPUT, &[10]);
        b.relu(x, z, true);
        b.relu(x2, z, true);
        b.entry("main", &[x, x2], &[z]);
    });
    refuse("a region left open", Reason::Region, &|b, x, _, z| {
        let c = b.condition(x);
        b.begin_if(c, &[]);
        b.copy(x, z);
    });
    refuse("an end without a region", Reason::Region, &|b, x, _, z| {
        b.copy(x, z);
        b.step(step_kind::END, &[], &[]);
    });
    refuse("too many regions", Reason::Depth, &|b, _, _, _| {
        (0..9).for_each(|_| b.begin_loop(1, &[]));
        (0..9).for_each(|_| b.end());
    });
    refuse("operands out of the table", Reason::Id, &|b, x, _, z| {
        let s = b.copy(x, z);
        b.blob.steps[s as usize].operands = 1000;
    });
    refuse("a value id out of the table", Reason::Id, &|b, x, _, z| {
        b.copy(x, z);
        b.blob.operands[0] = 77;
    });
    refuse("sizes that overflow", Reason::Overflow, &|b, x, _, z| {
        let y = b.value(role::INTERMEDIATE, &[1 << 40, 1 << 40]);
        b.copy(x, y);
        b.copy(y, z);
    });
    refuse("a sum that overflows", Reason::Overflow, &|b, x, _, z| {
        for _ in 0..3 {
            let y = b.temp(1 << 60);
            b.copy(x, y);
        }
        b.copy(x, z);
    });
    refuse("steps in no entry", Reason::EntryRange, &|b, x, y, z| {
        b.copy(x, z);
        b.entry("main", &[x], &[z]);
        b.copy(x, y);
    });
    refuse("a view of a view", Reason::Root, &|b, x, _, z| {
        let w = b.window(x, 0, 5);
        let v = b.window(w, 0, 2);
        b.copy(v, z);
    });
}

// ---- random programs ----

struct Random(u64);

impl Random {
    /// A number below `n` (splitmix64).
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn size(&mut self) -> u64 {
        [1, 3, 17, 64, 100, 257, 1000, 4096][self.below(8)] + self.below(5) as u64
    }
}

/// Steps into `scope`, the values that can be read here; the first `outer` of them belong to regions around.
/// Shapes mostly do not fit the ops: that is no business of a memory plan.
fn random_steps(b: &mut Builder, r: &mut Random, scope: &mut Vec<u32>, depth: usize, states: &[u32]) {
    let outer = scope.len();
    for _ in 0..1 + r.below(if depth == 0 { 25 } else { 8 }) {
        let x = scope[r.below(scope.len())];
        match r.below(12) {
            0..4 => {
                let (z, n) = (scope[r.below(scope.len())], r.size());
                let y = b.temp(n);
                b.add(x, z, y);
                scope.push(y);
            }
            4 | 5 if scope.len() > outer => {
                // In place over a value of this very region; nothing can read that any more.
                let at = outer + r.below(scope.len() - outer);
                let (x, n) = (scope.swap_remove(at), r.size());
                if b.blob.values[x as usize].view == view::NONE {
                    let y = b.temp(n);
                    b.relu(x, y, true);
                    scope.push(y);
                }
            }
            6 => {
                let sizes: Vec<u64> = (0..1 + r.below(5)).map(|_| r.size()).collect();
                let (whole, parts) = b.parts(&sizes);
                for p in parts {
                    let x = scope[r.below(scope.len())];
                    b.copy(x, p);
                }
                scope.push(whole);
            }
            7 => {
                let y = b.conv(1 + r.below(9) as u64);
                scope.push(y);
            }
            8 if !states.is_empty() => {
                let s = states[r.below(states.len())];
                let (y, n) = (b.window(s, r.below(100) as u64, 20), r.size());
                b.copy(x, y);
                let z = b.temp(n);
                b.add(s, x, z);
                scope.push(z);
            }
            9 | 10 if depth < 4 => {
                let c = b.condition(x);
                let results: Vec<u32> = (0..r.below(3)).map(|_| b.temp(r.size())).collect();
                b.begin_if(c, &results);
                for arm in 0..2 {
                    let mut inner = scope.clone();
                    random_steps(b, r, &mut inner, depth + 1, states);
                    for y in &results {
                        let x = inner[r.below(inner.len())];
                        b.copy(x, *y);
                    }
                    if arm == 0 {
                        b.begin_else();
                    }
                }
                b.end();
                scope.extend(results);
            }
            11 if depth < 4 => {
                let carried: Vec<(u32, u32)> = (0..r.below(3))
                    .map(|_| {
                        let n = r.size();
                        (b.temp(n), b.temp(n))
                    })
                    .collect();
                for (before, _) in &carried {
                    b.copy(x, *before);
                }
                let mut inner = scope.clone();
                inner.extend(carried.iter().map(|c| c.0));
                b.begin_loop(1 + r.below(9) as u64, &carried);
                random_steps(b, r, &mut inner, depth + 1, states);
                // Values made in the body; the carried ones are overwritten one by one.
                let made = inner.split_off(scope.len() + carried.len());
                for (before, after) in &carried {
                    match made.len() {
                        0 => b.relu(*before, *after, true),
                        n => b.copy(made[r.below(n)], *after),
                    };
                }
                b.end();
                scope.extend(carried.iter().map(|c| c.0));
            }
            _ => {
                let y = b.temp(r.size());
                b.relu(x, y, false);
                scope.push(y);
            }
        }
    }
}

#[test]
fn random_programs_verify_and_read_what_they_wrote() {
    let (mut ratios, mut worst, mut exact) = (0.0, 1.0f64, 0);
    let rounds = 150;
    for seed in 0..rounds {
        let mut r = Random(seed);
        let mut b = Builder::default();
        let states: Vec<u32> = (0..r.below(3)).map(|_| b.value(role::STATE, &[150])).collect();
        for name in &["main", "other"][..1 + r.below(2)] {
            let inputs: Vec<u32> = (0..1 + r.below(3)).map(|_| b.value(role::INPUT, &[r.size()])).collect();
            if r.below(4) == 0 {
                b.blob.values[inputs[0] as usize].flags = value_flag::KEEP;
            }
            let mut scope = inputs.clone();
            random_steps(&mut b, &mut r, &mut scope, 0, &states);
            let outputs: Vec<u32> = (0..1 + r.below(2)).map(|_| scope[r.below(scope.len())]).collect();
            b.entry(name, &inputs, &outputs);
        }
        for p in check(b, seed) {
            let ratio = p.peak as f64 / p.lower_bound as f64;
            ratios += ratio / (2 * rounds) as f64;
            worst = worst.max(ratio);
            exact += u32::from(p.peak == p.lower_bound);
        }
    }
    println!("peak / lower bound: mean {ratios:.5}, worst {worst:.4}, {exact} of {} exact", 2 * rounds);
    assert!(ratios < 1.002 && worst < 1.02, "mean {ratios:.5}, worst {worst:.4}");
}

/// Programs with a few bytes changed: an error or a plan, never a panic, and never a wrong claim.
#[test]
fn damaged_programs_never_panic() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut r = Random(seed ^ 0xdead);
        let mut b = Builder::default();
        let states = [b.value(role::STATE, &[150])];
        let x = b.value(role::INPUT, &[r.size()]);
        let mut scope = vec![x];
        random_steps(&mut b, &mut r, &mut scope, 1, &states);
        b.entry("main", &[x], &[*scope.last().unwrap()]);
        let blob = &mut b.blob;
        for _ in 0..1 + r.below(3) {
            let word = [0, 1, 2, 7, NONE, NONE - 1, r.below(60) as u32, r.below(1 << 32) as u32][r.below(8)];
            let (v, s) = (r.below(blob.values.len()), r.below(blob.steps.len()));
            let operand = r.below(blob.operands.len());
            match r.below(16) {
                0 => blob.values[v].root = word,
                1 => blob.values[v].view = word as u8,
                2 => blob.values[v].dims = word,
                3 => blob.values[v].rank = word as u8,
                4 => blob.values[v].role = word as u8,
                5 => blob.values[v].part = word as u16,
                6 => blob.steps[s].link = word,
                7 => blob.steps[s].kind = word as u8,
                8 => blob.steps[s].operands = word,
                9 => blob.steps[s].in_place[r.below(4)] = word as u8,
                10 => blob.steps[s].inputs = word as u8,
                11 => blob.steps[s].outputs = word as u8,
                12 => blob.operands[operand] = word,
                13 => blob.entries[0].steps = word,
                14 => blob.entries[0].operands = word,
                _ => blob.exprs[0].b = u64::from(word) << 20,
            }
        }
        let result = planned(blob, &Options { effort: 10_000, ..Options::DESKTOP });
        refused += u32::from(result.is_err());
    }
    assert!((500..3000).contains(&refused), "{refused}");
}
