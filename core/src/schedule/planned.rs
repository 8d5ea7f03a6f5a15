//! A plan and the values of expressions, for checks.

use super::bind::Counters;
use super::check::{Check, Reader, Refused};
use super::error::Reason;
use super::program::Table;
use super::record::*;
use crate::dtype::DType;
use crate::shape::Shape;

/// Most bytes of a tensor: half the address space, so that sums of an offset and a size cannot wrap.
const MOST_BYTES: usize = isize::MAX as usize;

/// The records of a plan, and numbers for the sizes.
#[derive(Clone, Copy)]
pub(super) struct PlanReader<'a, 'p> {
    /// The program.
    pub r: &'a Reader<'a, 'p>,
    /// The plan.
    pub plan: &'a Plan,
    /// The values of the expressions.
    pub exprs: &'a [u64],
}

impl<'p> PlanReader<'_, 'p> {
    /// Where record `i` of this plan is in a table of all plans, of which `range` belongs to this one.
    #[inline(never)]
    fn own(&self, section: SectionId, range: [u32; 2], i: u32) -> Check<u32> {
        match range[0].checked_add(i) {
            Some(id) if i < range[1] => Ok(id),
            _ => self.r.at(section, i).fail(Reason::Id, range[1], i),
        }
    }

    /// Slot record of a slot number.
    #[inline(never)]
    pub fn slot(&self, slot: u32) -> Check<&'p Slot> {
        self.r.get(&self.r.p.slots, self.own(SectionId::Slots, self.plan.slots, slot)?)
    }

    /// Arena record of an arena number.
    #[inline(never)]
    pub fn arena(&self, arena: u32) -> Check<&'p Arena> {
        self.r.get(&self.r.p.arenas, self.own(SectionId::Arenas, self.plan.arenas, arena)?)
    }

    /// The id in a table that has one for each record of `section`, of which there are `count`.
    fn id_of(&self, table: &Table<'p, u32>, section: SectionId, range: [u32; 2], i: u32) -> Check<u32> {
        let at = self.own(section, range, i)?;
        self.r.get(table, at).copied()
    }

    /// Slot number of a value (of its root), or `NONE`.
    #[inline(never)]
    pub fn value_slot(&self, root: u32) -> Check<u32> {
        let p = self.r.p;
        self.id_of(&p.value_slots, SectionId::Values, [self.plan.value_slots, p.values.count()], root)
    }

    /// Scratch slot number of a step, or `NONE`.
    #[inline(never)]
    pub fn scratch_slot(&self, step: u32) -> Check<u32> {
        let p = self.r.p;
        self.id_of(&p.scratch_slots, SectionId::Steps, [self.plan.scratch_slots, p.steps.count()], step)
    }

    /// The value of an expression; a counter symbol takes its trip from `counters`.
    #[inline(never)]
    pub fn expr(&self, id: u32, counters: &Counters) -> Check<u64> {
        let e = self.r.expr(id)?;
        if e.op == expr_op::SYMBOL
            && let Some((_, trip)) = counters.iter().find(|(s, _)| *s == e.a)
        {
            return Ok(*trip);
        }
        let (count, have) = (self.r.p.exprs.count(), self.exprs.len() as u64);
        self.exprs
            .get(id as usize)
            .copied()
            .ok_or_else(|| self.r.at(SectionId::Exprs, id).refuse_wide(Reason::BufferSize, count, have))
    }

    /// The dimensions of a value as numbers, and its bytes; refused about the record that is being checked.
    #[inline(never)]
    pub fn shape(&self, v: &Value, shape: &mut Shape) -> Check<usize> {
        *shape = Shape::SCALAR;
        for e in self.r.dims(v)? {
            let d = self.number(self.expr(*e, &[])?)?;
            shape.push(d).ok_or_else(|| self.r.refuse(Reason::Code, crate::MAX_RANK as u32, v.rank))?;
        }
        let Some(dtype) = DType::from_code(v.dtype) else {
            return self.r.fail(Reason::DType, DType::ALL.len() as u32, v.dtype);
        };
        bytes_of(shape, dtype).filter(|b| *b <= MOST_BYTES).ok_or_else(|| self.overflow())
    }

    /// A size that does not fit.
    #[cold]
    pub fn overflow(&self) -> Refused {
        self.r.refuse_wide(Reason::Overflow, MOST_BYTES as u64, u64::MAX)
    }

    /// A number of bytes or elements.
    #[inline(never)]
    pub fn number(&self, n: u64) -> Check<usize> {
        usize::try_from(n)
            .ok()
            .filter(|n| *n <= MOST_BYTES)
            .ok_or_else(|| self.r.refuse_wide(Reason::Overflow, MOST_BYTES as u64, n))
    }
}

/// Bytes of a dense tensor; `None` on overflow.
fn bytes_of(shape: &Shape, dtype: DType) -> Option<usize> {
    shape.dims().iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d))
}
