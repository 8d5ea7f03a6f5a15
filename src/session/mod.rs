//! Sessions: a model on a device with its own memory and state.

#[cfg(any(feature = "vulkan", feature = "wgpu"))]
mod gpu;
mod host;
mod state;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::requirements::Requirements;
use crate::tensor::TensorView;
use serinette_core::op::{self, Cost};
use serinette_core::schedule::bind::{bind, solve_symbols};
use serinette_core::schedule::record::{Entry, Step, entry_kind, role, step_kind, symbol_kind, view};
use serinette_core::schedule::{self, Bindings};
use serinette_core::{DType, NONE, Shape};
use std::time::Duration;

pub use state::SavedState;

/// How to open a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Most bytes to allocate; opening fails rather than exceed it.
    pub budget: Option<u64>,
    /// Whether an index out of range is an error (the default) or only reads zero.
    pub bad_index_is_error: bool,
    /// Longest wait for a device.
    pub timeout: Duration,
    /// Threads that the host kernels may use, at least 1.
    pub threads: usize,
    /// Steps on the host take the reference kernels: slower, but with the same bits on every processor.
    pub deterministic: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            budget: None,
            bad_index_is_error: true,
            timeout: Duration::from_secs(60),
            threads: 1,
            deterministic: false,
        }
    }
}

/// What a run did besides computing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Steps that had no kernel on the device and ran on the host.
    pub host_steps: u32,
    /// Bytes copied between device and host for them.
    pub host_bytes_copied: u64,
    /// Time on the device, where it can be measured.
    pub device_time: Option<Duration>,
}

/// A value seen after a step, for comparing devices.
#[derive(Clone, Debug)]
pub struct Tap {
    /// Step that wrote it.
    pub step: u32,
    /// Value.
    pub value: u32,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// What a step shows to who looks at values: its results, or those of `wanted` whose memory it has written. The end
/// of a loop writes what the loop carries.
pub(crate) fn shown(
    program: &schedule::Program<'_>,
    step: &Step,
    wanted: Option<&[u32]>,
) -> Result<Vec<u32>, Error> {
    let mut written: Vec<u32> = match step.kind {
        step_kind::OP => program.step_outputs(step)?.collect(),
        step_kind::END if wanted.is_some() => {
            let open = program.steps.get(step.link)?;
            let carried = if open.kind == step_kind::LOOP { 2 } else { usize::MAX };
            program.step_inputs(open)?.skip(carried).collect()
        }
        _ => Vec::new(),
    };
    written.retain(|v| *v != NONE);
    let Some(wanted) = wanted else { return Ok(written) };
    let root = |v: u32| program.values.get(v).map(|v| v.root);
    let roots: Vec<u32> = written.iter().map(|v| root(*v)).collect::<Result<_, _>>()?;
    let mut shown = Vec::new();
    for v in wanted {
        if roots.contains(&root(*v)?) {
            shown.push(*v);
        }
    }
    Ok(shown)
}

/// How long a step took.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// The step.
    pub step: u32,
    /// From its start to its end.
    pub time: Duration,
    /// What it had to do.
    pub cost: Cost,
}

/// What is looked at during a run.
pub(crate) enum Watch<'a> {
    Nothing,
    /// Every value that a step writes, or these.
    Values(Option<&'a [u32]>, &'a mut dyn FnMut(Tap)),
    Times(&'a mut dyn FnMut(StepTime)),
}

/// What an engine is given for a run.
#[cfg_attr(
    not(any(feature = "vulkan", feature = "wgpu")),
    expect(dead_code, reason = "the host's engine keeps no recordings and waits for nothing")
)]
pub(crate) struct Run<'a> {
    pub model: &'a Model,
    pub bindings: Bindings<'a>,
    /// Changes whenever sizes do: engines keep recordings by it.
    pub symbols: &'a [u64],
    pub entry: u32,
    /// Bytes of the inputs, in the entry's order, each as long as its tensor.
    pub inputs: &'a [&'a [u8]],
    /// Where the outputs go, in the entry's order, sized by the engine's caller.
    pub outputs: &'a mut [Buffer],
    pub timeout: Duration,
}

/// What a run of an engine gives.
#[derive(Default)]
pub(crate) struct Outcome {
    pub stats: RunStats,
    /// The step with an index out of range.
    pub fault: Option<u32>,
}

/// A device as a session sees it.
pub(crate) trait Engine: Send {
    fn run(&mut self, run: Run<'_>) -> Result<Outcome, Error>;
    /// Runs an entry step by step and shows every value after the step that wrote it; of `wanted` values each time that their
    /// memory was written, and those that a loop carries also when it ends.
    fn run_tapped(
        &mut self,
        run: Run<'_>,
        wanted: Option<&[u32]>,
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outcome, Error>;
    /// Runs an entry step by step and gives the time of each.
    fn run_timed(&mut self, _run: Run<'_>, _each: &mut dyn FnMut(StepTime)) -> Result<Outcome, Error> {
        Err(Error::HostOnly { what: "times of single steps" })
    }
    /// Writes a range of an arena of the plan.
    fn write(&mut self, arena: u32, offset: usize, bytes: &[u8]) -> Result<(), Error>;
    /// Reads a range of an arena of the plan.
    fn read(&mut self, arena: u32, offset: usize, bytes: &mut [u8]) -> Result<(), Error>;
}

/// A model opened on a device: its own memory, params and state. One run at a time (`&mut self`).
pub struct Session {
    model: Model,
    device: Device,
    options: SessionOptions,
    plan: u32,
    /// The value of every symbol now.
    symbols: Vec<u64>,
    wanted: Vec<Option<u64>>,
    exprs: Vec<u64>,
    bound: bool,
    engine: Box<dyn Engine>,
    /// Outputs of each entry, as of its last run.
    outputs: Vec<Vec<Buffer>>,
    /// Params that were never set.
    missing: Vec<u32>,
    /// The entry that computes derived values, if there is one.
    prepare: Option<u32>,
    /// Whether derived values are up to date.
    prepared: bool,
    /// What each entry writes that outlives it.
    writes: Vec<Writes>,
    poisoned: bool,
    stats: RunStats,
}

/// What an entry writes that outlives it.
#[derive(Clone, Copy, Default)]
struct Writes {
    state: bool,
    params: bool,
}

impl Model {
    /// Opens a session on a device, for all sizes that the model can have.
    pub fn session(&self, device: &Device, options: &SessionOptions) -> Result<Session, Error> {
        Session::open(self, device, options, &[])
    }

    /// Opens a session that keeps to certain sizes, on the smallest plan that admits them.
    pub fn session_for(
        &self,
        device: &Device,
        options: &SessionOptions,
        sizes: &[(&str, u64)],
    ) -> Result<Session, Error> {
        Session::open(self, device, options, sizes)
    }
}

impl Session {
    fn open(
        model: &Model,
        device: &Device,
        options: &SessionOptions,
        sizes: &[(&str, u64)],
    ) -> Result<Session, Error> {
        let needed = Requirements::of(model, device, sizes)?;
        if let Some(budget) = options.budget
            && needed.total(device) > budget
        {
            return Err(Error::Budget { budget, needed: needed.total(device) });
        }
        let program = model.program();
        let plan = needed.plan;
        let engine: Box<dyn Engine> = match device {
            Device::Host => Box::new(host::HostEngine::open(model, plan, options)?),
            #[cfg(feature = "vulkan")]
            Device::Vulkan(d) => Box::new(gpu::GpuEngine::open(d.clone(), model, plan, options)?),
            #[cfg(feature = "wgpu")]
            Device::Wgpu(d) => Box::new(gpu::GpuEngine::open(d.clone(), model, plan, options)?),
        };
        let plan_record = program.plans.get(plan)?;
        let mut symbols = Vec::with_capacity(program.symbols.len());
        for (id, s) in program.symbols.iter() {
            let low = program.bounds.get(plan_record.bounds[0].saturating_add(id))?.low;
            symbols.push(low.next_multiple_of(s.multiple_of.max(1)));
        }
        let prepare = program.entries.iter().find(|(_, e)| e.kind == entry_kind::PREPARE).map(|(id, _)| id);
        let mut session = Session {
            plan,
            wanted: vec![None; symbols.len()],
            exprs: vec![0; program.exprs.len()],
            bound: false,
            engine,
            outputs: program.entries.iter().map(|_| Vec::new()).collect(),
            missing: Vec::new(),
            prepare,
            prepared: prepare.is_none(),
            writes: program.entries.iter().map(|(_, e)| writes(model, e)).collect(),
            poisoned: false,
            stats: RunStats::default(),
            symbols,
            model: model.clone(),
            device: device.clone(),
            options: *options,
        };
        session.load_params()?;
        for (name, value) in sizes {
            session.set_dim(name, *value)?;
        }
        Ok(session)
    }

    /// Writes the initial contents of params; notes those without.
    fn load_params(&mut self) -> Result<(), Error> {
        let model = self.model.clone();
        for (id, v) in model.program().values.iter() {
            if v.role != role::PARAM || v.view != view::NONE {
                continue;
            }
            if v.section == NONE {
                self.missing.push(id);
                continue;
            }
            let (start, len) = (v.data_offset as usize, v.data_bytes as usize);
            let data = model.weights(v.section).get(start..).and_then(|b| b.get(..len)).unwrap_or(&[]);
            let (arena, offset) = self.persistent_place(id)?;
            self.engine.write(arena, offset, data)?;
        }
        Ok(())
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The plan that was taken.
    pub fn plan(&self) -> u32 {
        self.plan
    }

    /// The value of every symbol now.
    #[cfg(feature = "compiler")]
    pub(crate) fn symbols(&self) -> &[u64] {
        &self.symbols
    }

    /// What the last run did besides computing.
    pub fn stats(&self) -> RunStats {
        self.stats
    }

    /// Fixes a dimension that the shapes of inputs do not decide.
    pub fn set_dim(&mut self, name: &str, value: u64) -> Result<(), Error> {
        let id = self.model.size_named(name)?;
        if let Some(w) = self.wanted.get_mut(id as usize) {
            *w = Some(value);
        }
        Ok(())
    }

    /// Sets a param. Derived values are computed anew before the next run.
    pub fn set_param(&mut self, name: &str, tensor: &TensorView<'_>) -> Result<(), Error> {
        let id = self.named_value("param", role::PARAM, name)?;
        self.write_persistent(id, tensor)?;
        self.missing.retain(|m| *m != id);
        self.prepared = self.prepare.is_none();
        Ok(())
    }

    /// Runs an entry. Inputs are found by name; all must be given. The outputs stay readable until the entry runs
    /// again. Once sizes have been seen, running allocates nothing on the host.
    pub fn run(&mut self, entry: &str, inputs: &[(&str, TensorView<'_>)]) -> Result<Outputs<'_>, Error> {
        let id = self.start(entry, inputs, Watch::Nothing)?;
        let outcome = self.run_entry(id, inputs, Watch::Nothing)?;
        self.finish(id, outcome)
    }

    /// Runs an entry step by step and shows every value after the step that wrote it, those that `prepare` derives
    /// before: for debugging and comparing devices. Slow.
    pub fn run_tapped(
        &mut self,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outputs<'_>, Error> {
        self.tapped(entry, inputs, None, each)
    }

    /// As [`run_tapped`](Self::run_tapped), of certain values: each time that a step has written their memory, views and
    /// parts included, and what a loop carries when the loop has ended. So what is shown last is what they hold in the
    /// end. A value in an arm that is not taken is not shown, nor is a window that follows a loop counter on the host.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watching(
        &mut self,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        values: &[u32],
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outputs<'_>, Error> {
        self.tapped(entry, inputs, Some(values), each)
    }

    fn tapped(
        &mut self,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        wanted: Option<&[u32]>,
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outputs<'_>, Error> {
        self.prepared = self.prepare.is_none();
        let id = self.start(entry, inputs, Watch::Values(wanted, each))?;
        let outcome = self.run_entry(id, inputs, Watch::Values(wanted, each))?;
        self.finish(id, outcome)
    }

    /// Runs an entry step by step and gives the time of every step, once for each time that it runs. Values that `prepare`
    /// derives are up to date before the first.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Error::HostOnly`] on other devices.
    pub fn run_timed(
        &mut self,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        each: &mut dyn FnMut(StepTime),
    ) -> Result<Outputs<'_>, Error> {
        let id = self.start(entry, inputs, Watch::Nothing)?;
        let outcome = self.run_entry(id, inputs, Watch::Times(each))?;
        self.finish(id, outcome)
    }

    /// Checks everything that can be checked before a run, binds sizes, prepares derived values.
    fn start(
        &mut self,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        watch: Watch<'_>,
    ) -> Result<u32, Error> {
        let model = self.model.clone();
        let program = model.program();
        let callable = |e: &Entry| e.kind == entry_kind::CALL;
        let Some((id, record)) = program.entry(entry).filter(|(_, e)| callable(e)) else {
            let known = program.entries.iter().filter(|(_, e)| callable(e));
            let known = known.filter_map(|(_, e)| program.text(e.name).ok()).map(String::from).collect();
            return Err(Error::Name { what: "entry", name: entry.into(), known });
        };
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        if let Some(m) = self.missing.first() {
            return Err(Error::MissingParam { param: model.value_name(*m) });
        }
        self.check_inputs(record, entry, inputs)?;
        self.bind_sizes(record, inputs)?;
        if let Some(prepare) = self.prepare.filter(|_| !self.prepared) {
            let outcome = self.run_entry(prepare, &[], watch)?;
            if let Some(step) = outcome.fault.filter(|_| self.options.bad_index_is_error) {
                return Err(Error::BadIndex { step, name: self.model.step_name(step) });
            }
            self.prepared = true;
        }
        Ok(id)
    }

    fn finish(&mut self, entry: u32, outcome: Outcome) -> Result<Outputs<'_>, Error> {
        self.stats = outcome.stats;
        if let Some(step) = outcome.fault.filter(|_| self.options.bad_index_is_error) {
            return Err(Error::BadIndex { step, name: self.model.step_name(step) });
        }
        Ok(Outputs { session: self, entry })
    }

    /// Names, element types and byte counts of the inputs.
    fn check_inputs(
        &self,
        record: &Entry,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<(), Error> {
        let program = self.model.program();
        for (name, t) in inputs {
            let mut values = program.entry_inputs(record)?;
            let found = values.find(|v| self.is_named(*v, name));
            let Some(v) = found else {
                let known = program.entry_inputs(record)?.map(|v| self.model.value_name(v)).collect();
                return Err(Error::Name { what: "input", name: (*name).into(), known });
            };
            let dtype = DType::from_code(program.values.get(v)?.dtype).unwrap_or(DType::F32);
            check_tensor(name, t, dtype)?;
        }
        for v in program.entry_inputs(record)? {
            if !inputs.iter().any(|(name, _)| self.is_named(v, name)) {
                return Err(Error::MissingInput { entry: entry.into(), input: self.model.value_name(v) });
            }
        }
        Ok(())
    }

    fn is_named(&self, value: u32, name: &str) -> bool {
        let program = self.model.program();
        program.values.get(value).is_ok_and(|v| program.text(v.name) == Ok(name))
    }

    /// Finds the value of every symbol that the inputs decide, and binds anew if any changed.
    fn bind_sizes(&mut self, record: &Entry, inputs: &[(&str, TensorView<'_>)]) -> Result<(), Error> {
        let model = self.model.clone();
        let program = model.program();
        let mut solved: heapless::Vec<Option<u64>, 64> = heapless::Vec::new();
        let mut spilled = Vec::new();
        // Few models have more symbols than fit on the stack; only those allocate here.
        let solved: &mut [Option<u64>] = if solved.extend_from_slice(&self.wanted).is_ok() {
            &mut solved
        } else {
            spilled.extend_from_slice(&self.wanted);
            &mut spilled
        };
        for v in program.entry_inputs(record)? {
            let Some((name, t)) = inputs.iter().find(|(n, _)| self.is_named(v, n)) else { continue };
            self.solve_one(record, v, name, t, solved)?;
            let sources =
                program.symbols.iter().filter(|(_, s)| s.source == v && s.kind == symbol_kind::INPUT);
            for (symbol, _) in sources {
                let number = match (t.dtype, t.bytes) {
                    (DType::I32, [a, b, c, d]) => i64::from(i32::from_le_bytes([*a, *b, *c, *d])),
                    (_, bytes) => bytes.try_into().map_or(0, i64::from_le_bytes),
                };
                if let Some(s) = solved.get_mut(symbol as usize) {
                    *s = Some(u64::try_from(number).unwrap_or(u64::MAX));
                }
            }
        }
        let changed = |(now, new): (&u64, &Option<u64>)| new.is_some_and(|n| n != *now);
        if !self.bound || self.symbols.iter().zip(&*solved).any(changed) {
            let before = self.symbols.clone();
            for (now, new) in self.symbols.iter_mut().zip(&*solved) {
                *now = new.unwrap_or(*now);
            }
            self.bound = false;
            if let Err(e) = bind(program, op::ALL, self.plan, &self.symbols, &mut self.exprs) {
                self.symbols = before;
                return Err(e.into());
            }
            self.bound = true;
        }
        // Dimensions that are not plain symbols can be compared only now.
        let bindings = Bindings::precomputed(*program, self.plan, &self.exprs)?;
        for v in program.entry_inputs(record)? {
            let Some((name, t)) = inputs.iter().find(|(n, _)| self.is_named(v, n)) else { continue };
            if bindings.shape(program.values.get(v)?)?.dims() != t.shape {
                return Err(self.shape_error(name, v, t));
            }
        }
        Ok(())
    }

    fn solve_one(
        &self,
        record: &Entry,
        value: u32,
        name: &str,
        t: &TensorView<'_>,
        solved: &mut [Option<u64>],
    ) -> Result<(), Error> {
        let program = self.model.program();
        let wrong = || self.shape_error(name, value, t);
        let shape = Shape::new(t.shape).ok_or_else(wrong)?;
        if shape.rank() != usize::from(program.values.get(value)?.rank) {
            return Err(wrong());
        }
        // The solver takes all inputs of an entry; here one at a time, so that an error can name it.
        let position = program.entry_inputs(record)?.position(|v| v == value).unwrap_or(0);
        let one = Entry { operands: record.operands + position as u32, inputs: 1, ..*record };
        solve_symbols(program, &one, &[Some(shape)], solved).map_err(|_| wrong())
    }

    fn shape_error(&self, name: &str, value: u32, t: &TensorView<'_>) -> Error {
        let program = self.model.program();
        let mut expected = self.model.dims_text(value);
        // Sizes that the session keeps to are part of what is wanted.
        for ((_, symbol), wanted) in program.symbols.iter().zip(&self.wanted) {
            let (Some(size), Ok(name)) = (wanted, program.text(symbol.name)) else { continue };
            if expected.trim_matches(['[', ']']).split(", ").any(|d| d == name) {
                expected += &format!(" with {name} = {size}");
            }
        }
        Error::Shape { name: name.into(), expected, found: t.shape.to_vec() }
    }

    fn run_entry(
        &mut self,
        id: u32,
        inputs: &[(&str, TensorView<'_>)],
        watch: Watch<'_>,
    ) -> Result<Outcome, Error> {
        let model = self.model.clone();
        let program = model.program();
        let record = program.entries.get(id)?;
        let bindings = Bindings::precomputed(*program, self.plan, &self.exprs)?;
        let mut ordered: heapless::Vec<&[u8], 32> = heapless::Vec::new();
        let mut spilled: Vec<&[u8]> = Vec::new();
        for v in program.entry_inputs(record)? {
            let bytes = inputs.iter().find(|(n, _)| self.is_named(v, n)).map_or(&[][..], |(_, t)| t.bytes);
            if spilled.is_empty() && ordered.push(bytes).is_ok() {
                continue;
            }
            if spilled.is_empty() {
                spilled.extend_from_slice(&ordered);
            }
            spilled.push(bytes);
        }
        let outputs = self.outputs.get_mut(id as usize).ok_or(schedule::Error::header(
            schedule::Reason::NotFound,
            id,
            0,
            0,
        ))?;
        size_outputs(&bindings, record, outputs)?;
        let run = Run {
            model: &model,
            bindings,
            symbols: &self.symbols,
            entry: id,
            inputs: if spilled.is_empty() { &ordered } else { &spilled },
            outputs,
            timeout: self.options.timeout,
        };
        let result = match watch {
            Watch::Nothing => self.engine.run(run),
            Watch::Values(wanted, each) => self.engine.run_tapped(run, wanted, each),
            Watch::Times(each) => self.engine.run_timed(run, each),
        };
        let writes = self.writes.get(id as usize).copied().unwrap_or_default();
        if result.is_err() && (writes.state || writes.params) {
            self.poisoned = true;
        }
        if writes.params {
            self.prepared = self.prepare.is_none();
        }
        result
    }
}

/// Gives every output of an entry a buffer of its size; keeps those that fit.
fn size_outputs(bindings: &Bindings<'_>, record: &Entry, outputs: &mut Vec<Buffer>) -> Result<(), Error> {
    for (i, v) in bindings.program().entry_outputs(record)?.enumerate() {
        let bytes = bindings.value(v, &[])?.bytes;
        if outputs.get(i).is_some_and(|b| b.bytes().len() == bytes) {
            continue;
        }
        let buffer = Buffer::new(bytes).ok_or(Error::Budget { budget: 0, needed: bytes as u64 })?;
        match outputs.get_mut(i) {
            Some(old) => *old = buffer,
            None => outputs.push(buffer),
        }
    }
    Ok(())
}

fn writes(model: &Model, record: &Entry) -> Writes {
    let program = model.program();
    let mut writes = Writes::default();
    let Ok(steps) = program.steps.range(record.first_step, record.steps) else { return writes };
    for (_, s) in steps.filter(|(_, s)| s.kind == step_kind::OP) {
        for v in program.step_outputs(s).into_iter().flatten() {
            let role = program.values.get(v).map_or(role::INTERMEDIATE, |v| v.role);
            writes.state |= role == role::STATE;
            writes.params |= role == role::PARAM;
        }
    }
    writes
}

/// Element type and byte count of a tensor that a caller gave.
pub(crate) fn check_tensor(name: &str, t: &TensorView<'_>, dtype: DType) -> Result<(), Error> {
    if t.dtype != dtype {
        return Err(Error::ElementType { name: name.into(), expected: dtype, found: t.dtype });
    }
    let elements = t.shape.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d));
    match elements {
        Some(n) if n == t.bytes.len() => Ok(()),
        n => {
            let expected = n.unwrap_or(usize::MAX);
            Err(Error::Length { name: name.into(), expected, found: t.bytes.len() })
        }
    }
}

/// The outputs of the last run of an entry.
pub struct Outputs<'a> {
    session: &'a Session,
    entry: u32,
}

impl<'a> Outputs<'a> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.session.outputs.get(self.entry as usize).map_or(0, Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Output `i`: its name, shape and contents.
    pub fn get(&self, i: usize) -> Option<Output<'a>> {
        let s = self.session;
        let program = s.model.program();
        let record = program.entries.get(self.entry).ok()?;
        let value = program.entry_outputs(record).ok()?.nth(i)?;
        let bindings = Bindings::precomputed(*program, s.plan, &s.exprs).ok()?;
        let v = program.values.get(value).ok()?;
        Some(Output {
            name: program.text(v.name).ok()?,
            value,
            dtype: DType::from_code(v.dtype)?,
            shape: bindings.shape(v).ok()?,
            bytes: s.outputs.get(self.entry as usize)?.get(i)?.bytes(),
        })
    }

    /// The output of a name.
    pub fn named(&self, name: &str) -> Result<Output<'a>, Error> {
        let all = (0..self.len()).filter_map(|i| self.get(i));
        all.clone().find(|o| o.name == name).ok_or_else(|| Error::Name {
            what: "output",
            name: name.into(),
            known: all.map(|o| o.name.to_string()).collect(),
        })
    }

    /// All outputs in order.
    pub fn iter(&self) -> impl Iterator<Item = Output<'a>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// One output of a run.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// Name.
    pub name: &'a str,
    /// Value in the program.
    pub value: u32,
    /// Element type.
    pub dtype: DType,
    shape: Shape,
    /// The elements.
    pub bytes: &'a [u8],
}

impl Output<'_> {
    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        self.shape.dims()
    }

    /// As a tensor.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: self.shape.dims(), bytes: self.bytes }
    }
}
