//! From work items to dispatches, and the small readings that all families share.

use super::generated::KERNELS;
use serinette_core::op::{AttrError, Attributes, attributes};
use serinette_dispatch::{DeviceCaps, Dispatch, LowerError, LowerStep, MAX_PARAMS, Operand};

/// The location word of an operand that is not there.
pub(super) const ABSENT: u32 = u32::MAX;

/// Where dispatches go, and what the device allows.
pub(super) struct Launch<'a> {
    /// The device.
    pub(super) caps: &'a DeviceCaps,
    emit: &'a mut dyn FnMut(Dispatch),
}

impl<'a> Launch<'a> {
    pub(super) fn new(caps: &'a DeviceCaps, emit: &'a mut dyn FnMut(Dispatch)) -> Launch<'a> {
        Launch { caps, emit }
    }

    /// One invocation for each of `items`.
    pub(super) fn items(
        &mut self,
        kernel: u16,
        params: ([u32; MAX_PARAMS], u32),
        items: u32,
    ) -> Result<(), LowerError> {
        let size = KERNELS.get(usize::from(kernel)).map_or(1, |k| k.workgroup.iter().product::<u32>());
        self.groups(kernel, params, items.div_ceil(size.max(1)), false)
    }

    /// One workgroup for each of `groups`, folded over the axes of the grid. The kernel's last workgroups may be
    /// surplus.
    pub(super) fn groups(
        &mut self,
        kernel: u16,
        (params, param_words): ([u32; MAX_PARAMS], u32),
        groups: u32,
        after_barrier: bool,
    ) -> Result<(), LowerError> {
        if groups == 0 {
            return Ok(());
        }
        let size: u32 = KERNELS.get(usize::from(kernel)).map_or(1, |k| k.workgroup.iter().product());
        if size > self.caps.max_invocations {
            return Err(limit("invocations of a workgroup", self.caps.max_invocations, size));
        }
        let grid = fold(groups, self.caps.max_workgroups)?;
        (self.emit)(Dispatch { kernel, grid, params, param_words, after_barrier });
        Ok(())
    }
}

/// A grid of at least `groups` workgroups and at most one row or plane more than needed.
fn fold(groups: u32, most: [u32; 3]) -> Result<[u32; 3], LowerError> {
    let [mx, my, mz] = most.map(|m| m.max(1));
    let rows = groups.div_ceil(mx);
    let planes = rows.div_ceil(my);
    if planes > mz {
        let all = most.iter().fold(1u64, |a, m| a.saturating_mul(u64::from(*m)));
        return Err(LowerError::Limit { what: "workgroups", limit: all, needed: u64::from(groups) });
    }
    let rows = rows.div_ceil(planes);
    Ok([groups.div_ceil(rows * planes), rows, planes])
}

pub(super) fn limit(what: &'static str, limit: u32, needed: u32) -> LowerError {
    LowerError::Limit { what, limit: u64::from(limit), needed: u64::from(needed) }
}

/// A count as a parameter word.
pub(super) fn word(n: usize) -> Result<u32, LowerError> {
    let too_many = LowerError::Limit { what: "elements", limit: u64::from(u32::MAX), needed: n as u64 };
    u32::try_from(n).map_err(|_| too_many)
}

/// Input `i`.
pub(super) fn input<'s>(step: &'s LowerStep<'_>, i: usize) -> Result<&'s Operand, LowerError> {
    step.inputs.get(i).and_then(Option::as_ref).ok_or(LowerError::Invalid("a required input is missing"))
}

/// Input `i` where it is there.
pub(super) fn optional<'s>(step: &'s LowerStep<'_>, i: usize) -> Option<&'s Operand> {
    step.inputs.get(i).and_then(Option::as_ref)
}

/// The location word of input `i`, or [`ABSENT`].
pub(super) fn location_or_absent(step: &LowerStep<'_>, i: usize) -> u32 {
    optional(step, i).map_or(ABSENT, Operand::location)
}

/// The only output.
pub(super) fn output<'s>(step: &'s LowerStep<'_>) -> Result<&'s Operand, LowerError> {
    step.outputs.first().ok_or(LowerError::Invalid("the output is missing"))
}

/// The attributes of the step.
pub(super) fn attrs<A: Attributes>(step: &LowerStep<'_>) -> Result<A, LowerError> {
    attributes(step.attrs).map_err(|e: AttrError| LowerError::Invalid(e.field))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn grids_fold_with_little_surplus() {
        for groups in [1, 7, 65_535, 65_536, 65_537, 1 << 20, 8_388_608, 4_000_000_000] {
            let g = fold(groups, [65_535; 3]).unwrap();
            assert!(g.iter().all(|n| (1..=65_535).contains(n)), "{g:?}");
            let all: u64 = g.iter().map(|n| u64::from(*n)).product();
            assert!(all >= u64::from(groups) && all - u64::from(groups) < u64::from(g[1] * g[2]), "{g:?}");
        }
    }

    #[test]
    fn a_grid_that_cannot_be_is_an_error_with_numbers() {
        let e = fold(1000, [4, 4, 4]).unwrap_err();
        assert_eq!(e, LowerError::Limit { what: "workgroups", limit: 64, needed: 1000 });
    }
}
