//! Every kernel, by op and element types, for hosts and code generators.
//!
//! Firmware names the kernels that its blob uses and never refers to [`all`], so the linker drops the rest.

use crate::*;
use serinette_core::dtype::{DType, DTypeSet};
#[cfg(feature = "alloc")]
use serinette_core::op;
use serinette_core::op::OpDescriptor;
use serinette_core::schedule::{Kernel, record::Signature};
use serinette_core::{MAX_INPUTS, MAX_OUTPUTS};

/// One kernel and the signatures that it computes: those that the op accepts and whose first input and first output,
/// and one more input where that is named, are in the sets. The other operands follow from the op's description.
pub struct Registered {
    /// The op.
    pub op: &'static OpDescriptor,
    /// Path of the function in this crate, such as `conv::i8`.
    pub name: &'static str,
    /// Element types of the first input; `None` for ops without inputs.
    pub input: Option<DTypeSet>,
    /// A further input that decides, and its element types; of ops whose first input and output leave a choice.
    pub also: Option<(usize, DTypeSet)>,
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
        let second =
            self.also.is_none_or(|(i, set)| matches!(types.get(i), Some(Some(t)) if set.contains(*t)));
        first && second && stored && self.op.accepts(types, result_types)
    }
}

/// The kernel for a signature.
pub fn find(signature: &Signature) -> Option<&'static Registered> {
    all().find(|r| r.accepts(signature))
}

/// Sets of element types as the families name them.
pub(crate) mod sets {
    use super::{DType, DTypeSet};

    const fn one(t: DType) -> DTypeSet {
        DTypeSet::of(&[t])
    }

    pub(crate) const BYTES_1: DTypeSet = DTypeSet::of(&[DType::I8, DType::U8, DType::Bool]);
    pub(crate) const BYTES_2: DTypeSet = DTypeSet::of(&[DType::F16, DType::BF16, DType::I16, DType::U16]);
    pub(crate) const BYTES_4: DTypeSet = DTypeSet::of(&[DType::F32, DType::I32, DType::U32]);
    pub(crate) const BYTES_8: DTypeSet = DTypeSet::of(&[DType::F64, DType::I64, DType::U64, DType::C64]);
    pub(crate) const BYTES_16: DTypeSet = one(DType::C128);
    pub(crate) const F32: DTypeSet = one(DType::F32);
    pub(crate) const F16: DTypeSet = one(DType::F16);
    pub(crate) const BF16: DTypeSet = one(DType::BF16);
    pub(crate) const F64: DTypeSet = one(DType::F64);
    pub(crate) const I16: DTypeSet = one(DType::I16);
    pub(crate) const U8: DTypeSet = one(DType::U8);
    pub(crate) const U16: DTypeSet = one(DType::U16);
    pub(crate) const U32: DTypeSet = one(DType::U32);
    pub(crate) const U64: DTypeSet = one(DType::U64);
    pub(crate) const I8: DTypeSet = one(DType::I8);
    pub(crate) const I32: DTypeSet = one(DType::I32);
    pub(crate) const I64: DTypeSet = one(DType::I64);
    pub(crate) const BOOL: DTypeSet = one(DType::Bool);
    pub(crate) const ANY: DTypeSet = DTypeSet::ANY;
}

/// The entries of one family, in a static of its file.
macro_rules! kernels {
    ($module:ident: $($op:expr => $kernel:ident, $input:expr => $output:expr;)+) => {
        &[$($crate::registry::Registered {
            op: &$op,
            name: concat!(stringify!($module), "::", stringify!($kernel)),
            input: Some($input),
            also: None,
            output: $output,
            kernel: $kernel,
        }),+]
    };
}
pub(crate) use kernels;

/// Kernels of one op for many element types: a module named like the op, with a function named like each type and the
/// static `KERNELS`. The function is `$call::<T>(step, operands, $f)`.
macro_rules! typed {
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, numbers, $call:path, |$x:ident| $f:expr, $output:ident) => {
        $crate::registry::typed! { @one $(#[$doc])* $family::$module = $op, $call, |$x| $f, $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64,
            i8: i8 = I8, i16: i16 = I16, i32: i32 = I32, i64: i64 = I64, u8: u8 = U8, u16: u16 = U16, u32: u32 = U32,
            u64: u64 = U64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, signed, $call:path, |$x:ident| $f:expr, $output:ident) => {
        $crate::registry::typed! { @one $(#[$doc])* $family::$module = $op, $call, |$x| $f, $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64,
            i8: i8 = I8, i16: i16 = I16, i32: i32 = I32, i64: i64 = I64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, integers, $call:path, |$x:ident| $f:expr, $output:ident) => {
        $crate::registry::typed! { @one $(#[$doc])* $family::$module = $op, $call, |$x| $f, $output,
            [i8: i8 = I8, i16: i16 = I16, i32: i32 = I32, i64: i64 = I64, u8: u8 = U8, u16: u16 = U16, u32: u32 = U32,
            u64: u64 = U64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, floats, $call:path, |$x:ident| $f:expr, $output:ident) => {
        $crate::registry::typed! { @one $(#[$doc])* $family::$module = $op, $call, |$x| $f, $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64] }
    };
    (@one $(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, $call:path, |$x:ident| $f:expr, $output:ident,
        [$($kernel:ident: $t:ty = $set:ident),+]) => {
        $(#[$doc])*
        pub mod $module {
            #[allow(unused_imports)] // of types that this op does not take
            use super::*;
            $(
                #[doc = concat!("For ", stringify!($kernel), ".")]
                pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    $call(step, ops, |$x: $t| $f)
                }
            )+
            /// One for each element type.
            pub(crate) static KERNELS: &[$crate::registry::Registered] = &[$($crate::registry::Registered {
                op: &$op,
                name: concat!(stringify!($family), "::", stringify!($module), "::", stringify!($kernel)),
                input: Some($crate::registry::sets::$set),
                also: None,
                output: $crate::registry::typed!(@output $output $set),
                kernel: $kernel,
            }),+];
        }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, numbers, $call:path, $f:expr, $output:ident) => {
        $crate::registry::typed! { $(#[$doc])* $family::$module = $op, $call, $f, $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64, i8: i8 = I8, i16: i16 = I16,
            i32: i32 = I32, i64: i64 = I64, u8: u8 = U8, u16: u16 = U16, u32: u32 = U32, u64: u64 = U64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, integers, $call:path, $f:expr, $output:ident) => {
        $crate::registry::typed! { $(#[$doc])* $family::$module = $op, $call, $f, $output,
            [i8: i8 = I8, i16: i16 = I16, i32: i32 = I32, i64: i64 = I64, u8: u8 = U8, u16: u16 = U16, u32: u32 = U32, u64: u64 = U64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, floats, $call:path, $f:expr, $output:ident) => {
        $crate::registry::typed! { $(#[$doc])* $family::$module = $op, $call, $f, $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, $call:path, $f:expr, $output:ident,
        [$($kernel:ident: $t:ty = $set:ident),+]) => {
        $(#[$doc])*
        pub mod $module {
            #[allow(unused_imports)] // of types that this op does not take
            use super::*;
            $(
                #[doc = concat!("For ", stringify!($kernel), ".")]
                pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    $call(step, ops, |a: $t, b: $t| ($f)(a, b))
                }
            )+
            /// One for each element type.
            pub(crate) static KERNELS: &[$crate::registry::Registered] = &[$($crate::registry::Registered {
                op: &$op,
                name: concat!(stringify!($family), "::", stringify!($module), "::", stringify!($kernel)),
                input: Some($crate::registry::sets::$set),
                also: None,
                output: $crate::registry::typed!(@output $output $set),
                kernel: $kernel,
            }),+];
        }
    };
    (@output same $set:ident) => { $crate::registry::sets::$set };
    (@output $output:ident $set:ident) => { $crate::registry::sets::$output };
}
pub(crate) use typed;

/// Kernels of an op that moves elements, one for each size of an element: a module named like the op, with the functions
/// `bytes_1` to `bytes_16` and the static `KERNELS`. The function is `$call::<T>(step, operands)`. `$input` is the set of the
/// first input, `same` where it is that of the output.
macro_rules! sized {
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, $call:ident, $input:ident) => {
        $crate::registry::sized! { @each $(#[$doc])* $family::$module = $op, $call, $input,
            [bytes_1: u8 = BYTES_1, bytes_2: u16 = BYTES_2, bytes_4: u32 = BYTES_4, bytes_8: u64 = BYTES_8,
            bytes_16: [u64; 2] = BYTES_16] }
    };
    (@each $(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, $call:ident, $input:ident,
        [$($kernel:ident: $t:ty = $set:ident),+]) => {
        $(#[$doc])*
        pub mod $module {
            use super::*;
            $(
                #[doc = concat!("For elements of ", stringify!($kernel), ".")]
                pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    $call::<$t>(step, ops)
                }
            )+
            /// One for each size of an element.
            pub(crate) static KERNELS: &[$crate::registry::Registered] = &[$($crate::registry::Registered {
                op: &$op,
                name: concat!(stringify!($family), "::", stringify!($module), "::", stringify!($kernel)),
                input: Some($crate::registry::typed!(@output $input $set)),
                also: None,
                output: $crate::registry::sets::$set,
                kernel: $kernel,
            }),+];
        }
    };
}
pub(crate) use sized;

/// The table of a module that has a function for each element type.
macro_rules! kernel_set {
    ($family:ident, $module:ident, $op:expr, [$($kernel:ident $set:ident),+], $output:ident) => {
        &[$($crate::registry::Registered {
            op: &$op,
            name: concat!(stringify!($family), "::", stringify!($module), "::", stringify!($kernel)),
            input: Some($crate::registry::sets::$set),
            also: None,
            output: $crate::registry::typed!(@output $output $set),
            kernel: $kernel,
        }),+]
    };
}
pub(crate) use kernel_set;

/// Kernels of one op for many element types: a module named like the op, with a function named like each type and the
/// static `KERNELS`. The function is `$run::<T>(step, operands)`, or `$run::<T, Kind>` for `$run[Kind]`.
macro_rules! generic {
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, numbers, $run:ident $([$kind:ty])?, $output:ident) => {
        $crate::registry::generic! { @one $(#[$doc])* $family::$module = $op, $run [$($kind)?], $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64,
            i8: i8 = I8, i16: i16 = I16, i32: i32 = I32, i64: i64 = I64, u8: u8 = U8, u16: u16 = U16, u32: u32 = U32,
            u64: u64 = U64] }
    };
    ($(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, floats, $run:ident $([$kind:ty])?, $output:ident) => {
        $crate::registry::generic! { @one $(#[$doc])* $family::$module = $op, $run [$($kind)?], $output,
            [f32: f32 = F32, f16: $crate::number::F16 = F16, bf16: $crate::number::BF16 = BF16, f64: f64 = F64] }
    };
    (@one $(#[$doc:meta])* $family:ident :: $module:ident = $op:expr, $run:ident $kind:tt, $output:ident,
        [$($kernel:ident: $t:ty = $set:ident),+]) => {
        $(#[$doc])*
        pub mod $module {
            #[allow(unused_imports)] // of types that this op does not take
            use super::*;
            $(
                #[doc = concat!("For ", stringify!($kernel), ".")]
                pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    $crate::registry::generic!(@call step, ops, $run, $t, $kind)
                }
            )+
            /// One for each element type.
            pub(crate) static KERNELS: &[$crate::registry::Registered] =
                $crate::registry::kernel_set!($family, $module, $op, [$($kernel $set),+], $output);
        }
    };
    (@call $step:ident, $ops:ident, $run:ident, $t:ty, []) => { $run::<$t>($step, $ops) };
    (@call $step:ident, $ops:ident, $run:ident, $t:ty, [$kind:ty]) => { $run::<$t, $kind>($step, $ops) };
}
pub(crate) use generic;

/// Every kernel of this crate, family by family.
static FAMILIES: &[&[&[Registered]]] = &[
    &[matmul::KERNELS],
    &[conv::KERNELS],
    &[pool::KERNELS],
    binary::OPS,
    unary::OPS,
    softmax::OPS,
    &[movement::KERNELS],
    &[gather::KERNELS],
    cast::OPS,
    &[quantize::KERNELS],
    argmax::OPS,
    compare::OPS,
    &[size::KERNELS],
    pad::OPS,
    tile::OPS,
    reverse::OPS,
    blocks::OPS,
    reduce::OPS,
    order::OPS,
    cumulative::OPS,
    norm::OPS,
    lp_norm::OPS,
    lrn::OPS,
    gather_nd::OPS,
    scatter::OPS,
    generate::OPS,
    select::OPS,
    resize::OPS,
    sample::OPS,
    col2im::OPS,
    region::OPS,
    philox::OPS,
    &[conv3d::KERNELS],
    &[conv_transpose::KERNELS],
    &[integer::KERNELS],
    &[pools::KERNELS],
    &[recurrent::KERNELS],
    &[attention::KERNELS],
    &[rotary::KERNELS],
    &[bitcast::KERNELS],
];

/// Every kernel of this crate.
pub fn all() -> impl Iterator<Item = &'static Registered> {
    FAMILIES.iter().chain(unary::TABLES).flat_map(|family| family.iter()).flat_map(|op| op.iter())
}

/// The kernels of the ops with codes up to [`SMALL_CODES`], which fit into the flash of a microcontroller all at once.
static SMALL: &[&[&[Registered]]] = &[
    &[matmul::KERNELS, conv::KERNELS, pool::KERNELS, movement::KERNELS, gather::KERNELS],
    &[quantize::KERNELS, size::KERNELS, binary::add::KERNELS, binary::mul::KERNELS, unary::relu::KERNELS],
    &[softmax::softmax::KERNELS, argmax::argmax::KERNELS, compare::less::KERNELS, compare::greater::KERNELS],
    &[compare::equal::KERNELS, compare::TRUTHS],
    cast::OPS,
];

/// Greatest code of an op that [`find_small`] knows: the ops that classifiers are made of.
pub const SMALL_CODES: u16 = 23;

/// As [`find`], among the kernels that a microcontroller holds all at once. For running the op suite on one; firmware names
/// the kernels of its blob.
pub fn find_small(signature: &Signature) -> Option<&'static Registered> {
    let mut all = SMALL.iter().flat_map(|family| family.iter()).flat_map(|op| op.iter());
    all.find(|r| r.accepts(signature))
}

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
