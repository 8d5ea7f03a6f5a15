//! The inner loops: a tile of the product held in registers, and dot products of rows.

use super::isa::{Isa, isa};
use super::vector::{Portable, Vector};

/// What is done to a finished sum before it is stored.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    /// Added to each row, if not null: one float for each row of the tile.
    pub per_row: *const f32,
    /// Added to each column, if not null: one float for each column of the tile.
    pub per_column: *const f32,
    /// Negative sums become 0.
    pub relu: bool,
}

/// A tile: `rows × width` sums over `k` of `a[r][i] · b[i][c]`.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub k: usize,
    pub a: *const f32,
    /// Floats between rows of `a`.
    pub a_stride: usize,
    pub b: *const f32,
    /// Floats between rows of `b`.
    pub b_stride: usize,
    pub y: *mut f32,
    /// Floats between rows of `y`.
    pub y_stride: usize,
    /// Start from what `y` holds instead of from zero.
    pub add: bool,
    /// What the last block of `k` does.
    pub finish: Option<Finish>,
}

/// Shape of the tiles of an instruction set, and the functions that compute them.
pub(super) struct Kernels {
    /// Most rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub width: usize,
    /// Computes a tile of so many rows.
    ///
    /// Safety: `1..=rows`; `a` has that many rows of `k` floats, `b` has `k` rows of `width` floats, `y` that many
    /// rows of `width` floats; `per_row` as many floats as rows, `per_column` `width`. `y` overlaps nothing else.
    pub tile: unsafe fn(usize, &Tile),
    /// The same for half the columns.
    ///
    /// Safety: as above, with half the width.
    pub narrow: unsafe fn(usize, &Tile),
    /// `y[r · y_stride] = Σ a[i] · b[r][i]` for so many rows of `b`, where `b_stride` are the floats between the rows;
    /// with `add` this is added to what `y` holds.
    ///
    /// Safety: `a` has `k` floats, `b` has that many rows of `k` floats, `y` as many places. `y` overlaps nothing else.
    pub dots: unsafe fn(usize, &Tile),
    /// Dot products of each of a few rows with each of many.
    ///
    /// Safety: see [`Dots`].
    pub block: unsafe fn(&Dots),
    /// Computes sums of shifted floats; stops where `x` is too short.
    ///
    /// Safety: the processor has the instruction set.
    pub shifts: unsafe fn(&Shifts<'_>, &mut [f32]),
}

/// Products of `few` rows, 2 to [`FEW`], with `many`: `y[f · y_few + m · y_many] = Σ a[f][i] · b[m][i]`. Rows have `k` floats,
/// and lie one behind the other.
pub(super) struct Dots {
    pub k: usize,
    pub few: usize,
    pub many: usize,
    pub a: *const f32,
    pub b: *const f32,
    pub y: *mut f32,
    pub y_few: usize,
    pub y_many: usize,
}

/// Most rows that [`Kernels::block`] holds against others.
pub(super) const FEW: usize = 6;

/// Sums of shifted floats: `y[j] = finish(Σ w[t] · x[offsets[t] + j])`.
pub(super) struct Shifts<'a> {
    /// As many floats behind each offset as `y` has, rounded up to [`STEP`].
    pub x: &'a [f32],
    pub offsets: &'a [usize],
    pub w: &'a [f32],
    pub bias: f32,
    pub relu: bool,
}

/// Most floats that [`Kernels::shifts`] computes at a time.
pub(super) const STEP: usize = 64;

/// The kernels of this processor.
pub(super) fn kernels() -> &'static Kernels {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &AVX512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => &NEON,
        _ => &PORTABLE,
    }
}

macro_rules! instruction_set {
    ($name:ident, $tile:ident, $narrow:ident, $dots:ident, $block:ident, $shifts:ident, $vector:ty $(, $features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        unsafe fn $tile(rows: usize, t: &Tile) {
            // SAFETY: the features are enabled here; the rest is the caller's promise.
            unsafe { tile_of::<$vector, true>(rows, t) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn $narrow(rows: usize, t: &Tile) {
            // SAFETY: the features are enabled here; the rest is the caller's promise.
            unsafe { tile_of::<$vector, false>(rows, t) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn $dots(rows: usize, t: &Tile) {
            // SAFETY: the features are enabled here; the rest is the caller's promise.
            unsafe { dots_of::<$vector>(rows, t) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn $block(d: &Dots) {
            // SAFETY: the features are enabled here; the rest is the caller's promise.
            unsafe { block_of::<$vector>(d) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn $shifts(s: &Shifts<'_>, y: &mut [f32]) {
            // SAFETY: the features are enabled here.
            unsafe { shifts_of::<$vector>(s, y) }
        }
        static $name: Kernels = Kernels {
            rows: <$vector as Vector>::ROWS,
            width: 2 * <$vector as Vector>::LANES,
            tile: $tile,
            narrow: $narrow,
            dots: $dots,
            block: $block,
            shifts: $shifts,
        };
    };
}

instruction_set!(
    PORTABLE,
    tile_portable,
    narrow_portable,
    dots_portable,
    block_portable,
    shifts_portable,
    Portable
);
#[cfg(target_arch = "x86_64")]
instruction_set!(
    AVX2,
    tile_avx2,
    narrow_avx2,
    dots_avx2,
    block_avx2,
    shifts_avx2,
    super::vector::x86::Avx2,
    "avx2,fma"
);
#[cfg(target_arch = "x86_64")]
instruction_set!(
    AVX512,
    tile_avx512,
    narrow_avx512,
    dots_avx512,
    block_avx512,
    shifts_avx512,
    super::vector::x86::Avx512,
    "avx512f,avx2,fma"
);
#[cfg(target_arch = "aarch64")]
instruction_set!(NEON, tile_neon, narrow_neon, dots_neon, block_neon, shifts_neon, super::vector::arm::Neon);

/// Picks the tile of exactly so many rows.
#[inline(always)]
unsafe fn tile_of<V: Vector, const TWO: bool>(rows: usize, t: &Tile) {
    // SAFETY: the caller's promises, with the number of rows as a constant. Tiles of more rows than `V::ROWS` are never
    // asked for.
    unsafe {
        match rows {
            1 => tile_rows::<V, 1, TWO>(t),
            2 => tile_rows::<V, 2, TWO>(t),
            3 => tile_rows::<V, 3, TWO>(t),
            4 => tile_rows::<V, 4, TWO>(t),
            5 if V::ROWS >= 5 => tile_rows::<V, 5, TWO>(t),
            6 if V::ROWS >= 6 => tile_rows::<V, 6, TWO>(t),
            7 if V::ROWS >= 7 => tile_rows::<V, 7, TWO>(t),
            8 if V::ROWS >= 8 => tile_rows::<V, 8, TWO>(t),
            9 if V::ROWS >= 9 => tile_rows::<V, 9, TWO>(t),
            10 if V::ROWS >= 10 => tile_rows::<V, 10, TWO>(t),
            11 if V::ROWS >= 11 => tile_rows::<V, 11, TWO>(t),
            12 if V::ROWS >= 12 => tile_rows::<V, 12, TWO>(t),
            _ => {}
        }
    }
}

/// A tile of `R` rows and one or two vectors of columns. The second one is written out, and not a loop, so that the loops over
/// the rows are small enough to be unrolled and the sums stay in registers.
#[inline(always)]
unsafe fn tile_rows<V: Vector, const R: usize, const TWO: bool>(t: &Tile) {
    let lanes = V::LANES;
    // SAFETY: every pointer stays within the rows and columns that the caller promises.
    unsafe {
        let zero = V::splat(0.0);
        let pair =
            |from: *const f32| [V::load(from), if TWO { V::load(from.add(lanes)) } else { V::splat(0.0) }];
        let mut acc = [[zero; 2]; R];
        if t.add {
            for (r, acc) in acc.iter_mut().enumerate() {
                *acc = pair(t.y.add(r * t.y_stride));
            }
        }
        let mut b = t.b;
        for i in 0..t.k {
            let first = V::load(b);
            let second = if TWO { V::load(b.add(lanes)) } else { zero };
            b = b.wrapping_add(t.b_stride);
            for (r, acc) in acc.iter_mut().enumerate() {
                let a = V::splat(*t.a.add(r * t.a_stride + i));
                acc[0] = acc[0].plus_product(a, first);
                if TWO {
                    acc[1] = acc[1].plus_product(a, second);
                }
            }
        }
        if let Some(finish) = t.finish {
            if !finish.per_column.is_null() {
                let bias = pair(finish.per_column);
                for acc in &mut acc {
                    *acc = [acc[0].plus(bias[0]), acc[1].plus(bias[1])];
                }
            }
            if !finish.per_row.is_null() {
                for (r, acc) in acc.iter_mut().enumerate() {
                    let bias = V::splat(*finish.per_row.add(r));
                    *acc = [acc[0].plus(bias), acc[1].plus(bias)];
                }
            }
            if finish.relu {
                for acc in &mut acc {
                    *acc = [acc[0].relu(), acc[1].relu()];
                }
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            let y = t.y.add(r * t.y_stride);
            acc[0].store(y);
            if TWO {
                acc[1].store(y.add(lanes));
            }
        }
    }
}

/// # Safety
/// The instruction set of `V` is there.
#[inline(always)]
unsafe fn shifts_of<V: Vector>(s: &Shifts<'_>, y: &mut [f32]) {
    let mut first = 0;
    while first < y.len() {
        // Four registers hide the latency of the sums; one does for what is left.
        let width = if y.len() - first > V::LANES { 4 * V::LANES } else { V::LANES };
        let end = y.len().min(first + width);
        let Some(y) = y.get_mut(first..end) else { return };
        let mut out = [0.0; STEP];
        // SAFETY: the instruction set is there.
        let whole = unsafe {
            if width == V::LANES {
                shifts_tile::<V, 1>(s, first, &mut out)
            } else {
                shifts_tile::<V, 4>(s, first, &mut out)
            }
        };
        if !whole {
            return;
        }
        y.copy_from_slice(&out[..y.len()]);
        first = end;
    }
}

/// # Safety
/// The instruction set of `V` is there; `C · LANES` is at most [`STEP`].
#[inline(always)]
unsafe fn shifts_tile<V: Vector, const C: usize>(
    s: &Shifts<'_>,
    first: usize,
    out: &mut [f32; STEP],
) -> bool {
    // SAFETY: the instruction set is there; the slices are as long as the loads and stores on them.
    unsafe {
        let mut acc = [V::splat(s.bias); C];
        for (w, offset) in s.w.iter().zip(s.offsets) {
            let Some(x) = s.x.get(offset + first..).and_then(|x| x.get(..C * V::LANES)) else { return false };
            let w = V::splat(*w);
            for (c, acc) in acc.iter_mut().enumerate() {
                *acc = acc.plus_product(w, V::load(x.as_ptr().add(c * V::LANES)));
            }
        }
        for (c, acc) in acc.iter().enumerate() {
            let acc = if s.relu { acc.relu() } else { *acc };
            acc.store(out.as_mut_ptr().add(c * V::LANES));
        }
    }
    true
}

#[inline(always)]
unsafe fn dots_of<V: Vector>(rows: usize, t: &Tile) {
    let mut row = 0;
    // SAFETY: rows and places within what the caller promises.
    unsafe {
        while row + 4 <= rows {
            dots_rows::<V, 4>(t, row);
            row += 4;
        }
        while row < rows {
            dots_rows::<V, 1>(t, row);
            row += 1;
        }
    }
}

#[inline(always)]
unsafe fn dots_rows<V: Vector, const R: usize>(t: &Tile, first: usize) {
    let lanes = V::LANES;
    // SAFETY: every position is below `k` in one of the rows that the caller promises.
    unsafe {
        let b: [*const f32; R] = core::array::from_fn(|r| t.b.wrapping_add((first + r) * t.b_stride));
        // Two sums a row hide the latency of the additions.
        let mut acc = [[V::splat(0.0); 2]; R];
        let mut i = 0;
        while i + 2 * lanes <= t.k {
            let a = [V::load(t.a.add(i)), V::load(t.a.add(i + lanes))];
            for (acc, b) in acc.iter_mut().zip(&b) {
                acc[0] = acc[0].plus_product(a[0], V::load(b.add(i)));
                acc[1] = acc[1].plus_product(a[1], V::load(b.add(i + lanes)));
            }
            i += 2 * lanes;
        }
        if i + lanes <= t.k {
            let a = V::load(t.a.add(i));
            for (acc, b) in acc.iter_mut().zip(&b) {
                acc[0] = acc[0].plus_product(a, V::load(b.add(i)));
            }
            i += lanes;
        }
        for (r, (acc, b)) in acc.iter().zip(&b).enumerate() {
            let mut sum = acc[0].plus(acc[1]).sum();
            for j in i..t.k {
                sum += *t.a.add(j) * *b.add(j);
            }
            let y = t.y.add((first + r) * t.y_stride);
            *y = if t.add { *y + sum } else { sum };
        }
    }
}

#[inline(always)]
unsafe fn block_of<V: Vector>(d: &Dots) {
    let mut row = 0;
    // SAFETY: rows and places within what the caller promises.
    unsafe {
        while row < d.many {
            let four = row + 4 <= d.many;
            match d.few {
                2 if four => block_rows::<V, 2, 4>(d, row),
                3 if four => block_rows::<V, 3, 4>(d, row),
                4 if four => block_rows::<V, 4, 4>(d, row),
                5 if four => block_rows::<V, 5, 4>(d, row),
                6 if four => block_rows::<V, 6, 4>(d, row),
                2 => block_rows::<V, 2, 1>(d, row),
                3 => block_rows::<V, 3, 1>(d, row),
                4 => block_rows::<V, 4, 1>(d, row),
                5 => block_rows::<V, 5, 1>(d, row),
                6 => block_rows::<V, 6, 1>(d, row),
                _ => {}
            }
            row += if four { 4 } else { 1 };
        }
    }
}

#[inline(always)]
unsafe fn block_rows<V: Vector, const F: usize, const R: usize>(d: &Dots, first: usize) {
    let lanes = V::LANES;
    // SAFETY: every position is below `k` in one of the rows that the caller promises.
    unsafe {
        let b = d.b.add(first * d.k);
        let mut acc = [[V::splat(0.0); R]; F];
        let mut i = 0;
        while i + lanes <= d.k {
            let mut rows = [V::splat(0.0); R];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = V::load(b.add(r * d.k + i));
            }
            for (f, acc) in acc.iter_mut().enumerate() {
                let a = V::load(d.a.add(f * d.k + i));
                for (acc, row) in acc.iter_mut().zip(rows) {
                    *acc = acc.plus_product(a, row);
                }
            }
            i += lanes;
        }
        for (f, acc) in acc.iter().enumerate() {
            for (r, acc) in acc.iter().enumerate() {
                let mut sum = acc.sum();
                for j in i..d.k {
                    sum += *d.a.add(f * d.k + j) * *b.add(r * d.k + j);
                }
                *d.y.add(f * d.y_few + (first + r) * d.y_many) = sum;
            }
        }
    }
}
