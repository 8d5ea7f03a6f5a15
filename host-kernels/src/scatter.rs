//! Writing at positions that depend on data, in the order of the updates.

use crate::gather_nd::{Rows, Tuple};
use crate::number::Number;
use crate::registry::{Registered, sized, typed};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::NoAttributes;
use serinette_core::op::gather::checked_index;
use serinette_core::op::scatter as op;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[
    scatter_elements::KERNELS,
    scatter_elements_add::KERNELS,
    scatter_elements_mul::KERNELS,
    scatter_elements_min::KERNELS,
    scatter_elements_max::KERNELS,
    scatter_nd::KERNELS,
    scatter_nd_add::KERNELS,
    scatter_nd_mul::KERNELS,
    scatter_nd_min::KERNELS,
    scatter_nd_max::KERNELS,
];

sized! { /// `ScatterElements`.
scatter::scatter_elements = op::SCATTER_ELEMENTS, store_elements, same }
typed! { /// `ScatterElementsAdd`.
scatter::scatter_elements_add = op::SCATTER_ELEMENTS_ADD, numbers, elements, Number::plus, same }
typed! { /// `ScatterElementsMul`.
scatter::scatter_elements_mul = op::SCATTER_ELEMENTS_MUL, numbers, elements, Number::times, same }
typed! { /// `ScatterElementsMin`.
scatter::scatter_elements_min = op::SCATTER_ELEMENTS_MIN, numbers, elements, Number::least, same }
typed! { /// `ScatterElementsMax`.
scatter::scatter_elements_max = op::SCATTER_ELEMENTS_MAX, numbers, elements, Number::greatest, same }
sized! { /// `ScatterNd`.
scatter::scatter_nd = op::SCATTER_ND, store_tuples, same }
typed! { /// `ScatterNdAdd`.
scatter::scatter_nd_add = op::SCATTER_ND_ADD, numbers, tuples, Number::plus, same }
typed! { /// `ScatterNdMul`.
scatter::scatter_nd_mul = op::SCATTER_ND_MUL, numbers, tuples, Number::times, same }
typed! { /// `ScatterNdMin`.
scatter::scatter_nd_min = op::SCATTER_ND_MIN, numbers, tuples, Number::least, same }
typed! { /// `ScatterNdMax`.
scatter::scatter_nd_max = op::SCATTER_ND_MAX, numbers, tuples, Number::greatest, same }

fn store_elements<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    elements(step, ops, |_: T, update| update)
}

fn store_tuples<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    tuples(step, ops, |_: T, update| update)
}

/// The output, holding the data.
fn start<'m, T: bytemuck::Pod>(
    step: &StepView<'_>,
    ops: &mut Operands<'m>,
) -> Result<&'m mut [T], KernelError> {
    let in_place = ops.in_place(0) == Some(0);
    let y = ops.output::<T>(0)?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    expect("elements of data", step.input(0)?.elements(), y.len())?;
    if !in_place {
        let data = ops.input::<T>(0)?;
        expect("elements of data", y.len(), data.len())?;
        y.copy_from_slice(data);
    }
    Ok(y)
}

fn elements<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let (indices, updates) = (ops.input::<i32>(1)?, ops.input::<T>(2)?);
    let y = start::<T>(step, &mut ops)?;
    let positions = step.input(1)?;
    expect("elements of indices", positions.elements(), indices.len())?;
    expect("elements of updates", indices.len(), updates.len())?;
    if indices.is_empty() {
        return Ok(());
    }
    let rows = Rows::new(axis, &step.input(0)?, &positions)?;
    let (mut indices, mut updates) = (indices.chunks_exact(rows.len), updates.chunks_exact(rows.len));
    rows.walk.rows([0], |[start]| {
        let (indices, updates) = (indices.next().ok_or(OUT_OF_RANGE)?, updates.next().ok_or(OUT_OF_RANGE)?);
        let mut at = start;
        for (index, update) in indices.iter().zip(updates) {
            match checked_index(i64::from(*index), rows.size) {
                Some(i) => {
                    let to = at.wrapping_add(i.wrapping_mul(rows.pitch));
                    let to = y.get_mut(to).ok_or(OUT_OF_RANGE)?;
                    *to = f(*to, *update);
                }
                None => step.fault.bad_index(step.step),
            }
            at = at.wrapping_add(rows.stride);
        }
        Ok(())
    })
}

fn tuples<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    f: impl Fn(T, T) -> T,
) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (indices, updates) = (ops.input::<i32>(1)?, ops.input::<T>(2)?);
    let y = start::<T>(step, &mut ops)?;
    let (shape, positions) = (step.input(0)?, step.input(1)?);
    expect("elements of indices", positions.elements(), indices.len())?;
    let last = positions.rank().checked_sub(1).ok_or(KernelError::new("rank of indices", 1, 0))?;
    let tuple = Tuple::new(&shape, 0, positions.dim(last))?;
    let many = positions.outer(last);
    expect("elements of updates", product(&[many, tuple.run]), updates.len())?;
    expect("elements of indices", product(&[many, tuple.len]), indices.len())?;
    if updates.is_empty() {
        return Ok(());
    }
    for (i, updates) in updates.chunks_exact(tuple.run).enumerate() {
        let start = i.wrapping_mul(tuple.len);
        let index = indices.get(start..).and_then(|t| t.get(..tuple.len)).ok_or(OUT_OF_RANGE)?;
        match tuple.position(index) {
            Some(at) => {
                let y = y.get_mut(at..).and_then(|y| y.get_mut(..tuple.run)).ok_or(OUT_OF_RANGE)?;
                y.iter_mut().zip(updates).for_each(|(y, update)| *y = f(*y, *update));
            }
            None => step.fault.bad_index(step.step),
        }
    }
    Ok(())
}
