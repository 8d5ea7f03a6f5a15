//! `GridSample` in all kinds, `AffineGrid`, from their definitions in f64.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::sample::*;

static KINDS: &[(&OpDescriptor, Kind)] =
    &[(&GRID_SAMPLE, Kind::Linear), (&GRID_SAMPLE_NEAREST, Kind::Nearest), (&GRID_SAMPLE_CUBIC, Kind::Cubic)];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Linear,
    Nearest,
    Cubic,
}

/// Dimensions of the input, and those of the grid between batch and coordinates.
const SHAPES: &[(&[usize], &[usize])] = &[
    (&[2, 3, 5, 4], &[3, 7]),
    (&[1, 2, 3, 4, 5], &[2, 3, 4]),
    (&[2, 2, 6], &[9]),
    (&[1, 2, 1, 3], &[4, 4]),
    (&[1, 1, 2, 2], &[5, 6]),
    (&[2, 0, 3, 3], &[2, 2]),
    (&[1, 2, 3, 3], &[0, 2]),
    (&[1, 2, 0, 3], &[2, 2]),
];

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(49);
    let mut all = Vec::new();
    for (op, kind) in KINDS {
        for dtype in FLOATS {
            for (i, (from, places)) in SHAPES.iter().enumerate() {
                for mode in 0..6u32 {
                    if dtype == DType::F32 && i < 5 || mode == i as u32 % 6 {
                        let attrs = GridSample { padding: mode / 2, align_corners: mode % 2 };
                        let x = random.floats(dtype, from);
                        let grid = grid(&mut random, dtype, from, places);
                        all.push(sampled((op, *kind), "", attrs, &x, &grid));
                    }
                }
            }
            for mode in 0..6u32 {
                let attrs = GridSample { padding: mode / 2, align_corners: mode % 2 };
                all.push(hostile((op, *kind), attrs, dtype));
            }
        }
    }
    all.extend(FLOATS.iter().flat_map(|dtype| affine(&mut random, *dtype)));
    all
}

/// Coordinates in −2..2 as multiples of 1/16: positions are then exact in every type, half-way ones included.
fn grid(random: &mut Random, dtype: DType, from: &[usize], places: &[usize]) -> Tensor {
    let dims = [&from[..1], places, &[from.len() - 2]].concat();
    let list: Vec<f64> = (0..dims.iter().product()).map(|_| random.integer(-32, 32) as f64 / 16.0).collect();
    Tensor::float(dtype, &dims, &list)
}

/// Infinities, NaN and huge coordinates; and whole positions beside elements that are no numbers.
fn hostile((op, kind): (&OpDescriptor, Kind), attrs: GridSample, dtype: DType) -> Case {
    // Mirrored, a huge position ends up anywhere; a moderate one is exact.
    let big = match (attrs.padding, dtype) {
        (2, _) => 40.0,
        (_, DType::F16) => 6e4,
        _ => 1e30,
    };
    let coordinates = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, big, -big, -1.0, 1.0, 0.0];
    // On three elements −1, 0 and 1 are whole with aligned corners; 0 is in any case.
    let (values, coordinates) = if attrs.align_corners == 1 {
        ([f64::NAN, 2.0, f64::INFINITY], &coordinates[..])
    } else {
        ([3.0, f64::NEG_INFINITY, -0.5], &coordinates[..])
    };
    let x = Tensor::float(dtype, &[1, 1, 3], &values);
    let grid = Tensor::float(dtype, &[1, 8, 1], coordinates);
    sampled((op, kind), "special/", attrs, &x, &grid)
}

/// The elements around a coordinate along an axis of `n` elements, and their weights.
fn around(kind: Kind, attrs: GridSample, g: f64, n: usize, float: DType) -> Vec<(usize, f64)> {
    let (n, aligned) = (n as f64, attrs.align_corners == 1);
    let mut x = if aligned { (g + 1.0) / 2.0 * (n - 1.0) } else { ((g + 1.0) * n - 1.0) / 2.0 };
    // Beyond the range of its arithmetic a position is infinite.
    let limit = if float == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
    let lost = x.is_nan() || x.abs() > limit;
    if kind == Kind::Nearest && !lost {
        x = crate::reference::round::half_even(x);
    }
    let (low, high) = if aligned { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
    // Mirrored at one end after the other, whole rounds at once.
    let mirrored = |x: f64| {
        let round = 2.0 * (high - low);
        if round <= 0.0 {
            return 0.0;
        }
        let along = (x - low) % round;
        let along = if along < 0.0 { along + round } else { along };
        low + if along > round / 2.0 { round - along } else { along }
    };
    if attrs.padding == 0 && lost {
        return vec![];
    }
    // Further outside nothing changes.
    if attrs.padding == 1 {
        x = if x.is_nan() { 0.0 } else { x.max(-5.0).min(n + 4.0) };
    } else if lost {
        x = 0.0;
    }
    let element = |t: f64| match attrs.padding {
        0 => (t >= 0.0 && t < n).then_some(t as usize),
        1 => Some(t.max(0.0).min(n - 1.0) as usize),
        // An element is mirrored onto an element.
        _ => Some(mirrored(t).round().max(0.0).min(n - 1.0) as usize),
    };
    let whole = x.floor();
    let mut taps = Vec::new();
    for t in -1..=2 {
        let t = whole + f64::from(t);
        let (d, a) = ((t - x).abs(), -0.75);
        let weight = match kind {
            Kind::Nearest => f64::from(u8::from(d == 0.0)),
            Kind::Linear => (1.0 - d).max(0.0),
            Kind::Cubic if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
            Kind::Cubic if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
            Kind::Cubic => 0.0,
        };
        if let Some(at) = element(t).filter(|_| weight != 0.0) {
            taps.push((at, weight));
        }
    }
    taps
}

fn sampled(
    (op, kind): (&OpDescriptor, Kind),
    special: &str,
    attrs: GridSample,
    x: &Tensor,
    grid: &Tensor,
) -> Case {
    let (axes, dtype) = (x.dims.len() - 2, x.dtype);
    let dims = [&x.dims[..2], &grid.dims[1..=axes]].concat();
    let (values, coordinates) = (x.numbers(), grid.numbers());
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for i in 0..dims.iter().product() {
        let at = position(&dims, i);
        let taps: Vec<Vec<(usize, f64)>> = (0..axes)
            .map(|axis| {
                // The innermost axis comes first.
                let place = [&at[..1], &at[2..], &[axes - 1 - axis]].concat();
                around(kind, attrs, coordinates[offset(&grid.dims, &place)], x.dims[axis + 2], dtype)
            })
            .collect();
        let counts: Vec<usize> = taps.iter().map(Vec::len).collect();
        let empty = x.elements() == 0;
        let (mut sum, mut terms) = (0.0, 0.0);
        for k in 0..if empty { 0 } else { counts.iter().product() } {
            let chosen = position(&counts, k);
            let weight: f64 = chosen.iter().zip(&taps).map(|(k, taps)| taps[*k].1).product();
            let place = chosen.iter().zip(&taps).map(|(k, taps)| taps[*k].0);
            let place: Vec<usize> = at[..2].iter().copied().chain(place).collect();
            let value = values[offset(&x.dims, &place)];
            sum += weight * value;
            terms += (weight * value).abs();
        }
        y.push(sum);
        bounds.push(bound(dtype, sum, terms));
    }
    let y = Tensor::float(dtype, &dims, &y);
    let what = format!(
        "{}/{special}{:?} at {:?}, padding {}, aligned {}",
        name(dtype),
        x.dims,
        grid.dims,
        attrs.padding,
        attrs.align_corners
    );
    let case = Case::new(op, what, &attrs).input(x).input(grid).output(y);
    case.within(if kind == Kind::Nearest { Tolerance::Exact } else { Tolerance::Bounds(bounds) })
}

/// Positions are exact here, but for the quotient by 2 and mirroring nothing is rounded. Weights of up to three axes are
/// polynomials of a few operations each, and up to 64 terms are summed: less than 128 roundings of the terms.
fn bound(dtype: DType, y: f64, terms: f64) -> f64 {
    if !terms.is_finite() {
        return 0.0;
    }
    let (unit, stored) = match dtype {
        DType::F64 => (2f64.powi(-52), 0.0),
        DType::F16 => (2f64.powi(-24), 2f64.powi(-10) * y.abs() + 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-24), 2f64.powi(-7) * y.abs()),
        _ => (2f64.powi(-24), 0.0),
    };
    128.0 * unit * terms + stored
}

/// Dimensions of the grid without coordinates.
const GRIDS: &[&[usize]] = &[&[2, 3, 5], &[1, 1, 4], &[2, 2, 3, 4], &[1, 3, 1, 1], &[0, 2, 2], &[2, 0, 3]];

fn affine(random: &mut Random, dtype: DType) -> Vec<Case> {
    let each = |(places, aligned): (&&[usize], u32)| {
        let axes = places.len() - 1;
        let theta = random.floats(dtype, &[places[0], axes, axes + 1]);
        let dims = [places, &[axes][..]].concat();
        let list = theta.numbers();
        let (mut y, mut bounds) = (Vec::new(), Vec::new());
        for i in 0..dims.iter().product() {
            let at = position(&dims, i);
            let coordinate = |axis: usize| {
                let (d, m) = (at[axis] as f64, dims[axis] as f64);
                match (aligned, dims[axis]) {
                    (1, 1) => 0.0,
                    (1, _) => 2.0 * d / (m - 1.0) - 1.0,
                    _ => (2.0 * d + 1.0) / m - 1.0,
                }
            };
            let row = &list[offset(&theta.dims, &[at[0], at[axes + 1], 0])..][..=axes];
            let terms: Vec<f64> = (0..axes).map(|j| row[j] * coordinate(axes - j)).collect();
            let sum = terms.iter().sum::<f64>() + row[axes];
            y.push(sum);
            // A coordinate is the difference of numbers up to 2, three roundings; then products and sums.
            bounds.push(bound(dtype, sum, row.iter().map(|t| t.abs()).sum::<f64>()));
        }
        let y = Tensor::float(dtype, &dims, &y);
        let attrs = AffineGrid { align_corners: aligned, reserved: 0 };
        let what = format!("{}/{places:?}, aligned {aligned}", name(dtype));
        Case::new(&AFFINE_GRID, what, &attrs).input(&theta).output(y).within(Tolerance::Bounds(bounds))
    };
    GRIDS.iter().flat_map(|g| [(g, 0), (g, 1)]).map(each).collect()
}
