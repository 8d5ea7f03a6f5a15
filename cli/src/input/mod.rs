//! Inputs from files and seeds.

mod image;
pub mod npy;
pub mod npz;
mod random;
mod wav;

use crate::args::{InputArgs, Source, extension};
use crate::entry::{self, Callable, Port};
use crate::failure::Failure;
use crate::hint;
use crate::sizes::Sizes;
use crate::tensor::Tensor;
use serinette::core::schedule::record::{role, view};
use serinette::{Device, Error, Model, Session, SessionOptions, TensorView};
use std::path::{Path, PathBuf};

/// Everything that a run is given.
pub struct Inputs {
    /// Inputs by name.
    pub tensors: Vec<(String, Tensor)>,
    /// Params to set before the run.
    params: Vec<(String, Tensor)>,
    /// Sizes that flags and inputs decide.
    pub sizes: Vec<(String, u64)>,
    /// What was done to files that the user should know.
    pub notes: Vec<String>,
}

impl Inputs {
    /// As `Session::run` takes them.
    pub fn views(&self) -> Vec<(&str, TensorView<'_>)> {
        self.tensors.iter().map(|(n, t)| (n.as_str(), t.view())).collect()
    }

    /// A session for these sizes, with its params set.
    pub fn session(
        &self,
        model: &Model,
        device: &Device,
        options: &SessionOptions,
    ) -> Result<Session, Failure> {
        let sizes: Vec<(&str, u64)> = self.sizes.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let mut session = model.session_for(device, options, &sizes)?;
        for (name, tensor) in &self.params {
            session.set_param(name, &tensor.view())?;
        }
        Ok(session)
    }
}

/// Where each input and param comes from.
struct Sources {
    inputs: Vec<Option<From>>,
    params: Vec<(Port, From)>,
}

enum From {
    File(PathBuf),
    Seed(u64),
    /// An array of an archive.
    Array(Tensor),
}

/// Loads the inputs of an entry. Inputs that are not given are an error, or random where `otherwise` has a seed.
pub fn load(
    model: &Model,
    callable: &Callable<'_>,
    args: &InputArgs,
    otherwise: Option<u64>,
) -> Result<Inputs, Failure> {
    let ports = entry::inputs(model, callable.record)?;
    let mut sources = assign(model, &ports, args)?;
    let mut sizes = Sizes::new(model, &args.dim)?;
    let mut notes = Vec::new();
    let mut loaded: Vec<Option<Tensor>> = Vec::new();
    let mut seeds = Vec::new();
    // Files first: their shapes decide the shapes of random inputs.
    for (i, port) in ports.iter().enumerate() {
        let from = sources.inputs.get_mut(i).and_then(Option::take);
        let tensor = match from {
            Some(From::File(path)) => Some(read(model, port, &path, &sizes, &mut notes)?),
            Some(From::Array(t)) => Some(t),
            Some(From::Seed(seed)) => {
                seeds.push((i, seed));
                None
            }
            None => {
                let Some(seed) = otherwise else {
                    let (entry, input) = (callable.name.into(), port.name.clone());
                    return Err(Error::MissingInput { entry, input }.into());
                };
                seeds.push((i, seed));
                None
            }
        };
        if let Some(t) = &tensor {
            sizes.learn(callable.record, port.value, &t.shape);
        }
        loaded.push(tensor);
    }
    for (i, seed) in seeds {
        if let (Some(port), Some(slot)) = (ports.get(i), loaded.get_mut(i)) {
            // One seed for several inputs shall not make them equal.
            let seed = seed.wrapping_add((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let t = random::tensor(model, port, &sizes, seed)?;
            // What was open is as low as it can be, and decided now.
            sizes.learn(callable.record, port.value, &t.shape);
            *slot = Some(t);
        }
    }
    let mut params = Vec::new();
    for (port, from) in sources.params {
        let tensor = match from {
            From::File(path) => read(model, &port, &path, &sizes, &mut notes)?,
            From::Array(t) => t,
            From::Seed(seed) => random::tensor(model, &port, &sizes, seed)?,
        };
        params.push((port.name, tensor));
    }
    let tensors = ports.into_iter().zip(loaded).filter_map(|(p, t)| Some((p.name, t?))).collect();
    Ok(Inputs { tensors, params, sizes: sizes.known()?, notes })
}

/// Decides which flag is for which input: named ones and arrays of archives first, the others in order.
fn assign(model: &Model, ports: &[Port], args: &InputArgs) -> Result<Sources, Failure> {
    let params = params(model)?;
    let mut sources = Sources { inputs: ports.iter().map(|_| None).collect(), params: Vec::new() };
    let mut unnamed = Vec::new();
    for i in &args.input {
        match (&i.name, &i.source) {
            (None, Source::File(path)) if extension(path) == "npz" => {
                for (name, tensor) in npz::read(path)? {
                    let array = From::Array(tensor);
                    put(&mut sources, ports, &params, &name, array)
                        .map_err(|e| e.within(format!("{}: array '{name}'", path.display())))?;
                }
            }
            (Some(name), Source::File(path)) if extension(path) == "npz" => {
                let mut arrays = npz::read(path)?;
                let known: Vec<String> = arrays.iter().map(|(n, _)| n.clone()).collect();
                // An archive of one array needs no name in it.
                let found = arrays.iter().position(|(n, _)| n == name).or((arrays.len() == 1).then_some(0));
                let Some(at) = found else {
                    let error = Error::Name { what: "array", name: name.clone(), known };
                    return Err(Failure::file(path, error));
                };
                let (_, tensor) = arrays.swap_remove(at);
                put(&mut sources, ports, &params, name, From::Array(tensor))?;
            }
            (Some(name), source) => put(&mut sources, ports, &params, name, from(source))?,
            (None, source) => unnamed.push(source),
        }
    }
    for source in unnamed {
        let free = sources.inputs.iter_mut().find(|s| s.is_none());
        let Some(slot) = free else {
            let what = match source {
                Source::File(p) => p.display().to_string(),
                Source::Random(seed) => format!("random:{seed}"),
            };
            let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
            let names = if names.is_empty() { "none".into() } else { names.join(", ") };
            return Err(Failure::usage(format!("--input {what}: one input too many; there are: {names}")));
        };
        *slot = Some(from(source));
    }
    Ok(sources)
}

fn from(source: &Source) -> From {
    match source {
        Source::File(p) => From::File(p.clone()),
        Source::Random(seed) => From::Seed(*seed),
    }
}

fn put(
    sources: &mut Sources,
    ports: &[Port],
    params: &[Port],
    name: &str,
    from: From,
) -> Result<(), Failure> {
    if let Some(at) = ports.iter().position(|p| p.name == name) {
        let Some(slot @ None) = sources.inputs.get_mut(at) else {
            return Err(Failure::usage(format!("input '{name}' is given twice")));
        };
        *slot = Some(from);
        return Ok(());
    }
    if let Some(param) = params.iter().find(|p| p.name == name) {
        sources.params.push((param.clone(), from));
        return Ok(());
    }
    let known = ports.iter().chain(params).map(|p| p.name.clone()).collect();
    Err(Error::Name { what: "input", name: name.into(), known }.into())
}

/// The params of a model: they are set like inputs.
fn params(model: &Model) -> Result<Vec<Port>, Failure> {
    let values = model.program().values.iter();
    let params = values.filter(|(_, v)| v.role == role::PARAM && v.view == view::NONE);
    params.map(|(id, _)| entry::port(model, id)).collect()
}

/// Reads a file as the contents of an input.
fn read(
    model: &Model,
    port: &Port,
    path: &Path,
    sizes: &Sizes<'_>,
    notes: &mut Vec<String>,
) -> Result<Tensor, Failure> {
    let hint = || hint::of(model, port.value).map_err(Failure::new);
    match extension(path).as_str() {
        "npy" => npy::read(path),
        "npz" => {
            let only = npz::read(path)?.into_iter().next();
            only.map(|(_, t)| t).ok_or_else(|| Failure::file(path, "the archive holds no arrays"))
        }
        "png" | "jpg" | "jpeg" => image::read(path, port, hint()?, &sizes.dims(port.value)?, notes),
        "wav" => wav::read(path, port, hint()?, &sizes.dims(port.value)?, notes),
        _ => Err(Failure::file(
            path,
            format!("input '{}': expected a .npy, .npz, .png, .jpg or .wav file, or random:SEED", port.name),
        )),
    }
}
