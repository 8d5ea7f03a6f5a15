//! From a graph to the bytes of a blob, with plans.

use crate::blob::{Blob, aligned};
use crate::error::Error;
use crate::graph::Graph;
use crate::lower::lower;
use crate::passes::pack::Packing;
use crate::passes::{self, Observer};
use bytemuck::Zeroable;
use serinette_core::op::{self, ScratchClass};
use serinette_core::plan::{
    FirstRecords, Options, Output, Planned, StepInfo, Unit, Workspace, offsets, plan, required,
};
use serinette_core::schedule::record::{Arena, Bound, Slot, Symbol, Wave, profile, space, symbol_kind};
use serinette_core::schedule::verify::Live;
use serinette_core::schedule::{self, Limits, Program, verify};
use std::collections::BTreeMap;

/// A plan that the blob shall hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name of the plan.
    pub name: String,
    /// Waves, alignment and effort.
    pub options: Options,
    /// Symbols whose greatest value in this plan is lower than the symbol's own.
    pub bounds: BTreeMap<String, u64>,
}

impl Profile {
    /// For hosts and desktop GPUs.
    pub fn desktop() -> Profile {
        Profile { name: "desktop".into(), options: Options::DESKTOP, bounds: BTreeMap::new() }
    }

    /// For phones: as desktop.
    pub fn mobile() -> Profile {
        let options = Options { profile: profile::MOBILE, ..Options::DESKTOP };
        Profile { name: "mobile".into(), options, bounds: BTreeMap::new() }
    }

    /// For microcontrollers: one step a wave.
    pub fn mcu() -> Profile {
        Profile { name: "mcu".into(), options: Options::MCU, bounds: BTreeMap::new() }
    }

    /// The profile of a name.
    pub fn named(name: &str) -> Option<Profile> {
        [Profile::desktop(), Profile::mobile(), Profile::mcu()].into_iter().find(|p| p.name == name)
    }
}

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// The plans to make, in this order.
    pub profiles: Vec<Profile>,
    /// Scratch memory that steps are given. `None`: the least where every profile is for microcontrollers, else what
    /// the fastest kernels want.
    pub scratch: Option<ScratchClass>,
    /// Which weights and params are prepared once rather than computed on in each run. `None`: none where every
    /// profile is for microcontrollers, whose memory is scarcer than their time, else all.
    pub packing: Option<Packing>,
}

impl Default for CompileOptions {
    /// One desktop plan.
    fn default() -> Self {
        CompileOptions { profiles: vec![Profile::desktop()], scratch: None, packing: None }
    }
}

/// One plan in numbers of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReport {
    /// Name.
    pub name: String,
    /// Work arena.
    pub arena_bytes: u64,
    /// Largest sum of live bytes: no plan of this order can be smaller.
    pub lower_bound_bytes: u64,
    /// State arena.
    pub state_bytes: u64,
    /// Param arena.
    pub param_bytes: u64,
    /// Derived arena.
    pub derived_bytes: u64,
    /// Waves.
    pub waves: u32,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileReport {
    /// What importer and passes want to tell.
    pub notes: Vec<String>,
    /// Steps of the program, region edges included.
    pub steps: u32,
    /// Bytes of constants and weights.
    pub weight_bytes: u64,
    /// The plans in their order.
    pub plans: Vec<PlanReport>,
    /// Worst-case work, as the verifier finds it.
    pub work: schedule::Report,
}

/// A finished blob.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The file.
    pub bytes: Vec<u8>,
    /// What came out.
    pub report: CompileReport,
}

/// Compiles a graph: passes, records, plans, and a check of the result by the verifier. The same graph gives the
/// same bytes.
pub fn compile(graph: Graph, options: &CompileOptions) -> Result<Compiled, Error> {
    compile_observed(graph, options, &mut |_| {})
}

/// As [`compile()`], and shows the graph to `observer` before the first pass and after each.
///
/// # Errors
/// As [`compile()`].
pub fn compile_observed(
    mut graph: Graph,
    options: &CompileOptions,
    observer: Observer<'_>,
) -> Result<Compiled, Error> {
    let small = options.profiles.iter().all(|p| p.options.profile == profile::MCU);
    let usual = if small { Packing::Never } else { Packing::Always };
    passes::run(&mut graph, options.packing.as_ref().unwrap_or(&usual), observer)?;
    let scratch = options.scratch.unwrap_or(if small { ScratchClass::Small } else { ScratchClass::Fast });
    // Names of values that are computed are for people: they take memory that the smallest devices lack.
    let mut blob = lower(&graph, scratch, !small)?;
    let mut plans = Vec::new();
    for p in &options.profiles {
        plans.push(add_plan(&mut blob, p)?);
    }
    let bytes = blob.to_bytes();
    let work = check(&bytes, &blob)?;
    let report = CompileReport {
        notes: graph.notes,
        steps: blob.steps.len() as u32,
        weight_bytes: blob.weight_data.iter().map(|d| d.len() as u64).sum(),
        plans,
        work,
    };
    Ok(Compiled { bytes, report })
}

/// A compiler that writes what the verifier refuses has an error: better found here than at a load.
fn check(bytes: &[u8], blob: &Blob) -> Result<schedule::Report, Error> {
    let words = aligned(bytes);
    let program = Program::parse(bytemuck::cast_slice(&words), bytes.len() as u64)?;
    let mut live = vec![Live::default(); blob.max_live as usize];
    let mut exprs = vec![0; blob.exprs.len()];
    Ok(verify(&program, op::ALL, &Limits::default(), &mut live, &mut exprs)?)
}

/// Plans the program of `blob` and appends the records.
fn add_plan(blob: &mut Blob, p: &Profile) -> Result<PlanReport, Error> {
    let mut bounds = Vec::new();
    let names: Vec<String> = blob.symbols.iter().map(|s| text(blob, s.name)).collect();
    let open = |(s, _): &(&Symbol, &String)| s.kind != symbol_kind::COUNTER;
    let open: Vec<String> = blob.symbols.iter().zip(&names).filter(open).map(|(_, n)| n.clone()).collect();
    if let Some(name) = p.bounds.keys().find(|n| !open.contains(n)) {
        return Err(Error::unknown("size", name, open));
    }
    for (s, name) in blob.symbols.iter().zip(&names) {
        let wanted = p.bounds.get(name).copied().filter(|_| s.kind != symbol_kind::COUNTER);
        let high = wanted.unwrap_or(s.high).min(s.high);
        if high < s.low {
            return Err(Error::count(name, "bound of a size", s.low, high));
        }
        bounds.push(Bound { low: s.low, high });
    }
    let program_only = Blob { plans: Vec::new(), ..blob.clone() };
    let words = aligned(&program_only.to_bytes());
    let total = (words.len() * 8) as u64;
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    // The file may end within the last word.
    let total = program_total(bytes).unwrap_or(total);
    let program = Program::parse(bytes, total)?;
    let highs: Vec<u64> = bounds.iter().map(|b| b.high).collect();
    let mut t = Tables::new(&program);
    let planned = t.plan(&program, &highs, &p.options)?;
    let first = FirstRecords {
        bounds: blob.bounds.len() as u32,
        arenas: blob.arenas.len() as u32,
        slots: blob.slots.len() as u32,
        waves: blob.waves.len() as u32,
        slot_lists: blob.slot_lists.len() as u32,
        value_slots: blob.value_slots.len() as u32,
        scratch_slots: blob.scratch_slots.len() as u32,
    };
    let name = blob.text(&p.name);
    blob.plans.push(planned.record(&p.options, name, bounds.len() as u32, &first));
    blob.bounds.extend(bounds);
    blob.max_live = blob.max_live.max(planned.max_live);
    let bytes = |of: u32| t.arenas.iter().filter(|a| a.space == of).map(|a| a.bytes).sum();
    let report = PlanReport {
        name: p.name.clone(),
        arena_bytes: bytes(space::WORK),
        lower_bound_bytes: planned.lower_bound,
        state_bytes: bytes(space::STATE),
        param_bytes: bytes(space::PARAM),
        derived_bytes: bytes(space::DERIVED),
        waves: planned.waves,
    };
    blob.arenas.extend(t.arenas);
    blob.slots.extend(t.slots);
    blob.waves.extend(t.waves);
    blob.slot_lists.extend(t.slot_lists);
    blob.value_slots.extend(t.value_slots);
    blob.scratch_slots.extend(t.scratch_slots);
    Ok(report)
}

fn text(blob: &Blob, t: serinette_core::schedule::record::Text) -> String {
    let range = t.offset as usize..(t.offset as usize).saturating_add(t.length as usize);
    blob.strings.get(range).map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default()
}

/// The length that the header says.
fn program_total(bytes: &[u8]) -> Option<u64> {
    use serinette_core::schedule::record::Header;
    let at = std::mem::offset_of!(Header, total_bytes);
    bytes.get(at..at + 8).map(bytemuck::pod_read_unaligned)
}

/// The records of one plan.
struct Tables {
    slots: Vec<Slot>,
    value_slots: Vec<u32>,
    scratch_slots: Vec<u32>,
    waves: Vec<Wave>,
    slot_lists: Vec<u32>,
    arenas: Vec<Arena>,
}

impl Tables {
    fn new(program: &Program<'_>) -> Tables {
        let n = required(program);
        Tables {
            slots: vec![Slot::zeroed(); n.slots],
            value_slots: vec![0; n.values],
            scratch_slots: vec![0; n.steps],
            waves: vec![Wave::zeroed(); n.steps],
            slot_lists: vec![0; n.slot_lists],
            arenas: vec![Arena::zeroed(); n.arenas],
        }
    }

    fn plan(&mut self, program: &Program<'_>, highs: &[u64], options: &Options) -> Result<Planned, Error> {
        let n = required(program);
        let mut work = Workspace {
            exprs: &mut vec![0; n.exprs],
            units: &mut vec![Unit::default(); n.values],
            steps: &mut vec![StepInfo::default(); n.steps],
            blocks: &mut vec![offsets::Block::default(); n.slots],
            order: &mut vec![0; n.slots],
            trial: &mut vec![0; n.slots],
            keys: &mut vec![0; n.slots],
            best: &mut vec![0; n.slots],
            placed: &mut vec![offsets::Placed::default(); n.slots],
            loads: &mut vec![0; n.loads],
        };
        let mut out = Output {
            slots: &mut self.slots,
            value_slots: &mut self.value_slots,
            scratch_slots: &mut self.scratch_slots,
            waves: &mut self.waves,
            slot_lists: &mut self.slot_lists,
            arenas: &mut self.arenas,
        };
        let planned = plan(program, op::ALL, highs, options, &mut work, &mut out)?;
        self.slots.truncate(planned.slots as usize);
        self.waves.truncate(planned.waves as usize);
        self.slot_lists.truncate(planned.slot_lists as usize);
        self.arenas.truncate(planned.arenas as usize);
        Ok(planned)
    }
}
