//! The op table: every op described once.
//!
//! A description gives the attributes, the signature (which element types go where), the shape rule, the cost,
//! the scratch need, which operands are indices, and where a result may overwrite an operand. Verifier,
//! compiler, host kernels, GPU lowering, documentation and tests read this one description.
//!
//! A family is a file here, and has a file of the same name in the host kernels, in the GPU lowering, in
//! `shaders/` and in the op suite. Semantics are frozen per (op, version).

use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, Shape, ShapeError};
use crate::{MAX_INPUTS, MAX_OUTPUTS};

pub mod argmax;
pub mod binary;
pub mod cast;
pub mod compare;
pub mod conv;
pub mod gather;
pub mod matmul;
pub mod movement;
pub mod pool;
pub mod quantize;
pub mod size;
pub mod softmax;
pub mod unary;

/// What an operand's contents mean to the verifier and to kernel writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Plain numbers.
    Data,
    /// Positions that depend on data: every kernel must use the shared index check
    /// (wrap once in `[−n, n)`, otherwise read zero or drop the write and set the fault word).
    Index,
    /// Lengths that depend on data, clamped by the kernel to the operand's size.
    Length,
    /// Counts that depend on data, clamped by the kernel to their bound.
    Count,
}

/// One operand of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Name in documentation and errors.
    pub name: &'static str,
    /// Element types allowed.
    pub dtypes: DTypeSet,
    /// Operands of one op with the same letter have the same element type; `'-'` ties nothing.
    pub tie: char,
    /// May be left out (inputs only).
    pub optional: bool,
    /// What the contents mean.
    pub meaning: Meaning,
    /// Whether a window with a pitch (rows with gaps between them) is accepted. No op of format 0.1 does.
    pub pitched: bool,
}

impl Operand {
    /// A required data operand.
    pub const fn data(name: &'static str, tie: char, dtypes: DTypeSet) -> Operand {
        Operand { name, dtypes, tie, optional: false, meaning: Meaning::Data, pitched: false }
    }
    /// The same, optional.
    pub const fn optional(self) -> Operand {
        Operand { optional: true, ..self }
    }
    /// The same, holding positions.
    pub const fn index(self) -> Operand {
        Operand { meaning: Meaning::Index, ..self }
    }
}

/// How much scratch memory a step was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScratchClass {
    /// None at all.
    None = 0,
    /// The little that the op cannot do without.
    Small = 1,
    /// What the fastest known algorithm wants.
    Fast = 2,
}

impl ScratchClass {
    /// The class of a code in the blob.
    pub const fn from_code(code: u8) -> Option<ScratchClass> {
        match code {
            0 => Some(ScratchClass::None),
            1 => Some(ScratchClass::Small),
            2 => Some(ScratchClass::Fast),
            _ => None,
        }
    }
}

/// Work of one step. All sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Multiply-adds (for ops without products: one per element and elementary operation).
    pub macs: u64,
    /// Bytes read and written, each operand counted once.
    pub bytes: u64,
}

impl Cost {
    /// Sum, saturating.
    pub fn plus(self, other: Cost) -> Cost {
        Cost { macs: self.macs.saturating_add(other.macs), bytes: self.bytes.saturating_add(other.bytes) }
    }
    /// This cost `n` times, saturating.
    pub fn times(self, n: u64) -> Cost {
        Cost { macs: self.macs.saturating_mul(n), bytes: self.bytes.saturating_mul(n) }
    }
}

/// Attributes that cannot be: which field, what was wanted, what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrError {
    /// The field.
    pub field: &'static str,
    /// Largest (or the only) value allowed.
    pub expected: u64,
    /// The value found.
    pub found: u64,
}

impl AttrError {
    /// `field` should be `expected` (or at most that) but is `found`.
    pub const fn new(field: &'static str, expected: u64, found: u64) -> AttrError {
        AttrError { field, expected, found }
    }
}

impl core::fmt::Display for AttrError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "attribute {}: expected {}, found {}", self.field, self.expected, self.found)
    }
}

impl core::error::Error for AttrError {}

impl From<AttrError> for ShapeError {
    fn from(e: AttrError) -> ShapeError {
        ShapeError::new(e.field, e.expected, e.found)
    }
}

/// A fixed-layout attribute record. Fields are little-endian and padding is explicit and zero.
pub trait Attributes: bytemuck::Pod {
    /// Checks everything that can be checked without shapes.
    fn check(&self) -> Result<(), AttrError>;
}

/// An op without attributes.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct NoAttributes {}

impl Attributes for NoAttributes {
    fn check(&self) -> Result<(), AttrError> {
        Ok(())
    }
}

/// Reads an attribute record from its bytes (8-aligned in the blob). Longer records of a later minor version
/// are accepted as long as the unknown tail is zero.
pub fn attributes<A: Attributes>(bytes: &[u8]) -> Result<A, AttrError> {
    let size = core::mem::size_of::<A>();
    let (head, tail) =
        bytes.split_at_checked(size).ok_or(AttrError::new("length", size as u64, bytes.len() as u64))?;
    if let Some(b) = tail.iter().find(|b| **b != 0) {
        return Err(AttrError::new("unknown tail", 0, u64::from(*b)));
    }
    let attrs: A = bytemuck::pod_read_unaligned(head);
    attrs.check()?;
    Ok(attrs)
}

/// What a shape rule is given: attributes and the dimensions of the operands. Absent inputs are `None`.
pub struct ShapeArgs<'a> {
    /// Attribute bytes.
    pub attrs: &'a [u8],
    /// Dimensions of the inputs.
    pub inputs: &'a [Option<Dims>],
}

impl ShapeArgs<'_> {
    /// Dimensions of input `i`.
    pub fn input(&self, i: usize) -> Result<Dims, ShapeError> {
        self.inputs.get(i).copied().flatten().ok_or(ShapeError::new("input present", i as u64 + 1, i as u64))
    }
    /// Dimensions of input `i`, if it is there.
    pub fn optional(&self, i: usize) -> Option<Dims> {
        self.inputs.get(i).copied().flatten()
    }
}

/// A shape rule. On entry `outputs` holds the declared dimensions where the caller has any (ops with
/// [`OpDescriptor::declared_output`] need them); on success it holds the true ones.
pub type ShapeRule = fn(&mut dyn DimAlgebra, &ShapeArgs<'_>, outputs: &mut [Dims]) -> Result<(), ShapeError>;

/// The operands of a step as numbers, for costs and scratch.
pub struct StepShapes<'a> {
    /// Attribute bytes.
    pub attrs: &'a [u8],
    /// Input shapes; absent inputs are `None`.
    pub inputs: &'a [Option<Shape>],
    /// Output shapes.
    pub outputs: &'a [Shape],
    /// Element types, inputs first, then outputs (the types of the signature).
    pub dtypes: &'a [DType],
}

impl StepShapes<'_> {
    /// Shape of input `i`, or a scalar where it is absent.
    pub fn input(&self, i: usize) -> Shape {
        self.inputs.get(i).copied().flatten().unwrap_or(Shape::SCALAR)
    }
    /// Shape of output `i`.
    pub fn output(&self, i: usize) -> Shape {
        self.outputs.get(i).copied().unwrap_or(Shape::SCALAR)
    }
    /// Bytes of all operands, each counted once.
    pub fn bytes(&self) -> u64 {
        let shapes = self.inputs.iter().map(|s| s.as_ref()).chain(self.outputs.iter().map(Some));
        shapes.zip(self.dtypes).fold(0, |sum: u64, (shape, t)| {
            let n = shape.map_or(0, |s| s.elements() as u64);
            sum.saturating_add(n.saturating_mul(t.size() as u64))
        })
    }
    /// The cost of an op that does `per_element` operations for each element of its first output.
    pub fn element_cost(&self, per_element: u64) -> Cost {
        Cost { macs: (self.output(0).elements() as u64).saturating_mul(per_element), bytes: self.bytes() }
    }
}

/// Everything about one version of one op.
pub struct OpDescriptor {
    /// Code in the blob; never reused.
    pub code: u16,
    /// Version of the semantics.
    pub version: u16,
    /// Name as printed.
    pub name: &'static str,
    /// Path of this description in the module [`crate::op`], for code generators.
    pub path: &'static str,
    /// Inputs in order. With [`variadic`](Self::variadic) the last one may repeat.
    pub inputs: &'static [Operand],
    /// Outputs in order.
    pub outputs: &'static [Operand],
    /// Whether the last input may be given any number of times from one up.
    pub variadic: bool,
    /// Whether the shape rule only checks the declared output dimensions instead of computing them.
    pub declared_output: bool,
    /// Bytes of the attribute record.
    pub attr_size: usize,
    /// Checks attribute bytes without shapes.
    pub check_attrs: fn(&[u8]) -> Result<(), AttrError>,
    /// Expression ids in the attributes, which the verifier checks against the program.
    pub attr_exprs: fn(&[u8], &mut dyn FnMut(u32)),
    /// The shape rule.
    pub shape_rule: ShapeRule,
    /// The cost.
    pub cost: fn(&StepShapes<'_>) -> Cost,
    /// Bytes of scratch for a class. Part of the op's version: a plan made today serves later kernels.
    pub scratch: fn(&StepShapes<'_>, ScratchClass) -> u64,
    /// Pairs (input, output) that may share one range: the kernel must be right when they are identical.
    pub in_place: &'static [(u8, u8)],
}

impl OpDescriptor {
    /// What most ops share; a description fills in the rest.
    const BASE: OpDescriptor = OpDescriptor {
        code: 0,
        version: 1,
        name: "",
        path: "",
        inputs: &[],
        outputs: &[],
        variadic: false,
        declared_output: false,
        attr_size: 0,
        check_attrs: |b| attributes::<NoAttributes>(b).map(|_| ()),
        attr_exprs: |_, _| (),
        shape_rule: |_, _, _| Err(ShapeError::new("shape rule", 1, 0)),
        cost: |s| s.element_cost(1),
        scratch: |_, _| 0,
        in_place: &[],
    };

    /// The description of input `i`, taking repetition into account.
    pub fn input(&self, i: usize) -> Option<&'static Operand> {
        if i >= MAX_INPUTS {
            return None;
        }
        self.inputs.get(i).or(if self.variadic { self.inputs.last() } else { None })
    }

    /// Fewest inputs in a step (absent optional inputs in between count).
    pub fn min_inputs(&self) -> usize {
        self.inputs.iter().rposition(|o| !o.optional).map_or(0, |i| i + 1)
    }

    /// Most inputs in a step.
    pub fn max_inputs(&self) -> usize {
        if self.variadic { MAX_INPUTS } else { self.inputs.len() }
    }

    /// Whether element types fit the signature. `None` stands for an absent optional input.
    pub fn accepts(&self, inputs: &[Option<DType>], outputs: &[DType]) -> bool {
        if inputs.len() < self.min_inputs()
            || inputs.len() > self.max_inputs()
            || outputs.len() != self.outputs.len()
            || outputs.len() > MAX_OUTPUTS
        {
            return false;
        }
        let mut tied: [Option<DType>; 26] = [None; 26];
        let mut fits = |o: &Operand, t: DType| {
            if !o.dtypes.contains(t) {
                return false;
            }
            match tied.get_mut((o.tie as usize).wrapping_sub('A' as usize)) {
                Some(slot) => *slot.get_or_insert(t) == t,
                None => true,
            }
        };
        let inputs_fit = inputs.iter().enumerate().all(|(i, t)| match (self.input(i), t) {
            (Some(o), Some(t)) => fits(o, *t),
            (Some(o), None) => o.optional,
            (None, _) => false,
        });
        inputs_fit && self.outputs.iter().zip(outputs).all(|(o, t)| fits(o, *t))
    }

    /// Whether input `i` and output `o` may be one range.
    pub fn allows_in_place(&self, i: usize, o: usize) -> bool {
        self.in_place.iter().any(|(a, b)| usize::from(*a) == i && usize::from(*b) == o)
    }
}

/// An element-wise function applied to a result before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Activation {
    /// The result as it is.
    #[default]
    None = 0,
    /// `x > 0 ? x : 0`, NaN stays NaN.
    Relu = 1,
}

impl Activation {
    /// The activation of a code in an attribute record.
    pub const fn from_code(code: u32) -> Result<Activation, AttrError> {
        match code {
            0 => Ok(Activation::None),
            1 => Ok(Activation::Relu),
            _ => Err(AttrError::new("activation", 1, code as u64)),
        }
    }

    /// Applies it.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Relu => unary::relu(x),
            Activation::None => x,
        }
    }
}

/// Every op of this version, in the order of the codes. A firmware verifier passes only those that its blob
/// uses; hosts pass this.
pub static ALL: &[&OpDescriptor] = &[
    &matmul::MATMUL,
    &matmul::QMATMUL,
    &conv::CONV2D,
    &conv::QCONV2D,
    &pool::MAX_POOL2D,
    &pool::AVERAGE_POOL2D,
    &binary::ADD,
    &binary::MUL,
    &unary::RELU,
    &softmax::SOFTMAX,
    &movement::COPY,
    &movement::TRANSPOSE,
    &movement::CONCAT,
    &movement::SLICE,
    &gather::GATHER,
    &cast::CAST,
    &quantize::QUANTIZE,
    &quantize::DEQUANTIZE,
    &argmax::ARGMAX,
    &compare::LESS,
    &compare::GREATER,
    &compare::EQUAL,
    &size::SIZE,
];

/// The description of (code, version) in a table. Where the table is [`ALL`] or begins like it, it is found at its
/// place at once.
pub fn find(table: &[&'static OpDescriptor], code: u16, version: u16) -> Option<&'static OpDescriptor> {
    let is = |d: &&'static OpDescriptor| d.code == code && d.version == version;
    let place = table.get(usize::from(code).wrapping_sub(1)).copied().filter(is);
    place.or_else(|| table.iter().copied().find(|d| is(d)))
}

/// First code for ops that an application brings itself; the verifier proves their ranges only.
pub const CUSTOM_BASE: u16 = 0xC000;
/// First code reserved for vendor delegates (neural accelerators).
pub const DELEGATE_BASE: u16 = 0xE000;
