//! The reader: finds the tables of a blob and hands out records by index, checked.

use super::check::{Check, Note, Reader, Refused};
use super::error::{Error, Reason};
use super::planned::PlanReader;
use super::record::*;
use bytemuck::Pod;
use core::mem::size_of;

/// A table of records inside the blob.
#[derive(Clone, Copy)]
pub struct Table<'a, T> {
    records: &'a [T],
    section: SectionId,
}

impl<'a, T: Pod> Table<'a, T> {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Number of records, as it stands in the file.
    pub(super) fn count(&self) -> u32 {
        self.records.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Record `id`.
    pub fn get(&self, id: u32) -> Result<&'a T, Error> {
        self.find(id)
            .ok_or_else(|| Error::at(Reason::Id, self.section, id, u64::from(self.count()), u64::from(id)))
    }

    /// Record `id`, if there is one.
    pub(super) fn find(&self, id: u32) -> Option<&'a T> {
        self.records.get(id as usize)
    }

    /// Records `first .. first + count`, if they are all there.
    pub(super) fn slice(&self, first: u32, count: u32) -> Option<&'a [T]> {
        self.records.get(first as usize..)?.get(..count as usize)
    }

    /// The records of a range (first, count) that was checked, as an iterator of (id, record).
    pub(super) fn part(&self, [first, count]: [u32; 2]) -> impl Iterator<Item = (u32, &'a T)> + use<'a, T> {
        numbered(first, self.slice(first, count).unwrap_or(&[]))
    }

    /// Records `first .. first + count` as an iterator of (id, record); an error if they are not all there.
    pub fn range(
        &self,
        first: u32,
        count: u32,
    ) -> Result<impl Iterator<Item = (u32, &'a T)> + Clone + use<'a, T>, Error> {
        let records = self.slice(first, count).ok_or_else(|| {
            let end = u64::from(first) + u64::from(count);
            Error::at(Reason::Id, self.section, first, u64::from(self.count()), end)
        })?;
        Ok(numbered(first, records))
    }

    /// All records as an iterator of (id, record).
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a T)> + Clone + use<'a, T> {
        numbered(0, self.records)
    }

    /// The section that the table was read from.
    pub fn section(&self) -> SectionId {
        self.section
    }
}

/// Records with their ids, of which the first is `first`. The record comes before the number, so that none is counted
/// behind the last.
fn numbered<T>(first: u32, records: &[T]) -> impl Iterator<Item = (u32, &T)> + Clone {
    records.iter().zip(first..).map(|(record, id)| (id, record))
}

/// A parsed blob: its tables, borrowed from the record prefix. Parsing checks the header and the section table;
/// [`super::verify()`] checks the rest.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // each field is the table of the section of its name
pub struct Program<'a> {
    /// The record prefix.
    pub meta: &'a [u8],
    /// Bytes of the whole file.
    pub total_bytes: u64,
    /// The file header.
    pub header: &'a Header,
    pub sections: Table<'a, Section>,
    pub symbols: Table<'a, Symbol>,
    pub exprs: Table<'a, Expr>,
    pub guards: Table<'a, Guard>,
    pub values: Table<'a, Value>,
    pub dims: Table<'a, u32>,
    pub signatures: Table<'a, Signature>,
    pub steps: Table<'a, Step>,
    pub operands: Table<'a, u32>,
    pub attributes: &'a [u8],
    pub entries: Table<'a, Entry>,
    pub weights: Table<'a, WeightSection>,
    pub strings: &'a [u8],
    pub plans: Table<'a, Plan>,
    pub bounds: Table<'a, Bound>,
    pub arenas: Table<'a, Arena>,
    pub slots: Table<'a, Slot>,
    pub waves: Table<'a, Wave>,
    pub slot_lists: Table<'a, u32>,
    pub value_slots: Table<'a, u32>,
    pub scratch_slots: Table<'a, u32>,
    pub block_formats: Table<'a, BlockFormat>,
    pub hints: Table<'a, Hint>,
    pub hint_text: &'a [u8],
    pub self_tests: Table<'a, SelfTest>,
    pub provenance: &'a [u8],
    pub debug_names: Table<'a, DebugName>,
    pub metadata: Table<'a, Metadata>,
}

impl<'a> Program<'a> {
    /// Reads the header and the section table of `file`, which is the record prefix or starts with it, and whose
    /// whole length is `total_bytes`. Bounded by the number of sections; nothing is copied.
    ///
    /// The CRC is not checked here ([`crc_matches`](Self::crc_matches) does): it finds damage, not malice.
    pub fn parse(file: &'a [u8], total_bytes: u64) -> Result<Program<'a>, Error> {
        let note = Note::new();
        note.finish(Program::read(&note, file, total_bytes))
    }

    fn read(note: &Note, file: &'a [u8], total_bytes: u64) -> Check<Program<'a>> {
        let first = |bytes: usize| {
            file.get(..bytes)
                .ok_or_else(|| note.refuse_wide(Reason::Truncated, bytes as u64, file.len() as u64))
        };
        let header: &Header = bytemuck::try_from_bytes(first(size_of::<Header>())?)
            .map_err(|_| note.refuse(Reason::Misaligned, 8u32, 0u32))?;
        check_header(note, header, total_bytes)?;
        let meta = first(
            usize::try_from(header.meta_bytes)
                .map_err(|_| note.refuse_wide(Reason::Overflow, usize::MAX as u64, header.meta_bytes))?,
        )?;
        let table_start = size_of::<Header>();
        let table = (header.section_count as usize)
            .checked_mul(size_of::<Section>())
            .and_then(|bytes| meta.get(table_start..)?.get(..bytes))
            .ok_or_else(|| note.refuse_wide(Reason::SectionRange, header.meta_bytes, header.section_count))?;
        let sections = Table { records: cast(table), section: SectionId::Symbols };
        check_sections(note, meta, sections.records, table_start + table.len())?;

        let f = Finder { note, meta, sections: sections.records };
        let program = Program {
            meta,
            total_bytes,
            header,
            sections,
            symbols: f.table(SectionId::Symbols),
            exprs: f.table(SectionId::Exprs),
            guards: f.table(SectionId::Guards),
            values: f.table(SectionId::Values),
            dims: f.table(SectionId::Dims),
            signatures: f.table(SectionId::Signatures),
            steps: f.table(SectionId::Steps),
            operands: f.table(SectionId::Operands),
            attributes: f.bytes(SectionId::Attributes, 1),
            entries: f.table(SectionId::Entries),
            weights: f.table(SectionId::Weights),
            strings: f.bytes(SectionId::Strings, 1),
            plans: f.table(SectionId::Plans),
            bounds: f.table(SectionId::Bounds),
            arenas: f.table(SectionId::Arenas),
            slots: f.table(SectionId::Slots),
            waves: f.table(SectionId::Waves),
            slot_lists: f.table(SectionId::SlotLists),
            value_slots: f.table(SectionId::ValueSlots),
            scratch_slots: f.table(SectionId::ScratchSlots),
            block_formats: f.table(SectionId::BlockFormats),
            hints: f.table(SectionId::Hints),
            hint_text: f.bytes(SectionId::HintText, 1),
            self_tests: f.table(SectionId::SelfTests),
            provenance: f.bytes(SectionId::Provenance, 1),
            debug_names: f.table(SectionId::DebugNames),
            metadata: f.table(SectionId::Metadata),
        };
        if note.is_clean() { Ok(program) } else { Err(Refused) }
    }

    /// Whether the checksum of the records is right.
    pub fn crc_matches(&self) -> bool {
        checksum(self.meta) == self.header.crc
    }

    /// Runs a check, for a caller outside.
    fn checked<T>(&self, check: impl FnOnce(&Reader<'_, 'a>) -> Check<T>) -> Result<T, Error> {
        let reader = Reader::new(self);
        reader.finish(check(&reader))
    }

    /// A text of the string section; an error where it lies outside or is not UTF-8.
    pub fn text(&self, t: Text) -> Result<&'a str, Error> {
        self.checked(|r| r.raw_text(self.strings, SectionId::Strings, t))
    }

    /// The JSON of a hint.
    pub fn hint(&self, h: &Hint) -> Result<&'a str, Error> {
        self.checked(|r| r.raw_text(self.hint_text, SectionId::HintText, h.text))
    }

    /// The attribute bytes of a step.
    pub fn step_attrs(&self, id: u32, step: &Step) -> Result<&'a [u8], Error> {
        self.checked(|r| r.attrs(id, step))
    }

    /// The input values of a step; `NONE` for absent ones.
    pub fn step_inputs(&self, step: &Step) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.checked(|r| r.inputs(step))?.iter().copied())
    }

    /// The output values of a step.
    pub fn step_outputs(&self, step: &Step) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.checked(|r| r.outputs(step))?.iter().copied())
    }

    /// The input values of an entry.
    pub fn entry_inputs(&self, e: &Entry) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.checked(|r| r.entry_inputs(e))?.iter().copied())
    }

    /// The output values of an entry.
    pub fn entry_outputs(&self, e: &Entry) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.checked(|r| r.entry_outputs(e))?.iter().copied())
    }

    /// The dimension expressions of a value.
    pub fn value_dims(&self, v: &Value) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.checked(|r| r.dims(v))?.iter().copied())
    }

    /// The entry of a name.
    pub fn entry(&self, name: &str) -> Option<(u32, &'a Entry)> {
        self.entries.iter().find(|(_, e)| self.text(e.name) == Ok(name))
    }

    /// Slot of a value (of its root) in a plan: the plan-relative slot number, or `NONE`.
    pub fn value_slot(&self, plan: &Plan, root: u32) -> Result<u32, Error> {
        self.checked(|r| PlanReader { r, plan, exprs: &[] }.value_slot(root))
    }

    /// Scratch slot of a step in a plan: the plan-relative slot number, or `NONE`.
    pub fn scratch_slot(&self, plan: &Plan, step: u32) -> Result<u32, Error> {
        self.checked(|r| PlanReader { r, plan, exprs: &[] }.scratch_slot(step))
    }

    /// Slot record of a plan-relative slot number.
    pub fn slot(&self, plan: &Plan, slot: u32) -> Result<&'a Slot, Error> {
        self.checked(|r| PlanReader { r, plan, exprs: &[] }.slot(slot))
    }

    /// Arena record of a plan-relative arena number.
    pub fn arena(&self, plan: &Plan, arena: u32) -> Result<&'a Arena, Error> {
        self.checked(|r| PlanReader { r, plan, exprs: &[] }.arena(arena))
    }
}

/// CRC-32 of a record prefix with the fields `crc` and `digest` of the header taken as zeros.
pub fn checksum(meta: &[u8]) -> u32 {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    let mut digest = CRC.digest();
    let crc_at = core::mem::offset_of!(Header, crc);
    let after = core::mem::offset_of!(Header, digest) + 32;
    digest.update(meta.get(..crc_at).unwrap_or(meta));
    digest.update(&[0; 36]);
    digest.update(meta.get(after..).unwrap_or(&[]));
    digest.finalize()
}

fn check_header(note: &Note, h: &Header, total_bytes: u64) -> Check {
    if h.magic != MAGIC {
        return note.fail_wide(Reason::Magic, u64::from_le_bytes(MAGIC), u64::from_le_bytes(h.magic));
    }
    if (h.major, h.minor) != VERSION {
        let number = |(a, b): (u16, u16)| u32::from(a) << 16 | u32::from(b);
        return note.fail(Reason::Version, number(VERSION), number((h.major, h.minor)));
    }
    if h.required_features != 0 {
        return note.fail_wide(Reason::Feature, 0u32, h.required_features);
    }
    if h.header_bytes as usize != size_of::<Header>() {
        return note.fail(Reason::Stride, size_of::<Header>() as u32, h.header_bytes);
    }
    if h.flags != 0 || h.reserved != [0; 5] {
        return note.fail(Reason::NotZero, 0u32, h.flags);
    }
    if h.total_bytes != total_bytes {
        return note.fail_wide(Reason::Truncated, h.total_bytes, total_bytes);
    }
    if h.meta_bytes < h.header_bytes.into() || h.meta_bytes > h.total_bytes || !h.meta_bytes.is_multiple_of(8)
    {
        return note.fail_wide(Reason::SectionRange, h.total_bytes, h.meta_bytes);
    }
    Ok(())
}

/// Sections ascend without overlap, lie in the prefix, are known or ancillary, and the gaps are zero.
fn check_sections(note: &Note, meta: &[u8], sections: &[Section], mut end: usize) -> Check {
    let mut seen = 0u64;
    for (i, s) in (0..).zip(sections) {
        note.at_header(i);
        let known = SectionId::from_code(s.id);
        if s.flags & !ANCILLARY != 0 || s.reserved != [0; 3] {
            return note.fail(Reason::NotZero, 0u32, s.flags);
        }
        match known {
            None if s.flags & ANCILLARY == 0 => return note.fail(Reason::UnknownSection, 0u32, s.id),
            None => {}
            Some(id) => {
                if id.ancillary() != (s.flags & ANCILLARY != 0) {
                    return note.fail(Reason::Code, id.ancillary(), s.flags);
                }
                let bit = 1u64 << (id as u32 & 63);
                if seen & bit != 0 {
                    return note.fail(Reason::DuplicateSection, 1u32, s.id);
                }
                seen |= bit;
            }
        }
        let bytes = u64::from(s.stride) * u64::from(s.count);
        if s.bytes != bytes {
            return note.fail_wide(Reason::SectionRange, bytes, s.bytes);
        }
        if s.align as usize != SECTION_ALIGN || !s.offset.is_multiple_of(SECTION_ALIGN as u64) {
            return note.fail_wide(Reason::Alignment, SECTION_ALIGN as u64, s.offset);
        }
        let Some((gap, stop)) = place(meta, end, s) else {
            return note.fail_wide(Reason::SectionRange, meta.len() as u64, s.offset);
        };
        zeros(note, gap)?;
        end = stop;
    }
    note.at_header(sections.len() as u32);
    zeros(note, meta.get(end..).unwrap_or(&[]))
}

/// The bytes between the section before, which ended at `end`, and section `s`, and where that ends.
fn place<'a>(meta: &'a [u8], end: usize, s: &Section) -> Option<(&'a [u8], usize)> {
    let start = usize::try_from(s.offset).ok()?;
    let stop = start.checked_add(usize::try_from(s.bytes).ok()?).filter(|stop| *stop <= meta.len())?;
    Some((meta.get(end..start)?, stop))
}

fn zeros(note: &Note, gap: &[u8]) -> Check {
    match gap.iter().find(|b| **b != 0) {
        Some(b) => note.fail(Reason::NotZero, 0u32, *b),
        None => Ok(()),
    }
}

/// Bytes as records. Sections lie at multiples of 8 in the file, the file does so in memory, and the length was
/// checked, so the cast cannot fail.
fn cast<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::try_cast_slice(bytes).unwrap_or(&[])
}

struct Finder<'f, 'a> {
    note: &'f Note,
    meta: &'a [u8],
    sections: &'a [Section],
}

impl<'a> Finder<'_, 'a> {
    /// The bytes of a section of records of `stride` bytes; none where it is missing, or wrong: the first one that
    /// is is noted.
    #[inline(never)]
    fn bytes(&self, id: SectionId, stride: u32) -> &'a [u8] {
        let Some((i, s)) = (0..).zip(self.sections).find(|(_, s)| s.id == id as u32) else { return &[] };
        // Longer records come from a later minor version; `check_header` refuses other versions for now, and a
        // 0.x file has exactly the known lengths.
        if s.stride != stride {
            if self.note.is_clean() {
                self.note.at_header(i).refuse(Reason::Stride, stride, s.stride);
            }
            return &[];
        }
        // In range: `check_sections` has seen it.
        self.meta.get(s.offset as usize..).and_then(|b| b.get(..s.bytes as usize)).unwrap_or(&[])
    }

    fn table<T: Pod>(&self, section: SectionId) -> Table<'a, T> {
        Table { records: cast(self.bytes(section, size_of::<T>() as u32)), section }
    }
}
