//! Channels into blocks of pixels, and back: permutations of six axes.

use crate::expect;
use crate::movement::strided;
use crate::registry::{Registered, sized};
use serinette_core::MAX_RANK;
use serinette_core::op::blocks as op;
use serinette_core::op::blocks::Blocks;
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[depth_to_space::KERNELS, depth_to_space_crd::KERNELS, space_to_depth::KERNELS];

sized! { /// `DepthToSpace`.
blocks::depth_to_space = op::DEPTH_TO_SPACE, dcr, same }
sized! { /// `DepthToSpaceCrd`.
blocks::depth_to_space_crd = op::DEPTH_TO_SPACE_CRD, crd, same }
sized! { /// `SpaceToDepth`.
blocks::space_to_depth = op::SPACE_TO_DEPTH, to_depth, same }

fn dcr<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // From [N, b, b, C, H, W] to [N, C, H, b, W, b].
    permuted::<T>(step, ops, |[n, c, h, w], b| [n, b, b, c / (b * b), h, w], [0, 3, 4, 1, 5, 2])
}

fn crd<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // From [N, C, b, b, H, W] to [N, C, H, b, W, b].
    permuted::<T>(step, ops, |[n, c, h, w], b| [n, c / (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3])
}

fn to_depth<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // From [N, C, H, b, W, b] to [N, b, b, C, H, W].
    permuted::<T>(step, ops, |[n, c, h, w], b| [n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4])
}

/// The input, seen with the six dimensions that `split` gives, in another order of axes.
fn permuted<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    split: impl Fn([usize; 4], usize) -> [usize; 6],
    order: [usize; 6],
) -> Result<(), KernelError> {
    let block = step.attributes::<Blocks>()?.block as usize;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    let shape = step.input(0)?;
    expect("rank of x", 4, shape.rank())?;
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    expect("elements of y", x.len(), y.len())?;
    if x.is_empty() {
        return Ok(());
    }
    // A block is no larger than the tensor that it is in.
    if block > x.len() || block.checked_mul(block).is_none() {
        return Err(KernelError::new("block", x.len(), block));
    }
    let from = split([shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3)], block);
    let six = |dims: &[usize; 6]| Shape::new(dims).ok_or(KernelError::new("rank", 6, MAX_RANK));
    let (from, to) = (six(&from)?, six(&order.map(|axis| from[axis]))?);
    let mut strides = [0; MAX_RANK];
    strides.iter_mut().zip(order).for_each(|(stride, axis)| *stride = from.inner(axis));
    strided(&from, x, &to, y, 0, &strides)
}
