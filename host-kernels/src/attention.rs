//! Attention, one query at a time: its scores, their exponentials, the sum of the values.

use crate::arithmetic::{Arithmetic, BLOCK, Taps};
use crate::dots::{dot, dots};
use crate::functions::Elementary;
use crate::number::{self, Float, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64},
};
use crate::{OUT_OF_RANGE, expect, product};
use core::marker::PhantomData;
use core::ops::Range;
use serinette_core::op::attention::{ATTENTION, Attention, UNLIMITED};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { attention:
    ATTENTION => f32, F32 => F32;
    ATTENTION => f16, F16 => F16;
    ATTENTION => bf16, BF16 => BF16;
    ATTENTION => f64, F64 => F64;
};

/// `Attention` in f32.
pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    attention::<f32>(step, ops)
}

/// `Attention` of binary16: computed in f32.
pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    attention::<number::F16>(step, ops)
}

/// `Attention` of bfloat16: computed in f32.
pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    attention::<number::BF16>(step, ops)
}

/// `Attention` in f64.
pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    attention::<f64>(step, ops)
}

/// The mask of one row, with a step of 0 where one element stands for all keys.
pub(crate) enum Mask<'a> {
    None,
    Added(&'a [f32], usize),
    Admitted(&'a [u8], usize),
}

impl Mask<'_> {
    /// What is added to the score of key `j`; `None` where it is not admitted.
    #[inline(always)]
    pub(crate) fn at(&self, j: usize) -> Option<f32> {
        match self {
            Mask::None => Some(0.0),
            Mask::Added(m, step) => m.get(j * step).copied().filter(|m| *m != f32::NEG_INFINITY),
            Mask::Admitted(m, step) => m.get(j * step).filter(|m| **m != 0).map(|_| 0.0),
        }
    }
}

/// The whole mask, and how far apart its elements are along each axis (0 where it repeats).
pub(crate) struct Masks<'a> {
    bytes: &'a [u8],
    floats: &'a [f32],
    strides: [usize; 4],
    pub(crate) there: bool,
}

impl<'a> Masks<'a> {
    pub(crate) fn new(
        step: &StepView<'_>,
        ops: &Operands<'a>,
        sizes: [usize; 4],
    ) -> Result<Masks<'a>, KernelError> {
        let Some(bytes) = ops.optional::<u8>(3)? else {
            return Ok(Masks { bytes: &[], floats: &[], strides: [0; 4], there: false });
        };
        let shape = step.input(3)?;
        let lead =
            4usize.checked_sub(shape.rank()).ok_or(KernelError::new("rank of the mask", 4, shape.rank()))?;
        let mut strides = [0; 4];
        let mut stride = 1usize;
        for axis in (0..shape.rank()).rev() {
            let d = shape.dim(axis);
            if d != 1 {
                expect("dimension of the mask", sizes[lead + axis], d)?;
                strides[lead + axis] = stride;
            }
            stride = stride.saturating_mul(d);
        }
        // The element type is known by its size.
        let elements = shape.elements();
        let floats = if bytes.len() == elements { &[] } else { ops.input::<f32>(3)? };
        expect("elements of the mask", elements, if floats.is_empty() { bytes.len() } else { floats.len() })?;
        Ok(Masks { bytes, floats, strides, there: true })
    }

    pub(crate) fn row(&self, [b, h, s]: [usize; 3]) -> Mask<'a> {
        let [of_b, of_h, of_s, of_j] = self.strides;
        let along_s = s.wrapping_mul(of_s);
        let at = b.wrapping_mul(of_b).wrapping_add(h.wrapping_mul(of_h)).wrapping_add(along_s);
        match (self.there, self.floats.is_empty()) {
            (false, _) => Mask::None,
            (true, true) => Mask::Admitted(self.bytes.get(at..).unwrap_or(&[]), of_j),
            (true, false) => Mask::Added(self.floats.get(at..).unwrap_or(&[]), of_j),
        }
    }
}

/// The keys within the window of the query in row `s`, of `keys` valid ones.
pub(crate) fn window(a: &Attention, s: usize, rows: usize, keys: usize) -> Range<usize> {
    // Sizes of tensors in memory and 32-bit numbers: nothing overflows.
    let offset = if a.align_end == 1 { keys as i64 - rows as i64 } else { i64::from(a.offset) };
    let p = s as i64 + offset;
    let within = |j: i64| j.clamp(0, keys as i64) as usize;
    let first = if a.left == UNLIMITED { 0 } else { within(p - i64::from(a.left)) };
    let end = if a.right == UNLIMITED { keys } else { within(p + i64::from(a.right) + 1) };
    first..end.max(first)
}

/// The sizes of an attention.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    /// Queries.
    pub(crate) rows: usize,
    /// Elements of a query and of a key.
    pub(crate) width: usize,
    /// Heads of keys and values, a divisor of the others.
    pub(crate) kept: usize,
    /// Keys.
    pub(crate) length: usize,
    /// Elements of a value.
    pub(crate) value: usize,
}

impl Sizes {
    pub(crate) fn new(step: &StepView<'_>) -> Result<Sizes, KernelError> {
        let (q, k, v, y) = (step.input(0)?, step.input(1)?, step.input(2)?, step.output(0)?);
        for shape in [q, k, v, y] {
            expect("rank", 4, shape.rank())?;
        }
        let [batch, heads, rows, width] = [0, 1, 2, 3].map(|i| q.dim(i));
        let (kept, length, value) = (k.dim(1), k.dim(2), v.dim(3));
        expect("heads beyond whole groups", 0, heads.checked_rem(kept).unwrap_or(1))?;
        Ok(Sizes { batch, heads, rows, width, kept, length, value })
    }

    /// Compares the lengths of q, k, v and y with the sizes.
    pub(crate) fn check(&self, [q, k, v, y]: [usize; 4]) -> Result<(), KernelError> {
        let (queries, keys) = ([self.batch, self.heads, self.rows], [self.batch, self.kept, self.length]);
        for (what, [a, b, c], width, got) in [
            ("elements of q", queries, self.width, q),
            ("elements of k", keys, self.width, k),
            ("elements of v", keys, self.value, v),
            ("elements of y", queries, self.value, y),
        ] {
            expect(what, product(&[a, b, c, width]), got)?;
        }
        Ok(())
    }
}

fn attention<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError>
where
    E::Wide: Stored<Wide = E::Wide>,
{
    let attrs: Attention = step.attributes()?;
    let sizes = Sizes::new(step)?;
    let Sizes { batch, heads, rows, width, kept, length, value } = sizes;
    let (q, k, v, y) = (ops.input::<E>(0)?, ops.input::<E>(1)?, ops.input::<E>(2)?, ops.output::<E>(0)?);
    sizes.check([q.len(), k.len(), v.len(), y.len()])?;
    let lengths = ops.optional::<i32>(4)?;
    if let Some(lengths) = lengths {
        expect("lengths", batch, lengths.len())?;
    }
    let masks = Masks::new(step, &ops, [batch, heads, rows, length])?;
    if y.is_empty() {
        return Ok(());
    }
    let scratch = ops.scratch::<E::Wide>();
    let found = scratch.len();
    let scores = scratch.get_mut(..length).ok_or(KernelError::new("scratch", length, found))?;
    let group = heads / kept;
    for (row, y) in y.chunks_exact_mut(value).enumerate() {
        let (b, h, s) = (row / rows / heads, row / rows % heads, row % rows);
        let keys = match lengths.and_then(|l| l.get(b)) {
            Some(l) => usize::try_from(*l).unwrap_or(0).min(length),
            None => length,
        };
        let pair = b * kept + h / group;
        let line = Row {
            attrs: &attrs,
            q: q.get(row * width..).and_then(|q| q.get(..width)).ok_or(OUT_OF_RANGE)?,
            k: k.get(pair * length * width..).and_then(|k| k.get(..length * width)).ok_or(OUT_OF_RANGE)?,
            v: v.get(pair * length * value..).and_then(|v| v.get(..length * value)).ok_or(OUT_OF_RANGE)?,
            mask: masks.row([b, h, s]),
        };
        line.run(window(&attrs, s, rows, keys), scores, y);
    }
    Ok(())
}

/// One query.
struct Row<'a, E> {
    attrs: &'a Attention,
    q: &'a [E],
    k: &'a [E],
    v: &'a [E],
    mask: Mask<'a>,
}

impl<E: Stored> Row<'_, E>
where
    E::Wide: Stored<Wide = E::Wide>,
{
    fn run(&self, keys: Range<usize>, scores: &mut [E::Wide], y: &mut [E]) {
        let zero = <E::Wide as Float>::ZERO;
        let scores = scores.get_mut(..keys.len()).unwrap_or(&mut []);
        self.score(keys.start, scores);
        // Keys that are not admitted have the score −∞, and so have those that are, but far away.
        let least = E::Wide::of(f64::NEG_INFINITY);
        let most = scores.iter().fold(least, |most, s| if *s > most || s.nan() { *s } else { most });
        if most == least {
            y.fill(E::store(zero));
            return;
        }
        let mut sum = zero;
        for score in scores.iter_mut() {
            if *score == least {
                // No exponential is negative.
                *score = E::Wide::of(-1.0);
            } else {
                // With +∞ among the scores, ∞ − ∞ is NaN.
                *score = (*score - most).exp();
                sum = sum + *score;
            }
        }
        let width = y.len();
        for (block, y) in y.chunks_mut(BLOCK).enumerate() {
            let mut acc = [zero; BLOCK];
            let acc = acc.get_mut(..y.len()).unwrap_or(&mut []);
            let mut taps = Taps::new(1);
            for (value, weight) in self.v.chunks_exact(width).skip(keys.start).zip(&*scores) {
                if *weight < zero {
                    continue;
                }
                let value = value.get(block * BLOCK..).and_then(|v| v.get(..acc.len())).unwrap_or(&[]);
                taps.add(&Weighted::<E>(PhantomData), acc, value, *weight);
            }
            taps.flush(&Weighted(PhantomData), acc);
            for (y, acc) in y.iter_mut().zip(acc) {
                *y = E::store(*acc / sum);
            }
        }
    }

    /// The scores of the keys from `first` on; −∞ for those that are not admitted.
    fn score(&self, first: usize, scores: &mut [E::Wide]) {
        let width = self.q.len();
        let of = |j: usize| self.k.get(j * width..(j + 1) * width).unwrap_or(&[]);
        for (four, scores) in scores.chunks_mut(4).enumerate() {
            let j = first + four * 4;
            if scores.len() == 4 {
                let sums = dots(self.q, core::array::from_fn(|i| of(j + i)));
                scores.copy_from_slice(&sums);
            } else {
                scores.iter_mut().enumerate().for_each(|(i, score)| *score = dot(self.q, of(j + i)));
            }
            for (i, score) in scores.iter_mut().enumerate() {
                *score = self.masked(j + i, *score);
            }
        }
    }

    #[inline(always)]
    fn masked(&self, j: usize, product: E::Wide) -> E::Wide {
        let of = |x: f32| E::Wide::of(f64::from(x));
        let Some(added) = self.mask.at(j) else { return of(f32::NEG_INFINITY) };
        let (scaled, cap) = (product * of(self.attrs.scale), of(self.attrs.cap));
        let capped = if self.attrs.cap > 0.0 { cap * (scaled / cap).tanh() } else { scaled };
        capped + of(added)
    }
}

/// Rows of values times weights.
struct Weighted<E>(PhantomData<E>);

impl<E: Stored> Arithmetic for Weighted<E> {
    type X = E;
    type W = E::Wide;
    type Acc = E::Wide;
    type Y = E::Wide;
    const ZERO: E::Wide = <E::Wide as Float>::ZERO;

    fn at(&self, _: usize) -> Self {
        Weighted(PhantomData)
    }
    #[inline(always)]
    fn widen(&self, w: E::Wide) -> E::Wide {
        w
    }
    #[inline(always)]
    fn mac(&self, acc: E::Wide, x: E, w: E::Wide) -> E::Wide {
        acc + x.load() * w
    }
    #[inline(always)]
    fn add(&self, a: E::Wide, b: E::Wide) -> E::Wide {
        a + b
    }
    fn start(&self, _: usize) -> E::Wide {
        Self::ZERO
    }
    fn finish(&self, _: usize, acc: E::Wide) -> E::Wide {
        acc
    }
}
