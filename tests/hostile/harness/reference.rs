//! What a program means, independent of any plan: each value has memory of its own, and every byte knows whether
//! it was written. An accepted blob must give these outputs whatever its plan is.

use super::run::{Aligned, fit, initial, kept, kernels, persistent};
use serinette_core::op;
use serinette_core::schedule::bind::{Bindings, bind};
use serinette_core::schedule::error::Error;
use serinette_core::schedule::exec::{KernelError, call};
use serinette_core::schedule::record::*;
use serinette_core::schedule::{Kernel, Program};
use serinette_core::{DType, NONE, Shape};
use std::collections::HashMap;

/// Why the meaning of a program is not defined.
#[derive(Debug)]
pub enum Undefined {
    /// A step reads bytes that nothing wrote.
    Unwritten(u32, u32),
    /// The records contradict each other.
    Records(Error),
    /// A kernel gave up.
    Kernel(u32, KernelError),
    /// There is no kernel for a signature.
    NoKernel,
    /// An access outside of a value.
    Range(u32),
}

impl From<Error> for Undefined {
    fn from(e: Error) -> Undefined {
        Undefined::Records(e)
    }
}

/// Bytes of a root, and which of them are written.
#[derive(Clone)]
struct Cell {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

struct Machine<'a> {
    program: Program<'a>,
    file: &'a [u8],
    bindings: Bindings<'a>,
    kernels: Vec<Kernel>,
    cells: HashMap<u32, Cell>,
    counters: Vec<(u32, u64)>,
}

/// Runs an entry; gives the bytes of its outputs, then of all persistent values, then of the inputs that it keeps.
pub fn outputs(
    file: &[u8],
    plan: u32,
    entry: u32,
    symbols: &[u64],
    inputs: &[Vec<u8>],
    contents: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, Undefined> {
    let program = Program::parse(file, file.len() as u64)?;
    let mut exprs = vec![0; program.exprs.len()];
    let bindings = bind(&program, op::ALL, plan, symbols, &mut exprs)?;
    let kernels = kernels(&program).ok_or(Undefined::NoKernel)?;
    let mut m = Machine { program, file, bindings, kernels, cells: HashMap::new(), counters: Vec::new() };
    let e = program.entries.get(entry)?;
    let contents = if contents.is_empty() { initial(&program, file, &bindings)? } else { contents.to_vec() };
    for (id, bytes) in persistent(&program).into_iter().zip(&contents) {
        let v = program.values.get(id)?;
        let written = !(v.role == role::DERIVED && e.kind == entry_kind::PREPARE);
        let length = m.bindings.value(id, &[])?.bytes;
        m.cells.insert(id, Cell { bytes: fit(bytes, length), written: vec![written; length] });
    }
    for (i, id) in program.entry_inputs(e)?.enumerate() {
        let length = m.bindings.value(id, &[])?.bytes;
        let bytes = fit(inputs.get(i).map_or(&[0x3e, 0x11, 0x80, 0x3f][..], |b| b), length);
        m.cells.insert(id, Cell { bytes, written: vec![true; length] });
    }
    m.block(e.first_step, e.first_step + e.steps)?;
    let mut out = Vec::new();
    for id in program.entry_outputs(e)?.chain(persistent(&program)).chain(kept(&program, e)?) {
        out.push(m.read(u32::MAX, id)?);
    }
    Ok(out)
}

impl Machine<'_> {
    /// Root, first byte within it, and bytes of a value.
    fn place(&self, id: u32) -> Result<(u32, usize, usize, DType, Shape), Undefined> {
        let v = self.program.values.get(id)?;
        let shape = self.bindings.shape(v)?;
        let dtype = DType::from_code(v.dtype).ok_or(Undefined::Range(id))?;
        let mut first = 0;
        if matches!(v.view, view::WINDOW | view::PART) {
            let row = shape.dims()[usize::from(v.axis) + 1..].iter().product::<usize>() * dtype.size();
            let trip = self.counters.iter().find(|(s, _)| *s == v.counter).map_or(0, |(_, t)| *t);
            let stride = if v.counter == NONE { 0 } else { self.bindings.expr(v.counter_stride, &[])? };
            first = (self.bindings.expr(v.start, &[])? + trip * stride) as usize * row;
        }
        Ok((v.root, first, shape.elements() * dtype.size(), dtype, shape))
    }

    fn read(&mut self, step: u32, id: u32) -> Result<Vec<u8>, Undefined> {
        let (root, first, length, _, _) = self.place(id)?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let v = self.program.values.get(root)?;
        if matches!(v.role, role::CONSTANT | role::WEIGHT) {
            let section = self.program.weights.get(v.section)?;
            let at = (section.offset + v.data_offset) as usize + first;
            return self.file.get(at..at + length).map(<[u8]>::to_vec).ok_or(Undefined::Range(id));
        }
        let cell = self.cells.get(&root).ok_or(Undefined::Unwritten(step, id))?;
        let written = cell.written.get(first..first + length).ok_or(Undefined::Range(id))?;
        if !written.iter().all(|w| *w) {
            return Err(Undefined::Unwritten(step, id));
        }
        Ok(cell.bytes[first..first + length].to_vec())
    }

    fn write(&mut self, id: u32, bytes: &[u8]) -> Result<(), Undefined> {
        let (root, first, length, _, _) = self.place(id)?;
        let whole = self.bindings.value(root, &[])?.bytes;
        let cell = self
            .cells
            .entry(root)
            .or_insert_with(|| Cell { bytes: vec![0xa5; whole], written: vec![false; whole] });
        if length == 0 {
            return Ok(());
        }
        cell.bytes.get_mut(first..first + length).ok_or(Undefined::Range(id))?.copy_from_slice(bytes);
        cell.written[first..first + length].fill(true);
        Ok(())
    }

    fn forget(&mut self, id: u32) {
        self.cells.remove(&id);
    }

    fn number(&mut self, step: u32, id: u32) -> Result<i64, Undefined> {
        Ok(match *self.read(step, id)? {
            [b] => i64::from(b),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return Err(Undefined::Range(id)),
        })
    }

    /// Runs steps `at .. end`, which contain whole regions.
    fn block(&mut self, mut at: u32, end: u32) -> Result<(), Undefined> {
        while at < end {
            let step = *self.program.steps.get(at)?;
            match step.kind {
                step_kind::IF => at = self.condition(at, &step)?,
                step_kind::LOOP => at = self.iterate(at, &step)?,
                _ => self.op(at, &step)?,
            }
            at += 1;
        }
        Ok(())
    }

    fn condition(&mut self, at: u32, step: &Step) -> Result<u32, Undefined> {
        let condition = self.program.step_inputs(step)?.next().unwrap_or(NONE);
        let taken = self.number(at, condition)? != 0;
        for v in self.program.step_outputs(step)? {
            self.forget(v);
        }
        let middle = *self.program.steps.get(step.link)?;
        let (end, second) = match middle.kind {
            step_kind::ELSE => (middle.link, Some(step.link)),
            _ => (step.link, None),
        };
        match (taken, second) {
            (true, s) => self.block(at + 1, s.unwrap_or(end))?,
            (false, Some(s)) => self.block(s + 1, end)?,
            (false, None) => {}
        }
        Ok(end)
    }

    fn iterate(&mut self, at: u32, step: &Step) -> Result<u32, Undefined> {
        let inputs: Vec<u32> = self.program.step_inputs(step)?.collect();
        let pairs: Vec<(u32, u32)> =
            inputs.iter().skip(2).copied().zip(self.program.step_outputs(step)?).collect();
        let mut trips = self.bindings.expr(step.max_trips, &[])?;
        if inputs[1] != NONE {
            trips = trips.min(u64::try_from(self.number(at, inputs[1])?).unwrap_or(0));
        }
        for trip in 0..trips {
            if inputs[0] != NONE && self.number(at, inputs[0])? == 0 {
                break;
            }
            for (before, after) in pairs.iter().filter(|(b, a)| b != a) {
                debug_assert_ne!(before, after);
                self.forget(*after);
            }
            self.counters.push((step.counter, trip));
            self.block(at + 1, step.link)?;
            self.counters.pop();
            let after: Vec<_> = pairs.iter().map(|(_, a)| self.cells.get(a).cloned()).collect();
            for ((before, _), cell) in pairs.iter().zip(after) {
                self.cells.insert(*before, cell.ok_or(Undefined::Unwritten(step.link, *before))?);
            }
        }
        for (_, after) in pairs.iter().filter(|(b, a)| b != a) {
            self.forget(*after);
        }
        Ok(step.link)
    }

    fn op(&mut self, at: u32, step: &Step) -> Result<(), Undefined> {
        let mut inputs = Vec::new();
        for id in self.program.step_inputs(step)? {
            inputs.push(match id {
                NONE => None,
                id => Some((self.place(id)?.4, Aligned::of(&self.read(at, id)?))),
            });
        }
        let results: Vec<u32> = self.program.step_outputs(step)?.collect();
        let mut memory = Vec::new();
        for id in &results {
            let (_, _, length, _, shape) = self.place(*id)?;
            memory.push((shape, Aligned::filled(length, 0xee)));
        }
        let scratch = self.bindings.scratch(at)?.map_or(0, |(_, _, bytes)| bytes);
        let mut scratch = Aligned::filled(scratch, 0x77);
        let slices: Vec<_> = inputs.iter().map(|i| i.as_ref().map(|(s, b)| (*s, b.bytes()))).collect();
        let mut out: Vec<_> = memory.iter_mut().map(|(s, b)| (*s, b.bytes_mut())).collect();
        let expr = |id| self.bindings.expr(id, &self.counters).ok();
        let attrs = self.program.step_attrs(at, step)?;
        call(self.kernels[step.link as usize], attrs, &slices, &mut out, scratch.bytes_mut(), &expr)
            .map_err(|e| Undefined::Kernel(at, e))?;
        for (id, (_, bytes)) in results.iter().zip(&memory) {
            self.write(*id, bytes.bytes())?;
        }
        Ok(())
    }
}
