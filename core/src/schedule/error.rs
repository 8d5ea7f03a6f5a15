//! Why a blob is refused or a run cannot go on.

use super::record::SectionId;
use crate::shape::ShapeError;
use core::fmt;

/// A refusal: the rule that was broken, the record that broke it, the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The rule.
    pub reason: Reason,
    /// The table of the offending record; `None` for the header and the section table.
    pub section: Option<SectionId>,
    /// The record's index in that table.
    pub index: u32,
    /// What the rule wants (a bound, a count, an id).
    pub expected: u64,
    /// What was found.
    pub found: u64,
    /// Of [`Reason::Shape`] the dimension, of [`Reason::Attribute`] the field; empty for other rules.
    pub what: &'static str,
}

impl Error {
    /// An error about record `index` of `section`.
    pub const fn at(reason: Reason, section: SectionId, index: u32, expected: u64, found: u64) -> Error {
        Error { reason, section: Some(section), index, expected, found, what: "" }
    }

    /// An error about the header or the section table.
    pub const fn header(reason: Reason, index: u32, expected: u64, found: u64) -> Error {
        Error { reason, section: None, index, expected, found, what: "" }
    }

    /// A shape rule that failed at a step.
    pub const fn shape(step: u32, e: ShapeError) -> Error {
        Error { what: e.what, ..Error::at(Reason::Shape, SectionId::Steps, step, e.expected, e.found) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.section {
            Some(s) => write!(f, "{:?}[{}]: ", s, self.index)?,
            None => write!(f, "header[{}]: ", self.index)?,
        }
        match (self.reason, self.what) {
            (Reason::Shape, what) if !what.is_empty() => write!(f, "shape: {what}")?,
            (Reason::Attribute, what) if !what.is_empty() => write!(f, "attribute: {what}")?,
            (reason, _) => write!(f, "{reason}")?,
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

impl core::error::Error for Error {}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal;)+) => {
        /// The rules of the format. [`code`](Reason::code) is stable: it appears in JSON and in the C interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name = $code,)+
        }

        impl Reason {
            /// Stable number of the rule.
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// Every rule.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),+];
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Reason::$name => f.write_str($text),)+
                }
            }
        }
    };
}

reasons! {
    /// The file is shorter than what it says or than a header.
    Truncated = 1, "the file is too short";
    /// Not a schedule blob.
    Magic = 2, "not a schedule blob";
    /// A format version that this reader does not know.
    Version = 3, "format version (major × 65536 + minor) not readable";
    /// A feature bit that this reader does not know.
    Feature = 4, "required feature not known";
    /// The records are damaged.
    Crc = 5, "checksum of the records";
    /// The bytes do not start at a multiple of 8 in memory.
    Misaligned = 6, "address not a multiple of 8";
    /// A critical section that this reader does not know.
    UnknownSection = 7, "unknown critical section";
    /// Two sections with one id.
    DuplicateSection = 8, "section given twice";
    /// A section that lies outside the prefix, overlaps another or is not in ascending order.
    SectionRange = 9, "section out of place";
    /// A record length that this reader does not know.
    Stride = 10, "record length";
    /// A byte that must be zero is not: reserved fields, padding, unknown tails and flags.
    NotZero = 11, "a reserved byte or flag is not zero";
    /// An id beyond its table.
    Id = 12, "id out of its table";
    /// A code that this version does not know.
    Code = 13, "unknown code";
    /// A text outside the string section or not UTF-8.
    Text = 14, "text out of the string section or not UTF-8";
    /// An expression operand that does not come before it.
    ExprOrder = 15, "expression operand not before its use";
    /// Arithmetic on sizes does not fit 64 bits.
    Overflow = 16, "size does not fit";
    /// Division by zero in an expression, or a multiple of zero.
    ZeroDivisor = 17, "divisor must not be zero";
    /// Bounds of a symbol the wrong way round, or wider than the symbol's.
    SymbolBounds = 18, "bounds of a symbol";
    /// A reserved element type.
    DType = 19, "element type not supported";
    /// A role that cannot have this property.
    Role = 20, "not possible for a value of this role";
    /// A view whose root is itself a view or does not match.
    Root = 21, "root of a view";
    /// Parts that do not tile their root.
    Parts = 22, "parts do not tile their root";
    /// An op that this reader does not know.
    UnknownOp = 23, "op (code × 65536 + version) not known";
    /// Element types that the op does not accept.
    Signature = 24, "element types not accepted by the op";
    /// Operands whose element types are not those of the signature.
    OperandType = 25, "element type of an operand";
    /// A number of operands that the step cannot have.
    OperandCount = 26, "number of operands";
    /// A region edge without its partner, or nested wrongly.
    Region = 27, "region edges do not match";
    /// Regions nested too deeply.
    Depth = 28, "regions nested too deeply";
    /// Entries that do not cover the steps one after the other.
    EntryRange = 29, "entries do not cover the steps in order";
    /// An entry without a name, or with one that another has.
    EntryName = 30, "entry name missing or used twice";
    /// Weight data outside its section, or a section outside the file.
    WeightRange = 31, "weight data out of range";
    /// Alignment that is not a power of two, or an offset that is not a multiple of it.
    Alignment = 32, "alignment";
    /// An arena in the wrong memory space for a value.
    Space = 33, "memory space of a value's arena";
    /// A slot beyond its arena.
    SlotRange = 34, "slot out of its arena";
    /// A slot too small for its value or scratch.
    SlotSize = 35, "slot smaller than its contents";
    /// A value without a slot, or a constant with one.
    NoSlot = 36, "value without a slot";
    /// Waves that do not cover the steps in order, or cross the edge of an entry or region.
    WaveRange = 37, "waves do not cover the steps in order";
    /// A slot that becomes live while it is.
    DefinedTwice = 38, "slot defined while live";
    /// A slot that dies while it is not live, or in a region that did not define it.
    KilledDead = 39, "slot killed while not live here";
    /// Two live slots overlap.
    Overlap = 40, "live slots overlap";
    /// A read of memory that holds something else.
    Clobbered = 41, "value read after its memory was reused";
    /// A read of memory that nothing wrote.
    Unwritten = 42, "value read before it was written";
    /// A read in the wave that writes.
    ReadAfterWrite = 43, "read in the wave of the write";
    /// A write in the wave that reads.
    WriteAfterRead = 44, "write in the wave of a read";
    /// Two writes in one wave.
    WriteAfterWrite = 45, "two writes in one wave";
    /// A write to immutable memory.
    ReadOnly = 46, "write to a read-only value";
    /// A write inside a region to an outer value that the region does not list.
    NotListed = 47, "outer value written in a region that does not list it";
    /// In-place use that the op does not allow or that does not share a slot.
    InPlace = 48, "in-place use";
    /// Slots that are live when the arm or body that defined them ends.
    Leak = 49, "slot still live at the end";
    /// More live slots than the header says, or than the caller has room for.
    MaxLive = 50, "live slots exceed the room for them";
    /// Work over the caller's limits.
    Limit = 51, "work exceeds the limits";
    /// Derived values written outside the prepare entry or not at all, or a prepare entry that is not the only one.
    Derived = 52, "derived value not written by the one prepare entry";
    /// A symbol that is used outside its loop, or counts two.
    Counter = 53, "loop counter used outside its loop";
    /// A condition or trip count that is not a single element of its type.
    Condition = 54, "condition or trip count must be one element";
    /// Bounds, arenas, slots, waves or lists of a plan outside their table.
    PlanRange = 55, "plan refers outside its tables";
    /// A plan table entry that no plan owns, or owned by two.
    PlanOverlap = 56, "plan tables shared or not owned";
    /// Steps, waves or lists without end: more work than records.
    Bounded = 57, "verification would not be bounded";
    /// A feature that the format reserves but this version does not run.
    Reserved = 58, "reserved for a later version";
    /// A size outside the symbol's bounds.
    SizeBounds = 59, "size out of its bounds";
    /// A size that is not the multiple asked for.
    SizeMultiple = 60, "size is not a multiple";
    /// A guard that does not hold.
    Guard = 61, "relation between sizes does not hold";
    /// A window beyond its root.
    Window = 62, "view out of its root";
    /// A view whose rows are not contiguous, or whose bytes do not start at a word.
    ViewLayout = 63, "view is not contiguous or not word-aligned";
    /// A buffer given by the caller has the wrong size.
    BufferSize = 64, "buffer size";
    /// A kernel table shorter than the signatures.
    KernelTable = 65, "kernel table";
    /// An entry, plan or symbol number that does not exist.
    NotFound = 66, "no such entry, plan or symbol";
    /// Records contradict one another during a run.
    Corrupt = 67, "records contradict each other";
    /// A kernel failed.
    Kernel = 68, "kernel failed";
    /// Shapes do not fit the op of the step; [`Error::what`] names the dimension.
    Shape = 90, "shapes do not fit the op";
    /// Attributes of the step are not possible; [`Error::what`] names the field.
    Attribute = 91, "attributes are not possible";
}
