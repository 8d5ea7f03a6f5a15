//! Where the arenas of a plan and the weight sections of a program lie in device buffers.

use crate::error::Error;
use crate::model::Model;
use serinette_core::schedule::bind::{BoundValue, Place};
use serinette_core::schedule::record::SectionId;
use serinette_core::schedule::{self, Reason};
use serinette_dispatch::{DeviceCaps, LowerError, MAX_WINDOW, Operand, Space, Window};

/// Alignment of every arena and weight section in its buffer; enough for the start of a window on any device.
const BASE_ALIGN: u64 = 256;

pub(super) struct Layout {
    arenas: Vec<u64>,
    weights: Vec<u64>,
    pub arena_bytes: u64,
    pub weight_bytes: u64,
    limit: u64,
    align: u64,
}

/// A byte range of one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub space: Space,
    pub offset: u64,
    pub bytes: u64,
}

impl Layout {
    pub(super) fn new(model: &Model, plan: u32, caps: &DeviceCaps) -> Result<Layout, Error> {
        let program = model.program();
        let plan = program.plans.get(plan)?;
        let mut layout = Layout {
            arenas: Vec::new(),
            weights: Vec::new(),
            arena_bytes: 0,
            weight_bytes: 0,
            limit: caps.max_binding.min(MAX_WINDOW) / 4 * 4,
            align: u64::from(caps.window_align).max(4),
        };
        for i in 0..plan.arenas[1] {
            layout.arenas.push(layout.arena_bytes);
            let end = layout.arena_bytes.saturating_add(program.arena(plan, i)?.bytes);
            layout.arena_bytes = end.checked_next_multiple_of(BASE_ALIGN).unwrap_or(u64::MAX);
        }
        for (id, w) in program.weights.iter() {
            layout.weights.push(layout.weight_bytes);
            if !model.holds_values(id) {
                continue;
            }
            let end = layout.weight_bytes.saturating_add(w.bytes);
            layout.weight_bytes = end.checked_next_multiple_of(BASE_ALIGN).unwrap_or(u64::MAX);
        }
        Ok(layout)
    }

    pub(super) fn arena_offset(&self, arena: u32, offset: usize) -> Result<u64, Error> {
        let base = self.arenas.get(arena as usize).copied();
        let missing =
            schedule::Error::at(Reason::NotFound, SectionId::Arenas, arena, self.arenas.len() as u64, 0);
        Ok(base.ok_or(missing)? + offset as u64)
    }

    pub(super) fn weight_base(&self, section: u32) -> Result<u64, Error> {
        let base = self.weights.get(section as usize).copied();
        let (have, reason) = (self.weights.len() as u64, Reason::NotFound);
        Ok(base.ok_or(schedule::Error::at(reason, SectionId::Weights, section, have, 0))?)
    }

    /// The range of a bound value in its buffer.
    pub(super) fn range(&self, v: &BoundValue) -> Result<Range, Error> {
        let (space, offset) = match v.place {
            Place::Arena { arena, offset } => (Space::Arena, self.arena_offset(arena, offset)?),
            Place::Weights { section, offset } => {
                (Space::Weights, self.weight_base(section)? + offset as u64)
            }
        };
        Ok(Range { space, offset, bytes: (v.bytes as u64).next_multiple_of(4) })
    }

    /// A window of a buffer that covers all `ranges` in it: the whole buffer where a binding can be that large.
    pub(super) fn window(&self, space: Space, ranges: &[Range]) -> Result<Window, LowerError> {
        let whole = if space == Space::Arena { self.arena_bytes } else { self.weight_bytes };
        if whole <= self.limit {
            return Ok(Window { offset: 0, bytes: whole });
        }
        let of_space = || ranges.iter().filter(|r| r.space == space);
        let Some(first) = of_space().map(|r| r.offset).min() else {
            return Ok(Window { offset: 0, bytes: self.limit.min(whole) });
        };
        let end = of_space().map(|r| r.offset + r.bytes).max().unwrap_or(first);
        let offset = first / self.align * self.align;
        // A binding of nothing is not allowed.
        let bytes = (end - offset).max(4);
        if bytes > self.limit {
            return Err(LowerError::Limit { what: "bytes of one binding", limit: self.limit, needed: bytes });
        }
        Ok(Window { offset, bytes })
    }
}

/// An operand relative to its window.
pub(super) fn operand(v: &BoundValue, range: &Range, window: &Window) -> Operand {
    let offset = range.offset - window.offset;
    Operand { dtype: v.dtype, shape: v.shape, space: range.space, offset }
}
