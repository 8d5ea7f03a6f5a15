//! Random valid programs with tight plans: chains and graphs of small tensors with in-place results, parts,
//! windows, reshapes, scratch, arms and loops.

use super::build::Build;
use super::choice::Choice;
use super::draft::Draft;
use serinette_compiler::blob::Blob;
use serinette_core::op::{OpDescriptor, binary, compare, conv, movement, softmax, unary};
use serinette_core::schedule::record::*;
use serinette_core::{DType, NONE};

/// What a generator may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Ops, roughly.
    pub ops: usize,
    /// Values kept alive at most.
    pub live: usize,
    /// Steps in a wave at most.
    pub wave: usize,
    /// Arms and loops.
    pub regions: bool,
    /// Deepest nesting.
    pub depth: usize,
}

#[derive(Clone, Copy)]
struct Alive {
    value: u32,
    depth: usize,
    /// Wave that wrote it last.
    written: usize,
    /// Wave that read it last.
    read: usize,
}

struct Generator<'c, C> {
    b: Build,
    d: Draft,
    choice: &'c mut C,
    options: Options,
    alive: Vec<Alive>,
    depth: usize,
    ops: usize,
    n: u32,
    twice: u32,
    zero: u32,
    one: u32,
    three: u32,
    /// Values that the innermost arm or body must not touch.
    locked: Vec<u32>,
    state: u32,
    taps: u32,
}

/// A random program with one plan.
pub fn program(choice: &mut impl Choice, options: Options) -> Blob {
    let mut b = Build::default();
    let (_, n) = b.symbol("n", 0, 5);
    let (zero, one, three) = (b.constant(0), b.constant(1), b.constant(3));
    let twice = b.expr(expr_op::ADD, n, n.into());
    let mut inputs = Vec::new();
    for _ in 0..1 + choice.below(3) {
        inputs.push(b.value(DType::F32, role::INPUT, &[n, three]));
        if choice.one_in(4) {
            b.blob.values.last_mut().unwrap().flags = value_flag::KEEP;
        }
    }
    let trips = b.value(DType::I32, role::INPUT, &[]);
    let state = b.value(DType::F32, role::STATE, &[n, three]);
    let taps = b.value(DType::F32, role::STATE, &[n, one, one, one]);
    let alive = inputs.iter().map(|v| Alive { value: *v, depth: 0, written: 0, read: 0 }).collect();
    let mut g = Generator {
        b,
        d: Draft::default(),
        choice,
        options,
        alive,
        depth: 0,
        ops: 0,
        n,
        twice,
        zero,
        one,
        three,
        locked: vec![],
        state,
        taps,
    };
    inputs.push(trips);
    g.block(options.ops, trips);
    let outputs: Vec<u32> = g.alive.iter().map(|a| a.value).filter(|v| !inputs.contains(v)).take(3).collect();
    g.b.entry("main", entry_kind::CALL, &inputs, &outputs);
    let align = *g.choice.of(&[8, 16, 64]);
    let plan = g.d.plan(&g.b, &vec![[0, 5]; g.b.blob.symbols.len()], align);
    plan.write(&mut g.b.blob, "plan");
    g.b.blob.max_live = plan.slots.len() as u32;
    g.b.blob
}

const NOTHING: [u8; 0] = [];

impl<C: Choice> Generator<'_, C> {
    fn fresh(&mut self) -> u32 {
        self.b.value(DType::F32, role::INTERMEDIATE, &[self.n, self.three])
    }

    fn now(&self) -> usize {
        self.d.waves.len()
    }

    /// Puts one step into the last wave where that is allowed, else into a new one.
    fn place(&mut self, reads: &[u32], defs: &[u32]) -> usize {
        let last = self.now();
        let most = self.options.wave as u32;
        let may = self.d.waves.last().is_some_and(|w| w.steps > 0 && w.steps < most && w.kills.is_empty())
            && !self.edge_wave()
            && reads.iter().all(|r| self.alive.iter().all(|a| a.value != *r || a.written < last));
        if may && self.choice.below(4) > 0 {
            let w = self.d.waves.last_mut().unwrap();
            w.steps += 1;
            w.defs.extend(defs);
        } else {
            self.d.wave(1, defs, &[]);
        }
        let wave = self.now();
        for a in self.alive.iter_mut().filter(|a| reads.contains(&a.value)) {
            a.read = wave;
        }
        wave
    }

    /// A wave of one step.
    fn alone(&mut self, reads: &[u32], defs: &[u32]) {
        self.d.wave(1, defs, &[]);
        let wave = self.now();
        for a in self.alive.iter_mut().filter(|a| reads.contains(&a.value)) {
            a.read = wave;
        }
    }

    fn edge_wave(&self) -> bool {
        let first: u32 = self.d.waves.iter().rev().skip(1).map(|w| w.steps).sum();
        self.b.blob.steps.get(first as usize).is_none_or(|s| s.kind != step_kind::OP)
    }

    fn readable(&mut self) -> Option<u32> {
        let locked = &self.locked;
        let all: Vec<u32> = self.alive.iter().map(|a| a.value).filter(|v| !locked.contains(v)).collect();
        if all.is_empty() { None } else { Some(*self.choice.of(&all)) }
    }

    fn born(&mut self, value: u32, wave: usize) {
        self.alive.push(Alive { value, depth: self.depth, written: wave, read: 0 });
    }

    /// Lets a value of this depth die at the end of the last wave.
    fn kill(&mut self, value: u32) {
        self.alive.retain(|a| a.value != value);
        self.d.waves.last_mut().unwrap().kills.push(value);
    }

    fn block(&mut self, ops: usize, trips: u32) {
        let end = self.ops + ops;
        while self.ops < end {
            self.ops += 1;
            match self.choice.below(if self.options.regions && self.depth < self.options.depth {
                12
            } else {
                10
            }) {
                0 => self.parts(),
                1 => self.window(),
                2 => self.scratch(),
                3 | 4 => self.in_place(),
                5 => self.state(),
                10 => self.arms(trips),
                11 => self.repeat(trips),
                _ => self.plain(),
            }
            self.shed();
        }
    }

    fn shed(&mut self) {
        loop {
            let depth = self.depth;
            let kept = |v: u32, g: &Self| g.b.blob.values[v as usize].flags & value_flag::KEEP != 0;
            let dying: Vec<u32> = self
                .alive
                .iter()
                .filter(|a| a.depth == depth && !kept(a.value, self) && !self.locked.contains(&a.value))
                .map(|a| a.value)
                .collect();
            if self.now() == 0 || dying.len() <= 1 {
                return;
            }
            if self.alive.len() <= self.options.live && !self.choice.one_in(5) {
                return;
            }
            let v = *self.choice.of(&dying);
            self.kill(v);
        }
    }

    fn plain(&mut self) {
        let (Some(x), Some(y)) = (self.readable(), self.readable()) else { return };
        let out = self.fresh();
        let op: &OpDescriptor = if self.choice.one_in(2) { &binary::ADD } else { &binary::MUL };
        self.b.op(op, &binary::Binary::default(), &[x, y], &[out], [0; 4]);
        let wave = self.place(&[x, y], &[out]);
        self.born(out, wave);
    }

    fn in_place(&mut self) {
        let depth = self.depth;
        let last = self.now();
        let values = &self.b.blob.values;
        let may = |a: &&Alive| {
            let v = &values[a.value as usize];
            a.depth == depth && v.flags & value_flag::KEEP == 0 && a.value != self.state && a.read < last
        };
        let all: Vec<u32> =
            self.alive.iter().filter(may).map(|a| a.value).filter(|v| !self.locked.contains(v)).collect();
        if all.is_empty() {
            return self.plain();
        }
        let x = *self.choice.of(&all);
        let out = self.fresh();
        self.b.op(&unary::RELU, &NOTHING, &[x], &[out], [1, 0, 0, 0]);
        self.d.same.push((x, out));
        let wave = self.place(&[x], &[]);
        self.alive.retain(|a| a.value != x);
        self.born(out, wave);
    }

    fn parts(&mut self) {
        let (Some(x), Some(y)) = (self.readable(), self.readable()) else { return };
        let root = self.b.value(DType::F32, role::INTERMEDIATE, &[self.twice, self.three]);
        let (zero, n) = (self.zero, self.n);
        let dims = [self.n, self.three];
        let a = self.b.view(root, view::PART, &dims, |v| (v.start, v.part, v.parts) = (zero, 0, 2));
        let b = self.b.view(root, view::PART, &dims, |v| (v.start, v.part, v.parts) = (n, 1, 2));
        self.b.op(&unary::RELU, &NOTHING, &[x], &[a], [0; 4]);
        self.place(&[x], &[root]);
        self.b.op(&unary::RELU, &NOTHING, &[y], &[b], [0; 4]);
        self.place(&[y], &[]);
        // Read whole, through another part of it, and through a window.
        let window = self.b.view(root, view::WINDOW, &dims, |v| v.start = n);
        let out = self.fresh();
        self.b.op(&binary::ADD, &binary::Binary::default(), &[window, a], &[out], [0; 4]);
        self.d.wave(1, &[out], &[root]);
        let wave = self.now();
        self.born(out, wave);
    }

    fn window(&mut self) {
        let (Some(x), Some(y), Some(z)) = (self.readable(), self.readable(), self.readable()) else { return };
        let root = self.b.value(DType::F32, role::INTERMEDIATE, &[self.twice, self.three]);
        let axis = softmax::Axis { axis: 0, reserved: 0 };
        self.b.op(&movement::CONCAT, &axis, &[x, y], &[root], [0; 4]);
        self.place(&[x, y], &[root]);
        let (zero, n) = (self.zero, self.n);
        let dims = [self.n, self.three];
        let start = if self.choice.one_in(2) { zero } else { n };
        let part = self.b.view(root, view::WINDOW, &dims, |v| v.start = start);
        // The update must not share the wave of the concatenation.
        self.b.op(&unary::RELU, &NOTHING, &[z], &[part], [0; 4]);
        self.alone(&[z], &[]);
        let other = self.b.view(root, view::WINDOW, &dims, |v| v.start = zero);
        let out = self.fresh();
        self.b.op(&binary::MUL, &binary::Binary::default(), &[other, part], &[out], [0; 4]);
        self.d.wave(1, &[out], &[root]);
        let wave = self.now();
        self.born(out, wave);
    }

    fn scratch(&mut self) {
        let Some(x) = self.readable() else { return };
        let (zero, one, three, n) = (self.zero, self.one, self.three, self.n);
        let out = self.fresh();
        // One tap, taken from a state.
        let tap = self.b.view(self.taps, view::WINDOW, &[one, one, one, one], |v| v.start = zero);
        let attrs = conv::Conv2d { geometry: conv::Geometry::default(), groups: 1, activation: 0 };
        let image = self.b.view(x, view::RESHAPE, &[n, one, three, one], |_| ());
        let target = self.b.view(out, view::RESHAPE, &[n, one, three, one], |_| ());
        let step = self.b.op(&conv::CONV2D, &attrs, &[image, tap, NONE], &[target], [0; 4]);
        self.b.blob.steps[step as usize].scratch = 2;
        let wave = self.place(&[x], &[out]);
        self.d.scratch.push((step, wave - 1, 12));
        self.born(out, wave);
    }

    fn state(&mut self) {
        let Some(x) = self.readable() else { return };
        let s = self.state;
        self.b.op(&binary::ADD, &binary::Binary::default(), &[s, x], &[s], [1, 0, 0, 0]);
        self.alone(&[x], &[]);
    }

    fn leave(&mut self) {
        let depth = self.depth;
        let inner: Vec<u32> = self.alive.iter().filter(|a| a.depth == depth).map(|a| a.value).collect();
        inner.into_iter().for_each(|v| self.kill(v));
        self.depth -= 1;
    }

    fn arms(&mut self, trips: u32) {
        let Some(x) = self.readable() else { return };
        let one = self.one;
        let cell = self.b.view(self.state, view::RESHAPE, &[self.n, self.three], |_| ());
        let flags = self.b.value(DType::Bool, role::INTERMEDIATE, &[self.n, self.three]);
        self.b.op(&compare::GREATER, &NOTHING, &[x, cell], &[flags], [0; 4]);
        self.d.wave(1, &[flags], &[]);
        // The first flag is the condition.
        let condition = self.b.value(DType::Bool, role::INTERMEDIATE, &[one, one]);
        let slice = movement::Slice::default();
        self.b.op(&movement::SLICE, &slice, &[flags], &[condition], [0; 4]);
        self.d.wave(1, &[condition], &[flags]);
        let results: Vec<u32> = (0..self.choice.below(3)).map(|_| self.fresh()).collect();
        let open = self.b.edge(step_kind::IF, &[condition], &results);
        self.d.wave(1, &results, &[condition]);
        self.locked.extend(&results);
        let mut edges = vec![open];
        let second = !results.is_empty() || self.choice.one_in(2);
        for arm in 0..1 + usize::from(second) {
            if arm == 1 {
                edges.push(self.b.edge(step_kind::ELSE, &[], &[]));
                self.d.wave(1, &[], &[]);
            }
            self.depth += 1;
            let ops = 1 + self.choice.below(3);
            self.block(ops, trips);
            for r in &results {
                let Some(y) = self.readable() else { unreachable!("an input is always there") };
                self.b.op(&unary::RELU, &NOTHING, &[y], &[*r], [0; 4]);
                self.d.wave(1, &[], &[]);
            }
            if self.b.blob.steps.last().unwrap().kind != step_kind::OP {
                self.state();
            }
            self.leave();
        }
        edges.push(self.b.edge(step_kind::END, &[], &[]));
        self.d.wave(1, &[], &[]);
        self.b.close(&edges);
        self.locked.retain(|v| !results.contains(v));
        let wave = self.now();
        results.iter().for_each(|r| self.born(*r, wave));
    }

    fn repeat(&mut self, trips: u32) {
        // The carried value: a copy of something, made here.
        let Some(x) = self.readable() else { return };
        let before = self.fresh();
        self.b.op(&unary::RELU, &NOTHING, &[x], &[before], [0; 4]);
        self.d.wave(1, &[before], &[]);
        let after = if self.choice.one_in(3) { before } else { self.fresh() };
        if after != before {
            self.d.same.push((before, after));
        }
        let count = if self.choice.one_in(2) { trips } else { NONE };
        let open = self.b.edge(step_kind::LOOP, &[NONE, count, before], &[after]);
        self.d.wave(1, &[], &[]);
        self.depth += 1;
        self.locked.extend([before, after]);
        let ops = 1 + self.choice.below(5);
        self.block(ops, trips);
        let Some(y) = self.readable() else { unreachable!("an input is always there") };
        // after = before + y in place, or relu(y) written over it.
        if self.choice.one_in(2) {
            let inputs = [before, y];
            self.b.op(&binary::ADD, &binary::Binary::default(), &inputs, &[after], [1, 0, 0, 0]);
        } else {
            self.b.op(&unary::RELU, &NOTHING, &[y], &[after], [0; 4]);
        }
        self.d.wave(1, &[], &[]);
        self.leave();
        let end = self.b.edge(step_kind::END, &[], &[]);
        self.d.wave(1, &[], &[]);
        self.b.close(&[open, end]);
        self.b.set_loop(open, self.three, None);
        self.locked.retain(|v| *v != before && *v != after);
        let wave = self.now();
        self.born(before, wave);
    }
}
