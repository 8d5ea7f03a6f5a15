//! Reading by positions that depend on data.

use crate::registry::{Registered, kernels, sets::ANY};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op;
use serinette_core::op::gather::checked_index;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { gather:
    op::gather::GATHER => bytes, ANY => ANY;
};

/// `Gather` of any element type: copies runs of bytes. A result without elements reads nothing, so its indices
/// are not looked at.
pub fn bytes(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let (shape, positions, out) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let (data, indices, y) = (ops.input::<u8>(0)?, ops.input::<i32>(1)?, ops.output::<u8>(0)?);
    expect("elements of indices", positions.elements(), indices.len())?;
    if axis >= shape.rank() {
        return Err(KernelError::new("axis", shape.rank(), axis));
    }
    let size = crate::movement::element_size(&out, y.len())?;
    if size == 0 {
        return Ok(());
    }
    expect("bytes of data", product(&[shape.elements(), size]), data.len())?;
    let (n, inner) = (shape.dim(axis), shape.inner(axis));
    expect("elements of y", product(&[shape.outer(axis), indices.len(), inner]), out.elements())?;
    let run = inner.saturating_mul(size);
    for (outer, y) in y.chunks_exact_mut(indices.len().saturating_mul(run)).enumerate() {
        for (index, y) in indices.iter().zip(y.chunks_exact_mut(run)) {
            match checked_index(i64::from(*index), n) {
                Some(i) => {
                    let start = outer.wrapping_mul(n).wrapping_add(i).wrapping_mul(run);
                    y.copy_from_slice(data.get(start..).and_then(|d| d.get(..run)).ok_or(OUT_OF_RANGE)?);
                }
                None => {
                    y.fill(0);
                    step.fault.bad_index(step.step);
                }
            }
        }
    }
    Ok(())
}
