//! Regions: conditions and loops, as gates, unrolled, or driven by the host.

use super::{Bodies, GateId, HostInput, HostStep, Item, Lowered, Recorder, shell_error};
use crate::error::Error;
use serinette_core::schedule;
use serinette_core::schedule::record::{Step, expr_op, step_kind};
use serinette_core::{MAX_OUTPUTS, NONE, op};
use serinette_dispatch::{Command, Dispatch, Gate, Shell, Space, Window};

/// Most dispatches that a loop of known length, or one that the host drives, is unrolled to. What is recorded is kept for the
/// next run, about 200 bytes a dispatch.
const MAX_UNROLLED: u64 = 65_536;
/// Most dispatches behind gates.
const MAX_GATED: u64 = 4096;
/// Most gates of a recording.
const MAX_GATES: u64 = 1024;

impl<S: Shell> Recorder<'_, S> {
    /// Dispatches of a region's steps, nested loops unrolled; `None` where a step has no kernel.
    fn dispatches(&mut self, mut step: u32, end: u32) -> Result<Option<u64>, Error> {
        let program = *self.bindings.program();
        let mut total = 0u64;
        while step < end {
            let s = program.steps.get(step)?;
            let (count, next) = match s.kind {
                step_kind::OP => match self.lower(step, s)? {
                    Lowered::Dispatches(d, _, _) => (Some(d.len() as u64), step + 1),
                    Lowered::NoKernel => (None, step + 1),
                },
                step_kind::LOOP => {
                    self.counters.push((s.counter, 0));
                    let inner = self.dispatches(step + 1, s.link);
                    self.counters.pop();
                    let trips = self.bindings.expr(s.max_trips, &[])?;
                    (inner?.map(|n| n.saturating_add(1).saturating_mul(trips)), s.link + 1)
                }
                step_kind::IF => (Some(2), step + 1),
                _ => (Some(0), step + 1),
            };
            match count {
                Some(n) => total = total.saturating_add(n),
                None => return Ok(None),
            }
            step = next;
        }
        Ok(Some(total))
    }

    /// A scalar that is a constant of the program.
    fn known(&self, value: u32) -> Result<bool, Error> {
        let place = self.bindings.value(value, &self.counters)?.place;
        Ok(matches!(place, schedule::bind::Place::Weights { .. }))
    }

    /// Whether the trip count is still in its slot at the end of the loop: every gate reads it there. The count may die when
    /// the loop begins, or lose its slot to a result.
    fn outlasts(&self, step: u32, s: &Step, trips: u32) -> Result<bool, Error> {
        let (program, plan) = (self.bindings.program(), self.bindings.plan());
        let slot = |v: u32| program.value_slot(plan, program.values.get(v)?.root);
        let count = slot(trips)?;
        for result in program.step_outputs(s)? {
            if slot(result)? == count {
                return Ok(false);
            }
        }
        for (_, wave) in program.waves.range(plan.waves[0], plan.waves[1])? {
            if wave.first_step == step {
                let kills = plan.lists[0].saturating_add(wave.kills[0]);
                return Ok(program.slot_lists.range(kills, wave.kills[1])?.all(|(_, id)| *id != count));
            }
        }
        Ok(true)
    }

    /// Byte offset of a scalar in the arena window of a gate.
    fn offset(&self, value: u32, window: &Window) -> Result<u32, Error> {
        let range = self.layout.range(&self.bindings.value(value, &self.counters)?)?;
        Ok((range.offset - window.offset) as u32)
    }

    fn gate_window(&self, values: &[u32]) -> Result<Window, Error> {
        let mut ranges = Vec::new();
        for v in values.iter().filter(|v| **v != NONE) {
            ranges.push(self.layout.range(&self.bindings.value(*v, &self.counters)?)?);
        }
        self.layout.window(Space::Arena, &ranges).map_err(|e| Error::Device(shell_error(e)))
    }

    fn push_gate(&mut self, gate: GateId, window: Window) {
        self.gates += 1;
        self.segment.gates.push((self.segment.commands.len(), gate, window));
        // Replaced when the place of the gate's records is known.
        self.segment.commands.push(Command::Barrier);
    }

    pub(super) fn conditional(&mut self, step: u32, s: &Step, gate: Option<GateId>) -> Result<u32, Error> {
        let program = *self.bindings.program();
        let condition = program.step_inputs(s)?.next().unwrap_or(NONE);
        let other = program.steps.get(s.link)?;
        let (middle, end) =
            if other.kind == step_kind::ELSE { (s.link, other.link) } else { (s.link, s.link) };
        let second = (middle + 1).min(end);
        let count = self.dispatches(step + 1, end)?;
        let on_device = count.is_some_and(|n| n <= MAX_GATED) && self.gates + 2 <= MAX_GATES;
        if on_device && !self.tapped() && !self.known(condition)? {
            let window = self.gate_window(&[condition])?;
            let at = self.offset(condition, &window)?;
            let then = self.control.add(Some(at), false, None, gate);
            let otherwise = self.control.add(Some(at), true, None, gate);
            self.barrier();
            self.push_gate(then, window);
            self.push_gate(otherwise, window);
            self.segment.commands.push(Command::Barrier);
            self.walk(step + 1, middle, Some(then))?;
            self.barrier();
            self.walk(second, end, Some(otherwise))?;
            return Ok(end + 1);
        }
        self.not_gated(step, gate)?;
        let condition = self.scalar(condition)?;
        self.cut();
        let then = self.aside(|r| r.walk(step + 1, middle, None))?;
        let otherwise = self.aside(|r| r.walk(second, end, None))?;
        self.items.push(Item::If { condition, then, otherwise });
        Ok(end + 1)
    }

    /// A scalar as a host buffer: read from the device, or noted as a constant.
    fn scalar(&mut self, value: u32) -> Result<usize, Error> {
        let v = self.bindings.value(value, &self.counters)?;
        if let schedule::bind::Place::Weights { section, offset } = v.place {
            let buffer = self.buffer(v.bytes);
            // A copy on the host that runs before the region.
            self.cut();
            self.items.push(Item::Host(HostStep {
                step: NONE,
                kernel: NONE,
                inputs: vec![Some((v.shape, HostInput::Weights { section, offset, bytes: v.bytes }))],
                outputs: vec![(v.shape, buffer)],
                in_place: [0; MAX_OUTPUTS],
                scratch: 0,
                counters: Vec::new(),
                copied: 0,
            }));
            return Ok(buffer);
        }
        self.fetch(value)
    }

    /// Records something into items of its own.
    fn aside(&mut self, f: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<Vec<Item>, Error> {
        let outer = std::mem::take(&mut self.items);
        let result = f(self);
        self.cut();
        let inner = std::mem::replace(&mut self.items, outer);
        result.map(|()| inner)
    }

    /// Regions inside a gated one must be gated too; `dispatches` has made sure that they can be.
    fn not_gated(&self, step: u32, gate: Option<GateId>) -> Result<(), Error> {
        match gate {
            None => Ok(()),
            Some(_) => Err(Error::LongLoop { step, dispatches: self.gates, limit: MAX_GATES }),
        }
    }

    pub(super) fn counted(&mut self, step: u32, s: &Step, gate: Option<GateId>) -> Result<u32, Error> {
        let program = *self.bindings.program();
        let mut inputs = program.step_inputs(s)?;
        let (condition, trips) = (inputs.next().unwrap_or(NONE), inputs.next().unwrap_or(NONE));
        let most = self.bindings.expr(s.max_trips, &self.counters)?;
        let (body, end) = (step + 1, s.link);
        self.counters.push((s.counter, 0));
        let each = self.dispatches(body, end);
        self.counters.pop();
        let each = each?;
        let dispatches = each.map(|n| n.saturating_add(1).saturating_mul(most));
        let fixed = condition == NONE && trips == NONE;
        // Where this loop is guarded itself, its dispatches are.
        let limit = if fixed && gate.is_none() { MAX_UNROLLED } else { MAX_GATED };
        let fits = dispatches.is_some_and(|n| n <= limit);
        let gates = if fixed { 0 } else { most };
        if fits
            && (fixed || !self.tapped())
            && self.gates.saturating_add(gates) <= MAX_GATES
            && (fixed || trips == NONE || (!self.known(trips)? && self.outlasts(step, s, trips)?))
        {
            let window = self.gate_window(&[condition, trips])?;
            let mut inner = gate;
            for trip in 0..most {
                self.counters.push((s.counter, trip));
                if !fixed {
                    let at = if condition == NONE { None } else { Some(self.offset(condition, &window)?) };
                    let count =
                        if trips == NONE { None } else { Some((self.offset(trips, &window)?, trip as u32)) };
                    let opened = self.control.add(at, false, count, inner);
                    self.barrier();
                    self.push_gate(opened, window);
                    self.segment.commands.push(Command::Barrier);
                    inner = Some(opened);
                }
                self.barrier();
                let result = self.walk(body, end, inner);
                self.counters.pop();
                result?;
            }
            return Ok(end + 1);
        }
        self.not_gated(step, gate)?;
        let trips = if trips == NONE { None } else { Some(self.scalar(trips)?) };
        self.cut();
        // The condition is read anew before each trip.
        let (check, condition) = if condition == NONE {
            (Vec::new(), None)
        } else {
            let mut buffer = 0;
            let items = self.aside(|r| r.scalar(condition).map(|b| buffer = b))?;
            (items, Some(buffer))
        };
        let bodies = if !self.follows_counter(body, end, s.counter)? {
            self.counters.push((s.counter, 0));
            let items = self.aside(|r| r.walk(body, end, None));
            self.counters.pop();
            Bodies::Same(items?)
        } else if dispatches.unwrap_or(most.saturating_mul(u64::from(end - body))) <= MAX_UNROLLED {
            let mut all = Vec::new();
            for trip in 0..most {
                self.counters.push((s.counter, trip));
                let items = self.aside(|r| r.walk(body, end, None));
                self.counters.pop();
                all.push(items?);
            }
            Bodies::Each(all)
        } else {
            let dispatches = dispatches.unwrap_or(u64::MAX);
            return Err(Error::LongLoop { step, dispatches, limit: MAX_UNROLLED });
        };
        self.items.push(Item::Loop { most, trips, condition, check, bodies });
        Ok(end + 1)
    }

    /// Whether anything between two steps depends on the trip of a loop.
    fn follows_counter(&self, first: u32, end: u32, counter: u32) -> Result<bool, Error> {
        if counter == NONE {
            return Ok(false);
        }
        let program = self.bindings.program();
        for (id, s) in program.steps.range(first, end - first)? {
            if s.kind != step_kind::OP {
                continue;
            }
            let window = |v: u32| program.values.get(v).is_ok_and(|v| v.counter == counter);
            if program.step_inputs(s)?.any(window) || program.step_outputs(s)?.any(window) {
                return Ok(true);
            }
            let sig = program.signatures.get(s.link)?;
            let mut found = false;
            if let Some(d) = op::find(op::ALL, sig.op, sig.version) {
                (d.attr_exprs)(program.step_attrs(id, s)?, &mut |e| {
                    found |= program.exprs.get(e).is_ok_and(|e| e.op == expr_op::SYMBOL && e.a == counter);
                });
            }
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Puts gates and their records where they belong, now that all are known.
pub(super) fn resolve<S: Shell>(
    items: &mut [Item],
    gates: &[Gate],
    shell: &S,
    kernels: &mut Vec<u16>,
) -> Result<(), Error> {
    for item in items {
        match item {
            Item::Submit(segment) => {
                for (at, gate, window) in std::mem::take(&mut segment.gates) {
                    let Some(g) = gates.get(gate) else { continue };
                    let mut emitted = None;
                    let emit = &mut |d: Dispatch| emitted = Some(d);
                    shell.library().gate(g, shell.caps(), emit).map_err(|e| Error::Device(shell_error(e)))?;
                    let none = Window { offset: 0, bytes: 0 };
                    if let (Some(dispatch), Some(slot)) = (emitted, segment.commands.get_mut(at)) {
                        kernels.push(dispatch.kernel);
                        *slot = Command::Dispatch { dispatch, arena: window, weights: none, indirect: None };
                    }
                }
                for (at, gate, number) in std::mem::take(&mut segment.guarded) {
                    if let (Some(g), Some(Command::Dispatch { indirect, .. })) =
                        (gates.get(gate), segment.commands.get_mut(at))
                    {
                        *indirect = Some(g.first_record + number);
                    }
                }
            }
            Item::Host(_) => {}
            Item::If { then, otherwise, .. } => {
                resolve(then, gates, shell, kernels)?;
                resolve(otherwise, gates, shell, kernels)?;
            }
            Item::Loop { check, bodies, .. } => {
                resolve(check, gates, shell, kernels)?;
                match bodies {
                    Bodies::Same(items) => resolve(items, gates, shell, kernels)?,
                    Bodies::Each(all) => {
                        for items in all {
                            resolve(items, gates, shell, kernels)?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
