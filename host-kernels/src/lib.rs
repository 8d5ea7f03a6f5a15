//! Host kernels: one for every op and combination of element types in the op table of `serinette_core`.
//!
//! The kernels are the `no_std` reference: plain safe Rust, no allocation, the same bits on every target
//! (transcendental functions come from `libm`, sums have a fixed order, nothing is fused). They are right for
//! every shape that the op's shape rule accepts. For any other shapes, bytes and attributes they return an
//! error or store meaningless numbers, but never panic and never touch memory outside their operands.
//!
//! Each kernel is a plain function of type [`serinette_core::schedule::Kernel`], so that firmware names exactly
//! those it needs. [`registry`] lists all of them for hosts; nothing else refers to that list.
//! With feature `std` there are fast kernels for hosts beside them (the module `fast`).
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(not(feature = "std"), forbid(unsafe_code))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

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
#[cfg(feature = "std")]
pub mod fast;
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
pub mod registry;
pub mod resize;
pub mod reverse;
pub mod rotary;
pub mod sample;
pub mod scatter;
pub mod select;
pub mod size;
pub mod softmax;
pub mod tile;
pub mod unary;

mod arithmetic;
mod axes;
mod broadcast;
mod cells;
mod dots;
mod float16;
mod fold;
mod functions;
mod gate;
mod im2col;
mod key;
mod mapped;
mod number;
mod resize_weights;
mod rows;
mod spatial;
mod walk;

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
