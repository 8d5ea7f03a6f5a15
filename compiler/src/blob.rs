//! The blob writer: records in memory, and their bytes.
//!
//! This is the lowest layer of the compiler: it knows the layout of the file and nothing about graphs. Tests use
//! it to write blobs that no compiler would.

mod read;

use bytemuck::{Pod, bytes_of};
use serinette_core::schedule::program::checksum;
use serinette_core::schedule::record::*;
use sha2::{Digest, Sha256};
use std::mem::{offset_of, size_of};

/// The records of a blob, table by table. Ids are indices in these vectors.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // each field is the section of its name
pub struct Blob {
    pub symbols: Vec<Symbol>,
    pub exprs: Vec<Expr>,
    pub guards: Vec<Guard>,
    pub values: Vec<Value>,
    pub dims: Vec<u32>,
    pub signatures: Vec<Signature>,
    pub steps: Vec<Step>,
    pub operands: Vec<u32>,
    pub attributes: Vec<u8>,
    pub entries: Vec<Entry>,
    pub weights: Vec<WeightSection>,
    /// The bytes of each weight section; written behind the records. `offset`, `bytes` and `digest` of the
    /// [`WeightSection`] records are filled in from these.
    pub weight_data: Vec<Vec<u8>>,
    pub strings: Vec<u8>,
    pub plans: Vec<Plan>,
    pub bounds: Vec<Bound>,
    pub arenas: Vec<Arena>,
    pub slots: Vec<Slot>,
    pub waves: Vec<Wave>,
    pub slot_lists: Vec<u32>,
    pub value_slots: Vec<u32>,
    pub scratch_slots: Vec<u32>,
    pub hints: Vec<Hint>,
    pub hint_text: Vec<u8>,
    pub self_tests: Vec<SelfTest>,
    pub provenance: Vec<u8>,
    pub debug_names: Vec<DebugName>,
    pub metadata: Vec<Metadata>,
    /// Live ranges that verification needs room for.
    pub max_live: u32,
}

impl Blob {
    /// The range of `text` in the string section, added to it if it is not there yet.
    pub fn text(&mut self, text: &str) -> Text {
        intern(&mut self.strings, text.as_bytes())
    }

    /// The range of a hint's JSON in the hint text section.
    pub fn hint_json(&mut self, json: &str) -> Text {
        intern(&mut self.hint_text, json.as_bytes())
    }

    /// The bytes of attribute record `attrs`, appended at a multiple of 8; gives the first byte and the length.
    pub fn attrs(&mut self, attrs: &[u8]) -> (u32, u32) {
        self.attributes.resize(self.attributes.len().next_multiple_of(8), 0);
        let at = self.attributes.len() as u32;
        self.attributes.extend_from_slice(attrs);
        (at, attrs.len() as u32)
    }

    /// The file. The same records give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut tables: Vec<(SectionId, u32, Vec<u8>)> = Vec::new();
        fn table<T: Pod>(tables: &mut Vec<(SectionId, u32, Vec<u8>)>, id: SectionId, records: &[T]) {
            if !records.is_empty() {
                tables.push((id, size_of::<T>() as u32, bytemuck::cast_slice(records).to_vec()));
            }
        }
        let t = &mut tables;
        table(t, SectionId::Symbols, &self.symbols);
        table(t, SectionId::Exprs, &self.exprs);
        table(t, SectionId::Guards, &self.guards);
        table(t, SectionId::Values, &self.values);
        table(t, SectionId::Dims, &self.dims);
        table(t, SectionId::Signatures, &self.signatures);
        table(t, SectionId::Steps, &self.steps);
        table(t, SectionId::Operands, &self.operands);
        table(t, SectionId::Attributes, &self.attributes);
        table(t, SectionId::Entries, &self.entries);
        table(t, SectionId::Weights, &self.weights);
        table(t, SectionId::Strings, &self.strings);
        table(t, SectionId::Plans, &self.plans);
        table(t, SectionId::Bounds, &self.bounds);
        table(t, SectionId::Arenas, &self.arenas);
        table(t, SectionId::Slots, &self.slots);
        table(t, SectionId::Waves, &self.waves);
        table(t, SectionId::SlotLists, &self.slot_lists);
        table(t, SectionId::ValueSlots, &self.value_slots);
        table(t, SectionId::ScratchSlots, &self.scratch_slots);
        table(t, SectionId::Hints, &self.hints);
        table(t, SectionId::HintText, &self.hint_text);
        table(t, SectionId::SelfTests, &self.self_tests);
        table(t, SectionId::Provenance, &self.provenance);
        table(t, SectionId::DebugNames, &self.debug_names);
        table(t, SectionId::Metadata, &self.metadata);
        self.assemble(tables)
    }

    fn assemble(&self, mut tables: Vec<(SectionId, u32, Vec<u8>)>) -> Vec<u8> {
        let directory = size_of::<Header>() + tables.len() * size_of::<Section>();
        let records: usize = tables.iter().map(|(_, _, b)| b.len().next_multiple_of(SECTION_ALIGN)).sum();
        let meta_bytes = directory + records;

        // Weights lie behind the records, so their offsets are known now; write them into the table.
        let mut at = (meta_bytes as u64).next_multiple_of(WEIGHT_ALIGN);
        let mut weights = self.weights.clone();
        for (w, data) in weights.iter_mut().zip(&self.weight_data) {
            w.offset = at;
            w.bytes = data.len() as u64;
            w.digest = Sha256::digest(data).into();
            at = (at + w.bytes).next_multiple_of(WEIGHT_ALIGN);
        }
        let total = weights.iter().map(|w| w.offset + w.bytes).max().unwrap_or(meta_bytes as u64);
        if let Some((_, _, b)) = tables.iter_mut().find(|(id, _, _)| *id == SectionId::Weights) {
            *b = bytemuck::cast_slice(&weights).to_vec();
        }

        let header = Header {
            magic: MAGIC,
            major: VERSION.0,
            minor: VERSION.1,
            header_bytes: size_of::<Header>() as u32,
            meta_bytes: meta_bytes as u64,
            total_bytes: total,
            section_count: tables.len() as u32,
            max_live: self.max_live,
            required_features: 0,
            flags: 0,
            crc: 0,
            digest: [0; 32],
            reserved: [0; 5],
        };
        let mut file = Vec::with_capacity(total as usize);
        file.extend_from_slice(bytes_of(&header));
        let mut offset = directory;
        for (id, stride, bytes) in &tables {
            file.extend_from_slice(bytes_of(&Section {
                id: *id as u32,
                flags: if id.ancillary() { ANCILLARY } else { 0 },
                offset: offset as u64,
                bytes: bytes.len() as u64,
                stride: *stride,
                count: (bytes.len() / *stride as usize) as u32,
                align: SECTION_ALIGN as u32,
                reserved: [0; 3],
            }));
            offset += bytes.len().next_multiple_of(SECTION_ALIGN);
        }
        for (_, _, bytes) in &tables {
            file.extend_from_slice(bytes);
            file.resize(file.len().next_multiple_of(SECTION_ALIGN), 0);
        }
        seal(&mut file);
        for (w, data) in weights.iter().zip(&self.weight_data) {
            file.resize(w.offset as usize, 0);
            file.extend_from_slice(data);
        }
        file
    }
}

/// Writes checksum and digest into the header of a record prefix. For tools that edit records in place.
pub fn seal(meta: &mut [u8]) {
    let (crc_at, digest_at) = (offset_of!(Header, crc), offset_of!(Header, digest));
    if meta.len() < size_of::<Header>() {
        return;
    }
    meta[crc_at..crc_at + 4].fill(0);
    meta[digest_at..digest_at + 32].fill(0);
    let digest: [u8; 32] = Sha256::digest(&*meta).into();
    let crc = checksum(meta);
    meta[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    meta[digest_at..digest_at + 32].copy_from_slice(&digest);
}

/// SHA-256 of a record prefix as the header should have it.
pub fn digest(meta: &[u8]) -> [u8; 32] {
    let mut copy = meta.to_vec();
    if copy.len() >= size_of::<Header>() {
        let (crc_at, digest_at) = (offset_of!(Header, crc), offset_of!(Header, digest));
        copy[crc_at..crc_at + 4].fill(0);
        copy[digest_at..digest_at + 32].fill(0);
    }
    Sha256::digest(&copy).into()
}

/// The bytes at an address that records need; zeros behind them up to a whole word.
pub(crate) fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    if let Some(space) = bytemuck::cast_slice_mut::<u64, u8>(&mut words).get_mut(..bytes.len()) {
        space.copy_from_slice(bytes);
    }
    words
}

fn intern(pool: &mut Vec<u8>, bytes: &[u8]) -> Text {
    if bytes.is_empty() {
        return Text::default();
    }
    let found = memchr::memmem::find(pool, bytes);
    let offset = found.unwrap_or_else(|| {
        pool.extend_from_slice(bytes);
        pool.len() - bytes.len()
    });
    Text { offset: offset as u32, length: bytes.len() as u32 }
}
