//! The weights of a resampling: for each element along an axis the elements of the input that count.

use crate::OUT_OF_RANGE;
use crate::functions::Elementary;
use serinette_core::op::resize::Resize;
use serinette_core::schedule::KernelError;

/// What an element counts at a distance.
pub(crate) trait Kernel {
    /// The distance from which on nothing counts.
    const SUPPORT: usize;
    /// The weight at a distance of 0 or more.
    fn weight(&self, distance: f64) -> f64;
}

/// A triangle.
pub(crate) struct Linear;

impl Kernel for Linear {
    const SUPPORT: usize = 1;
    fn weight(&self, d: f64) -> f64 {
        if d < 1.0 { 1.0 - d } else { 0.0 }
    }
}

/// Keys' kernel with its coefficient.
pub(crate) struct Cubic(pub(crate) f64);

impl Kernel for Cubic {
    const SUPPORT: usize = 2;
    fn weight(&self, d: f64) -> f64 {
        let a = self.0;
        if d <= 1.0 {
            ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
        } else if d < 2.0 {
            ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
        } else {
            0.0
        }
    }
}

/// The weights of one element of the result.
#[derive(Clone, Copy)]
pub(crate) struct Span<'s, W> {
    /// The first element that counts.
    pub(crate) first: usize,
    /// Its weight and those of the ones behind it; none is an empty sum.
    pub(crate) weights: &'s [W],
}

/// The weights along one axis.
#[derive(Clone, Copy)]
pub(crate) struct Table<'s, W> {
    weights: &'s [W],
    /// For each element of the result: the first element that counts, the start of its weights and their number.
    spans: &'s [[u32; 3]],
}

/// Stands for the number of weights of an element outside.
const OUTSIDE: u32 = u32::MAX;

impl<'s, W: Elementary> Table<'s, W> {
    /// A table without elements.
    pub(crate) const EMPTY: Table<'s, W> = Table { weights: &[], spans: &[] };

    /// The weights for element `i`; `None` outside.
    pub(crate) fn span(&self, i: usize) -> Option<Result<Span<'s, W>, KernelError>> {
        match self.spans.get(i) {
            Some([_, _, OUTSIDE]) => None,
            Some([first, start, count]) => {
                let weights = self.weights.get(*start as usize..).and_then(|w| w.get(..*count as usize));
                Some(weights.map(|weights| Span { first: *first as usize, weights }).ok_or(OUT_OF_RANGE))
            }
            None => Some(Err(OUT_OF_RANGE)),
        }
    }
}

/// What makes a table.
pub(crate) struct Maker<'a, K> {
    pub(crate) attrs: &'a Resize,
    pub(crate) kernel: K,
    pub(crate) antialias: bool,
}

impl<K: Kernel> Maker<'_, K> {
    /// The weights along `axis` of `n` elements, one element of the result for each span. They come from the front of
    /// `weights`, and the second result is what is left of it.
    pub(crate) fn table<'s, W: Elementary>(
        &self,
        axis: usize,
        n: usize,
        spans: &'s mut [[u32; 3]],
        weights: &'s mut [W],
    ) -> Result<(Table<'s, W>, &'s mut [W]), KernelError> {
        let (m, mut used) = (spans.len(), 0usize);
        for (i, span) in spans.iter_mut().enumerate() {
            let Some(x) = self.attrs.position(axis, i, n, m) else {
                *span = [0, 0, OUTSIDE];
                continue;
            };
            let room = weights.get_mut(used..).ok_or(OUT_OF_RANGE)?;
            let (first, count) = self.weights(axis, x, n, m, room)?;
            let word = |v: usize| u32::try_from(v).map_err(|_| OUT_OF_RANGE);
            *span = [word(first)?, word(used)?, word(count)?];
            used = used.wrapping_add(count);
        }
        let (mine, rest) = weights.split_at_mut_checked(used).ok_or(OUT_OF_RANGE)?;
        Ok((Table { weights: mine, spans }, rest))
    }

    /// Stores the weights of the element at position `x` in the front of `room` and gives the first position that counts
    /// and the number of weights.
    fn weights<W: Elementary>(
        &self,
        axis: usize,
        x: f64,
        n: usize,
        m: usize,
        room: &mut [W],
    ) -> Result<(usize, usize), KernelError> {
        let scale = if self.antialias { self.attrs.scale(axis, n, m).min(1.0) } else { 1.0 };
        let last = n.checked_sub(1).ok_or(OUT_OF_RANGE)?;
        let reach = K::SUPPORT as f64 / scale;
        // From further outside everything looks the same; also keeps whole numbers whole.
        let x = x.max(-reach - 2.0).min(last as f64 + reach + 2.0);
        let (low, high) = (libm::floor(x - reach) as i64, libm::ceil(x + reach) as i64);
        let weight = |t: i64| self.kernel.weight(libm::fabs(t as f64 - x) * scale);
        let inside = |t: i64| (0..=last as i64).contains(&t);
        let exclude = self.attrs.exclude_outside == 1;
        let counts = |t: &i64| !exclude || inside(*t);
        let sum = if self.antialias || exclude {
            let sum = (low..=high).filter(counts).map(weight).fold(0.0, |sum, w| sum + w);
            if sum == 0.0 { 1.0 } else { sum }
        } else {
            1.0
        };
        let clamp = |t: i64| t.clamp(0, last as i64) as usize;
        let (first, end) = (clamp(low), clamp(high));
        // The elements beyond an end are the outermost one.
        let beyond = |range: core::ops::RangeInclusive<i64>| {
            if exclude { 0.0 } else { range.map(weight).fold(0.0, |sum, w| sum + w) }
        };
        let before = if low < 0 { beyond(low..=high.min(-1)) } else { 0.0 };
        let after = if high > last as i64 { beyond(low.max(last as i64 + 1)..=high) } else { 0.0 };
        let (mut start, mut count) = (first, 0);
        for at in first..=end {
            let t = at as i64;
            let mut w = if (low..=high).contains(&t) { weight(t) } else { 0.0 };
            if at == 0 {
                w += before;
            }
            if at == last {
                w += after;
            }
            let w = W::of(w / sum);
            // Zeros are kept between others alone.
            let counts = w != W::of(0.0);
            if count == 0 && !counts {
                continue;
            }
            if count == 0 {
                start = at;
            }
            match room.get_mut(at - start) {
                Some(room) => *room = w,
                None if counts => return Err(OUT_OF_RANGE),
                None => {}
            }
            if counts {
                count = at - start + 1;
            }
        }
        Ok((start, count))
    }
}
