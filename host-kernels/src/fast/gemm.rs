//! `y = finish(a · b)` in f32: blocks of `b` are packed into panels as wide as a tile, which stay in the caches while
//! all rows of `a` pass over them (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
//! `a` is read where it is: its rows are contiguous.

use super::parallel::{Shared, for_each, threads};
use super::tile::{Dots, FEW, Finish, Kernels, Tile, kernels};
use super::workspace;
use core::ops::Range;

/// Rows of `b` in a block: a panel of them stays in the first cache. Twice as many where there are few panels.
const BLOCK_K: usize = 256;
const FEW_PANELS: usize = 4;
/// Floats of `a` that stay in the second cache beside a block of `b`.
const STAYS: usize = 128 * 1024;
/// Widest tile and most rows of any instruction set.
const MAX_WIDTH: usize = 32;
const MAX_ROWS: usize = 12;
/// Products with fewer multiply-adds than this are not worth a second thread.
const SPLIT: usize = 1 << 18;

/// The right-hand matrix, `[k, n]`, wherever its elements come from.
pub(super) trait Right: Sync {
    /// Writes the elements of `rows` and `columns` (at most `width`): `width` floats a row, zeros behind the columns.
    fn pack(&self, rows: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]);

    /// The matrix where it lies, row after row, if it does.
    fn rows(&self) -> Option<&[f32]> {
        None
    }

    /// The transposed matrix where it lies, column after column, if it does.
    fn columns(&self) -> Option<&[f32]> {
        None
    }
}

/// A product.
pub(super) struct Product<'a, B: Right> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// `[m, k]`.
    pub a: &'a [f32],
    pub b: B,
    /// One for each row of the result, or empty.
    pub per_row: &'a [f32],
    /// One for each column of the result, or empty.
    pub per_column: &'a [f32],
    pub relu: bool,
}

/// A block of a product.
struct Block<'a> {
    kernels: &'a Kernels,
    /// `b`, where it is read in its place.
    direct: Option<&'a [f32]>,
    rows: Range<usize>,
    columns: Range<usize>,
    ks: Range<usize>,
}

impl Block<'_> {
    /// The columns of the panel that begins at `first`.
    fn panel(&self, first: usize) -> Range<usize> {
        first..self.columns.end.min(first + self.kernels.width)
    }

    /// How wide a panel of so many columns is packed.
    fn width(&self, count: usize) -> usize {
        if count <= self.kernels.width / 2 { self.kernels.width / 2 } else { self.kernels.width }
    }

    /// `b`, where the panel that begins at `first` is read in its place: whole panels only.
    fn direct(&self, first: usize) -> Option<&[f32]> {
        let count = self.panel(first).len();
        self.direct.filter(|_| count == self.width(count))
    }
}

impl<B: Right> Product<'_, B> {
    /// Computes the product into `y`, `[m, n]`. The lengths of the slices must fit the sizes, which callers have checked;
    /// if they do not, nothing is computed.
    pub fn run(&self, y: &mut [f32]) {
        let (m, n, k) = (self.m, self.n, self.k);
        let fits = |have: usize, rows: usize, columns: usize| rows.checked_mul(columns) == Some(have);
        let vector = |v: &[f32], n: usize| v.is_empty() || v.len() == n;
        let fit = fits(self.a.len(), m, k)
            && fits(y.len(), m, n)
            && vector(self.per_row, m)
            && vector(self.per_column, n)
            && self.b.rows().is_none_or(|b| fits(b.len(), k, n))
            && self.b.columns().is_none_or(|b| fits(b.len(), k, n));
        debug_assert!(fit);
        if !fit || m == 0 || n == 0 {
            return;
        }
        let kernels = kernels();
        let y = Shared(y.as_mut_ptr());
        let packed_columns = n <= FEW && self.b.columns().is_none() && k * n <= workspace::FLOATS;
        if k > 0 && (packed_columns || (self.b.columns().is_some() && (m <= 2 || n <= FEW))) {
            return self.by_dots(kernels, y);
        }
        // Few rows read every element of `b` once or twice: packing would cost as much as it saves.
        let direct = self.b.rows().filter(|_| m <= 2 * kernels.rows);
        let parts = if m.saturating_mul(n).saturating_mul(k) < SPLIT { 1 } else { threads() };
        // Columns are split first, so that each panel is packed once; rows where there are too few of them.
        let panels = n.div_ceil(kernels.width);
        let column_parts = parts.min(panels);
        let row_parts = (parts / column_parts).clamp(1, m.div_ceil(kernels.rows));
        let cut = |total: usize, step: usize, parts: usize, part: usize| {
            let steps = total.div_ceil(step);
            (steps * part / parts * step)..(steps * (part + 1) / parts * step).min(total)
        };
        for_each(column_parts * row_parts, |task| {
            let columns = cut(n, kernels.width, column_parts, task % column_parts);
            let rows = cut(m, kernels.rows, row_parts, task / column_parts);
            self.part(kernels, direct, rows, columns, y);
        });
    }

    /// The results of `rows` and `columns`, which no other task touches.
    fn part(
        &self,
        kernels: &Kernels,
        direct: Option<&[f32]>,
        rows: Range<usize>,
        columns: Range<usize>,
        y: Shared,
    ) {
        let width = kernels.width;
        let deepest = if columns.len() <= FEW_PANELS * width { 2 * BLOCK_K } else { BLOCK_K };
        workspace::with(|packed| {
            // As many panels as the workspace holds.
            let block_n = packed.len().min(workspace::FLOATS) / (deepest * width) * width;
            let mut first = columns.start;
            while first < columns.end {
                let columns = first..columns.end.min(first + block_n);
                let mut start = 0;
                loop {
                    let ks = start..self.k.min(start + deepest);
                    let block = Block { kernels, direct, rows: rows.clone(), columns: columns.clone(), ks };
                    self.block(&block, packed, y);
                    start += deepest;
                    if start >= self.k {
                        break;
                    }
                }
                first = columns.end;
            }
        });
    }

    /// One block of columns and of the sum.
    fn block(&self, block: &Block<'_>, packed: &mut [f32], y: Shared) {
        // Tiles of equal height, rather than a low one at the end.
        let count = block.rows.len();
        let height = count.div_ceil(count.div_ceil(block.kernels.rows).max(1)).max(1);
        let tiles = || block.rows.clone().step_by(height).map(|row| row..block.rows.end.min(row + height));
        let panels = || block.columns.clone().step_by(block.kernels.width);
        let size = block.ks.len() * block.kernels.width;
        // What stays in the nearest cache: a panel, while rows that are soon used again pass by; or a tile of rows, so that
        // a large matrix is read once.
        if size == 0 || count * block.ks.len() <= STAYS {
            for (first, place) in panels().zip(packed.chunks_exact_mut(size.max(1))) {
                self.pack(block, first, place);
                tiles().for_each(|rows| self.tile(block, rows, first, place, y));
            }
            return;
        }
        for (first, place) in panels().zip(packed.chunks_exact_mut(size)) {
            self.pack(block, first, place);
        }
        for rows in tiles() {
            for (first, place) in panels().zip(packed.chunks_exact(size)) {
                self.tile(block, rows.clone(), first, place, y);
            }
        }
    }

    /// Packs the panel of a block that begins at `first`, unless it is read in its place.
    fn pack(&self, block: &Block<'_>, first: usize, packed: &mut [f32]) {
        if block.direct(first).is_none() {
            let columns = block.panel(first);
            let width = block.width(columns.len());
            if let Some(out) = packed.get_mut(..block.ks.len() * width) {
                self.b.pack(block.ks.clone(), columns, width, out);
            }
        }
    }

    /// One tile: some rows, and the columns from `first` on of a block, which are packed unless they are read directly.
    fn tile(&self, block: &Block<'_>, rows: Range<usize>, first: usize, packed: &[f32], y: Shared) {
        let columns = block.panel(first);
        let (count, depth) = (columns.len(), block.ks.len());
        let width = block.width(count);
        let (b, b_stride) = match block.direct(first) {
            // In bounds: row `ks.start` of a `[k, n]` matrix, and a whole tile of columns from `first` on.
            Some(b) => (b.as_ptr().wrapping_add(block.ks.start * self.n + first), self.n),
            None if packed.len() < depth * width => return,
            None => (packed.as_ptr(), width),
        };
        let mut bias = [0.0; MAX_WIDTH];
        if let Some(values) = self.per_column.get(columns) {
            bias[..count].copy_from_slice(values);
        }
        let (row, tall) = (rows.start, rows.len());
        let of_rows = self.per_row.get(row..).filter(|_| !self.per_row.is_empty());
        let finish = Finish {
            per_row: of_rows.map_or(core::ptr::null(), <[f32]>::as_ptr),
            per_column: if self.per_column.is_empty() { core::ptr::null() } else { bias.as_ptr() },
            relu: self.relu,
        };
        let place = y.at(row * self.n + first);
        let mut tile = Tile {
            k: depth,
            a: self.a.as_ptr().wrapping_add(row * self.k + block.ks.start),
            a_stride: self.k,
            b,
            b_stride,
            y: place,
            y_stride: self.n,
            add: block.ks.start > 0,
            finish: (block.ks.end == self.k).then_some(finish),
        };
        let compute = if width == block.kernels.width { block.kernels.tile } else { block.kernels.narrow };
        if count == width {
            // SAFETY: `tall` rows of `a` from `row` on have `depth` floats from `ks.start` on, by the lengths that `run` has
            // checked; `b` has `depth` rows of `width` floats, in `packed` or in the matrix; `y` has the tile, and no
            // other task has it; the vectors of the finish have their lengths.
            unsafe { compute(tall, &tile) };
            return;
        }
        // The last tile is narrower: it is computed aside.
        let mut aside = [0.0f32; MAX_ROWS * MAX_WIDTH];
        (tile.y, tile.y_stride) = (aside.as_mut_ptr(), width);
        for r in 0..tall {
            for c in 0..if tile.add { count } else { 0 } {
                // SAFETY: a place of this task's part of `y`.
                aside[r * width + c] = unsafe { *place.wrapping_add(r * self.n + c) };
            }
        }
        // SAFETY: as above, with `y` aside: `rows × width` floats fit by the constants.
        unsafe { compute(tall, &tile) };
        for r in 0..tall {
            for c in 0..count {
                // SAFETY: a place of this task's part of `y`.
                unsafe { *place.wrapping_add(r * self.n + c) = aside[r * width + c] };
            }
        }
    }

    /// Each result as a dot product of contiguous rows.
    fn by_dots(&self, kernels: &Kernels, y: Shared) {
        let (m, n, k) = (self.m, self.n, self.k);
        let compute = |b: &[f32]| {
            // Whatever has more rows is walked four rows at a time.
            let by_row = n >= m;
            let (outer, inner) = if by_row { (m, n) } else { (n, m) };
            let parts = if m * n * k < SPLIT { 1 } else { threads().min(inner.div_ceil(4)) };
            for_each(parts, |part| {
                let range = inner * part / parts..inner * (part + 1) / parts;
                let (few, many) = if by_row { (self.a, b) } else { (b, self.a) };
                let many = &many[range.start * k..];
                let (y_few, y_many) = if by_row { (n, 1) } else { (1, n) };
                let place = y.at(range.start * y_many);
                // SAFETY: `few` has `outer` rows of `k` floats, `many` has `range.len()`, by the lengths that `run` has
                // checked; the places are this task's.
                unsafe {
                    if (2..=FEW).contains(&outer) {
                        let (a, b) = (few.as_ptr(), many.as_ptr());
                        (kernels.block)(&Dots {
                            k,
                            few: outer,
                            many: range.len(),
                            a,
                            b,
                            y: place,
                            y_few,
                            y_many,
                        });
                    } else {
                        for o in 0..outer {
                            let tile = Tile {
                                k,
                                a: few[o * k..].as_ptr(),
                                a_stride: k,
                                b: many.as_ptr(),
                                b_stride: k,
                                y: place.wrapping_add(o * y_few),
                                y_stride: y_many,
                                add: false,
                                finish: None,
                            };
                            (kernels.dots)(range.len(), &tile);
                        }
                    }
                }
                for (o, i) in (0..outer).flat_map(|o| range.clone().map(move |i| (o, i))) {
                    let (row, column) = if by_row { (o, i) } else { (i, o) };
                    let bias = |v: &[f32], i: usize| v.get(i).copied().unwrap_or(0.0);
                    let place = y.at(row * n + column);
                    // SAFETY: a place of this task's part of `y`.
                    unsafe {
                        let sum = *place + (bias(self.per_row, row) + bias(self.per_column, column));
                        *place = if self.relu { serinette_core::op::unary::relu(sum) } else { sum };
                    }
                }
            });
        };
        match self.b.columns() {
            Some(b) => compute(b),
            None => workspace::with(|packed| {
                // A panel one float wide is a column.
                let Some(columns) = packed.get_mut(..n * k) else { return };
                for (column, out) in columns.chunks_exact_mut(k).enumerate() {
                    self.b.pack(0..k, column..column + 1, 1, out);
                }
                compute(columns);
            }),
        }
    }
}

/// A matrix stored row after row, `[k, n]`.
pub(super) struct RowMajor<'a> {
    pub elements: &'a [f32],
    pub n: usize,
}

impl Right for RowMajor<'_> {
    fn pack(&self, rows: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let (head, tail) = out.split_at_mut(columns.len());
            head.copy_from_slice(&self.elements[row * self.n..][columns.clone()]);
            tail.fill(0.0);
        }
    }

    fn rows(&self) -> Option<&[f32]> {
        Some(self.elements)
    }

    fn columns(&self) -> Option<&[f32]> {
        // A single column is contiguous.
        (self.n == 1).then_some(self.elements)
    }
}

/// A matrix stored column after column: the transposed one, `[n, k]`.
pub(super) struct ColumnMajor<'a> {
    pub elements: &'a [f32],
    pub k: usize,
}

impl Right for ColumnMajor<'_> {
    fn pack(&self, rows: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        if columns.len() < width {
            out.fill(0.0);
        }
        for (c, column) in columns.enumerate() {
            let from = &self.elements[column * self.k..][rows.clone()];
            for (out, x) in out.chunks_exact_mut(width).zip(from) {
                out[c] = *x;
            }
        }
    }

    fn columns(&self) -> Option<&[f32]> {
        Some(self.elements)
    }
}
