//! Matrix products.

use super::generated as g;
use super::launch::{Launch, attrs, input, location_or_absent, output, word};
use serinette_core::DType;
use serinette_core::op::matmul::{MatMul, QMatMul};
use serinette_dispatch::{DeviceCaps, LowerError, LowerStep, Operand};

/// A product as parameter words. Where all batches share one `b`, they are rows of one product.
struct Sizes {
    m: u32,
    n: u32,
    k: u32,
    batches: u32,
    /// Steps in elements along k, along n and from batch to batch of `b`.
    b_k: u32,
    b_n: u32,
    b_batch: u32,
}

impl Sizes {
    fn new(a: &Operand, b: &Operand, transposed: bool) -> Result<Sizes, LowerError> {
        let (ra, rb) = (a.shape.rank(), b.shape.rank());
        if ra < 2 || rb < 2 {
            return Err(LowerError::Invalid("rank of a matrix"));
        }
        let (k, rows) = (word(a.shape.dim(ra - 1))?, a.shape.dim(ra - 2));
        let n = word(b.shape.dim(if transposed { rb - 2 } else { rb - 1 }))?;
        let leading = a.shape.outer(ra - 2);
        let (m, batches) = if rb == 2 { (leading.saturating_mul(rows), 1) } else { (rows, leading) };
        let (b_k, b_n) = if transposed { (1, k) } else { (n, 1) };
        let b_batch = if rb == 2 { 0 } else { k.saturating_mul(n) };
        Ok(Sizes { m: word(m)?, n, k, batches: word(batches)?, b_k, b_n, b_batch })
    }

    fn rows(&self) -> Result<u32, LowerError> {
        self.m.checked_mul(self.batches).ok_or(LowerError::Invalid("rows of a product"))
    }
}

/// Up to this many rows a product is bound by reading `b`, and tiles would be mostly empty.
const FEW_ROWS: u32 = 8;
/// Bytes of workgroup memory of the 64 x 64 tile.
const BIG_TILE_SHARED: u32 = 2 * 64 * 16 * 4;

/// The edge of the tile: the large one where it leaves enough workgroups to fill a device.
fn tile(s: &Sizes, caps: &DeviceCaps) -> u32 {
    let tiles = u64::from(s.m.div_ceil(64)) * u64::from(s.n.div_ceil(64)) * u64::from(s.batches);
    let fits = caps.max_invocations >= 256 && caps.shared_bytes >= BIG_TILE_SHARED;
    if fits && tiles >= 64 { 64 } else { 32 }
}

/// The kernels of one element type.
struct Kernels {
    tile32: u16,
    tile64: u16,
    row_n: u16,
    row_k: u16,
}

const F32: Kernels = Kernels {
    tile32: g::MATMUL_F32_TILE32,
    tile64: g::MATMUL_F32_TILE64,
    row_n: g::MATMUL_F32_ROW_N,
    row_k: g::MATMUL_F32_ROW_K,
};
const F16: Kernels = Kernels {
    tile32: g::MATMUL_F16_TILE32,
    tile64: g::MATMUL_F16_TILE64,
    row_n: g::MATMUL_F16_ROW_N,
    row_k: g::MATMUL_F16_ROW_K,
};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (a, b, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let at: MatMul = attrs(step)?;
    let s = Sizes::new(a, b, at.transpose_b != 0)?;
    let rows = s.rows()?;
    let kernels = match a.dtype {
        DType::F32 => F32,
        DType::F16 if s.n % 2 == 1 => return lower_odd_halves(step, &s, at.activation, to),
        DType::F16 => F16,
        _ => return Err(LowerError::NoKernel),
    };
    let (bias, activation) = (location_or_absent(step, 2), at.activation);
    let (a, b, y) = (a.location(), b.location(), y.location());
    let Sizes { m, n, k, b_k, b_n, b_batch, .. } = s;
    if s.m <= FEW_ROWS && to.caps.max_invocations >= 256 {
        let (kernel, columns) = if b_k == 1 && k > 1 { (kernels.row_k, 8) } else { (kernels.row_n, 32) };
        let blocks_n = n.div_ceil(columns);
        let blocks = rows.checked_mul(blocks_n).ok_or(LowerError::Invalid("blocks of a product"))?;
        let params = g::MatMulRow { m, n, k, a, b, bias, y, activation, b_k, b_n, b_batch, blocks_n, blocks };
        return to.groups(kernel, params.words(), blocks, false);
    }
    let edge = tile(&s, to.caps);
    let (tiles_m, tiles_n) = (m.div_ceil(edge), n.div_ceil(edge));
    let tiles = tiles_m.checked_mul(tiles_n).and_then(|t| t.checked_mul(s.batches));
    let tiles = tiles.ok_or(LowerError::Invalid("tiles of a product"))?;
    let params = g::MatMul { m, n, k, a, b, bias, y, activation, b_k, b_n, b_batch, tiles_m, tiles_n, tiles };
    let kernel = if edge == 64 { kernels.tile64 } else { kernels.tile32 };
    to.groups(kernel, params.words(), tiles, false)
}

/// Half precision whose rows do not begin at whole words.
fn lower_odd_halves(
    step: &LowerStep<'_>,
    s: &Sizes,
    activation: u32,
    to: &mut Launch<'_>,
) -> Result<(), LowerError> {
    let results = s.rows()?.checked_mul(s.n).ok_or(LowerError::Invalid("results of a product"))?;
    let params = g::MatMulAny {
        results,
        m: s.m,
        n: s.n,
        k: s.k,
        a: input(step, 0)?.location(),
        b: input(step, 1)?.location(),
        bias: location_or_absent(step, 2),
        y: output(step)?.location(),
        activation,
        b_k: s.b_k,
        b_n: s.b_n,
        b_batch: s.b_batch,
    };
    to.items(g::MATMUL_F16_ANY, params.words(), results.div_ceil(2))
}

pub(super) fn lower_quantized(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (x, w, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let at: QMatMul = attrs(step)?;
    let s = Sizes::new(x, w, at.transpose_b != 0)?;
    let kernel = if at.transpose_b != 0 && s.k % 4 == 0 {
        g::QMATMUL_DOT
    } else if at.transpose_b == 0 && s.n % 4 == 0 {
        g::QMATMUL_COLUMNS
    } else {
        g::QMATMUL_ANY
    };
    let results = word(y.shape.elements())?;
    let params = g::QMatMul {
        results,
        n: s.n,
        k: s.k,
        x: x.location(),
        w: w.location(),
        bias: input(step, 2)?.location(),
        multiplier: input(step, 3)?.location(),
        shift: input(step, 4)?.location(),
        y: y.location(),
        w_k: s.b_k,
        w_n: s.b_n,
        x_zero: at.requantize.x_zero as u32,
        y_zero: at.requantize.y_zero as u32,
        low: at.requantize.low as u32,
        high: at.requantize.high as u32,
    };
    to.items(kernel, params.words(), results.div_ceil(4))
}
