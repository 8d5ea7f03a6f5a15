//! The records of a blob, exactly as they lie in the file: little-endian, fixed layout, no implicit padding.
//! `docs/format.md` specifies them byte by byte.
//!
//! An id is the index of a record in its table; [`crate::NONE`] stands for "none". A [`Text`] is a range of the
//! string section.

use bytemuck::{Pod, Zeroable};

/// First bytes of every blob. The high bit and the line ends show damage by a text-mode transfer.
pub const MAGIC: [u8; 8] = *b"\x89SRN\r\n\x1a\n";
/// Format version written and read. While the major version is 0, only the very same version is read.
pub const VERSION: (u16, u16) = (0, 1);
/// Alignment of every section in the record prefix, in bytes.
pub const SECTION_ALIGN: usize = 8;
/// Alignment of weight data in the file, in bytes.
pub const WEIGHT_ALIGN: u64 = 64;

/// A range of the string section: UTF-8, not terminated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Text {
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// The file header, 128 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Format version, major.
    pub major: u16,
    /// Format version, minor.
    pub minor: u16,
    /// Bytes of this header: 128.
    pub header_bytes: u32,
    /// Bytes of the record prefix, header included; a multiple of 8.
    pub meta_bytes: u64,
    /// Bytes of the whole file.
    pub total_bytes: u64,
    /// Entries of the section table, which follows the header.
    pub section_count: u32,
    /// Live ranges that verification needs room for (the most over all plans).
    pub max_live: u32,
    /// Features that a reader must know; bits are assigned as features appear.
    pub required_features: u64,
    /// Zero.
    pub flags: u32,
    /// CRC-32 (ISO-HDLC) of the prefix with this field and [`digest`](Self::digest) as zeros.
    pub crc: u32,
    /// SHA-256 of the prefix with this field and [`crc`](Self::crc) as zeros: the identity of the program.
    pub digest: [u8; 32],
    /// Zero.
    pub reserved: [u64; 5],
}

/// One entry of the section table, 48 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Section {
    /// [`SectionId`] code.
    pub id: u32,
    /// Bit 0: ancillary (readers that do not know it skip it). Other bits are zero.
    pub flags: u32,
    /// Offset in the file; a multiple of 8, within the prefix. Sections do not overlap and ascend.
    pub offset: u64,
    /// Bytes: `stride × count`.
    pub bytes: u64,
    /// Bytes of one record.
    pub stride: u32,
    /// Records.
    pub count: u32,
    /// Alignment of the section: 8.
    pub align: u32,
    /// Zero.
    pub reserved: [u32; 3],
}

/// Bit of [`Section::flags`]: readers that do not know the section skip it.
pub const ANCILLARY: u32 = 1;

/// What a section holds. The discriminant is the code in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SectionId {
    /// [`Symbol`] records.
    Symbols = 1,
    /// [`Expr`] records in post-order.
    Exprs = 2,
    /// [`Guard`] records.
    Guards = 3,
    /// [`Value`] records.
    Values = 4,
    /// `u32` expression ids: the dimensions of the values.
    Dims = 5,
    /// [`Signature`] records.
    Signatures = 6,
    /// [`Step`] records.
    Steps = 7,
    /// `u32` value ids: the operands of steps, inputs and outputs of entries.
    Operands = 8,
    /// Attribute bytes.
    Attributes = 9,
    /// [`Entry`] records.
    Entries = 10,
    /// [`WeightSection`] records.
    Weights = 11,
    /// UTF-8 bytes of names; UTF-8 as a whole, so that names may share bytes.
    Strings = 12,
    /// [`Plan`] records.
    Plans = 13,
    /// [`Bound`] records: symbol bounds of the plans.
    Bounds = 14,
    /// [`Arena`] records of the plans.
    Arenas = 15,
    /// [`Slot`] records of the plans.
    Slots = 16,
    /// [`Wave`] records of the plans.
    Waves = 17,
    /// `u32` slot ids: what waves define and kill.
    SlotLists = 18,
    /// `u32` slot id (or none) of each value, plan after plan.
    ValueSlots = 19,
    /// `u32` scratch slot id (or none) of each step, plan after plan.
    ScratchSlots = 20,
    /// [`BlockFormat`] records (reserved; empty in 0.1).
    BlockFormats = 21,
    /// [`Hint`] records, ancillary.
    Hints = 32,
    /// JSON text of the hints, UTF-8 as a whole, ancillary.
    HintText = 33,
    /// [`SelfTest`] records, ancillary.
    SelfTests = 34,
    /// UTF-8 text: compiler name and version, source digest, ancillary.
    Provenance = 35,
    /// [`DebugName`] records, ancillary, strippable.
    DebugNames = 36,
    /// [`Metadata`] records, ancillary.
    Metadata = 37,
    /// A signature over the digest (reserved), ancillary.
    Signature = 38,
    /// Attached files such as a tokeniser (reserved), ancillary.
    Attachments = 39,
    /// Tuning tables (reserved), ancillary.
    Tuning = 40,
}

impl SectionId {
    /// Number of section kinds that this version reads into tables.
    pub const ALL: [SectionId; 30] = {
        use SectionId::*;
        [
            Symbols,
            Exprs,
            Guards,
            Values,
            Dims,
            Signatures,
            Steps,
            Operands,
            Attributes,
            Entries,
            Weights,
            Strings,
            Plans,
            Bounds,
            Arenas,
            Slots,
            Waves,
            SlotLists,
            ValueSlots,
            ScratchSlots,
            BlockFormats,
            Hints,
            HintText,
            SelfTests,
            Provenance,
            DebugNames,
            Metadata,
            Signature,
            Attachments,
            Tuning,
        ]
    };

    /// The kind of a code in the file.
    pub fn from_code(code: u32) -> Option<SectionId> {
        Self::ALL.into_iter().find(|s| *s as u32 == code)
    }

    /// Whether a reader may skip it.
    pub const fn ancillary(self) -> bool {
        self as u32 >= 32
    }
}

/// A number known before or during a run, 40 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Symbol {
    /// [`symbol_kind`].
    pub kind: u8,
    /// [`symbol_change`].
    pub change: u8,
    /// Zero.
    pub flags: u16,
    /// Input symbol: the scalar i32 or i64 input whose contents are the value, or none: then the value comes from
    /// the shapes of inputs, or from the caller. Counter: its `Loop` step.
    pub source: u32,
    /// Least value.
    pub low: u64,
    /// Greatest value.
    pub high: u64,
    /// The value is a multiple of this; at least 1.
    pub multiple_of: u64,
    /// Name.
    pub name: Text,
}

/// Codes of [`Symbol::kind`].
pub mod symbol_kind {
    /// Given by the caller: a size of an input, or a scalar input.
    pub const INPUT: u8 = 0;
    /// Counts the trips of one loop from 0.
    pub const COUNTER: u8 = 1;
    /// Written by a step during the run (reserved; refused in 0.1).
    pub const PRODUCED: u8 = 2;
}

/// Codes of [`Symbol::change`]: how often the value may change.
pub mod symbol_change {
    /// Fixed when the session is opened.
    pub const OPEN: u8 = 0;
    /// Fixed until sizes are bound anew.
    pub const SHAPE: u8 = 1;
    /// May differ in each run without binding anew.
    pub const RUN: u8 = 2;
}

/// A node of a dimension expression, 16 bytes. Operands have smaller ids, so a table is evaluated in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Expr {
    /// [`expr_op`].
    pub op: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// First operand: an expression, or the symbol of a `SYMBOL`; 0 for a constant.
    pub a: u32,
    /// The constant, or the second operand's id; 0 for a symbol.
    pub b: u64,
}

/// Codes of [`Expr::op`]. All are monotone.
pub mod expr_op {
    /// `b`.
    pub const CONSTANT: u8 = 0;
    /// The value of symbol `a`.
    pub const SYMBOL: u8 = 1;
    /// `a + b`.
    pub const ADD: u8 = 2;
    /// `a × b`.
    pub const MUL: u8 = 3;
    /// `⌊a / b⌋`, `b` a constant above 0.
    pub const DIV_FLOOR: u8 = 4;
    /// `⌈a / b⌉`, `b` a constant above 0.
    pub const DIV_CEIL: u8 = 5;
    /// `min(a, b)`.
    pub const MIN: u8 = 6;
    /// `max(a, b)`.
    pub const MAX: u8 = 7;
    /// `max(a − b, 0)`, `b` a constant.
    pub const SUB: u8 = 8;
}

/// A relation that bound sizes must satisfy, 16 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Guard {
    /// 0: `a = b`; 1: `a ≤ b`.
    pub relation: u32,
    /// Expression.
    pub a: u32,
    /// Expression.
    pub b: u32,
    /// Zero.
    pub reserved: u32,
}

/// A tensor, 64 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Value {
    /// [`crate::DType`] code.
    pub dtype: u8,
    /// 0: dense row-major. Other codes tag layouts that only certain ops accept (reserved).
    pub layout: u8,
    /// [`role`].
    pub role: u8,
    /// Axes, 0..=8.
    pub rank: u8,
    /// [`value_flag`] bits.
    pub flags: u16,
    /// [`view`].
    pub view: u8,
    /// Axis of a window or part.
    pub axis: u8,
    /// First of `rank` ids in the dims table.
    pub dims: u32,
    /// The value whose memory this one is or views: itself unless `view` is set. A view names a root, never
    /// another view.
    pub root: u32,
    /// Window or part: expression of the first element along `axis`; none otherwise.
    pub start: u32,
    /// Window: counter symbol whose value times `counter_stride` is added to `start`, or none.
    pub counter: u32,
    /// Window with a counter: expression, elements along `axis` for each trip; none otherwise.
    pub counter_stride: u32,
    /// Part: its number, from 0.
    pub part: u16,
    /// Part: how many parts the root has (≤ 64). The parts of a root are consecutive values.
    pub parts: u16,
    /// Constant, weight, or param with initial contents: the weight section; none otherwise.
    pub section: u32,
    /// Name, empty if it has none.
    pub name: Text,
    /// Zero.
    pub reserved: u32,
    /// First byte in that section; a multiple of 8.
    pub data_offset: u64,
    /// Bytes there: those of the tensor, whose dimensions are constants.
    pub data_bytes: u64,
}

/// Codes of [`Value::role`].
pub mod role {
    /// Computed and used within an entry (outputs too). Lives in a work arena.
    pub const INTERMEDIATE: u8 = 0;
    /// Given by the caller for each run. Lives in a work arena.
    pub const INPUT: u8 = 1;
    /// Unnamed immutable data of the program.
    pub const CONSTANT: u8 = 2;
    /// Named immutable data.
    pub const WEIGHT: u8 = 3;
    /// Named data that the caller may set at any time; lives in a param arena.
    pub const PARAM: u8 = 4;
    /// Kept from run to run and written by entries; zeros at first. Lives in a state arena.
    pub const STATE: u8 = 5;
    /// Computed by a `prepare` entry from weights and params. Lives in a derived arena.
    pub const DERIVED: u8 = 6;
}

/// Bits of [`Value::flags`].
pub mod value_flag {
    /// Input: keeps its contents during the run (its slot is never reused).
    pub const KEEP: u16 = 1;
}

/// Codes of [`Value::view`].
pub mod view {
    /// Own memory.
    pub const NONE: u8 = 0;
    /// The root's elements in the same order under other dimensions.
    pub const RESHAPE: u8 = 1;
    /// A run of the root along `axis`.
    pub const WINDOW: u8 = 2;
    /// Part `part` of `parts` of the root along `axis`; the parts tile the root. Written piece by piece.
    pub const PART: u8 = 3;
}

/// One distinct combination of op and element types, 32 bytes. Its index is the index in kernel tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Signature {
    /// Op code.
    pub op: u16,
    /// Version of the op's semantics.
    pub version: u16,
    /// Inputs.
    pub inputs: u8,
    /// Outputs.
    pub outputs: u8,
    /// Zero (reserved for layouts).
    pub variant: u16,
    /// Element type codes, inputs first, 0 for an absent input; the rest 0.
    pub dtypes: [u8; 24],
}

/// One step, 32 bytes: an op, or the edge of a region.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// [`step_kind`].
    pub kind: u8,
    /// Op: scratch class given in the plans.
    pub scratch: u8,
    /// Operands that are inputs (absent ones included).
    pub inputs: u8,
    /// Operands that are outputs.
    pub outputs: u8,
    /// Op: signature. `If`: its `Else`, or its `End`. `Else`, `Loop`: its `End`. `End`: its `If` or `Loop`.
    pub link: u32,
    /// First of `inputs + outputs` ids in the operands table.
    ///
    /// `If`: one input, the condition (bool, one element), and as outputs the results, which both arms write.
    /// `Loop`: input 0 the condition (bool, one element, a carried value) or none, input 1 the trip count
    /// (i32, one element, read once) or none, then the carried values before the trip; as outputs the same
    /// carried values after the trip, pair by pair in one slot. A pair may be one value twice: it is updated in
    /// the body through windows. Behind the loop the slot holds the values "before". `Else`, `End`: no operands.
    pub operands: u32,
    /// Op: first attribute byte, a multiple of 8.
    pub attrs: u32,
    /// Op: attribute bytes, at most 1,024.
    pub attr_bytes: u32,
    /// Op: byte `o` is 0, or 1 + the input whose slot output `o` takes over.
    pub in_place: [u8; 4],
    /// `Loop`: expression, the most trips. None otherwise.
    pub max_trips: u32,
    /// `Loop`: counter symbol, or none. None otherwise.
    pub counter: u32,
}

/// Codes of [`Step::kind`].
pub mod step_kind {
    /// An op.
    pub const OP: u8 = 0;
    /// Start of a conditional region.
    pub const IF: u8 = 1;
    /// Start of its second arm.
    pub const ELSE: u8 = 2;
    /// Start of a counted region.
    pub const LOOP: u8 = 3;
    /// End of a region.
    pub const END: u8 = 4;
}

/// A callable run of steps, 40 bytes. Entries follow one another and cover all steps.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Entry {
    /// Name: `main`, `prepare`, …
    pub name: Text,
    /// [`entry_kind`].
    pub kind: u32,
    /// First step.
    pub first_step: u32,
    /// Steps.
    pub steps: u32,
    /// First of `inputs + outputs` ids in the operands table.
    pub operands: u32,
    /// Input values.
    pub inputs: u32,
    /// Output values.
    pub outputs: u32,
    /// Zero.
    pub reserved: [u32; 2],
}

/// Codes of [`Entry::kind`].
pub mod entry_kind {
    /// Called by the user.
    pub const CALL: u32 = 0;
    /// Run by the session whenever weights or params changed, before any other entry; writes derived values.
    pub const PREPARE: u32 = 1;
}

/// Bytes of weights outside the record prefix, 72 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct WeightSection {
    /// Name; for external sections, how the application finds it.
    pub name: Text,
    /// Bit 0: external (not in this file; reserved, refused in 0.1).
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Offset in the file, a multiple of [`WEIGHT_ALIGN`], at or after the prefix.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    pub digest: [u8; 32],
    /// Zero.
    pub reserved2: u64,
}

/// One memory plan, 80 bytes. Ranges index the plan tables.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Plan {
    /// Name.
    pub name: Text,
    /// [`profile`].
    pub profile: u32,
    /// Alignment of every slot offset in bytes, a power of two of at least 8.
    pub align: u32,
    /// First and count in the bounds table; one for each symbol.
    pub bounds: [u32; 2],
    /// First and count in the arenas table.
    pub arenas: [u32; 2],
    /// First and count in the slots table.
    pub slots: [u32; 2],
    /// First and count in the waves table.
    pub waves: [u32; 2],
    /// First and count in the slot-lists table that belong to this plan.
    pub lists: [u32; 2],
    /// First in the value-slots table; one for each value.
    pub value_slots: u32,
    /// First in the scratch-slots table; one for each step.
    pub scratch_slots: u32,
    /// Largest sum of live bytes (aligned, scratch included) over the waves: no plan can be smaller.
    pub lower_bound: u64,
    /// Zero.
    pub reserved: u64,
}

/// Codes of [`Plan::profile`].
pub mod profile {
    /// Waves of independent steps for devices that run them side by side.
    pub const DESKTOP: u32 = 0;
    /// As desktop, with limits of phones.
    pub const MOBILE: u32 = 1;
    /// One step a wave: the least memory.
    pub const MCU: u32 = 2;
}

/// Bounds of one symbol in one plan, 16 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Bound {
    /// Least value, at least the symbol's own.
    pub low: u64,
    /// Greatest value, at most the symbol's own.
    pub high: u64,
}

/// One arena of a plan, 32 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Arena {
    /// Name, for firmware with several kinds of memory.
    pub name: Text,
    /// [`space`].
    pub space: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes, a multiple of 8.
    pub bytes: u64,
    /// Alignment that its start needs, a power of two.
    pub align: u64,
}

/// Codes of [`Arena::space`].
pub mod space {
    /// Inputs, intermediates, outputs, scratch.
    pub const WORK: u32 = 0;
    /// State.
    pub const STATE: u32 = 1;
    /// Params.
    pub const PARAM: u32 = 2;
    /// Derived values.
    pub const DERIVED: u32 = 3;
}

/// A range of an arena, 24 bytes. Slots of state, param and derived arenas ascend and do not overlap.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Slot {
    /// Arena of the plan, from 0.
    pub arena: u32,
    /// Zero.
    pub reserved: u32,
    /// First byte, a multiple of the plan's alignment.
    pub offset: u64,
    /// Bytes, a multiple of 4.
    pub bytes: u64,
}

/// A run of consecutive steps of one entry without hazards among them, 24 bytes. The edge of a region is a
/// wave of its own.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Wave {
    /// First step.
    pub first_step: u32,
    /// Steps, at least 1.
    pub steps: u32,
    /// Slots that become live at its start: first and count in the slot lists of the plan. The lists of a plan
    /// follow one another without gaps, wave after wave, definitions before kills; an empty one stands at its place.
    pub defs: [u32; 2],
    /// Slots that die at its end.
    pub kills: [u32; 2],
}

/// A block-quantised element format (reserved), 32 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockFormat {
    /// Name.
    pub name: Text,
    /// Elements of a block along the last axis.
    pub elements: u32,
    /// Bytes of a block.
    pub bytes: u32,
    /// Code of its meaning.
    pub meaning: u32,
    /// Code of the order of bytes in the file.
    pub layout: u32,
    /// Zero.
    pub reserved: u64,
}

/// How to make a tensor from a file, or read one for a person, 16 bytes: JSON text (see `docs/format.md`).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Hint {
    /// Value (an input or output).
    pub value: u32,
    /// Zero.
    pub reserved: u32,
    /// Range of the hint text section.
    pub text: Text,
}

/// Inputs and expected outputs of an entry, kept in a weight section, 24 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct SelfTest {
    /// Entry.
    pub entry: u32,
    /// Weight section that holds the vector: the value of every symbol as a `u64` (counters 0), then the bytes of
    /// the inputs and of the outputs in the entry's order, each at a multiple of 8.
    pub section: u32,
    /// First byte of the vector in it, a multiple of 8.
    pub offset: u64,
    /// How far floating-point outputs may differ, relative to the largest finite magnitude in the output, in units of
    /// 2^-24. Others are equal.
    pub tolerance: u32,
    /// Zero.
    pub reserved: u32,
}

/// The source name of a step, 16 bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct DebugName {
    /// Step.
    pub step: u32,
    /// Zero.
    pub reserved: u32,
    /// Name.
    pub name: Text,
}

/// A pair of texts, 16 bytes: licence, version, author …
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Metadata {
    /// Key.
    pub key: Text,
    /// Value.
    pub value: Text,
}
