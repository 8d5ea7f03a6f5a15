//! The kernel library: the rules by which steps become dispatches of the kernels in `shaders/`.
//!
//! A family of ops is a file here, with the name of its file in the op table. A family looks at element types,
//! shapes and device limits, picks a kernel, and fills the kernel's parameter struct, which is generated from the
//! shader, so that no order of words is written down twice.

mod argmax;
mod binary;
mod cast;
mod compare;
mod conv;
mod gate;
mod gather;
mod launch;
mod layout;
mod matmul;
mod movement;
mod pool;
mod quantize;
mod size;
mod softmax;
#[cfg(test)]
mod tests;
mod unary;

use launch::Launch;
use serinette_core::op::{self, OpDescriptor};
use serinette_dispatch::{DeviceCaps, Dispatch, Gate, KernelLibrary, KernelSource, LowerError, LowerStep};

/// What the build script made of the shader templates.
mod generated {
    // Words become instructions at compile time; indices are below the length that each static declares.
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// The kernels of every op of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Library;

/// Lowers the steps of one op.
type Lower = fn(&LowerStep<'_>, &mut Launch<'_>) -> Result<(), LowerError>;

/// Which family lowers which op, besides the families with tables of their own.
static TABLE: &[(&OpDescriptor, Lower)] = &[
    (&op::matmul::MATMUL, matmul::lower),
    (&op::matmul::QMATMUL, matmul::lower_quantized),
    (&op::conv::CONV2D, conv::lower),
    (&op::conv::QCONV2D, conv::lower_quantized),
    (&op::pool::MAX_POOL2D, pool::lower),
    (&op::pool::AVERAGE_POOL2D, pool::lower),
    (&op::binary::ADD, binary::lower),
    (&op::binary::MUL, binary::lower),
    (&op::binary::SUB, binary::lower),
    (&op::binary::DIV, binary::lower),
    (&op::binary::MOD, binary::lower),
    (&op::binary::REMAINDER, binary::lower),
    (&op::binary::MIN, binary::lower),
    (&op::binary::MAX, binary::lower),
    (&op::binary::PRELU, binary::lower),
    (&op::binary::BIT_AND, binary::lower),
    (&op::binary::BIT_OR, binary::lower),
    (&op::binary::BIT_XOR, binary::lower),
    (&op::binary::SHIFT_LEFT, binary::lower),
    (&op::binary::SHIFT_RIGHT, binary::lower),
    (&op::binary::SILU_MUL, binary::lower),
    (&op::softmax::SOFTMAX, softmax::lower),
    (&op::movement::COPY, movement::lower_copy),
    (&op::movement::TRANSPOSE, movement::lower_transpose),
    (&op::movement::CONCAT, movement::lower_concat),
    (&op::movement::SLICE, movement::lower_slice),
    (&op::gather::GATHER, gather::lower),
    (&op::cast::CAST, cast::lower),
    (&op::quantize::QUANTIZE, quantize::lower),
    (&op::quantize::DEQUANTIZE, quantize::lower),
    (&op::argmax::ARGMAX, argmax::lower),
    (&op::compare::LESS, compare::lower),
    (&op::compare::GREATER, compare::lower),
    (&op::compare::EQUAL, compare::lower),
    (&op::compare::LESS_OR_EQUAL, compare::lower),
    (&op::compare::GREATER_OR_EQUAL, compare::lower),
    (&op::size::SIZE, size::lower),
];

/// Every op that has kernels.
fn table() -> impl Iterator<Item = &'static (&'static OpDescriptor, Lower)> {
    TABLE.iter().chain(unary::TABLE)
}

// SAFETY: a kernel reads and writes an operand at positions below the operand's number of elements, which it gets in
// its parameters; the families compute those from the shapes of the step, in checked arithmetic, and by the same
// formulas as the shape rules. Positions that come from data pass through the `checked_index` snippet, as the lint
// of the kernel build demands. An invocation past the end returns, output words have one writer in a dispatch, and a
// dispatch that reads what another one of its step wrote says so. Every loop counts up to a parameter.
unsafe impl KernelLibrary for Library {
    fn kernels(&self) -> &'static [KernelSource] {
        generated::KERNELS
    }

    fn lower(
        &self,
        step: &LowerStep<'_>,
        caps: &DeviceCaps,
        emit: &mut dyn FnMut(Dispatch),
    ) -> Result<(), LowerError> {
        let family = table().find(|(op, _)| (op.code, op.version) == (step.op, step.version));
        let (_, lower) = family.ok_or(LowerError::NoKernel)?;
        // Nothing to write, so nothing to do, whatever the inputs.
        if step.outputs.iter().all(|y| y.shape.elements() == 0) {
            return Ok(());
        }
        lower(step, &mut Launch::new(caps, emit))
    }

    fn gate(&self, gate: &Gate, caps: &DeviceCaps, emit: &mut dyn FnMut(Dispatch)) -> Result<(), LowerError> {
        gate::lower(gate, &mut Launch::new(caps, emit))
    }
}
