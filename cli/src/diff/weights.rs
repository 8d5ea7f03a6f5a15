//! Weights, constants, params and states of two models.

use super::{Part, Row};
use crate::failure::Failure;
use crate::units;
use serde_json::{Value, json};
use serinette::core::schedule::record::{role, view};
use serinette::{DType, Model, TensorView};
use std::collections::{BTreeMap, HashMap};

/// What differs, and which values are the same thing in both models.
pub struct Weights {
    /// What differs.
    pub part: Part,
    /// What is called otherwise and is the same thing.
    pub names: Vec<Row>,
    /// Value of the first model → value of the second.
    pub pairs: HashMap<u32, u32>,
}

/// A tensor that a model has before it runs.
struct Item<'m> {
    value: u32,
    role: u8,
    /// Empty for constants.
    name: &'m str,
    dtype: Option<DType>,
    /// Element type and dimensions.
    shape: String,
    /// What it holds; empty for states, derived values, and params without initial contents.
    data: &'m [u8],
}

impl Item<'_> {
    fn text(&self) -> String {
        let kind = match self.role {
            role::CONSTANT => "constant",
            role::WEIGHT => "weight",
            role::PARAM => "param",
            role::STATE => "state",
            _ => "derived",
        };
        let bytes = if self.data.is_empty() {
            String::new()
        } else {
            format!(", {}", units::bytes(self.data.len() as u64))
        };
        format!("{kind} {}{bytes}", self.shape)
    }

    fn key(&self) -> String {
        if self.name.is_empty() { format!("value {}", self.value) } else { self.name.into() }
    }
}

fn items(model: &Model) -> Result<Vec<Item<'_>>, Failure> {
    let program = model.program();
    let mut items = Vec::new();
    for (value, v) in program.values.iter() {
        if v.view != view::NONE || matches!(v.role, role::INTERMEDIATE | role::INPUT) {
            continue;
        }
        let start = usize::try_from(v.data_offset).unwrap_or(usize::MAX);
        let bytes = usize::try_from(v.data_bytes).unwrap_or(usize::MAX);
        let data = model.weights(v.section).get(start..).and_then(|d| d.get(..bytes)).unwrap_or(&[]);
        let dtype = DType::from_code(v.dtype);
        let shape = format!("{} {}", dtype.map_or("?", DType::name), model.dims_text(value));
        items.push(Item { value, role: v.role, name: program.text(v.name)?, dtype, shape, data });
    }
    Ok(items)
}

/// Compares all that the models have before they run.
pub fn compare(a: &Model, b: &Model) -> Result<Weights, Failure> {
    let (a, b) = (items(a)?, items(b)?);
    let pairs = pairs(&a, &b);
    let (mut rows, mut names) = (Vec::new(), Vec::new());
    let (mut equal, mut bytes) = (0u64, 0u64);
    let mut found = vec![false; b.len()];
    for (x, pair) in a.iter().zip(&pairs) {
        let Some(y) = pair.and_then(|j| b.get(j)) else {
            rows.push(Row { key: x.key(), a: json!(x.text()), b: Value::Null, note: None });
            continue;
        };
        if let Some(f) = pair.and_then(|j| found.get_mut(j)) {
            *f = true;
        }
        // Nobody sets these by name, and constants are weights without one.
        let fixed = |i: &Item<'_>| !matches!(i.role, role::PARAM | role::STATE);
        let same = (&x.shape, x.data) == (&y.shape, y.data);
        if same && (x.role == y.role && x.name == y.name || fixed(x) && fixed(y)) {
            equal += 1;
            bytes = bytes.saturating_add(x.data.len() as u64);
            if x.name != y.name {
                names.push(Row { key: x.text(), a: json!(x.name), b: json!(y.name), note: None });
            }
            continue;
        }
        let other = || x.shape == y.shape && x.data != y.data;
        let note = match (x.name == y.name, same) {
            (false, _) => Some(format!("called {} in the second", y.key())),
            (true, false) if other() => Some(difference(x, y)),
            _ => None,
        };
        rows.push(Row { key: x.key(), a: json!(x.text()), b: json!(y.text()), note });
    }
    for (y, _) in b.iter().zip(found).filter(|(_, found)| !found) {
        rows.push(Row { key: y.key(), a: Value::Null, b: json!(y.text()), note: None });
    }
    let summary = Some(format!("{} equal, {}", units::count(equal), units::bytes(bytes)));
    let values = a.iter().zip(&pairs).filter_map(|(x, j)| Some((x.value, b.get((*j)?)?.value)));
    let pairs = values.collect();
    Ok(Weights { part: Part { name: "weights", in_meaning: true, summary, rows }, names, pairs })
}

/// Which item of `b` each of `a` is: the one of its name; else one of its contents; else, where both have equally many
/// of a kind, type and shape left, the one at its place among these.
fn pairs<'m>(a: &[Item<'m>], b: &[Item<'m>]) -> Vec<Option<usize>> {
    let mut p = Pairs { ours: vec![None; a.len()], taken: vec![false; b.len()] };
    p.join(a, b, false, |i| (!i.name.is_empty()).then(|| i.name.to_string()));
    p.join(a, b, false, |i| (!i.data.is_empty()).then(|| (i.shape.clone(), i.data)));
    p.join(a, b, true, |i| Some((i.role, i.shape.clone())));
    p.ours
}

struct Pairs {
    /// For each of ours, which of theirs.
    ours: Vec<Option<usize>>,
    /// Which of theirs have one of ours.
    taken: Vec<bool>,
}

impl Pairs {
    /// Joins those that are free and have equal keys, in their order; with `all` only where none of them is left over.
    fn join<'m, K: Ord>(
        &mut self,
        a: &[Item<'m>],
        b: &[Item<'m>],
        all: bool,
        key: impl Fn(&Item<'m>) -> Option<K>,
    ) {
        let mut groups: BTreeMap<K, [Vec<usize>; 2]> = BTreeMap::new();
        for (i, (item, _)) in a.iter().zip(&self.ours).enumerate().filter(|(_, (_, o))| o.is_none()) {
            key(item).into_iter().for_each(|k| groups.entry(k).or_default()[0].push(i));
        }
        for (i, (item, _)) in b.iter().zip(&self.taken).enumerate().filter(|(_, (_, t))| !**t) {
            key(item).into_iter().for_each(|k| groups.entry(k).or_default()[1].push(i));
        }
        for [ours, theirs] in groups.into_values().filter(|[o, t]| !all || o.len() == t.len()) {
            for (i, j) in ours.into_iter().zip(theirs) {
                if let (Some(o), Some(t)) = (self.ours.get_mut(i), self.taken.get_mut(j)) {
                    (*o, *t) = (Some(j), true);
                }
            }
        }
    }
}

/// How far the elements of two tensors of one type and shape are apart.
fn difference(x: &Item<'_>, y: &Item<'_>) -> String {
    let size = x.dtype.map_or(1, DType::size).max(1);
    let differ = |i: usize| {
        let of = |d: &[u8]| d.get(i * size..).and_then(|d| d.get(..size)).map(<[u8]>::to_vec);
        of(x.data) != of(y.data)
    };
    let all = x.data.len().max(y.data.len()) / size;
    let unequal = (0..all).filter(|i| differ(*i)).count();
    let count = format!("{} of {} elements differ", units::count(unequal as u64), units::count(all as u64));
    let numbers = |i: &Item<'_>| TensorView { dtype: i.dtype?, shape: &[], bytes: i.data }.to_f32();
    let (Some(p), Some(q)) = (numbers(x), numbers(y)) else { return count };
    // What is no number is apart from everything.
    let apart = |(p, q): (&f32, &f32)| {
        let d = (f64::from(*p) - f64::from(*q)).abs();
        if p == q || (p.is_nan() && q.is_nan()) {
            0.0
        } else if d.is_nan() {
            f64::INFINITY
        } else {
            d
        }
    };
    let most = p.iter().zip(&q).map(apart).enumerate().max_by(|(_, d), (_, e)| d.total_cmp(e));
    let Some((at, most)) = most else { return count };
    let (p, q) = (p.get(at).copied().unwrap_or_default(), q.get(at).copied().unwrap_or_default());
    format!("{count}, by at most {most:.3e} (element {at}: {p} → {q})")
}
