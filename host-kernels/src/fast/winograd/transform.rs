//! The three transforms of F(4 × 4, 3 × 3), in the registers of each instruction set, and the rearrangements around them.
//!
//! A polynomial of degree 5 is known by its values at 0, ±1/√2, ±√2 and "infinity", its highest coefficient. The usual points 0, ±1, ±2
//! lead to results about five times less exact: with these the products of the roots are 1 and the sums 5/2, so
//! that no coefficient is large.

use super::super::isa::{Isa, isa};
use super::super::vector::{Portable, Vector};
use core::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Products of a tile: 6 × 6.
pub(super) const POINTS: usize = 36;
/// Lanes of the widest vectors.
pub(super) const MOST_LANES: usize = 16;

/// The functions of an instruction set.
pub(super) struct Transforms {
    /// The weights `[channels, 3, 3]` of one output at the points: `u[p · stride + c]`, for channels in whole vectors.
    ///
    /// Safety: `9 · channels` floats behind `w`; nine times the channels rounded up to `MOST_LANES` behind `taps`, for use
    /// in between; behind `u`, for each point, the channels rounded up.
    pub weights: unsafe fn(w: *const f32, channels: usize, taps: *mut f32, u: *mut f32, stride: usize),
    /// Takes a line of the input apart: element `4 · t + j` goes to `out[j · stride + t]`, for `j` below 6 and tiles in
    /// whole vectors.
    ///
    /// Safety: with `n` tiles, rounded up to whole vectors, `4 · n + 4` floats behind `line` and `n` behind each of the
    /// six places.
    pub spread: unsafe fn(line: *const f32, tiles: usize, out: *mut f32, stride: usize),
    /// Patches `d[(6 · i + j) · d_stride + t]` of the input at the points: `v[p · stride + t]`, for tiles in whole
    /// vectors.
    ///
    /// Safety: as many floats behind each of the 36 places of either.
    pub input: unsafe fn(d: *const f32, d_stride: usize, tiles: usize, v: *mut f32, stride: usize),
    /// Sums `m[p · stride + t]` at the points to results: `y[i · y_stride + 4 · t + j] = finish(…)`, `i` and `j` below 4,
    /// for tiles in whole vectors.
    ///
    /// Safety: as many floats behind each of the 36 places, four times as many behind each of the 4.
    pub output:
        unsafe fn(m: *const f32, stride: usize, tiles: usize, finish: Finish, y: *mut f32, y_stride: usize),
}

/// What is done to results.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    pub bias: f32,
    pub relu: bool,
}

/// The transforms of this processor.
pub(super) fn transforms() -> &'static Transforms {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::TRANSFORMS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::TRANSFORMS,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => &neon::TRANSFORMS,
        _ => &portable::TRANSFORMS,
    }
}

macro_rules! instruction_set {
    ($name:ident, $vector:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            pub(super) static TRANSFORMS: Transforms = Transforms { weights, spread, input, output };

            $(#[target_feature(enable = $features)])?
            unsafe fn weights(w: *const f32, channels: usize, taps: *mut f32, u: *mut f32, stride: usize) {
                // SAFETY: the features are enabled here; the rest is the caller's promise.
                unsafe { weights_of::<$vector>(w, channels, taps, u, stride) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn spread(line: *const f32, tiles: usize, out: *mut f32, stride: usize) {
                // SAFETY: the features are enabled here; the rest is the caller's promise.
                unsafe { spread_of::<$vector>(line, tiles, out, stride) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn input(d: *const f32, d_stride: usize, tiles: usize, v: *mut f32, stride: usize) {
                // SAFETY: the features are enabled here; the rest is the caller's promise.
                unsafe { input_of::<$vector>(d, d_stride, tiles, v, stride) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn output(
                m: *const f32,
                stride: usize,
                tiles: usize,
                finish: Finish,
                y: *mut f32,
                y_stride: usize,
            ) {
                // SAFETY: the features are enabled here; the rest is the caller's promise.
                unsafe { output_of::<$vector>(m, stride, tiles, finish, y, y_stride) }
            }
        }
    };
}

instruction_set!(portable, Portable);
#[cfg(target_arch = "x86_64")]
instruction_set!(avx2, crate::fast::vector::x86::Avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
instruction_set!(avx512, crate::fast::vector::x86::Avx512, "avx512f,avx2,fma");
#[cfg(target_arch = "aarch64")]
instruction_set!(neon, crate::fast::vector::arm::Neon);

/// A row of three weights at the points.
#[inline(always)]
unsafe fn weights_row<V: Vector>([g0, g1, g2]: [V; 3]) -> [V; 6] {
    // SAFETY: the caller has the instruction set.
    unsafe {
        // Divided by the product of the distances to the other points: −3/2 for ±1/√2, 6 for ±√2.
        let near = g0.plus_product(g2, V::splat(0.5)).times(V::splat(-1.0 / 1.5));
        let far = g0.plus_product(g2, V::splat(2.0)).times(V::splat(1.0 / 6.0));
        let (near_odd, far_odd) =
            (g1.times(V::splat(-FRAC_1_SQRT_2 / 1.5)), g1.times(V::splat(SQRT_2 / 6.0)));
        [g0, near.plus(near_odd), near.minus(near_odd), far.plus(far_odd), far.minus(far_odd), g2]
    }
}

/// A row of six elements at the points.
#[inline(always)]
unsafe fn input_row<V: Vector>([d0, d1, d2, d3, d4, d5]: [V; 6]) -> [V; 6] {
    // SAFETY: the caller has the instruction set.
    unsafe {
        let (two, half, sum) = (V::splat(-2.0), V::splat(-0.5), V::splat(-2.5));
        let (near, near_odd) =
            (d4.plus_product(d2, two), d3.plus_product(d1, two).times(V::splat(FRAC_1_SQRT_2)));
        let (far, far_odd) = (d4.plus_product(d2, half), d3.plus_product(d1, half).times(V::splat(SQRT_2)));
        [
            d0.plus(d4).plus_product(d2, sum),
            near.plus(near_odd),
            near.minus(near_odd),
            far.plus(far_odd),
            far.minus(far_odd),
            d1.plus(d5).plus_product(d3, sum),
        ]
    }
}

/// Four results from six sums at the points.
#[inline(always)]
unsafe fn output_row<V: Vector>([m0, m1, m2, m3, m4, m5]: [V; 6]) -> [V; 4] {
    // SAFETY: the caller has the instruction set.
    unsafe {
        let (near, near_odd, far, far_odd) = (m1.plus(m2), m1.minus(m2), m3.plus(m4), m3.minus(m4));
        [
            m0.plus(near).plus(far),
            near_odd.times(V::splat(FRAC_1_SQRT_2)).plus_product(far_odd, V::splat(SQRT_2)),
            near.times(V::splat(0.5)).plus_product(far, V::splat(2.0)),
            m5.plus_product(near_odd, V::splat(0.5 * FRAC_1_SQRT_2))
                .plus_product(far_odd, V::splat(2.0 * SQRT_2)),
        ]
    }
}

/// The columns of a matrix of vectors.
#[inline(always)]
fn transposed<V: Vector, const A: usize, const B: usize>(m: &[[V; A]; B]) -> [[V; B]; A] {
    core::array::from_fn(|a| core::array::from_fn(|b| m[b][a]))
}

#[inline(always)]
unsafe fn weights_of<V: Vector>(w: *const f32, channels: usize, taps: *mut f32, u: *mut f32, stride: usize) {
    let whole = channels.next_multiple_of(MOST_LANES);
    // Taps side by side first, all of them: a vector that is loaded right after its lanes were stored has to wait.
    for c in 0..channels {
        for t in 0..9 {
            // SAFETY: a weight of a channel below `channels`, a place among `9 · whole`.
            unsafe { *taps.add(t * whole + c) = *w.add(9 * c + t) };
        }
    }
    let mut c = 0;
    while c < channels {
        // SAFETY: the instruction set is there; vectors of channels that the caller has room for.
        unsafe {
            let mut rows = [[V::splat(0.0); 6]; 3];
            for (i, row) in rows.iter_mut().enumerate() {
                let tap = taps.add(3 * i * whole + c);
                *row = weights_row([V::load(tap), V::load(tap.add(whole)), V::load(tap.add(2 * whole))]);
            }
            for (i, column) in transposed(&rows).into_iter().enumerate() {
                for (j, value) in weights_row(column).into_iter().enumerate() {
                    value.store(u.add((6 * j + i) * stride + c));
                }
            }
        }
        c += V::LANES;
    }
}

/// Four vectors in a row.
#[inline(always)]
unsafe fn four<V: Vector>(from: *const f32) -> [V; 4] {
    let lanes = V::LANES;
    // SAFETY: the caller has the instruction set and the floats.
    unsafe {
        [V::load(from), V::load(from.add(lanes)), V::load(from.add(2 * lanes)), V::load(from.add(3 * lanes))]
    }
}

#[inline(always)]
unsafe fn spread_of<V: Vector>(line: *const f32, tiles: usize, out: *mut f32, stride: usize) {
    let lanes = V::LANES;
    let mut t = 0;
    while t < tiles {
        // SAFETY: the caller's promises.
        unsafe {
            let from = line.add(4 * t);
            let [a, b, c, d] = four::<V>(from);
            let (even, odd) = ([a.evens(b), c.evens(d)], [a.odds(b), c.odds(d)]);
            even[0].evens(even[1]).store(out.add(t));
            odd[0].evens(odd[1]).store(out.add(stride + t));
            even[0].odds(even[1]).store(out.add(2 * stride + t));
            odd[0].odds(odd[1]).store(out.add(3 * stride + t));
            // The first two of the next tile.
            let [a, b, c, d] = four::<V>(from.add(4));
            a.evens(b).evens(c.evens(d)).store(out.add(4 * stride + t));
            a.odds(b).evens(c.odds(d)).store(out.add(5 * stride + t));
        }
        t += lanes;
    }
}

#[inline(always)]
unsafe fn input_of<V: Vector>(d: *const f32, d_stride: usize, tiles: usize, v: *mut f32, stride: usize) {
    let mut t = 0;
    while t < tiles {
        // SAFETY: the caller's promises.
        unsafe {
            let mut rows = [[V::splat(0.0); 6]; 6];
            for (i, row) in rows.iter_mut().enumerate() {
                for (j, d_ij) in row.iter_mut().enumerate() {
                    *d_ij = V::load(d.add((6 * i + j) * d_stride + t));
                }
                *row = input_row(*row);
            }
            for (i, column) in transposed(&rows).into_iter().enumerate() {
                for (j, value) in input_row(column).into_iter().enumerate() {
                    value.store(v.add((6 * j + i) * stride + t));
                }
            }
        }
        t += V::LANES;
    }
}

#[inline(always)]
unsafe fn output_of<V: Vector>(
    m: *const f32,
    stride: usize,
    tiles: usize,
    finish: Finish,
    y: *mut f32,
    y_stride: usize,
) {
    let mut t = 0;
    while t < tiles {
        // SAFETY: the caller's promises.
        unsafe {
            let bias = V::splat(finish.bias);
            let mut rows = [[V::splat(0.0); 4]; 6];
            for (i, row) in rows.iter_mut().enumerate() {
                let mut sums = [V::splat(0.0); 6];
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(m.add((6 * i + j) * stride + t));
                }
                *row = output_row(sums);
            }
            let mut columns = [[V::splat(0.0); 4]; 4];
            for (column, sums) in columns.iter_mut().zip(transposed(&rows)) {
                *column = output_row(sums);
            }
            for (i, mut row) in transposed(&columns).into_iter().enumerate() {
                for y in &mut row {
                    *y = if finish.relu { y.plus(bias).relu() } else { y.plus(bias) };
                }
                let [a, b, c, d] = row;
                // Neighbours side by side again.
                let ((even, more_even), (odd, more_odd)) = (a.zip(c), b.zip(d));
                let y = y.add(i * y_stride + 4 * t);
                for (k, (even, odd)) in [(even, odd), (more_even, more_odd)].into_iter().enumerate() {
                    let (first, second) = even.zip(odd);
                    first.store(y.add(2 * k * V::LANES));
                    second.store(y.add((2 * k + 1) * V::LANES));
                }
            }
        }
        t += V::LANES;
    }
}
