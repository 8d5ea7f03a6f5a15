//! Programs by hand.

use serinette_compiler::blob::Blob;
use serinette_core::schedule::record::*;
use serinette_core::{DType, NONE, op};
use std::collections::HashMap;

/// A program under construction. Sizes are constants or the one symbol `n`, at most 100.
#[derive(Default)]
pub struct Builder {
    blob: Blob,
    numbers: HashMap<u64, u32>,
    open: Vec<u32>,
    entry_first: u32,
}

impl Builder {
    pub fn expr(&mut self, n: u64) -> u32 {
        *self.numbers.entry(n).or_insert_with(|| {
            self.blob.exprs.push(Expr { op: expr_op::CONSTANT, reserved: [0; 3], a: 0, b: n });
            self.blob.exprs.len() as u32 - 1
        })
    }

    pub fn symbol(&mut self) -> u32 {
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

    pub fn raw(&mut self, dtype: DType, role: u8, dims: &[u32]) -> u32 {
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

    pub fn value(&mut self, role: u8, dims: &[u64]) -> u32 {
        let dims: Vec<u32> = dims.iter().map(|d| self.expr(*d)).collect();
        self.raw(DType::F32, role, &dims)
    }

    /// A tensor of intermediate results of `n` f32.
    pub fn temp(&mut self, n: u64) -> u32 {
        self.value(role::INTERMEDIATE, &[n])
    }

    /// A view of `n` elements of a vector from `start` on.
    pub fn window(&mut self, root: u32, start: u64, n: u64) -> u32 {
        let (role, start) = (self.blob.values[root as usize].role, self.expr(start));
        let id = self.value(role, &[n]);
        let v = &mut self.blob.values[id as usize];
        (v.view, v.root, v.start) = (view::WINDOW, root, start);
        id
    }

    /// The parts of a new vector.
    pub fn parts(&mut self, sizes: &[u64]) -> (u32, Vec<u32>) {
        let root = self.temp(sizes.iter().sum());
        (root, self.cut(root, sizes))
    }

    /// Views that cut a vector into parts.
    pub fn cut(&mut self, root: u32, sizes: &[u64]) -> Vec<u32> {
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

    pub fn step(&mut self, kind: u8, inputs: &[u32], outputs: &[u32]) -> u32 {
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

    pub fn op(&mut self, op: &op::OpDescriptor, inputs: &[u32], outputs: &[u32]) -> u32 {
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

    pub fn relu(&mut self, x: u32, y: u32, in_place: bool) -> u32 {
        let id = self.op(&op::unary::RELU, &[x], &[y]);
        self.blob.steps[id as usize].in_place[0] = in_place.into();
        id
    }

    pub fn copy(&mut self, x: u32, y: u32) -> u32 {
        self.op(&op::movement::COPY, &[x], &[y])
    }

    pub fn add(&mut self, a: u32, b: u32, y: u32) -> u32 {
        let (attrs, attr_bytes) = self.blob.attrs(&[0; 8]);
        let id = self.op(&op::binary::ADD, &[a, b], &[y]);
        let s = &mut self.blob.steps[id as usize];
        (s.attrs, s.attr_bytes) = (attrs, attr_bytes);
        id
    }

    /// A 3 × 3 convolution of 8 × 8 pixels with scratch for im2col: 36 columns of 9 · `channels` f32.
    pub fn conv(&mut self, channels: u64) -> u32 {
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
    pub fn size(&mut self, y: u32) {
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
    pub fn condition(&mut self, x: u32) -> u32 {
        let one = self.expr(1);
        let c = self.raw(DType::Bool, role::INTERMEDIATE, &[one]);
        self.op(&op::compare::LESS, &[x, x], &[c]);
        c
    }

    pub fn begin_if(&mut self, condition: u32, results: &[u32]) {
        let id = self.step(step_kind::IF, &[condition], results);
        self.open.push(id);
    }

    pub fn begin_else(&mut self) {
        let id = self.step(step_kind::ELSE, &[], &[]);
        let open = *self.open.last().unwrap();
        self.blob.steps[open as usize].link = id;
    }

    pub fn begin_loop(&mut self, trips: u64, carried: &[(u32, u32)]) {
        let (before, after): (Vec<u32>, Vec<u32>) = carried.iter().copied().unzip();
        let max_trips = self.expr(trips);
        let id = self.step(step_kind::LOOP, &[&[NONE, NONE], &before[..]].concat(), &after);
        self.blob.steps[id as usize].max_trips = max_trips;
        self.open.push(id);
    }

    pub fn end(&mut self) {
        let id = self.step(step_kind::END, &[], &[]);
        let open = self.open.pop().unwrap();
        let other = self.blob.steps[open as usize].link;
        let last = if other != 0 { other } else { open };
        self.blob.steps[last as usize].link = id;
        self.blob.steps[id as usize].link = open;
    }

    pub fn entry(&mut self, name: &str, inputs: &[u32], outputs: &[u32]) {
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
