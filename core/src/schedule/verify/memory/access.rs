//! Reads and writes of values: what the slot holds, and when it was touched last.

use super::super::super::check::Check;
use super::super::super::error::Reason;
use super::super::super::record::*;
use super::super::live::{Held, Refusal, WHOLE, group_of};
use super::{NO_SPACE, Pass, space_of};
use crate::NONE;

impl Pass<'_, '_> {
    /// Makes a slot live; an error where it overlaps a live one.
    pub(super) fn insert(&mut self, id: u32, depth: usize, holds: u32, written: u64) -> Check<u32> {
        let slot = self.plan.slot(id)?;
        let mut held = Held::new(id, slot, depth);
        held.hold(holds, written);
        let refusal = match self.live.insert(held) {
            Ok(at) => return Ok(at),
            Err(refusal) => refusal,
        };
        let r = self.plan.r;
        r.at(SectionId::Slots, id);
        match refusal {
            Refusal::Overlap(other) if other == id => r.fail(Reason::DefinedTwice, 0u32, other),
            Refusal::Overlap(other) => r.fail_wide(Reason::Overlap, slot.offset, other),
            Refusal::Full(room) => r.fail_wide(Reason::MaxLive, room as u64, room as u64 + 1),
        }
    }

    /// The live slot `id`, or `NONE` if it is not live.
    pub(super) fn find(&mut self, id: u32) -> Check<u32> {
        let at = self.live.find(self.plan.slot(id)?);
        Ok(if self.live.get(at).is_some_and(|l| l.slot == id) { at } else { NONE })
    }

    /// The live slot of a value's root; a persistent one becomes live when it is touched first.
    #[inline(never)]
    pub(super) fn live_of(&mut self, value: u32, v: &Value) -> Check<u32> {
        let slot = self.plan.value_slot(v.root)?;
        let mut reason = Reason::NoSlot;
        if slot != NONE {
            let at = self.find(slot)?;
            if at != NONE {
                return Ok(at);
            }
            if space_of(v.role) != space::WORK {
                let written = if v.role == role::DERIVED && self.prepare { 0 } else { WHOLE };
                return self.insert(slot, 0, v.root, written);
            }
            reason = Reason::Unwritten;
        }
        self.plan.r.at(SectionId::Values, value).fail(reason, 0u32, slot)
    }

    #[inline(never)]
    pub(super) fn get(&mut self, at: u32) -> Check<&mut Held> {
        // `at` comes from the live set itself.
        let (r, count) = (self.plan.r, self.live.len() as u64);
        self.live.get(at).ok_or_else(|| r.at_header(0).refuse_wide(Reason::Corrupt, count, at))
    }

    /// The live slot of a value.
    pub(super) fn held_of(&mut self, value: u32) -> Check<&mut Held> {
        let at = self.live_of(value, self.plan.r.value(value)?)?;
        self.get(at)
    }

    /// A read of `value` in `wave` (counted from 1). In-place operands are not stamped: their write follows.
    #[inline(never)]
    pub(super) fn read(&mut self, value: u32, wave: u32, stamp: bool) -> Check {
        let r = self.plan.r;
        let v = r.value(value)?;
        if space_of(v.role) == NO_SPACE {
            return Ok(());
        }
        let at = self.live_of(value, v)?;
        let l = self.get(at)?;
        let bits = l.bits(v, group_of(value, v));
        if l.holds != v.root {
            let reason = if l.holds == NONE { Reason::Unwritten } else { Reason::Clobbered };
            return r.fail(reason, v.root, l.holds);
        }
        let there = if bits == WHOLE { l.complete() } else { l.written & bits != 0 };
        if !there {
            return r.fail(Reason::Unwritten, v.root, value);
        }
        if l.write_wave == wave && l.write_parts & bits != 0 {
            return r.fail(Reason::ReadAfterWrite, value, wave - 1);
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
    pub(super) fn write(&mut self, value: u32, wave: u32) -> Check {
        let r = self.plan.r;
        let v = r.value(value)?;
        match v.role {
            role::CONSTANT | role::WEIGHT | role::INPUT => return r.fail(Reason::ReadOnly, v.role, value),
            role::DERIVED if !self.prepare => return r.fail(Reason::Derived, 0u32, value),
            role::STATE | role::PARAM if self.prepare => return r.fail(Reason::Derived, 0u32, value),
            // An arm or a body may not run at all, and then the value would be missing.
            role::DERIVED if self.depth > 0 => return r.fail(Reason::NotListed, 0u32, value),
            _ => {}
        }
        let at = self.live_of(value, v)?;
        let l = self.get(at)?;
        let (depth, held) = (l.depth, l.holds);
        if space_of(v.role) == space::WORK && !self.listed(depth, v.root)? {
            return r.fail(Reason::NotListed, depth, value);
        }
        if held != v.root {
            self.may_replace(held)?;
        }
        let group = group_of(value, v);
        let l = self.get(at)?;
        let bits = l.bits(v, group);
        if l.write_wave == wave && l.write_parts & bits != 0 {
            return r.fail(Reason::WriteAfterWrite, wave - 1, value);
        }
        if l.read_wave == wave && l.read_parts & bits != 0 {
            return r.fail(Reason::WriteAfterRead, wave - 1, value);
        }
        match v.view {
            view::WINDOW => {
                // A window is an update: the rest must be there.
                if l.holds != v.root || !l.complete() {
                    return r.fail(Reason::Unwritten, v.root, value);
                }
            }
            view::PART => {
                if l.holds != v.root || l.group != group {
                    if l.write_wave == wave || l.read_wave == wave {
                        return r.fail(Reason::WriteAfterWrite, wave - 1, value);
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
    pub(super) fn may_replace(&self, held: u32) -> Check {
        if self.kept(held)? {
            return self.plan.r.fail(Reason::ReadOnly, role::INPUT, held);
        }
        Ok(())
    }

    /// Whether a value, if there is one, is an input to be kept.
    pub(super) fn kept(&self, held: u32) -> Check<bool> {
        if held == NONE {
            return Ok(false);
        }
        let v = self.plan.r.value(held)?;
        Ok(v.role == role::INPUT && v.flags & value_flag::KEEP != 0)
    }

    /// Whether every region between `depth` and here lists `value` among its results.
    pub(super) fn listed(&self, depth: u8, value: u32) -> Check<bool> {
        let r = self.plan.r;
        for f in self.frames.iter().skip(depth.into()) {
            if !r.outputs(r.step(f.step)?)?.contains(&value) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
