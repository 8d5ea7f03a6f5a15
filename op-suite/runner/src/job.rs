//! One run: read it, check it, call the kernel.

use crate::carve::{padded, take};
use crate::step::{Inputs, MAX_OPERANDS, Outputs, Step, put, shared_output};
use crate::wire::{Operand, Outcome, Run, Status};
use crate::{Device, Error, Link};
use bytemuck::{Zeroable, bytes_of_mut, cast_slice_mut};
use serinette_core::schedule::exec::call_in_place;
use serinette_core::{MAX_INPUTS, MAX_OUTPUTS, Shape};

/// How a run ended, and its outputs.
pub(crate) type Ended<'m> = (Outcome, Outputs<&'m [u8]>);

/// Runs what comes next in the stream. An error is one of the stream; whatever happens to the case itself is an outcome,
/// after which the stream is at the next run.
pub(crate) fn run<'m>(
    link: &mut dyn Link,
    memory: &'m mut [u8],
    device: Device<'_>,
    number: u32,
) -> Result<Ended<'m>, Error> {
    let mut run = Run::zeroed();
    link.read(bytes_of_mut(&mut run))?;
    let (inputs, outputs) = (usize::from(run.inputs), usize::from(run.outputs));
    if inputs > MAX_INPUTS || outputs == 0 || outputs > MAX_OUTPUTS {
        return Err(Error::Operands(number));
    }
    let mut table = [Operand::zeroed(); MAX_OPERANDS];
    let operands = table.get_mut(..inputs + outputs).unwrap_or(&mut []);
    link.read(cast_slice_mut(operands))?;
    let operands = &*operands;
    let payload = operands.iter().take(inputs).filter(|o| o.dtype != 0);
    let payload = payload.fold(0u64, |sum, o| sum.saturating_add(o.bytes));
    let total = memory.len() as u64;

    let mut rest = memory;
    let (attr_bytes, expr_bytes) = (u64::from(run.attr_bytes), u64::from(run.exprs) * 8);
    let (Some(attrs), Some(exprs)) = (take(&mut rest, attr_bytes), take(&mut rest, expr_bytes)) else {
        skip(link, (attr_bytes + expr_bytes).saturating_add(payload))?;
        return Ok(without_memory(padded(attr_bytes) + padded(expr_bytes), total));
    };
    link.read(attrs)?;
    link.read(exprs)?;
    let (attrs, exprs) = (&*attrs, &*exprs);

    let step = match Step::new(&run, operands, attrs, device) {
        Ok(step) => step,
        Err(refused) => {
            skip(link, payload)?;
            return Ok((refused, Outputs::new()));
        }
    };
    let needed = step.needed(&run, operands);
    let Some(places) = Places::new(rest, &run, operands, &step) else {
        skip(link, payload)?;
        return Ok(without_memory(needed, total));
    };
    let (outcome, outputs) = places.compute(link, &run, &step, attrs, exprs)?;
    Ok((Outcome { needed, ..outcome }, outputs))
}

/// The bytes of every operand.
struct Places<'m> {
    /// `None` for inputs that are absent or lie in an output.
    inputs: Inputs<Option<&'m mut [u8]>>,
    outputs: Outputs<&'m mut [u8]>,
    scratch: &'m mut [u8],
}

impl<'m> Places<'m> {
    /// `None` if memory does not suffice.
    fn new(mut rest: &'m mut [u8], run: &Run, operands: &[Operand], step: &Step) -> Option<Places<'m>> {
        let (mut inputs, mut outputs) = (Inputs::new(), Outputs::new());
        let (given, written) = operands.split_at_checked(usize::from(run.inputs))?;
        for (i, o) in given.iter().enumerate() {
            let own = o.dtype != 0 && shared_output(run, i).is_none();
            put(&mut inputs, if own { Some(take(&mut rest, o.bytes)?) } else { None });
        }
        for o in written {
            put(&mut outputs, take(&mut rest, o.bytes)?);
        }
        Some(Places { inputs, outputs, scratch: take(&mut rest, step.scratch)? })
    }

    /// Reads the inputs and calls the kernel.
    fn compute(
        mut self,
        link: &mut dyn Link,
        run: &Run,
        step: &Step,
        attrs: &[u8],
        exprs: &[u8],
    ) -> Result<Ended<'m>, Error> {
        // A kernel must not count on zeros.
        self.outputs.iter_mut().for_each(|bytes| bytes.fill(0xcd));
        self.scratch.fill(0xff);
        let mut given: Inputs<Option<(Shape, &[u8])>> = Inputs::new();
        for (i, (own, shape)) in self.inputs.into_iter().zip(&step.inputs).enumerate() {
            let shared = shared_output(run, i).and_then(|o| self.outputs.get_mut(o));
            let bytes: &[u8] = match (own, shared) {
                (Some(bytes), _) => {
                    link.read(bytes)?;
                    bytes
                }
                // What is given for an input in place is not looked at.
                (None, Some(bytes)) => {
                    link.read(bytes)?;
                    &[]
                }
                (None, None) => &[],
            };
            put(&mut given, shape.map(|s| (s, bytes)));
        }
        let mut written: Outputs<(Shape, &mut [u8])> =
            step.outputs.iter().copied().zip(self.outputs).collect();
        let expr = |id: u32| {
            let at = usize::try_from(id).ok()?.checked_mul(8)?;
            Some(u64::from_le_bytes(*exprs.get(at..)?.first_chunk()?))
        };
        let done = call_in_place(step.kernel, attrs, &given, run.in_place, &mut written, self.scratch, &expr);
        Ok(match done {
            Err(e) => (Outcome::new(Status::Refused, e.what, e.expected, e.found), Outputs::new()),
            Ok(fault) => {
                let status = if fault { Status::Fault } else { Status::Done };
                let outputs = written.into_iter().map(|(_, bytes)| &*bytes).collect();
                (Outcome::new(status, "", 0, 0), outputs)
            }
        })
    }
}

/// Reads and drops bytes of a case that is not run.
fn skip(link: &mut dyn Link, mut bytes: u64) -> Result<(), Error> {
    let mut dropped = [0; 256];
    while bytes > 0 {
        let part = bytes.min(dropped.len() as u64);
        link.read(dropped.get_mut(..part as usize).unwrap_or(&mut []))?;
        bytes -= part;
    }
    Ok(())
}

fn without_memory<'m>(needed: u64, total: u64) -> Ended<'m> {
    (Outcome { needed, ..Outcome::new(Status::Memory, "memory", total, needed) }, Outputs::new())
}
