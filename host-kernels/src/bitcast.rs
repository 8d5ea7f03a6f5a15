//! The bits of elements as another type: a copy.

use crate::movement::copy;
use crate::registry::{
    Registered, kernels,
    sets::{BYTES_1, BYTES_2, BYTES_4, BYTES_8},
};
use serinette_core::op;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { bitcast:
    op::bitcast::BIT_CAST_8 => bits_8, BYTES_1 => BYTES_1;
    op::bitcast::BIT_CAST_16 => bits_16, BYTES_2 => BYTES_2;
    op::bitcast::BIT_CAST_32 => bits_32, BYTES_4 => BYTES_4;
    op::bitcast::BIT_CAST_64 => bits_64, BYTES_8 => BYTES_8;
};

macro_rules! widths {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            copy(step, ops)
        }
    )+};
}

widths! {
    /// `BitCast8`.
    bits_8;
    /// `BitCast16`.
    bits_16;
    /// `BitCast32`.
    bits_32;
    /// `BitCast64`.
    bits_64;
}
