//! Element-wise functions of one tensor.
//!
//! f16 and bf16 are computed in f32 and rounded once. Unless the op says otherwise: NaN stays NaN, what is outside of a
//! function's domain gives NaN, and the sign of zero is that of the mathematical limit.

use super::binary::{INTEGERS, NUMBERS};
use super::matmul::{reserved, set_output};
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};
use crate::dtype::{DType, DTypeSet};

/// Floating-point types.
pub const FLOATS: DTypeSet = DTypeSet::of(&[DType::F32, DType::F16, DType::BF16, DType::F64]);
const BOOL: DTypeSet = DTypeSet::of(&[DType::Bool]);
/// Types with a sign.
const SIGNED: DTypeSet = DTypeSet::of(&[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
]);

/// The numbers of a function with parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Parameters {
    /// First parameter.
    pub alpha: f32,
    /// Second parameter; 0 where the function has one.
    pub beta: f32,
}

impl Attributes for Parameters {
    fn check(&self) -> Result<(), AttrError> {
        for (field, v) in [("alpha", self.alpha), ("beta", self.beta)] {
            if v.is_nan() {
                return Err(AttrError::new(field, 0, u64::from(v.to_bits())));
            }
        }
        Ok(())
    }
}

/// Attributes of `IsInf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Infinities {
    /// Bit 0: positive infinity counts. Bit 1: negative infinity counts.
    pub signs: u32,
    /// Zero.
    pub reserved: u32,
}

impl Attributes for Infinities {
    fn check(&self) -> Result<(), AttrError> {
        if self.signs > 3 {
            return Err(AttrError::new("signs", 3, u64::from(self.signs)));
        }
        reserved(self.reserved)
    }
}

/// A function of floats, giving the same type.
const FLOAT: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    shape_rule: |_, args, out| set_output(out, args.input(0)?),
    in_place: &[(0, 0)],
    ..OpDescriptor::BASE
};

const SIGNED_NUMBER: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', SIGNED)],
    outputs: &[Operand::data("y", 'T', SIGNED)],
    ..FLOAT
};

const NUMBER: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', NUMBERS)],
    outputs: &[Operand::data("y", 'T', NUMBERS)],
    ..FLOAT
};

const PARAMETRIC: OpDescriptor = OpDescriptor {
    attr_size: core::mem::size_of::<Parameters>(),
    check_attrs: |b| attributes::<Parameters>(b).map(|_| ()),
    ..FLOAT
};

const TEST: OpDescriptor = OpDescriptor { outputs: &[Operand::data("y", '-', BOOL)], in_place: &[], ..FLOAT };

macro_rules! ops {
    ($($(#[$doc:meta])+ $id:ident = $code:literal $name:literal of $base:ident;)+) => {
        $($(#[$doc])+
        pub static $id: OpDescriptor = OpDescriptor {
            code: $code,
            name: $name,
            path: concat!("unary::", stringify!($id)),
            ..$base
        };)+
    };
}

ops! {
    /// `y = x > 0 ? x : 0`; NaN stays NaN, −0 becomes 0.
    RELU = 9 "Relu" of SIGNED_NUMBER;
    /// `y = 1 / (1 + e^−x)`: 0 and 1 at the infinities, without overflow in between.
    SIGMOID = 24 "Sigmoid" of FLOAT;
    /// `y = −x`. Integers wrap.
    NEG = 25 "Neg" of SIGNED_NUMBER;
    /// The size of `x`. The least integer wraps to itself.
    ABS = 26 "Abs" of NUMBER;
    /// −1, 0 or 1; 0 of either zero, NaN of NaN.
    SIGN = 27 "Sign" of NUMBER;
    /// The least whole number that is not below `x`.
    CEIL = 28 "Ceil" of FLOAT;
    /// The greatest whole number that is not above `x`.
    FLOOR = 29 "Floor" of FLOAT;
    /// The nearest whole number, of two the even one.
    ROUND = 30 "Round" of FLOAT;
    /// `√x`, rounded right; −0 stays.
    SQRT = 31 "Sqrt" of FLOAT;
    /// `1 / x`.
    RECIPROCAL = 32 "Reciprocal" of FLOAT;
    /// `e^x`.
    EXP = 33 "Exp" of FLOAT;
    /// The natural logarithm.
    LOG = 34 "Log" of FLOAT;
    /// The sine of radians.
    SIN = 35 "Sin" of FLOAT;
    /// The cosine of radians.
    COS = 36 "Cos" of FLOAT;
    /// The tangent of radians.
    TAN = 37 "Tan" of FLOAT;
    /// The inverse sine.
    ASIN = 38 "Asin" of FLOAT;
    /// The inverse cosine.
    ACOS = 39 "Acos" of FLOAT;
    /// The inverse tangent.
    ATAN = 40 "Atan" of FLOAT;
    /// The hyperbolic sine.
    SINH = 41 "Sinh" of FLOAT;
    /// The hyperbolic cosine.
    COSH = 42 "Cosh" of FLOAT;
    /// The hyperbolic tangent.
    TANH = 43 "Tanh" of FLOAT;
    /// The inverse hyperbolic sine.
    ASINH = 44 "Asinh" of FLOAT;
    /// The inverse hyperbolic cosine.
    ACOSH = 45 "Acosh" of FLOAT;
    /// The inverse hyperbolic tangent.
    ATANH = 46 "Atanh" of FLOAT;
    /// The error function `2/√π · ∫₀ˣ e^−t² dt`.
    ERF = 47 "Erf" of FLOAT;
    /// `ln(1 + e^x)`, without overflow.
    SOFTPLUS = 48 "Softplus" of FLOAT;
    /// `x / (1 + |x|)`; NaN of an infinity.
    SOFTSIGN = 49 "Softsign" of FLOAT;
    /// `x · min(max(x / 6 + 1/2, 0), 1)`; NaN of −∞.
    HARD_SWISH = 50 "HardSwish" of FLOAT;
    /// `x · tanh(ln(1 + e^x))`; NaN of −∞.
    MISH = 51 "Mish" of FLOAT;
    /// `x/2 · (1 + erf(x/√2))`; NaN of −∞.
    GELU = 52 "Gelu" of FLOAT;
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))`; NaN of −∞.
    GELU_TANH = 53 "GeluTanh" of FLOAT;
    /// `x / (1 + e^(−α·x))`; NaN where that is ∞/∞.
    SWISH = 54 "Swish" of PARAMETRIC;
    /// `x < 0 ? α·(e^x − 1) : x`.
    ELU = 55 "Elu" of PARAMETRIC;
    /// `β · (x < 0 ? α·(e^x − 1) : x)`.
    SELU = 56 "Selu" of PARAMETRIC;
    /// `max(x, 0) + min(α·(e^(x/α) − 1), 0)`.
    CELU = 57 "Celu" of PARAMETRIC;
    /// `x < 0 ? α·x : x`.
    LEAKY_RELU = 58 "LeakyRelu" of PARAMETRIC;
    /// `min(max(α·x + β, 0), 1)`.
    HARD_SIGMOID = 59 "HardSigmoid" of PARAMETRIC;
    /// `x > α ? x : 0`; NaN gives 0.
    THRESHOLDED_RELU = 60 "ThresholdedRelu" of PARAMETRIC;
    /// `x < −α ? x + β : x > α ? x − β : 0`; NaN gives 0.
    SHRINK = 61 "Shrink" of PARAMETRIC;
    /// `min(max(x, α), β)`; NaN stays NaN, and β wins where it is below α.
    CLIP = 66 "Clip" of PARAMETRIC;
    /// Whether `x` is NaN.
    IS_NAN = 62 "IsNaN" of TEST;
}

/// Whether `x` is an infinity of the signs that count.
pub static IS_INF: OpDescriptor = OpDescriptor {
    code: 63,
    name: "IsInf",
    path: "unary::IS_INF",
    attr_size: core::mem::size_of::<Infinities>(),
    check_attrs: |b| attributes::<Infinities>(b).map(|_| ()),
    ..TEST
};

/// Whether `x` is false.
pub static NOT: OpDescriptor = OpDescriptor {
    code: 64,
    name: "Not",
    path: "unary::NOT",
    inputs: &[Operand::data("x", 'T', BOOL)],
    outputs: &[Operand::data("y", 'T', BOOL)],
    ..FLOAT
};

/// Every bit the other way.
pub static BIT_NOT: OpDescriptor = OpDescriptor {
    code: 65,
    name: "BitNot",
    path: "unary::BIT_NOT",
    inputs: &[Operand::data("x", 'T', INTEGERS)],
    outputs: &[Operand::data("y", 'T', INTEGERS)],
    ..FLOAT
};

/// The function of [`RELU`].
pub fn relu(x: f32) -> f32 {
    if x > 0.0 || x.is_nan() { x } else { 0.0 }
}
