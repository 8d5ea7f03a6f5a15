//! Waves: runs of consecutive steps of one entry without hazards among them.
//!
//! If a run has no hazard, no part of it has one; so extending each wave as far as it goes gives the fewest waves
//! for the given order of steps.

use super::StepInfo;
use super::live::{Unit, find, space_of, unit};
use crate::NONE;
use crate::schedule::error::{Error, Reason};
use crate::schedule::program::Program;
use crate::schedule::record::*;

/// The most recent accesses of one kind to a unit, all in one wave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    wave: u32,
    group: u32,
    /// Which parts of the group; all for anything but a part.
    parts: u64,
}

impl Default for Mark {
    fn default() -> Mark {
        Mark { wave: NONE, group: NONE, parts: 0 }
    }
}

/// One access: the unit, and which of its bytes.
#[derive(Clone, Copy)]
struct Access {
    unit: u32,
    /// For a part the first part of its group, as a root may be cut in several ways; otherwise the root.
    group: u32,
    parts: u64,
}

impl Mark {
    /// Whether an access in `wave` touches the same bytes. Different parts of one group do not.
    fn clashes(&self, wave: u32, a: &Access) -> bool {
        self.wave == wave && (self.group != a.group || self.parts & a.parts != 0)
    }

    fn add(&mut self, wave: u32, a: &Access) {
        if self.wave != wave {
            *self = Mark { wave, group: a.group, parts: a.parts };
        } else if self.group != a.group {
            self.parts = u64::MAX;
        } else {
            self.parts |= a.parts;
        }
    }
}

/// Cuts the steps into waves and notes the wave of each step; gives how many waves there are. `waves` has room for
/// one wave a step. With `single`, each step is a wave of its own.
pub(super) fn build(
    program: &Program<'_>,
    units: &mut [Unit],
    steps: &mut [StepInfo],
    waves: &mut [Wave],
    single: bool,
) -> Result<usize, Error> {
    let mut count = 0usize;
    for entry in 0..program.entries.len() as u32 {
        let e = program.entries.get(entry)?;
        // Whether the newest wave may take another step.
        let mut open = false;
        for id in e.first_step..e.first_step.saturating_add(e.steps) {
            let step = program.steps.get(id)?;
            let op = step.kind == step_kind::OP;
            if !(op && open && !single && fits(program, units, step, count as u32 - 1)?) {
                let room = waves.len() as u64;
                let wave =
                    waves.get_mut(count).ok_or(Error::header(Reason::BufferSize, 0, room + 1, room))?;
                *wave = Wave { first_step: id, steps: 0, defs: [0; 2], kills: [0; 2] };
                count += 1;
            }
            if let Some(wave) = waves.get_mut(count - 1) {
                wave.steps += 1;
            }
            if let Some(s) = steps.get_mut(id as usize) {
                s.wave = count as u32 - 1;
            }
            if op {
                stamp(program, units, id, step, count as u32 - 1)?;
            }
            open = op;
        }
    }
    Ok(count)
}

/// Whether `step` has no hazard with the steps that are in `wave` already.
fn fits(program: &Program<'_>, units: &mut [Unit], step: &Step, wave: u32) -> Result<bool, Error> {
    for value in program.step_inputs(step)?.filter(|v| *v != NONE) {
        if let Some(a) = access(program, units, value)?
            && unit(units, a.unit)?.written.clashes(wave, &a)
        {
            return Ok(false);
        }
    }
    for value in program.step_outputs(step)? {
        if let Some(a) = access(program, units, value)? {
            let u = unit(units, a.unit)?;
            if u.read.clashes(wave, &a) || u.written.clashes(wave, &a) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Notes the accesses of a step. Only steps of other waves and later steps see them, so a step's own in-place use
/// is no hazard.
fn stamp(program: &Program<'_>, units: &mut [Unit], id: u32, step: &Step, wave: u32) -> Result<(), Error> {
    for value in program.step_inputs(step)?.filter(|v| *v != NONE) {
        if let Some(a) = access(program, units, value)? {
            unit(units, a.unit)?.read.add(wave, &a);
        }
    }
    for value in program.step_outputs(step)? {
        let read_only = Error::at(Reason::ReadOnly, SectionId::Steps, id, 0, value.into());
        let a = access(program, units, value)?.ok_or(read_only)?;
        unit(units, a.unit)?.written.add(wave, &a);
    }
    Ok(())
}

/// The bytes that an operand stands for; `None` for constants and weights.
fn access(program: &Program<'_>, units: &mut [Unit], value: u32) -> Result<Option<Access>, Error> {
    let v = program.values.get(value)?;
    let root = if v.view == view::NONE { value } else { v.root };
    if space_of(program.values.get(root)?, root)?.is_none() {
        return Ok(None);
    }
    let (group, parts) = match v.view {
        view::PART => {
            (value.saturating_sub(v.part.into()), 1u64.checked_shl(v.part.into()).unwrap_or(u64::MAX))
        }
        _ => (root, u64::MAX),
    };
    Ok(Some(Access { unit: find(units, value)?, group, parts }))
}
