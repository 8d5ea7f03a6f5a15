//! Repetition.

use crate::mapped::{AxisMap, Steps, Wrap, apply, each};
use crate::registry::{Registered, sized};
use serinette_core::MAX_RANK;
use serinette_core::op::NoAttributes;
use serinette_core::op::tile as op;
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[tiled::KERNELS, repeated::KERNELS, expanded::KERNELS];

sized! { /// `Tile`.
tile::tiled = op::TILE, tile, same }
sized! { /// `Repeat`.
tile::repeated = op::REPEAT, repeat, same }
sized! { /// `Expand`.
tile::expanded = op::EXPAND, expand, same }

fn tile<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    let map = Wrap { starts: [0; MAX_RANK] };
    apply(&map, (&step.input(0)?, x), (&step.output(0)?, y), T::zeroed())
}

fn repeat<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: op::Repeat = step.attributes()?;
    let (x, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    let map = Each { axis: attrs.axis as usize, times: attrs.repeats as usize };
    apply(&map, (&step.input(0)?, x), (&step.output(0)?, y), T::zeroed())
}

fn expand<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (from, to) = (step.input(0)?, step.output(0)?);
    let missing = to.rank().checked_sub(from.rank());
    let missing = missing.ok_or(KernelError::new("rank of y", from.rank(), to.rank()))?;
    // The axes that are missing have one element.
    let dims: [usize; MAX_RANK] =
        core::array::from_fn(|axis| axis.checked_sub(missing).map_or(1, |axis| from.dim(axis)));
    let wide = Shape::new(dims.get(..to.rank()).unwrap_or(&dims)).unwrap_or(from);
    let mut map = Steps { starts: [0; MAX_RANK], steps: [1; MAX_RANK] };
    for (axis, step) in map.steps.iter_mut().enumerate().take(to.rank()) {
        if wide.dim(axis) != to.dim(axis) {
            crate::expect("dimension to expand", 1, wide.dim(axis))?;
            *step = 0;
        }
    }
    apply(&map, (&wide, ops.input::<T>(0)?), (&to, ops.output::<T>(0)?), T::zeroed())
}

/// Every element of an axis several times.
struct Each {
    axis: usize,
    times: usize,
}

impl AxisMap for Each {
    fn source(&self, axis: usize, i: usize, n: usize) -> Option<usize> {
        if axis == self.axis { i.checked_div(self.times).filter(|at| *at < n) } else { Some(i) }
    }
    fn stays(&self, axis: usize) -> bool {
        axis != self.axis || self.times == 1
    }
    fn row<T: Copy>(&self, axis: usize, x: &[T], y: &mut [T], filler: T) -> Result<(), KernelError> {
        if axis != self.axis {
            return each(self, axis, x, y, 0, filler);
        }
        y.chunks_mut(self.times.max(1)).zip(x).for_each(|(y, x)| y.fill(*x));
        Ok(())
    }
}
