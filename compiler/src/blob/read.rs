//! The records of a file, to be changed and written again.

use super::Blob;
use crate::error::Error;
use bytemuck::Pod;
use serinette_core::schedule::program::Table;
use serinette_core::schedule::record::SectionId;
use serinette_core::schedule::{self, Program, Reason};

/// Sections that a [`Blob`] has no place for.
const NOT_HELD: [SectionId; 4] =
    [SectionId::BlockFormats, SectionId::Signature, SectionId::Attachments, SectionId::Tuning];

impl Blob {
    /// The records of a file, and its weights. Written again, they give the same bytes.
    ///
    /// # Errors
    /// A file that is no blob, or has sections that would be lost.
    pub fn read(file: &[u8]) -> Result<Blob, Error> {
        let words = super::aligned(file);
        let p = Program::parse(bytemuck::cast_slice(&words), file.len() as u64)?;
        for (_, s) in p.sections.iter() {
            match SectionId::from_code(s.id) {
                Some(id) if !NOT_HELD.contains(&id) => {}
                _ => return Err(Error::count("file", "code of a section", 37, u64::from(s.id))),
            }
        }
        let mut weight_data = Vec::new();
        for (id, w) in p.weights.iter() {
            let range = usize::try_from(w.offset).ok().zip(usize::try_from(w.bytes).ok());
            let data = range.and_then(|(at, n)| file.get(at..)?.get(..n));
            let found = file.len() as u64;
            let missing = schedule::Error::at(Reason::WeightRange, SectionId::Weights, id, w.offset, found);
            weight_data.push(data.ok_or(missing)?.to_vec());
        }
        Ok(Blob {
            symbols: all(&p.symbols),
            exprs: all(&p.exprs),
            guards: all(&p.guards),
            values: all(&p.values),
            dims: all(&p.dims),
            signatures: all(&p.signatures),
            steps: all(&p.steps),
            operands: all(&p.operands),
            attributes: p.attributes.to_vec(),
            entries: all(&p.entries),
            weights: all(&p.weights),
            weight_data,
            strings: p.strings.to_vec(),
            plans: all(&p.plans),
            bounds: all(&p.bounds),
            arenas: all(&p.arenas),
            slots: all(&p.slots),
            waves: all(&p.waves),
            slot_lists: all(&p.slot_lists),
            value_slots: all(&p.value_slots),
            scratch_slots: all(&p.scratch_slots),
            hints: all(&p.hints),
            hint_text: p.hint_text.to_vec(),
            self_tests: all(&p.self_tests),
            provenance: p.provenance.to_vec(),
            debug_names: all(&p.debug_names),
            metadata: all(&p.metadata),
            max_live: p.header.max_live,
        })
    }
}

fn all<T: Pod>(t: &Table<'_, T>) -> Vec<T> {
    t.iter().map(|(_, r)| *r).collect()
}
