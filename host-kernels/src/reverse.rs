//! Elements in another order along their axes.

use crate::mapped::{Steps, Wrap, apply};
use crate::registry::{Registered, kernels, sets::ANY, sized};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::MAX_RANK;
use serinette_core::op::reverse as op;
use serinette_core::op::reverse::{Reverse, ReverseSequence, Roll, StridedSlice};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[reversed::KERNELS, SEQUENCES, rolled::KERNELS, strided_slice::KERNELS];

static SEQUENCES: &[Registered] = kernels! { reverse:
    op::REVERSE_SEQUENCE => sequences, ANY => ANY;
};

sized! { /// `Reverse`.
reverse::reversed = op::REVERSE, reverse, same }
sized! { /// `Roll`.
reverse::rolled = op::ROLL, roll, same }
sized! { /// `StridedSlice`.
reverse::strided_slice = op::STRIDED_SLICE, slice, same }

fn reverse<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Reverse = step.attributes()?;
    let shape = step.input(0)?;
    let mut map = Steps { starts: [0; MAX_RANK], steps: [1; MAX_RANK] };
    for (axis, (start, step)) in map.starts.iter_mut().zip(&mut map.steps).enumerate() {
        if attrs.axes >> axis & 1 == 1 {
            *start = i64::try_from(shape.dim(axis)).unwrap_or(0).wrapping_sub(1);
            *step = -1;
        }
    }
    apply(&map, (&shape, ops.input::<T>(0)?), (&step.output(0)?, ops.output::<T>(0)?), T::zeroed())
}

fn roll<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Roll = step.attributes()?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    let map = Wrap { starts: attrs.shifts.map(i64::from) };
    apply(&map, (&step.input(0)?, x), (&step.output(0)?, y), T::zeroed())
}

fn slice<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: StridedSlice = step.attributes()?;
    let mut map = Steps { starts: attrs.starts.map(i64::from), steps: attrs.steps.map(i64::from) };
    for (axis, start) in map.starts.iter_mut().enumerate() {
        if let Some(id) = attrs.expr(axis) {
            *start = crate::pad::value(step, id)?;
        }
    }
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    apply(&map, (&step.input(0)?, x), (&step.output(0)?, y), T::zeroed())
}

/// `ReverseSequence` of any element type: copies runs of bytes.
pub fn sequences(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: ReverseSequence = step.attributes()?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let (x, lengths, y) = (ops.input::<u8>(0)?, ops.input::<i32>(1)?, ops.output::<u8>(0)?);
    expect("bytes of y", x.len(), y.len())?;
    let size = crate::movement::element_size(&out, y.len())?;
    if size == 0 {
        return Ok(());
    }
    expect("elements of x", out.elements(), shape.elements())?;
    let (outer, n) = (shape.dim(0), shape.dim(1));
    let run = product(&[shape.inner(1), size]);
    expect("bytes of a row", y.len(), product(&[outer, n, run]))?;
    let (sequences, most) = if attrs.time_axis == 1 { (outer, n) } else { (n, outer) };
    expect("number of sequences", sequences, lengths.len())?;
    for (i, y) in y.chunks_exact_mut(run).enumerate() {
        let (sequence, time) = if attrs.time_axis == 1 { (i / n, i % n) } else { (i % n, i / n) };
        let length = lengths.get(sequence).map_or(0, |l| usize::try_from(*l).unwrap_or(0).min(most));
        let time = if time < length { length - 1 - time } else { time };
        let at = if attrs.time_axis == 1 { sequence * n + time } else { time * n + sequence };
        let from = x.get(at.wrapping_mul(run)..).and_then(|x| x.get(..run)).ok_or(OUT_OF_RANGE)?;
        y.copy_from_slice(from);
    }
    Ok(())
}
