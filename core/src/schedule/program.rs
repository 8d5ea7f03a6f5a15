//! The reader: finds the tables of a blob and hands out records by index, checked.

use super::error::{Error, Reason};
use super::record::*;
use bytemuck::Pod;
use core::marker::PhantomData;
use core::mem::size_of;

/// A table of records inside the blob.
#[derive(Clone, Copy)]
pub struct Table<'a, T> {
    bytes: &'a [u8],
    count: u32,
    stride: u32,
    section: SectionId,
    of: PhantomData<T>,
}

impl<'a, T: Pod> Table<'a, T> {
    const fn empty(section: SectionId) -> Self {
        Table { bytes: &[], count: 0, stride: size_of::<T>() as u32, section, of: PhantomData }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Record `id`.
    pub fn get(&self, id: u32) -> Result<&'a T, Error> {
        let missing = Error::at(Reason::Id, self.section, id, u64::from(self.count), u64::from(id));
        let start = (id as usize).checked_mul(self.stride as usize).ok_or(missing)?;
        let bytes = self.bytes.get(start..).and_then(|b| b.get(..size_of::<T>())).ok_or(missing)?;
        bytemuck::try_from_bytes(bytes).map_err(|_| Error::at(Reason::Misaligned, self.section, id, 8, 0))
    }

    /// Records `first .. first + count` as an iterator of (id, record); an error if they are not all there.
    pub fn range(
        &self,
        first: u32,
        count: u32,
    ) -> Result<impl Iterator<Item = (u32, &'a T)> + Clone + use<'a, T>, Error> {
        let end = first.checked_add(count).filter(|e| *e <= self.count).ok_or_else(|| {
            Error::at(
                Reason::Id,
                self.section,
                first,
                u64::from(self.count),
                u64::from(first) + u64::from(count),
            )
        })?;
        let table = *self;
        Ok((first..end).filter_map(move |i| table.get(i).ok().map(|r| (i, r))))
    }

    /// All records as an iterator of (id, record).
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a T)> + Clone + use<'a, T> {
        let table = *self;
        (0..self.count).filter_map(move |i| table.get(i).ok().map(|r| (i, r)))
    }

    /// The section that the table was read from.
    pub fn section(&self) -> SectionId {
        self.section
    }
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
        let short = |n: usize| Error::header(Reason::Truncated, 0, n as u64, file.len() as u64);
        let header = file.get(..size_of::<Header>()).ok_or(short(size_of::<Header>()))?;
        let header: &Header =
            bytemuck::try_from_bytes(header).map_err(|_| Error::header(Reason::Misaligned, 0, 8, 0))?;
        check_header(header, total_bytes)?;
        let meta_bytes = usize::try_from(header.meta_bytes)
            .map_err(|_| Error::header(Reason::Overflow, 0, usize::MAX as u64, header.meta_bytes))?;
        let meta = file.get(..meta_bytes).ok_or(short(meta_bytes))?;

        let table_start = size_of::<Header>();
        let table_bytes = (header.section_count as usize)
            .checked_mul(size_of::<Section>())
            .filter(|n| *n <= meta.len() - table_start)
            .ok_or_else(|| {
                Error::header(Reason::SectionRange, 0, header.meta_bytes, u64::from(header.section_count))
            })?;
        let sections = Table::<Section> {
            bytes: meta.get(table_start..table_start + table_bytes).unwrap_or(&[]),
            count: header.section_count,
            stride: size_of::<Section>() as u32,
            section: SectionId::Symbols,
            of: PhantomData,
        };
        check_sections(meta, &sections, table_start + table_bytes)?;

        let p = Finder { meta, sections };
        Ok(Program {
            meta,
            total_bytes,
            header,
            sections,
            symbols: p.table(SectionId::Symbols)?,
            exprs: p.table(SectionId::Exprs)?,
            guards: p.table(SectionId::Guards)?,
            values: p.table(SectionId::Values)?,
            dims: p.table(SectionId::Dims)?,
            signatures: p.table(SectionId::Signatures)?,
            steps: p.table(SectionId::Steps)?,
            operands: p.table(SectionId::Operands)?,
            attributes: p.bytes(SectionId::Attributes)?,
            entries: p.table(SectionId::Entries)?,
            weights: p.table(SectionId::Weights)?,
            strings: p.bytes(SectionId::Strings)?,
            plans: p.table(SectionId::Plans)?,
            bounds: p.table(SectionId::Bounds)?,
            arenas: p.table(SectionId::Arenas)?,
            slots: p.table(SectionId::Slots)?,
            waves: p.table(SectionId::Waves)?,
            slot_lists: p.table(SectionId::SlotLists)?,
            value_slots: p.table(SectionId::ValueSlots)?,
            scratch_slots: p.table(SectionId::ScratchSlots)?,
            block_formats: p.table(SectionId::BlockFormats)?,
            hints: p.table(SectionId::Hints)?,
            hint_text: p.bytes(SectionId::HintText)?,
            self_tests: p.table(SectionId::SelfTests)?,
            provenance: p.bytes(SectionId::Provenance)?,
            debug_names: p.table(SectionId::DebugNames)?,
            metadata: p.table(SectionId::Metadata)?,
        })
    }

    /// Whether the checksum of the records is right.
    pub fn crc_matches(&self) -> bool {
        checksum(self.meta) == self.header.crc
    }

    /// A text of the string section; an error where it lies outside or is not UTF-8.
    pub fn text(&self, t: Text) -> Result<&'a str, Error> {
        text_in(self.strings, t, SectionId::Strings)
    }

    /// The JSON of a hint.
    pub fn hint(&self, h: &Hint) -> Result<&'a str, Error> {
        text_in(self.hint_text, h.text, SectionId::HintText)
    }

    /// The attribute bytes of a step.
    pub fn step_attrs(&self, id: u32, step: &Step) -> Result<&'a [u8], Error> {
        let start = step.attrs as usize;
        self.attributes.get(start..).and_then(|b| b.get(..step.attr_bytes as usize)).ok_or_else(|| {
            Error::at(
                Reason::Id,
                SectionId::Steps,
                id,
                self.attributes.len() as u64,
                u64::from(step.attrs) + u64::from(step.attr_bytes),
            )
        })
    }

    /// The input values of a step; `NONE` for absent ones.
    pub fn step_inputs(&self, step: &Step) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.operands.range(step.operands, u32::from(step.inputs))?.map(|(_, v)| *v))
    }

    /// The output values of a step.
    pub fn step_outputs(&self, step: &Step) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        let first = step.operands.saturating_add(u32::from(step.inputs));
        Ok(self.operands.range(first, u32::from(step.outputs))?.map(|(_, v)| *v))
    }

    /// The input values of an entry.
    pub fn entry_inputs(&self, e: &Entry) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.operands.range(e.operands, e.inputs)?.map(|(_, v)| *v))
    }

    /// The output values of an entry.
    pub fn entry_outputs(&self, e: &Entry) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        let first = e.operands.saturating_add(e.inputs);
        Ok(self.operands.range(first, e.outputs)?.map(|(_, v)| *v))
    }

    /// The dimension expressions of a value.
    pub fn value_dims(&self, v: &Value) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Error> {
        Ok(self.dims.range(v.dims, u32::from(v.rank))?.map(|(_, d)| *d))
    }

    /// The entry of a name.
    pub fn entry(&self, name: &str) -> Option<(u32, &'a Entry)> {
        self.entries.iter().find(|(_, e)| self.text(e.name) == Ok(name))
    }

    /// Slot of a value (of its root) in a plan: the plan-relative slot number, or `NONE`.
    pub fn value_slot(&self, plan: &Plan, root: u32) -> Result<u32, Error> {
        if root as usize >= self.values.len() {
            return Err(Error::at(
                Reason::Id,
                SectionId::Values,
                root,
                self.values.len() as u64,
                u64::from(root),
            ));
        }
        self.value_slots.get(plan.value_slots.saturating_add(root)).copied()
    }

    /// Scratch slot of a step in a plan: the plan-relative slot number, or `NONE`.
    pub fn scratch_slot(&self, plan: &Plan, step: u32) -> Result<u32, Error> {
        if step as usize >= self.steps.len() {
            return Err(Error::at(
                Reason::Id,
                SectionId::Steps,
                step,
                self.steps.len() as u64,
                u64::from(step),
            ));
        }
        self.scratch_slots.get(plan.scratch_slots.saturating_add(step)).copied()
    }

    /// Slot record of a plan-relative slot number.
    pub fn slot(&self, plan: &Plan, slot: u32) -> Result<&'a Slot, Error> {
        match plan.slots[0].checked_add(slot) {
            Some(id) if slot < plan.slots[1] => self.slots.get(id),
            _ => {
                Err(Error::at(Reason::Id, SectionId::Slots, slot, u64::from(plan.slots[1]), u64::from(slot)))
            }
        }
    }

    /// Arena record of a plan-relative arena number.
    pub fn arena(&self, plan: &Plan, arena: u32) -> Result<&'a Arena, Error> {
        match plan.arenas[0].checked_add(arena) {
            Some(id) if arena < plan.arenas[1] => self.arenas.get(id),
            _ => Err(Error::at(
                Reason::Id,
                SectionId::Arenas,
                arena,
                u64::from(plan.arenas[1]),
                u64::from(arena),
            )),
        }
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

fn text_in(strings: &[u8], t: Text, section: SectionId) -> Result<&str, Error> {
    let bytes = strings.get(t.offset as usize..).and_then(|b| b.get(..t.length as usize));
    bytes.and_then(|b| core::str::from_utf8(b).ok()).ok_or_else(|| {
        Error::at(
            Reason::Text,
            section,
            t.offset,
            strings.len() as u64,
            u64::from(t.offset) + u64::from(t.length),
        )
    })
}

fn check_header(h: &Header, total_bytes: u64) -> Result<(), Error> {
    let fail = |reason, expected, found| Err(Error::header(reason, 0, expected, found));
    if h.magic != MAGIC {
        return fail(Reason::Magic, u64::from_le_bytes(MAGIC), u64::from_le_bytes(h.magic));
    }
    if (h.major, h.minor) != VERSION {
        let number = |(a, b): (u16, u16)| u64::from(a) << 16 | u64::from(b);
        return fail(Reason::Version, number(VERSION), number((h.major, h.minor)));
    }
    if h.required_features != 0 {
        return fail(Reason::Feature, 0, h.required_features);
    }
    if h.header_bytes as usize != size_of::<Header>() {
        return fail(Reason::Stride, size_of::<Header>() as u64, u64::from(h.header_bytes));
    }
    if h.flags != 0 || h.reserved != [0; 5] {
        return fail(Reason::NotZero, 0, u64::from(h.flags));
    }
    if h.total_bytes != total_bytes {
        return fail(Reason::Truncated, h.total_bytes, total_bytes);
    }
    if h.meta_bytes < h.header_bytes.into() || h.meta_bytes > h.total_bytes || !h.meta_bytes.is_multiple_of(8)
    {
        return fail(Reason::SectionRange, h.total_bytes, h.meta_bytes);
    }
    Ok(())
}

/// Sections ascend without overlap, lie in the prefix, are known or ancillary, and the gaps are zero.
fn check_sections(meta: &[u8], sections: &Table<'_, Section>, mut end: usize) -> Result<(), Error> {
    let mut seen = 0u64;
    for (i, s) in sections.iter() {
        let fail = |reason, expected, found| Err(Error::header(reason, i, expected, found));
        let known = SectionId::from_code(s.id);
        if s.flags & !ANCILLARY != 0 || s.reserved != [0; 3] {
            return fail(Reason::NotZero, 0, u64::from(s.flags));
        }
        match known {
            None if s.flags & ANCILLARY == 0 => return fail(Reason::UnknownSection, 0, u64::from(s.id)),
            None => {}
            Some(id) => {
                if id.ancillary() != (s.flags & ANCILLARY != 0) {
                    return fail(Reason::Code, u64::from(id.ancillary()), u64::from(s.flags));
                }
                let bit = 1u64 << (id as u32 & 63);
                if seen & bit != 0 {
                    return fail(Reason::DuplicateSection, 1, u64::from(s.id));
                }
                seen |= bit;
            }
        }
        if s.bytes != u64::from(s.stride) * u64::from(s.count) {
            return fail(Reason::SectionRange, u64::from(s.stride) * u64::from(s.count), s.bytes);
        }
        if s.align as usize != SECTION_ALIGN || !s.offset.is_multiple_of(SECTION_ALIGN as u64) {
            return fail(Reason::Alignment, SECTION_ALIGN as u64, s.offset);
        }
        let start = usize::try_from(s.offset).ok().filter(|o| *o >= end && *o <= meta.len());
        let stop =
            start.and_then(|o| o.checked_add(usize::try_from(s.bytes).ok()?)).filter(|e| *e <= meta.len());
        let (Some(start), Some(stop)) = (start, stop) else {
            return fail(Reason::SectionRange, meta.len() as u64, s.offset);
        };
        zero_gap(meta, end, start, i)?;
        end = stop;
    }
    zero_gap(meta, end, meta.len(), sections.count)
}

fn zero_gap(meta: &[u8], from: usize, to: usize, index: u32) -> Result<(), Error> {
    match meta.get(from..to).unwrap_or(&[]).iter().find(|b| **b != 0) {
        Some(b) => Err(Error::header(Reason::NotZero, index, 0, u64::from(*b))),
        None => Ok(()),
    }
}

struct Finder<'a> {
    meta: &'a [u8],
    sections: Table<'a, Section>,
}

impl<'a> Finder<'a> {
    fn find(&self, id: SectionId) -> Option<(u32, &'a Section)> {
        self.sections.iter().find(|(_, s)| s.id == id as u32)
    }

    fn bytes(&self, id: SectionId) -> Result<&'a [u8], Error> {
        let Some((i, s)) = self.find(id) else { return Ok(&[]) };
        if s.stride != 1 {
            return Err(Error::header(Reason::Stride, i, 1, u64::from(s.stride)));
        }
        // In range: `check_sections` has seen it.
        Ok(self.meta.get(s.offset as usize..).and_then(|b| b.get(..s.bytes as usize)).unwrap_or(&[]))
    }

    fn table<T: Pod>(&self, id: SectionId) -> Result<Table<'a, T>, Error> {
        let Some((i, s)) = self.find(id) else { return Ok(Table::empty(id)) };
        // Longer records come from a later minor version; `check_sections` refuses other versions for now, and a
        // 0.x file has exactly the known lengths.
        if s.stride as usize != size_of::<T>() {
            return Err(Error::header(Reason::Stride, i, size_of::<T>() as u64, u64::from(s.stride)));
        }
        let bytes = self.meta.get(s.offset as usize..).and_then(|b| b.get(..s.bytes as usize)).unwrap_or(&[]);
        Ok(Table { bytes, count: s.count, stride: s.stride, section: id, of: PhantomData })
    }
}
