//! Sizes and counters as tensors.

use crate::expect;
use crate::registry::{Registered, sets};
use serinette_core::op::size::{SIZE, Size};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] =
    &[Registered { op: &SIZE, name: "size::i32", input: None, also: None, output: sets::I32, kernel: i32 }];

/// `Size`.
pub fn i32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Size = step.attributes()?;
    let y = ops.output::<i32>(0)?;
    expect("elements of y", attrs.count as usize, y.len())?;
    for (y, id) in y.iter_mut().zip(attrs.exprs) {
        let value =
            (step.expr)(id).ok_or(KernelError { what: "expression", expected: 0, found: u64::from(id) })?;
        *y = i32::try_from(value).unwrap_or(i32::MAX);
    }
    Ok(())
}
