//! Sizes and counters as tensors. Their values are known when a step is lowered.

use super::generated as g;
use super::launch::{Launch, attrs, output};
use serinette_core::op::size::Size;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let a: Size = attrs(step)?;
    let mut params = g::SizeOf { count: a.count, y: output(step)?.location(), ..Default::default() };
    for (value, expr) in params.values.iter_mut().zip(a.exprs).take(a.count as usize) {
        let v = (step.expr)(expr).ok_or(LowerError::Invalid("a dimension expression without a value"))?;
        *value = v.min(i32::MAX as u64) as u32;
    }
    to.groups(g::SIZE, params.words(), 1, false)
}
