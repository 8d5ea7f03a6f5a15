//! Element types and their codes in the blob.

use core::fmt;

/// The type of one tensor element. The discriminant is the code in the blob and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary32.
    F32 = 1,
    /// IEEE 754 binary16: storage only, arithmetic is done in f32 and rounded once.
    F16 = 2,
    /// bfloat16: storage only.
    BF16 = 3,
    /// IEEE 754 binary64.
    F64 = 4,
    /// Signed 8-bit integer.
    I8 = 5,
    /// Signed 16-bit integer.
    I16 = 6,
    /// Signed 32-bit integer.
    I32 = 7,
    /// Signed 64-bit integer.
    I64 = 8,
    /// Unsigned 8-bit integer.
    U8 = 9,
    /// Unsigned 16-bit integer.
    U16 = 10,
    /// Unsigned 32-bit integer.
    U32 = 11,
    /// Unsigned 64-bit integer.
    U64 = 12,
    /// One byte: zero is false, anything else is true; ops store 0 or 1.
    Bool = 13,
    /// Two f32: real, imaginary.
    C64 = 14,
    /// Two f64: real, imaginary.
    C128 = 15,
}

/// Names of codes that are reserved: a reader refuses them by name instead of as "unknown".
const RESERVED: &[(u8, &str)] = &[
    (32, "i4"),
    (33, "u4"),
    (34, "i2"),
    (35, "u2"),
    (40, "f8e4m3fn"),
    (41, "f8e5m2"),
    (42, "f8e4m3fnuz"),
    (43, "f8e5m2fnuz"),
    (44, "f6e2m3"),
    (45, "f6e3m2"),
    (46, "f4e2m1"),
    (47, "e8m0"),
    (63, "string"),
];

/// First code of the block-quantised formats: code `BLOCK_BASE + i` is record `i` of the block format section.
pub const BLOCK_BASE: u8 = 64;

impl DType {
    /// Every element type, in the order of the codes.
    pub const ALL: [DType; 15] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
        DType::C64,
        DType::C128,
    ];

    /// The element type of a code in the blob, if this version runs it.
    pub fn from_code(code: u8) -> Option<DType> {
        code.checked_sub(1).and_then(|i| Self::ALL.get(usize::from(i)).copied())
    }

    /// The name of a reserved code (sub-byte and 8-bit floats, strings), for error messages.
    pub fn reserved_name(code: u8) -> Option<&'static str> {
        RESERVED.iter().find(|(c, _)| *c == code).map(|(_, n)| *n)
    }

    /// The code in the blob.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Lower-case name, as printed and as written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::Bool => "bool",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of element types, for the signatures of the op table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// The set of the listed types.
    pub const fn of(types: &[DType]) -> DTypeSet {
        let (mut bits, mut i) = (0, 0);
        while i < types.len() {
            bits |= 1 << types[i].code();
            i += 1;
        }
        DTypeSet(bits)
    }

    /// Every element type that this version runs.
    pub const ANY: DTypeSet = DTypeSet::of(&DType::ALL);

    /// Whether `t` is in the set.
    pub const fn contains(self, t: DType) -> bool {
        self.0 & (1 << t.code()) != 0
    }

    /// The members in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |t| self.contains(*t))
    }
}
