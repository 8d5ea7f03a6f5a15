//! Arms and loops in the memory pass. The live set at a merge or back edge equals that at the entry of the region by
//! construction, so each body is visited once.

use super::super::super::error::{Error, Reason};
use super::super::super::record::*;
use super::super::live::WHOLE;
use super::{Check, Frame, Pass};
use crate::NONE;

impl Pass<'_, '_> {
    pub(super) fn begin_region(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        let (program, mut inputs) = (self.p, self.p.step_inputs(s)?);
        let edge_inputs = if s.kind == step_kind::IF { 1 } else { 2 };
        for v in inputs.by_ref().take(edge_inputs).filter(|v| *v != NONE) {
            self.read(id, v, stamp, true)?;
        }
        let times = self.times;
        if s.kind == step_kind::IF {
            self.clear_results(id, s)?;
        } else {
            for (before, after) in inputs.zip(program.step_outputs(s)?) {
                self.read(id, before, stamp, true)?;
                let (a, b) = (program.value_slot(self.plan, before)?, program.value_slot(self.plan, after)?);
                if a != b {
                    return Err(Error::at(Reason::InPlace, SectionId::Steps, id, u64::from(a), u64::from(b)));
                }
                self.may_write(id, before, after)?;
            }
            let trips = self.exprs.get(s.max_trips as usize).copied().unwrap_or(u64::MAX);
            self.times = times.saturating_mul(trips);
        }
        // The depth was bounded in the first pass.
        let _ = self.frames.push(Frame { step: id, times });
        self.depth += 1;
        Ok(())
    }

    /// A region that writes `after` over `before` must itself be allowed to: by depth, or by listing.
    fn may_write(&mut self, id: u32, before: u32, after: u32) -> Check {
        let at = self.live_of(before, self.p.values.get(before)?)?;
        let depth = usize::from(self.get(at)?.depth);
        if depth < self.depth && !self.listed(depth, after)? && !self.listed(depth, before)? {
            return Err(Error::at(Reason::NotListed, SectionId::Steps, id, depth as u64, u64::from(after)));
        }
        Ok(())
    }

    /// Results of an `If` count as unwritten at the start of each arm.
    fn clear_results(&mut self, id: u32, s: &Step) -> Check {
        for v in self.p.step_outputs(s)? {
            self.may_write(id, v, v)?;
            let at = self.live_of(v, self.p.values.get(v)?)?;
            let held = self.get(at)?.holds;
            self.may_replace(id, held)?;
            self.get(at)?.hold(NONE, 0);
        }
        Ok(())
    }

    /// Every result of an `If` is written at the end of an arm.
    fn results_written(&mut self, id: u32, s: &Step) -> Check {
        for v in self.p.step_outputs(s)? {
            let at = self.live_of(v, self.p.values.get(v)?)?;
            let l = self.get(at)?;
            if l.holds != v || !l.complete() {
                return Err(Error::at(
                    Reason::Unwritten,
                    SectionId::Steps,
                    id,
                    u64::from(v),
                    u64::from(l.holds),
                ));
            }
        }
        Ok(())
    }

    fn nothing_left(&self, id: u32) -> Check {
        match self.inner.get(self.depth) {
            Some(0) => Ok(()),
            n => Err(Error::at(Reason::Leak, SectionId::Steps, id, 0, n.map_or(u64::MAX, |n| u64::from(*n)))),
        }
    }

    pub(super) fn second_arm(&mut self, id: u32) -> Check {
        self.nothing_left(id)?;
        let Some(f) = self.frames.last() else {
            return Err(Error::at(Reason::Region, SectionId::Steps, id, 1, 0));
        };
        let open = self.p.steps.get(f.step)?;
        self.results_written(id, open)?;
        // Clearing is a write of the arm, seen from the outside: the frame itself lists it.
        for v in self.p.step_outputs(open)? {
            let at = self.live_of(v, self.p.values.get(v)?)?;
            self.get(at)?.hold(NONE, 0);
        }
        Ok(())
    }

    pub(super) fn end_region(&mut self, id: u32) -> Check {
        self.nothing_left(id)?;
        let Some(f) = self.frames.pop() else {
            return Err(Error::at(Reason::Region, SectionId::Steps, id, 1, 0));
        };
        self.depth = self.depth.saturating_sub(1);
        // The `End` runs once a trip, even where the body is empty.
        self.steps = self.steps.saturating_add(self.times);
        self.times = f.times;
        let open = self.p.steps.get(f.step)?;
        if open.kind == step_kind::IF {
            return self.results_written(id, open);
        }
        for (before, after) in self.p.step_inputs(open)?.skip(2).zip(self.p.step_outputs(open)?) {
            let at = self.live_of(before, self.p.values.get(before)?)?;
            let l = self.get(at)?;
            if l.holds != after || !l.complete() {
                let (expected, found) = (u64::from(after), u64::from(l.holds));
                return Err(Error::at(Reason::Unwritten, SectionId::Steps, id, expected, found));
            }
            // What a trip wrote is what the next one, or the code behind the loop, reads.
            l.hold(before, WHOLE);
        }
        Ok(())
    }
}
