//! Sampling at positions that another tensor gives, and the grids of such positions.

use crate::functions::Elementary;
use crate::number::{BF16, F16, Float, Stored};
use crate::registry::{Registered, kernel_set};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::sample as op;
use serinette_core::op::sample::{AffineGrid, GridSample, padding};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[linear::KERNELS, nearest::KERNELS, cubic::KERNELS, affine_grid::KERNELS];

macro_rules! floats {
    ($($(#[$doc:meta])+ $module:ident = $op:ident, $call:ident $(, $kind:ty)?;)+) => {$(
        $(#[$doc])+
        pub mod $module {
            use super::*;
            /// For f32.
            pub fn f32(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<f32 $(, $kind)?>(step, ops)
            }
            /// For f16.
            pub fn f16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<F16 $(, $kind)?>(step, ops)
            }
            /// For bf16.
            pub fn bf16(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<BF16 $(, $kind)?>(step, ops)
            }
            /// For f64.
            pub fn f64(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                $call::<f64 $(, $kind)?>(step, ops)
            }
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] =
                kernel_set!(sample, $module, op::$op, [f32 F32, f16 F16, bf16 BF16, f64 F64], same);
        }
    )+};
}

floats! {
    /// `GridSample`.
    linear = GRID_SAMPLE, sample, Linear;
    /// `GridSampleNearest`.
    nearest = GRID_SAMPLE_NEAREST, sample, Nearest;
    /// `GridSampleCubic`.
    cubic = GRID_SAMPLE_CUBIC, sample, Cubic;
    /// `AffineGrid`.
    affine_grid = AFFINE_GRID, affine;
}

/// Most axes of an image.
const AXES: usize = 3;
/// Most neighbours along one axis.
const TAPS: usize = 4;

/// Which neighbours count.
trait Kind {
    /// The position that counts.
    fn round<W: Elementary>(x: W) -> W {
        x
    }
    /// Weights of neighbours, the first of them `BEFORE` elements before the whole part of the position.
    fn weights<W: Elementary>(rest: W) -> [W; TAPS];
    const BEFORE: i64;
}

struct Linear;
struct Nearest;
struct Cubic;

impl Kind for Linear {
    const BEFORE: i64 = 0;
    fn weights<W: Elementary>(rest: W) -> [W; TAPS] {
        [W::of(1.0) - rest, rest, W::of(0.0), W::of(0.0)]
    }
}

impl Kind for Nearest {
    const BEFORE: i64 = 0;
    fn round<W: Elementary>(x: W) -> W {
        x.round_even()
    }
    fn weights<W: Elementary>(_: W) -> [W; TAPS] {
        [W::of(1.0), W::of(0.0), W::of(0.0), W::of(0.0)]
    }
}

impl Kind for Cubic {
    const BEFORE: i64 = 1;
    fn weights<W: Elementary>(rest: W) -> [W; TAPS] {
        let a = W::of(-0.75);
        let of = W::of;
        let near = |d: W| ((a + of(2.0)) * d - (a + of(3.0))) * d * d + of(1.0);
        let far = |d: W| ((a * d - of(5.0) * a) * d + of(8.0) * a) * d - of(4.0) * a;
        [far(of(1.0) + rest), near(rest), near(of(1.0) - rest), far(of(2.0) - rest)]
    }
}

/// One axis of the image.
#[derive(Clone, Copy)]
struct Axis {
    n: usize,
    stride: usize,
    aligned: bool,
    padding: u32,
}

impl Axis {
    /// The neighbours of a coordinate: their elements and weights, with weight 0 where there is none.
    fn taps<W: Elementary, K: Kind>(&self, g: W) -> [(usize, W); TAPS] {
        let of = W::of;
        let n = of(self.n as f64);
        let x = if self.aligned {
            (g + of(1.0)) / of(2.0) * (n - of(1.0))
        } else {
            ((g + of(1.0)) * n - of(1.0)) / of(2.0)
        };
        let mut taps = [(0, of(0.0)); TAPS];
        let Some(x) = self.near(K::round(x)) else { return taps };
        let whole = x.floor();
        let Some(first) = whole_number(whole).map(|w| w - K::BEFORE) else { return taps };
        for ((tap, weight), at) in taps.iter_mut().zip(K::weights(x - whole)).zip(first..) {
            if let Some(at) = self.element(at) {
                *tap = (at.wrapping_mul(self.stride), weight);
            }
        }
        taps
    }

    /// A position near the elements that has the same neighbours; `None` where there are none.
    fn near<W: Elementary>(&self, x: W) -> Option<W> {
        let of = W::of;
        let last = of(self.n as f64) - of(1.0);
        // Beyond that no neighbour is an element, or every one the outermost.
        let (low, high) = (of(-4.0), last + of(4.0));
        // Zero times an infinity or NaN is NaN.
        let finite = !Float::nan(x * of(0.0));
        match self.padding {
            padding::ZEROS => Some(x).filter(|x| *x >= low && *x <= high),
            padding::BORDER if x > high => Some(last),
            padding::BORDER => Some(if x >= low { x } else { of(0.0) }),
            // Mirrored at both ends, an axis repeats.
            _ if finite => Some(x.fmod(of(self.period() as f64))),
            _ => Some(of(0.0)),
        }
    }

    /// The elements after which a mirrored axis repeats.
    fn period(&self) -> i64 {
        let n = i64::try_from(self.n).unwrap_or(0);
        let gap = i64::from(!self.aligned);
        n.saturating_sub(1).saturating_add(gap).saturating_mul(2).max(1)
    }

    /// The element that position `at` stands for.
    fn element(&self, at: i64) -> Option<usize> {
        let n = i64::try_from(self.n).ok().filter(|n| *n > 0)?;
        let at = match self.padding {
            padding::ZEROS => Some(at).filter(|at| (0..n).contains(at))?,
            padding::BORDER => at.clamp(0, n - 1),
            _ => {
                let at = at.rem_euclid(self.period());
                if at < n { at } else { self.period() - i64::from(!self.aligned) - at }
            }
        };
        usize::try_from(at).ok().filter(|at| *at < self.n)
    }
}

/// A whole number of moderate size.
fn whole_number<W: Elementary>(x: W) -> Option<i64> {
    // Positions inside of a tensor are below 2^62.
    let limit = W::of(4.6e18);
    if x > -limit && x < limit { Some(x.wide() as i64) } else { None }
}

fn sample<T: Stored, K: Kind>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: GridSample = step.attributes()?;
    let (shape, positions, out) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let (x, grid, y) = (ops.input::<T>(0)?, ops.input::<T>(1)?, ops.output::<T>(0)?);
    expect("elements of x", shape.elements(), x.len())?;
    expect("elements of y", out.elements(), y.len())?;
    let axes = shape.rank().checked_sub(2).filter(|r| (1..=AXES).contains(r));
    let axes = axes.ok_or(KernelError::new("rank of x", 4, shape.rank()))?;
    if y.is_empty() {
        return Ok(());
    }
    let (channels, places) = (shape.dim(1), out.inner(1));
    expect("elements of y", product(&[shape.dim(0), channels, places]), y.len())?;
    expect("elements of the grid", product(&[shape.dim(0), places, axes]), grid.len())?;
    expect("elements of the grid", positions.elements(), grid.len())?;
    let axis = |i: usize| Axis {
        n: shape.dim(i + 2),
        stride: shape.inner(i + 2),
        aligned: attrs.align_corners == 1,
        padding: attrs.padding,
    };
    let all: [Axis; AXES] = core::array::from_fn(axis);
    let plane = shape.inner(1);
    for (n, (y, grid)) in
        y.chunks_exact_mut(channels * places).zip(grid.chunks_exact(places * axes)).enumerate()
    {
        let image = x.get(n.wrapping_mul(channels * plane)..).ok_or(OUT_OF_RANGE)?;
        for (place, position) in grid.chunks_exact(axes).enumerate() {
            // The innermost axis is first in the grid, the outermost in the list.
            let mut around = [[(0, T::Wide::of(0.0)); TAPS]; AXES];
            for ((around, axis), g) in around.iter_mut().zip(&all).zip(position.iter().rev()) {
                *around = axis.taps::<T::Wide, K>(g.load());
            }
            let mut taps = [(0usize, T::Wide::of(0.0)); TAPS * TAPS * TAPS];
            let count = combine(around.get(..axes).unwrap_or(&[]), &mut taps);
            let taps = taps.get(..count).unwrap_or(&[]);
            for (c, y) in y.iter_mut().skip(place).step_by(places).enumerate() {
                let mut sum = T::Wide::of(0.0);
                for (at, weight) in taps {
                    let x = image.get(c.wrapping_mul(plane).wrapping_add(*at)).ok_or(OUT_OF_RANGE)?;
                    sum = sum + *weight * x.load();
                }
                *y = T::store(sum);
            }
        }
    }
    Ok(())
}

/// Every combination of neighbours along the axes that has a weight. Gives their number.
fn combine<W: Elementary>(around: &[[(usize, W); TAPS]], taps: &mut [(usize, W)]) -> usize {
    let Some((first, rest)) = around.split_first() else {
        if let Some(tap) = taps.first_mut() {
            *tap = (0, W::of(1.0));
        }
        return 1;
    };
    let mut inner = [(0usize, W::of(0.0)); TAPS * TAPS];
    let among = combine(rest, &mut inner);
    let mut count = 0;
    for (start, outer) in first.iter().filter(|(_, w)| *w != W::of(0.0)) {
        for (at, weight) in inner.iter().take(among) {
            if let Some(tap) = taps.get_mut(count) {
                *tap = (start.wrapping_add(*at), *outer * *weight);
                count += 1;
            }
        }
    }
    count
}

fn affine<T: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let aligned = step.attributes::<AffineGrid>()?.align_corners == 1;
    let out = step.output(0)?;
    let (theta, y) = (ops.input::<T>(0)?, ops.output::<T>(0)?);
    expect("elements of y", out.elements(), y.len())?;
    expect("elements of theta", step.input(0)?.elements(), theta.len())?;
    let axes = out.rank().checked_sub(2).filter(|r| (2..=AXES).contains(r));
    let axes = axes.ok_or(KernelError::new("rank of y", 4, out.rank()))?;
    if y.is_empty() {
        return Ok(());
    }
    expect("coordinates of a position", axes, out.dim(axes + 1))?;
    expect("elements of theta", product(&[out.dim(0), axes, axes + 1]), theta.len())?;
    let of = T::Wide::of;
    let coordinate = |d: usize, m: usize| match (aligned, m) {
        (true, 1) => of(0.0),
        (true, _) => of(2.0 * d as f64) / of(m as f64 - 1.0) - of(1.0),
        (false, _) => (of(2.0 * d as f64) + of(1.0)) / of(m as f64) - of(1.0),
    };
    let batch = product(out.dims().get(1..).unwrap_or(&[]));
    for (y, theta) in y.chunks_exact_mut(batch).zip(theta.chunks_exact(axes * (axes + 1))) {
        for (place, y) in y.chunks_exact_mut(axes).enumerate() {
            // The coordinates, innermost axis first.
            let (mut p, mut rest) = ([of(0.0); AXES], place);
            for (p, m) in p.iter_mut().zip((1..=axes).rev().map(|axis| out.dim(axis))) {
                *p = coordinate(rest % m, m);
                rest /= m;
            }
            for (y, row) in y.iter_mut().zip(theta.chunks_exact(axes + 1)) {
                let (factors, shift) = row.split_at(axes);
                let terms = factors.iter().zip(p).map(|(t, p)| t.load() * p);
                let sum = terms.reduce(|sum, term| sum + term).unwrap_or(of(0.0));
                *y = T::store(shift.iter().fold(sum, |sum, t| sum + t.load()));
            }
        }
    }
    Ok(())
}
