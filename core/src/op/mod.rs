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
pub mod attention;
pub mod binary;
pub mod bitcast;
pub mod blocks;
pub mod cast;
pub mod col2im;
pub mod compare;
pub mod conv;
pub mod conv3d;
pub mod conv_transpose;
pub mod cumulative;
pub mod gather;
pub mod gather_nd;
pub mod generate;
pub mod integer;
pub mod lp_norm;
pub mod lrn;
pub mod matmul;
pub mod movement;
pub mod norm;
pub mod order;
pub mod pad;
pub mod philox;
pub mod pool;
pub mod pools;
pub mod quantize;
pub mod recurrent;
pub mod reduce;
pub mod region;
pub mod resize;
pub mod reverse;
pub mod rotary;
pub mod sample;
pub mod scatter;
pub mod select;
pub mod size;
pub mod softmax;
pub mod spatial;
pub mod tile;
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
    /// The same, holding lengths.
    pub const fn length(self) -> Operand {
        Operand { meaning: Meaning::Length, ..self }
    }
}

/// How much scratch memory a step was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScratchClass {
    /// None, but for what the op cannot do without.
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

/// Every op of this version, ascending by code. A firmware verifier passes only those that its blob
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
    // Element-wise: 24 to 129.
    &unary::SIGMOID,
    &unary::NEG,
    &unary::ABS,
    &unary::SIGN,
    &unary::CEIL,
    &unary::FLOOR,
    &unary::ROUND,
    &unary::SQRT,
    &unary::RECIPROCAL,
    &unary::EXP,
    &unary::LOG,
    &unary::SIN,
    &unary::COS,
    &unary::TAN,
    &unary::ASIN,
    &unary::ACOS,
    &unary::ATAN,
    &unary::SINH,
    &unary::COSH,
    &unary::TANH,
    &unary::ASINH,
    &unary::ACOSH,
    &unary::ATANH,
    &unary::ERF,
    &unary::SOFTPLUS,
    &unary::SOFTSIGN,
    &unary::HARD_SWISH,
    &unary::MISH,
    &unary::GELU,
    &unary::GELU_TANH,
    &unary::SWISH,
    &unary::ELU,
    &unary::SELU,
    &unary::CELU,
    &unary::LEAKY_RELU,
    &unary::HARD_SIGMOID,
    &unary::THRESHOLDED_RELU,
    &unary::SHRINK,
    &unary::IS_NAN,
    &unary::IS_INF,
    &unary::NOT,
    &unary::BIT_NOT,
    &unary::CLIP,
    &binary::SUB,
    &binary::DIV,
    &binary::POW,
    &binary::MOD,
    &binary::REMAINDER,
    &binary::MIN,
    &binary::MAX,
    &binary::PRELU,
    &binary::BIT_AND,
    &binary::BIT_OR,
    &binary::BIT_XOR,
    &binary::SHIFT_LEFT,
    &binary::SHIFT_RIGHT,
    &binary::SILU_MUL,
    &compare::LESS_OR_EQUAL,
    &compare::GREATER_OR_EQUAL,
    &compare::AND,
    &compare::OR,
    &compare::XOR,
    // Reductions, order, norms: 130 to 179.
    &reduce::SUM,
    &reduce::MEAN,
    &reduce::PROD,
    &reduce::MIN,
    &reduce::MAX,
    &reduce::SUM_SQUARE,
    &reduce::L1,
    &reduce::L2,
    &reduce::LOG_SUM,
    &reduce::LOG_SUM_EXP,
    &reduce::ALL,
    &reduce::ANY,
    &argmax::ARGMIN,
    &order::TOP_K,
    &order::SORT,
    &cumulative::CUM_SUM,
    &cumulative::CUM_PROD,
    &softmax::LOG_SOFTMAX,
    &softmax::HARDMAX,
    &norm::LAYER_NORM,
    &norm::RMS_NORM,
    &norm::INSTANCE_NORM,
    &norm::GROUP_NORM,
    &norm::BATCH_NORM,
    &lp_norm::L1_NORMALIZE,
    &lp_norm::L2_NORMALIZE,
    &lrn::LRN,
    // Movement, gather, resize, random: 180 to 239.
    &pad::PAD,
    &pad::PAD_REFLECT,
    &pad::PAD_EDGE,
    &pad::PAD_WRAP,
    &tile::TILE,
    &tile::REPEAT,
    &tile::EXPAND,
    &reverse::REVERSE,
    &reverse::REVERSE_SEQUENCE,
    &reverse::ROLL,
    &reverse::STRIDED_SLICE,
    &blocks::DEPTH_TO_SPACE,
    &blocks::DEPTH_TO_SPACE_CRD,
    &blocks::SPACE_TO_DEPTH,
    &gather_nd::GATHER_ELEMENTS,
    &gather_nd::GATHER_ND,
    &scatter::SCATTER_ELEMENTS,
    &scatter::SCATTER_ELEMENTS_ADD,
    &scatter::SCATTER_ELEMENTS_MUL,
    &scatter::SCATTER_ELEMENTS_MIN,
    &scatter::SCATTER_ELEMENTS_MAX,
    &scatter::SCATTER_ND,
    &scatter::SCATTER_ND_ADD,
    &scatter::SCATTER_ND_MUL,
    &scatter::SCATTER_ND_MIN,
    &scatter::SCATTER_ND_MAX,
    &generate::FILL,
    &generate::RANGE,
    &generate::EYE,
    &generate::ONE_HOT,
    &generate::TRIU,
    &generate::TRIL,
    &select::WHERE,
    &resize::RESIZE_NEAREST,
    &resize::RESIZE_LINEAR,
    &resize::RESIZE_CUBIC,
    &resize::RESIZE_LINEAR_ANTIALIAS,
    &resize::RESIZE_CUBIC_ANTIALIAS,
    &sample::GRID_SAMPLE,
    &sample::GRID_SAMPLE_NEAREST,
    &sample::GRID_SAMPLE_CUBIC,
    &sample::AFFINE_GRID,
    &col2im::COL2IM,
    &region::ROI_ALIGN,
    &region::ROI_ALIGN_MAX,
    &region::NON_MAX_SUPPRESSION,
    &region::MAX_UNPOOL,
    &philox::RANDOM_UNIFORM,
    &philox::RANDOM_NORMAL,
    &philox::BERNOULLI,
    &philox::MULTINOMIAL,
    // Windows, recurrence, attention: 240 to 299.
    &conv3d::CONV3D,
    &conv_transpose::CONV_TRANSPOSE,
    &integer::CONV_INTEGER,
    &integer::MATMUL_INTEGER,
    &integer::QLINEAR_CONV,
    &integer::QLINEAR_MATMUL,
    &pools::MAX_POOL,
    &pools::MAX_POOL_INDICES,
    &pools::AVERAGE_POOL,
    &pools::LP_POOL,
    &recurrent::RNN,
    &recurrent::GRU,
    &recurrent::LSTM,
    &attention::ATTENTION,
    &rotary::ROTARY_EMBEDDING,
    // Bits: from 300.
    &bitcast::BIT_CAST_8,
    &bitcast::BIT_CAST_16,
    &bitcast::BIT_CAST_32,
    &bitcast::BIT_CAST_64,
];

/// The description of (code, version) in a table that ascends by them, as [`ALL`] does.
pub fn find(table: &[&'static OpDescriptor], code: u16, version: u16) -> Option<&'static OpDescriptor> {
    let at = table.binary_search_by_key(&(code, version), |d| (d.code, d.version)).ok()?;
    table.get(at).copied()
}

/// First code for ops that an application brings itself; the verifier proves their ranges only.
pub const CUSTOM_BASE: u16 = 0xC000;
/// First code reserved for vendor delegates (neural accelerators).
pub const DELEGATE_BASE: u16 = 0xE000;

#[cfg(test)]
mod tests {
    use super::{ALL, find};

    #[test]
    fn every_op_is_found_by_its_code() {
        assert!(ALL.windows(2).all(|w| (w[0].code, w[0].version) < (w[1].code, w[1].version)));
        for op in ALL {
            assert!(find(ALL, op.code, op.version).is_some_and(|f| core::ptr::eq(f, *op)), "{}", op.name);
            assert!(find(ALL, op.code, op.version + 1).is_none_or(|f| f.code == op.code));
        }
        assert!(find(ALL, 0, 1).is_none() && find(&[], 1, 1).is_none());
    }
}
