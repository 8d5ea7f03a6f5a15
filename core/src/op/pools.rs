//! Pooling over one to three spatial axes, in all of ONNX's ways: `MaxPool`, `MaxPoolIndices`, `AveragePool`, `LpPool`.
//!
//! `MaxPool2d` and `AveragePool2d` are the cases of two axes whose windows all begin and end within the padded input.

use super::matmul::{flag, reserved, set_output};
use super::spatial::{MAX_AXES, MAX_EXTENT, Spatial, axes_of, neutral};
use super::unary::FLOATS;
use super::{AttrError, Attributes, Cost, OpDescriptor, Operand, ShapeArgs, StepShapes, attributes};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Attributes of all poolings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pool {
    /// Where the windows are.
    pub spatial: Spatial,
    /// Taps of the window along each of the last three axes, at least 1 and 1 for absent axes. All zero: the whole
    /// input (global pooling), with neutral `spatial` and `ceil`.
    pub kernel: [u32; 3],
    /// 1 if a last window that lies partly behind the padded input counts too (`⌈⌉` instead of `⌊⌋`), as long as it
    /// begins within the input or the padding before it.
    pub ceil: u32,
    /// `AveragePool` only, else 0: 1 if padding (but not what lies behind it) counts as zeros in the mean.
    pub count_padding: u32,
    /// `MaxPoolIndices` only, else 0: 1 if positions count the first spatial axis as the fastest.
    pub column_major: u32,
    /// `LpPool` only, else 0: the exponent, from 1 up.
    pub p: u32,
    /// Zero.
    pub reserved: u32,
}

impl Pool {
    /// Global pooling.
    pub const GLOBAL: Pool = Pool {
        spatial: Spatial::PLAIN,
        kernel: [0; 3],
        ceil: 0,
        count_padding: 0,
        column_major: 0,
        p: 0,
        reserved: 0,
    };

    /// Whether the window is the whole input.
    pub fn is_global(&self) -> bool {
        self.kernel == [0; 3]
    }

    /// Taps of the window over an input of these last three axes.
    pub fn window(&self, input: [usize; 3]) -> [usize; 3] {
        if self.is_global() { input } else { self.kernel.map(|k| k as usize) }
    }

    /// Window positions along entry `i`. With `a = size + before` and windows of `span`, the two conditions for the
    /// number of positions in ceil mode, `⌈(a + after − span) / stride⌉ + 1` and windows that start below `a`, are one
    /// division: `⌈(a − max(span − after − stride, 0)) / stride⌉`.
    fn positions(&self, alg: &mut dyn DimAlgebra, i: usize, size: Dim) -> Result<Dim, ShapeError> {
        let one = alg.constant(1)?;
        alg.require_at_most("a pooled axis of at least one element", one, size)?;
        if self.is_global() {
            return Ok(one);
        }
        let (g, taps) = (&self.spatial, u64::from(self.kernel[i]));
        if self.ceil == 0 {
            return g.positions(alg, i, size, taps);
        }
        let stride = u64::from(g.strides[i]);
        let cut = g.span(i, taps)?.saturating_sub(u64::from(g.after[i])).saturating_sub(stride);
        let before = alg.constant(u64::from(g.before[i]))?;
        let a = alg.add(size, before)?;
        let least = alg.constant(cut + 1)?;
        alg.require_at_most("a window within the padded input and a stride", least, a)?;
        let room = alg.saturating_sub(a, cut)?;
        alg.div_ceil(room, stride)
    }
}

impl Attributes for Pool {
    fn check(&self) -> Result<(), AttrError> {
        self.spatial.check()?;
        flag("ceil", self.ceil)?;
        flag("count_padding", self.count_padding)?;
        flag("column_major", self.column_major)?;
        reserved(self.reserved)?;
        if self.is_global() {
            if self.spatial != Spatial::PLAIN || self.ceil != 0 {
                return Err(AttrError::new("kernel of a padded, strided or dilated pool", 1, 0));
            }
            return Ok(());
        }
        match self.kernel.iter().find(|k| !(1..=MAX_EXTENT).contains(*k)) {
            Some(k) => Err(AttrError::new("kernel", u64::from(MAX_EXTENT), u64::from(*k))),
            None => Ok(()),
        }
    }
}

/// Which of the fields an op has.
fn check(bytes: &[u8], counts: bool, positions: bool, exponent: bool) -> Result<Pool, AttrError> {
    let a: Pool = attributes(bytes)?;
    for (field, value, has) in [
        ("count_padding", a.count_padding, counts),
        ("column_major", a.column_major, positions),
        ("p", a.p, exponent),
    ] {
        if !has && value != 0 {
            return Err(AttrError::new(field, 0, u64::from(value)));
        }
    }
    if exponent && a.p == 0 { Err(AttrError::new("p", u64::from(u32::MAX), 0)) } else { Ok(a) }
}

/// Element types with an order.
pub(super) const ORDERED: DTypeSet =
    DTypeSet::of(&[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::U8]);
/// Types of positions.
const POSITIONS: DTypeSet = DTypeSet::of(&[DType::I32, DType::I64]);

const POOL: OpDescriptor = OpDescriptor {
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Pool>(),
    shape_rule: |alg, args, out| set_output(out, pool_dims(alg, args)?),
    cost: pool_cost,
    ..OpDescriptor::BASE
};

/// `x` `[N, C, …]` → `y` `[N, C, …]`: the largest element of each window, the first of equal ones in row-major order.
/// Padding never wins. The first NaN in the window is the result. A window without elements (of a dilated, padded pool)
/// gives the least number: −∞ in floats.
pub static MAX_POOL: OpDescriptor = OpDescriptor {
    code: 246,
    name: "MaxPool",
    path: "pools::MAX_POOL",
    inputs: &[Operand::data("x", 'T', ORDERED)],
    outputs: &[Operand::data("y", 'T', ORDERED)],
    check_attrs: |b| check(b, false, false, false).map(|_| ()),
    ..POOL
};

/// `MaxPool` with where each result was found: `indices` i32 or i64, shaped as `y`, positions in the flat `x`.
/// Row-major, or with `column_major` such that within a plane `[A0, A1, A2]` the element `(a0, a1, a2)` is
/// `a0 + a1·A0 + a2·A0·A1` (planes follow each other as in memory). Of equal elements the first in row-major order; −1
/// for a window without elements. Positions above 2^31 − 1 saturate in i32.
pub static MAX_POOL_INDICES: OpDescriptor = OpDescriptor {
    code: 247,
    name: "MaxPoolIndices",
    path: "pools::MAX_POOL_INDICES",
    inputs: &[Operand::data("x", 'T', ORDERED)],
    outputs: &[Operand::data("y", 'T', ORDERED), Operand::data("indices", '-', POSITIONS)],
    check_attrs: |b| check(b, false, true, false).map(|_| ()),
    shape_rule: |alg, args, out| {
        let y = pool_dims(alg, args)?;
        *out.get_mut(1).ok_or(ShapeError::new("outputs", 2, 1))? = y;
        set_output(out, y)
    },
    ..POOL
};

/// `x` `[N, C, …]` → `y` `[N, C, …]`: the mean of each window. The sum is f32 (f64 in f64), row by row, divided once
/// and rounded once. Without `count_padding` the number of elements in the window divides; a window without elements
/// gives 0.
pub static AVERAGE_POOL: OpDescriptor = OpDescriptor {
    code: 248,
    name: "AveragePool",
    path: "pools::AVERAGE_POOL",
    check_attrs: |b| check(b, true, false, false).map(|_| ()),
    ..POOL
};

/// `x` `[N, C, …]` → `y` `[N, C, …]`: `(Σ |x|^p)^(1/p)` over each window, padding as zeros. Sums are f32 (f64 in f64),
/// row by row; the power is a product, the root that of the power function, for `p` 2 the square root. A sum beyond the
/// type's range is infinite; NaN stays NaN.
pub static LP_POOL: OpDescriptor = OpDescriptor {
    code: 249,
    name: "LpPool",
    path: "pools::LP_POOL",
    check_attrs: |b| check(b, false, false, true).map(|_| ()),
    ..POOL
};

fn pool_dims(alg: &mut dyn DimAlgebra, args: &ShapeArgs<'_>) -> Result<Dims, ShapeError> {
    let a: Pool = attributes(args.attrs)?;
    let x = args.input(0)?;
    let axes = axes_of(&x)?;
    a.spatial.check_axes(axes)?;
    if !a.is_global() {
        neutral("kernel of an absent axis", &a.kernel, axes, 1)?;
    }
    let mut y = Dims::new(&[x.get(0)?, x.get(1)?])?;
    for axis in 0..axes {
        y.push(a.positions(alg, MAX_AXES - axes + axis, x.get(axis + 2)?)?)?;
    }
    Ok(y)
}

/// The last three axes of `[N, C, …]`, with ones in front of fewer.
pub fn planes(x: &crate::Shape) -> [usize; 3] {
    let axes = x.rank().saturating_sub(2).min(MAX_AXES);
    core::array::from_fn(|i| match (i + axes).checked_sub(MAX_AXES) {
        Some(axis) => x.dim(axis + 2),
        None => 1,
    })
}

fn pool_cost(s: &StepShapes<'_>) -> Cost {
    let taps = attributes::<Pool>(s.attrs).map_or([1; 3], |a| a.window(planes(&s.input(0))));
    s.element_cost(taps.iter().fold(1, |n: u64, t| n.saturating_mul(*t as u64)))
}
