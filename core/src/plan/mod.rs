//! Memory planning on slices that the caller owns.
//!
//! [`plan`] turns a program into the records of one memory plan: which values share a slot (`live`), which steps
//! may run side by side (`waves`), from which wave to which each slot is needed, and where it lies
//! ([`offsets`]). The result satisfies what [`crate::schedule::verify()`] proves, as long as the program itself
//! does; a program that does not gets an error here or there.
//!
//! The compiler plans the program it has just written; a host may do the same at open for the sizes at hand.

mod live;
pub mod offsets;
mod slots;
mod waves;

use crate::op::OpDescriptor;
use crate::schedule::error::{Error, Reason};
use crate::schedule::expr::evaluate;
use crate::schedule::program::Program;
use crate::schedule::record::*;
pub use live::Unit;
use offsets::{Block, Placed, Room};
use slots::{ArenaTable, Builder, wave_lists};

/// What kind of plan is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// [`profile`] code. `MCU` plans have one step a wave, which takes the least memory; the others put as many
    /// steps in a wave as have no hazards among them.
    pub profile: u32,
    /// Alignment of slots in bytes, a power of two of at least 8.
    pub align: u32,
    /// Most comparisons of two blocks while offsets are improved, over all entries. 10^7 take some ten
    /// milliseconds on a desktop; small and easy programs use a fraction.
    pub effort: u64,
}

impl Options {
    /// For hosts and GPUs: waves, 64-byte alignment.
    pub const DESKTOP: Options = Options { profile: profile::DESKTOP, align: 64, effort: 20_000_000 };
    /// For microcontrollers: one step a wave, 8-byte alignment.
    pub const MCU: Options = Options { profile: profile::MCU, align: 8, effort: 50_000_000 };
}

/// How long the slices of [`Workspace`] and [`Output`] must be, field by field. See [`required`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each field is the length of the slices named here
pub struct Sizes {
    /// [`Workspace::exprs`].
    pub exprs: usize,
    /// [`Workspace::units`] and [`Output::value_slots`].
    pub values: usize,
    /// [`Workspace::steps`], [`Output::scratch_slots`] and [`Output::waves`].
    pub steps: usize,
    /// [`Output::slots`], and the workspace fields `blocks`, `order`, `trial`, `best`, `keys`, `placed`.
    pub slots: usize,
    /// [`Output::slot_lists`].
    pub slot_lists: usize,
    /// [`Output::arenas`].
    pub arenas: usize,
    /// [`Workspace::loads`].
    pub loads: usize,
}

/// How long the slices for planning this program must be. What is used is no more than this.
pub fn required(program: &Program<'_>) -> Sizes {
    let (values, steps) = (program.values.len(), program.steps.len());
    let slots = values.saturating_add(steps);
    Sizes {
        exprs: program.exprs.len(),
        values,
        steps,
        slots,
        slot_lists: slots.saturating_mul(2),
        arenas: 4,
        loads: steps.saturating_add(2),
    }
}

/// Memory that planning works in; contents do not matter. Lengths: [`required`].
#[derive(Debug)]
#[allow(missing_docs)] // one purpose: room
pub struct Workspace<'a> {
    pub exprs: &'a mut [u64],
    pub units: &'a mut [Unit],
    pub steps: &'a mut [StepInfo],
    pub blocks: &'a mut [Block],
    pub order: &'a mut [u32],
    pub trial: &'a mut [u32],
    pub keys: &'a mut [u64],
    pub best: &'a mut [u64],
    pub placed: &'a mut [Placed],
    pub loads: &'a mut [u64],
}

/// Where the records of the plan go. Lengths: [`required`]; [`Planned`] says how many records each slice holds
/// afterwards. Numbers in the records count from the start of these slices, as the format wants it.
#[derive(Debug)]
pub struct Output<'a> {
    /// Slots: work, then state, param, derived, each in the order of value ids.
    pub slots: &'a mut [Slot],
    /// One for each value.
    pub value_slots: &'a mut [u32],
    /// One for each step.
    pub scratch_slots: &'a mut [u32],
    /// Waves.
    pub waves: &'a mut [Wave],
    /// Slots that waves define and kill.
    pub slot_lists: &'a mut [u32],
    /// Work, state, param, derived; only those that hold something. Names are left empty.
    pub arenas: &'a mut [Arena],
}

/// What the planner knows about one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepInfo {
    /// Its wave.
    wave: u32,
    /// For steps that open an arm or a body: the one around it, as 1 + the step that opens that, or 0.
    parent: u32,
}

/// A finished plan: how many records there are, and how good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Records in [`Output::slots`].
    pub slots: u32,
    /// Records in [`Output::waves`].
    pub waves: u32,
    /// Records in [`Output::slot_lists`].
    pub slot_lists: u32,
    /// Records in [`Output::arenas`].
    pub arenas: u32,
    /// Bytes of the work arena that slots in use take, at most [`Arena::bytes`].
    pub peak: u64,
    /// Largest sum of live work bytes (each slot rounded up to the alignment, scratch included) over the waves.
    pub lower_bound: u64,
    /// Live ranges that verification needs room for: [`Header::max_live`] must be at least this.
    pub max_live: u32,
}

impl Planned {
    /// The plan record, where `first` says how long the plan tables of the blob are before these records are
    /// appended. `name` and the bounds (one for each symbol) are the caller's.
    pub fn record(&self, options: &Options, name: Text, symbols: u32, first: &FirstRecords) -> Plan {
        Plan {
            name,
            profile: options.profile,
            align: options.align,
            bounds: [first.bounds, symbols],
            arenas: [first.arenas, self.arenas],
            slots: [first.slots, self.slots],
            waves: [first.waves, self.waves],
            lists: [first.slot_lists, self.slot_lists],
            value_slots: first.value_slots,
            scratch_slots: first.scratch_slots,
            lower_bound: self.lower_bound,
            reserved: 0,
        }
    }
}

/// Lengths of the plan tables of a blob before a plan is appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // each field is the table of its name
pub struct FirstRecords {
    pub bounds: u32,
    pub arenas: u32,
    pub slots: u32,
    pub waves: u32,
    pub slot_lists: u32,
    pub value_slots: u32,
    pub scratch_slots: u32,
}

/// Plans the memory of `program` for sizes of at most `symbols_high[s]` for symbol `s` (for counters: the most
/// trips less one). The plan tables of the program, if it has any, are not looked at. `ops` must describe the ops
/// of all steps with scratch.
///
/// Slots have at least the bytes of their values at those sizes, and at least 4; views get no slot but use that of
/// their root. A value that nothing uses has a slot too, which shares its memory with others.
///
/// The same arguments give the same plan. Time: O(n²) in the number of slots, and [`Options::effort`].
///
/// # Errors
///
/// What is wrong with the program where that is in the way of planning: ids out of their tables, sizes that do
/// not fit 63 bits in sum, regions that do not match, a value read that nothing wrote before, a value used by two
/// entries, in-place results over constants, persistent or kept values. [`Reason::BufferSize`] where a slice is
/// shorter than [`required`], [`Reason::Alignment`] and [`Reason::Code`] for options that cannot be.
///
/// # Example
///
/// ```
/// use bytemuck::Zeroable;
/// use serinette_core::plan::{Options, Output, Planned, StepInfo, Unit, Workspace, offsets, plan, required};
/// use serinette_core::schedule::{Error, Program, record::*};
///
/// /// The records of a plan, as they are appended to a blob.
/// struct Tables {
///     slots: Vec<Slot>,
///     value_slots: Vec<u32>,
///     scratch_slots: Vec<u32>,
///     waves: Vec<Wave>,
///     slot_lists: Vec<u32>,
///     arenas: Vec<Arena>,
/// }
///
/// fn plan_on_the_heap(program: &Program<'_>, symbols_high: &[u64]) -> Result<(Planned, Tables), Error> {
///     let n = required(program);
///     let mut t = Tables {
///         slots: vec![Slot::zeroed(); n.slots],
///         value_slots: vec![0; n.values],
///         scratch_slots: vec![0; n.steps],
///         waves: vec![Wave::zeroed(); n.steps],
///         slot_lists: vec![0; n.slot_lists],
///         arenas: vec![Arena::zeroed(); n.arenas],
///     };
///     let mut work = Workspace {
///         exprs: &mut vec![0; n.exprs],
///         units: &mut vec![Unit::default(); n.values],
///         steps: &mut vec![StepInfo::default(); n.steps],
///         blocks: &mut vec![offsets::Block::default(); n.slots],
///         order: &mut vec![0; n.slots],
///         trial: &mut vec![0; n.slots],
///         keys: &mut vec![0; n.slots],
///         best: &mut vec![0; n.slots],
///         placed: &mut vec![offsets::Placed::default(); n.slots],
///         loads: &mut vec![0; n.loads],
///     };
///     let mut out = Output {
///         slots: &mut t.slots,
///         value_slots: &mut t.value_slots,
///         scratch_slots: &mut t.scratch_slots,
///         waves: &mut t.waves,
///         slot_lists: &mut t.slot_lists,
///         arenas: &mut t.arenas,
///     };
///     let ops = serinette_core::op::ALL;
///     let planned = plan(program, ops, symbols_high, &Options::DESKTOP, &mut work, &mut out)?;
///     t.slots.truncate(planned.slots as usize);
///     t.waves.truncate(planned.waves as usize);
///     t.slot_lists.truncate(planned.slot_lists as usize);
///     t.arenas.truncate(planned.arenas as usize);
///     Ok((planned, t))
/// }
/// ```
pub fn plan(
    program: &Program<'_>,
    ops: &[&'static OpDescriptor],
    symbols_high: &[u64],
    options: &Options,
    work: &mut Workspace<'_>,
    out: &mut Output<'_>,
) -> Result<Planned, Error> {
    if options.profile > profile::MCU {
        return Err(Error::header(Reason::Code, 0, profile::MCU.into(), options.profile.into()));
    }
    if options.align < 8 || !options.align.is_power_of_two() {
        return Err(Error::header(Reason::Alignment, 0, 8, options.align.into()));
    }
    let sizes = required(program);
    let mut work = Workspace {
        exprs: cut(work.exprs, sizes.exprs)?,
        units: cut(work.units, sizes.values)?,
        steps: cut(work.steps, sizes.steps)?,
        blocks: cut(work.blocks, sizes.slots)?,
        order: cut(work.order, sizes.slots)?,
        trial: cut(work.trial, sizes.slots)?,
        keys: cut(work.keys, sizes.slots)?,
        best: cut(work.best, sizes.slots)?,
        placed: cut(work.placed, sizes.slots)?,
        loads: cut(work.loads, sizes.loads)?,
    };
    let mut out = Output {
        slots: cut(out.slots, sizes.slots)?,
        value_slots: cut(out.value_slots, sizes.values)?,
        scratch_slots: cut(out.scratch_slots, sizes.steps)?,
        waves: cut(out.waves, sizes.steps)?,
        slot_lists: cut(out.slot_lists, sizes.slot_lists)?,
        arenas: cut(out.arenas, sizes.arenas)?,
    };

    evaluate(program, symbols_high, work.exprs)?;
    work.steps.fill(StepInfo::default());
    live::regions(program, work.steps)?;
    live::share(program, work.exprs, work.units)?;
    let single = options.profile == profile::MCU;
    let waves = waves::build(program, work.units, work.steps, out.waves, single)?;
    live::ranges(program, work.steps, work.units)?;

    let mut builder = Builder { program, ops, align: options.align.into(), slots: 0, blocks: 0, total: 0 };
    builder.work_slots(&mut work, &mut out)?;
    let (work_blocks, work_slots) = (builder.blocks, builder.slots);
    let mut arenas = ArenaTable { count: 0, align: options.align.into() };
    let blocks = work.blocks.get_mut(..work_blocks).unwrap_or(&mut []);
    let room = Room {
        order: work.order,
        trial: work.trial,
        keys: work.keys,
        best: work.best,
        placed: work.placed,
        loads: work.loads,
    };
    let packed = pack_entries(blocks, options.effort, room);
    for b in blocks.iter() {
        if let Some(s) = out.slots.get_mut(b.slot as usize) {
            s.offset = b.offset;
        }
    }
    if work_slots > 0 {
        let slots = out.slots.get(..work_slots).unwrap_or(&[]);
        let end = slots.iter().map(|s| s.offset.saturating_add(s.bytes)).max().unwrap_or(0);
        arenas.add(out.arenas, space::WORK, end.max(packed.peak));
    }
    for (role, space) in
        [(role::STATE, space::STATE), (role::PARAM, space::PARAM), (role::DERIVED, space::DERIVED)]
    {
        let before = builder.slots;
        let end = builder.persistent_slots(work.units, &mut out, role, arenas.count)?;
        if builder.slots > before {
            arenas.add(out.arenas, space, end);
        }
    }
    let persistent = builder.slots - work_slots;
    let lists = wave_lists(blocks, program, work.steps, out.waves.get_mut(..waves), out.slot_lists);
    Ok(Planned {
        slots: builder.slots as u32,
        waves: waves as u32,
        slot_lists: lists,
        arenas: arenas.count,
        peak: packed.peak,
        lower_bound: packed.lower_bound,
        max_live: packed.most.saturating_add(persistent as u32),
    })
}

/// The first `length` elements of a caller's slice.
fn cut<T>(slice: &mut [T], length: usize) -> Result<&mut [T], Error> {
    let found = slice.len() as u64;
    slice.get_mut(..length).ok_or(Error::header(Reason::BufferSize, 0, length as u64, found))
}

/// What packing all entries gave.
struct Packed {
    peak: u64,
    lower_bound: u64,
    /// Most blocks live in one wave.
    most: u32,
}

/// Packs the blocks of each entry; entries do not run at the same time, so they share all memory.
fn pack_entries(blocks: &mut [Block], effort: u64, mut room: Room<'_>) -> Packed {
    blocks.sort_unstable_by_key(|b| (b.entry, b.slot));
    let mut packed = Packed { peak: 0, lower_bound: 0, most: 0 };
    let mut entries = 0;
    for entry in blocks.chunk_by(|a, b| a.entry == b.entry) {
        entries += 1;
        packed.lower_bound = packed.lower_bound.max(offsets::lower_bound(entry.iter().copied(), room.loads));
        let ones = entry.iter().map(|b| Block { bytes: 1, ..*b });
        packed.most = packed.most.max(offsets::lower_bound(ones, room.loads) as u32);
    }
    for entry in blocks.chunk_by_mut(|a, b| a.entry == b.entry) {
        // What another entry needs anyway is good enough for this one.
        let target = packed.lower_bound.max(packed.peak);
        let packing = offsets::pack(entry, target, effort / entries, &mut room);
        packed.peak = packed.peak.max(packing.peak);
    }
    packed
}
