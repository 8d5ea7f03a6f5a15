//! Second pass: the memory of one plan.
//!
//! The live set ([`super::live`]) holds the slots that are live now, sorted by address. A slot knows which value it holds and
//! which waves touched it last; from that follow clobbering, reads before writes, and hazards.

mod regions;
mod tables;

use super::super::bind::{bytes_of, to_usize};
use super::super::error::{Error, Reason};
use super::super::program::Program;
use super::super::record::*;
use super::live::{Held, Live, Refusal, Set, WHOLE, group_of};
use super::{Limits, Report};
use crate::dtype::DType;
use crate::op::{self, Cost, OpDescriptor, ScratchClass, StepShapes};
use crate::shape::Shape;
use crate::{MAX_DEPTH, MAX_INPUTS, MAX_OUTPUTS, NONE};
use heapless::Vec;

pub(super) use tables::Tables;
use tables::{header, slots};

type Check = Result<(), Error>;

/// Checks one plan. `exprs` holds the values at the plan's upper bounds.
#[allow(clippy::too_many_arguments)] // the parts of one context, borrowed in different ways
pub(super) fn check(
    p: &Program<'_>,
    ops: &[&'static OpDescriptor],
    id: u32,
    plan: &Plan,
    limits: &Limits,
    live: &mut [Live],
    exprs: &[u64],
    report: &mut Report,
) -> Check {
    header(p, id, plan)?;
    slots(p, plan)?;
    let mut pass = Pass {
        p,
        ops,
        plan,
        exprs,
        live: Set::new(live),
        depth: 0,
        frames: Vec::new(),
        inner: [0; MAX_DEPTH + 1],
        work: Cost::default(),
        steps: 0,
        times: 1,
        prepare: false,
        next_list: 0,
    };
    pass.values()?;
    let mut next_wave = plan.waves[0];
    for (entry_id, entry) in p.entries.iter() {
        next_wave = pass.entry(entry_id, entry, next_wave)?;
        let (steps, work) = (pass.steps, pass.work);
        for (found, limit) in [(steps, limits.steps), (work.macs, limits.macs), (work.bytes, limits.bytes)] {
            if found > limit {
                return Err(Error::at(Reason::Limit, SectionId::Entries, entry_id, limit, found));
            }
        }
        report.steps = report.steps.max(steps);
        report.macs = report.macs.max(work.macs);
        report.bytes = report.bytes.max(work.bytes);
    }
    report.max_live = report.max_live.max(pass.live.most() as u32);
    if pass.next_list != plan.lists[1] {
        let (expected, found) = (u64::from(pass.next_list), u64::from(plan.lists[1]));
        return Err(Error::at(Reason::PlanOverlap, SectionId::SlotLists, pass.next_list, expected, found));
    }
    let end = plan.waves[0].saturating_add(plan.waves[1]);
    if next_wave != end {
        return Err(Error::at(
            Reason::WaveRange,
            SectionId::Waves,
            next_wave,
            u64::from(next_wave),
            u64::from(end),
        ));
    }
    Ok(())
}

/// The memory space of a role; `None` for immutable data.
fn space_of(r: u8) -> Option<u32> {
    match r {
        role::INTERMEDIATE | role::INPUT => Some(space::WORK),
        role::STATE => Some(space::STATE),
        role::PARAM => Some(space::PARAM),
        role::DERIVED => Some(space::DERIVED),
        _ => None,
    }
}

/// A region that is open.
struct Frame {
    step: u32,
    /// Factor of the work inside.
    times: u64,
}

struct Pass<'a, 'p> {
    p: &'a Program<'p>,
    ops: &'a [&'static OpDescriptor],
    plan: &'a Plan,
    exprs: &'a [u64],
    live: Set<'a>,
    depth: usize,
    frames: Vec<Frame, MAX_DEPTH>,
    /// Slots live at each depth that die there.
    inner: [u32; MAX_DEPTH + 1],
    work: Cost,
    steps: u64,
    times: u64,
    prepare: bool,
    /// Where the next list of slots begins.
    next_list: u32,
}

impl Pass<'_, '_> {
    fn shape(&self, v: &Value, id: u32) -> Result<Shape, Error> {
        let mut dims: Vec<usize, { crate::MAX_RANK }> = Vec::new();
        for e in self.p.value_dims(v)? {
            let d = self.exprs.get(e as usize).copied().unwrap_or(u64::MAX);
            // The rank was checked in the first pass.
            let _ = dims.push(to_usize(d, SectionId::Values, id)?);
        }
        Ok(Shape::new(&dims).unwrap_or(Shape::SCALAR))
    }

    /// Every root has a slot of its space that is large enough at the bounds.
    fn values(&self) -> Check {
        let mut last = [None; 4];
        for (id, v) in self.p.values.iter() {
            let fail =
                |reason, expected, found| Err(Error::at(reason, SectionId::Values, id, expected, found));
            let slot = self.p.value_slot(self.plan, id)?;
            let shape = self.shape(v, id)?;
            let dtype = DType::from_code(v.dtype).unwrap_or(DType::F32);
            let Some(bytes) = bytes_of(&shape, dtype).filter(|b| *b <= isize::MAX as usize) else {
                return fail(Reason::Overflow, isize::MAX as u64, u64::MAX);
            };
            let space = space_of(v.role).filter(|_| v.view == view::NONE);
            let Some(space) = space else {
                if slot != NONE {
                    return fail(Reason::NoSlot, u64::from(NONE), u64::from(slot));
                }
                continue;
            };
            if slot == NONE {
                return fail(Reason::NoSlot, 0, u64::from(slot));
            }
            let s = self.p.slot(self.plan, slot)?;
            let arena = self.p.arena(self.plan, s.arena)?;
            if arena.space != space {
                return fail(Reason::Space, u64::from(space), u64::from(arena.space));
            }
            if (bytes as u64) > s.bytes {
                return fail(Reason::SlotSize, bytes as u64, s.bytes);
            }
            if space != space::WORK
                && let Some(last) = last.get_mut(space as usize)
            {
                // Persistent values never share: their slots rise with their ids.
                if last.is_some_and(|l| l >= slot) {
                    return fail(Reason::Overlap, u64::from(slot), u64::from(last.unwrap_or(0)));
                }
                *last = Some(slot);
            }
        }
        Ok(())
    }

    // ---- the live set ----

    /// Makes a slot live; an error where it overlaps a live one.
    fn insert(&mut self, id: u32, depth: usize, holds: u32, written: u64) -> Result<u32, Error> {
        let slot = self.p.slot(self.plan, id)?;
        let fail = |reason, expected, found| Err(Error::at(reason, SectionId::Slots, id, expected, found));
        let mut held = Held::new(id, slot, depth);
        held.hold(holds, written);
        match self.live.insert(held) {
            Ok(at) => Ok(at),
            Err(Refusal::Overlap(other)) if other == id => fail(Reason::DefinedTwice, 0, u64::from(other)),
            Err(Refusal::Overlap(other)) => fail(Reason::Overlap, slot.offset, u64::from(other)),
            Err(Refusal::Full(room)) => fail(Reason::MaxLive, room as u64, room as u64 + 1),
        }
    }

    /// The live slot `id`, if it is live.
    fn find(&mut self, id: u32) -> Result<Option<u32>, Error> {
        let slot = self.p.slot(self.plan, id)?;
        let at = self.live.find(slot);
        Ok(at.filter(|at| self.live.get(*at).is_some_and(|l| l.slot == id)))
    }

    /// The live slot of a value's root; a persistent one becomes live when it is touched first.
    fn live_of(&mut self, value: u32, v: &Value) -> Result<u32, Error> {
        let slot = self.p.value_slot(self.plan, v.root)?;
        let fail = |reason| Err(Error::at(reason, SectionId::Values, value, 0, u64::from(slot)));
        if slot == NONE {
            return fail(Reason::NoSlot);
        }
        match self.find(slot)? {
            Some(at) => Ok(at),
            _ if space_of(v.role) == Some(space::WORK) => fail(Reason::Unwritten),
            _ => {
                let written = if v.role == role::DERIVED && self.prepare { 0 } else { WHOLE };
                self.insert(slot, 0, v.root, written)
            }
        }
    }

    fn get(&mut self, at: u32) -> Result<&mut Held, Error> {
        // `at` comes from the live set itself.
        let count = self.live.len() as u64;
        self.live.get(at).ok_or_else(|| Error::header(Reason::Corrupt, 0, count, u64::from(at)))
    }

    /// A read of `value` in `wave` (counted from 1). In-place operands are not stamped: their write follows.
    fn read(&mut self, step: u32, value: u32, wave: u32, stamp: bool) -> Check {
        let v = self.p.values.get(value)?;
        if space_of(v.role).is_none() {
            return Ok(());
        }
        let at = self.live_of(value, v)?;
        let fail = |reason, expected: u32, found: u32| {
            Err(Error::at(reason, SectionId::Steps, step, u64::from(expected), u64::from(found)))
        };
        let l = self.get(at)?;
        let bits = l.bits(v, group_of(value, v));
        if l.holds != v.root {
            let reason = if l.holds == NONE { Reason::Unwritten } else { Reason::Clobbered };
            return fail(reason, v.root, l.holds);
        }
        let there = if bits == WHOLE { l.complete() } else { l.written & bits != 0 };
        if !there {
            return fail(Reason::Unwritten, v.root, value);
        }
        if l.write_wave == wave && l.write_parts & bits != 0 {
            return fail(Reason::ReadAfterWrite, value, wave - 1);
        }
        if stamp {
            if l.read_wave != wave {
                (l.read_wave, l.read_parts) = (wave, 0);
            }
            l.read_parts |= bits;
        }
        Ok(())
    }

    /// A write of `value` in `wave`.
    fn write(&mut self, step: u32, value: u32, wave: u32) -> Check {
        let v = self.p.values.get(value)?;
        let fail = |reason, expected: u64, found: u32| {
            Err(Error::at(reason, SectionId::Steps, step, expected, u64::from(found)))
        };
        match v.role {
            role::CONSTANT | role::WEIGHT | role::INPUT => {
                return fail(Reason::ReadOnly, u64::from(v.role), value);
            }
            role::DERIVED if !self.prepare => return fail(Reason::Derived, 0, value),
            role::STATE | role::PARAM if self.prepare => return fail(Reason::Derived, 0, value),
            // An arm or a body may not run at all, and then the value would be missing.
            role::DERIVED if self.depth > 0 => return fail(Reason::NotListed, 0, value),
            _ => {}
        }
        let at = self.live_of(value, v)?;
        let (depth, work) = (self.get(at)?.depth, space_of(v.role) == Some(space::WORK));
        if work && usize::from(depth) < self.depth && !self.listed(usize::from(depth), v.root)? {
            return fail(Reason::NotListed, u64::from(depth), value);
        }
        let held = self.get(at)?.holds;
        if held != v.root {
            self.may_replace(step, held)?;
        }
        let group = group_of(value, v);
        let l = self.get(at)?;
        let bits = l.bits(v, group);
        if l.write_wave == wave && l.write_parts & bits != 0 {
            return fail(Reason::WriteAfterWrite, u64::from(wave - 1), value);
        }
        if l.read_wave == wave && l.read_parts & bits != 0 {
            return fail(Reason::WriteAfterRead, u64::from(wave - 1), value);
        }
        match v.view {
            view::WINDOW => {
                // A window is an update: the rest must be there.
                if l.holds != v.root || !l.complete() {
                    return fail(Reason::Unwritten, u64::from(v.root), value);
                }
            }
            view::PART => {
                if l.holds != v.root || l.group != group {
                    if l.write_wave == wave || l.read_wave == wave {
                        return fail(Reason::WriteAfterWrite, u64::from(wave - 1), value);
                    }
                    (l.holds, l.written, l.parts, l.group) = (v.root, 0, v.parts, group);
                }
                l.written |= l.bits(v, group);
            }
            _ => l.hold(v.root, WHOLE),
        }
        if l.write_wave != wave {
            (l.write_wave, l.write_parts) = (wave, 0);
        }
        // Of the slot as it is now: a part may have begun its group.
        l.write_parts |= l.bits(v, group);
        Ok(())
    }

    /// Whether `held` may lose its slot to another value: an input to be kept may not.
    fn may_replace(&self, step: u32, held: u32) -> Check {
        if held == NONE {
            return Ok(());
        }
        let v = self.p.values.get(held)?;
        if v.role == role::INPUT && v.flags & value_flag::KEEP != 0 {
            let (role, held) = (u64::from(v.role), u64::from(held));
            return Err(Error::at(Reason::ReadOnly, SectionId::Steps, step, role, held));
        }
        Ok(())
    }

    /// Whether every region between `depth` and here lists `value` among its results.
    fn listed(&self, depth: usize, value: u32) -> Result<bool, Error> {
        for f in self.frames.iter().skip(depth) {
            if !self.p.step_outputs(self.p.steps.get(f.step)?)?.any(|v| v == value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // ---- waves ----

    fn entry(&mut self, id: u32, e: &Entry, mut wave_id: u32) -> Result<u32, Error> {
        self.live.clear();
        (self.depth, self.steps, self.times) = (0, 0, 1);
        (self.work, self.inner, self.prepare) =
            (Cost::default(), [0; MAX_DEPTH + 1], e.kind == entry_kind::PREPARE);
        self.frames.clear();
        for v in self.p.entry_inputs(e)? {
            let slot = self.p.value_slot(self.plan, v)?;
            self.insert(slot, 0, v, WHOLE)?;
        }
        let (mut next, end) = (e.first_step, e.first_step + e.steps);
        let last_wave = self.plan.waves[0].saturating_add(self.plan.waves[1]);
        while next < end {
            let fail = |expected: u32, found: u32| {
                Err(Error::at(
                    Reason::WaveRange,
                    SectionId::Waves,
                    wave_id,
                    u64::from(expected),
                    u64::from(found),
                ))
            };
            if wave_id >= last_wave {
                return fail(end, next);
            }
            let w = self.p.waves.get(wave_id)?;
            if w.first_step != next || w.steps == 0 || w.steps > end - next {
                return fail(next, w.first_step);
            }
            // Waves are counted from 1 so that 0 means "never".
            self.wave(wave_id, w, wave_id - self.plan.waves[0] + 1)?;
            next += w.steps;
            wave_id += 1;
        }
        self.finish_entry(id, e)?;
        Ok(wave_id)
    }

    /// The records of a list: definitions and kills follow one another in the order of the waves, so that all
    /// lists together are no longer than their table.
    fn list(&mut self, range: [u32; 2], wave: u32) -> Result<impl Iterator<Item = u32> + use<>, Error> {
        if range[0] != self.next_list {
            let (expected, found) = (u64::from(self.next_list), u64::from(range[0]));
            return Err(Error::at(Reason::PlanOverlap, SectionId::Waves, wave, expected, found));
        }
        self.next_list = self.next_list.saturating_add(range[1]);
        // Copied out by index: the live set is changed while the list is walked.
        let first = self.plan.lists[0].checked_add(range[0]);
        let fits = range[0].checked_add(range[1]).is_some_and(|e| e <= self.plan.lists[1]);
        match first.filter(|_| fits) {
            Some(first) => Ok(first..first + range[1]),
            None => Err(Error::at(
                Reason::PlanRange,
                SectionId::Waves,
                wave,
                u64::from(self.plan.lists[1]),
                u64::from(range[0]) + u64::from(range[1]),
            )),
        }
    }

    fn wave(&mut self, id: u32, w: &Wave, stamp: u32) -> Check {
        let first = self.p.steps.get(w.first_step)?;
        let edge = first.kind != step_kind::OP;
        let fail = |reason, expected, found| Err(Error::at(reason, SectionId::Waves, id, expected, found));
        if edge && w.steps != 1 {
            return fail(Reason::WaveRange, 1, u64::from(w.steps));
        }
        if first.kind == step_kind::ELSE && (w.defs[1] != 0 || w.kills[1] != 0) {
            return fail(Reason::KilledDead, 0, u64::from(w.kills[1]));
        }
        // The edges of a region belong to the outside: `End` leaves first, `If` and `Loop` enter last.
        if first.kind == step_kind::END {
            self.end_region(w.first_step)?;
        }
        let depth = self.depth;
        for i in self.list(w.defs, id)? {
            let slot = *self.p.slot_lists.get(i)?;
            if self.p.arena(self.plan, self.p.slot(self.plan, slot)?.arena)?.space != space::WORK {
                return fail(Reason::Space, u64::from(space::WORK), u64::from(slot));
            }
            self.insert(slot, depth, NONE, 0)?;
            if let Some(n) = self.inner.get_mut(depth) {
                *n += 1;
            }
        }
        for (step_id, s) in self.p.steps.range(w.first_step, w.steps)? {
            if s.kind != step_kind::OP {
                let scratch = self.p.scratch_slot(self.plan, step_id)?;
                if scratch != NONE {
                    let (none, found) = (u64::from(NONE), u64::from(scratch));
                    return Err(Error::at(Reason::NoSlot, SectionId::ScratchSlots, step_id, none, found));
                }
            }
            if s.kind != step_kind::END {
                self.steps = self.steps.saturating_add(self.times);
            }
            match s.kind {
                step_kind::OP => self.op(step_id, s, stamp)?,
                step_kind::IF | step_kind::LOOP if edge => self.begin_region(step_id, s, stamp)?,
                step_kind::ELSE if edge => self.second_arm(step_id)?,
                step_kind::END if edge => {}
                _ => return fail(Reason::WaveRange, u64::from(step_id), u64::from(w.first_step)),
            }
        }
        for i in self.list(w.kills, id)? {
            self.kill(*self.p.slot_lists.get(i)?, depth)?;
        }
        Ok(())
    }

    fn kill(&mut self, id: u32, depth: usize) -> Check {
        let slot = self.p.slot(self.plan, id)?;
        let fail = |found: u64| Err(Error::at(Reason::KilledDead, SectionId::Slots, id, depth as u64, found));
        let Some(at) = self.find(id)? else { return fail(u64::MAX) };
        let l = *self.get(at)?;
        if usize::from(l.depth) != depth {
            return fail(u64::from(l.depth));
        }
        if self.p.arena(self.plan, l.arena)?.space != space::WORK {
            return fail(u64::from(l.arena));
        }
        if l.holds != NONE {
            let v = self.p.values.get(l.holds)?;
            if v.role == role::INPUT && v.flags & value_flag::KEEP != 0 {
                return fail(u64::from(l.holds));
            }
        }
        self.live.remove(slot);
        // Input slots are not counted: they may live to the end of the entry.
        if let Some(n) = self.inner.get_mut(depth) {
            *n = n.saturating_sub(1);
        }
        Ok(())
    }

    fn op(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        for (i, v) in self.p.step_inputs(s)?.enumerate().filter(|(_, v)| *v != NONE) {
            let in_place = s.in_place.iter().any(|f| usize::from(*f) == i + 1);
            self.read(id, v, stamp, !in_place)?;
        }
        for (o, from) in s.in_place.iter().enumerate().filter(|(_, f)| **f != 0) {
            let x = self.p.step_inputs(s)?.nth(usize::from(*from) - 1).unwrap_or(NONE);
            let y = self.p.step_outputs(s)?.nth(o).unwrap_or(NONE);
            let slot = |v: u32| self.p.value_slot(self.plan, self.p.values.get(v)?.root);
            let (a, b) = (slot(x)?, slot(y)?);
            if a != b || a == NONE {
                return Err(Error::at(Reason::InPlace, SectionId::Steps, id, u64::from(a), u64::from(b)));
            }
        }
        for v in self.p.step_outputs(s)? {
            self.write(id, v, stamp)?;
        }
        self.scratch_and_cost(id, s, stamp)
    }

    fn scratch_and_cost(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        let sig = self.p.signatures.get(s.link)?;
        let Some(op) = op::find(self.ops, sig.op, sig.version) else {
            return Err(Error::at(Reason::UnknownOp, SectionId::Steps, id, 0, u64::from(sig.op)));
        };
        let mut inputs: Vec<Option<Shape>, MAX_INPUTS> = Vec::new();
        let mut outputs: Vec<Shape, MAX_OUTPUTS> = Vec::new();
        let mut dtypes: Vec<DType, { MAX_INPUTS + MAX_OUTPUTS }> = Vec::new();
        for v in self.p.step_inputs(s)? {
            let shape = if v == NONE { None } else { Some(self.shape(self.p.values.get(v)?, v)?) };
            let _ = inputs.push(shape);
        }
        for v in self.p.step_outputs(s)? {
            let _ = outputs.push(self.shape(self.p.values.get(v)?, v)?);
        }
        for c in sig.dtypes.iter().take(inputs.len() + outputs.len()) {
            let _ = dtypes.push(DType::from_code(*c).unwrap_or(DType::I8));
        }
        let shapes = StepShapes {
            attrs: self.p.step_attrs(id, s)?,
            inputs: &inputs,
            outputs: &outputs,
            dtypes: &dtypes,
        };
        self.work = self.work.plus((op.cost)(&shapes).times(self.times));
        let class = ScratchClass::from_code(s.scratch).unwrap_or(ScratchClass::None);
        let need = if class == ScratchClass::None { 0 } else { (op.scratch)(&shapes, class) };
        let slot = self.p.scratch_slot(self.plan, id)?;
        let fail = |reason, found| Err(Error::at(reason, SectionId::ScratchSlots, id, need, found));
        if need == 0 {
            return if slot == NONE { Ok(()) } else { fail(Reason::NoSlot, u64::from(slot)) };
        }
        if slot == NONE {
            return fail(Reason::NoSlot, u64::from(slot));
        }
        let record = self.p.slot(self.plan, slot)?;
        if record.bytes < need {
            return fail(Reason::SlotSize, record.bytes);
        }
        let Some(at) = self.find(slot)? else { return fail(Reason::Unwritten, u64::from(slot)) };
        let depth = self.depth;
        let l = self.get(at)?;
        // Scratch belongs to one step of one wave: a slot that holds or held anything else is refused.
        if l.holds != NONE || usize::from(l.depth) != depth {
            return fail(Reason::Clobbered, u64::from(l.holds));
        }
        if l.write_wave == stamp {
            return fail(Reason::WriteAfterWrite, u64::from(slot));
        }
        (l.write_wave, l.write_parts, l.written) = (stamp, WHOLE, 0);
        Ok(())
    }

    fn finish_entry(&mut self, id: u32, e: &Entry) -> Check {
        let fail = |reason, expected: u32, found: u32| {
            Err(Error::at(reason, SectionId::Entries, id, u64::from(expected), u64::from(found)))
        };
        for value in self.p.entry_outputs(e)? {
            let v = self.p.values.get(value)?;
            if space_of(v.role).is_none() {
                continue;
            }
            let at = self.live_of(value, v)?;
            let l = self.get(at)?;
            if l.holds != v.root || !l.complete() {
                let reason = if l.holds == NONE { Reason::Unwritten } else { Reason::Clobbered };
                return fail(reason, v.root, l.holds);
            }
        }
        let mut derived = 0;
        for l in self.live.iter() {
            let arena = self.p.arena(self.plan, l.arena)?;
            if arena.space == space::WORK {
                continue;
            }
            // Persistent slots end as they began: holding their own value.
            if !l.complete()
                || l.holds == NONE
                || space_of(self.p.values.get(l.holds)?.role) != Some(arena.space)
            {
                return fail(Reason::Unwritten, l.holds, l.slot);
            }
            derived += u32::from(arena.space == space::DERIVED);
        }
        if self.prepare {
            let all =
                self.p.values.iter().filter(|(_, v)| v.role == role::DERIVED && v.view == view::NONE).count();
            if derived as usize != all {
                return fail(Reason::Derived, all as u32, derived);
            }
        }
        Ok(())
    }
}
