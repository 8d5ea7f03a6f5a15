//! What shares memory, and from which step to which step it is needed.
//!
//! A *unit* is a set of root values that share one slot: an in-place result joins the unit of its operand, a
//! loop's carried pair is one unit. Units are kept as a union-find forest over the values; views point at their
//! root, so every value finds the unit that holds its bytes.

use super::StepInfo;
use crate::dtype::DType;
use crate::schedule::error::{Error, Reason};
use crate::schedule::program::Program;
use crate::schedule::record::*;
use crate::shape::Shape;
use crate::{MAX_DEPTH, MAX_RANK, NONE};
use heapless::Vec;

/// What the planner knows about one value; the facts about a unit stand at its representative.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit {
    /// Union-find parent; the value itself at a representative.
    pub(super) parent: u32,
    /// Bytes of the largest member.
    pub(super) bytes: u64,
    /// The entry that uses it, or `NONE`.
    pub(super) entry: u32,
    /// Innermost arm or loop body that holds every use: 1 + the step that opens it, 0 for the entry itself.
    pub(super) home: u32,
    /// First step that needs it.
    pub(super) first: u32,
    /// Last step that needs it; the step behind the entry's last one where it outlives the entry.
    pub(super) last: u32,
    /// Live from the entry's start: holds an input.
    pub(super) input: bool,
    /// Used by a step.
    pub(super) used: bool,
    /// Never dies before the entry's end: an output, or an input to be kept.
    pub(super) kept: bool,
    /// Slot, once numbered.
    pub(super) slot: u32,
    /// Most recent reads, for the waves.
    pub(super) read: super::waves::Mark,
    /// Most recent writes, for the waves.
    pub(super) written: super::waves::Mark,
}

/// The memory space of a role; `None` for data that lies in weight sections.
pub(super) fn space_of(v: &Value, id: u32) -> Result<Option<u32>, Error> {
    Ok(match v.role {
        role::INTERMEDIATE | role::INPUT => Some(space::WORK),
        role::STATE => Some(space::STATE),
        role::PARAM => Some(space::PARAM),
        role::DERIVED => Some(space::DERIVED),
        role::CONSTANT | role::WEIGHT => None,
        code => {
            return Err(Error::at(
                Reason::Code,
                SectionId::Values,
                id,
                u64::from(role::DERIVED),
                code.into(),
            ));
        }
    })
}

/// Dimensions of a value for given values of the expressions.
pub(super) fn shape_of(program: &Program<'_>, exprs: &[u64], id: u32, v: &Value) -> Result<Shape, Error> {
    let fail = |reason, expected, found| Error::at(reason, SectionId::Values, id, expected, found);
    let mut dims = [0usize; MAX_RANK];
    let rank = usize::from(v.rank);
    let space = dims.get_mut(..rank).ok_or(fail(Reason::Code, MAX_RANK as u64, rank as u64))?;
    for (d, e) in space.iter_mut().zip(program.value_dims(v)?) {
        let n = *exprs.get(e as usize).ok_or(fail(Reason::Id, exprs.len() as u64, e.into()))?;
        *d = usize::try_from(n).map_err(|_| fail(Reason::Overflow, usize::MAX as u64, n))?;
    }
    // The rank fits: `space` was cut from the largest number of axes.
    Ok(Shape::new(space).unwrap_or(Shape::SCALAR))
}

/// The representative of the unit of a value.
pub(super) fn find(units: &mut [Unit], value: u32) -> Result<u32, Error> {
    let missing = |id: u32, len: usize| Error::at(Reason::Id, SectionId::Values, id, len as u64, id.into());
    let len = units.len();
    let mut id = value;
    loop {
        let parent = units.get(id as usize).ok_or(missing(id, len))?.parent;
        if parent == id {
            return Ok(id);
        }
        let above = units.get(parent as usize).ok_or(missing(parent, len))?.parent;
        if let Some(u) = units.get_mut(id as usize) {
            u.parent = above;
        }
        id = above;
    }
}

/// A unit by its representative, which [`find`] gave.
pub(super) fn unit(units: &mut [Unit], id: u32) -> Result<&mut Unit, Error> {
    let len = units.len() as u64;
    units.get_mut(id as usize).ok_or(Error::at(Reason::Id, SectionId::Values, id, len, id.into()))
}

/// Fills `units` with one unit for each root value, then joins those that in-place results and loops tie together.
/// `units` has one record for each value.
pub(super) fn share(program: &Program<'_>, exprs: &[u64], units: &mut [Unit]) -> Result<(), Error> {
    for (id, u) in (0u32..).zip(units.iter_mut()) {
        let v = program.values.get(id)?;
        let fail = |reason, expected, found| Error::at(reason, SectionId::Values, id, expected, found);
        space_of(v, id)?;
        *u = Unit { parent: id, entry: NONE, slot: NONE, ..Unit::default() };
        if v.view != view::NONE {
            if v.view > view::PART {
                return Err(fail(Reason::Code, view::PART.into(), v.view.into()));
            }
            if v.view == view::PART && (v.parts > 64 || v.part >= v.parts) {
                return Err(fail(Reason::Parts, 64, v.part.into()));
            }
            if program.values.get(v.root)?.view != view::NONE {
                return Err(fail(Reason::Root, view::NONE.into(), v.root.into()));
            }
            u.parent = v.root;
            continue;
        }
        let dtype = DType::from_code(v.dtype).ok_or(fail(Reason::DType, 15, v.dtype.into()))?;
        let mut bytes = Some(dtype.size() as u64);
        for d in shape_of(program, exprs, id, v)?.dims() {
            bytes = bytes.and_then(|b| b.checked_mul(*d as u64));
        }
        u.bytes = bytes.ok_or(fail(Reason::Overflow, u64::MAX, u64::MAX))?;
    }
    for id in 0..program.steps.len() as u32 {
        let step = program.steps.get(id)?;
        match step.kind {
            step_kind::OP => {
                for (o, from) in step.in_place.iter().enumerate().filter(|(_, from)| **from != 0) {
                    let input = program.step_inputs(step)?.nth(usize::from(*from) - 1).unwrap_or(NONE);
                    let output = program.step_outputs(step)?.nth(o).unwrap_or(NONE);
                    join(program, units, id, input, output)?;
                }
            }
            step_kind::LOOP => {
                let (inputs, outputs) = (u32::from(step.inputs), u32::from(step.outputs));
                if inputs != outputs + 2 {
                    let (expected, found) = (u64::from(outputs) + 2, u64::from(inputs));
                    return Err(Error::at(Reason::OperandCount, SectionId::Steps, id, expected, found));
                }
                for (before, after) in program.step_inputs(step)?.skip(2).zip(program.step_outputs(step)?) {
                    join(program, units, id, before, after)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes `output` share the slot of `input`.
fn join(program: &Program<'_>, units: &mut [Unit], step: u32, input: u32, output: u32) -> Result<(), Error> {
    let fail = |reason| Error::at(reason, SectionId::Steps, step, input.into(), output.into());
    if input == NONE || output == NONE {
        return Err(fail(Reason::InPlace));
    }
    let (x, y) = (program.values.get(input)?, program.values.get(output)?);
    let root = |id: u32, v: &Value| if v.view == view::NONE { id } else { v.root };
    let (from, to) = (root(input, x), root(output, y));
    if from == to {
        return Ok(());
    }
    let whole = |v: &Value| v.view <= view::RESHAPE;
    let (x_root, y_root) = (program.values.get(from)?, program.values.get(to)?);
    if space_of(x_root, from)?.is_none() || space_of(y_root, to)?.is_none() {
        return Err(fail(Reason::ReadOnly));
    }
    // A persistent value owns its slot, and a kept input is never overwritten.
    let work = |v: &Value| matches!(v.role, role::INTERMEDIATE | role::INPUT);
    if !whole(x) || !whole(y) || !work(x_root) || !work(y_root) || x_root.flags & value_flag::KEEP != 0 {
        return Err(fail(Reason::InPlace));
    }
    let (a, b) = (find(units, from)?, find(units, to)?);
    let (low, high) = (a.min(b), a.max(b));
    let bytes = unit(units, high)?.bytes;
    unit(units, high)?.parent = low;
    let u = unit(units, low)?;
    u.bytes = u.bytes.max(bytes);
    Ok(())
}

/// Checks that entries cover the steps one after the other and that region edges match, and notes for every edge
/// that opens an arm or a body which one is around it. `steps` has one record for each step.
pub(super) fn regions(program: &Program<'_>, steps: &mut [StepInfo]) -> Result<(), Error> {
    let mut next = 0u32;
    for id in 0..program.entries.len() as u32 {
        let e = program.entries.get(id)?;
        let end = e.first_step.checked_add(e.steps).filter(|end| *end as usize <= steps.len());
        let (true, Some(end)) = (e.first_step == next, end) else {
            let found = e.first_step.into();
            return Err(Error::at(Reason::EntryRange, SectionId::Entries, id, next.into(), found));
        };
        next = end;
        entry_regions(program, steps, e.first_step, end)?;
    }
    if next as usize != steps.len() {
        let (expected, found) = (steps.len() as u64, next.into());
        return Err(Error::header(Reason::EntryRange, 0, expected, found));
    }
    Ok(())
}

fn entry_regions(program: &Program<'_>, steps: &mut [StepInfo], first: u32, end: u32) -> Result<(), Error> {
    // The arms and bodies around the present step, by the step that opened them.
    let mut open: Vec<u32, MAX_DEPTH> = Vec::new();
    for id in first..end {
        let step = program.steps.get(id)?;
        let fail = |reason, expected: u32| {
            Error::at(reason, SectionId::Steps, id, expected.into(), step.link.into())
        };
        match step.kind {
            step_kind::OP => continue,
            step_kind::IF | step_kind::LOOP => {
                let parent = open.last().map_or(0, |s| s + 1);
                open.push(id).map_err(|_| fail(Reason::Depth, MAX_DEPTH as u32))?;
                set_parent(steps, id, parent);
            }
            step_kind::ELSE => {
                let opener = open.pop().ok_or(fail(Reason::Region, NONE))?;
                let i = program.steps.get(opener)?;
                if i.kind != step_kind::IF || i.link != id {
                    return Err(fail(Reason::Region, opener));
                }
                let parent = open.last().map_or(0, |s| s + 1);
                // Room is left: one was just taken off.
                open.push(id).map_err(|_| fail(Reason::Depth, MAX_DEPTH as u32))?;
                set_parent(steps, id, parent);
            }
            step_kind::END => {
                let last = open.pop().ok_or(fail(Reason::Region, NONE))?;
                let edge = program.steps.get(last)?;
                let opener = program.steps.get(step.link)?;
                // An `End` names the `If` or `Loop`; with an `Else` in between, that names the `Else`.
                let matches = edge.link == id
                    && (last == step.link
                        || (edge.kind == step_kind::ELSE
                            && opener.kind == step_kind::IF
                            && opener.link == last
                            && step.link < last
                            && step.link >= first));
                if !matches {
                    return Err(fail(Reason::Region, last));
                }
            }
            code => return Err(fail(Reason::Code, code.into())),
        }
    }
    match open.last() {
        Some(s) => Err(Error::at(Reason::Region, SectionId::Steps, *s, end.into(), (*s).into())),
        None => Ok(()),
    }
}

fn set_parent(steps: &mut [StepInfo], id: u32, parent: u32) {
    if let Some(s) = steps.get_mut(id as usize) {
        s.parent = parent;
    }
}

/// First and last edge of the region that the arm or body `node` belongs to ([`regions`] has checked the links).
fn region(program: &Program<'_>, node: u32) -> Result<(u32, u32), Error> {
    let id = node.saturating_sub(1);
    let edge = program.steps.get(id)?;
    let end = match edge.kind {
        step_kind::IF => {
            let other = program.steps.get(edge.link)?;
            if other.kind == step_kind::ELSE { other.link } else { edge.link }
        }
        _ => edge.link,
    };
    Ok((program.steps.get(end)?.link, end))
}

/// One use of a unit.
#[derive(Clone, Copy)]
struct Use {
    entry: u32,
    /// Arm or body: 1 + the step that opens it, or 0.
    node: u32,
    first: u32,
    last: u32,
    /// Whether the contents are read, so that something must have written them before.
    reads: bool,
}

/// Finds for every unit the steps from which and to which it is needed. A unit used inside a region and outside of
/// it is needed through the whole region; so is whatever the region's first edge names.
pub(super) fn ranges(program: &Program<'_>, steps: &[StepInfo], units: &mut [Unit]) -> Result<(), Error> {
    for entry in 0..program.entries.len() as u32 {
        let e = program.entries.get(entry)?;
        let end = e.first_step.saturating_add(e.steps);
        for value in program.entry_inputs(e)? {
            start_input(program, units, entry, e.first_step, value)?;
        }
        let mut open: Vec<u32, MAX_DEPTH> = Vec::new();
        for id in e.first_step..end {
            let step = program.steps.get(id)?;
            let node = open.last().copied().unwrap_or(0);
            let span = match step.kind {
                step_kind::IF | step_kind::LOOP => region(program, id + 1)?,
                _ => (id, id),
            };
            let mut at = Use { entry, node, first: span.0, last: span.1, reads: true };
            for value in program.step_inputs(step)?.filter(|v| *v != NONE) {
                touch(program, steps, units, at, value, true)?;
            }
            at.reads = false;
            for value in program.step_outputs(step)? {
                touch(program, steps, units, at, value, true)?;
            }
            match step.kind {
                step_kind::IF | step_kind::LOOP => {
                    let deep = Error::at(
                        Reason::Depth,
                        SectionId::Steps,
                        id,
                        MAX_DEPTH as u64,
                        MAX_DEPTH as u64 + 1,
                    );
                    open.push(id + 1).map_err(|_| deep)?;
                }
                step_kind::ELSE => {
                    if let Some(arm) = open.last_mut() {
                        *arm = id + 1;
                    }
                }
                step_kind::END => {
                    open.pop();
                }
                _ => {}
            }
        }
        for value in program.entry_outputs(e)? {
            let at = Use { entry, node: 0, first: end, last: end, reads: true };
            touch(program, steps, units, at, value, false)?;
            let id = find(units, value)?;
            unit(units, id)?.kept = true;
        }
    }
    Ok(())
}

fn start_input(
    program: &Program<'_>,
    units: &mut [Unit],
    entry: u32,
    first_step: u32,
    value: u32,
) -> Result<(), Error> {
    let v = program.values.get(value)?;
    let fail = |reason| Error::at(reason, SectionId::Values, value, role::INPUT.into(), v.role.into());
    if v.role != role::INPUT || v.view != view::NONE {
        return Err(fail(Reason::Role));
    }
    let id = find(units, value)?;
    let u = unit(units, id)?;
    if u.input || u.entry != NONE {
        return Err(fail(Reason::DefinedTwice));
    }
    (u.entry, u.home, u.input) = (entry, 0, true);
    (u.first, u.last) = (first_step, first_step);
    u.kept = v.flags & value_flag::KEEP != 0;
    Ok(())
}

/// Widens the range of the unit of `value` by one use.
fn touch(
    program: &Program<'_>,
    steps: &[StepInfo],
    units: &mut [Unit],
    mut at: Use,
    value: u32,
    by_step: bool,
) -> Result<(), Error> {
    let v = program.values.get(value)?;
    let root = if v.view == view::NONE { v } else { program.values.get(v.root)? };
    if space_of(root, value)? != Some(space::WORK) {
        return Ok(());
    }
    let id = find(units, value)?;
    let u = unit(units, id)?;
    u.used |= by_step;
    if u.entry == NONE {
        if at.reads {
            return Err(Error::at(Reason::Unwritten, SectionId::Values, value, 0, at.first.into()));
        }
        (u.entry, u.home, u.first, u.last) = (at.entry, at.node, at.first, at.last);
        return Ok(());
    }
    if u.entry != at.entry {
        return Err(Error::at(Reason::Role, SectionId::Values, value, u.entry.into(), at.entry.into()));
    }
    // To the innermost arm around both. An arm opens behind those around it, so the later one is never around the
    // other; leaving an arm widens the range to its whole region.
    let parent = |node: u32| steps.get(node.saturating_sub(1) as usize).map_or(0, |s| s.parent);
    while u.home != at.node {
        if u.home > at.node {
            (u.first, u.last) = region(program, u.home)?;
            u.home = parent(u.home);
        } else {
            (at.first, at.last) = region(program, at.node)?;
            at.node = parent(at.node);
        }
    }
    u.first = u.first.min(at.first);
    u.last = u.last.max(at.last);
    Ok(())
}
