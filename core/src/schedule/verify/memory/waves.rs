//! Entries, waves and ops in the memory pass.

use super::super::super::check::Check;
use super::super::super::error::Reason;
use super::super::super::record::*;
use super::super::live::WHOLE;
use super::{NO_SPACE, Pass, space_of};
use crate::dtype::DType;
use crate::op::{Cost, ScratchClass, StepShapes};
use crate::shape::Shape;
use crate::{MAX_DEPTH, MAX_INPUTS, MAX_OUTPUTS, NONE};

impl<'p> Pass<'_, 'p> {
    /// Checks an entry whose first wave is `wave_id`; gives the wave behind it.
    pub(super) fn entry(&mut self, id: u32, e: &Entry, mut wave_id: u32) -> Check<u32> {
        let r = self.plan.r;
        self.live.clear();
        (self.depth, self.steps, self.times) = (0, 0, 1);
        (self.work, self.inner, self.prepare) =
            (Cost::default(), [0; MAX_DEPTH + 1], e.kind == entry_kind::PREPARE);
        self.frames.clear();
        for v in r.entry_inputs(e)? {
            let slot = self.plan.value_slot(*v)?;
            self.insert(slot, 0, *v, WHOLE)?;
        }
        let (mut next, end) = (e.first_step, e.first_step.saturating_add(e.steps));
        let [first_wave, waves] = self.plan.plan.waves;
        let last_wave = first_wave.saturating_add(waves);
        while next < end {
            r.at(SectionId::Waves, wave_id);
            if wave_id >= last_wave {
                return r.fail(Reason::WaveRange, end, next);
            }
            let w = r.get(&r.p.waves, wave_id)?;
            if w.first_step != next || w.steps == 0 || w.steps > end - next {
                return r.fail(Reason::WaveRange, next, w.first_step);
            }
            // Waves are counted from 1 so that 0 means "never".
            self.wave(wave_id, w, wave_id - first_wave + 1)?;
            next += w.steps;
            wave_id += 1;
        }
        r.at(SectionId::Entries, id);
        self.finish_entry(e)?;
        Ok(wave_id)
    }

    /// The slots of a list: definitions and kills follow one another in the order of the waves, so that all
    /// lists together are no longer than their table.
    #[inline(never)]
    fn list(&mut self, range: [u32; 2], wave: u32) -> Check<&'p [u32]> {
        let r = self.plan.r;
        let [first, most] = self.plan.plan.lists;
        if range[0] != self.next_list {
            return r.at(SectionId::Waves, wave).fail(Reason::PlanOverlap, self.next_list, range[0]);
        }
        let end = range[0].saturating_add(range[1]);
        self.next_list = end;
        let list = r.p.slot_lists.slice(first.saturating_add(range[0]), range[1]);
        list.filter(|_| end <= most).ok_or_else(|| {
            let found = u64::from(range[0]) + u64::from(range[1]);
            r.at(SectionId::Waves, wave).refuse_wide(Reason::PlanRange, most, found)
        })
    }

    fn wave(&mut self, id: u32, w: &Wave, stamp: u32) -> Check {
        let r = self.plan.r;
        let first = r.step(w.first_step)?;
        let edge = first.kind != step_kind::OP;
        if edge && w.steps != 1 {
            return r.fail(Reason::WaveRange, 1u32, w.steps);
        }
        if first.kind == step_kind::ELSE && (w.defs[1] != 0 || w.kills[1] != 0) {
            return r.fail(Reason::KilledDead, 0u32, w.kills[1]);
        }
        // The edges of a region belong to the outside: `End` leaves first, `If` and `Loop` enter last.
        if first.kind == step_kind::END {
            r.at(SectionId::Steps, w.first_step);
            self.end_region()?;
        }
        let depth = self.depth;
        for slot in self.list(w.defs, id)? {
            if self.space(self.plan.slot(*slot)?.arena)? != space::WORK {
                return r.at(SectionId::Waves, id).fail(Reason::Space, space::WORK, *slot);
            }
            self.insert(*slot, depth, NONE, 0)?;
            if let Some(n) = self.inner.get_mut(depth) {
                *n += 1;
            }
        }
        // An edge is alone in its wave, so any other step with one in it is met here.
        for step_id in w.first_step..w.first_step.saturating_add(w.steps) {
            let s = r.step(step_id)?;
            if s.kind != step_kind::END {
                self.steps = self.steps.saturating_add(self.times);
            }
            r.at(SectionId::Steps, step_id);
            if s.kind == step_kind::OP {
                self.op(step_id, s, stamp)?;
                continue;
            }
            let scratch = self.plan.scratch_slot(step_id)?;
            if scratch != NONE {
                return r.at(SectionId::ScratchSlots, step_id).fail(Reason::NoSlot, NONE, scratch);
            }
            match s.kind {
                _ if !edge => {
                    return r.at(SectionId::Waves, id).fail(Reason::WaveRange, step_id, w.first_step);
                }
                step_kind::ELSE => self.second_arm()?,
                step_kind::END => {}
                _ => self.begin_region(step_id, s, stamp)?,
            }
        }
        for slot in self.list(w.kills, id)? {
            self.kill(*slot, depth)?;
        }
        Ok(())
    }

    /// The space of an arena.
    fn space(&self, arena: u32) -> Check<u32> {
        Ok(self.plan.arena(arena)?.space)
    }

    fn kill(&mut self, id: u32, depth: usize) -> Check {
        let at = self.find(id)?;
        let mut wrong = u32::MAX;
        if at != NONE {
            let l = self.get(at)?;
            let (held, arena, there) = (l.holds, l.arena, usize::from(l.depth));
            if there != depth {
                wrong = there as u32;
            } else if self.space(arena)? != space::WORK {
                wrong = arena;
            } else if self.kept(held)? {
                wrong = held;
            } else {
                self.live.remove(self.plan.slot(id)?);
                // Input slots are not counted: they may live to the end of the entry.
                if let Some(n) = self.inner.get_mut(depth) {
                    *n = n.saturating_sub(1);
                }
                return Ok(());
            }
        }
        self.plan.r.at(SectionId::Slots, id).fail(Reason::KilledDead, depth as u32, wrong)
    }

    fn op(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        let r = self.plan.r;
        let (inputs, outputs) = (r.inputs(s)?, r.outputs(s)?);
        for (i, v) in inputs.iter().enumerate().filter(|(_, v)| **v != NONE) {
            let in_place = s.in_place.iter().any(|f| usize::from(*f) == i + 1);
            self.read(*v, stamp, !in_place)?;
        }
        for (from, y) in s.in_place.iter().zip(outputs).filter(|(from, _)| **from != 0) {
            let x = inputs.get(usize::from(*from) - 1).copied().unwrap_or(NONE);
            let (a, b) = (self.slot_of(x)?, self.slot_of(*y)?);
            if a != b || a == NONE {
                return r.fail(Reason::InPlace, a, b);
            }
        }
        for v in outputs {
            self.write(*v, stamp)?;
        }
        self.scratch_and_cost(id, s, stamp)
    }

    /// The slot of a value's root.
    pub(super) fn slot_of(&self, value: u32) -> Check<u32> {
        self.plan.value_slot(self.plan.r.value(value)?.root)
    }

    fn scratch_and_cost(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        let r = self.plan.r;
        let sig = r.get(&r.p.signatures, s.link)?;
        let op = r.op(self.ops, sig)?;
        let mut inputs = [None; MAX_INPUTS];
        let mut outputs = [Shape::SCALAR; MAX_OUTPUTS];
        let mut dtypes = [DType::I8; MAX_INPUTS + MAX_OUTPUTS];
        for (space, v) in inputs.iter_mut().zip(r.inputs(s)?).filter(|(_, v)| **v != NONE) {
            self.plan.shape(r.value(*v)?, space.insert(Shape::SCALAR))?;
        }
        for (space, v) in outputs.iter_mut().zip(r.outputs(s)?) {
            self.plan.shape(r.value(*v)?, space)?;
        }
        for (space, c) in dtypes.iter_mut().zip(&sig.dtypes) {
            *space = DType::from_code(*c).unwrap_or(DType::I8);
        }
        let (n, m) = (usize::from(s.inputs), usize::from(s.outputs));
        let shapes = StepShapes {
            attrs: r.attrs(id, s)?,
            inputs: inputs.get(..n).unwrap_or(&[]),
            outputs: outputs.get(..m).unwrap_or(&[]),
            dtypes: dtypes.get(..n + m).unwrap_or(&[]),
        };
        self.work = self.work.plus((op.cost)(&shapes).times(self.times));
        let class = ScratchClass::from_code(s.scratch).unwrap_or(ScratchClass::None);
        let need = (op.scratch)(&shapes, class);
        let slot = self.plan.scratch_slot(id)?;
        r.at(SectionId::ScratchSlots, id);
        if (slot == NONE) != (need == 0) {
            return r.fail_wide(Reason::NoSlot, need, slot);
        }
        if slot == NONE {
            return Ok(());
        }
        let bytes = self.plan.slot(slot)?.bytes;
        if bytes < need {
            return r.fail_wide(Reason::SlotSize, need, bytes);
        }
        let at = self.find(slot)?;
        if at == NONE {
            return r.fail_wide(Reason::Unwritten, need, slot);
        }
        let depth = self.depth;
        let l = self.get(at)?;
        // Scratch belongs to one step of one wave: a slot that holds or held anything else is refused.
        if l.holds != NONE || usize::from(l.depth) != depth {
            return r.fail_wide(Reason::Clobbered, need, l.holds);
        }
        if l.write_wave == stamp {
            return r.fail_wide(Reason::WriteAfterWrite, need, slot);
        }
        (l.write_wave, l.write_parts, l.written) = (stamp, WHOLE, 0);
        Ok(())
    }

    fn finish_entry(&mut self, e: &Entry) -> Check {
        let r = self.plan.r;
        for value in r.entry_outputs(e)? {
            let v = r.value(*value)?;
            if space_of(v.role) == NO_SPACE {
                continue;
            }
            let l = self.held_of(*value)?;
            if l.holds != v.root || !l.complete() {
                let reason = if l.holds == NONE { Reason::Unwritten } else { Reason::Clobbered };
                return r.fail(reason, v.root, l.holds);
            }
        }
        let mut derived = 0u32;
        for l in self.live.iter() {
            let space = self.space(l.arena)?;
            if space == space::WORK {
                continue;
            }
            // Persistent slots end as they began: holding their own value.
            if !l.complete() || l.holds == NONE || space_of(r.value(l.holds)?.role) != space {
                return r.fail(Reason::Unwritten, l.holds, l.slot);
            }
            derived += u32::from(space == space::DERIVED);
        }
        let all = r.p.values.iter().filter(|(_, v)| v.role == role::DERIVED && v.view == view::NONE);
        if self.prepare && derived as usize != all.clone().count() {
            return r.fail(Reason::Derived, all.count() as u32, derived);
        }
        Ok(())
    }
}
