//! Which tensor lies where in the arenas of a plan, and from which step to which.
//!
//! The waves of a plan say when slots become live and when they die. Several tensors may follow one another in a
//! slot while it lives (results computed in place, what a loop carries): each has it from the step that writes it
//! to the one before the next writes.

use crate::failure::Failure;
use crate::steps::AtBounds;
use serinette::Model;
use serinette::core::NONE;
use serinette::core::schedule::record::{Entry, role, space, step_kind, view};
use std::collections::{BTreeMap, BTreeSet};

/// What a tensor is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Given by the caller.
    Input,
    /// Given to the caller.
    Output,
    /// Computed and used within an entry.
    Temporary,
    /// Working memory of one step.
    Scratch,
    /// Kept from run to run.
    State,
    /// Can be set at any time.
    Param,
    /// Computed when weights or params change.
    Derived,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] =
        [Kind::Input, Kind::Output, Kind::Temporary, Kind::Scratch, Kind::State, Kind::Param, Kind::Derived];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Output => "output",
            Kind::Temporary => "temporary",
            Kind::Scratch => "scratch",
            Kind::State => "state",
            Kind::Param => "param",
            Kind::Derived => "derived",
        }
    }
}

/// A range of an arena while it holds one tensor.
#[derive(Clone, Debug)]
pub struct Place {
    /// What for.
    pub kind: Kind,
    /// Arena of the plan.
    pub arena: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes of the tensor, or of the scratch.
    pub bytes: u64,
    /// First step.
    pub first: u32,
    /// Last step, at least the first.
    pub last: u32,
    /// The tensor; `None` for scratch.
    pub value: Option<u32>,
    /// The step that writes it first, or whose scratch it is; `None` where it is there before.
    pub step: Option<u32>,
}

/// An arena.
#[derive(Clone, Debug)]
pub struct Arena {
    /// What for: `work`, `state`, `params`, `derived`.
    pub name: &'static str,
    /// Whether it holds what single steps need rather than what is kept.
    pub work: bool,
    /// Bytes.
    pub bytes: u64,
}

/// The memory of a plan.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The arenas.
    pub arenas: Vec<Arena>,
    /// What lies in them, entry by entry.
    pub places: Vec<Place>,
    /// Live bytes of the work arenas during each step, scratch and alignment included.
    pub live: Vec<u64>,
}

/// Reads the memory of a plan.
pub fn of(model: &Model, at: &AtBounds<'_>) -> Result<Memory, Failure> {
    let program = model.program();
    let mut arenas = Vec::new();
    for i in 0..at.plan.arenas[1] {
        let a = program.arena(at.plan, i)?;
        let (name, work) = match a.space {
            space::STATE => ("state", false),
            space::PARAM => ("params", false),
            space::DERIVED => ("derived", false),
            _ => ("work", true),
        };
        arenas.push(Arena { name, work, bytes: a.bytes });
    }
    let mut memory = Memory { arenas, places: Vec::new(), live: vec![0; at.steps.len()] };
    for (_, e) in program.entries.iter() {
        entry(model, at, e, &mut memory)?;
    }
    kept(model, at, &mut memory)?;
    Ok(memory)
}

/// The life of a slot within an entry.
struct Life {
    slot: u32,
    first: u32,
    last: u32,
}

/// The lives of all slots of an entry; adds up what lives during each step.
fn lives(model: &Model, at: &AtBounds<'_>, e: &Entry, live: &mut [u64]) -> Result<Vec<Life>, Failure> {
    let (program, plan) = (model.program(), at.plan);
    let list =
        |[first, count]: [u32; 2]| program.slot_lists.range(plan.lists[0].saturating_add(first), count);
    let mut open: BTreeMap<u32, u32> = BTreeMap::new();
    for v in program.entry_inputs(e)? {
        open.insert(program.value_slot(plan, program.values.get(v)?.root)?, e.first_step);
    }
    let mut all = Vec::new();
    let end = e.first_step.saturating_add(e.steps);
    for (_, w) in program.waves.range(plan.waves[0], plan.waves[1])? {
        if !(e.first_step..end).contains(&w.first_step) {
            continue;
        }
        open.extend(list(w.defs)?.map(|(_, slot)| (*slot, w.first_step)));
        let mut sum = 0u64;
        for slot in open.keys() {
            let bytes = program.slot(plan, *slot)?.bytes;
            sum = sum.saturating_add(bytes.next_multiple_of(u64::from(plan.align.max(1))));
        }
        let after = w.first_step.saturating_add(w.steps);
        if let Some(steps) = live.get_mut(w.first_step as usize..after as usize) {
            steps.fill(sum);
        }
        for (_, slot) in list(w.kills)? {
            if let Some(first) = open.remove(slot) {
                all.push(Life { slot: *slot, first, last: after.saturating_sub(1) });
            }
        }
    }
    let last = end.saturating_sub(1);
    all.extend(open.into_iter().map(|(slot, first)| Life { slot, first, last }));
    Ok(all)
}

/// What a slot holds from a step on: a tensor, or scratch.
type Occupants = BTreeMap<u32, Vec<(u32, Option<u32>)>>;

/// Who writes into which slot of an entry, in the order of the steps.
fn occupants(model: &Model, at: &AtBounds<'_>, e: &Entry) -> Result<Occupants, Failure> {
    let (program, plan) = (model.program(), at.plan);
    let mut all = Occupants::new();
    for (id, s) in program.steps.range(e.first_step, e.steps)? {
        let mut written: Vec<u32> = Vec::new();
        if s.kind == step_kind::OP {
            written.extend(program.step_outputs(s)?.filter(|v| *v != NONE));
            let scratch = program.scratch_slot(plan, id)?;
            if scratch != NONE {
                all.entry(scratch).or_default().push((id, None));
            }
        } else if s.kind == step_kind::END && program.steps.get(s.link)?.kind == step_kind::LOOP {
            // Behind a loop the slots hold the values "before" again. Inputs 0 and 1 are condition and trip count.
            written.extend(program.step_inputs(program.steps.get(s.link)?)?.skip(2).filter(|v| *v != NONE));
        }
        for v in written {
            let root = program.values.get(v)?.root;
            let slot = program.value_slot(plan, root)?;
            if slot != NONE {
                all.entry(slot).or_default().push((id, Some(root)));
            }
        }
    }
    Ok(all)
}

fn entry(model: &Model, at: &AtBounds<'_>, e: &Entry, memory: &mut Memory) -> Result<(), Failure> {
    let (program, plan) = (model.program(), at.plan);
    let root = |v: u32| -> Result<u32, Failure> { Ok(program.values.get(v)?.root) };
    let inputs: Vec<u32> = program.entry_inputs(e)?.map(root).collect::<Result<_, _>>()?;
    let outputs: BTreeSet<u32> = program.entry_outputs(e)?.map(root).collect::<Result<_, _>>()?;
    let written = occupants(model, at, e)?;
    for life in lives(model, at, e, &mut memory.live)? {
        let slot = program.slot(plan, life.slot)?;
        let mut holds: Vec<(u32, Option<u32>, Option<u32>)> = Vec::new();
        for v in inputs.iter().filter(|v| program.value_slot(plan, **v) == Ok(life.slot)) {
            holds.push((life.first, Some(*v), None));
        }
        for (step, value) in written.get(&life.slot).into_iter().flatten() {
            let known = holds.last().is_some_and(|(_, v, _)| v == value);
            if (life.first..=life.last).contains(step) && !known {
                // The slot is live from the wave that defines it on.
                let first = if holds.is_empty() { life.first } else { *step };
                holds.push((first, *value, Some(*step)));
            }
        }
        for (i, (first, value, step)) in holds.iter().enumerate() {
            let next = holds.get(i + 1).map(|(step, ..)| step.saturating_sub(1));
            let kind = match value {
                None => Kind::Scratch,
                Some(v) if outputs.contains(v) => Kind::Output,
                Some(v) if program.values.get(*v)?.role == role::INPUT => Kind::Input,
                Some(_) => Kind::Temporary,
            };
            memory.places.push(Place {
                kind,
                arena: slot.arena,
                offset: slot.offset,
                bytes: value.map_or(Ok(slot.bytes), |v| at.bytes(v))?,
                first: *first,
                last: next.unwrap_or(life.last).max(*first),
                value: *value,
                step: *step,
            });
        }
    }
    Ok(())
}

/// What outlives an entry is there from the first step to the last.
fn kept(model: &Model, at: &AtBounds<'_>, memory: &mut Memory) -> Result<(), Failure> {
    let (program, plan) = (model.program(), at.plan);
    for (value, v) in program.values.iter().filter(|(_, v)| v.view == view::NONE) {
        let kind = match v.role {
            role::STATE => Kind::State,
            role::PARAM => Kind::Param,
            role::DERIVED => Kind::Derived,
            _ => continue,
        };
        let number = program.value_slot(plan, value)?;
        if number == NONE {
            continue;
        }
        let slot = program.slot(plan, number)?;
        memory.places.push(Place {
            kind,
            arena: slot.arena,
            offset: slot.offset,
            bytes: at.bytes(value)?,
            first: 0,
            last: (at.steps.len() as u32).saturating_sub(1),
            value: Some(value),
            step: None,
        });
    }
    Ok(())
}
