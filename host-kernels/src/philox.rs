//! Random numbers by counting.

use crate::functions::Elementary;
use crate::number::{BF16, F16, Stored};
use crate::registry::{Registered, sets};
use crate::{OUT_OF_RANGE, expect, product};
use core::f64::consts::TAU;
use serinette_core::op::philox as op;
use serinette_core::op::philox::{Distribution, Seed, block, philox};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[random_uniform::KERNELS, random_normal::KERNELS, bernoulli::KERNELS, multinomial::KERNELS];

macro_rules! floats {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $call:ident, $input:tt => $output:tt;)+) => {$(
        $(#[$doc])+
        pub mod $module {
            use super::*;
            /// For f32.
            pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<f32>(step, ops)
            }
            /// For f16.
            pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<F16>(step, ops)
            }
            /// For bf16.
            pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<BF16>(step, ops)
            }
            /// For f64.
            pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<f64>(step, ops)
            }
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] =
                floats!(@table $module, $op, $input => $output, [f32 F32, f16 F16, bf16 BF16, f64 F64]);
        }
    )+};
    (@table $module:ident, $op:ident, $input:tt => $output:tt, [$($kernel:ident $set:ident),+]) => {
        &[$(Registered {
            op: &op::$op,
            name: concat!("philox::", stringify!($module), "::", stringify!($kernel)),
            input: Some(floats!(@set $input $set)),
            output: floats!(@set $output $set),
            also: None,
            kernel: $kernel,
        }),+]
    };
    (@set own $set:ident) => { sets::$set };
    (@set $other:ident $set:ident) => { sets::$other };
}

floats! {
    /// `RandomUniform`.
    random_uniform = RANDOM_UNIFORM, uniform, U32 => own;
    /// `RandomNormal`.
    random_normal = RANDOM_NORMAL, normal, U32 => own;
    /// `Bernoulli`.
    bernoulli = BERNOULLI, truths, own => BOOL;
    /// `Multinomial`.
    multinomial = MULTINOMIAL, classes, own => I32;
}

/// The words of a step's stream, block by block.
struct Stream {
    seed: u64,
    state: [u32; 4],
}

impl Stream {
    fn new(seed: u64, ops: &Operands<'_>, operand: usize) -> Result<Stream, KernelError> {
        match ops.input::<u32>(operand)? {
            [a, b, c, d] => Ok(Stream { seed, state: [*a, *b, *c, *d] }),
            list => Err(KernelError::new("words of the state", 4, list.len())),
        }
    }

    /// The words from `4 · index` on.
    fn block(&self, index: usize) -> [u32; 4] {
        let (key, counter) = block(self.seed, self.state, index as u64);
        philox(key, counter)
    }
}

/// How many words an element takes and what they mean.
trait Drawn: Stored {
    /// Words of an element, 1 or 2.
    const WORDS: usize;
    /// In 0..1, exact in the element type.
    fn fraction(words: &[u32]) -> Self::Wide;
    /// In 0..1 in the type of the arithmetic.
    fn angle(words: &[u32]) -> Self::Wide;
    /// In 0..=1, and not 0.
    fn radius(words: &[u32]) -> Self::Wide;
}

macro_rules! drawn_in_f32 {
    ($($t:ty: $bits:literal;)+) => {$(impl Drawn for $t {
        const WORDS: usize = 1;
        fn fraction(words: &[u32]) -> f32 {
            upper(words, $bits)
        }
        fn angle(words: &[u32]) -> f32 {
            upper(words, 24)
        }
        fn radius(words: &[u32]) -> f32 {
            (words.first().copied().unwrap_or(0) as f32 + 1.0) * (1.0 / 4_294_967_296.0)
        }
    })+};
}

drawn_in_f32! {
    f32: 24;
    F16: 11;
    BF16: 8;
}

impl Drawn for f64 {
    const WORDS: usize = 2;
    fn fraction(words: &[u32]) -> f64 {
        pair(words) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }
    fn angle(words: &[u32]) -> f64 {
        f64::fraction(words)
    }
    fn radius(words: &[u32]) -> f64 {
        (pair(words) as f64 + 1.0) * (1.0 / 9_007_199_254_740_992.0)
    }
}

/// The upper bits of a word as a fraction; at most 24.
fn upper(words: &[u32], bits: u32) -> f32 {
    let word = words.first().copied().unwrap_or(0);
    (word >> (32 - bits)) as f32 / (1u32 << bits) as f32
}

/// The upper 53 bits of two words, the lower first.
fn pair(words: &[u32]) -> u64 {
    match words {
        [low, high, ..] => (u64::from(*low) | u64::from(*high) << 32) >> 11,
        _ => 0,
    }
}

fn uniform<T: Drawn>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Distribution = step.attributes()?;
    let stream = Stream::new(attrs.seed, &ops, 0)?;
    let (offset, scale) = (T::Wide::of(attrs.offset.into()), T::Wide::of(attrs.scale.into()));
    for (i, y) in ops.output::<T>(0)?.chunks_mut(4 / T::WORDS).enumerate() {
        let words = stream.block(i);
        for (y, words) in y.iter_mut().zip(words.chunks_exact(T::WORDS)) {
            *y = T::store(offset + T::fraction(words) * scale);
        }
    }
    Ok(())
}

fn normal<T: Drawn>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: Distribution = step.attributes()?;
    let stream = Stream::new(attrs.seed, &ops, 0)?;
    let of = T::Wide::of;
    let (offset, scale) = (of(attrs.offset.into()), of(attrs.scale.into()));
    for (i, y) in ops.output::<T>(0)?.chunks_mut(4 / T::WORDS).enumerate() {
        let words = stream.block(i);
        for (y, words) in y.chunks_mut(2).zip(words.chunks_exact(2 * T::WORDS)) {
            let (first, second) = words.split_at(T::WORDS);
            let r = (of(-2.0) * T::radius(first).ln()).sqrt();
            let t = of(TAU) * T::angle(second);
            for (y, z) in y.iter_mut().zip([r * t.cos(), r * t.sin()]) {
                *y = T::store(offset + z * scale);
            }
        }
    }
    Ok(())
}

fn truths<T: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let stream = Stream::new(step.attributes::<Seed>()?.seed, &ops, 1)?;
    let (p, y) = (ops.input::<T>(0)?, ops.output::<u8>(0)?);
    expect("elements of y", p.len(), y.len())?;
    for (i, (y, p)) in y.chunks_mut(4).zip(p.chunks(4)).enumerate() {
        for ((y, p), word) in y.iter_mut().zip(p).zip(stream.block(i)) {
            *y = u8::from(T::Wide::of(upper(&[word], 24).into()) < p.load());
        }
    }
    Ok(())
}

fn classes<T: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let stream = Stream::new(step.attributes::<Seed>()?.seed, &ops, 1)?;
    let (shape, out) = (step.input(0)?, step.output(0)?);
    let sums = ops.scratch::<f64>();
    let (x, y) = (ops.input::<T>(0)?, ops.output::<i32>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    let (classes, samples) = (shape.dim(1), out.dim(1));
    expect("elements of y", product(&[shape.dim(0), samples]), y.len())?;
    if y.is_empty() || x.is_empty() {
        y.fill(0);
        return Ok(());
    }
    let room = sums.len();
    let sums = sums.get_mut(..classes).ok_or(KernelError::new("scratch", classes, room))?;
    for (b, (y, x)) in y.chunks_exact_mut(samples).zip(x.chunks_exact(classes)).enumerate() {
        let total = weigh(x, sums);
        for (s, y) in y.iter_mut().enumerate() {
            let at = b.wrapping_mul(samples).wrapping_add(s);
            let word = *stream.block(at / 4).get(at % 4).ok_or(OUT_OF_RANGE)?;
            let wanted = f64::from(upper(&[word], 24)) * total;
            let class = sums.partition_point(|sum| *sum <= wanted);
            *y = if class < classes { i32::try_from(class).unwrap_or(i32::MAX) } else { 0 };
        }
    }
    Ok(())
}

/// Stores the sums of the weights up to each class and gives the last.
fn weigh<T: Stored>(x: &[T], sums: &mut [f64]) -> f64 {
    let (nothing, most) = (T::Wide::of(f64::NEG_INFINITY), T::Wide::of(f64::INFINITY));
    let greatest = x.iter().map(|x| x.load()).fold(nothing, |m, x| if x > m { x } else { m });
    let mut total = 0.0;
    for (sum, x) in sums.iter_mut().zip(x) {
        let x = x.load();
        // Of NaN and −∞, and of everything below +∞, nothing.
        total += if x == most {
            1.0
        } else if x > nothing && greatest != most {
            (x - greatest).exp().wide()
        } else {
            0.0
        };
        *sum = total;
    }
    total
}
