//! Tensors inside a model, found by name and read while it runs.

use crate::args::likest;
use crate::entry::Callable;
use crate::explain::Passes;
use crate::failure::Failure;
use crate::output::Output;
use crate::tensor::Tensor;
use serinette::core::NONE;
use serinette::core::schedule::record::{Entry, entry_kind, role, step_kind};
use serinette::{Model, Session, Tap, TensorView};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names like a wrong one that an error lists.
const LIKE: usize = 5;

/// What stands before the name of a step. A step often has the name of a tensor that is not what it gives any more.
const STEP: &str = "step:";

/// What to read.
#[derive(Default)]
pub struct Taps(Vec<Wanted>);

/// One name and what it stands for.
struct Wanted {
    name: String,
    what: Values,
}

enum Values {
    /// An output of the entry: it is there anyway.
    Output,
    /// These values; the one that is written last counts.
    Inside(Vec<u32>),
}

/// What an entry computes, and what it computes it with.
struct Inside<'m> {
    /// Values by their names.
    values: BTreeMap<&'m str, Vec<u32>>,
    /// Results of steps by the names of these.
    steps: BTreeMap<String, Vec<u32>>,
}

impl Taps {
    /// Finds what names stand for.
    pub fn find(
        model: &Model,
        callable: &Callable<'_>,
        names: &[String],
        passes: &Passes,
    ) -> Result<Taps, Failure> {
        if names.is_empty() {
            return Ok(Taps::default());
        }
        let program = model.program();
        let mut entries = vec![callable.record];
        entries.extend(program.entries.iter().map(|(_, e)| e).filter(|e| e.kind == entry_kind::PREPARE));
        let inside = Inside::of(model, &entries)?;
        let mut taps: Vec<Wanted> = Vec::new();
        for name in names.iter().enumerate().filter(|(i, n)| !names[..*i].contains(n)).map(|(_, n)| n) {
            let mut outputs = program.entry_outputs(callable.record)?;
            let what = if outputs.any(|v| model.value_name(v) == *name) {
                Values::Output
            } else {
                let step = || name.strip_prefix(STEP).and_then(|n| inside.steps.get(n));
                let found = inside.values.get(name.as_str()).or_else(step);
                let missing = || Failure::new(inside.missing(model, callable, name, passes));
                Values::Inside(found.cloned().ok_or_else(missing)?)
            };
            taps.push(Wanted { name: name.clone(), what });
        }
        Ok(Taps(taps))
    }

    /// The names of tensors that are no outputs.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.inside().map(|(w, _)| w.name.clone())
    }

    fn inside(&self) -> impl Iterator<Item = (&Wanted, &[u32])> {
        self.0.iter().filter_map(|w| match &w.what {
            Values::Inside(values) => Some((w, values.as_slice())),
            Values::Output => None,
        })
    }

    /// Runs once more from the state that the session was opened with and reads.
    pub fn take(
        &self,
        session: &mut Session,
        entry: &str,
        inputs: &[(&str, TensorView<'_>)],
        outputs: &[Output],
    ) -> Result<Vec<Output>, Failure> {
        let mut values: Vec<u32> = self.inside().flat_map(|(_, v)| v).copied().collect();
        values.sort_unstable();
        values.dedup();
        // The number says which of several was written last.
        let mut seen: HashMap<u32, (usize, Tap)> = HashMap::new();
        if !values.is_empty() {
            session.reset_state()?;
            let mut count = 0;
            session.run_watching(entry, inputs, &values, &mut |t| {
                count += 1;
                seen.insert(t.value, (count, t));
            })?;
        }
        let mut taps = Vec::new();
        for w in &self.0 {
            let tensor = match &w.what {
                Values::Output => outputs.iter().find(|o| o.name == w.name).map(|o| o.tensor.clone()),
                Values::Inside(values) => {
                    let last = values.iter().filter_map(|v| seen.get(v)).max_by_key(|(n, _)| *n);
                    last.map(|(_, t)| Tensor {
                        dtype: t.dtype,
                        shape: t.shape.clone(),
                        bytes: t.bytes.clone(),
                    })
                }
            };
            let name = w.name.clone();
            let missing = || {
                Failure::new(format!(
                    "--tap {name}: this run did not compute it: it belongs to an arm that was not taken, to a loop that \
                     made no trip, or its place follows a loop counter"
                ))
            };
            taps.push(Output { tensor: tensor.ok_or_else(missing)?, name: w.name.clone() });
        }
        Ok(taps)
    }
}

impl<'m> Inside<'m> {
    fn of(model: &'m Model, entries: &[&Entry]) -> Result<Inside<'m>, Failure> {
        let program = model.program();
        let mut roots: HashSet<u32> = HashSet::new();
        let mut steps: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let names: HashMap<u32, &str> = program
            .debug_names
            .iter()
            .filter_map(|(_, n)| Some((n.step, program.text(n.name).ok().filter(|n| !n.is_empty())?)))
            .collect();
        for e in entries {
            for (id, s) in program.steps.range(e.first_step, e.steps)? {
                let carried: Vec<u32> = match s.kind {
                    step_kind::OP => Vec::new(),
                    step_kind::LOOP => program.step_inputs(s)?.skip(2).collect(),
                    _ => continue,
                };
                let results: Vec<u32> = program.step_outputs(s)?.filter(|v| *v != NONE).collect();
                for v in carried.iter().chain(&results).filter(|v| **v != NONE) {
                    roots.insert(program.values.get(*v)?.root);
                }
                if let (step_kind::OP, Some(name)) = (s.kind, names.get(&id)) {
                    // Of a step with several results, the name means the first.
                    steps.entry((*name).into()).or_default().extend(results.first());
                }
            }
        }
        let mut values: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (id, v) in program.values.iter().filter(|(_, v)| roots.contains(&v.root)) {
            let inside = matches!(v.role, role::INTERMEDIATE | role::DERIVED);
            let name = program.text(v.name)?;
            if inside && !name.is_empty() {
                values.entry(name).or_default().push(id);
            }
        }
        Ok(Inside { values, steps })
    }

    /// Why there is nothing of a name.
    fn missing(&self, model: &Model, callable: &Callable<'_>, name: &str, passes: &Passes) -> String {
        let program = model.program();
        let named = program.values.iter().find(|(_, v)| program.text(v.name) == Ok(name)).map(|(_, v)| v);
        let why = match named.map(|v| (v.role, program.values.get(v.root))) {
            Some((role::INPUT, Ok(root))) => match program.text(root.name) {
                Ok(input) if input != name => format!("it is the input '{input}' in another shape"),
                _ => "it is an input: it holds what is given".into(),
            },
            Some((role::WEIGHT, _)) => "it is a weight, which no run changes".into(),
            Some((role::PARAM, _)) => "it is a param: it holds what is set".into(),
            Some((role::STATE, _)) => "it is state; what a run makes of it has another name".into(),
            Some(_) => "another entry computes it".into(),
            None => self.unknown(callable.name, name, passes),
        };
        format!("--tap {name}: {why}")
    }
    /// Why a name is that of no value.
    fn unknown(&self, entry: &str, name: &str, passes: &Passes) -> String {
        let step = name.strip_prefix(STEP);
        let mut why = match (step, passes.fate(name)) {
            (Some(_), _) => format!("entry {entry} has no step of this name"),
            (None, Some(fate)) => format!("the compiled model does not compute it: {fate}"),
            (None, None) => format!("entry {entry} computes no tensor of this name"),
        };
        if self.steps.contains_key(name) {
            why += &format!("; {STEP}{name} shows what the step of this name gives");
        }
        let like = match step {
            Some(n) => likest(n, self.steps.keys().map(String::as_str), LIKE),
            None => likest(name, self.values.keys().copied(), LIKE),
        };
        if !like.is_empty() {
            why += &format!("; the likest: {}", like.join(", "));
        }
        why
    }
}
