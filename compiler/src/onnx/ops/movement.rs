//! Ops that move or rename elements.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::tensor::Constant;
use serinette_core::DType;
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Concat", concat),
    ("Slice", slice),
    ("Gather", gather),
    ("Constant", constant),
];

fn product(im: &mut Importer<'_>, at: &str, dims: &[Dim]) -> Result<Dim, Fail> {
    let table = &mut im.b.graph.dims;
    let one = table.constant(1);
    let all = one.and_then(|one| dims.iter().try_fold(one, |n, d| table.mul(n, *d)));
    all.map_err(|e| Fail::Wrong(Error::shape(at, e)))
}

fn reshape<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let zero_copies = node.int("allowzero", 0)? == 0;
    let (x, wide) = im.input(node, 0)?;
    let target =
        im.constant_integers(node, 1, "the shape")?.ok_or_else(|| node.wrong("the shape is missing"))?;
    let dims = im.dims_of(x);
    let (mut sizes, mut open, mut known) = (Vec::new(), None, 1u64);
    // Axes that are copied cancel out of the open one.
    let mut rest = dims.clone();
    for (axis, t) in target.iter().enumerate() {
        sizes.push(match u64::try_from(*t) {
            Ok(0) if zero_copies => {
                let d = *dims
                    .get(axis)
                    .ok_or_else(|| node.wrong("0 for an axis that the input does not have"))?;
                if let Some(i) = rest.iter().position(|r| *r == d) {
                    rest.remove(i);
                }
                Size::Expr(d)
            }
            Ok(n) => {
                known = known.checked_mul(n).ok_or_else(|| node.wrong("the shape is too large"))?;
                Size::Number(n)
            }
            Err(_) if *t == -1 && open.is_none() => {
                open = Some(axis);
                Size::Number(0)
            }
            Err(_) => return Err(node.wrong(format!("shape {target:?}"))),
        });
    }
    if let Some(axis) = open {
        let total = product(im, &node.name, &rest)?;
        let d =
            im.b.graph.dims.div_floor(total, known).map_err(|e| Fail::Wrong(Error::shape(&node.name, e)))?;
        sizes[axis] = Size::Expr(d);
    }
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
    let need = |v: Option<Vec<i64>>, what: &str| v.ok_or_else(|| node.wrong(format!("{what} missing")));
    let starts = need(im.constant_integers(node, 1, "starts")?, "starts")?;
    let ends = need(im.constant_integers(node, 2, "ends")?, "ends")?;
    let default: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = im.constant_integers(node, 3, "axes")?.unwrap_or(default);
    let steps = im.constant_integers(node, 4, "steps")?.unwrap_or(vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(node.wrong("starts, ends, axes and steps differ in length"));
    }
    let mut first = vec![0u32; dims.len()];
    let mut step = vec![1u32; dims.len()];
    let mut counts: Vec<Size> = dims.iter().map(|d| Size::Expr(*d)).collect();
    for i in 0..starts.len() {
        let axis = node.axis(axes[i], dims.len())?;
        if steps[i] < 1 {
            return unsupported(format!("step {} (only positive ones)", steps[i]));
        }
        let (from, n) = along(im, node, dims[axis], starts[i], ends[i], steps[i] as u64)?;
        (first[axis], counts[axis]) = (from, n);
        step[axis] = u32::try_from(steps[i]).unwrap_or(u32::MAX);
    }
    let whole = counts.iter().zip(&dims).all(|(c, d)| *c == Size::Expr(*d));
    if whole && first.iter().all(|s| *s == 0) {
        return one(x, wide);
    }
    one(im.b.slice(&node.name, x, &first, &step, &counts)?, wide)
}

/// First element and number of elements along one axis.
fn along(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    size: Dim,
    start: i64,
    end: i64,
    step: u64,
) -> Result<(u32, Size), Fail> {
    let table = &mut im.b.graph.dims;
    let wrong = |e| Fail::Wrong(Error::shape(&node.name, e));
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

fn gather<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((data, wide), (indices, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let axis = node.axis(node.int("axis", 0)?, im.rank(data))?;
    one(im.b.gather(&node.name, data, indices, axis as u32)?, wide)
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
