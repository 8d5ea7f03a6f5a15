//! `Einsum` in terms of matrix products, sums, transpositions and diagonals.

use super::linear::product;
use super::{Handler, one};
use crate::builder::Size;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::op::matmul::MatMul;
use serinette_core::op::reduce::{self, Reduce};
use serinette_core::shape::{Dim, DimAlgebra};

pub(super) static HANDLERS: &[(&str, Handler)] = &[("Einsum", einsum)];

/// An axis of the equation: a letter, or one of those that `...` stands for, counted from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Dots(std::cmp::Reverse<usize>),
    Letter(char),
}

/// A tensor and what its axes are called.
#[derive(Clone, Debug)]
struct Term {
    value: Value,
    labels: Vec<Label>,
}

impl Term {
    fn has(&self, l: Label) -> bool {
        self.labels.contains(&l)
    }
}

fn einsum<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let equation: String = node.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != node.proto.input.len() {
        return Err(node.wrong(format!("{} terms in {equation:?}", texts.len())));
    }
    let (mut terms, mut any, mut dots) = (Vec::new(), false, 0);
    for (i, text) in texts.iter().enumerate() {
        let (value, wide) = im.input(node, i)?;
        any |= wide;
        let rank = im.rank(value);
        let letters = text.chars().filter(|c| *c != '.').count();
        let spread = rank.checked_sub(letters).filter(|n| *n == 0 || text.contains('.'));
        let spread = spread.ok_or_else(|| node.wrong(format!("{text:?} for {rank} axes")))?;
        dots = dots.max(spread);
        terms.push(Term { value, labels: labels(node, text, spread)? });
    }
    let output = match right {
        Some(text) => labels(node, text, dots)?,
        None => implicit(&terms, dots),
    };
    for (i, l) in output.iter().enumerate() {
        if output[..i].contains(l) || !terms.iter().any(|t| t.has(*l)) {
            return Err(node.wrong(format!("result axes of {equation:?}")));
        }
    }
    for t in &mut terms {
        diagonals(im, node, t)?;
    }
    broadcast(im, node, &mut terms)?;
    let mut rest = terms.into_iter();
    let Some(mut all) = rest.next() else { return Err(node.wrong("no terms")) };
    while let Some(next) = rest.next() {
        let needed = |l: &Label| output.contains(l) || rest.as_slice().iter().any(|t| t.has(*l));
        let a = summed(im, node, all, |l| needed(l) || next.has(*l))?;
        let b = summed(im, node, next, |l| needed(l) || a.has(*l))?;
        all = contract(im, node, &a, &b, needed)?;
    }
    let all = summed(im, node, all, |l| output.contains(l))?;
    one(ordered(im, node, &all, &output)?, any)
}

/// The axes that a term names; `...` stands for `dots` of them.
fn labels(node: &Node<'_>, text: &str, dots: usize) -> Result<Vec<Label>, Fail> {
    let letters = |part: &str| -> Result<Vec<Label>, Fail> {
        match part.chars().find(|c| !c.is_ascii_alphabetic()) {
            Some(c) => Err(node.wrong(format!("{c:?} in an equation"))),
            None => Ok(part.chars().map(Label::Letter).collect()),
        }
    };
    let Some((before, after)) = text.split_once("...") else { return letters(text) };
    let mut all = letters(before)?;
    all.extend((0..dots).rev().map(|i| Label::Dots(std::cmp::Reverse(i))));
    all.extend(letters(after)?);
    Ok(all)
}

/// The result without `->`: the axes of `...`, then the letters that stand once, by the alphabet.
fn implicit(terms: &[Term], dots: usize) -> Vec<Label> {
    let mut letters: Vec<Label> = terms.iter().flat_map(|t| t.labels.iter().copied()).collect();
    letters.retain(|l| matches!(l, Label::Letter(_)));
    letters.sort();
    let once = |l: &Label| letters.iter().filter(|o| *o == l).count() == 1;
    let dots = (0..dots).rev().map(|i| Label::Dots(std::cmp::Reverse(i)));
    dots.chain(letters.iter().copied().filter(once)).collect()
}

/// Leaves of axes with one name the diagonal.
fn diagonals(im: &mut Importer<'_>, node: &Node<'_>, t: &mut Term) -> Result<(), Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    loop {
        let twice = (0..t.labels.len()).find_map(|i| {
            let j = (i + 1..t.labels.len()).find(|j| t.labels[*j] == t.labels[i])?;
            Some((i, j))
        });
        let Some((i, j)) = twice else { return Ok(()) };
        let mut order: Vec<usize> = (0..t.labels.len()).filter(|a| *a != i && *a != j).collect();
        let mut names: Vec<Label> = order.iter().map(|a| t.labels[*a]).collect();
        names.push(t.labels[i]);
        order.extend([i, j]);
        let dims = im.dims_of(t.value);
        let known = |d: Dim| im.b.graph.dims.known(d).and_then(|n| u32::try_from(n).ok());
        let (Some(n), Some(m)) = (known(dims[i]), known(dims[j])) else {
            return unsupported("the diagonal of axes of open size");
        };
        if n != m {
            return Err(node.wrong(format!("the diagonal of {n} × {m} elements")));
        }
        let square = im.b.transpose(&label("square"), t.value, &order)?;
        let mut sizes: Vec<Size> = order[..order.len() - 2].iter().map(|a| Size::Expr(dims[*a])).collect();
        sizes.push(Size::Number(u64::from(n) * u64::from(n)));
        let rows = im.b.reshape(&label("rows"), square, &sizes)?;
        let mut steps = vec![1; sizes.len()];
        if let (Some(size), Some(step)) = (sizes.last_mut(), steps.last_mut()) {
            *size = Size::Number(u64::from(n));
            *step = n.saturating_add(1);
        }
        let starts = vec![0; sizes.len()];
        *t = Term { value: im.b.slice(&label("diagonal"), rows, &starts, &steps, &sizes)?, labels: names };
    }
}

/// Drops axes of one element where another term has more along them: every element of the others meets it anyway.
fn broadcast(im: &mut Importer<'_>, node: &Node<'_>, terms: &mut [Term]) -> Result<(), Fail> {
    let single = |im: &Importer<'_>, t: &Term, l: Label| {
        let at = t.labels.iter().position(|o| *o == l)?;
        Some(im.b.graph.dims.known(*im.dims_of(t.value).get(at)?) == Some(1))
    };
    for i in 0..terms.len() {
        let t = terms[i].clone();
        let keep: Vec<bool> = t
            .labels
            .iter()
            .map(|l| {
                single(im, &t, *l) != Some(true) || !terms.iter().any(|o| single(im, o, *l) == Some(false))
            })
            .collect();
        if keep.iter().all(|k| *k) {
            continue;
        }
        let kept = |v: &mut dyn Iterator<Item = Size>| -> Vec<Size> {
            v.zip(&keep).filter(|(_, k)| **k).map(|(s, _)| s).collect()
        };
        let sizes = kept(&mut im.dims_of(t.value).into_iter().map(Size::Expr));
        let value = im.b.reshape(&format!("{}:term{i}", node.name), t.value, &sizes)?;
        let labels = t.labels.iter().zip(&keep).filter(|(_, k)| **k).map(|(l, _)| *l).collect();
        terms[i] = Term { value, labels };
    }
    Ok(())
}

/// The sum over the axes that are not wanted.
fn summed(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    t: Term,
    wanted: impl Fn(&Label) -> bool,
) -> Result<Term, Fail> {
    let over = t.labels.iter().enumerate().filter(|(_, l)| !wanted(l));
    let axes = over.fold(0u32, |mask, (axis, _)| mask | 1 << axis);
    if axes == 0 {
        return Ok(t);
    }
    let attrs = Reduce { axes, keep_axes: 0 };
    let value = im.b.op(&format!("{}:sum", node.name), &reduce::SUM, attrs, &[t.value])?;
    Ok(Term { value, labels: t.labels.into_iter().filter(wanted).collect() })
}

/// The axes in another order.
fn ordered(im: &mut Importer<'_>, node: &Node<'_>, t: &Term, order: &[Label]) -> Result<Value, Fail> {
    let places: Option<Vec<usize>> = order.iter().map(|l| t.labels.iter().position(|o| o == l)).collect();
    let places = places.ok_or_else(|| node.wrong("an axis that no term has"))?;
    if places.iter().enumerate().all(|(i, p)| i == *p) && places.len() == t.labels.len() {
        return Ok(t.value);
    }
    Ok(im.b.transpose(&format!("{}:ordered", node.name), t.value, &places)?)
}

/// The product of two terms, summed over what they share and nobody else needs: one matrix product with all axes that
/// both have and keep as the batch.
fn contract(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    a: &Term,
    b: &Term,
    needed: impl Fn(&Label) -> bool,
) -> Result<Term, Fail> {
    let select = |t: &Term, f: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        t.labels.iter().copied().filter(|l| f(l)).collect()
    };
    let batch = select(a, &|l| b.has(*l) && needed(l));
    let inner = select(a, &|l| b.has(*l) && !needed(l));
    let rows = select(a, &|l| !b.has(*l));
    let columns = select(b, &|l| !a.has(*l));
    let sizes = |im: &Importer<'_>, labels: &[Label]| -> Vec<Dim> {
        let (of_a, of_b) = (im.dims_of(a.value), im.dims_of(b.value));
        let find = |l: &Label, t: &Term, dims: &[Dim]| {
            t.labels.iter().position(|o| o == l).and_then(|i| dims.get(i)).copied()
        };
        labels.iter().filter_map(|l| find(l, a, &of_a).or_else(|| find(l, b, &of_b))).collect()
    };
    let stored = [batch.as_slice(), &columns, &inner].concat() == b.labels && !inner.is_empty();
    let mut groups = Vec::new();
    for group in [&batch, &rows, &inner, &columns] {
        let dims = sizes(im, group);
        groups.push(Size::Expr(product(im, &node.name, &dims)?));
    }
    let [outer, m, k, n] = groups[..] else { return Err(node.wrong("groups of axes")) };
    let lead: &[Size] = if batch.is_empty() { &[] } else { &[outer] };
    let left = ordered(im, node, a, &[batch.as_slice(), &rows, &inner].concat())?;
    let left = im.b.reshape(&format!("{}:left", node.name), left, &[lead, &[m, k]].concat())?;
    let (order, matrix) = if stored {
        ([batch.as_slice(), &columns, &inner].concat(), [n, k])
    } else {
        ([batch.as_slice(), &inner, &columns].concat(), [k, n])
    };
    let right = ordered(im, node, b, &order)?;
    let right = im.b.reshape(&format!("{}:right", node.name), right, &[lead, &matrix].concat())?;
    // Without a sum the products are those of a column and a row.
    let y = if inner.is_empty() {
        im.b.mul(&node.name, left, right)?
    } else {
        let attrs = MatMul { activation: 0, transpose_b: u32::from(stored) };
        im.b.matmul_with(&node.name, attrs, left, right, None)?
    };
    let labels = [batch, rows, columns].concat();
    let shape: Vec<Size> = sizes(im, &labels).into_iter().map(Size::Expr).collect();
    Ok(Term { value: im.b.reshape(&format!("{}:axes", node.name), y, &shape)?, labels })
}
