//! Makes plans from lists of what each wave defines and kills.

use super::build::{Build, PlanModel, WaveModel};
use serinette_compiler::blob::Blob;
use serinette_core::DType;
use serinette_core::NONE;
use serinette_core::schedule::record::*;

/// A wave in terms of values.
#[derive(Clone, Debug, Default)]
pub struct DraftWave {
    /// Steps.
    pub steps: u32,
    /// Roots that become live.
    pub defs: Vec<u32>,
    /// Roots that die.
    pub kills: Vec<u32>,
}

/// What is needed to make a plan: waves, and which values share a slot.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Waves in order.
    pub waves: Vec<DraftWave>,
    /// `(a, b)`: value `b` takes the slot of value `a`, which is in no other pair as `b`.
    pub same: Vec<(u32, u32)>,
    /// Step, wave and bytes at the bounds of scratch.
    pub scratch: Vec<(u32, usize, u64)>,
}

impl Draft {
    /// Starts a wave.
    pub fn wave(&mut self, steps: u32, defs: &[u32], kills: &[u32]) {
        self.waves.push(DraftWave { steps, defs: defs.to_vec(), kills: kills.to_vec() });
    }

    /// The value whose slot `value` takes.
    pub fn slot_owner(&self, value: u32) -> u32 {
        let mut v = value;
        while let Some((a, _)) = self.same.iter().find(|(_, b)| *b == v) {
            v = *a;
        }
        v
    }

    /// The same program with one step a wave.
    pub fn single(&self) -> Draft {
        let mut out = Draft { same: self.same.clone(), ..Draft::default() };
        for (old, w) in self.waves.iter().enumerate() {
            let first = out.waves.len();
            out.waves.extend((0..w.steps).map(|_| DraftWave { steps: 1, ..DraftWave::default() }));
            out.waves[first].defs.clone_from(&w.defs);
            out.waves.last_mut().unwrap().kills.clone_from(&w.kills);
            let before: u32 = self.waves[..old].iter().map(|w| w.steps).sum();
            let here = self.scratch.iter().filter(|s| s.1 == old);
            out.scratch
                .extend(here.map(|(step, _, bytes)| (*step, (*step - before) as usize + first, *bytes)));
        }
        out
    }

    /// The plan for symbols up to `high`, slots packed first-fit.
    pub fn plan(&self, build: &Build, bounds: &[[u64; 2]], align: u32) -> PlanModel {
        let blob = &build.blob;
        let high: Vec<u64> = bounds.iter().map(|b| b[1]).collect();
        let exprs = evaluate(&blob.exprs, &high);
        let bytes = |v: &Value| -> u64 {
            let dims = &blob.dims[v.dims as usize..][..v.rank.into()];
            let size = DType::from_code(v.dtype).unwrap().size() as u64;
            dims.iter().map(|d| exprs[*d as usize]).product::<u64>() * size
        };
        let mut plan = PlanModel { bounds: bounds.to_vec(), align, ..PlanModel::default() };
        plan.arenas = vec![(space::WORK, 0)];
        plan.value_slots = vec![NONE; blob.values.len()];
        plan.scratch_slots = vec![NONE; blob.steps.len()];
        for (id, v) in blob.values.iter().enumerate().filter(|(_, v)| v.view == view::NONE) {
            if !matches!(v.role, role::INTERMEDIATE | role::INPUT) {
                continue;
            }
            let owner = self.slot_owner(id as u32) as usize;
            let slot = plan.value_slots[owner];
            plan.value_slots[id] = if slot == NONE {
                plan.slots.push((0, 0, 4));
                plan.slots.len() as u32 - 1
            } else {
                slot
            };
            plan.value_slots[owner] = plan.value_slots[id];
            let s = &mut plan.slots[plan.value_slots[id] as usize];
            s.2 = s.2.max(bytes(v).next_multiple_of(4));
        }
        let slot_of = |v: &u32| plan.value_slots[*v as usize];
        plan.waves = self
            .waves
            .iter()
            .map(|w| WaveModel {
                steps: w.steps,
                defs: w.defs.iter().map(slot_of).collect(),
                kills: w.kills.iter().map(slot_of).collect(),
            })
            .collect();
        for (step, wave, bytes) in &self.scratch {
            let slot = plan.slots.len() as u32;
            plan.slots.push((0, 0, bytes.next_multiple_of(4)));
            plan.scratch_slots[*step as usize] = slot;
            plan.waves[*wave].defs.push(slot);
            plan.waves[*wave].kills.push(slot);
        }
        pack(blob, &mut plan);
        for (r, space) in
            [(role::STATE, space::STATE), (role::PARAM, space::PARAM), (role::DERIVED, space::DERIVED)]
        {
            let mut at = 0;
            for (id, v) in blob.values.iter().enumerate().filter(|(_, v)| v.role == r && v.view == view::NONE)
            {
                let n = bytes(v).max(4).next_multiple_of(4);
                plan.value_slots[id] = plan.slots.len() as u32;
                plan.slots.push((plan.arenas.len() as u32, at, n));
                at = (at + n).next_multiple_of(align.into());
            }
            if at > 0 {
                plan.arenas.push((space, at.next_multiple_of(8)));
            }
        }
        plan
    }
}

/// Packs a plan that was changed, so that every mistake about what is live lets two slots share addresses. Nothing
/// happens where the records are too broken for that.
pub fn repack(blob: &Blob, plan: &mut PlanModel) {
    let slots = plan.slots.len();
    let known = |ids: &[u32]| ids.iter().all(|s| (*s as usize) < slots);
    let input = |v: &u32| plan.value_slots.get(*v as usize).is_some_and(|s| known(&[*s]));
    let entries = blob.entries.iter().all(|e| {
        let last = e.first_step.checked_add(e.steps).is_some();
        let first = e.operands as usize;
        let inputs = blob.operands.get(first..first.saturating_add(e.inputs as usize));
        last && inputs.is_some_and(|i| i.iter().all(input))
    });
    let waves = plan.waves.iter().all(|w| known(&w.defs) && known(&w.kills) && w.steps < 1 << 16);
    let sizes = plan.slots.iter().all(|s| s.2 < 1 << 32) && plan.align.is_power_of_two();
    if entries && waves && sizes && !plan.arenas.is_empty() {
        pack(blob, plan);
    }
}

/// Gives the slots of the work arena addresses: first fit, in the order in which they become live.
fn pack(blob: &Blob, plan: &mut PlanModel) {
    let mut live: Vec<(u64, u64, u32)> = Vec::new();
    let align = u64::from(plan.align);
    let mut peak = 0;
    let mut place = |slots: &mut Vec<(u32, u64, u64)>, live: &mut Vec<(u64, u64, u32)>, id: u32| {
        let bytes = slots[id as usize].2;
        live.sort_unstable();
        let mut at = 0;
        for (start, end, _) in live.iter() {
            if at + bytes <= *start {
                break;
            }
            at = at.max(end.next_multiple_of(align));
        }
        slots[id as usize].1 = at;
        live.push((at, at + bytes, id));
        peak = peak.max(at + bytes);
    };
    let (mut waves, mut step) = (plan.waves.iter().peekable(), 0);
    for e in &blob.entries {
        live.clear();
        for v in &blob.operands[e.operands as usize..][..e.inputs as usize] {
            place(&mut plan.slots, &mut live, plan.value_slots[*v as usize]);
        }
        while step < e.first_step + e.steps {
            let Some(w) = waves.next() else { return };
            step += w.steps;
            w.defs.iter().for_each(|s| place(&mut plan.slots, &mut live, *s));
            live.retain(|l| !w.kills.contains(&l.2));
        }
    }
    plan.arenas[0].1 = peak.max(8).next_multiple_of(8);
}

/// Values of expressions, unchecked: for the programs that the harness writes itself.
pub fn evaluate(exprs: &[Expr], symbols: &[u64]) -> Vec<u64> {
    let mut out: Vec<u64> = Vec::new();
    for e in exprs {
        let (a, b) = (|| out[e.a as usize], || out[e.b as usize]);
        out.push(match e.op {
            expr_op::CONSTANT => e.b,
            expr_op::SYMBOL => symbols[e.a as usize],
            expr_op::ADD => a() + b(),
            expr_op::MUL => a() * b(),
            expr_op::DIV_FLOOR => a() / e.b,
            expr_op::DIV_CEIL => a().div_ceil(e.b),
            expr_op::MIN => a().min(b()),
            expr_op::MAX => a().max(b()),
            _ => a().saturating_sub(e.b),
        });
    }
    out
}
