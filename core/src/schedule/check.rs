//! How checks report, and how they read records.
//!
//! A check gives only *that* it failed; what failed is written down once, in the [`Note`] of the pass. Its result then
//! fits into registers, and handing a failure on costs two instructions instead of the copy of an [`Error`]: on a
//! microcontroller that was a quarter of the code.

use super::error::{Error, Reason};
use super::program::{Program, Table};
use super::record::*;
use crate::NONE;
use crate::op::{self, OpDescriptor};
use core::cell::Cell;
use core::ops::Deref;

/// That a check failed: the [`Note`] says how. Without contents on purpose.
#[derive(Debug)]
pub(super) struct Refused;

/// What a check gives.
pub(super) type Check<T = ()> = Result<T, Refused>;

/// Which record is being checked, and the first thing that was wrong.
pub(super) struct Note {
    section: Cell<Option<SectionId>>,
    index: Cell<u32>,
    error: Cell<Option<Error>>,
}

impl Note {
    /// Nothing wrong yet; the place is the header.
    pub const fn new() -> Note {
        Note { section: Cell::new(None), index: Cell::new(0), error: Cell::new(None) }
    }

    /// From here on, refusals are about record `index` of `section`.
    pub fn at(&self, section: SectionId, index: u32) -> &Note {
        self.section.set(Some(section));
        self.index.set(index);
        self
    }

    /// From here on, refusals are about entry `index` of the section table.
    pub fn at_header(&self, index: u32) -> &Note {
        self.section.set(None);
        self.index.set(index);
        self
    }

    /// Whether nothing was refused.
    pub fn is_clean(&self) -> bool {
        self.error.get().is_none()
    }

    #[cold]
    #[inline(never)]
    fn refuse32(&self, reason: Reason, expected: u32, found: u32) -> Refused {
        self.refuse64(reason, expected.into(), found.into())
    }

    #[cold]
    #[inline(never)]
    fn refuse64(&self, reason: Reason, expected: u64, found: u64) -> Refused {
        self.explain(reason, "", expected, found)
    }

    /// A refusal with a text: what was compared.
    #[cold]
    #[inline(never)]
    pub fn explain(&self, reason: Reason, what: &'static str, expected: u64, found: u64) -> Refused {
        let (section, index) = (self.section.get(), self.index.get());
        self.error.set(Some(Error { reason, section, index, expected, found, what }));
        Refused
    }

    /// Writes down a refusal.
    #[inline(always)]
    pub fn refuse(&self, reason: Reason, expected: impl Into<u32>, found: impl Into<u32>) -> Refused {
        self.refuse32(reason, expected.into(), found.into())
    }

    /// The same as a result.
    #[inline(always)]
    pub fn fail<T>(&self, reason: Reason, expected: impl Into<u32>, found: impl Into<u32>) -> Check<T> {
        Err(self.refuse(reason, expected, found))
    }

    /// [`refuse`](Self::refuse) with larger numbers.
    #[inline(always)]
    pub fn refuse_wide(&self, reason: Reason, expected: impl Into<u64>, found: impl Into<u64>) -> Refused {
        self.refuse64(reason, expected.into(), found.into())
    }

    /// The same as a result.
    #[inline(always)]
    pub fn fail_wide<T>(&self, reason: Reason, expected: impl Into<u64>, found: impl Into<u64>) -> Check<T> {
        Err(self.refuse_wide(reason, expected, found))
    }

    /// The result for a caller outside.
    pub fn finish<T>(&self, result: Check<T>) -> Result<T, Error> {
        // Whoever gives `Refused` has written down an error; the other one cannot be.
        result.map_err(|Refused| self.error.get().unwrap_or(Error::header(Reason::Corrupt, 0, 0, 0)))
    }

    /// A code is at most `most`.
    #[inline(always)]
    pub fn code(&self, most: impl Into<u32>, found: impl Into<u32>) -> Check {
        let (most, found) = (most.into(), found.into());
        if found <= most { Ok(()) } else { self.fail(Reason::Code, most, found) }
    }

    /// A reserved field is zero.
    #[inline(always)]
    pub fn zero(&self, found: impl Into<u32>) -> Check {
        let found = found.into();
        if found == 0 { Ok(()) } else { self.fail(Reason::NotZero, 0u32, found) }
    }

    /// [`zero`](Self::zero) for larger fields.
    pub fn zero_wide(&self, found: u64) -> Check {
        if found == 0 { Ok(()) } else { self.fail_wide(Reason::NotZero, 0u64, found) }
    }

    /// A field is [`NONE`].
    pub fn none(&self, found: u32) -> Check {
        if found == NONE { Ok(()) } else { self.fail(Reason::NotZero, NONE, found) }
    }

    /// An id lies in a table of `count` records.
    pub fn within(&self, id: u32, count: u32) -> Check {
        if id < count { Ok(()) } else { self.fail(Reason::Id, count, id) }
    }

    /// The text `t` of the record.
    #[inline(never)]
    pub fn text<'t>(&self, strings: &'t str, t: Text) -> Check<&'t str> {
        let (start, end) = (t.offset as usize, u64::from(t.offset) + u64::from(t.length));
        let range = usize::try_from(end).ok().and_then(|end| strings.get(start..end));
        range.ok_or_else(|| self.refuse_wide(Reason::Text, strings.len() as u64, end))
    }

    #[cold]
    #[inline(never)]
    fn missing(&self, section: SectionId, index: u32, count: u32, found: u64) -> Refused {
        self.at(section, index).refuse_wide(Reason::Id, count, found)
    }
}

/// The records of a program, for checks.
pub(super) struct Reader<'a, 'p> {
    /// The program.
    pub p: &'a Program<'p>,
    note: Note,
}

impl Deref for Reader<'_, '_> {
    type Target = Note;

    fn deref(&self) -> &Note {
        &self.note
    }
}

impl<'a, 'p> Reader<'a, 'p> {
    /// A reader that has refused nothing.
    pub const fn new(p: &'a Program<'p>) -> Reader<'a, 'p> {
        Reader { p, note: Note::new() }
    }

    /// Record `id` of a table.
    pub fn get<T: bytemuck::Pod>(&self, table: &Table<'p, T>, id: u32) -> Check<&'p T> {
        table.find(id).ok_or_else(|| self.missing(table.section(), id, table.count(), id.into()))
    }

    /// `count` ids from `first` on.
    #[inline(never)]
    fn ids(&self, table: &Table<'p, u32>, first: u32, count: u32) -> Check<&'p [u32]> {
        table.slice(first, count).ok_or_else(|| {
            self.missing(table.section(), first, table.count(), u64::from(first) + u64::from(count))
        })
    }

    /// A value.
    pub fn value(&self, id: u32) -> Check<&'p Value> {
        self.get(&self.p.values, id)
    }

    /// An expression.
    pub fn expr(&self, id: u32) -> Check<&'p Expr> {
        self.get(&self.p.exprs, id)
    }

    /// A symbol.
    pub fn symbol(&self, id: u32) -> Check<&'p Symbol> {
        self.get(&self.p.symbols, id)
    }

    /// A step.
    pub fn step(&self, id: u32) -> Check<&'p Step> {
        self.get(&self.p.steps, id)
    }

    /// The inputs of a step, `NONE` for absent ones.
    pub fn inputs(&self, s: &Step) -> Check<&'p [u32]> {
        self.ids(&self.p.operands, s.operands, s.inputs.into())
    }

    /// The outputs of a step.
    pub fn outputs(&self, s: &Step) -> Check<&'p [u32]> {
        self.ids(&self.p.operands, s.operands.saturating_add(s.inputs.into()), s.outputs.into())
    }

    /// Inputs and outputs of a step.
    pub fn operands(&self, s: &Step) -> Check<&'p [u32]> {
        self.ids(&self.p.operands, s.operands, u32::from(s.inputs) + u32::from(s.outputs))
    }

    /// The inputs of an entry.
    pub fn entry_inputs(&self, e: &Entry) -> Check<&'p [u32]> {
        self.ids(&self.p.operands, e.operands, e.inputs)
    }

    /// The outputs of an entry.
    pub fn entry_outputs(&self, e: &Entry) -> Check<&'p [u32]> {
        self.ids(&self.p.operands, e.operands.saturating_add(e.inputs), e.outputs)
    }

    /// The dimension expressions of a value.
    pub fn dims(&self, v: &Value) -> Check<&'p [u32]> {
        self.ids(&self.p.dims, v.dims, v.rank.into())
    }

    /// The op of a signature.
    pub fn op(&self, ops: &[&'static OpDescriptor], sig: &Signature) -> Check<&'static OpDescriptor> {
        op::find(ops, sig.op, sig.version).ok_or_else(|| {
            self.refuse(Reason::UnknownOp, 0u32, u32::from(sig.op) << 16 | u32::from(sig.version))
        })
    }

    /// The attribute bytes of step `id`.
    #[inline(never)]
    pub fn attrs(&self, id: u32, s: &Step) -> Check<&'p [u8]> {
        let bytes = self.p.attributes;
        bytes.get(s.attrs as usize..).and_then(|b| b.get(..s.attr_bytes as usize)).ok_or_else(|| {
            let end = u64::from(s.attrs) + u64::from(s.attr_bytes);
            self.missing(SectionId::Steps, id, bytes.len() as u32, end)
        })
    }

    /// A text of the string section, which must be UTF-8 there.
    #[inline(never)]
    pub fn raw_text(&self, bytes: &'p [u8], section: SectionId, t: Text) -> Check<&'p str> {
        let range = bytes.get(t.offset as usize..).and_then(|b| b.get(..t.length as usize));
        range.and_then(|b| core::str::from_utf8(b).ok()).ok_or_else(|| {
            let end = u64::from(t.offset) + u64::from(t.length);
            self.at(section, t.offset).refuse_wide(Reason::Text, bytes.len() as u64, end)
        })
    }
}
