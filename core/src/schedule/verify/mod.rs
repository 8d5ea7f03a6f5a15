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

use super::check::{Check, Reader};
use super::error::{Error, Reason};
use super::expr::evaluate_with;
use super::planned::PlanReader;
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
    let mut report = Report::default();
    let r = &Reader::new(program);
    r.finish(check(r, ops, limits, live, exprs, &mut report))?;
    Ok(report)
}

fn check(
    r: &Reader<'_, '_>,
    ops: &[&'static OpDescriptor],
    limits: &Limits,
    live: &mut [Live],
    exprs: &mut [u64],
    report: &mut Report,
) -> Check {
    let p = r.p;
    let (claimed, room) = (p.header.max_live, live.len() as u64);
    let Some(live) = live.get_mut(..claimed as usize) else {
        return r.fail_wide(Reason::MaxLive, room, claimed);
    };
    if exprs.len() < p.exprs.len() {
        return r.fail_wide(Reason::BufferSize, p.exprs.count(), exprs.len() as u64);
    }
    let strings = records::check(r, ops)?;
    if p.plans.len() > MAX_PLANS {
        return r.at(SectionId::Plans, 0).fail(Reason::Bounded, MAX_PLANS as u32, p.plans.count());
    }
    let mut tables = memory::Tables::default();
    for (id, plan) in p.plans.iter() {
        r.at(SectionId::Plans, id);
        tables.claim(r, plan)?;
        // With every symbol at its upper bound expressions have their maxima, as all are monotone.
        let high = |symbol: u32| {
            let own = (symbol < plan.bounds[1]).then_some(plan.bounds[0])?;
            p.bounds.find(own.checked_add(symbol)?).map(|b| b.high)
        };
        evaluate_with(r, &high, exprs)?;
        r.at(SectionId::Plans, id);
        memory::check(PlanReader { r, plan, exprs }, strings, ops, limits, live, report)?;
    }
    r.at(SectionId::Plans, p.plans.count());
    tables.finish(r)
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
