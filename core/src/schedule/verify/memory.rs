//! Second pass: the memory of one plan.
//!
//! The live set ([`super::live`]) holds the slots that are live now, sorted by address. A slot knows which value it holds and
//! which waves touched it last; from that follow clobbering, reads before writes, and hazards.

mod access;
mod regions;
mod tables;
mod waves;

use super::super::check::Check;
use super::super::error::Reason;
use super::super::planned::PlanReader;
use super::super::record::*;
use super::live::{Live, Set};
use super::{Limits, Report};
use crate::op::{Cost, OpDescriptor};
use crate::shape::Shape;
use crate::{MAX_DEPTH, NONE};
use heapless::Vec;

pub(super) use tables::Tables;
use tables::{header, slots};

/// Checks one plan. The expressions have their values at the plan's upper bounds.
pub(super) fn check(
    plan: PlanReader<'_, '_>,
    strings: &str,
    ops: &[&'static OpDescriptor],
    limits: &Limits,
    live: &mut [Live],
    report: &mut Report,
) -> Check {
    let (r, p) = (plan.r, plan.r.p);
    header(&plan, strings)?;
    slots(&plan)?;
    values(&plan)?;
    let mut pass = Pass {
        plan,
        ops,
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
    let [first_wave, waves] = plan.plan.waves;
    let mut next_wave = first_wave;
    for (id, entry) in p.entries.iter() {
        next_wave = pass.entry(id, entry, next_wave)?;
        r.at(SectionId::Entries, id);
        let work = [
            (pass.steps, limits.steps, &mut report.steps),
            (pass.work.macs, limits.macs, &mut report.macs),
            (pass.work.bytes, limits.bytes, &mut report.bytes),
        ];
        for (found, limit, most) in work {
            if found > limit {
                return r.fail_wide(Reason::Limit, limit, found);
            }
            *most = (*most).max(found);
        }
    }
    report.max_live = report.max_live.max(pass.live.most() as u32);
    let lists = plan.plan.lists[1];
    if pass.next_list != lists {
        return r.at(SectionId::SlotLists, pass.next_list).fail(Reason::PlanOverlap, pass.next_list, lists);
    }
    let end = first_wave.saturating_add(waves);
    if next_wave != end {
        return r.at(SectionId::Waves, next_wave).fail(Reason::WaveRange, next_wave, end);
    }
    Ok(())
}

/// No memory: immutable data. Its code lies behind those of the spaces.
const NO_SPACE: u32 = space::DERIVED + 1;

/// The memory space of a role.
fn space_of(r: u8) -> u32 {
    match r {
        role::INTERMEDIATE | role::INPUT => space::WORK,
        role::STATE => space::STATE,
        role::PARAM => space::PARAM,
        role::DERIVED => space::DERIVED,
        _ => NO_SPACE,
    }
}

/// Every root has a slot of its space that is large enough at the bounds.
fn values(plan: &PlanReader<'_, '_>) -> Check {
    let r = plan.r;
    // Persistent values never share: their slots rise with their ids. For each space the least slot that may come.
    let mut least = [0u32; NO_SPACE as usize];
    let mut shape = Shape::SCALAR;
    for (id, v) in r.p.values.iter() {
        r.at(SectionId::Values, id);
        let slot = plan.value_slot(id)?;
        let bytes = plan.shape(v, &mut shape)?;
        let space = if v.view == view::NONE { space_of(v.role) } else { NO_SPACE };
        if (slot == NONE) != (space == NO_SPACE) {
            let none = if space == NO_SPACE { NONE } else { 0 };
            return r.fail(Reason::NoSlot, none, slot);
        }
        if slot == NONE {
            continue;
        }
        let s = plan.slot(slot)?;
        let arena = plan.arena(s.arena)?;
        if arena.space != space {
            return r.fail(Reason::Space, space, arena.space);
        }
        if bytes as u64 > s.bytes {
            return r.fail_wide(Reason::SlotSize, bytes as u64, s.bytes);
        }
        if space != space::WORK
            && let Some(least) = least.get_mut(space as usize)
        {
            if slot < *least {
                return r.fail(Reason::Overlap, slot, *least - 1);
            }
            *least = slot.saturating_add(1);
        }
    }
    Ok(())
}

/// A region that is open.
struct Frame {
    step: u32,
    /// Factor of the work inside.
    times: u64,
}

struct Pass<'a, 'p> {
    plan: PlanReader<'a, 'p>,
    ops: &'a [&'static OpDescriptor],
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
