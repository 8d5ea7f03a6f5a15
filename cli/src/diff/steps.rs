//! The steps of two models, entry by entry.
//!
//! Steps are alike if op, attributes, element types and dimensions are: a longest common subsequence of these aligns two
//! entries. Aligned steps differ still if they read results of steps that are not aligned with one another.

use super::flow::{Exprs, Flow, Operand, Origin};
use super::{Part, Row};
use crate::failure::Failure;
use crate::steps::op_name;
use serde_json::{Value, json};
use serinette::core::NONE;
use serinette::core::op;
use serinette::core::schedule::record::{Entry, Step, step_kind};
use serinette::{DType, Model};
use similar::{Algorithm, DiffOp};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longest search for an alignment. After that a coarser one is taken.
const TIME: Duration = Duration::from_secs(10);

/// What makes steps alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    op: String,
    version: u16,
    /// Attributes; expressions among them by their own numbers.
    attrs: (Vec<u8>, Vec<u64>),
    inputs: Vec<Option<Tensor>>,
    outputs: Vec<Option<Tensor>>,
}

/// Element type and dimensions.
type Tensor = (u8, Vec<u64>);

/// The steps of an entry.
struct Steps<'m> {
    model: &'m Model,
    entry: &'m Entry,
    keys: Vec<Key>,
    flow: Flow<'m>,
}

/// Compares the steps of all entries that both models have. Gives besides which steps are called otherwise.
pub fn compare(a: &Model, b: &Model, kept: &HashMap<u32, u32>) -> Result<(Part, Vec<Row>), Failure> {
    let (exprs_a, exprs_b) = (Exprs::of(a)?, Exprs::of(b)?);
    let mut part = Part { name: "steps", in_meaning: true, summary: None, rows: Vec::new() };
    let (mut summaries, mut names) = (Vec::new(), Vec::new());
    for (_, entry) in a.program().entries.iter() {
        let name = a.program().text(entry.name)?;
        let Some((_, other)) = b.program().entry(name) else { continue };
        let ours = Steps::of(a, &exprs_a, entry)?;
        let theirs = Steps::of(b, &exprs_b, other)?;
        let alike = pair(name, &ours, &theirs, kept, (&mut part.rows, &mut names))?;
        summaries.push(format!("{name}: {alike} of {} and {} alike", ours.keys.len(), theirs.keys.len()));
    }
    part.summary = Some(summaries.join("; "));
    Ok((part, names))
}

/// Aligns the steps of an entry and notes what differs; gives how many are alike.
fn pair(
    entry: &str,
    a: &Steps<'_>,
    b: &Steps<'_>,
    kept: &HashMap<u32, u32>,
    (rows, names): (&mut Vec<Row>, &mut Vec<Row>),
) -> Result<usize, Failure> {
    let deadline = Instant::now().checked_add(TIME);
    let found = similar::capture_diff_slices_deadline(Algorithm::Myers, &a.keys, &b.keys, deadline);
    let mut pairs: HashMap<usize, usize> = HashMap::new();
    let mut altered: HashMap<usize, usize> = HashMap::new();
    for change in &found {
        match *change {
            DiffOp::Equal { old_index, new_index, len } => {
                pairs.extend((0..len).map(|i| (old_index + i, new_index + i)));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                // Steps of one op in the same order are the same steps, altered.
                let mut next = new_index;
                for i in old_index..old_index + old_len {
                    let same = |j: &usize| a.keys.get(i).map(|k| &k.op) == b.keys.get(*j).map(|k| &k.op);
                    if let Some(j) = (next..new_index + new_len).find(same) {
                        altered.insert(i, j);
                        next = j + 1;
                    }
                }
            }
            _ => {}
        }
    }
    let alike = pairs.len();
    pairs.extend(&altered);
    let back: HashMap<usize, usize> = pairs.iter().map(|(i, j)| (*j, *i)).collect();
    let row = |i: usize, a: Value, b: Value, note| Row { key: format!("{entry} step {i}"), a, b, note };
    let mut same = alike;
    for i in 0..a.keys.len() {
        let Some(j) = pairs.get(&i).copied() else {
            rows.push(row(i, a.text(i)?, Value::Null, None));
            continue;
        };
        if a.name(i) != b.name(j) {
            names.push(row(i, json!(a.name(i)), json!(b.name(j)), None));
        }
        let note = match altered.contains_key(&i) {
            true => Some(a.altered(i, b, j)),
            false => rewired((a, i), (b, j), (&pairs, &back), kept)?,
        };
        if let Some(note) = note {
            same -= usize::from(!altered.contains_key(&i));
            rows.push(row(i, a.text(i)?, b.text(j)?, Some(note)));
        }
    }
    for j in (0..b.keys.len()).filter(|j| !back.contains_key(j)) {
        rows.push(row(j, Value::Null, b.text(j)?, None));
    }
    Ok(same)
}

/// The first operand that two aligned steps do not have in common.
fn rewired(
    (a, i): (&Steps<'_>, usize),
    (b, j): (&Steps<'_>, usize),
    (pairs, back): (&HashMap<usize, usize>, &HashMap<usize, usize>),
    kept: &HashMap<u32, u32>,
) -> Result<Option<String>, Failure> {
    let equal = |x: &Operand, y: &Operand| {
        let origins = match (&x.origin, &y.origin) {
            // That a step is there in one model only is a row of its own.
            (Origin::Step(s, k), Origin::Step(t, l)) => match (pairs.get(s), back.get(t)) {
                (None, None) => true,
                (partner, _) => partner == Some(t) && k == l,
            },
            (Origin::Kept(v), Origin::Kept(w)) => kept.get(v).is_none_or(|u| u == w),
            // So is a step whose result took the place of something else.
            (Origin::Step(s, _), _) if !pairs.contains_key(s) => return true,
            (_, Origin::Step(t, _)) if !back.contains_key(t) => return true,
            (x, y) => x == y,
        };
        origins && x.view == y.view
    };
    for (n, (v, w)) in a.inputs(i)?.into_iter().zip(b.inputs(j)?).enumerate() {
        let (x, y) = (a.flow.operand(v)?, b.flow.operand(w)?);
        if !equal(&x, &y) {
            let (before, after) = (a.flow.text(&x, a.entry.first_step), b.flow.text(&y, b.entry.first_step));
            let note = match before == after {
                true => format!("operand {n} is another part of {before}"),
                false => format!("operand {n} is {before}, then {after}"),
            };
            return Ok(Some(note));
        }
    }
    Ok(None)
}

impl<'m> Steps<'m> {
    fn of(model: &'m Model, exprs: &'m Exprs, entry: &'m Entry) -> Result<Steps<'m>, Failure> {
        let steps = model.program().steps.range(entry.first_step, entry.steps)?;
        let keys = steps.map(|(id, s)| key(model, exprs, id, s)).collect::<Result<_, _>>()?;
        Ok(Steps { model, entry, keys, flow: Flow::of(model, exprs, entry)? })
    }

    fn step(&self, i: usize) -> Result<&'m Step, Failure> {
        Ok(self.model.program().steps.get(self.entry.first_step.saturating_add(i as u32))?)
    }

    fn inputs(&self, i: usize) -> Result<Vec<u32>, Failure> {
        Ok(self.model.program().step_inputs(self.step(i)?)?.collect())
    }

    /// The name in the source model, if the blob kept it.
    fn name(&self, i: usize) -> String {
        self.model.step_name(self.entry.first_step.saturating_add(i as u32)).unwrap_or_default()
    }

    /// Op, name and results.
    fn text(&self, i: usize) -> Result<Value, Failure> {
        let program = self.model.program();
        let name = self.name(i);
        let mut results = Vec::new();
        for v in program.step_outputs(self.step(i)?)?.filter(|v| *v != NONE) {
            let dtype = DType::from_code(program.values.get(v)?.dtype).map_or("?", DType::name);
            results.push(format!("{dtype} {}", self.model.dims_text(v)));
        }
        let op = self.keys.get(i).map_or("", |k| k.op.as_str());
        let arrow = if results.is_empty() { "" } else { " → " };
        let space = if name.is_empty() { "" } else { " " };
        Ok(json!(format!("{op}{space}{name}{arrow}{}", results.join(", "))))
    }

    /// In what two steps of one op differ.
    fn altered(&self, i: usize, other: &Steps<'_>, j: usize) -> String {
        let (Some(a), Some(b)) = (self.keys.get(i), other.keys.get(j)) else { return String::new() };
        let differ = [
            (a.attrs != b.attrs, "attributes"),
            (a.inputs.len() != b.inputs.len(), "number of operands"),
            (a.inputs != b.inputs && a.inputs.len() == b.inputs.len(), "operands' types or sizes"),
            (a.outputs != b.outputs, "results' types or sizes"),
            (a.version != b.version, "version of the op"),
        ];
        let differ: Vec<&str> = differ.iter().filter(|(d, _)| *d).map(|(_, w)| *w).collect();
        format!("other {}", differ.join(", "))
    }
}

fn key(model: &Model, exprs: &Exprs, id: u32, s: &Step) -> Result<Key, Failure> {
    let program = model.program();
    let tensor = |v: u32| -> Result<Option<Tensor>, Failure> {
        if v == NONE {
            return Ok(None);
        }
        let v = program.values.get(v)?;
        Ok(Some((v.dtype, program.value_dims(v)?.map(|e| exprs.get(e)).collect())))
    };
    let mut key = Key {
        op: op_name(model, s)?,
        version: 0,
        attrs: (Vec::new(), Vec::new()),
        inputs: program.step_inputs(s)?.map(tensor).collect::<Result<_, _>>()?,
        outputs: program.step_outputs(s)?.map(tensor).collect::<Result<_, _>>()?,
    };
    if s.kind == step_kind::LOOP {
        key.attrs.1.push(exprs.get(s.max_trips));
    }
    if s.kind == step_kind::OP {
        let signature = program.signatures.get(s.link)?;
        let attrs = program.step_attrs(id, s)?;
        key.version = signature.version;
        if let Some(op) = op::find(op::ALL, signature.op, signature.version) {
            (op.attr_exprs)(attrs, &mut |e| key.attrs.1.push(exprs.get(e)));
        }
        // The numbers of expressions mean nothing in another program.
        if key.attrs.1.is_empty() {
            key.attrs.0 = attrs.to_vec();
        }
    }
    Ok(key)
}
