//! What a model is and needs, as `inspect`, `compile` and `verify` show it.

use crate::entry::{self, Port};
use crate::failure::Failure;
use crate::hint;
use serde::Serialize;
use serde_json::Value;
use serinette::core::op;
use serinette::core::schedule::record::{entry_kind, profile, step_kind, symbol_kind};
use serinette::{DType, Device, Model, Requirements};
use std::collections::BTreeMap;

/// Everything that `inspect` shows. The field names are the keys of its JSON.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Format version.
    pub format: String,
    /// SHA-256 of the records.
    pub digest: String,
    /// Bytes of the whole blob.
    pub file_bytes: u64,
    /// Work arena of the plan that the host takes.
    pub arena_bytes: u64,
    /// Least possible work arena for that plan's order of steps.
    pub arena_lower_bound_bytes: u64,
    /// State kept between runs.
    pub state_bytes: u64,
    /// Params that can be set.
    pub param_bytes: u64,
    /// Weights and constants.
    pub weight_bytes: u64,
    /// Values derived from weights and params.
    pub derived_bytes: u64,
    /// Step records, region edges included.
    pub steps: u64,
    /// Waves of that plan.
    pub waves: u64,
    /// Multiply-adds of the costliest entry, sizes at their bounds and loops at their most trips.
    pub macs: u64,
    /// Bytes moved by the steps of the costliest entry.
    pub bytes_moved: u64,
    /// Entries.
    pub entries: Vec<EntryFacts>,
    /// Inputs of all entries that can be called.
    pub inputs: Vec<PortFacts>,
    /// Outputs of all entries that can be called.
    pub outputs: Vec<PortFacts>,
    /// Open sizes.
    pub symbols: Vec<SymbolFacts>,
    /// Distinct ops and element types.
    pub ops: Vec<OpFacts>,
    /// Plans.
    pub plans: Vec<PlanFacts>,
    /// Self-tests that the blob holds.
    pub self_tests: u32,
    /// Free texts in the blob.
    pub metadata: BTreeMap<String, String>,
}

/// An entry.
#[derive(Debug, Serialize)]
pub struct EntryFacts {
    /// Name.
    pub name: String,
    /// `call` or `prepare`.
    pub kind: &'static str,
    /// Step records.
    pub steps: u32,
    /// Names of inputs.
    pub inputs: Vec<String>,
    /// Names of outputs.
    pub outputs: Vec<String>,
}

/// An input or output.
#[derive(Debug, Serialize)]
pub struct PortFacts {
    /// Entry.
    pub entry: String,
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: &'static str,
    /// Dimensions: numbers, names of open sizes, `?` for expressions.
    pub shape: Value,
    /// The hint, as it is in the blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Value>,
}

/// An open size.
#[derive(Debug, Serialize)]
pub struct SymbolFacts {
    /// Name.
    pub name: String,
    /// Least value.
    pub low: u64,
    /// Greatest value.
    pub high: u64,
    /// It is a multiple of this.
    pub multiple_of: u64,
}

/// An op with its element types.
#[derive(Debug, Serialize)]
pub struct OpFacts {
    /// Name, or its number if this version does not know it.
    pub op: String,
    /// Element types of the inputs, `-` for absent ones.
    pub inputs: Vec<&'static str>,
    /// Element types of the outputs.
    pub outputs: Vec<&'static str>,
    /// Steps of this kind.
    pub count: u64,
}

/// A plan.
#[derive(Debug, Serialize)]
pub struct PlanFacts {
    /// Name.
    pub name: String,
    /// `desktop`, `mobile` or `mcu`.
    pub profile: &'static str,
    /// Its lower bound of the work arena.
    pub arena_lower_bound_bytes: u64,
    /// Bytes of its arenas, all kinds.
    pub arena_bytes: u64,
    /// Waves.
    pub waves: u32,
    /// Greatest value of each open size.
    pub bounds: BTreeMap<String, u64>,
}

/// Collects the facts of a model.
pub fn of(model: &Model) -> Result<(Facts, Requirements), Failure> {
    let program = model.program();
    let needs = model.requirements(&Device::Host)?;
    let plan = program.plans.get(needs.plan)?;
    let mut facts = Facts {
        format: format!("{}.{}", program.header.major, program.header.minor),
        digest: hex(&program.header.digest),
        file_bytes: program.total_bytes,
        arena_bytes: needs.arena,
        arena_lower_bound_bytes: needs.arena_lower_bound,
        state_bytes: needs.state,
        param_bytes: needs.params,
        weight_bytes: needs.weights,
        derived_bytes: needs.derived,
        steps: program.steps.len() as u64,
        waves: u64::from(plan.waves[1]),
        macs: needs.macs,
        bytes_moved: needs.bytes_moved,
        entries: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        symbols: symbols(model)?,
        ops: ops(model)?,
        plans: plans(model)?,
        self_tests: model.self_tests(),
        metadata: BTreeMap::new(),
    };
    for (_, e) in program.entries.iter() {
        let name = program.text(e.name)?.to_string();
        let (inputs, outputs) = (entry::inputs(model, e)?, entry::outputs(model, e)?);
        let prepare = e.kind == entry_kind::PREPARE;
        facts.entries.push(EntryFacts {
            name: name.clone(),
            kind: if prepare { "prepare" } else { "call" },
            steps: e.steps,
            inputs: inputs.iter().map(|p| p.name.clone()).collect(),
            outputs: outputs.iter().map(|p| p.name.clone()).collect(),
        });
        for p in inputs {
            facts.inputs.push(port(model, &name, p)?);
        }
        for p in outputs {
            facts.outputs.push(port(model, &name, p)?);
        }
    }
    for (_, m) in program.metadata.iter() {
        facts.metadata.insert(program.text(m.key)?.into(), program.text(m.value)?.into());
    }
    Ok((facts, needs))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn port(model: &Model, entry: &str, p: Port) -> Result<PortFacts, Failure> {
    let text = model.dims_text(p.value);
    let dims = text.trim_start_matches('[').trim_end_matches(']').split(", ").filter(|d| !d.is_empty());
    let dim = |d: &str| d.parse::<u64>().map_or_else(|_| Value::from(d), Value::from);
    let hint = hint::text_of(model, p.value).map_err(Failure::new)?;
    Ok(PortFacts {
        entry: entry.into(),
        name: p.name,
        dtype: p.dtype.name(),
        shape: dims.map(dim).collect(),
        // A hint that is no JSON is shown as it is.
        hint: hint.map(|h| serde_json::from_str(h).unwrap_or_else(|_| Value::from(h))),
    })
}

fn symbols(model: &Model) -> Result<Vec<SymbolFacts>, Failure> {
    let program = model.program();
    let open = program.symbols.iter().filter(|(_, s)| s.kind == symbol_kind::INPUT);
    let each = |(_, s): (u32, &serinette::core::schedule::record::Symbol)| {
        let name = program.text(s.name)?.into();
        Ok(SymbolFacts { name, low: s.low, high: s.high, multiple_of: s.multiple_of })
    };
    open.map(each).collect()
}

fn ops(model: &Model) -> Result<Vec<OpFacts>, Failure> {
    let program = model.program();
    let mut counts = vec![0u64; program.signatures.len()];
    for (_, s) in program.steps.iter().filter(|(_, s)| s.kind == step_kind::OP) {
        if let Some(n) = counts.get_mut(s.link as usize) {
            *n += 1;
        }
    }
    let mut ops = Vec::new();
    for ((_, s), count) in program.signatures.iter().zip(counts) {
        let name =
            op::find(op::ALL, s.op, s.version).map_or_else(|| format!("op {}", s.op), |o| o.name.into());
        let dtype = |code: &u8| DType::from_code(*code).map_or("-", DType::name);
        let inputs = s.dtypes.iter().take(s.inputs.into());
        let outputs = s.dtypes.iter().skip(s.inputs.into()).take(s.outputs.into());
        ops.push(OpFacts {
            op: name,
            inputs: inputs.map(dtype).collect(),
            outputs: outputs.map(dtype).collect(),
            count,
        });
    }
    Ok(ops)
}

fn plans(model: &Model) -> Result<Vec<PlanFacts>, Failure> {
    let program = model.program();
    let mut plans = Vec::new();
    for (_, p) in program.plans.iter() {
        let mut bounds = BTreeMap::new();
        for (id, s) in program.symbols.iter().filter(|(_, s)| s.kind == symbol_kind::INPUT) {
            let b = program.bounds.get(p.bounds[0].saturating_add(id))?;
            bounds.insert(program.text(s.name)?.to_string(), b.high);
        }
        let mut bytes = 0u64;
        for i in 0..p.arenas[1] {
            bytes = bytes.saturating_add(program.arena(p, i)?.bytes);
        }
        let profile = match p.profile {
            profile::MCU => "mcu",
            profile::MOBILE => "mobile",
            _ => "desktop",
        };
        plans.push(PlanFacts {
            name: program.text(p.name)?.into(),
            profile,
            arena_lower_bound_bytes: p.lower_bound,
            arena_bytes: bytes,
            waves: p.waves[1],
            bounds,
        });
    }
    Ok(plans)
}
