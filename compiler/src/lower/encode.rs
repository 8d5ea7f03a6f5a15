//! Records from the flat program.

use super::{LowStep, Place, Program};
use crate::blob::Blob;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Graph;
use crate::passes::fold::signature;
use bytemuck::Zeroable;
use serinette_core::NONE;
use serinette_core::op::ScratchClass;
use serinette_core::op::size::{SIZE, Size};
use serinette_core::schedule::record::{
    DebugName, Entry, Expr, Guard, Hint, Metadata, Signature, Step, Symbol, Value, WeightSection, entry_kind,
    expr_op, role, step_kind, symbol_change, symbol_kind, view,
};
use serinette_core::shape::Dim;
use std::collections::{BTreeSet, HashMap};

/// Alignment of tensors within the weight section: vector loads of 16 bytes never straddle.
const DATA_ALIGN: usize = 16;

pub(super) fn encode(graph: &Graph, program: &Program, scratch: ScratchClass) -> Result<Blob, Error> {
    let mut e = Encoder {
        graph,
        program,
        blob: Blob::default(),
        exprs: HashMap::new(),
        symbols: HashMap::new(),
        signatures: HashMap::new(),
        data: HashMap::new(),
        weights: Vec::new(),
    };
    e.expressions()?;
    e.guards()?;
    for v in &program.values {
        e.value(v)?;
    }
    for s in &program.steps {
        e.step(s, scratch)?;
    }
    e.counters();
    for (i, s) in program.steps.iter().enumerate() {
        if !s.name.is_empty() {
            let name = e.blob.text(&s.name);
            e.blob.debug_names.push(DebugName { step: i as u32, reserved: 0, name });
        }
    }
    e.entries();
    e.extras();
    // Tensors without elements have their place in the section too.
    if e.blob.values.iter().any(|v| v.section != NONE) {
        let name = e.blob.text("weights");
        e.blob.weights.push(WeightSection { name, ..WeightSection::zeroed() });
        e.blob.weight_data.push(e.weights);
    }
    Ok(e.blob)
}

struct Encoder<'a> {
    graph: &'a Graph,
    program: &'a Program,
    blob: Blob,
    /// Graph expression → record.
    exprs: HashMap<u64, u32>,
    /// Graph symbol → record.
    symbols: HashMap<u32, u32>,
    signatures: HashMap<([u8; 24], u16, u16, u8, u8), u32>,
    /// Contents → offset in the weight section, so that equal tensors are stored once.
    data: HashMap<Vec<u8>, u64>,
    weights: Vec<u8>,
}

/// The attribute expressions of a step, if its op has any.
fn size_attrs(s: &LowStep) -> Option<Size> {
    s.op.filter(|o| o.code == SIZE.code)?;
    serinette_core::op::attributes(&s.attrs).ok()
}

impl Encoder<'_> {
    /// The expressions that records refer to, and what they are made of, in the order of the graph.
    fn expressions(&mut self) -> Result<(), Error> {
        let mut wanted: BTreeSet<u64> = BTreeSet::new();
        for v in &self.program.values {
            wanted.extend(v.dims.iter().map(|d| d.0));
            if let Place::Window { start, .. } | Place::Part { start, .. } = v.place {
                wanted.insert(start.0);
            }
        }
        for s in &self.program.steps {
            wanted.extend(s.max_trips.map(|d| d.0));
            wanted.extend(s.counter.map(|d| d.0));
            if let Some(a) = size_attrs(s) {
                wanted.extend(a.exprs.iter().take(a.count as usize).map(|e| u64::from(*e)));
            }
        }
        for g in self.live_guards() {
            wanted.extend([g.0.0, g.1.0]);
        }
        let mut todo: Vec<u64> = wanted.iter().copied().collect();
        while let Some(d) = todo.pop() {
            let e = self.graph.dims.expr(Dim(d)).ok_or(Error::count("expressions", "dimension", 0, d))?;
            let operands = match e.op {
                expr_op::CONSTANT | expr_op::SYMBOL => [None, None],
                expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => {
                    [Some(u64::from(e.a)), Some(e.b)]
                }
                _ => [Some(u64::from(e.a)), None],
            };
            for o in operands.into_iter().flatten() {
                if wanted.insert(o) {
                    todo.push(o);
                }
            }
        }
        for d in wanted {
            let e = self.graph.dims.expr(Dim(d)).ok_or(Error::count("expressions", "dimension", 0, d))?;
            let record = match e.op {
                expr_op::CONSTANT => e,
                expr_op::SYMBOL => Expr { a: self.symbol(e.a)?, ..e },
                expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => {
                    Expr { a: self.expr(Dim(u64::from(e.a)))?, b: u64::from(self.expr(Dim(e.b))?), ..e }
                }
                _ => Expr { a: self.expr(Dim(u64::from(e.a)))?, ..e },
            };
            self.exprs.insert(d, self.blob.exprs.len() as u32);
            self.blob.exprs.push(record);
        }
        Ok(())
    }

    /// Guards, without those about loop counters (which no rule makes).
    fn live_guards(&self) -> Vec<(Dim, Dim, bool)> {
        self.graph.dims.guards().iter().map(|g| (g.a, g.b, g.equal)).collect()
    }

    fn symbol(&mut self, id: u32) -> Result<u32, Error> {
        if let Some(s) = self.symbols.get(&id) {
            return Ok(*s);
        }
        let info = self.graph.dims.symbols().get(id as usize);
        let info = info.ok_or(Error::count("symbols", "symbol", 0, u64::from(id)))?;
        let name = self.blob.text(&info.name);
        let record = Symbol {
            kind: info.kind,
            change: symbol_change::SHAPE,
            flags: 0,
            source: NONE,
            low: info.low,
            high: info.high,
            multiple_of: info.multiple_of,
            name,
        };
        self.blob.symbols.push(record);
        let new = self.blob.symbols.len() as u32 - 1;
        self.symbols.insert(id, new);
        Ok(new)
    }

    fn expr(&self, d: Dim) -> Result<u32, Error> {
        self.exprs.get(&d.0).copied().ok_or(Error::count(
            "expressions",
            "dimension written before its use",
            0,
            d.0,
        ))
    }

    fn guards(&mut self) -> Result<(), Error> {
        for (a, b, equal) in self.live_guards() {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            self.blob.guards.push(Guard { relation: u32::from(!equal), a, b, reserved: 0 });
        }
        Ok(())
    }

    fn store(&mut self, data: &Data) -> u64 {
        if let Some(at) = self.data.get(data.as_bytes()) {
            return *at;
        }
        self.weights.resize(self.weights.len().next_multiple_of(DATA_ALIGN), 0);
        let at = self.weights.len() as u64;
        self.weights.extend_from_slice(data.as_bytes());
        self.data.insert(data.as_bytes().to_vec(), at);
        at
    }

    fn value(&mut self, v: &super::LowValue) -> Result<(), Error> {
        let id = self.blob.values.len() as u32;
        let dims = self.blob.dims.len() as u32;
        for d in &v.dims {
            let e = self.expr(*d)?;
            self.blob.dims.push(e);
        }
        let mut r = Value {
            dtype: v.dtype.code(),
            role: v.role,
            rank: v.dims.len() as u8,
            flags: v.flags,
            dims,
            root: id,
            start: NONE,
            counter: NONE,
            counter_stride: NONE,
            section: NONE,
            name: self.blob.text(&v.name),
            ..Value::zeroed()
        };
        match v.place {
            Place::Own => {}
            Place::Reshape { root } => (r.view, r.root, r.flags) = (view::RESHAPE, root, 0),
            Place::Window { root, axis, start } => {
                (r.view, r.root, r.axis, r.start, r.flags) = (view::WINDOW, root, axis, self.expr(start)?, 0);
            }
            Place::Part { root, axis, start, part, parts } => {
                (r.view, r.root, r.axis, r.start) = (view::PART, root, axis, self.expr(start)?);
                (r.part, r.parts) = (part, parts);
            }
        }
        if let Some(d) = &v.data {
            (r.section, r.data_offset, r.data_bytes) = (0, self.store(d), d.len() as u64);
        }
        debug_assert!(
            v.data.is_some() || !matches!(v.role, role::CONSTANT | role::WEIGHT) || v.place != Place::Own
        );
        self.blob.values.push(r);
        Ok(())
    }

    fn signature(&mut self, s: Signature) -> u32 {
        let next = self.blob.signatures.len() as u32;
        let key = (s.dtypes, s.op, s.version, s.inputs, s.outputs);
        let id = *self.signatures.entry(key).or_insert(next);
        if id == next {
            self.blob.signatures.push(s);
        }
        id
    }

    fn step(&mut self, s: &LowStep, scratch: ScratchClass) -> Result<(), Error> {
        let operands = self.blob.operands.len() as u32;
        let mut r = Step {
            kind: s.kind,
            inputs: s.inputs.len() as u8,
            outputs: s.outputs.len() as u8,
            link: s.link,
            operands,
            max_trips: NONE,
            counter: NONE,
            ..Step::zeroed()
        };
        // Regions have as many results as a byte counts; ops have at most 16 inputs.
        let most = s.inputs.len().max(s.outputs.len()) as u64;
        if most > 250 {
            return Err(Error::count(&s.name, "operands of a region", 250, most));
        }
        if matches!(s.kind, step_kind::ELSE | step_kind::END) {
            r.operands = 0;
        } else {
            self.blob
                .operands
                .extend(s.inputs.iter().map(|v| v.unwrap_or(NONE)).chain(s.outputs.iter().copied()));
        }
        if let Some(d) = s.max_trips {
            r.max_trips = self.expr(d)?;
        }
        if let Some(d) = s.counter {
            let symbol = self.graph.dims.as_symbol(d).and_then(|id| self.symbols.get(&id));
            r.counter = symbol.copied().unwrap_or(NONE);
        }
        if let Some(op) = s.op {
            let dtype = |v: &u32| self.program.values.get(*v as usize).map(|v| v.dtype);
            let inputs: Vec<_> = s.inputs.iter().map(|v| v.as_ref().and_then(dtype)).collect();
            let outputs: Vec<_> = s.outputs.iter().filter_map(dtype).collect();
            let found = signature(op, &inputs, &outputs);
            let found = found.ok_or(Error::count(&s.name, "operands of a step", 16, most))?;
            r.link = self.signature(found);
            r.scratch = scratch as u8;
            r.in_place = s.in_place;
            let mut attrs = s.attrs.clone();
            if let Some(mut a) = size_attrs(s) {
                for e in a.exprs.iter_mut().take(a.count as usize) {
                    *e = self.expr(Dim(u64::from(*e)))?;
                }
                attrs = bytemuck::bytes_of(&a).to_vec();
            }
            if !attrs.is_empty() {
                (r.attrs, r.attr_bytes) = self.blob.attrs(&attrs);
            }
        }
        self.blob.steps.push(r);
        Ok(())
    }

    /// Every counter names its loop.
    fn counters(&mut self) {
        for (i, s) in self.blob.steps.iter().enumerate() {
            if s.kind == step_kind::LOOP
                && let Some(symbol) = self.blob.symbols.get_mut(s.counter as usize)
                && symbol.kind == symbol_kind::COUNTER
            {
                symbol.source = i as u32;
            }
        }
    }

    fn entries(&mut self) {
        for e in &self.program.entries {
            let operands = self.blob.operands.len() as u32;
            self.blob.operands.extend(e.inputs.iter().chain(&e.outputs));
            let name = self.blob.text(&e.name);
            self.blob.entries.push(Entry {
                name,
                kind: if e.prepare { entry_kind::PREPARE } else { entry_kind::CALL },
                first_step: e.first as u32,
                steps: e.steps as u32,
                operands,
                inputs: e.inputs.len() as u32,
                outputs: e.outputs.len() as u32,
                reserved: [0; 2],
            });
        }
    }

    /// Hints, metadata, provenance.
    fn extras(&mut self) {
        for e in &self.program.entries {
            for v in e.inputs.iter().chain(&e.outputs) {
                let name = self.program.values.get(*v as usize).map_or("", |v| v.name.as_str());
                if let Some(json) = self.graph.hints.get(name) {
                    let text = self.blob.hint_json(json);
                    self.blob.hints.push(Hint { value: *v, reserved: 0, text });
                }
            }
        }
        for (key, value) in &self.graph.metadata {
            let (key, value) = (self.blob.text(key), self.blob.text(value));
            self.blob.metadata.push(Metadata { key, value });
        }
        let mut provenance = format!("serinette-compiler {}", env!("CARGO_PKG_VERSION"));
        for (key, digest) in &self.graph.metadata {
            // `source.sha256`, and `source.NAME.sha256` for the other entries.
            if let Some(of) = key.strip_prefix("source").and_then(|k| k.strip_suffix(".sha256")) {
                provenance.push_str(&format!("\nsource{} sha256:{digest}", of.replacen('.', " ", 1)));
            }
        }
        self.blob.provenance = provenance.into_bytes();
    }
}
