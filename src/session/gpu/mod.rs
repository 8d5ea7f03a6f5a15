//! A device with kernels as an engine: recordings made once for each entry and sizes, and run again and again.
//!
//! [`layout`] places the arenas of the plan in one device buffer, [`record`] turns the waves of an entry into
//! commands, [`control`] keeps the flags and grids of conditional dispatches, [`run`] submits recordings and does
//! the steps that have no kernel on the host in between.

mod control;
mod layout;
mod record;
mod run;

use super::{Engine, Outcome, Run, SessionOptions, Tap};
use crate::error::Error;
use crate::model::Model;
use layout::Layout;
use record::Taps;
use run::Recorded;
use serinette_core::schedule::Kernel;
use serinette_dispatch::{Shell, Usage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Recordings kept for different sizes of one entry.
const KEPT: usize = 4;

/// Weights on a device, shared by the sessions of one model on it.
type SharedWeights = HashMap<(usize, usize), Weak<dyn std::any::Any + Send + Sync>>;

pub(super) struct GpuEngine<S: Shell> {
    shell: S,
    layout: Layout,
    arena: S::Buffer,
    weights: Option<Arc<S::Buffer>>,
    kernels: Vec<Kernel>,
    /// Recordings with what they were made for: entry, symbols, tapped; the most recently used last.
    recorded: Vec<(u32, Vec<u64>, Recorded<S>)>,
}

impl<S: Shell + 'static> GpuEngine<S> {
    pub(super) fn open(
        shell: S,
        model: &Model,
        plan: u32,
        options: &SessionOptions,
    ) -> Result<GpuEngine<S>, Error> {
        let layout = Layout::new(model, plan, shell.caps())?;
        let arena = shell.buffer(layout.arena_bytes.max(4), Usage::Storage)?;
        let weights =
            if layout.weight_bytes == 0 { None } else { Some(shared_weights(&shell, model, &layout)?) };
        let kernels = crate::host_kernels(model, options.deterministic)?;
        Ok(GpuEngine { shell, layout, arena, weights, kernels, recorded: Vec::new() })
    }

    /// The recording for a run, made if there is none. It is taken out of the cache; [`keep`](Self::keep) puts it back.
    fn take(&mut self, run: &Run<'_>) -> Result<Recorded<S>, Error> {
        let same = |(e, s, _): &(u32, Vec<u64>, Recorded<S>)| *e == run.entry && s == run.symbols;
        match self.recorded.iter().position(same) {
            Some(i) => Ok(self.recorded.remove(i).2),
            None => self.make(run, Taps::None),
        }
    }

    fn make(&self, run: &Run<'_>, taps: Taps<'_>) -> Result<Recorded<S>, Error> {
        let plan = record::Recorder::new(&run.bindings, &self.layout, &self.shell, taps).entry(run.entry)?;
        Recorded::new(&self.shell, &self.arena, self.weights.as_deref(), plan)
    }

    fn keep(&mut self, run: &Run<'_>, recorded: Recorded<S>) {
        let of_entry = self.recorded.iter().filter(|(e, _, _)| *e == run.entry).count();
        if of_entry >= KEPT
            && let Some(oldest) = self.recorded.iter().position(|(e, _, _)| *e == run.entry)
        {
            self.recorded.remove(oldest);
        }
        self.recorded.push((run.entry, run.symbols.to_vec(), recorded));
    }
}

impl<S: Shell + 'static> Engine for GpuEngine<S> {
    fn run(&mut self, mut run: Run<'_>) -> Result<Outcome, Error> {
        let mut recorded = self.take(&run)?;
        let result = recorded.run(&self.shell, &self.kernels, &mut run, &mut |_| ());
        // A recording whose run failed may still be busy on the device: it is dropped, which waits for it.
        if result.is_ok() {
            self.keep(&run, recorded);
        }
        result
    }

    fn run_tapped(
        &mut self,
        mut run: Run<'_>,
        wanted: Option<&[u32]>,
        each: &mut dyn FnMut(Tap),
    ) -> Result<Outcome, Error> {
        let taps = wanted.map_or(Taps::All, Taps::Of);
        self.make(&run, taps)?.run(&self.shell, &self.kernels, &mut run, each)
    }

    fn write(&mut self, arena: u32, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let at = self.layout.arena_offset(arena, offset)?;
        let whole = bytes.len() / 4 * 4;
        let (head, tail) = bytes.split_at(whole);
        self.shell.upload(&self.arena, at, head)?;
        if !tail.is_empty() {
            let mut word = [0; 4];
            word[..tail.len()].copy_from_slice(tail);
            self.shell.upload(&self.arena, at + whole as u64, &word)?;
        }
        Ok(())
    }

    fn read(&mut self, arena: u32, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let at = self.layout.arena_offset(arena, offset)?;
        let mut words = vec![0; bytes.len().next_multiple_of(4)];
        self.shell.download(&self.arena, at, &mut words)?;
        bytes.copy_from_slice(&words[..bytes.len()]);
        Ok(())
    }
}

/// The model's weights on a device: uploaded by the first session, shared by the others.
fn shared_weights<S: Shell + 'static>(
    shell: &S,
    model: &Model,
    layout: &Layout,
) -> Result<Arc<S::Buffer>, Error> {
    static SHARED: OnceLock<Mutex<SharedWeights>> = OnceLock::new();
    let shared = SHARED.get_or_init(Mutex::default);
    // A device is the same if it says so by the address of its limits, which its handles share.
    let key = (std::ptr::from_ref(shell.caps()) as usize, model.address());
    let mut map = shared.lock().unwrap_or_else(|e| e.into_inner());
    map.retain(|_, w| w.strong_count() > 0);
    let known = map.get(&key).and_then(Weak::upgrade).and_then(|w| w.downcast::<S::Buffer>().ok());
    if let Some(buffer) = known {
        return Ok(buffer);
    }
    let buffer = Arc::new(shell.buffer(layout.weight_bytes, Usage::Weights)?);
    for (id, _) in model.program().weights.iter().filter(|(id, _)| model.holds_values(*id)) {
        let bytes = model.weights(id);
        let at = layout.weight_base(id)?;
        let whole = bytes.len() / 4 * 4;
        shell.upload(&buffer, at, &bytes[..whole])?;
        if whole < bytes.len() {
            let mut word = [0; 4];
            word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            shell.upload(&buffer, at + whole as u64, &word)?;
        }
    }
    let any: Arc<dyn std::any::Any + Send + Sync> = buffer.clone();
    map.insert(key, Arc::downgrade(&any));
    Ok(buffer)
}
