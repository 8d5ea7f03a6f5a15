//! Fast kernels for hosts with an operating system: tiles for AVX-512, AVX2 and NEON, chosen at run time, and threads.
//!
//! They take the place of the reference kernels where they exist ([`find`]). Their sums have another order than those of the
//! reference, are fused, and differ from one instruction set to another by rounding; with one instruction set and any number
//! of threads the bits are the same from run to run. Work is split over the threads of the rayon pool that the kernel is
//! called in, and not split outside of one.
//!
//! Packed operands lie in a workspace of 384 KiB a thread, made at the first use; convolutions may make it larger.
#![allow(unsafe_code)] // registers, and parts of one result written by several threads; each block says why it is sound

mod attention;
mod binary;
mod conv;
mod conv_transpose;
mod depthwise;
mod elementary;
mod gemm;
mod isa;
mod matmul;
mod norm;
mod parallel;
mod pool;
mod recurrent;
mod rows;
mod softmax;
mod tile;
mod unary;
mod vector;
mod winograd;
mod workspace;

pub use isa::{Isa, available, isa, use_isa};

use crate::registry::Registered;
use serinette_core::Shape;
use serinette_core::schedule::{Kernel, record::Signature};

/// Every fast kernel, family by family.
static FAMILIES: &[&[Registered]] = &[
    matmul::KERNELS,
    conv::KERNELS,
    conv_transpose::KERNELS,
    unary::KERNELS,
    binary::KERNELS,
    pool::KERNELS,
    recurrent::KERNELS,
    softmax::KERNELS,
    norm::KERNELS,
    attention::KERNELS,
];

/// The fast kernel for a signature.
pub fn find(signature: &Signature) -> Option<&'static Registered> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|r| r.accepts(signature))
}

/// Bytes of the workspace of one thread, for most ops.
pub const WORKSPACE_BYTES: usize = workspace::FLOATS * 4;

/// Whether the fast kernel of a signature may take more workspace than [`WORKSPACE_BYTES`], by [`workspace_bytes`].
pub fn wants_more_workspace(signature: &Signature) -> bool {
    [conv::KERNELS, conv_transpose::KERNELS, attention::KERNELS]
        .iter()
        .any(|family| accepted(family, signature))
}

fn accepted(family: &[Registered], signature: &Signature) -> bool {
    family.iter().any(|r| r.accepts(signature))
}

/// Bytes of workspace that a thread takes for such an op with these shapes of its first two inputs and its output, at most.
pub fn workspace_bytes(signature: &Signature, x: &Shape, w: &Shape, y: &Shape) -> usize {
    if accepted(conv_transpose::KERNELS, signature) {
        WORKSPACE_BYTES.saturating_add(conv_transpose::workspace_bytes(x, w))
    } else if accepted(attention::KERNELS, signature) {
        WORKSPACE_BYTES.saturating_add(attention::workspace_bytes(x, w))
    } else {
        WORKSPACE_BYTES.max(winograd::workspace_bytes(x, w, y))
    }
}

/// The kernel table of a program: the fast kernel of each signature where there is one, else the reference kernel.
#[cfg(feature = "alloc")]
pub fn table(
    program: &serinette_core::schedule::program::Program<'_>,
) -> Result<alloc::vec::Vec<Kernel>, crate::registry::MissingKernels> {
    let mut kernels = crate::registry::table(program)?;
    for (kernel, (_, signature)) in kernels.iter_mut().zip(program.signatures.iter()) {
        if let Some(fast) = find(signature) {
            *kernel = fast.kernel;
        }
    }
    Ok(kernels)
}
