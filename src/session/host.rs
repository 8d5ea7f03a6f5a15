//! The host as an engine: the core executor over arenas of this process.

use super::{Engine, Outcome, Run, RunStats, SessionOptions, StepTime, Tap, shown};
use crate::buffer::Buffer;
use crate::cost::step_cost;
use crate::error::Error;
use crate::model::Model;
use serinette_core::NONE;
use serinette_core::schedule::bind::Place;
use serinette_core::schedule::exec::MAX_ARENAS;
use serinette_core::schedule::record::{SectionId, step_kind};
use serinette_core::schedule::{self, Executor, Kernel, Memory, Progress, Reason};
use std::time::Instant;

/// What is called between polls with the step that ran and the arenas.
type Between<'a> = &'a mut dyn FnMut(u32, &[Buffer]) -> Result<(), Error>;

pub(super) struct HostEngine {
    arenas: Vec<Buffer>,
    kernels: Vec<Kernel>,
    /// Where the kernels split their work, if they may.
    pool: Option<rayon::ThreadPool>,
}

impl HostEngine {
    pub(super) fn open(model: &Model, plan: u32, options: &SessionOptions) -> Result<HostEngine, Error> {
        let program = model.program();
        let plan = program.plans.get(plan)?;
        let kernels = crate::host_kernels(model, options.deterministic)?;
        let mut arenas = Vec::new();
        for i in 0..plan.arenas[1] {
            let a = program.arena(plan, i)?;
            let align = crate::buffer::ALIGN as u64;
            if a.align > align {
                return Err(
                    schedule::Error::at(Reason::Alignment, SectionId::Arenas, i, align, a.align).into()
                );
            }
            let bytes = usize::try_from(a.bytes).ok().and_then(Buffer::new);
            arenas.push(bytes.ok_or(Error::Budget { budget: 0, needed: a.bytes })?);
        }
        let pool = match options.threads {
            0 | 1 => None,
            threads => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|i| format!("serinette-{i}"))
                    .build()
                    .map_err(|e| Error::Threads { wanted: threads, reason: e.to_string() })?,
            ),
        };
        Ok(HostEngine { arenas, kernels, pool })
    }

    fn copy_inputs(&mut self, run: &Run<'_>) -> Result<(), Error> {
        let program = run.bindings.program();
        let entry = program.entries.get(run.entry)?;
        for (v, bytes) in program.entry_inputs(entry)?.zip(run.inputs) {
            if let Place::Arena { arena, offset } = run.bindings.value(v, &[])?.place {
                self.write(arena, offset, bytes)?;
            }
        }
        Ok(())
    }

    fn copy_outputs(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let program = run.bindings.program();
        let entry = program.entries.get(run.entry)?;
        for (v, out) in program.entry_outputs(entry)?.zip(run.outputs.iter_mut()) {
            let value = run.bindings.value(v, &[])?;
            let source = match value.place {
                Place::Arena { arena, offset } => {
                    self.arenas.get(arena as usize).and_then(|a| a.bytes().get(offset..))
                }
                Place::Weights { section, offset } => run.model.weights(section).get(offset..),
            };
            match source.and_then(|s| s.get(..out.bytes().len())) {
                Some(s) => out.bytes_mut().copy_from_slice(s),
                None => return Err(out_of_range(v, value.bytes, 0)),
            }
        }
        Ok(())
    }

    /// Runs an entry, in the pool if there is one.
    fn walk(&mut self, run: &Run<'_>) -> Result<Option<u32>, Error> {
        let HostEngine { arenas, kernels, pool } = self;
        let mut walk = || walk(arenas, kernels, run, u32::MAX, &mut |_, _| Ok(()));
        match pool {
            Some(pool) => pool.install(walk),
            None => walk(),
        }
    }
}

/// Runs an entry `steps` steps at a time and calls `between` after each poll.
fn walk(
    buffers: &mut [Buffer],
    kernels: &[Kernel],
    run: &Run<'_>,
    steps: u32,
    between: Between<'_>,
) -> Result<Option<u32>, Error> {
    let program = run.bindings.program();
    let mut executor = Executor::new(run.bindings, kernels, run.entry)?;
    let mut few: [&[u8]; 16] = [&[]; 16];
    let many: Vec<&[u8]>;
    let count = program.weights.len();
    let weights: &[&[u8]] = if count <= few.len() {
        few.iter_mut().zip(0..count as u32).for_each(|(w, id)| *w = run.model.weights(id));
        few.get(..count).unwrap_or(&[])
    } else {
        many = (0..count as u32).map(|id| run.model.weights(id)).collect();
        &many
    };
    loop {
        let at = executor.step();
        let progress = {
            let mut arenas: heapless::Vec<&mut [u8], MAX_ARENAS> = heapless::Vec::new();
            // The verifier bounds the number of arenas.
            arenas.extend(buffers.iter_mut().take(MAX_ARENAS).map(|a| a.bytes_mut()));
            executor.poll(&mut Memory { arenas: &mut arenas, weights }, steps)?
        };
        between(at, buffers)?;
        if progress == Progress::Done {
            return Ok(executor.fault().step());
        }
    }
}

fn out_of_range(value: u32, expected: usize, found: usize) -> Error {
    schedule::Error::at(Reason::Corrupt, SectionId::Values, value, expected as u64, found as u64).into()
}

impl Engine for HostEngine {
    fn run(&mut self, mut run: Run<'_>) -> Result<Outcome, Error> {
        self.copy_inputs(&run)?;
        let fault = self.walk(&run)?;
        self.copy_outputs(&mut run)?;
        Ok(Outcome { fault, stats: RunStats::default() })
    }

    fn run_tapped(
        &mut self,
        mut run: Run<'_>,
        wanted: Option<&[u32]>,
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outcome, Error> {
        self.copy_inputs(&run)?;
        let bindings = run.bindings;
        let program = *bindings.program();
        let fault = walk(&mut self.arenas, &self.kernels, &run, 1, &mut |at, arenas| {
            for v in shown(&program, program.steps.get(at)?, wanted)? {
                // A window that follows a loop counter has no place of its own outside the loop.
                if program.values.get(v)?.counter != NONE {
                    continue;
                }
                let value = bindings.value(v, &[])?;
                if let Place::Arena { arena, offset } = value.place {
                    let bytes =
                        arenas.get(arena as usize).and_then(|a| a.bytes().get(offset..)?.get(..value.bytes));
                    each(Tap {
                        step: at,
                        value: v,
                        dtype: value.dtype,
                        shape: value.shape.dims().to_vec(),
                        bytes: bytes.unwrap_or(&[]).to_vec(),
                    });
                }
            }
            Ok(())
        })?;
        self.copy_outputs(&mut run)?;
        Ok(Outcome { fault, stats: RunStats::default() })
    }

    fn run_timed(&mut self, mut run: Run<'_>, each: &mut dyn FnMut(StepTime)) -> Result<Outcome, Error> {
        self.copy_inputs(&run)?;
        let bindings = run.bindings;
        let HostEngine { arenas, kernels, pool } = self;
        let mut walk = || {
            let mut begun = Instant::now();
            let mut times = Vec::new();
            let fault = walk(arenas, kernels, &run, 1, &mut |at, _| {
                let time = begun.elapsed();
                if bindings.program().steps.get(at)?.kind == step_kind::OP {
                    times.push(StepTime { step: at, time, cost: step_cost(&bindings, at)? });
                }
                begun = Instant::now();
                Ok(())
            })?;
            Ok::<_, Error>((fault, times))
        };
        let (fault, times) = match pool {
            Some(pool) => pool.install(walk),
            None => walk(),
        }?;
        times.into_iter().for_each(each);
        self.copy_outputs(&mut run)?;
        Ok(Outcome { fault, stats: RunStats::default() })
    }

    fn write(&mut self, arena: u32, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let space = self.arenas.get_mut(arena as usize).and_then(|a| a.bytes_mut().get_mut(offset..));
        let space =
            space.and_then(|s| s.get_mut(..bytes.len())).ok_or(out_of_range(arena, offset, bytes.len()))?;
        space.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, arena: u32, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let space = self.arenas.get(arena as usize).and_then(|a| a.bytes().get(offset..));
        let space =
            space.and_then(|s| s.get(..bytes.len())).ok_or(out_of_range(arena, offset, bytes.len()))?;
        bytes.copy_from_slice(space);
        Ok(())
    }
}
