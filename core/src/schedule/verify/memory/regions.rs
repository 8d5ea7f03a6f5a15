//! Arms and loops in the memory pass. The live set at a merge or back edge equals that at the entry of the region by
//! construction, so each body is visited once.

use super::super::super::check::Check;
use super::super::super::error::Reason;
use super::super::super::record::*;
use super::super::live::{Held, WHOLE};
use super::{Frame, Pass};
use crate::NONE;

impl Pass<'_, '_> {
    pub(super) fn begin_region(&mut self, id: u32, s: &Step, stamp: u32) -> Check {
        let r = self.plan.r;
        let inputs = r.inputs(s)?;
        for v in inputs.iter().filter(|v| **v != NONE) {
            self.read(*v, stamp, true)?;
        }
        let times = self.times;
        if s.kind == step_kind::IF {
            // Results count as unwritten at the start of each arm.
            for v in r.outputs(s)? {
                self.may_write(*v, *v)?;
                let held = self.held_of(*v)?.holds;
                self.may_replace(held)?;
            }
            self.clear_results(s)?;
        } else {
            for (before, after) in inputs.iter().skip(2).zip(r.outputs(s)?) {
                let (a, b) = (self.plan.value_slot(*before)?, self.plan.value_slot(*after)?);
                if a != b {
                    return r.fail(Reason::InPlace, a, b);
                }
                self.may_write(*before, *after)?;
            }
            let trips = self.plan.expr(s.max_trips, &[])?;
            self.times = crate::wide::saturating_mul(times, trips);
        }
        // The depth was bounded in the first pass.
        let _ = self.frames.push(Frame { step: id, times });
        self.depth += 1;
        Ok(())
    }

    /// A region that writes `after` over `before` must itself be allowed to: by depth, or by listing.
    fn may_write(&mut self, before: u32, after: u32) -> Check {
        let depth = self.held_of(before)?.depth;
        if !self.listed(depth, after)? && !self.listed(depth, before)? {
            return self.plan.r.fail(Reason::NotListed, depth, after);
        }
        Ok(())
    }

    /// The results of an `If` hold nothing.
    fn clear_results(&mut self, s: &Step) -> Check {
        for v in self.plan.r.outputs(s)? {
            self.held_of(*v)?.hold(NONE, 0);
        }
        Ok(())
    }

    /// The slot of `before` holds all of `after`.
    fn complete(&mut self, before: u32, after: u32) -> Check<&mut Held> {
        let r = self.plan.r;
        let l = self.held_of(before)?;
        if l.holds != after || !l.complete() {
            return r.fail(Reason::Unwritten, after, l.holds);
        }
        Ok(l)
    }

    /// At the end of an arm or body: nothing that was defined there is live. Gives the step that opened it.
    fn end_of_body(&mut self) -> Check<&Frame> {
        let r = self.plan.r;
        match self.inner.get(self.depth) {
            Some(0) => {}
            n => return r.fail_wide(Reason::Leak, 0u32, n.map_or(u64::MAX, |n| u64::from(*n))),
        }
        self.frames.last().ok_or_else(|| r.refuse(Reason::Region, 1u32, 0u32))
    }

    pub(super) fn second_arm(&mut self) -> Check {
        let r = self.plan.r;
        let open = r.step(self.end_of_body()?.step)?;
        for v in r.outputs(open)? {
            self.complete(*v, *v)?;
        }
        // Clearing is a write of the arm, seen from the outside: the frame itself lists it.
        self.clear_results(open)
    }

    pub(super) fn end_region(&mut self) -> Check {
        let r = self.plan.r;
        let Frame { step, times } = *self.end_of_body()?;
        self.frames.pop();
        self.depth = self.depth.saturating_sub(1);
        // The `End` runs once a trip, even where the body is empty.
        self.steps = self.steps.saturating_add(self.times);
        self.times = times;
        let open = r.step(step)?;
        let outputs = r.outputs(open)?;
        if open.kind == step_kind::IF {
            for v in outputs {
                self.complete(*v, *v)?;
            }
            return Ok(());
        }
        for (before, after) in r.inputs(open)?.iter().skip(2).zip(outputs) {
            // What a trip wrote is what the next one, or the code behind the loop, reads.
            self.complete(*before, *after)?.hold(*before, WHOLE);
        }
        Ok(())
    }
}
