//! The steps of a program with names, sizes and costs, at the bounds of one plan.

use crate::failure::Failure;
use serinette::core::Shape;
use serinette::core::op::{self, Cost};
use serinette::core::schedule::Bindings;
use serinette::core::schedule::record::{Plan, Step, step_kind};
use serinette::{DType, Model, step_cost};

/// A step.
#[derive(Clone, Debug)]
pub struct StepFacts {
    /// Its number.
    pub id: u32,
    /// Its entry.
    pub entry: u32,
    /// Name of the op, or `If`, `Else`, `Loop`, `End`.
    pub op: String,
    /// Whether it computes; otherwise it is the edge of a region.
    pub computes: bool,
    /// Name in the source model; empty if the blob kept none.
    pub name: String,
    /// Its wave in the plan.
    pub wave: u32,
    /// Whether it is the first of its wave, so that devices wait before it.
    pub barrier: bool,
    /// What it costs in a run, all trips of the loops around it together.
    pub cost: Cost,
    /// Trips of the loops around it, at most.
    pub trips: u64,
    /// Values written.
    pub outputs: Vec<u32>,
}

/// A program at the bounds of a plan.
pub struct AtBounds<'a> {
    model: &'a Model,
    /// The plan.
    pub plan: &'a Plan,
    bindings: Bindings<'a>,
    /// The steps of all entries.
    pub steps: Vec<StepFacts>,
}

impl<'a> AtBounds<'a> {
    /// Collects the steps. `exprs` are the sizes at the bounds of the plan.
    pub fn new(model: &'a Model, plan: u32, exprs: &'a [u64]) -> Result<AtBounds<'a>, Failure> {
        let program = model.program();
        let bindings = Bindings::precomputed(*program, plan, exprs)?;
        let plan = program.plans.get(plan)?;
        let mut steps = Vec::with_capacity(program.steps.len());
        for (entry, e) in program.entries.iter() {
            // The trips of the loops that are open, outermost first, each with the product of all to there.
            let mut loops: Vec<u64> = Vec::new();
            for (id, s) in program.steps.range(e.first_step, e.steps)? {
                let trips = loops.last().copied().unwrap_or(1);
                match s.kind {
                    step_kind::LOOP => {
                        let most = exprs.get(s.max_trips as usize).copied().unwrap_or(1);
                        loops.push(trips.saturating_mul(most));
                    }
                    step_kind::END if program.steps.get(s.link)?.kind == step_kind::LOOP => {
                        loops.pop();
                    }
                    _ => {}
                }
                steps.push(StepFacts {
                    id,
                    entry,
                    op: op_name(model, s)?,
                    computes: s.kind == step_kind::OP,
                    name: model.step_name(id).unwrap_or_default(),
                    wave: 0,
                    barrier: false,
                    cost: step_cost(&bindings, id)?.times(trips),
                    trips,
                    outputs: program.step_outputs(s)?.collect(),
                });
            }
        }
        let waves = program.waves.range(plan.waves[0], plan.waves[1])?;
        for (number, (_, w)) in (0u32..).zip(waves) {
            for (i, id) in (0..w.steps).enumerate() {
                if let Some(s) = steps.get_mut(w.first_step.saturating_add(id) as usize) {
                    (s.wave, s.barrier) = (number, i == 0);
                }
            }
        }
        Ok(AtBounds { model, plan, bindings, steps })
    }

    /// The dimensions of a value at the bounds.
    pub fn shape(&self, value: u32) -> Result<Shape, Failure> {
        Ok(self.bindings.shape(self.model.program().values.get(value)?)?)
    }

    /// Element type of a value; `None` if this version does not know it.
    pub fn dtype(&self, value: u32) -> Result<Option<DType>, Failure> {
        Ok(DType::from_code(self.model.program().values.get(value)?.dtype))
    }

    /// Bytes of a value at the bounds.
    pub fn bytes(&self, value: u32) -> Result<u64, Failure> {
        let size = self.dtype(value)?.map_or(1, DType::size) as u64;
        Ok(self.shape(value)?.dims().iter().fold(size, |n, d| n.saturating_mul(*d as u64)))
    }

    /// Element type and dimensions as text: `f32 [batch, 10]`; where a size is open, with the numbers at the bounds.
    pub fn describe(&self, value: u32) -> Result<String, Failure> {
        let dtype = self.dtype(value)?.map_or("?", DType::name);
        let (open, most) = (self.model.dims_text(value), format!("{:?}", self.shape(value)?.dims()));
        Ok(if open == most { format!("{dtype} {open}") } else { format!("{dtype} {open} ≤ {most}") })
    }
}

/// The op of a step, or which edge of a region it is.
pub fn op_name(model: &Model, s: &Step) -> Result<String, Failure> {
    Ok(match s.kind {
        step_kind::OP => {
            let signature = model.program().signatures.get(s.link)?;
            let found = op::find(op::ALL, signature.op, signature.version);
            found.map_or_else(|| format!("op {}", signature.op), |o| o.name.into())
        }
        step_kind::IF => "If".into(),
        step_kind::ELSE => "Else".into(),
        step_kind::LOOP => "Loop".into(),
        _ => "End".into(),
    })
}
