//! A compiled graph as RLX runs it.

use crate::convert::{convert, f32_bytes, to_f32};
use crate::error::Error;
use crate::register::{self, Target};
use crate::translate::{Boundary, ENTRY, Signature};
use rlx_ir::DType;
use rlx_runtime::{ExecutableCapabilities, ExecutableGraph};
use serinette::{Model, Session, SessionOptions, TensorView};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// What clones have in common.
struct Shared {
    model: Model,
    signature: Signature,
    target: Target,
}

/// A param as it was set last.
#[derive(Clone, Default)]
struct Param {
    /// Bytes of its element type; clones share them until one is set anew. `None`: never set.
    bytes: Option<Arc<[u8]>>,
    /// Whether the session has them.
    uploaded: bool,
}

/// A compiled graph with its own params and its own memory on the device.
pub(crate) struct Executable {
    shared: Arc<Shared>,
    /// In the order of the signature.
    params: Vec<Param>,
    /// Opened when it is needed: a clone that never runs takes no memory on the device.
    session: Option<Session>,
    /// Zeros for inputs that were not given.
    zeros: Vec<u8>,
    /// What the last `run_raw` pointed at.
    raw: Vec<Vec<f32>>,
}

impl Executable {
    /// Opens a blob on the device of a target.
    pub fn open(blob: Vec<u8>, signature: Signature, target: Target) -> Result<Executable, Error> {
        let params = vec![Param::default(); signature.params.len()];
        let shared = Arc::new(Shared { model: Model::from_bytes(blob)?, signature, target });
        let mut e = Executable { shared, params, session: None, zeros: Vec::new(), raw: Vec::new() };
        // A graph that the device cannot run is refused now, not at the first run.
        e.ready()?;
        Ok(e)
    }

    /// The session, open.
    fn ready(&mut self) -> Result<&mut Session, Error> {
        if self.session.is_none() {
            let device = register::open(self.shared.target)?;
            self.session = Some(self.shared.model.session(&device, &SessionOptions::default())?);
            self.params.iter_mut().for_each(|p| p.uploaded = false);
        }
        self.session.as_mut().ok_or(Error::Option { option: "session", reason: "not open" })
    }

    /// Brings params that were set since the last run to the device. Those that were never set hold zeros, as RLX
    /// has it; only here, because a blob itself refuses to run without them.
    fn upload(&mut self) -> Result<(), Error> {
        self.ready()?;
        let shared = self.shared.clone();
        let Some(session) = &mut self.session else { return Ok(()) };
        for (b, p) in shared.signature.params.iter().zip(&mut self.params) {
            if p.uploaded || !b.in_blob || (p.bytes.is_none() && b.has_contents) {
                continue;
            }
            let bytes = p.bytes.as_deref().map_or_else(|| Cow::Owned(vec![0; b.bytes]), Cow::Borrowed);
            session.set_param(&b.name, &view(b, &bytes))?;
            p.uploaded = true;
        }
        Ok(())
    }

    /// Position of a param.
    fn param(&self, name: &str) -> Option<usize> {
        self.shared.signature.params.iter().position(|p| p.name == name)
    }

    /// Params that the graph does not have are ignored: loading a whole checkpoint into a graph that uses a part
    /// of it is RLX's way.
    fn store(&mut self, name: &str, data: &[u8], dtype: DType) -> Result<(), Error> {
        let shared = self.shared.clone();
        let Some(i) = self.param(name) else { return Ok(()) };
        let (Some(b), Some(p)) = (shared.signature.params.get(i), self.params.get_mut(i)) else {
            return Ok(());
        };
        let bytes = boundary_bytes(b, data, dtype)?;
        *p = Param { bytes: Some(bytes.into()), uploaded: false };
        Ok(())
    }

    /// Overwrites a part of a param. `false`: there is no such part, or the rest of the contents is not known.
    fn store_range(&mut self, name: &str, offset: usize, data: &[u8]) -> bool {
        let shared = self.shared.clone();
        let Some(i) = self.param(name) else { return false };
        let (Some(b), Some(p)) = (shared.signature.params.get(i), self.params.get_mut(i)) else {
            return false;
        };
        let fits = offset.checked_add(data.len()).is_some_and(|end| end <= b.bytes);
        if !fits || (p.bytes.is_none() && b.has_contents) {
            return false;
        }
        let bytes = p.bytes.get_or_insert_with(|| vec![0; b.bytes].into());
        let Some(part) = Arc::make_mut(bytes).get_mut(offset..).and_then(|r| r.get_mut(..data.len())) else {
            return false;
        };
        part.copy_from_slice(data);
        p.uploaded = false;
        true
    }

    /// Runs, and reads every output with `read`. Inputs that are not given are zeros: RLX's graphs are run with a
    /// part of their inputs where the rest (an empty cache, an unused mask) is meant to be zero; RLX itself warns
    /// and checks names and lengths before it comes here.
    fn execute<T>(
        &mut self,
        inputs: &[(&str, &[u8], DType)],
        mut read: impl FnMut(&Boundary, &[u8]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let shared = self.shared.clone();
        let signature = &shared.signature;
        let mut given: Vec<Option<Cow<'_, [u8]>>> = vec![None; signature.inputs.len()];
        for (name, data, dtype) in inputs {
            let position = signature.inputs.iter().position(|b| b.name == *name);
            match position.and_then(|i| Some((signature.inputs.get(i)?, given.get_mut(i)?))) {
                Some((b, slot)) => *slot = Some(boundary_bytes(b, data, *dtype)?),
                // RLX takes params among the inputs as set.
                None if self.param(name).is_some() => self.store(name, data, *dtype)?,
                None => {
                    let known = signature.inputs.iter().map(|b| b.name.clone()).collect();
                    return Err(Error::Name { what: "input", name: (*name).into(), known });
                }
            }
        }
        let missing = signature.inputs.iter().zip(&given).filter(|(_, g)| g.is_none());
        let most = missing.map(|(b, _)| b.bytes).max().unwrap_or(0);
        if self.zeros.len() < most {
            self.zeros.resize(most, 0);
        }
        self.upload()?;
        let zeros = &self.zeros;
        let views: Vec<(&str, TensorView<'_>)> = signature
            .inputs
            .iter()
            .zip(&given)
            .map(|(b, g)| {
                let bytes = g.as_deref().unwrap_or_else(|| zeros.get(..b.bytes).unwrap_or(&[]));
                (b.name.as_str(), view(b, bytes))
            })
            .collect();
        let Some(session) = &mut self.session else { return Ok(Vec::new()) };
        let result = session.run(ENTRY, &views).map_err(Error::from).and_then(|outputs| {
            let each = signature.outputs.iter().zip(outputs.iter());
            each.map(|(b, o)| read(b, o.bytes)).collect()
        });
        if matches!(result, Err(Error::Run(serinette::Error::Device(_)))) {
            // The device may be gone, and the session with it; the next run opens both anew.
            self.session = None;
            register::forget(shared.target);
        }
        result
    }

    fn execute_f32(&mut self, inputs: &[(&str, &[f32])]) -> Result<Vec<Vec<f32>>, Error> {
        let bytes: Vec<_> = inputs.iter().map(|(name, data)| (*name, f32_bytes(data))).collect();
        let typed: Vec<_> = bytes.iter().map(|(name, b)| (*name, &**b, DType::F32)).collect();
        self.execute(&typed, |b, bytes| to_f32(&b.name, bytes, b.dtype))
    }
}

fn view<'a>(b: &'a Boundary, bytes: &'a [u8]) -> TensorView<'a> {
    TensorView { dtype: b.stored, shape: &b.dims, bytes }
}

/// Data of any element type as the bytes that a boundary holds.
fn boundary_bytes<'a>(b: &Boundary, data: &'a [u8], dtype: DType) -> Result<Cow<'a, [u8]>, Error> {
    let expected = b.elements().checked_mul(dtype.size_bytes());
    if expected != Some(data.len()) {
        let (name, expected, bytes) = (b.name.clone(), b.elements(), data.len());
        return Err(Error::Length { name, expected, dtype, bytes });
    }
    convert(&b.name, data, dtype, b.dtype)
}

/// RLX's trait has no results: its `try_…` functions catch panics and show their text.
fn or_panic<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(t) => t,
        Err(e) => panic!("serinette: {e}"),
    }
}

/// Every method that has no other way to fail panics with the text of the error.
impl ExecutableGraph for Executable {
    fn capabilities(&self) -> ExecutableCapabilities {
        ExecutableCapabilities { clone: true, typed_io: true, ..ExecutableCapabilities::NONE }
    }

    fn set_param(&mut self, name: &str, data: &[f32]) {
        or_panic(self.store(name, &f32_bytes(data), DType::F32));
    }

    fn set_param_typed(&mut self, name: &str, data: &[u8], dtype: DType) {
        or_panic(self.store(name, data, dtype));
    }

    fn set_param_range(&mut self, name: &str, byte_offset: usize, data: &[u8]) -> bool {
        self.store_range(name, byte_offset, data)
    }

    fn finalize_params(&mut self) {
        or_panic(self.upload());
    }

    fn run(&mut self, inputs: &[(&str, &[f32])]) -> Vec<Vec<f32>> {
        or_panic(self.execute_f32(inputs))
    }

    fn run_typed(&mut self, inputs: &[(&str, &[u8], DType)]) -> Vec<(Vec<u8>, DType)> {
        or_panic(self.execute(inputs, |b, bytes| Ok((bytes.to_vec(), b.dtype))))
    }

    /// The pointers hold until the next run of this kind: the numbers stay here.
    fn run_raw(&mut self, inputs: &[(&str, &[f32])]) -> Vec<(*const f32, usize)> {
        self.raw = or_panic(self.execute_f32(inputs));
        self.raw.iter().map(|v| (v.as_ptr(), v.len())).collect()
    }

    /// The clone has params of its own, at first equal ones, and opens its own session at its first run.
    fn clone_box(&self) -> Box<dyn ExecutableGraph> {
        Box::new(Executable {
            shared: self.shared.clone(),
            params: self.params.clone(),
            session: None,
            zeros: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// Takes over the params of another graph that have the same name and type; `false` if none does.
    fn copy_params_from(&mut self, src: &dyn ExecutableGraph) -> bool {
        let Some(src) = src.executable_as_any().and_then(|a| a.downcast_ref::<Executable>()) else {
            return false;
        };
        let shared = self.shared.clone();
        let mut any = false;
        for (b, p) in shared.signature.params.iter().zip(&mut self.params) {
            let of_src = src.shared.signature.params.iter().zip(&src.params);
            let same = of_src.filter(|(o, _)| o.name == b.name && o.dtype == b.dtype && o.dims == b.dims);
            for bytes in same.filter_map(|(_, o)| o.bytes.clone()) {
                *p = Param { bytes: Some(bytes), uploaded: false };
                any = true;
            }
        }
        any
    }

    fn executable_as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn executable_as_any_mut(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    /// What the last run did on the host because the device has no kernel for it; `None` if it did nothing there,
    /// or before the first run.
    fn wgpu_host_summary(&self) -> Option<String> {
        let stats = self.session.as_ref()?.stats();
        let text = || format!("{} host step(s), {} bytes copied", stats.host_steps, stats.host_bytes_copied);
        (stats.host_steps > 0 && self.shared.target != Target::Host).then(text)
    }

    /// Returns the memory on the device; the next run opens it again.
    fn release_scratch(&mut self) {
        self.session = None;
    }
}
