//! Exporters' shape arithmetic: integer vectors whose elements are sizes, computed at import.
//!
//! `Shape`, and ops on what comes from it (`Gather`, `Slice`, `Concat`, arithmetic, …), give an [`Item::Sizes`]: a list of
//! numbers and dimension expressions. `Reshape`, `Expand`, `Slice` and others read it as such; only where an op
//! wants the contents as a tensor does a step compute them in the run.

use super::graph::{Importer, Item};
use super::node::{Fail, Node};
use super::tensor::{self, Constant};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use serinette_core::DType;
use serinette_core::shape::{Dim, DimAlgebra};

/// Longest list that is followed.
const MOST: usize = 64;

/// An element of an integer tensor that is known at import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A number.
    Number(i64),
    /// A size that is not known yet.
    Size(Dim),
}

impl Entry {
    /// The entry as a size of a tensor of `node`.
    pub fn size(&self, node: &Node<'_>) -> Result<Size, Fail> {
        match self {
            Entry::Size(d) => Ok(Size::Expr(*d)),
            Entry::Number(n) => match u64::try_from(*n) {
                Ok(n) => Ok(Size::Number(n)),
                Err(_) => Err(node.wrong(format!("a size of {n}"))),
            },
        }
    }
}

/// An integer tensor of rank 0 or 1 whose elements are known in terms of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub entries: Vec<Entry>,
    pub scalar: bool,
    /// int64 or int32 in the file.
    pub dtype: DType,
}

impl Sizes {
    /// Whether a size in it is not known yet.
    fn open(&self) -> bool {
        self.entries.iter().any(|e| matches!(e, Entry::Size(_)))
    }
}

const COMPARISONS: [&str; 5] = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"];

/// A comparison of two numbers that holds, or does not, whatever the sizes are within their bounds.
fn compare(im: &mut Importer<'_>, op: &str, all: &[Sizes]) -> Option<Item> {
    let ([a], [b]) = (all.first()?.entries.as_slice(), all.get(1)?.entries.as_slice()) else { return None };
    let range = |e: &Entry| match e {
        Entry::Number(n) => Some((i128::from(*n), i128::from(*n))),
        Entry::Size(d) => Some(im.b.graph.dims.range(*d)).map(|(l, h)| (i128::from(l), i128::from(h))),
    };
    let ((a_low, a_high), (b_low, b_high)) = (range(a)?, range(b)?);
    let less = if a_high < b_low {
        Some(true)
    } else if a_low >= b_high {
        Some(false)
    } else {
        None
    };
    let greater = if a_low > b_high {
        Some(true)
    } else if a_high <= b_low {
        Some(false)
    } else {
        None
    };
    let holds = match op {
        "Equal" if a == b => Some(true),
        "Equal" if a_high < b_low || b_high < a_low => Some(false),
        "Less" => less,
        "Greater" => greater,
        "LessOrEqual" => greater.map(|g| !g),
        "GreaterOrEqual" => less.map(|l| !l),
        _ => None,
    }?;
    let scalar = all.iter().all(|s| s.scalar);
    let dims = if scalar { vec![] } else { vec![1] };
    let data = Data::from_slice(&[u8::from(holds)]);
    Some(im.add_constant(Constant { name: String::new(), dtype: DType::Bool, dims, data }))
}

/// The result of a node that works on sizes; `None` where it does not, or not on sizes alone.
pub(super) fn evaluate<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Option<Vec<Item>>, Fail> {
    let result = match node.proto.op_type.as_str() {
        "Shape" => Some(shape(im, node)?),
        "Size" => size(im, node)?,
        op => {
            let operands: Option<Vec<Sizes>> =
                (0..node.proto.input.len()).map(|i| im.sizes_of(node, i)).collect();
            match operands {
                Some(all) if all.iter().any(Sizes::open) && COMPARISONS.contains(&op) => {
                    return Ok(compare(im, op, &all).map(|item| vec![item]));
                }
                // Numbers alone are left to the ordinary handlers, which know every type and shape.
                Some(all) if all.iter().any(Sizes::open) => compute(im, node, op, &all)?,
                _ => None,
            }
        }
    };
    Ok(result.map(|s| vec![im.add_sizes(s)]))
}

fn shape<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Sizes, Fail> {
    let dims = im.dims_at(node, 0)?;
    let rank = dims.len() as i64;
    let place = |v: i64| (if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank) as usize;
    let (start, end) = (place(node.int("start", 0)?), place(node.int("end", rank)?));
    let part = dims.get(start..end.max(start)).unwrap_or(&[]);
    Ok(Sizes { entries: part.iter().map(|d| im.entry(*d)).collect(), scalar: false, dtype: DType::I64 })
}

fn size<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Option<Sizes>, Fail> {
    let dims = im.dims_at(node, 0)?;
    let table = &mut im.b.graph.dims;
    let all = table.constant(1).and_then(|one| dims.iter().try_fold(one, |n, d| table.mul(n, *d)));
    let Ok(all) = all else { return Ok(None) };
    Ok(Some(Sizes { entries: vec![im.entry(all)], scalar: true, dtype: DType::I64 }))
}

fn compute<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    op: &str,
    all: &[Sizes],
) -> Result<Option<Sizes>, Fail> {
    let Some(x) = all.first() else { return Ok(None) };
    let same = |entries: Vec<Entry>| Some(Sizes { entries, ..x.clone() });
    Ok(match (op, all) {
        ("Identity", [_]) => Some(x.clone()),
        ("Cast", [_]) => {
            // Sizes stay what they are in any integer type that holds them.
            match i32::try_from(node.int("to", 0)?).ok().and_then(tensor::dtype) {
                Some(dtype @ (DType::I64 | DType::I32)) => Some(Sizes { dtype, ..x.clone() }),
                _ => None,
            }
        }
        ("Squeeze", [_] | [_, _]) if x.entries.len() == 1 => Some(Sizes { scalar: true, ..x.clone() }),
        ("Unsqueeze", [_] | [_, _]) if x.scalar => Some(Sizes { scalar: false, ..x.clone() }),
        ("Reshape", [_, target]) => match *target.entries {
            [] if x.entries.len() == 1 => Some(Sizes { scalar: true, ..x.clone() }),
            [Entry::Number(n)] if n == -1 || n == x.entries.len() as i64 => {
                Some(Sizes { scalar: false, ..x.clone() })
            }
            _ => None,
        },
        ("Concat", _) if all.iter().all(|s| !s.scalar) => {
            node.int("axis", 0)?;
            same(all.iter().flat_map(|s| s.entries.iter().copied()).collect())
        }
        ("Gather", [_, at]) if !x.scalar => gather(node, x, at)?,
        ("Slice", [_, rest @ ..]) if !x.scalar => slice(x, rest),
        ("Neg" | "Abs", [_]) => None,
        ("ReduceProd", [_, ..]) => {
            node.int("keepdims", 1)?;
            None
        }
        (_, [_, b]) => zip(im, op, x, b),
        _ => None,
    })
}

fn gather<'m>(node: &Node<'m>, x: &Sizes, at: &Sizes) -> Result<Option<Sizes>, Fail> {
    if node.int("axis", 0)? != 0 {
        return Ok(None);
    }
    let n = x.entries.len() as i64;
    let pick = |e: &Entry| match e {
        Entry::Number(i) => {
            usize::try_from(if *i < 0 { i + n } else { *i }).ok().and_then(|i| x.entries.get(i)).copied()
        }
        Entry::Size(_) => None,
    };
    let entries: Option<Vec<Entry>> = at.entries.iter().map(pick).collect();
    Ok(entries.map(|entries| Sizes { entries, scalar: at.scalar, dtype: x.dtype }))
}

/// `Slice` of a vector: starts, ends, axes, steps of one number each.
fn slice(x: &Sizes, rest: &[Sizes]) -> Option<Sizes> {
    let number = |i: usize, default: i64| match rest.get(i).map(|s| s.entries.as_slice()) {
        None => Some(default),
        Some([Entry::Number(n)]) => Some(*n),
        _ => None,
    };
    let n = x.entries.len() as i64;
    let (start, end, axis, step) = (number(0, 0)?, number(1, n)?, number(2, 0)?, number(3, 1)?);
    let place = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    if !matches!(axis, 0 | -1) || step == 0 {
        return None;
    }
    let entries = if step > 0 {
        let (from, to) = (place(start).clamp(0, n) as usize, place(end).clamp(0, n) as usize);
        x.entries.get(from..to.max(from))?.iter().step_by(step as usize).copied().collect()
    } else {
        let (mut i, to) = (place(start).min(n - 1), place(end).max(-1));
        let mut entries = Vec::new();
        while i > to {
            entries.push(*x.entries.get(usize::try_from(i).ok()?)?);
            i += step;
        }
        entries
    };
    Some(Sizes { entries, ..x.clone() })
}

/// Arithmetic of two vectors, or of a vector and one number.
fn zip(im: &mut Importer<'_>, op: &str, a: &Sizes, b: &Sizes) -> Option<Sizes> {
    let n = match (a.entries.len(), b.entries.len()) {
        (m, n) if m == n => m,
        (1, n) | (n, 1) => n,
        _ => return None,
    };
    let pick = |s: &Sizes, i: usize| s.entries.get(if s.entries.len() == 1 { 0 } else { i }).copied();
    let entries: Option<Vec<Entry>> = (0..n).map(|i| arithmetic(im, op, pick(a, i)?, pick(b, i)?)).collect();
    Some(Sizes { entries: entries?, scalar: a.scalar && b.scalar, dtype: a.dtype })
}

fn arithmetic(im: &mut Importer<'_>, op: &str, a: Entry, b: Entry) -> Option<Entry> {
    let table = &mut im.b.graph.dims;
    let result = match (op, a, b) {
        ("Add", Entry::Number(x), Entry::Number(y)) => return x.checked_add(y).map(Entry::Number),
        ("Sub", Entry::Number(x), Entry::Number(y)) => return x.checked_sub(y).map(Entry::Number),
        ("Mul", Entry::Number(x), Entry::Number(y)) => return x.checked_mul(y).map(Entry::Number),
        ("Div", Entry::Number(x), Entry::Number(y)) => return x.checked_div(y).map(Entry::Number),
        ("Mul", Entry::Number(0), _) | ("Mul", _, Entry::Number(0)) => return Some(Entry::Number(0)),
        ("Add", Entry::Size(d), Entry::Number(n)) | ("Add", Entry::Number(n), Entry::Size(d)) => {
            plus(im, d, n)?
        }
        ("Sub", Entry::Size(d), Entry::Number(n)) => plus(im, d, n.checked_neg()?)?,
        ("Sub", Entry::Size(a), Entry::Size(b)) => table.difference(a, b)?,
        ("Add", Entry::Size(a), Entry::Size(b)) => table.add(a, b).ok()?,
        ("Mul", Entry::Size(a), Entry::Size(b)) => table.mul(a, b).ok()?,
        ("Mul", Entry::Size(d), Entry::Number(n)) | ("Mul", Entry::Number(n), Entry::Size(d)) => {
            let n = table.constant(u64::try_from(n).ok()?).ok()?;
            table.mul(d, n).ok()?
        }
        ("Div", Entry::Size(d), Entry::Number(n)) => {
            table.div_floor(d, u64::try_from(n).ok().filter(|n| *n > 0)?).ok()?
        }
        ("Div", Entry::Size(a), Entry::Size(b)) => table.quotient(a, b)?,
        ("Max", Entry::Size(d), Entry::Number(n)) | ("Max", Entry::Number(n), Entry::Size(d))
            if i64::try_from(table.range(d).0).is_ok_and(|low| low >= n) =>
        {
            d
        }
        ("Min", Entry::Size(d), Entry::Number(n)) | ("Min", Entry::Number(n), Entry::Size(d))
            if i64::try_from(table.range(d).1).is_ok_and(|high| high <= n) =>
        {
            d
        }
        _ => return None,
    };
    Some(im.entry(result))
}

/// `d + n`, where that is not negative within the bounds.
fn plus(im: &mut Importer<'_>, d: Dim, n: i64) -> Option<Dim> {
    let table = &mut im.b.graph.dims;
    match u64::try_from(n) {
        Ok(n) => {
            let n = table.constant(n).ok()?;
            table.add(d, n).ok()
        }
        Err(_) if table.range(d).0 >= n.unsigned_abs() => table.saturating_sub(d, n.unsigned_abs()).ok(),
        Err(_) => None,
    }
}

impl<'m> Importer<'m> {
    /// A size as an entry: a number where it is known.
    pub fn entry(&self, d: Dim) -> Entry {
        match self.b.graph.dims.known(d).and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Entry::Number(n),
            None => Entry::Size(d),
        }
    }

    /// The item of a list of sizes: a constant where all are numbers.
    pub fn add_sizes(&mut self, s: Sizes) -> Item {
        let numbers: Option<Vec<i64>> = s
            .entries
            .iter()
            .map(|e| match e {
                Entry::Number(n) => Some(*n),
                Entry::Size(_) => None,
            })
            .collect();
        match numbers {
            Some(numbers) => {
                let dims = if s.scalar { vec![] } else { vec![numbers.len() as u64] };
                let data = match s.dtype {
                    DType::I32 => Data::from_slice(&numbers.iter().map(|n| *n as i32).collect::<Vec<_>>()),
                    _ => Data::from_slice(&numbers),
                };
                self.add_constant(Constant { name: String::new(), dtype: s.dtype, dims, data })
            }
            None => {
                self.size_lists.push(s);
                Item::Sizes(self.size_lists.len() - 1)
            }
        }
    }

    /// Input `i` as a list of sizes, if it is one: integers of rank 0 or 1 that are known now.
    pub fn sizes_of(&self, node: &Node<'m>, i: usize) -> Option<Sizes> {
        match self.item(node, i)? {
            Item::Sizes(id) => self.size_lists.get(id).cloned(),
            Item::Constant(_) => {
                let c = self.constant(node, i)?;
                if c.dims.len() > 1 || !matches!(c.dtype, DType::I64 | DType::I32) {
                    return None;
                }
                let entries: Vec<Entry> = c.integers()?.into_iter().map(Entry::Number).collect();
                (entries.len() <= MOST).then_some(Sizes {
                    entries,
                    scalar: c.dims.is_empty(),
                    dtype: c.dtype,
                })
            }
            _ => None,
        }
    }

    /// Input `i` as sizes, where nothing else will do; `None` if it is not given.
    pub fn entries(&self, node: &Node<'m>, i: usize, what: &str) -> Result<Option<Vec<Entry>>, Fail> {
        if !node.has(i) {
            return Ok(None);
        }
        if matches!(self.item(node, i), Some(Item::Poisoned)) {
            return Err(Fail::Poisoned);
        }
        match self.sizes_of(node, i) {
            Some(s) => Ok(Some(s.entries)),
            None => Err(Fail::Unsupported(format!("{what} must be constant, or follow from sizes"))),
        }
    }

    /// Input `i` as the sizes of a tensor, none below 0.
    pub fn shape_of(&self, node: &Node<'m>, i: usize, what: &str) -> Result<Vec<Size>, Fail> {
        let entries = self.entries(node, i, what)?;
        let entries = entries.ok_or_else(|| node.wrong(format!("{what} is missing")))?;
        entries.iter().map(|e| e.size(node)).collect()
    }

    /// The dimensions of input `i`, whatever it is.
    pub fn dims_at(&mut self, node: &Node<'m>, i: usize) -> Result<Vec<Dim>, Fail> {
        let number = |im: &mut Self, n: u64| {
            im.b.graph.dims.constant(n).map_err(|_| node.wrong("a size over 64 bits"))
        };
        match self.item(node, i) {
            Some(Item::Constant(_)) => {
                let dims = self.constant(node, i).map(|c| c.dims.clone()).unwrap_or_default();
                dims.into_iter().map(|n| number(self, n)).collect()
            }
            Some(Item::Sizes(id)) => {
                let s = self.size_lists.get(id).cloned();
                let n = s.filter(|s| !s.scalar).map(|s| s.entries.len() as u64);
                n.into_iter().map(|n| number(self, n)).collect()
            }
            _ => self.input(node, i).map(|(v, _)| self.dims_of(v)),
        }
    }

    /// A list of sizes as an i32 tensor that a step computes.
    pub fn sizes_as_tensor(&mut self, at: &str, s: &Sizes) -> Result<Value, crate::error::Error> {
        let mut parts = Vec::new();
        for (i, e) in s.entries.iter().enumerate() {
            parts.push(match e {
                Entry::Size(d) => self.b.size_scalar(&format!("{at}:size{i}"), *d)?,
                Entry::Number(n) => {
                    let n = (*n).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
                    self.b.constant(DType::I32, &[], Data::from_slice(&[n]))?
                }
            });
        }
        if let ([one], true) = (parts.as_slice(), s.scalar) {
            return Ok(*one);
        }
        for (i, p) in parts.iter_mut().enumerate() {
            *p = self.b.reshape(&format!("{at}:element{i}"), *p, &[Size::Number(1)])?;
        }
        // In groups of as many as a concatenation takes.
        while parts.len() > 1 {
            let mut joined = Vec::new();
            for (i, group) in parts.chunks(serinette_core::MAX_INPUTS).enumerate() {
                joined.push(match group {
                    [one] => *one,
                    _ => self.b.concat(&format!("{at}:sizes{i}"), group, 0)?,
                });
            }
            parts = joined;
        }
        parts.first().copied().ok_or(crate::error::Error::count(at, "sizes", 1, 0))
    }
}
