//! The verifier: proves a blob once, so that a run needs no checks per element.
//!
//! It works in two passes over fixed-size records, with working memory that the caller gives:
//!
//! 1. [`records`]: every record by itself, for all sizes: codes, ids, texts, types, signatures, region edges.
//! 2. [`memory`]: every plan: slots large enough at the upper bounds, every read preceded by a write of just that
//!    value, nothing live clobbered, no hazard inside a wave. Structured regions make one visit of each body
//!    enough: the live set at a merge or back edge equals that at entry by construction.
//!
//! What depends on the actual sizes (guards, shape rules, view ranges) is checked by [`super::bind()`], in numbers.
//! Time is linear in the records, times the logarithm of the live ranges.

mod live;
mod memory;
mod records;

use super::error::{Error, Reason};
use super::expr::evaluate;
use super::program::Program;
use super::record::*;
use crate::op::OpDescriptor;

pub use live::Live;

/// Most plans in a blob.
pub const MAX_PLANS: usize = 16;
/// Most entries in a program.
pub const MAX_ENTRIES: usize = 64;
/// Most attribute bytes of a step: the unknown tail of a record is read as well, so its length is bounded.
pub const MAX_ATTR_BYTES: u32 = 1024;

/// The most work that a blob may ask for, loops at their most trips and sizes at their bounds. It is checked for
/// each entry of each plan.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps.
    pub steps: u64,
    /// Multiply-adds.
    pub macs: u64,
    /// Bytes moved.
    pub bytes: u64,
}

impl Default for Limits {
    /// What no machine finishes in a day is refused: 10^9 steps, 10^18 multiply-adds, 10^18 bytes.
    fn default() -> Limits {
        Limits { steps: 1_000_000_000, macs: 1_000_000_000_000_000_000, bytes: 1_000_000_000_000_000_000 }
    }
}

/// Worst-case work: the most over all entries and plans, each figure by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps, loops at their most trips. Saturating.
    pub steps: u64,
    /// Multiply-adds. Saturating.
    pub macs: u64,
    /// Bytes moved. Saturating.
    pub bytes: u64,
    /// Live ranges needed.
    pub max_live: u32,
}

/// Verifies a blob against a table of ops.
///
/// `live` needs room for [`Header::max_live`] ranges and `exprs` for one number for each expression; a blob that
/// claims more than the caller offers is refused. Weight bytes are not read: any are safe.
///
/// The checksum is not compared here ([`Program::crc_matches`]): the proofs do not rest on it.
pub fn verify(
    program: &Program<'_>,
    ops: &[&'static OpDescriptor],
    limits: &Limits,
    live: &mut [Live],
    exprs: &mut [u64],
) -> Result<Report, Error> {
    let claimed = program.header.max_live;
    if claimed as usize > live.len() {
        return Err(Error::header(Reason::MaxLive, 0, live.len() as u64, u64::from(claimed)));
    }
    if exprs.len() < program.exprs.len() {
        let (expected, found) = (program.exprs.len() as u64, exprs.len() as u64);
        return Err(Error::header(Reason::BufferSize, 0, expected, found));
    }
    let live = live.get_mut(..claimed as usize).unwrap_or(&mut []);
    records::check(program, ops)?;
    if program.plans.len() > MAX_PLANS {
        let (expected, found) = (MAX_PLANS as u64, program.plans.len() as u64);
        return Err(Error::at(Reason::Bounded, SectionId::Plans, 0, expected, found));
    }
    let mut tables = memory::Tables::default();
    let mut report = Report::default();
    for (id, plan) in program.plans.iter() {
        tables.claim(program, id, plan)?;
        evaluate_at_high(program, plan, exprs)?;
        memory::check(program, ops, id, plan, limits, live, exprs, &mut report)?;
    }
    tables.finish(program)?;
    Ok(report)
}

/// Ops of the program that a table does not have, as (signature, op code, version): for a message that lists them
/// all at once.
pub fn unknown_ops<'a>(
    program: &Program<'a>,
    ops: &'a [&'static OpDescriptor],
) -> impl Iterator<Item = (u32, u16, u16)> + use<'a> {
    program
        .signatures
        .iter()
        .filter(move |(_, s)| crate::op::find(ops, s.op, s.version).is_none())
        .map(|(id, s)| (id, s.op, s.version))
}

/// Expression values with every symbol at the plan's upper bound: the maximum of each, as all are monotone.
fn evaluate_at_high(program: &Program<'_>, plan: &Plan, exprs: &mut [u64]) -> Result<(), Error> {
    // The same loop as `expr::evaluate`, with the bounds table as the symbols: no room for a copy is needed.
    let symbols = HighBounds { program, plan };
    evaluate(program, &symbols, exprs)
}

/// The upper bounds of a plan as symbol values.
struct HighBounds<'a, 'p> {
    program: &'a Program<'p>,
    plan: &'a Plan,
}

impl super::expr::Symbols for HighBounds<'_, '_> {
    fn get(&self, symbol: u32) -> Option<u64> {
        if symbol >= self.plan.bounds[1] {
            return None;
        }
        self.program.bounds.get(self.plan.bounds[0].checked_add(symbol)?).ok().map(|b| b.high)
    }
}
