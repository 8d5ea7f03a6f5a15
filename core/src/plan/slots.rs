//! Slots, arenas and the lists of slots that waves define and kill: the records of a plan.

use super::live::{self, Unit};
use super::offsets::Block;
use super::{Output, StepInfo, Workspace};
use crate::dtype::DType;
use crate::op::{self, OpDescriptor, ScratchClass, StepShapes};
use crate::schedule::error::{Error, Reason};
use crate::schedule::program::Program;
use crate::schedule::record::*;
use crate::shape::Shape;
use crate::{MAX_INPUTS, MAX_OUTPUTS, NONE};
use heapless::Vec;

/// Numbers slots and collects the blocks to be packed.
pub(super) struct Builder<'a, 'p> {
    pub(super) program: &'a Program<'p>,
    pub(super) ops: &'a [&'static OpDescriptor],
    pub(super) align: u64,
    pub(super) slots: usize,
    pub(super) blocks: usize,
    /// Sum of all bytes so far: kept below 2^63, so that no address can overflow.
    pub(super) total: u64,
}

impl Builder<'_, '_> {
    /// A new slot; gives its number and its bytes rounded up to the alignment.
    fn slot(&mut self, slots: &mut [Slot], arena: u32, bytes: u64, offset: u64) -> Result<(u32, u64), Error> {
        let overflow =
            Error::at(Reason::Overflow, SectionId::Slots, self.slots as u32, i64::MAX as u64, bytes);
        // Whole words, and no empty ranges: those would have no place among the others.
        let bytes = bytes.max(4).checked_next_multiple_of(4).ok_or(overflow)?;
        let aligned = bytes.checked_next_multiple_of(self.align).ok_or(overflow)?;
        self.total = self.total.checked_add(aligned).filter(|t| *t <= i64::MAX as u64).ok_or(overflow)?;
        let number = self.slots as u32;
        *slots.get_mut(self.slots).ok_or(overflow)? = Slot { arena, reserved: 0, offset, bytes };
        self.slots += 1;
        Ok((number, aligned))
    }

    fn block(&mut self, blocks: &mut [Block], block: Block) {
        // There are as many blocks as slots at most, and the slices are equally long.
        if let Some(b) = blocks.get_mut(self.blocks) {
            *b = block;
            self.blocks += 1;
        }
    }

    /// Slots of inputs, intermediates and outputs in the order of the values, then of scratch.
    pub(super) fn work_slots(&mut self, work: &mut Workspace<'_>, out: &mut Output<'_>) -> Result<(), Error> {
        out.value_slots.fill(NONE);
        out.scratch_slots.fill(NONE);
        for id in 0..self.program.values.len() as u32 {
            let v = self.program.values.get(id)?;
            if v.view != view::NONE || live::space_of(v, id)? != Some(space::WORK) {
                continue;
            }
            let representative = live::find(work.units, id)?;
            let u = live::unit(work.units, representative)?;
            if u.slot == NONE {
                let (slot, bytes) = self.slot(out.slots, 0, u.bytes, 0)?;
                u.slot = slot;
                if u.entry != NONE {
                    let b = self.unit_block(u, bytes, work.steps)?;
                    self.block(work.blocks, b);
                }
            }
            if let Some(s) = out.value_slots.get_mut(id as usize) {
                *s = u.slot;
            }
        }
        for entry in 0..self.program.entries.len() as u32 {
            let e = self.program.entries.get(entry)?;
            for id in e.first_step..e.first_step.saturating_add(e.steps) {
                let need = self.scratch(work.exprs, id)?;
                if need == 0 {
                    continue;
                }
                let (slot, bytes) = self.slot(out.slots, 0, need, 0)?;
                if let Some(s) = out.scratch_slots.get_mut(id as usize) {
                    *s = slot;
                }
                let wave = wave_of(work.steps, id) - wave_of(work.steps, e.first_step);
                let (first, last) = (wave, wave);
                let b = Block {
                    first,
                    last,
                    bytes,
                    slot,
                    entry,
                    defined: true,
                    killed: true,
                    ..Block::default()
                };
                self.block(work.blocks, b);
            }
        }
        Ok(())
    }

    /// The waves, counted from the entry's first, in which a unit needs its slot.
    fn unit_block(&self, u: &Unit, bytes: u64, steps: &[StepInfo]) -> Result<Block, Error> {
        let e = self.program.entries.get(u.entry)?;
        let base = wave_of(steps, e.first_step);
        let end = e.first_step.saturating_add(e.steps);
        // An input that nothing uses stays as it is.
        let killed = u.used && !u.kept;
        let last_step = if killed { u.last } else { end };
        let last = wave_of(steps, last_step.min(end.saturating_sub(1)));
        let first = wave_of(steps, u.first.min(end.saturating_sub(1)));
        let relative = |wave: u32| if e.steps == 0 { 0 } else { wave.saturating_sub(base) };
        Ok(Block {
            first: relative(first),
            last: relative(last),
            bytes,
            slot: u.slot,
            entry: u.entry,
            defined: !u.input,
            killed,
            ..Block::default()
        })
    }

    /// Slots of the values of one persistent role, one after the other; gives the end of the last.
    pub(super) fn persistent_slots(
        &mut self,
        units: &mut [Unit],
        out: &mut Output<'_>,
        role: u8,
        arena: u32,
    ) -> Result<u64, Error> {
        let mut end = 0u64;
        for id in 0..self.program.values.len() as u32 {
            let v = self.program.values.get(id)?;
            if v.role != role || v.view != view::NONE {
                continue;
            }
            let bytes = live::unit(units, id)?.bytes;
            let (slot, aligned) = self.slot(out.slots, arena, bytes, end)?;
            // The sum of all slots fits.
            end += aligned;
            if let Some(s) = out.value_slots.get_mut(id as usize) {
                *s = slot;
            }
        }
        Ok(end)
    }

    /// Bytes of scratch of a step.
    fn scratch(&self, exprs: &[u64], id: u32) -> Result<u64, Error> {
        let p = self.program;
        let step = p.steps.get(id)?;
        let fail = |reason, expected, found| Error::at(reason, SectionId::Steps, id, expected, found);
        let unknown = fail(Reason::Code, ScratchClass::Fast as u64, step.scratch.into());
        let class = ScratchClass::from_code(step.scratch).ok_or(unknown)?;
        if step.kind != step_kind::OP {
            return Ok(0);
        }
        let sig = p.signatures.get(step.link)?;
        let code = u64::from(sig.op) << 16 | u64::from(sig.version);
        let op = op::find(self.ops, sig.op, sig.version).ok_or(fail(Reason::UnknownOp, 0, code))?;
        let many =
            fail(Reason::OperandCount, MAX_INPUTS as u64, u64::from(step.inputs) + u64::from(step.outputs));
        let mut inputs: Vec<Option<Shape>, MAX_INPUTS> = Vec::new();
        let mut outputs: Vec<Shape, MAX_OUTPUTS> = Vec::new();
        let mut dtypes: Vec<DType, { MAX_INPUTS + MAX_OUTPUTS }> = Vec::new();
        for v in p.step_inputs(step)? {
            let shape = match v {
                NONE => None,
                v => Some(live::shape_of(p, exprs, v, p.values.get(v)?)?),
            };
            inputs.push(shape).map_err(|_| many)?;
        }
        for v in p.step_outputs(step)? {
            outputs.push(live::shape_of(p, exprs, v, p.values.get(v)?)?).map_err(|_| many)?;
        }
        for c in sig.dtypes.iter().take(inputs.len() + outputs.len()) {
            // An absent operand has no type; its place is kept, and no formula looks at it.
            dtypes.push(DType::from_code(*c).unwrap_or(DType::I8)).map_err(|_| many)?;
        }
        let attrs = p.step_attrs(id, step)?;
        Ok((op.scratch)(&StepShapes { attrs, inputs: &inputs, outputs: &outputs, dtypes: &dtypes }, class))
    }
}

fn wave_of(steps: &[StepInfo], step: u32) -> u32 {
    steps.get(step as usize).map_or(0, |s| s.wave)
}

/// Appends arena records.
pub(super) struct ArenaTable {
    pub(super) count: u32,
    pub(super) align: u64,
}

impl ArenaTable {
    pub(super) fn add(&mut self, arenas: &mut [Arena], space: u32, bytes: u64) {
        if let Some(a) = arenas.get_mut(self.count as usize) {
            let bytes = bytes.saturating_add(7) & !7;
            *a = Arena { name: Text::default(), space, reserved: 0, bytes, align: self.align };
            self.count += 1;
        }
    }
}

/// Fills in the lists of slots that each wave defines and kills; gives the length of the list table. Blocks are in
/// the order of entries, then slots, so each list ascends.
pub(super) fn wave_lists(
    blocks: &[Block],
    program: &Program<'_>,
    steps: &[StepInfo],
    waves: Option<&mut [Wave]>,
    lists: &mut [u32],
) -> u32 {
    let waves = waves.unwrap_or(&mut []);
    let events = |b: &Block| {
        let base = program.entries.get(b.entry).map_or(0, |e| wave_of(steps, e.first_step));
        [(b.defined, false, base.saturating_add(b.first)), (b.killed, true, base.saturating_add(b.last))]
    };
    // Counted first, then laid out, then filled.
    for (_, kill, wave) in blocks.iter().flat_map(events).filter(|e| e.0) {
        if let Some(w) = waves.get_mut(wave as usize) {
            let list = if kill { &mut w.kills } else { &mut w.defs };
            list[1] += 1;
        }
    }
    let mut at = 0u32;
    for w in waves.iter_mut() {
        for list in [&mut w.defs, &mut w.kills] {
            let count = list[1];
            *list = [at, 0];
            at = at.saturating_add(count);
        }
    }
    for b in blocks {
        for (_, kill, wave) in events(b).into_iter().filter(|e| e.0) {
            if let Some(w) = waves.get_mut(wave as usize) {
                let list = if kill { &mut w.kills } else { &mut w.defs };
                if let Some(space) = lists.get_mut((list[0] as usize).saturating_add(list[1] as usize)) {
                    *space = b.slot;
                }
                list[1] += 1;
            }
        }
    }
    at
}
