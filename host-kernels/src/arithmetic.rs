//! Multiply-accumulate over rows, shared by the matrix products and the convolutions.
//!
//! Both sum *taps*: a row of elements times one number, added to a row of accumulators. The row form keeps the
//! inner loop free of bounds checks and lets the compiler vectorise it; taking four taps at a time loads and
//! stores each accumulator once for four products.

use crate::number::{Float, Number, Stored};
use serinette_core::op::Activation;
use serinette_core::op::matmul::Requantize;

/// Accumulators kept on the stack at a time.
pub(crate) const BLOCK: usize = 64;

/// How elements are multiplied, summed and stored.
pub(crate) trait Arithmetic {
    /// Element of the rows.
    type X: Copy;
    /// The number that a row is multiplied by.
    type W: Copy;
    /// Accumulator.
    type Acc: Copy;
    /// Result.
    type Y: Copy;
    /// An empty sum.
    const ZERO: Self::Acc;

    /// The arithmetic of output channel `channel`, for taps that are its weights.
    fn at(&self, channel: usize) -> Self;
    /// The factor of a tap, widened once a row.
    fn widen(&self, w: Self::W) -> Self::Acc;
    /// `acc + x · w`.
    fn mac(&self, acc: Self::Acc, x: Self::X, w: Self::Acc) -> Self::Acc;
    /// `a + b`.
    fn add(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The sum that output channel `channel` starts from: its bias.
    fn start(&self, channel: usize) -> Self::Acc;
    /// The result of a sum.
    fn finish(&self, channel: usize, acc: Self::Acc) -> Self::Y;
}

/// Sums of floats, in f32 or f64.
#[derive(Clone, Copy)]
pub(crate) struct Sums<'a, E> {
    pub(crate) bias: Option<&'a [E]>,
    pub(crate) activation: Activation,
}

impl<E: Stored> Arithmetic for Sums<'_, E> {
    type X = E;
    type W = E;
    type Acc = E::Wide;
    type Y = E;
    const ZERO: E::Wide = <E::Wide as Float>::ZERO;

    fn at(&self, _: usize) -> Self {
        *self
    }
    #[inline(always)]
    fn widen(&self, w: E) -> E::Wide {
        w.load()
    }
    #[inline(always)]
    fn mac(&self, acc: E::Wide, x: E, w: E::Wide) -> E::Wide {
        acc + x.load() * w
    }
    #[inline(always)]
    fn add(&self, a: E::Wide, b: E::Wide) -> E::Wide {
        a + b
    }
    fn start(&self, channel: usize) -> E::Wide {
        self.bias.and_then(|b| b.get(channel)).map_or(Self::ZERO, |b| b.load())
    }
    #[inline(always)]
    fn finish(&self, _: usize, acc: E::Wide) -> E {
        E::store(activate(self.activation, acc))
    }
}

/// The function of an activation in f32 or f64.
#[inline(always)]
pub(crate) fn activate<T: Float>(activation: Activation, x: T) -> T {
    match activation {
        Activation::Relu if x > T::ZERO || x.nan() => x,
        Activation::Relu => T::ZERO,
        Activation::None => x,
    }
}

/// Sums of integers modulo the size of their type.
#[derive(Clone, Copy)]
pub(crate) struct Wrapping<'a, T> {
    pub(crate) bias: Option<&'a [T]>,
    pub(crate) activation: Activation,
}

impl<T: Number> Arithmetic for Wrapping<'_, T> {
    type X = T;
    type W = T;
    type Acc = T;
    type Y = T;
    const ZERO: T = T::ZERO;

    fn at(&self, _: usize) -> Self {
        *self
    }
    #[inline(always)]
    fn widen(&self, w: T) -> T {
        w
    }
    #[inline(always)]
    fn mac(&self, acc: T, x: T, w: T) -> T {
        acc.plus(x.times(w))
    }
    #[inline(always)]
    fn add(&self, a: T, b: T) -> T {
        a.plus(b)
    }
    fn start(&self, channel: usize) -> T {
        self.bias.and_then(|b| b.get(channel)).copied().unwrap_or(T::ZERO)
    }
    fn finish(&self, _: usize, acc: T) -> T {
        if self.activation == Activation::Relu { acc.relu() } else { acc }
    }
}

/// Sums modulo 2^32, requantised to 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct Quantized<'a> {
    pub(crate) requantize: Requantize,
    pub(crate) bias: &'a [i32],
    pub(crate) multiplier: &'a [i32],
    pub(crate) shift: &'a [i32],
    /// Zero point of the row elements.
    pub(crate) x_zero: i32,
    /// Zero point of the factors.
    pub(crate) w_zero: i32,
}

impl Arithmetic for Quantized<'_> {
    type X = i8;
    type W = i8;
    type Acc = i32;
    type Y = i8;
    const ZERO: i32 = 0;

    fn at(&self, _: usize) -> Self {
        *self
    }
    fn widen(&self, w: i8) -> i32 {
        i32::from(w).wrapping_sub(self.w_zero)
    }
    #[inline(always)]
    fn mac(&self, acc: i32, x: i8, w: i32) -> i32 {
        acc.wrapping_add(i32::from(x).wrapping_sub(self.x_zero).wrapping_mul(w))
    }
    fn add(&self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    fn start(&self, channel: usize) -> i32 {
        self.bias.get(channel).copied().unwrap_or(0)
    }
    fn finish(&self, channel: usize, acc: i32) -> i8 {
        let of = |v: &[i32]| v.get(channel).copied().unwrap_or(0);
        self.requantize.apply(acc, of(self.multiplier), of(self.shift))
    }
}

/// Taps that wait to be added to a row of accumulators, four at a time.
pub(crate) struct Taps<'x, A: Arithmetic> {
    /// Distance in a row between the elements of neighbouring accumulators, at least 1.
    step: usize,
    waiting: [(&'x [A::X], A::Acc); 4],
    count: usize,
}

impl<'x, A: Arithmetic> Taps<'x, A> {
    pub(crate) fn new(step: usize) -> Taps<'x, A> {
        Taps { step: step.max(1), waiting: [(&[], A::ZERO); 4], count: 0 }
    }

    /// Adds `row[i · step] · w` to `acc[i]`, now or with a later call.
    #[inline]
    pub(crate) fn add(&mut self, arithmetic: &A, acc: &mut [A::Acc], row: &'x [A::X], w: A::W) {
        if let Some(space) = self.waiting.get_mut(self.count) {
            *space = (row, arithmetic.widen(w));
            self.count += 1;
        }
        if self.count == self.waiting.len() {
            self.count = 0;
            match self.step {
                1 => four(arithmetic, acc, self.waiting.map(|(row, w)| (row.iter(), w))),
                s => four(arithmetic, acc, self.waiting.map(|(row, w)| (row.iter().step_by(s), w))),
            }
        }
    }

    /// Adds what still waits.
    #[inline]
    pub(crate) fn flush(&mut self, arithmetic: &A, acc: &mut [A::Acc]) {
        for (row, w) in self.waiting.iter().take(self.count) {
            for (acc, x) in acc.iter_mut().zip(row.iter().step_by(self.step)) {
                *acc = arithmetic.mac(*acc, *x, *w);
            }
        }
        self.count = 0;
    }
}

#[inline(always)]
fn four<'x, A: Arithmetic>(
    arithmetic: &A,
    acc: &mut [A::Acc],
    [a, b, c, d]: [(impl Iterator<Item = &'x A::X>, A::Acc); 4],
) where
    A::X: 'x,
{
    for ((((acc, xa), xb), xc), xd) in acc.iter_mut().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
        let sum = arithmetic.mac(*acc, *xa, a.1);
        let sum = arithmetic.mac(sum, *xb, b.1);
        let sum = arithmetic.mac(sum, *xc, c.1);
        *acc = arithmetic.mac(sum, *xd, d.1);
    }
}

/// `start + Σ x[i] · w[i]` in eight interleaved sums, which the compiler can keep in one register.
#[inline]
pub(crate) fn dot<A: Arithmetic>(arithmetic: &A, start: A::Acc, x: &[A::X], w: &[A::W]) -> A::Acc {
    const LANES: usize = 8;
    let ((x, x_rest), (w, w_rest)) = (x.as_chunks::<LANES>(), w.as_chunks::<LANES>());
    let mut sums = [A::ZERO; LANES];
    for (x, w) in x.iter().zip(w) {
        for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
            *sum = arithmetic.mac(*sum, *x, arithmetic.widen(*w));
        }
    }
    let mut sum = start;
    for (x, w) in x_rest.iter().zip(w_rest) {
        sum = arithmetic.mac(sum, *x, arithmetic.widen(*w));
    }
    sums.into_iter().fold(sum, |sum, s| arithmetic.add(sum, s))
}
