//! Every kernel, by op and element types, for hosts and code generators.
//!
//! Firmware names the kernels that its blob uses and never refers to [`ALL`], so the linker drops the rest.

use crate::*;
use serinette_core::dtype::{DType, DTypeSet};
use serinette_core::op::{self, OpDescriptor};
use serinette_core::schedule::{Kernel, record::Signature};
use serinette_core::{MAX_INPUTS, MAX_OUTPUTS};

/// One kernel and the signatures that it computes: those that the op accepts and whose first input and first
/// output are in the sets. The other operands follow from the op's description.
pub struct Registered {
    /// The op.
    pub op: &'static OpDescriptor,
    /// Path of the function in this crate, such as `conv::i8`.
    pub name: &'static str,
    /// Element types of the first input; `None` for ops without inputs.
    pub input: Option<DTypeSet>,
    /// Element types of the first output.
    pub output: DTypeSet,
    /// The function.
    pub kernel: Kernel,
}

impl Registered {
    /// Whether the kernel computes steps of this signature.
    pub fn accepts(&self, signature: &Signature) -> bool {
        if (self.op.code, self.op.version) != (signature.op, signature.version) || signature.variant != 0 {
            return false;
        }
        let (inputs, outputs) = (usize::from(signature.inputs), usize::from(signature.outputs));
        let Some((head, tail)) = signature.dtypes.split_at_checked(inputs) else { return false };
        let Some((results, rest)) = tail.split_at_checked(outputs) else { return false };
        if inputs > MAX_INPUTS || outputs > MAX_OUTPUTS || rest.iter().any(|b| *b != 0) {
            return false;
        }
        let (mut types, mut result_types) = ([None; MAX_INPUTS], [DType::F32; MAX_OUTPUTS]);
        for (t, code) in types.iter_mut().zip(head) {
            *t = DType::from_code(*code);
            if t.is_none() && *code != 0 {
                return false;
            }
        }
        for (t, code) in result_types.iter_mut().zip(results) {
            match DType::from_code(*code) {
                Some(known) => *t = known,
                None => return false,
            }
        }
        let (Some(types), Some(result_types)) = (types.get(..inputs), result_types.get(..outputs)) else {
            return false;
        };
        let first = match (self.input, types.first()) {
            (Some(set), Some(Some(t))) => set.contains(*t),
            (None, None) => true,
            _ => false,
        };
        let stored = result_types.first().is_some_and(|t| self.output.contains(*t));
        first && stored && self.op.accepts(types, result_types)
    }
}

/// The kernel for a signature.
pub fn find(signature: &Signature) -> Option<&'static Registered> {
    ALL.iter().find(|r| r.accepts(signature))
}

const fn one(t: DType) -> DTypeSet {
    DTypeSet::of(&[t])
}

const BYTES_1: DTypeSet = DTypeSet::of(&[DType::I8, DType::U8, DType::Bool]);
const BYTES_2: DTypeSet = DTypeSet::of(&[DType::F16, DType::BF16, DType::I16, DType::U16]);
const BYTES_4: DTypeSet = DTypeSet::of(&[DType::F32, DType::I32, DType::U32]);
const BYTES_8: DTypeSet = DTypeSet::of(&[DType::F64, DType::I64, DType::U64, DType::C64]);
const BYTES_16: DTypeSet = one(DType::C128);
const F32: DTypeSet = one(DType::F32);
const F16: DTypeSet = one(DType::F16);
const I8: DTypeSet = one(DType::I8);
const I32: DTypeSet = one(DType::I32);
const I64: DTypeSet = one(DType::I64);
const BOOL: DTypeSet = one(DType::Bool);

macro_rules! registry {
    ($($op:path: $module:ident :: $kernel:ident, $input:ident => $output:expr;)+) => {
        &[$(Registered {
            op: &$op,
            name: concat!(stringify!($module), "::", stringify!($kernel)),
            input: Some($input),
            output: $output,
            kernel: $module::$kernel,
        },)+
        Registered {
            op: &op::size::SIZE,
            name: "size::i32",
            input: None,
            output: I32,
            kernel: size::i32,
        }]
    };
}

const ANY: DTypeSet = DTypeSet::ANY;

/// Every kernel of this crate.
pub static ALL: &[Registered] = registry! {
    op::matmul::MATMUL: matmul::f32, F32 => F32;
    op::matmul::MATMUL: matmul::f16, F16 => F16;
    op::matmul::QMATMUL: matmul::i8, I8 => I8;
    op::conv::CONV2D: conv::f32, F32 => F32;
    op::conv::QCONV2D: conv::i8, I8 => I8;
    op::pool::MAX_POOL2D: pool::max_f32, F32 => F32;
    op::pool::MAX_POOL2D: pool::max_i8, I8 => I8;
    op::pool::AVERAGE_POOL2D: pool::average_f32, F32 => F32;
    op::pool::AVERAGE_POOL2D: pool::average_i8, I8 => I8;
    op::binary::ADD: binary::add_f32, F32 => F32;
    op::binary::ADD: binary::add_f16, F16 => F16;
    op::binary::ADD: binary::add_i32, I32 => I32;
    op::binary::MUL: binary::mul_f32, F32 => F32;
    op::binary::MUL: binary::mul_f16, F16 => F16;
    op::binary::MUL: binary::mul_i32, I32 => I32;
    op::unary::RELU: unary::relu_f32, F32 => F32;
    op::unary::RELU: unary::relu_f16, F16 => F16;
    op::softmax::SOFTMAX: softmax::f32, F32 => F32;
    op::movement::COPY: movement::copy, ANY => ANY;
    op::movement::TRANSPOSE: movement::transpose_1, BYTES_1 => BYTES_1;
    op::movement::TRANSPOSE: movement::transpose_2, BYTES_2 => BYTES_2;
    op::movement::TRANSPOSE: movement::transpose_4, BYTES_4 => BYTES_4;
    op::movement::TRANSPOSE: movement::transpose_8, BYTES_8 => BYTES_8;
    op::movement::TRANSPOSE: movement::transpose_16, BYTES_16 => BYTES_16;
    op::movement::CONCAT: movement::concat, ANY => ANY;
    op::movement::SLICE: movement::slice_1, BYTES_1 => BYTES_1;
    op::movement::SLICE: movement::slice_2, BYTES_2 => BYTES_2;
    op::movement::SLICE: movement::slice_4, BYTES_4 => BYTES_4;
    op::movement::SLICE: movement::slice_8, BYTES_8 => BYTES_8;
    op::movement::SLICE: movement::slice_16, BYTES_16 => BYTES_16;
    op::gather::GATHER: gather::bytes, ANY => ANY;
    op::cast::CAST: cast::f32_to_f32, F32 => F32;
    op::cast::CAST: cast::f32_to_f16, F32 => F16;
    op::cast::CAST: cast::f32_to_i8, F32 => I8;
    op::cast::CAST: cast::f32_to_i32, F32 => I32;
    op::cast::CAST: cast::f32_to_i64, F32 => I64;
    op::cast::CAST: cast::f32_to_bool, F32 => BOOL;
    op::cast::CAST: cast::f16_to_f32, F16 => F32;
    op::cast::CAST: cast::f16_to_f16, F16 => F16;
    op::cast::CAST: cast::f16_to_i8, F16 => I8;
    op::cast::CAST: cast::f16_to_i32, F16 => I32;
    op::cast::CAST: cast::f16_to_i64, F16 => I64;
    op::cast::CAST: cast::f16_to_bool, F16 => BOOL;
    op::cast::CAST: cast::i8_to_f32, I8 => F32;
    op::cast::CAST: cast::i8_to_f16, I8 => F16;
    op::cast::CAST: cast::i8_to_i8, I8 => I8;
    op::cast::CAST: cast::i8_to_i32, I8 => I32;
    op::cast::CAST: cast::i8_to_i64, I8 => I64;
    op::cast::CAST: cast::i8_to_bool, I8 => BOOL;
    op::cast::CAST: cast::i32_to_f32, I32 => F32;
    op::cast::CAST: cast::i32_to_f16, I32 => F16;
    op::cast::CAST: cast::i32_to_i8, I32 => I8;
    op::cast::CAST: cast::i32_to_i32, I32 => I32;
    op::cast::CAST: cast::i32_to_i64, I32 => I64;
    op::cast::CAST: cast::i32_to_bool, I32 => BOOL;
    op::cast::CAST: cast::i64_to_f32, I64 => F32;
    op::cast::CAST: cast::i64_to_f16, I64 => F16;
    op::cast::CAST: cast::i64_to_i8, I64 => I8;
    op::cast::CAST: cast::i64_to_i32, I64 => I32;
    op::cast::CAST: cast::i64_to_i64, I64 => I64;
    op::cast::CAST: cast::i64_to_bool, I64 => BOOL;
    op::cast::CAST: cast::bool_to_f32, BOOL => F32;
    op::cast::CAST: cast::bool_to_f16, BOOL => F16;
    op::cast::CAST: cast::bool_to_i8, BOOL => I8;
    op::cast::CAST: cast::bool_to_i32, BOOL => I32;
    op::cast::CAST: cast::bool_to_i64, BOOL => I64;
    op::cast::CAST: cast::bool_to_bool, BOOL => BOOL;
    op::quantize::QUANTIZE: quantize::f32_to_i8, F32 => I8;
    op::quantize::DEQUANTIZE: quantize::i8_to_f32, I8 => F32;
    op::quantize::DEQUANTIZE: quantize::i32_to_f32, I32 => F32;
    op::argmax::ARGMAX: argmax::f32, F32 => I32;
    op::argmax::ARGMAX: argmax::i8, I8 => I32;
    op::compare::LESS: compare::less_f32, F32 => BOOL;
    op::compare::LESS: compare::less_i32, I32 => BOOL;
    op::compare::GREATER: compare::greater_f32, F32 => BOOL;
    op::compare::GREATER: compare::greater_i32, I32 => BOOL;
    op::compare::EQUAL: compare::equal_f32, F32 => BOOL;
    op::compare::EQUAL: compare::equal_i32, I32 => BOOL;
};

/// Signatures without a kernel: their indices in the program, and the signatures.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKernels(pub alloc::vec::Vec<(u32, Signature)>);

#[cfg(feature = "alloc")]
impl core::fmt::Display for MissingKernels {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no host kernel for")?;
        for (i, (id, s)) in self.0.iter().enumerate() {
            let name = op::find(op::ALL, s.op, s.version).map_or("unknown op", |d| d.name);
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma} signature {id}: {name} (code {}, version {}) of types", s.op, s.version)?;
            let operands = usize::from(s.inputs) + usize::from(s.outputs);
            for code in s.dtypes.iter().take(operands) {
                match DType::from_code(*code) {
                    Some(t) => write!(f, " {t}")?,
                    None => write!(f, " {code}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(feature = "alloc")]
impl core::error::Error for MissingKernels {}

/// The kernel table of a program, as the executor takes it: entry `s` is the kernel of signature `s`.
#[cfg(feature = "alloc")]
pub fn table(
    program: &serinette_core::schedule::program::Program<'_>,
) -> Result<alloc::vec::Vec<Kernel>, MissingKernels> {
    let mut kernels = alloc::vec::Vec::with_capacity(program.signatures.len());
    let mut missing = alloc::vec::Vec::new();
    for (id, signature) in program.signatures.iter() {
        match find(signature) {
            Some(r) => kernels.push(r.kernel),
            None => missing.push((id, *signature)),
        }
    }
    if missing.is_empty() { Ok(kernels) } else { Err(MissingKernels(missing)) }
}
