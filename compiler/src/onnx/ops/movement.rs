//! Ops that move or rename elements.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor::Constant;
use serinette_core::DType;
use serinette_core::op::reverse::{STRIDED_SLICE, StridedSlice};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Concat", concat),
    ("Slice", slice),
    ("Split", split),
    ("Constant", constant),
];

/// The product of sizes.
pub(super) fn product(im: &mut Importer<'_>, at: &str, dims: &[Dim]) -> Result<Dim, Fail> {
    let table = &mut im.b.graph.dims;
    let one = table.constant(1);
    let all = one.and_then(|one| dims.iter().try_fold(one, |n, d| table.mul(n, *d)));
    all.map_err(|e| Fail::Wrong(Error::shape(at, e)))
}

fn reshape<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let zero_copies = node.int("allowzero", 0)? == 0;
    let (x, wide) = im.input(node, 0)?;
    // Before version 5 the shape was an attribute.
    let attribute = node.ints("shape").map(|s| s.iter().map(|n| Entry::Number(*n)).collect());
    let target = im.entries(node, 1, "the shape")?.or(attribute);
    let target = target.ok_or_else(|| node.wrong("the shape is missing"))?;
    let dims = im.dims_of(x);
    let (mut sizes, mut open) = (Vec::new(), None);
    let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
    for (axis, t) in target.iter().enumerate() {
        let number = |im: &mut Importer<'_>, n: u64| im.b.graph.dims.constant(n).map_err(wrong);
        sizes.push(match t {
            Entry::Size(d) => *d,
            Entry::Number(0) if zero_copies => {
                *dims.get(axis).ok_or_else(|| node.wrong("0 for an axis that the input does not have"))?
            }
            Entry::Number(-1) if open.is_none() => {
                open = Some(axis);
                number(im, 1)?
            }
            Entry::Number(n) => match u64::try_from(*n) {
                Ok(n) => number(im, n)?,
                Err(_) => return Err(node.wrong(format!("shape {target:?}"))),
            },
        });
    }
    if let Some(axis) = open {
        // Sizes that occur on both sides cancel out, which keeps the open one simple; the rest is divided.
        let mut rest = dims.clone();
        let mut divisors: Vec<Dim> =
            sizes.iter().copied().enumerate().filter(|(i, _)| *i != axis).map(|(_, d)| d).collect();
        divisors.retain(|d| match rest.iter().position(|r| r == d) {
            Some(i) => {
                rest.remove(i);
                false
            }
            None => true,
        });
        let (total, known) = (product(im, &node.name, &rest)?, product(im, &node.name, &divisors)?);
        let table = &mut im.b.graph.dims;
        sizes[axis] = match (table.quotient(total, known), table.known(known)) {
            (Some(d), _) => d,
            (None, Some(n)) => table.div_floor(total, n).map_err(wrong)?,
            (None, None) => {
                let (total, known) = (table.text(total), table.text(known));
                return unsupported(format!("an open axis of {total} / ({known}) elements"));
            }
        };
    }
    let sizes: Vec<Size> = sizes.into_iter().map(Size::Expr).collect();
    one(im.b.reshape(&node.name, x, &sizes)?, wide)
}

fn flatten<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let axis = node.int("axis", 1)?;
    let axis = if axis == dims.len() as i64 { dims.len() } else { node.axis(axis, dims.len())? };
    let outer = product(im, &node.name, &dims[..axis])?;
    let inner = product(im, &node.name, &dims[axis..])?;
    one(im.b.reshape(&node.name, x, &[outer.into(), inner.into()])?, wide)
}

/// Axes from the second input (operator set 13) or the attribute, in the file's order.
fn axes<'m>(im: &Importer<'m>, node: &Node<'m>) -> Result<Option<Vec<i64>>, Fail> {
    let attribute = node.ints("axes").map(<[i64]>::to_vec);
    Ok(im.constant_integers(node, 1, "the axes")?.or(attribute))
}

fn squeeze<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let is_one = |d: &Dim| im.b.graph.dims.known(*d) == Some(1);
    let drop: Vec<usize> = match axes(im, node)? {
        Some(axes) => axes.iter().map(|a| node.axis(*a, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).filter(|i| is_one(&dims[*i])).collect(),
    };
    if let Some(a) = drop.iter().find(|a| !is_one(&dims[**a])) {
        return Err(node.wrong(format!("axis {a} does not have size 1")));
    }
    let kept = dims.iter().enumerate().filter(|(i, _)| !drop.contains(i)).map(|(_, d)| Size::Expr(*d));
    let kept: Vec<Size> = kept.collect();
    one(im.b.reshape(&node.name, x, &kept)?, wide)
}

fn unsqueeze<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let axes = axes(im, node)?.ok_or_else(|| node.wrong("the axes are missing"))?;
    let rank = dims.len() + axes.len();
    let new: Vec<usize> = axes.iter().map(|a| node.axis(*a, rank)).collect::<Result<_, _>>()?;
    let mut old = dims.iter();
    let mut sizes = Vec::new();
    for axis in 0..rank {
        sizes.push(match (new.contains(&axis), old.as_slice()) {
            (true, _) => Size::Number(1),
            (false, [d, ..]) => {
                old.next();
                Size::Expr(*d)
            }
            (false, []) => return Err(node.wrong("an axis given twice")),
        });
    }
    one(im.b.reshape(&node.name, x, &sizes)?, wide)
}

fn transpose<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let rank = im.rank(x);
    let permutation: Vec<usize> = match node.ints("perm") {
        Some(p) => p.iter().map(|a| node.axis(*a, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).rev().collect(),
    };
    if permutation.iter().enumerate().all(|(i, p)| i == *p) && permutation.len() == rank {
        return one(x, wide);
    }
    one(im.b.transpose(&node.name, x, &permutation)?, wide)
}

fn concat<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let mut inputs = Vec::new();
    let mut any = false;
    for i in 0..node.proto.input.len() {
        let (v, wide) = im.input(node, i)?;
        inputs.push(v);
        any |= wide;
    }
    let Some(first) = inputs.first() else { return Err(node.wrong("no inputs")) };
    let axis = node.axis(node.int("axis", 0)?, im.rank(*first))?;
    if inputs.len() > serinette_core::MAX_INPUTS {
        return unsupported(format!("{} inputs (at most {})", inputs.len(), serinette_core::MAX_INPUTS));
    }
    one(im.b.concat(&node.name, &inputs, axis as u32)?, any)
}

fn slice<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    // Before version 10 all were attributes.
    let attribute =
        |name: &str| node.ints(name).map(|v| v.iter().map(|n| Entry::Number(*n)).collect::<Vec<_>>());
    let starts = im.entries(node, 1, "starts")?.or(attribute("starts"));
    let ends = im.entries(node, 2, "ends")?.or(attribute("ends"));
    let (Some(starts), Some(ends)) = (starts, ends) else { return Err(node.wrong("starts or ends missing")) };
    let default: Vec<i64> = (0..starts.len() as i64).collect();
    let axes =
        im.constant_integers(node, 3, "axes")?.or(node.ints("axes").map(<[i64]>::to_vec)).unwrap_or(default);
    let steps = im.constant_integers(node, 4, "steps")?.unwrap_or(vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(node.wrong("starts, ends, axes and steps differ in length"));
    }
    let mut first = vec![0u32; dims.len()];
    let mut step = vec![1i32; dims.len()];
    let mut counts: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    for i in 0..starts.len() {
        let axis = node.axis(axes[i], dims.len())?;
        let (from, n) = if steps[i] > 0 {
            along(im, node, dims[axis], starts[i], ends[i], steps[i] as u64)?
        } else {
            backwards(im, node, dims[axis], starts[i], ends[i], steps[i])?
        };
        (first[axis], counts[axis]) = (from, n);
        step[axis] = i32::try_from(steps[i]).map_err(|_| node.wrong(format!("step {}", steps[i])))?;
    }
    let whole = counts.iter().zip(&dims).all(|(c, d)| *c == Size::Expr(*d));
    if whole && first.iter().all(|s| *s == 0) && step.iter().all(|s| *s == 1) {
        return one(x, wide);
    }
    if step.iter().any(|s| *s < 0) {
        let mut attrs = StridedSlice::default();
        attrs.starts[..first.len()].copy_from_slice(&first);
        attrs.steps[..step.len()].copy_from_slice(&step);
        return one(im.b.single(&node.name, &STRIDED_SLICE, attrs, &[Some(x)], &[], Some(&counts))?, wide);
    }
    let step: Vec<u32> = step.iter().map(|s| s.unsigned_abs()).collect();
    one(im.b.slice(&node.name, x, &first, &step, &counts)?, wide)
}

/// First element and number of elements along one axis for a negative step.
fn backwards(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    size: Dim,
    start: Entry,
    end: Entry,
    step: i64,
) -> Result<(u32, Size), Fail> {
    let n = im.b.graph.dims.known(size).and_then(|n| i64::try_from(n).ok());
    let (Some(n), Entry::Number(start), Entry::Number(end)) = (n, start, end) else {
        return unsupported("a negative step along an open size");
    };
    if step == 0 {
        return Err(node.wrong("a step of 0"));
    }
    let place = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    // One before the first element stands for "to the end".
    let (from, to) = (place(start).min(n - 1), place(end).max(-1));
    let count = if from > to { (from - to).unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
    Ok((u32::try_from(from.max(0)).unwrap_or(u32::MAX), Size::Number(count)))
}

fn split<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let dims = im.dims_of(x);
    let axis = node.axis(node.int("axis", 0)?, dims.len())?;
    // Sizes are an attribute before version 13; without any the parts are equal, the last one smaller where they cannot be.
    let given = im.constant_integers(node, 1, "the sizes")?.or(node.ints("split").map(<[i64]>::to_vec));
    let parts = node.int("num_outputs", node.proto.output.len() as i64)?;
    let total = im.b.graph.dims.known(dims[axis]);
    let sizes: Vec<u64> = match given {
        Some(sizes) => sizes
            .iter()
            .map(|s| u64::try_from(*s))
            .collect::<Result<_, _>>()
            .map_err(|_| node.wrong(format!("part sizes {sizes:?}")))?,
        None => {
            let total = total.ok_or(Fail::Unsupported("equal parts of an open size".into()))?;
            let parts = u64::try_from(parts).ok().filter(|p| *p > 0).ok_or_else(|| node.wrong("no parts"))?;
            let each = total.div_ceil(parts);
            (0..parts).map(|i| each.min(total.saturating_sub(i * each))).collect()
        }
    };
    if sizes.len() < node.proto.output.len() || total.is_some_and(|t| sizes.iter().sum::<u64>() != t) {
        return Err(
            node.wrong(format!("parts of {sizes:?} elements of {}", im.b.graph.dims.text(dims[axis])))
        );
    }
    let mut items = Vec::new();
    let mut start = 0u64;
    for (i, size) in sizes.iter().enumerate() {
        let mut first = vec![0u32; dims.len()];
        first[axis] = u32::try_from(start).map_err(|_| node.wrong("a part beyond 2^32 elements"))?;
        let mut counts: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
        counts[axis] = Size::Number(*size);
        let value = im.b.slice(&format!("{}:{i}", node.name), x, &first, &vec![1; dims.len()], &counts)?;
        items.push(Item::Value { value, wide });
        start += size;
    }
    Ok(items)
}

/// First element and number of elements along one axis.
fn along(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    size: Dim,
    start: Entry,
    end: Entry,
    step: u64,
) -> Result<(u32, Size), Fail> {
    let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
    let Entry::Number(start) = start else { return unsupported("a start that depends on sizes") };
    let end = match end {
        Entry::Number(n) => n,
        Entry::Size(d) if d == size => i64::MAX,
        // A size as the end: it must not be beyond the axis, which a guard makes sure of.
        Entry::Size(d) => {
            let Ok(from) = u64::try_from(start) else { return unsupported("a negative start before a size") };
            let table = &mut im.b.graph.dims;
            table.require_at_most("end of a slice", d, size).map_err(wrong)?;
            let span = table.saturating_sub(d, from).map_err(wrong)?;
            let count = table.div_ceil(span, step).map_err(wrong)?;
            return Ok((u32::try_from(from).unwrap_or(u32::MAX), Size::Expr(count)));
        }
    };
    let table = &mut im.b.graph.dims;
    let (low, high) = table.range(size);
    if let Some(n) = table.known(size) {
        let clamp = |v: i64| {
            let v = if v < 0 { v.saturating_add_unsigned(n) } else { v };
            u64::try_from(v).unwrap_or(0).min(n)
        };
        let (from, to) = (clamp(start), clamp(end));
        let count = table.constant(to.saturating_sub(from).div_ceil(step)).map_err(wrong)?;
        return Ok((u32::try_from(from).unwrap_or(u32::MAX), Size::Expr(count)));
    }
    let Ok(from) = u64::try_from(start) else { return unsupported("a negative start along an open size") };
    if from > low {
        return unsupported(format!("start {from} along a size that may be as small as {low}"));
    }
    let span = match u64::try_from(end) {
        Ok(e) if e >= high => table.saturating_sub(size, from).map_err(wrong)?,
        Ok(e) if e <= low => table.constant(e.saturating_sub(from)).map_err(wrong)?,
        Ok(e) => return unsupported(format!("end {e} along a size between {low} and {high}")),
        Err(_) => table.saturating_sub(size, end.unsigned_abs().saturating_add(from)).map_err(wrong)?,
    };
    let count = table.div_ceil(span, step).map_err(wrong)?;
    Ok((u32::try_from(from).unwrap_or(u32::MAX), Size::Expr(count)))
}

fn constant<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    if let Some(t) = node.attribute("value").and_then(|a| a.t.as_ref()) {
        let mut c = Constant::read(t, &node.name)?;
        c.name = String::new();
        return Ok(vec![im.add_constant(c)]);
    }
    let plain = |dtype, dims, data| Constant { name: String::new(), dtype, dims, data };
    let c = if let Some(a) = node.attribute("value_float") {
        plain(DType::F32, vec![], Data::from_slice(&[a.f.unwrap_or(0.0)]))
    } else if let Some(a) = node.attribute("value_int") {
        plain(DType::I64, vec![], Data::from_slice(&[a.i.unwrap_or(0)]))
    } else if let Some(a) = node.attribute("value_floats") {
        plain(DType::F32, vec![a.floats.len() as u64], Data::from_slice(&a.floats))
    } else if let Some(a) = node.attribute("value_ints") {
        plain(DType::I64, vec![a.ints.len() as u64], Data::from_slice(&a.ints))
    } else {
        return unsupported("a constant that is no dense tensor of numbers");
    };
    Ok(vec![im.add_constant(c)])
}
