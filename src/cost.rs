//! What steps cost, at sizes that are bound or at the bounds of a plan.

use crate::error::Error;
use crate::model::Model;
use serinette_core::op::{self, Cost, StepShapes};
use serinette_core::schedule::Bindings;
use serinette_core::schedule::expr::evaluate;
use serinette_core::schedule::record::{Plan, step_kind};
use serinette_core::{DType, NONE};

/// What one visit of a step costs; nothing for the edge of a region and for an op that this version does not know.
///
/// # Errors
/// A step that is not there, and shapes that the bindings do not give.
pub fn step_cost(bindings: &Bindings<'_>, at: u32) -> Result<Cost, Error> {
    let program = bindings.program();
    let step = program.steps.get(at)?;
    if step.kind != step_kind::OP {
        return Ok(Cost::default());
    }
    let signature = program.signatures.get(step.link)?;
    let Some(op) = op::find(op::ALL, signature.op, signature.version) else { return Ok(Cost::default()) };
    // The shape of a window does not depend on where it is.
    let shape = |v: u32| bindings.shape(program.values.get(v)?);
    let mut inputs = Vec::new();
    for v in program.step_inputs(step)? {
        inputs.push(if v == NONE { None } else { Some(shape(v)?) });
    }
    let outputs = program.step_outputs(step)?.map(shape).collect::<Result<Vec<_>, _>>()?;
    let count = usize::from(signature.inputs) + usize::from(signature.outputs);
    let types = signature.dtypes.iter().take(count);
    let dtypes: Vec<DType> = types.map(|c| DType::from_code(*c).unwrap_or(DType::U8)).collect();
    let attrs = program.step_attrs(at, step)?;
    Ok((op.cost)(&StepShapes { attrs, inputs: &inputs, outputs: &outputs, dtypes: &dtypes }))
}

impl Model {
    /// The value of every expression with the sizes at the upper bounds of a plan, for which its memory is laid out.
    /// [`Bindings::precomputed`] makes shapes of them.
    ///
    /// # Errors
    /// A plan that does not belong to the program.
    pub fn sizes_at_bounds(&self, plan: &Plan) -> Result<Vec<u64>, Error> {
        let program = self.program();
        let bounds = program.bounds.range(plan.bounds[0], plan.bounds[1])?;
        let highs: Vec<u64> = bounds.map(|(_, b)| b.high).collect();
        let mut values = vec![0; program.exprs.len()];
        evaluate(program, &highs, &mut values)?;
        Ok(values)
    }
}
