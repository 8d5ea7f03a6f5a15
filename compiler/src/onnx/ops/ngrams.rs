//! `TfIdfVectorizer`: how often known n-grams occur, by comparing every window of the input with each of them.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::compare::{AND, EQUAL};
use serinette_core::op::reduce::{self, Reduce};
use serinette_core::op::unary::{CLIP, Parameters};
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[("TfIdfVectorizer", vectorize)];

/// Most windows, skips and columns: each skip is some steps, and columns are a matrix in the blob.
const MOST: usize = 1 << 12;

/// The n-grams of one length.
struct Grams<'a> {
    length: usize,
    /// One after the other, `length` items each.
    items: &'a [i64],
    /// Number of the first among all.
    first: usize,
}

/// The pool by lengths, from `ngram_counts`: where the n-grams of each length begin.
fn grams<'m>(node: &Node<'m>, shortest: usize, longest: usize) -> Result<Vec<Grams<'m>>, Fail> {
    if node.attribute("pool_strings").is_some() {
        return unsupported("strings");
    }
    let pool = node.ints("pool_int64s").unwrap_or(&[]);
    let starts: Option<Vec<usize>> =
        node.ints("ngram_counts").unwrap_or(&[]).iter().map(|n| usize::try_from(*n).ok()).collect();
    let starts = starts.ok_or_else(|| node.wrong("ngram_counts below 0"))?;
    let (mut all, mut first) = (Vec::new(), 0);
    for (i, start) in starts.iter().enumerate() {
        let (length, end) = (i + 1, starts.get(i + 1).copied().unwrap_or(pool.len()));
        let items = pool.get(*start..end).filter(|p| p.len() % length == 0);
        let items = items.ok_or_else(|| node.wrong(format!("the pool of {length}-grams")))?;
        if (shortest..=longest).contains(&length) && !items.is_empty() {
            all.push(Grams { length, items, first });
        }
        first += items.len() / length;
    }
    Ok(all)
}

fn vectorize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let count = |name: &str| -> Result<usize, Fail> {
        let n = node.int(name, 0)?;
        usize::try_from(n).map_err(|_| node.wrong(format!("{name} = {n}")))
    };
    let (skips, shortest, longest) =
        (count("max_skip_count")?, count("min_gram_length")?, count("max_gram_length")?);
    let (bounded, weighted) = match node.text("mode", "")?.as_str() {
        "TF" => (false, false),
        "IDF" => (true, true),
        "TFIDF" => (false, true),
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let columns = node.ints("ngram_indexes").unwrap_or(&[]);
    let weights = node.attribute("weights").map_or(&[][..], |a| a.floats.as_slice());
    let all = grams(node, shortest, longest)?;
    let label = |what: &str| format!("{}:{what}", node.name);
    let (mut x, _) = im.input(node, 0)?;
    if im.b.graph.tensor(x).dtype != DType::I32 {
        return unsupported("n-grams of what is no integer");
    }
    let dims = im.dims_of(x);
    let Some(length) = dims.last().and_then(|d| im.b.graph.dims.known(*d)) else {
        return unsupported("sequences of an open length");
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let rows: Size = match dims.as_slice() {
        [_] => Size::Number(1),
        [n, _] => Size::Expr(*n),
        _ => return Err(node.wrong("sequences are a vector or the rows of a matrix")),
    };
    x = im.b.reshape(&label("rows"), x, &[rows, Size::Number(length as u64)])?;
    let width = columns.iter().max().and_then(|n| usize::try_from(*n).ok()).map_or(0, |n| n + 1);
    if width == 0 || width > MOST || skips > MOST || columns.len() > MOST {
        return unsupported(format!("{} n-grams in {width} columns, {skips} skips", columns.len()));
    }
    let mut total: Option<Value> = None;
    for g in &all {
        let number = g.items.len() / g.length;
        if columns.len() < g.first + number {
            return Err(node.wrong("n-grams without a column"));
        }
        let Some(found) = occurrences(im, node, g, x, rows, length, skips)? else { continue };
        // Which column each belongs to, and what it counts there.
        let mut matrix = vec![0f32; number * width];
        for i in 0..number {
            let column = columns.get(g.first + i).and_then(|c| usize::try_from(*c).ok());
            let column = column.ok_or_else(|| node.wrong("a column below 0"))?;
            let weight = weights.get(g.first + i).copied().filter(|_| weighted).unwrap_or(1.0);
            matrix[i * width + column] = weight;
        }
        let found = if bounded {
            im.b.op(&label("found"), &CLIP, Parameters { alpha: 0.0, beta: 1.0 }, &[found])?
        } else {
            found
        };
        let matrix = im.b.constant(DType::F32, &[number as u64, width as u64], Data::from_slice(&matrix))?;
        let part = im.b.matmul(&label("columns"), found, matrix, None)?;
        total = Some(match total {
            Some(sum) => im.b.add(&label("sum"), sum, part)?,
            None => part,
        });
    }
    let y = match total {
        Some(y) => y,
        None => {
            let zero = im.b.constant(DType::F32, &[], Data::from_slice(&[0f32]))?;
            let shape = [rows, Size::Number(width as u64)];
            im.b.single(
                &label("nothing"),
                &serinette_core::op::generate::FILL,
                NoAttributes {},
                &[Some(zero)],
                &[],
                Some(&shape),
            )?
        }
    };
    if dims.len() == 1 {
        return one(im.b.reshape(&node.name, y, &[Size::Number(width as u64)])?, false);
    }
    one(y, false)
}

/// How often each n-gram occurs in each row, `[rows, number]`; `None` where none can.
fn occurrences<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    g: &Grams<'_>,
    x: Value,
    rows: Size,
    length: usize,
    skips: usize,
) -> Result<Option<Value>, Fail> {
    let label = |what: &str| format!("{}:{}-grams_{what}", node.name, g.length);
    let number = g.items.len() / g.length;
    let mut items = Vec::new();
    for j in 0..g.length {
        let column: Vec<i32> = (0..number)
            .map(|i| g.items[i * g.length + j].clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
            .collect();
        items.push(im.b.constant(DType::I32, &[1, 1, number as u64], Data::from_slice(&column))?);
    }
    let mut total: Option<Value> = None;
    // A single item has no neighbours to skip.
    for skip in 0..=if g.length == 1 { 0 } else { skips } {
        let apart = skip + 1;
        let Some(windows) = length.checked_sub((g.length - 1) * apart).filter(|n| *n > 0) else { break };
        let mut equal: Option<Value> = None;
        for (j, item) in items.iter().enumerate() {
            let from = u32::try_from(j * apart).map_err(|_| node.wrong("skips"))?;
            let sizes = [rows, Size::Number(windows as u64)];
            let part = im.b.slice(&label("windows"), x, &[0, from], &[1, 1], &sizes)?;
            let sizes = [rows, Size::Number(windows as u64), Size::Number(1)];
            let part = im.b.reshape(&label("column"), part, &sizes)?;
            let same = im.b.op(&label("equal"), &EQUAL, NoAttributes {}, &[part, *item])?;
            equal = Some(match equal {
                Some(all) => im.b.op(&label("all"), &AND, NoAttributes {}, &[all, same])?,
                None => same,
            });
        }
        let Some(equal) = equal else { break };
        let ones = im.b.cast(&label("ones"), equal, DType::F32)?;
        let count = im.b.op(&label("count"), &reduce::SUM, Reduce { axes: 2, keep_axes: 0 }, &[ones])?;
        total = Some(match total {
            Some(sum) => im.b.add(&label("sum"), sum, count)?,
            None => count,
        });
    }
    Ok(total)
}
