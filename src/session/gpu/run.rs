//! Submitting recordings, with host work in between.

use super::super::{Outcome, Run, RunStats, Tap};
use super::record::{Bodies, Copy, End, EntryPlan, HostInput, HostStep, Item};
use crate::buffer::Buffer;
use crate::error::Error;
use serinette_core::schedule::record::SectionId;
use serinette_core::schedule::{self, Kernel, Reason};
use serinette_core::{MAX_INPUTS, MAX_OUTPUTS, NONE, Shape};
use serinette_dispatch::{Buffers, Shell, Usage};
use std::time::Duration;

/// A segment, recorded.
struct Submission<R> {
    recording: R,
    inputs: Vec<Copy>,
    outputs: Vec<Copy>,
}

/// [`Item`] with recordings in place of commands.
enum Action<R> {
    Submit(Submission<R>),
    Host(HostStep),
    If {
        condition: usize,
        then: Vec<Action<R>>,
        otherwise: Vec<Action<R>>,
    },
    Loop {
        most: u64,
        trips: Option<usize>,
        condition: Option<usize>,
        check: Vec<Action<R>>,
        bodies: Vec<Vec<Action<R>>>,
    },
}

/// An entry recorded for certain sizes.
pub(super) struct Recorded<S: Shell> {
    actions: Vec<Action<S::Recording>>,
    buffers: Vec<Buffer>,
    scratch: Buffer,
    constants: Vec<(usize, u32, usize)>,
}

impl<S: Shell> Recorded<S> {
    pub(super) fn new(
        shell: &S,
        arena: &S::Buffer,
        weights: Option<&S::Buffer>,
        plan: EntryPlan,
    ) -> Result<Recorded<S>, Error> {
        shell.load_kernels(&plan.kernels)?;
        let control = shell.buffer(plan.control.len() as u64 * 4, Usage::Storage)?;
        shell.upload(&control, 0, bytemuck::cast_slice(&plan.control))?;
        let indirect = match plan.records {
            0 => None,
            n => Some(shell.buffer(u64::from(n) * 12, Usage::Indirect)?),
        };
        let buffers = Buffers { arena, weights, control: &control, indirect: indirect.as_ref() };
        let mut scratch = 0;
        let actions = convert(shell, &buffers, plan.items, &mut scratch)?;
        let allocate = |n: &usize| Buffer::new(*n).ok_or(Error::Budget { budget: 0, needed: *n as u64 });
        Ok(Recorded {
            actions,
            buffers: plan.buffers.iter().map(allocate).collect::<Result<_, _>>()?,
            scratch: allocate(&scratch)?,
            constants: plan.constants,
        })
    }

    pub(super) fn run(
        &mut self,
        shell: &S,
        kernels: &[Kernel],
        run: &mut Run<'_>,
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outcome, Error> {
        for (output, section, offset) in &self.constants {
            let Some(out) = run.outputs.get_mut(*output) else { continue };
            let len = out.bytes().len();
            if let Some(b) = run.model.weights(*section).get(*offset..).and_then(|b| b.get(..len)) {
                out.bytes_mut().copy_from_slice(b);
            }
        }
        let mut player = Player {
            shell,
            kernels,
            run,
            each,
            buffers: &mut self.buffers,
            scratch: &mut self.scratch,
            fault: 0,
            stats: RunStats::default(),
        };
        player.play(&mut self.actions)?;
        Ok(Outcome { fault: player.fault.checked_sub(1), stats: player.stats })
    }
}

fn convert<S: Shell>(
    shell: &S,
    buffers: &Buffers<'_, S::Buffer>,
    items: Vec<Item>,
    scratch: &mut usize,
) -> Result<Vec<Action<S::Recording>>, Error> {
    let mut actions = Vec::with_capacity(items.len());
    for item in items {
        actions.push(match item {
            Item::Submit(s) => {
                let own = Buffers { ..*buffers };
                // SAFETY: every dispatch of the segment was emitted by the shell's own library, for operands that
                // `Layout` placed inside the windows recorded with it; the verifier proved that slots lie in their
                // arenas and `bind` that views lie in their roots, and the buffers are as large as the layout.
                let recording = unsafe { shell.record(own, &s.commands, s.input_bytes, s.output_bytes) }?;
                Action::Submit(Submission { recording, inputs: s.inputs, outputs: s.outputs })
            }
            Item::Host(h) => {
                *scratch = (*scratch).max(h.scratch);
                Action::Host(h)
            }
            Item::If { condition, then, otherwise } => Action::If {
                condition,
                then: convert(shell, buffers, then, scratch)?,
                otherwise: convert(shell, buffers, otherwise, scratch)?,
            },
            Item::Loop { most, trips, condition, check, bodies } => {
                let all = match bodies {
                    Bodies::Same(items) => vec![items],
                    Bodies::Each(all) => all,
                };
                Action::Loop {
                    most,
                    trips,
                    condition,
                    check: convert(shell, buffers, check, scratch)?,
                    bodies: all
                        .into_iter()
                        .map(|items| convert(shell, buffers, items, scratch))
                        .collect::<Result<_, _>>()?,
                }
            }
        });
    }
    Ok(actions)
}

/// One run.
struct Player<'a, 'r, S: Shell> {
    shell: &'a S,
    kernels: &'a [Kernel],
    run: &'a mut Run<'r>,
    each: &'a mut dyn FnMut(Tap),
    buffers: &'a mut [Buffer],
    scratch: &'a mut Buffer,
    fault: u32,
    stats: RunStats,
}

impl<S: Shell> Player<'_, '_, S> {
    fn play(&mut self, actions: &mut [Action<S::Recording>]) -> Result<(), Error> {
        for action in actions {
            match action {
                Action::Submit(s) => self.submit(s)?,
                Action::Host(h) => self.host(h)?,
                Action::If { condition, then, otherwise } => {
                    let taken = self.scalar(*condition) != 0;
                    self.play(if taken { then } else { otherwise })?;
                }
                Action::Loop { most, trips, condition, check, bodies } => {
                    let wanted = trips.map_or(*most, |t| u64::try_from(self.scalar(t)).unwrap_or(0));
                    for trip in 0..wanted.min(*most) {
                        self.play(check)?;
                        if condition.is_some_and(|c| self.scalar(c) == 0) {
                            break;
                        }
                        // One body serves all trips, or each trip has its own.
                        let which = (trip as usize).min(bodies.len().saturating_sub(1));
                        if let Some(body) = bodies.get_mut(which) {
                            self.play(body)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A bool, i32 or i64 that was read back.
    fn scalar(&self, buffer: usize) -> i64 {
        match self.buffers.get(buffer).map_or(&[][..], |b| b.bytes()) {
            [b] => i64::from(*b),
            [a, b, c, d] => i64::from(i32::from_le_bytes([*a, *b, *c, *d])),
            bytes => bytes.try_into().map_or(0, i64::from_le_bytes),
        }
    }

    fn submit(&mut self, s: &mut Submission<S::Recording>) -> Result<(), Error> {
        let (inputs, outputs) = (&s.inputs, &s.outputs);
        let (run_inputs, run_outputs) = (self.run.inputs, &mut *self.run.outputs);
        let (fault, each) = (&mut self.fault, &mut *self.each);
        // Both closures need the host buffers, one to read and one to write them; they do not run at once.
        let buffers = std::cell::RefCell::new(&mut *self.buffers);
        let write = &mut |staging: &mut [u8]| {
            for c in inputs {
                let Some(to) = staging.get_mut(c.staging as usize..).and_then(|s| s.get_mut(..c.bytes))
                else {
                    continue;
                };
                match c.end {
                    End::Input(i) => fill(to, run_inputs.get(i).copied().unwrap_or(&[])),
                    End::Buffer(b) => fill(to, buffers.borrow().get(b).map_or(&[], |b| b.bytes())),
                    _ => {}
                }
            }
        };
        let read = &mut |staging: &[u8]| {
            for c in outputs {
                let from = staging.get(c.staging as usize..).and_then(|s| s.get(..c.bytes)).unwrap_or(&[]);
                match &c.end {
                    End::Output(i) => {
                        if let Some(o) = run_outputs.get_mut(*i) {
                            fill(o.bytes_mut(), from);
                        }
                    }
                    End::Buffer(b) => {
                        if let Some(b) = buffers.borrow_mut().get_mut(*b) {
                            fill(b.bytes_mut(), from);
                        }
                    }
                    End::Fault => *fault = (*fault).max(from.try_into().map_or(0, u32::from_le_bytes)),
                    End::Tap { step, value, dtype, shape } => each(Tap {
                        step: *step,
                        value: *value,
                        dtype: *dtype,
                        shape: shape.dims().to_vec(),
                        bytes: from.to_vec(),
                    }),
                    End::Input(_) => {}
                }
            }
        };
        let times = self.shell.run(&mut s.recording, write, read, self.run.timeout)?;
        if let Some(t) = times.device {
            self.stats.device_time = Some(self.stats.device_time.unwrap_or(Duration::ZERO) + t);
        }
        Ok(())
    }

    fn host(&mut self, h: &HostStep) -> Result<(), Error> {
        let corrupt =
            |expected: u64| schedule::Error::at(Reason::Corrupt, SectionId::Steps, h.step, expected, 0);
        // Outputs are taken out of the list so that inputs can be borrowed beside them.
        let mut outputs: heapless::Vec<(usize, Buffer), MAX_OUTPUTS> = heapless::Vec::new();
        for (_, id) in &h.outputs {
            let empty = Buffer::new(0).ok_or(corrupt(0))?;
            let taken = std::mem::replace(self.buffers.get_mut(*id).ok_or(corrupt(1))?, empty);
            outputs.push((*id, taken)).map_err(|_| corrupt(2))?;
        }
        let mut inputs: heapless::Vec<Option<(Shape, &[u8])>, MAX_INPUTS> = heapless::Vec::new();
        for i in &h.inputs {
            let input = match i {
                None => None,
                Some((shape, HostInput::Weights { section, offset, bytes })) => {
                    let b = self.run.model.weights(*section).get(*offset..).and_then(|b| b.get(..*bytes));
                    Some((*shape, b.ok_or(corrupt(3))?))
                }
                Some((shape, HostInput::Buffer(id))) => {
                    Some((*shape, self.buffers.get(*id).map_or(&[][..], |b| b.bytes())))
                }
            };
            inputs.push(input).map_err(|_| corrupt(4))?;
        }
        let mut results: heapless::Vec<(Shape, &mut [u8]), MAX_OUTPUTS> = heapless::Vec::new();
        for ((_, b), (shape, _)) in outputs.iter_mut().zip(&h.outputs) {
            results.push((*shape, b.bytes_mut())).map_err(|_| corrupt(5))?;
        }
        if h.step == NONE {
            // A constant scalar that the host looks at.
            if let (Some(Some((_, from))), Some((_, to))) = (inputs.first(), results.first_mut()) {
                fill(to, from);
            }
        } else {
            let kernel = *self.kernels.get(h.kernel as usize).ok_or(corrupt(6))?;
            let program = self.run.bindings.program();
            let attrs = program.step_attrs(h.step, program.steps.get(h.step)?)?;
            let scratch = self.scratch.bytes_mut().get_mut(..h.scratch).unwrap_or(&mut []);
            let expr = |e: u32| self.run.bindings.expr(e, &h.counters).ok();
            let bad = schedule::exec::call_in_place(
                kernel,
                attrs,
                &inputs,
                h.in_place,
                &mut results,
                scratch,
                &expr,
            )
            .map_err(|e| {
                schedule::Error::at(Reason::Kernel, SectionId::Steps, h.step, e.expected, e.found)
            })?;
            if bad {
                self.fault = self.fault.max(h.step + 1);
            }
            self.stats.host_steps += 1;
            self.stats.host_bytes_copied += h.copied;
        }
        drop(results);
        drop(inputs);
        for (id, b) in outputs {
            if let Some(slot) = self.buffers.get_mut(id) {
                *slot = b;
            }
        }
        Ok(())
    }
}

/// Copies as much as both have.
fn fill(to: &mut [u8], from: &[u8]) {
    let n = to.len().min(from.len());
    to[..n].copy_from_slice(&from[..n]);
}
