//! What a session needs, known before anything is allocated.

use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use serinette_core::schedule::Bindings;
use serinette_core::schedule::record::{role, space, step_kind, view};

/// Memory and work of a session, at the bounds of the plan that it would take. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Plan taken.
    pub plan: u32,
    /// Work arenas: inputs, intermediates, outputs, scratch.
    pub arena: u64,
    /// Largest sum of live bytes: no plan can be smaller.
    pub arena_lower_bound: u64,
    /// State kept between runs.
    pub state: u64,
    /// Params that can be set.
    pub params: u64,
    /// Values that `prepare` derives from weights and params.
    pub derived: u64,
    /// Weights: uploaded once for a device, mapped from the file on the host.
    pub weights: u64,
    /// Host-visible staging memory of one recording of the largest entry: its inputs and outputs.
    pub staging: u64,
    /// Memory in which a thread of the host kernels packs and transforms operands, at most.
    pub workspace: u64,
    /// Copies of outputs that the session keeps for the caller.
    pub outputs: u64,
    /// Distinct (op, element types) pairs: at least as many pipelines on a device.
    pub signatures: u32,
    /// Worst case of an entry: multiply-adds.
    pub macs: u64,
    /// Worst case of an entry: bytes moved by its steps.
    pub bytes_moved: u64,
}

impl Requirements {
    pub(crate) fn of(model: &Model, device: &Device, sizes: &[(&str, u64)]) -> Result<Requirements, Error> {
        let program = model.program();
        let (plan_id, plan) = model.plan_for(device.parallel(), sizes)?;
        let mut r = Requirements {
            plan: plan_id,
            arena_lower_bound: plan.lower_bound,
            signatures: program.signatures.len() as u32,
            macs: model.report().macs,
            bytes_moved: model.report().bytes,
            workspace: workspace(model, plan_id)?,
            ..Default::default()
        };
        for i in 0..plan.arenas[1] {
            let a = program.arena(plan, i)?;
            let sum = match a.space {
                space::STATE => &mut r.state,
                space::PARAM => &mut r.params,
                space::DERIVED => &mut r.derived,
                _ => &mut r.arena,
            };
            *sum = sum.saturating_add(a.bytes);
        }
        let weights = program.weights.iter().filter(|(id, _)| model.holds_values(*id));
        r.weights = weights.fold(0, |n, (_, w)| n.saturating_add(w.bytes));
        for (_, e) in program.entries.iter() {
            let size = |v: u32| -> Result<u64, Error> {
                let value = program.values.get(v)?;
                if value.view == view::NONE && !matches!(value.role, role::CONSTANT | role::WEIGHT) {
                    let slot = program.value_slot(plan, v)?;
                    return Ok(program.slot(plan, slot)?.bytes);
                }
                let root = program.values.get(value.root)?;
                if matches!(root.role, role::CONSTANT | role::WEIGHT) {
                    return Ok(root.data_bytes);
                }
                Ok(program.slot(plan, program.value_slot(plan, value.root)?)?.bytes)
            };
            let mut inputs = 0u64;
            for v in program.entry_inputs(e)? {
                inputs = inputs.saturating_add(size(v)?);
            }
            let mut outputs = 0u64;
            for v in program.entry_outputs(e)? {
                outputs = outputs.saturating_add(size(v)?);
            }
            r.outputs = r.outputs.saturating_add(outputs);
            r.staging = r.staging.max(inputs.saturating_add(outputs));
        }
        if !device.parallel() {
            r.staging = 0;
        }
        Ok(r)
    }

    /// Bytes that opening a session on a device allocates (on the host the weights stay mapped).
    pub fn total(&self, device: &Device) -> u64 {
        let weights = if device.parallel() { self.weights } else { 0 };
        [self.arena, self.state, self.params, self.derived, self.staging, self.outputs]
            .iter()
            .fold(weights, |n, b| n.saturating_add(*b))
    }
}

/// The largest workspace that a thread of the host kernels takes for any step, at the bounds of a plan.
fn workspace(model: &Model, plan: u32) -> Result<u64, Error> {
    use serinette_host_kernels::fast;
    let program = *model.program();
    let sizes = model.sizes_at_bounds(program.plans.get(plan)?)?;
    let bindings = Bindings::precomputed(program, plan, &sizes)?;
    let mut most = fast::WORKSPACE_BYTES;
    for (_, step) in program.steps.iter().filter(|(_, s)| s.kind == step_kind::OP) {
        let signature = program.signatures.get(step.link)?;
        if !fast::wants_more_workspace(signature) {
            continue;
        }
        let shape = |v: u32| bindings.shape(program.values.get(v)?);
        let inputs = program.step_inputs(step)?.take(2).map(shape).collect::<Result<Vec<_>, _>>()?;
        let outputs = program.step_outputs(step)?.take(1).map(shape).collect::<Result<Vec<_>, _>>()?;
        if let ([x, w], [y]) = (&inputs[..], &outputs[..]) {
            most = most.max(fast::workspace_bytes(signature, x, w, y));
        }
    }
    Ok(most as u64)
}
