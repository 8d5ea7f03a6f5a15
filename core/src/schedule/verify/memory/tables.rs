//! The tables of the plans: who owns which records, and each record by itself.

use super::super::super::check::{Check, Reader};
use super::super::super::error::Reason;
use super::super::super::exec::MAX_ARENAS;
use super::super::super::planned::PlanReader;
use super::super::super::program::Program;
use super::super::super::record::*;

/// How far the plan tables are owned by the plans seen so far: plans follow one another in every table.
#[derive(Default)]
pub(in super::super) struct Tables {
    ends: [u32; 7],
}

impl Tables {
    /// Checks that the ranges of `plan` start where those of the plan before ended.
    pub(in super::super) fn claim(&mut self, r: &Reader<'_, '_>, plan: &Plan) -> Check {
        let p = r.p;
        let (symbols, bounds) = (p.symbols.count(), plan.bounds[1]);
        if bounds != symbols {
            return r.fail(Reason::PlanRange, symbols, bounds);
        }
        let ranges = [
            plan.bounds,
            plan.arenas,
            plan.slots,
            plan.waves,
            plan.lists,
            [plan.value_slots, p.values.count()],
            [plan.scratch_slots, p.steps.count()],
        ];
        for ((end, [first, count]), length) in self.ends.iter_mut().zip(ranges).zip(lengths(p)) {
            if first != *end {
                return r.fail(Reason::PlanOverlap, *end, first);
            }
            match first.checked_add(count) {
                Some(e) if e <= length => *end = e,
                _ => return r.fail_wide(Reason::PlanRange, length, u64::from(first) + u64::from(count)),
            }
        }
        Ok(())
    }

    /// Checks that no table has records behind the last plan's.
    pub(in super::super) fn finish(self, r: &Reader<'_, '_>) -> Check {
        for (end, length) in self.ends.into_iter().zip(lengths(r.p)) {
            if end != length {
                return r.fail(Reason::PlanOverlap, end, length);
            }
        }
        Ok(())
    }
}

fn lengths(p: &Program<'_>) -> [u32; 7] {
    [
        p.bounds.count(),
        p.arenas.count(),
        p.slots.count(),
        p.waves.count(),
        p.slot_lists.count(),
        p.value_slots.count(),
        p.scratch_slots.count(),
    ]
}

/// The plan record (the one that is being checked), its bounds and its arenas.
pub(super) fn header(plan: &PlanReader<'_, '_>, strings: &str) -> Check {
    let (r, plan) = (plan.r, plan.plan);
    r.text(strings, plan.name)?;
    r.code(profile::MCU, plan.profile)?;
    r.zero_wide(plan.reserved)?;
    if plan.align < 8 || !plan.align.is_power_of_two() {
        return r.fail(Reason::Alignment, 8u32, plan.align);
    }
    if plan.arenas[1] as usize > MAX_ARENAS {
        return r.fail(Reason::Bounded, MAX_ARENAS as u32, plan.arenas[1]);
    }
    for (symbol, s) in r.p.symbols.iter() {
        let b = r.get(&r.p.bounds, plan.bounds[0].saturating_add(symbol))?;
        r.at(SectionId::Bounds, symbol);
        if b.high > s.high {
            return r.fail_wide(Reason::SymbolBounds, s.high, b.high);
        }
        if b.low > b.high || b.low < s.low {
            return r.fail_wide(Reason::SymbolBounds, s.low, b.low);
        }
    }
    for (id, a) in r.p.arenas.part(plan.arenas) {
        r.at(SectionId::Arenas, id).text(strings, a.name)?;
        r.code(space::DERIVED, a.space)?;
        r.zero(a.reserved)?;
        if !a.align.is_power_of_two() || a.align < u64::from(plan.align) {
            return r.fail_wide(Reason::Alignment, plan.align, a.align);
        }
        if !a.bytes.is_multiple_of(8) {
            return r.fail_wide(Reason::Alignment, 8u32, a.bytes);
        }
    }
    Ok(())
}

/// Slots lie in their arenas; those of persistent arenas ascend without overlap.
pub(super) fn slots(plan: &PlanReader<'_, '_>) -> Check {
    let r = plan.r;
    let mut persistent_end = [0u64; MAX_ARENAS];
    for (id, s) in r.p.slots.part(plan.plan.slots) {
        let arena = plan.arena(s.arena)?;
        r.at(SectionId::Slots, id).zero(s.reserved)?;
        // A power of two.
        if s.offset & (u64::from(plan.plan.align) - 1) != 0 {
            return r.fail_wide(Reason::Alignment, plan.plan.align, s.offset);
        }
        if s.bytes == 0 || !s.bytes.is_multiple_of(4) {
            return r.fail_wide(Reason::SlotSize, 4u32, s.bytes);
        }
        // An arena's bytes are a multiple of 8, so what saturates lies behind it.
        let end = s.offset.saturating_add(s.bytes);
        if end > arena.bytes {
            return r.fail_wide(Reason::SlotRange, arena.bytes, end);
        }
        if arena.space != space::WORK
            && let Some(last) = persistent_end.get_mut(s.arena as usize)
        {
            if s.offset < *last {
                return r.fail_wide(Reason::Overlap, *last, s.offset);
            }
            *last = end;
        }
    }
    Ok(())
}
