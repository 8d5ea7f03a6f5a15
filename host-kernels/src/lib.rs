//! Host kernels: one for every op and combination of element types in the op table of `serinette_core`.
//!
//! The kernels are the `no_std` reference: plain safe Rust, no allocation, the same bits on every target
//! (transcendental functions come from `libm`, sums have a fixed order, nothing is fused). They are right for
//! every shape that the op's shape rule accepts. For any other shapes, bytes and attributes they return an
//! error or store meaningless numbers, but never panic and never touch memory outside their operands.
//!
//! Each kernel is a plain function of type [`serinette_core::schedule::Kernel`], so that firmware names exactly
//! those it needs. [`registry`] lists all of them for hosts; nothing else refers to that list.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

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
pub mod registry;
pub mod size;
pub mod softmax;
pub mod unary;

mod arithmetic;
mod broadcast;
mod float16;
mod im2col;

use serinette_core::schedule::KernelError;

/// An error unless `found` is `expected`. Kernels compare every operand's length with its shape first, so that
/// afterwards no product of dimensions of a tensor that has elements can overflow.
fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), KernelError> {
    if expected == found { Ok(()) } else { Err(KernelError::new(what, expected, found)) }
}

/// Operands that contradict each other although each has the length of its shape.
const OUT_OF_RANGE: KernelError = KernelError::new("position within an operand", 1, 0);

/// The product of dimensions. It saturates, and a saturated product is no slice's length.
fn product(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n, d| n.saturating_mul(*d))
}
