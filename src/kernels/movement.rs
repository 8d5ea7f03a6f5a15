//! Ops that move elements, for elements of any type: only their size counts.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use super::layout::{Axes, Axis, AxisWords, MOVE_AXES, dense_strides};
use serinette_core::op::movement::{Slice, Transpose};
use serinette_core::op::softmax;
use serinette_core::{MAX_RANK, Shape};
use serinette_dispatch::{LowerError, LowerStep, Operand};

pub(super) fn lower_copy(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let axes = Axes::fold(std::iter::once(Axis { size: y.shape.elements(), strides: [1] }));
    gather_strided(x, y, 0, axes, to)
}

pub(super) fn lower_transpose(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let permutation = attrs::<Transpose>(step)?.permutation;
    let strides = dense_strides(&x.shape);
    let along = |axis: usize| {
        let from = permutation.get(axis).and_then(|p| strides.get(usize::from(*p))).copied().unwrap_or(0);
        Axis { size: y.shape.dim(axis), strides: [from] }
    };
    gather_strided(x, y, 0, Axes::fold((0..y.shape.rank()).rev().map(along)), to)
}

pub(super) fn lower_slice(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, y) = (input(step, 0)?, output(step)?);
    let a: Slice = attrs(step)?;
    let strides = dense_strides(&x.shape);
    let too_far = LowerError::Invalid("a slice past the end");
    let mut base = 0usize;
    for (start, stride) in a.starts.iter().zip(strides).take(x.shape.rank()) {
        base = (*start as usize).checked_mul(stride).and_then(|o| o.checked_add(base)).ok_or(too_far)?;
    }
    let mut steps = [0; MAX_RANK];
    for ((s, stride), step) in steps.iter_mut().zip(strides).zip(a.steps) {
        // Along an axis of one element the step may be anything.
        *s = stride.saturating_mul(step as usize);
    }
    let along = |axis: usize| Axis { size: y.shape.dim(axis), strides: [steps[axis]] };
    gather_strided(x, y, base, Axes::fold((0..y.shape.rank().min(MAX_RANK)).rev().map(along)), to)
}

/// `y[i] = x[base + Σ i · stride]`, in the largest pieces that allow whole-word moves.
fn gather_strided(
    x: &Operand,
    y: &Operand,
    base: usize,
    axes: Axes<1>,
    to: &mut Launch<'_>,
) -> Result<(), LowerError> {
    let pieces = Pieces::new(x.dtype.size(), y.shape.elements(), base, axes);
    let AxisWords { rank, dims, strides: [strides] } = pieces.axes.words::<MOVE_AXES>()?;
    let n = word(pieces.n)?;
    let params =
        g::Move { n, x: x.location(), y: y.location(), base: word(pieces.base)?, rank, dims, strides };
    let (kernel, each) = match pieces.size {
        1 => (g::MOVE_1, 4),
        2 => (g::MOVE_2, 2),
        _ => (g::MOVE_4, 1),
    };
    to.items(kernel, params.words(), n.div_ceil(each))
}

/// A strided move of pieces of 1, 2 or 4 bytes.
#[derive(Debug, PartialEq, Eq)]
struct Pieces {
    size: usize,
    n: usize,
    base: usize,
    axes: Axes<1>,
}

impl Pieces {
    fn new(size: usize, n: usize, base: usize, axes: Axes<1>) -> Pieces {
        if size >= 4 {
            // Elements of several words: one more axis, innermost.
            let words = size / 4;
            let inner = std::iter::once(Axis { size: words, strides: [1] });
            let outer =
                axes.as_slice().iter().map(|a| Axis { size: a.size, strides: [a.strides[0] * words] });
            return Pieces {
                size: 4,
                n: n * words,
                base: base * words,
                axes: Axes::fold(inner.chain(outer)),
            };
        }
        // Elements below a word: whole words where every run begins at one. A single run may end within its last
        // word, since ranges are whole words.
        let r = 4 / size;
        let fits = match axes.as_slice() {
            [] => false,
            [run] => run.strides == [1] && base.is_multiple_of(r),
            [run, outer @ ..] => {
                run.strides == [1]
                    && run.size.is_multiple_of(r)
                    && base.is_multiple_of(r)
                    && outer.iter().all(|a| a.strides[0].is_multiple_of(r))
            }
        };
        if !fits {
            return Pieces { size, n, base, axes };
        }
        let words = axes.as_slice().iter().enumerate().map(|(i, a)| match i {
            0 => Axis { size: a.size.div_ceil(r), strides: [1] },
            _ => Axis { size: a.size, strides: [a.strides[0] / r] },
        });
        Pieces { size: 4, n: n.div_ceil(r), base: base / r, axes: Axes::fold(words) }
    }
}

/// An input of a concatenation: its operand and its elements in one row of the result.
struct Part<'a> {
    x: &'a Operand,
    width: usize,
}

/// Inputs of one dispatch of the kernel that joins parts which are not whole words.
const JOINED: usize = 8;

pub(super) fn lower_concat(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let y = output(step)?;
    let axis = attrs::<softmax::Axis>(step)?.axis as usize;
    let width = |s: &Shape| s.dim(axis).saturating_mul(s.inner(axis));
    let mut parts = Vec::with_capacity(step.inputs.len());
    for i in 0..step.inputs.len() {
        let x = input(step, i)?;
        if x.shape.elements() > 0 {
            parts.push(Part { x, width: width(&x.shape) });
        }
    }
    let (rows, row, size) = (y.shape.outer(axis), width(&y.shape), y.dtype.size());
    if parts.iter().try_fold(0usize, |sum, p| sum.checked_add(p.width)) != Some(row) {
        return Err(LowerError::Invalid("parts of a concatenation"));
    }
    // The last part of a single row may end within a word.
    let whole = |(i, p): (usize, &Part<'_>)| {
        (p.width * size).is_multiple_of(4) || (rows == 1 && i + 1 == parts.len())
    };
    if parts.iter().enumerate().all(whole) {
        place_parts(&parts, y, rows, row, to)
    } else {
        join_parts(&parts, y, row, to)
    }
}

/// One dispatch for each part.
fn place_parts(
    parts: &[Part<'_>],
    y: &Operand,
    rows: usize,
    row: usize,
    to: &mut Launch<'_>,
) -> Result<(), LowerError> {
    let size = y.dtype.size();
    let mut offset = 0;
    for p in parts {
        let part = (p.width * size).div_ceil(4);
        let n = word(rows.saturating_mul(part))?;
        let params = g::PlaceRows {
            n,
            x: p.x.location(),
            y: y.location(),
            part: word(part)?,
            row: word((row * size).div_ceil(4))?,
            offset: word(offset)?,
        };
        to.items(g::PLACE_ROWS, params.words(), n)?;
        offset += part;
    }
    Ok(())
}

/// One dispatch for every [`JOINED`] parts. Each writes all words of the result and keeps the elements of the
/// others, so they run one after the other.
fn join_parts(parts: &[Part<'_>], y: &Operand, row: usize, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (kernel, each) = match y.dtype.size() {
        1 => (g::CONCAT_1, 4),
        2 => (g::CONCAT_2, 2),
        _ => return Err(LowerError::Invalid("parts of whole words")),
    };
    let n = word(y.shape.elements())?;
    let mut end = 0;
    for (i, some) in parts.chunks(JOINED).enumerate() {
        let mut params = g::Concat {
            n,
            y: y.location(),
            row: word(row)?,
            first: word(end)?,
            inputs: some.len() as u32,
            ..Default::default()
        };
        for ((p, x), stop) in some.iter().zip(&mut params.x).zip(&mut params.ends) {
            end += p.width;
            (*x, *stop) = (p.x.location(), word(end)?);
        }
        to.groups(kernel, params.words(), n.div_ceil(each).div_ceil(64), i > 0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(list: &[(usize, usize)]) -> Axes<1> {
        Axes::fold(list.iter().map(|(size, stride)| Axis { size: *size, strides: [*stride] }))
    }

    #[test]
    fn elements_of_several_words_get_an_inner_axis() {
        let p = Pieces::new(8, 12, 5, axes(&[(3, 4), (4, 1)]));
        assert_eq!(p, Pieces { size: 4, n: 24, base: 10, axes: axes(&[(2, 1), (3, 8), (4, 2)]) });
        let p = Pieces::new(16, 12, 0, axes(&[(12, 1)]));
        assert_eq!(p, Pieces { size: 4, n: 48, base: 0, axes: axes(&[(48, 1)]) });
    }

    #[test]
    fn small_elements_move_as_words_where_runs_are_whole() {
        let p = Pieces::new(1, 24, 4, axes(&[(8, 1), (3, 20)]));
        assert_eq!(p, Pieces { size: 4, n: 6, base: 1, axes: axes(&[(2, 1), (3, 5)]) });
        let p = Pieces::new(1, 7, 4, axes(&[(7, 1)]));
        assert_eq!(p, Pieces { size: 4, n: 2, base: 1, axes: axes(&[(2, 1)]) });
        for (base, list) in
            [(3, &[(8, 1), (3, 20)][..]), (4, &[(6, 1), (3, 20)]), (4, &[(8, 1), (3, 21)]), (0, &[(8, 2)])]
        {
            assert_eq!(Pieces::new(1, 24, base, axes(list)).size, 1, "{base} {list:?}");
        }
        assert_eq!(Pieces::new(2, 24, 2, axes(&[(6, 1), (4, 10)])).size, 4);
    }
}
