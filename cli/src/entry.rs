//! Entries of a model and what they take and give.

use crate::failure::Failure;
use serinette::core::schedule::record::{Entry, entry_kind};
use serinette::{DType, Error, Model};

/// An entry that can be called.
pub struct Callable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its record.
    pub record: &'a Entry,
}

/// An input or output of an entry.
#[derive(Clone, Debug)]
pub struct Port {
    /// Value in the program.
    pub value: u32,
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
}

/// Finds the entry to run: the one of the name; without a name `main`, or the only one.
pub fn pick<'a>(model: &'a Model, wanted: Option<&str>) -> Result<Callable<'a>, Failure> {
    let program = model.program();
    let mut all = Vec::new();
    for (_, record) in program.entries.iter().filter(|(_, e)| e.kind == entry_kind::CALL) {
        all.push(Callable { name: program.text(record.name)?, record });
    }
    let known: Vec<String> = all.iter().map(|c| c.name.to_string()).collect();
    let only = all.len() == 1;
    let found = all.into_iter().find(|c| match wanted {
        Some(w) => c.name == w,
        None => only || c.name == "main",
    });
    found.ok_or_else(|| match wanted {
        Some(w) => Error::Name { what: "entry", name: w.into(), known }.into(),
        None => Failure::usage(format!("several entries; choose one with --entry: {}", known.join(", "))),
    })
}

/// The inputs of an entry, in its order.
pub fn inputs(model: &Model, entry: &Entry) -> Result<Vec<Port>, Failure> {
    model.program().entry_inputs(entry)?.map(|v| port(model, v)).collect()
}

/// The outputs of an entry, in its order.
pub fn outputs(model: &Model, entry: &Entry) -> Result<Vec<Port>, Failure> {
    model.program().entry_outputs(entry)?.map(|v| port(model, v)).collect()
}

/// A value as a port.
pub fn port(model: &Model, value: u32) -> Result<Port, Failure> {
    let program = model.program();
    let record = program.values.get(value)?;
    let dtype = DType::from_code(record.dtype)
        .ok_or_else(|| Failure::new(format!("value {value}: unknown element type {}", record.dtype)))?;
    Ok(Port { value, name: program.text(record.name)?.into(), dtype })
}
