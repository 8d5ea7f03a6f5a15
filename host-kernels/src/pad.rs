//! Padding and cropping.

use crate::mapped::{AxisMap, Wrap, apply, each};
use crate::registry::{Registered, sized};
use crate::{OUT_OF_RANGE, expect};
use serinette_core::MAX_RANK;
use serinette_core::op::pad as op;
use serinette_core::op::pad::Pad;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[constant::KERNELS, reflect::KERNELS, edge::KERNELS, wrapped::KERNELS];

sized! { /// `Pad`.
pad::constant = op::PAD, pad, same }
sized! { /// `PadReflect`.
pad::reflect = op::PAD_REFLECT, pad_reflect, same }
sized! { /// `PadEdge`.
pad::edge = op::PAD_EDGE, pad_edge, same }
sized! { /// `PadWrap`.
pad::wrapped = op::PAD_WRAP, pad_wrap, same }

fn pad<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    let value = match ops.optional::<T>(1)? {
        Some([value]) => *value,
        Some(list) => return Err(KernelError::new("elements of the value", 1, list.len())),
        None => T::zeroed(),
    };
    padded(step, ops, &Inside { starts: starts(step)? }, value)
}

fn pad_reflect<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    padded(step, ops, &Reflect { starts: starts(step)? }, T::zeroed())
}

fn pad_edge<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    padded(step, ops, &Edge { starts: starts(step)? }, T::zeroed())
}

fn pad_wrap<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    padded(step, ops, &Wrap { starts: starts(step)? }, T::zeroed())
}

fn padded<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    map: &impl AxisMap,
    filler: T,
) -> Result<(), KernelError> {
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    if x.is_empty() {
        expect("elements of x", 0, step.input(0)?.elements())?;
    }
    apply(map, (&step.input(0)?, x), (&step.output(0)?, y), filler)
}

fn starts(step: &StepView<'_>) -> Result<[i64; MAX_RANK], KernelError> {
    let attrs: Pad = step.attributes()?;
    let mut starts = attrs.starts.map(i64::from);
    for (axis, start) in starts.iter_mut().enumerate() {
        if let Some(id) = attrs.expr(axis) {
            *start = value(step, id)?;
        }
    }
    Ok(starts)
}

/// The value of an expression.
pub(crate) fn value(step: &StepView<'_>, id: u32) -> Result<i64, KernelError> {
    let value =
        (step.expr)(id).ok_or(KernelError { what: "expression", expected: 0, found: u64::from(id) })?;
    // Larger ones are beyond every tensor, like this one.
    Ok(i64::try_from(value).unwrap_or(i64::MAX))
}

/// `i − start`.
fn behind(starts: &[i64; MAX_RANK], axis: usize, i: usize) -> Option<i64> {
    i64::try_from(i).ok()?.checked_sub(starts[axis])
}

/// A row whose elements are those of the input from `start` on, and otherwise come one by one.
fn around<T: Copy>(
    map: &impl AxisMap,
    start: i64,
    (axis, x, y, filler): (usize, &[T], &mut [T], T),
) -> Result<(), KernelError> {
    // The first element of the result that is one of the input, the first of the input that is in the result.
    let before = usize::try_from(start).unwrap_or(0).min(y.len());
    let cut = usize::try_from(start.saturating_neg()).unwrap_or(0).min(x.len());
    let (head, rest) = y.split_at_mut(before);
    let whole = x.get(cut..).ok_or(OUT_OF_RANGE)?;
    let (middle, tail) = rest.split_at_mut(whole.len().min(rest.len()));
    each(map, axis, x, head, 0, filler)?;
    middle.copy_from_slice(whole.get(..middle.len()).ok_or(OUT_OF_RANGE)?);
    each(map, axis, x, tail, before.wrapping_add(middle.len()), filler)
}

/// The filler outside.
struct Inside {
    starts: [i64; MAX_RANK],
}

impl AxisMap for Inside {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        behind(&self.starts, axis, i).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < n)
    }
    fn stays(&self, axis: usize) -> bool {
        self.starts[axis] == 0
    }
    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        around(self, self.starts[axis], (axis, x, y, filler))
    }
}

/// Mirrored at the outermost elements.
struct Reflect {
    starts: [i64; MAX_RANK],
}

impl AxisMap for Reflect {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        let last = i64::try_from(n).ok()?.checked_sub(1)?;
        let at = behind(&self.starts, axis, i)?.checked_rem_euclid(last.checked_mul(2)?).unwrap_or(0);
        usize::try_from(if at > last { last - (at - last) } else { at }).ok()
    }
    fn stays(&self, axis: usize) -> bool {
        self.starts[axis] == 0
    }
    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        around(self, self.starts[axis], (axis, x, y, filler))
    }
}

/// The outermost element goes on.
struct Edge {
    starts: [i64; MAX_RANK],
}

impl AxisMap for Edge {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        let at = behind(&self.starts, axis, i)?;
        usize::try_from(at.max(0)).ok().zip(n.checked_sub(1)).map(|(at, last)| at.min(last))
    }
    fn stays(&self, axis: usize) -> bool {
        self.starts[axis] == 0
    }
    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        around(self, self.starts[axis], (axis, x, y, filler))
    }
}
