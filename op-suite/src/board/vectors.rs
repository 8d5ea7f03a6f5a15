//! Cases as vectors.

use crate::{Case, Tensor};
use bytemuck::bytes_of;
use serinette_core::op::{self, OpDescriptor, ScratchClass, StepShapes};
use serinette_core::{DType, MAX_OUTPUTS, MAX_RANK, Shape};
use serinette_op_suite_runner::wire::{MAGIC, Operand, Run, VERSION, Vectors};
use std::io::{self, Write};

/// A case in one placement, with one size of scratch.
pub(super) struct Job<'a> {
    pub(super) case: &'a Case,
    pub(super) op: &'static OpDescriptor,
    scratch: ScratchClass,
    in_place: Option<(u8, u8)>,
}

impl Job<'_> {
    /// The case and what makes this run of it different.
    pub(super) fn name(&self) -> String {
        let name = format!("{} (scratch {:?}", self.case.name, self.scratch);
        match self.in_place {
            Some((i, o)) => format!("{name}, output {o} over input {i})"),
            None => format!("{name})"),
        }
    }
}

/// The runs of the cases, in the order of the file.
pub(super) fn jobs(cases: &[Case]) -> io::Result<Vec<Job<'_>>> {
    let mut jobs = Vec::new();
    for case in cases {
        let op = op::find(op::ALL, case.op.0, case.op.1)
            .ok_or_else(|| io::Error::other(format!("{}: no such op", case.name)))?;
        let mut classes = vec![];
        for class in [ScratchClass::None, ScratchClass::Small, ScratchClass::Fast] {
            let bytes = scratch_bytes(case, op, class)?;
            if classes.iter().all(|(_, b)| *b != bytes) {
                classes.push((class, bytes));
            }
        }
        for in_place in std::iter::once(None).chain(case.in_place.iter().copied().map(Some)) {
            jobs.extend(classes.iter().map(|(scratch, _)| Job { case, op, scratch: *scratch, in_place }));
        }
    }
    Ok(jobs)
}

fn scratch_bytes(case: &Case, op: &OpDescriptor, class: ScratchClass) -> io::Result<u64> {
    let shape = |t: &Tensor| {
        Shape::new(&t.dims).ok_or_else(|| io::Error::other(format!("{}: rank of {:?}", case.name, t.dims)))
    };
    let inputs =
        case.inputs.iter().map(|t| t.as_ref().map(shape).transpose()).collect::<Result<Vec<_>, _>>()?;
    let outputs = case.outputs.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
    // An absent input has no bytes, so any type serves.
    let types = case.inputs.iter().map(|t| t.as_ref().map_or(DType::U8, |t| t.dtype));
    let dtypes: Vec<_> = types.chain(case.outputs.iter().map(|t| t.dtype)).collect();
    let step = StepShapes { attrs: &case.attrs, inputs: &inputs, outputs: &outputs, dtypes: &dtypes };
    Ok((op.scratch)(&step, class))
}

/// Writes the vectors of the cases; gives the number of runs.
pub fn write_vectors(cases: &[Case], to: &mut dyn Write) -> io::Result<u32> {
    let jobs = jobs(cases)?;
    let runs = u32::try_from(jobs.len()).map_err(io::Error::other)?;
    to.write_all(bytes_of(&Vectors { magic: MAGIC, version: VERSION, runs }))?;
    for job in &jobs {
        write_job(job, to)?;
    }
    Ok(runs)
}

fn write_job(job: &Job<'_>, to: &mut dyn Write) -> io::Result<()> {
    let case = job.case;
    let count = |n: usize| u8::try_from(n).map_err(io::Error::other);
    let length = |n: usize| u32::try_from(n).map_err(io::Error::other);
    let mut in_place = [0; MAX_OUTPUTS];
    if let Some((i, o)) = job.in_place {
        let space = in_place.get_mut(usize::from(o));
        *space.ok_or_else(|| io::Error::other(format!("{}: output {o} in place", case.name)))? = i + 1;
    }
    let run = Run {
        op: job.op.code,
        version: job.op.version,
        inputs: count(case.inputs.len())?,
        outputs: count(case.outputs.len())?,
        scratch: job.scratch as u8,
        reserved: 0,
        in_place,
        attr_bytes: length(case.attrs.len())?,
        exprs: length(case.exprs.len())?,
    };
    to.write_all(bytes_of(&run))?;
    for t in case.inputs.iter().map(Option::as_ref).chain(case.outputs.iter().map(Some)) {
        to.write_all(bytes_of(&operand(t)?))?;
    }
    to.write_all(&case.attrs)?;
    for value in &case.exprs {
        to.write_all(&value.to_le_bytes())?;
    }
    for t in case.inputs.iter().flatten() {
        to.write_all(&t.bytes)?;
    }
    Ok(())
}

fn operand(tensor: Option<&Tensor>) -> io::Result<Operand> {
    let mut operand = Operand { dims: [0; MAX_RANK], bytes: 0, dtype: 0, rank: 0, reserved: [0; 6] };
    let Some(t) = tensor else { return Ok(operand) };
    if t.dims.len() > MAX_RANK {
        return Err(io::Error::other(format!("rank of {:?}", t.dims)));
    }
    operand.dims.iter_mut().zip(&t.dims).for_each(|(to, d)| *to = *d as u64);
    Ok(Operand { bytes: t.bytes.len() as u64, dtype: t.dtype.code(), rank: t.dims.len() as u8, ..operand })
}
