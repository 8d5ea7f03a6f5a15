//! Attention by blocks of queries: scores as a product of the queries with the keys, their softmax, and a product with the values.

use super::elementary::{exp, tanh};
use super::gemm::{ColumnMajor, Product, RowMajor};
use super::isa::{self, Job};
use super::parallel::{Shared, for_each};
use super::rows::{greatest, sum};
use super::workspace;
use crate::attention::{Mask, Masks, Sizes, window};
use crate::expect;
use crate::registry::{Registered, kernels, sets::F32};
use core::ops::Range;
use serinette_core::Shape;
use serinette_core::op::attention::{ATTENTION, Attention};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { attention:
    ATTENTION => f32, F32 => F32;
};

/// Most queries in a block, and scores of a block unless one query has more.
const ROWS: usize = 48;
const SCORES: usize = 64 * 1024;

/// `Attention` in f32.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Attention = step.attributes()?;
    let sizes = Sizes::new(step)?;
    let Sizes { batch, heads, rows, width, kept, length, value } = sizes;
    let (q, k, v) = (ops.input::<f32>(0)?, ops.input::<f32>(1)?, ops.input::<f32>(2)?);
    let lengths = ops.optional::<i32>(4)?;
    if let Some(lengths) = lengths {
        expect("lengths", batch, lengths.len())?;
    }
    let masks = Masks::new(step, &ops, [batch, heads, rows, length])?;
    if !v.iter().fold(true, |all, v| all & v.is_finite()) {
        // Values of keys that are not admitted must not be read: times 0 they would be NaN.
        return crate::attention::f32(step, ops);
    }
    let y = ops.output::<f32>(0)?;
    sizes.check([q.len(), k.len(), v.len(), y.len()])?;
    if y.is_empty() {
        return Ok(());
    }
    let at_once = rows_at_once(rows, length);
    let blocks = rows.div_ceil(at_once);
    let y = Shared(y.as_mut_ptr());
    for_each(batch * heads * blocks, |task| {
        let (head, block) = (task / blocks, task % blocks);
        let (b, h) = (head / heads, head % heads);
        let range = block * at_once..rows.min((block + 1) * at_once);
        let pair = b * kept + h / (heads / kept);
        let keys = match lengths.and_then(|l| l.get(b)) {
            Some(l) => usize::try_from(*l).unwrap_or(0).min(length),
            None => length,
        };
        let first = head * rows + range.start;
        // SAFETY: `check` has seen that `y` has a row for each query; this task alone has those of its block.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(first * value), range.len() * value) };
        let block = Block {
            attrs: &attrs,
            q: &q[first * width..][..range.len() * width],
            k: &k[pair * length * width..][..length * width],
            v: &v[pair * length * value..][..length * value],
            width,
            value,
            windows: |s| window(&attrs, s, rows, keys),
            mask: |s| masks.row([b, h, s]),
            queries: range,
        };
        block.run(y);
    });
    Ok(())
}

fn rows_at_once(rows: usize, length: usize) -> usize {
    (SCORES / length.max(1)).clamp(1, ROWS).min(rows.max(1))
}

/// Bytes of workspace beside that of the products, for queries and keys of these shapes, at most.
pub(super) fn workspace_bytes(q: &Shape, k: &Shape) -> usize {
    let (rows, length) = (q.dim(2), k.dim(2));
    rows_at_once(rows, length).saturating_mul(length).saturating_mul(size_of::<f32>())
}

/// Some queries of one head.
struct Block<'a, W, M> {
    attrs: &'a Attention,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    width: usize,
    value: usize,
    /// The keys within the window of a query.
    windows: W,
    mask: M,
    queries: Range<usize>,
}

impl<'m, W: Fn(usize) -> Range<usize>, M: Fn(usize) -> Mask<'m>> Block<'_, W, M> {
    fn run(&self, y: &mut [f32]) {
        let seen = |s: &usize| !(self.windows)(*s).is_empty();
        let windows = || self.queries.clone().filter(seen).map(|s| (self.windows)(s));
        let (Some(first), Some(end)) = (windows().map(|w| w.start).min(), windows().map(|w| w.end).max())
        else {
            return y.fill(0.0);
        };
        let (m, n) = (self.queries.len(), end - first);
        workspace::outer(m * n, |scores| {
            let Some(scores) = scores.get_mut(..m * n) else { return };
            let keys = &self.k[first * self.width..end * self.width];
            let b = ColumnMajor { elements: keys, k: self.width };
            let (per_row, per_column, relu) = (&[][..], &[][..], false);
            Product { m, n, k: self.width, a: self.q, b, per_row, per_column, relu }.run(scores);
            for (s, scores) in self.queries.clone().zip(scores.chunks_exact_mut(n)) {
                let window = (self.windows)(s);
                let window = window.start.max(first) - first..window.end.clamp(first, end) - first;
                isa::run(Weights { attrs: self.attrs, mask: (self.mask)(s), first, window, scores });
            }
            let b = RowMajor { elements: &self.v[first * self.value..end * self.value], n: self.value };
            Product { m, n: self.value, k: n, a: scores, b, per_row, per_column, relu }.run(y);
        });
    }
}

/// The scores of one query become weights: 0 for keys that are not admitted, and a sum of 1, or of 0 if none is.
struct Weights<'a, 'm> {
    attrs: &'a Attention,
    mask: Mask<'m>,
    /// Number of the first key.
    first: usize,
    /// The keys within the window.
    window: Range<usize>,
    scores: &'a mut [f32],
}

impl Job for Weights<'_, '_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Range { start, end } = self.window;
        if start >= end {
            return self.scores.fill(0.0);
        }
        let (before, rest) = self.scores.split_at_mut(start);
        let (scores, behind) = rest.split_at_mut(end - start);
        before.fill(0.0);
        behind.fill(0.0);
        let (scale, cap) = (self.attrs.scale, self.attrs.cap);
        if cap > 0.0 {
            scores.iter_mut().for_each(|s| *s = cap * tanh::<FMA>(*s * scale / cap));
        } else {
            scores.iter_mut().for_each(|s| *s *= scale);
        }
        match &self.mask {
            Mask::None => {}
            Mask::Added(mask, 1) => {
                let mask = mask.get(self.first + start..).unwrap_or(&[]);
                let least = f32::NEG_INFINITY;
                let masked = |s: f32, m: f32| if m == least { least } else { s + m };
                scores.iter_mut().zip(mask).for_each(|(s, m)| *s = masked(*s, *m));
            }
            Mask::Admitted(mask, 1) => {
                let mask = mask.get(self.first + start..).unwrap_or(&[]);
                scores
                    .iter_mut()
                    .zip(mask)
                    .for_each(|(s, m)| *s = if *m != 0 { *s } else { f32::NEG_INFINITY });
            }
            mask => {
                for (j, s) in (self.first + start..).zip(scores.iter_mut()) {
                    *s = mask.at(j).map_or(f32::NEG_INFINITY, |m| *s + m);
                }
            }
        }
        let most = greatest(scores);
        if most == f32::NEG_INFINITY && !scores.iter().fold(false, |any, s| any | s.is_nan()) {
            return scores.fill(0.0);
        }
        // e^−∞ is 0. With a NaN or +∞ among the scores the sum is NaN, and so is the row.
        scores.iter_mut().for_each(|s| *s = exp::<FMA>(*s - most));
        let sum = sum(scores, |s| s);
        scores.iter_mut().for_each(|s| *s /= sum);
    }
}
