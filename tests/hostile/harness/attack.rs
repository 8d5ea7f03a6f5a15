//! Mutations aimed at the rules of regions: what a body or an arm must not do to the memory outside.
//!
//! Each is a change that only its rule stands against; chance alone would hardly ever make it.

use super::build::PlanModel;
use super::choice::Choice;
use super::draft::repack;
use serinette_compiler::blob::Blob;
use serinette_core::NONE;
use serinette_core::schedule::record::*;

/// An innermost or outer region: its first and last step.
type Span = (usize, usize);

struct Attack<'a, C> {
    blob: &'a mut Blob,
    plan: PlanModel,
    choice: &'a mut C,
}

/// Changes a region of a valid blob and its first plan.
pub fn regions(blob: &mut Blob, choice: &mut impl Choice) {
    let spans: Vec<Span> = (0..blob.steps.len())
        .filter(|s| matches!(blob.steps[*s].kind, step_kind::IF | step_kind::LOOP))
        .map(|s| {
            let middle = blob.steps[s].link as usize;
            let other = blob.steps[middle];
            (s, if other.kind == step_kind::ELSE { other.link as usize } else { middle })
        })
        .collect();
    let Some(plan) = PlanModel::of(blob, 0).filter(|_| !spans.is_empty()) else { return };
    let mut a = Attack { blob, plan, choice };
    let span = *a.choice.of(&spans);
    match a.choice.below(5) {
        0 => a.misdirect(span),
        1 | 2 => a.kill_inside(span),
        3 => a.first_write_inside(span),
        _ => a.leak(span),
    }
    if a.choice.below(4) > 0 {
        repack(a.blob, &mut a.plan);
    }
    let plan = a.plan;
    plan.replace(blob);
}

impl<C: Choice> Attack<'_, C> {
    fn op_in(&mut self, from: usize, to: usize) -> Option<usize> {
        let ops: Vec<usize> = (from..to).filter(|s| self.blob.steps[*s].kind == step_kind::OP).collect();
        if ops.is_empty() { None } else { Some(*self.choice.of(&ops)) }
    }

    /// Place of the first output among the operands.
    fn output(&self, step: usize) -> usize {
        let s = &self.blob.steps[step];
        s.operands as usize + usize::from(s.inputs)
    }

    fn root(&self, value: u32) -> u32 {
        self.blob.values[value as usize].root
    }

    fn dims(&self, value: u32) -> &[u32] {
        let v = &self.blob.values[value as usize];
        &self.blob.dims[v.dims as usize..][..v.rank.into()]
    }

    fn alike(&self, a: u32, b: u32) -> bool {
        let own = self.blob.values[b as usize].view == view::NONE;
        let dtype = |v: u32| self.blob.values[v as usize].dtype;
        own && dtype(a) == dtype(b) && self.dims(a) == self.dims(b)
    }

    /// Outputs of the ops in `from..to` that can stand for `value`.
    fn written_in(&self, from: usize, to: usize, value: u32) -> Vec<u32> {
        (from..to)
            .filter(|s| self.blob.steps[*s].kind == step_kind::OP)
            .map(|s| self.blob.operands[self.output(s)])
            .filter(|v| *v != value && self.alike(value, *v))
            .collect()
    }

    fn wave_of(&self, step: usize) -> usize {
        let mut first = 0;
        for (i, w) in self.plan.waves.iter().enumerate() {
            first += w.steps as usize;
            if step < first {
                return i;
            }
        }
        self.plan.waves.len() - 1
    }

    fn slot(&self, value: u32) -> u32 {
        self.plan.value_slots[self.root(value) as usize]
    }

    /// A result or carried value is not written in the region, but something else there.
    fn misdirect(&mut self, (open, end): Span) {
        let edge = self.blob.steps[open];
        let first = self.output(open);
        let results = self.blob.operands[first..first + usize::from(edge.outputs)].to_vec();
        if results.is_empty() {
            return;
        }
        let result = *self.choice.of(&results);
        let writers: Vec<usize> = (open + 1..end)
            .filter(|s| self.blob.steps[*s].kind == step_kind::OP)
            .filter(|s| self.blob.operands[self.output(*s)] == result)
            .collect();
        if writers.is_empty() {
            return;
        }
        let step = *self.choice.of(&writers);
        let others = self.written_in(open + 1, step, result);
        if others.is_empty() {
            return;
        }
        let at = self.output(step);
        self.blob.steps[step].in_place = [0; 4];
        self.blob.operands[at] = *self.choice.of(&others);
    }

    /// A value from outside dies in the region behind its last use there, instead of behind the region.
    fn kill_inside(&mut self, (open, end): Span) {
        let mut uses: Vec<(usize, u32)> = Vec::new();
        for s in (open + 1..end).filter(|s| self.blob.steps[*s].kind == step_kind::OP) {
            let step = self.blob.steps[s];
            for v in &self.blob.operands[step.operands as usize..][..step.inputs.into()] {
                if *v != NONE && self.slot(*v) != NONE {
                    uses.retain(|(_, u)| *u != self.root(*v));
                    uses.push((s, self.root(*v)));
                }
            }
        }
        let (first, last) = (self.wave_of(open), self.wave_of(end));
        let slots = &self.plan.value_slots;
        let outer = |v: u32| {
            let slot = slots[v as usize];
            self.plan.slots[slot as usize].0 == 0
                && !self.plan.waves[first + 1..last].iter().any(|w| w.defs.contains(&slot))
        };
        uses.retain(|(_, v)| outer(*v));
        if uses.is_empty() {
            return;
        }
        let (step, value) = *self.choice.of(&uses);
        let (slot, wave) = (self.slot(value), self.wave_of(step));
        self.plan.waves.iter_mut().for_each(|w| w.kills.retain(|k| *k != slot));
        self.plan.waves[wave].kills.push(slot);
    }

    /// The first write of an outer value moves into the region.
    fn first_write_inside(&mut self, (open, end): Span) {
        let (Some(outside), Some(inside)) = (self.op_in(0, open), self.op_in(open + 1, end)) else { return };
        let (a, b) = (self.output(outside), self.output(inside));
        let (x, y) = (self.blob.operands[a], self.blob.operands[b]);
        let others = self.written_in(0, outside, x);
        if !self.alike(y, x) || others.is_empty() {
            return;
        }
        self.blob.steps[inside].in_place = [0; 4];
        self.blob.steps[outside].in_place = [0; 4];
        self.blob.operands[a] = *self.choice.of(&others);
        self.blob.operands[b] = x;
    }

    /// A value of the region lives on and is read behind it.
    fn leak(&mut self, (open, end): Span) {
        let (Some(inside), Some(behind)) =
            (self.op_in(open + 1, end), self.op_in(end, self.blob.steps.len()))
        else {
            return;
        };
        let value = self.blob.operands[self.output(inside)];
        let step = self.blob.steps[behind];
        let inputs = step.operands as usize..step.operands as usize + usize::from(step.inputs);
        let fitting: Vec<usize> = inputs
            .filter(|i| self.blob.operands[*i] != NONE && self.alike(self.blob.operands[*i], value))
            .collect();
        if fitting.is_empty() || self.slot(value) == NONE {
            return;
        }
        let slot = self.slot(value);
        let (first, last) = (self.wave_of(open), self.wave_of(end));
        self.plan.waves[first..=last].iter_mut().for_each(|w| w.kills.retain(|k| *k != slot));
        let at = *self.choice.of(&fitting);
        self.blob.operands[at] = value;
    }
}
