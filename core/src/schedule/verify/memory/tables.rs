//! The tables of the plans: who owns which records, and each record by itself.

use super::super::super::error::{Error, Reason};
use super::super::super::exec::MAX_ARENAS;
use super::super::super::program::Program;
use super::super::super::record::*;
use super::Check;

/// How far the plan tables are owned by the plans seen so far: plans follow one another in every table.
#[derive(Default)]
pub(in super::super) struct Tables {
    ends: [u32; 7],
}

impl Tables {
    /// Checks that the ranges of `plan` start where those of the plan before ended.
    pub(in super::super) fn claim(&mut self, p: &Program<'_>, id: u32, plan: &Plan) -> Check {
        let (values, steps) = (p.values.len() as u32, p.steps.len() as u32);
        let ranges = [
            plan.bounds,
            plan.arenas,
            plan.slots,
            plan.waves,
            plan.lists,
            [plan.value_slots, values],
            [plan.scratch_slots, steps],
        ];
        if plan.bounds[1] as usize != p.symbols.len() {
            let (expected, found) = (p.symbols.len() as u64, u64::from(plan.bounds[1]));
            return Err(Error::at(Reason::PlanRange, SectionId::Plans, id, expected, found));
        }
        for ((end, [first, count]), length) in self.ends.iter_mut().zip(ranges).zip(lengths(p)) {
            if first != *end {
                let (expected, found) = (u64::from(*end), u64::from(first));
                return Err(Error::at(Reason::PlanOverlap, SectionId::Plans, id, expected, found));
            }
            *end = match first.checked_add(count).filter(|e| *e as usize <= length) {
                Some(e) => e,
                None => {
                    let found = u64::from(first) + u64::from(count);
                    return Err(Error::at(Reason::PlanRange, SectionId::Plans, id, length as u64, found));
                }
            };
        }
        Ok(())
    }

    /// Checks that no table has records behind the last plan's.
    pub(in super::super) fn finish(self, p: &Program<'_>) -> Check {
        for (end, length) in self.ends.iter().zip(lengths(p)) {
            if *end as usize != length {
                let id = p.plans.len() as u32;
                return Err(Error::at(
                    Reason::PlanOverlap,
                    SectionId::Plans,
                    id,
                    u64::from(*end),
                    length as u64,
                ));
            }
        }
        Ok(())
    }
}

fn lengths(p: &Program<'_>) -> [usize; 7] {
    [
        p.bounds.len(),
        p.arenas.len(),
        p.slots.len(),
        p.waves.len(),
        p.slot_lists.len(),
        p.value_slots.len(),
        p.scratch_slots.len(),
    ]
}

/// The plan record, its bounds and its arenas.
pub(super) fn header(p: &Program<'_>, id: u32, plan: &Plan) -> Check {
    let fail = |reason, expected, found| Err(Error::at(reason, SectionId::Plans, id, expected, found));
    p.text(plan.name)?;
    if plan.profile > profile::MCU {
        return fail(Reason::Code, u64::from(profile::MCU), u64::from(plan.profile));
    }
    if plan.reserved != 0 {
        return fail(Reason::NotZero, 0, plan.reserved);
    }
    if plan.align < 8 || !plan.align.is_power_of_two() {
        return fail(Reason::Alignment, 8, u64::from(plan.align));
    }
    for (symbol, s) in p.symbols.iter() {
        let b = p.bounds.get(plan.bounds[0].saturating_add(symbol))?;
        if b.low > b.high || b.low < s.low || b.high > s.high {
            let at =
                |expected, found| Error::at(Reason::SymbolBounds, SectionId::Bounds, symbol, expected, found);
            return Err(if b.high > s.high { at(s.high, b.high) } else { at(s.low, b.low) });
        }
    }
    if plan.arenas[1] as usize > MAX_ARENAS {
        return fail(Reason::Bounded, MAX_ARENAS as u64, u64::from(plan.arenas[1]));
    }
    for (arena, a) in p.arenas.range(plan.arenas[0], plan.arenas[1])? {
        let fail =
            |reason, expected, found| Err(Error::at(reason, SectionId::Arenas, arena, expected, found));
        p.text(a.name)?;
        if a.space > space::DERIVED {
            return fail(Reason::Code, u64::from(space::DERIVED), u64::from(a.space));
        }
        if a.reserved != 0 {
            return fail(Reason::NotZero, 0, u64::from(a.reserved));
        }
        if !a.align.is_power_of_two() || a.align < u64::from(plan.align) {
            return fail(Reason::Alignment, u64::from(plan.align), a.align);
        }
        if !a.bytes.is_multiple_of(8) {
            return fail(Reason::Alignment, 8, a.bytes);
        }
    }
    Ok(())
}

/// Slots lie in their arenas; those of persistent arenas ascend without overlap.
pub(super) fn slots(p: &Program<'_>, plan: &Plan) -> Check {
    let mut persistent_end = [0u64; MAX_ARENAS];
    for (id, s) in p.slots.range(plan.slots[0], plan.slots[1])? {
        let fail = |reason, expected, found| Err(Error::at(reason, SectionId::Slots, id, expected, found));
        let arena = p.arena(plan, s.arena)?;
        if s.reserved != 0 {
            return fail(Reason::NotZero, 0, u64::from(s.reserved));
        }
        if !s.offset.is_multiple_of(u64::from(plan.align)) {
            return fail(Reason::Alignment, u64::from(plan.align), s.offset);
        }
        if s.bytes == 0 || !s.bytes.is_multiple_of(4) {
            return fail(Reason::SlotSize, 4, s.bytes);
        }
        let end = match s.offset.checked_add(s.bytes) {
            Some(e) if e <= arena.bytes => e,
            e => return fail(Reason::SlotRange, arena.bytes, e.unwrap_or(u64::MAX)),
        };
        if arena.space != space::WORK
            && let Some(last) = persistent_end.get_mut(s.arena as usize)
        {
            if s.offset < *last {
                return fail(Reason::Overlap, *last, s.offset);
            }
            *last = end;
        }
    }
    Ok(())
}
