//! Resampling, from the definition: every element of the result as a sum over every element of the input that counts.

use crate::movement::share;
use crate::random::Random;
use crate::reference::resize::{Axis, Kernel, Taps, axis};
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::op::OpDescriptor;
use serinette_core::op::resize::*;
use serinette_core::{DType, MAX_RANK};

/// What is resized: dimensions of input and result, the axes, and scales (0 where the sizes say it).
struct Grid {
    from: &'static [usize],
    to: &'static [usize],
    scales: &'static [f32],
}

/// The axes that have a scale or another size.
const GRIDS: &[Grid] = &[
    Grid { from: &[2, 3, 4, 5], to: &[2, 3, 8, 10], scales: &[0.0, 0.0, 2.0, 2.0] },
    Grid { from: &[7], to: &[13], scales: &[0.0] },
    Grid { from: &[2, 5, 7], to: &[2, 3, 4], scales: &[0.0, 0.0, 0.0] },
    Grid { from: &[1, 2, 6, 6], to: &[1, 2, 3, 2], scales: &[0.0, 0.0, 0.6, 0.35] },
    Grid { from: &[1, 4, 3, 5], to: &[1, 6, 9, 5], scales: &[0.0; 4] },
    Grid { from: &[3, 8, 18], to: &[3, 2, 18], scales: &[0.0, 0.25, 0.0] },
    Grid { from: &[1, 2, 3, 4, 3], to: &[1, 2, 5, 3, 4], scales: &[0.0; 5] },
    Grid { from: &[5, 4], to: &[3, 4], scales: &[0.625, 1.0] },
    Grid { from: &[4, 1], to: &[1, 5], scales: &[0.0; 2] },
    Grid { from: &[3, 7], to: &[0, 5], scales: &[0.0; 2] },
    Grid { from: &[0, 3], to: &[0, 7], scales: &[0.0; 2] },
    Grid { from: &[3, 5], to: &[3, 5], scales: &[0.0; 2] },
    Grid { from: &[11], to: &[2], scales: &[0.25] },
    Grid { from: &[2, 1, 2, 1, 3, 1, 2, 2], to: &[3, 1, 2, 1, 5, 1, 2, 3], scales: &[0.0; 8] },
];

static WEIGHTED: &[(&OpDescriptor, Kernel, bool)] = &[
    (&RESIZE_LINEAR, Kernel::Linear, false),
    (&RESIZE_CUBIC, Kernel::Cubic, false),
    (&RESIZE_LINEAR_ANTIALIAS, Kernel::Linear, true),
    (&RESIZE_CUBIC_ANTIALIAS, Kernel::Cubic, true),
];

/// Boxes of TF crop and resize, from axis to axis.
const BOXES: [(f32, f32); 3] = [(0.25, 0.75), (-0.5, 1.25), (1.0, 0.0)];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(48);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        // Every coordinate transformation and rounding for common types, a mixture for the others.
        let common = matches!(dtype, DType::F32 | DType::U8);
        for (i, grid) in share(GRIDS, dtype).enumerate() {
            for mode in 0..7 * 4 {
                if common && i < 4 || mode % 7 == i % 7 && mode / 7 == (i + 1) % 4 {
                    all.push(nearest(&mut random, dtype, grid, mode as u32 % 7, mode as u32 / 7));
                }
            }
        }
    }
    for (op, kernel, antialias) in WEIGHTED {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            for (i, grid) in share(GRIDS, dtype).enumerate() {
                for mode in 0..7 * 2 {
                    if dtype == DType::F32 && i < 4 || mode == i || i % 7 == 0 && mode == 7 {
                        let x = random.floats(dtype, grid.from);
                        let attrs = attributes(grid, mode as u32 % 7, mode as u32 / 7, *kernel);
                        all.push(weighted((op, *kernel, *antialias), "", &attrs, &x, grid));
                    }
                }
            }
            all.extend(hostile(op, *kernel, *antialias, dtype));
        }
    }
    all
}

fn attributes(grid: &Grid, coordinates: u32, exclude: u32, kernel: Kernel) -> Resize {
    let mut attrs = Resize { coordinates, exclude_outside: exclude, ..Resize::default() };
    for (axis, scale) in grid.scales.iter().enumerate() {
        if grid.from[axis] != grid.to[axis] || *scale != 0.0 {
            attrs.axes |= 1 << axis;
            attrs.scales[axis] = *scale;
            if coordinates == coordinates::TF_CROP_AND_RESIZE {
                (attrs.box_starts[axis], attrs.box_ends[axis]) = BOXES[axis % 3];
            }
        }
    }
    if kernel == Kernel::Cubic {
        attrs.cubic = if exclude == 0 { -0.75 } else { -0.5 };
    }
    if coordinates == coordinates::TF_CROP_AND_RESIZE && kernel != Kernel::Nearest {
        attrs.extrapolation = 7.5;
    }
    attrs
}

/// For each axis and element of the result the elements that count; `None` outside.
fn axes(attrs: &Resize, kernel: Kernel, antialias: bool, grid: &Grid) -> Vec<Vec<Option<Taps>>> {
    let each = |a: usize| {
        let of = |list: &[f32; MAX_RANK]| f64::from(list[a]);
        let spec = Axis {
            resized: attrs.axes >> a & 1 == 1,
            n: grid.from[a],
            m: grid.to[a],
            scale: of(&attrs.scales),
            coordinates: attrs.coordinates,
            bounds: (of(&attrs.box_starts), of(&attrs.box_ends)),
            rounding: attrs.rounding,
            exclude: attrs.exclude_outside == 1,
            coefficient: f64::from(attrs.cubic),
        };
        axis(&spec, kernel, antialias)
    };
    (0..grid.from.len()).map(each).collect()
}

fn nearest(random: &mut Random, dtype: DType, grid: &Grid, coordinates: u32, rounding: u32) -> Case {
    let x = random.any(dtype, grid.from);
    let attrs = Resize { rounding, ..attributes(grid, coordinates, 0, Kernel::Nearest) };
    let value = (rounding < 2).then(|| random.any(dtype, &[]));
    let tables = axes(&attrs, Kernel::Nearest, false, grid);
    let bytes = (0..grid.to.iter().product())
        .flat_map(|i| {
            let at = position(grid.to, i);
            let from: Option<Vec<usize>> =
                at.iter().zip(&tables).map(|(i, table)| table[*i].as_ref().map(|t| t[0].0)).collect();
            match (from, &value) {
                (Some(from), _) => x.element(offset(grid.from, &from)).to_vec(),
                (None, Some(value)) => value.bytes.clone(),
                (None, None) => vec![0; dtype.size()],
            }
        })
        .collect();
    let y = Tensor::new(dtype, grid.to, bytes);
    let what = what(dtype, "", &attrs, grid);
    let case = Case::new(&RESIZE_NEAREST, what, &attrs).input(&x).output(y).within(Tolerance::Bits);
    Case { inputs: case.inputs.into_iter().chain(value.map(Some)).collect(), ..case }
}

fn what(dtype: DType, kind: &str, attrs: &Resize, grid: &Grid) -> String {
    let (coordinates, rounding, exclude) = (attrs.coordinates, attrs.rounding, attrs.exclude_outside);
    format!(
        "{}/{kind}{:?} to {:?} by {:?}, coordinates {coordinates}, rounding {rounding}, exclude {exclude}",
        name(dtype),
        grid.from,
        grid.to,
        grid.scales
    )
}

/// How far a device may be: f32 arithmetic throughout, positions included. A position of at most `n` is off by less than
/// `n · 2^-21`, which moves a weight by less than three times that (twice, and the quotient by the sum of the weights); a
/// sum of products is off by its operations times 2^-24 of its terms. f64 is computed in f64, positions like here.
fn bound(dtype: DType, y: f64, terms: f64, largest: f64, taps: usize, n: usize, rank: usize) -> f64 {
    let (unit, place) = match dtype {
        DType::F64 => (2f64.powi(-52), 2f64.powi(-49)),
        _ => (2f64.powi(-24), 2f64.powi(-21)),
    };
    let stored = match dtype {
        // Two roundings: the device's and that of the expected value.
        DType::F16 => 2f64.powi(-10) * y.abs() + 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-7) * y.abs(),
        _ => 0.0,
    };
    let moved = 3.0 * n as f64 * place * largest * (taps * rank.max(1)) as f64;
    terms * unit * (taps + 8 * rank.max(1)) as f64 + moved + stored
}

fn weighted(
    (op, kernel, antialias): (&OpDescriptor, Kernel, bool),
    kind: &str,
    attrs: &Resize,
    x: &Tensor,
    grid: &Grid,
) -> Case {
    let tables = axes(attrs, kernel, antialias, grid);
    let list = x.numbers();
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for i in 0..grid.to.iter().product() {
        let at = position(grid.to, i);
        let spans: Option<Vec<&Taps>> = at.iter().zip(&tables).map(|(i, table)| table[*i].as_ref()).collect();
        let Some(spans) = spans else {
            y.push(f64::from(attrs.extrapolation));
            bounds.push(0.0);
            continue;
        };
        let counts: Vec<usize> = spans.iter().map(|s| s.len()).collect();
        let (mut sum, mut terms, mut largest) = (0.0, 0.0f64, 0.0f64);
        for k in 0..counts.iter().product() {
            let chosen = position(&counts, k);
            let weight: f64 = chosen.iter().zip(&spans).map(|(k, span)| span[*k].1).product();
            let from: Vec<usize> = chosen.iter().zip(&spans).map(|(k, span)| span[*k].0).collect();
            let value = list[offset(grid.from, &from)];
            if weight != 0.0 {
                sum += weight * value;
                terms += (weight * value).abs();
            }
            largest = largest.max(value.abs());
        }
        let rank = attrs.axes.count_ones() as usize;
        let n = grid.from.iter().copied().max().unwrap_or(1);
        y.push(sum);
        bounds.push(bound(x.dtype, sum, terms, largest, counts.iter().product(), n, rank));
    }
    let exact = bounds.iter().any(|b| !b.is_finite());
    let bounds = bounds.into_iter().map(|b| if exact { 1e-3 } else { b }).collect();
    let y = Tensor::float(x.dtype, grid.to, &y);
    let what = what(x.dtype, kind, attrs, grid);
    Case::new(op, what, attrs).input(x).output(y).within(Tolerance::Bounds(bounds))
}

/// Infinities and NaN beside positions that are whole, where their weights are 0 for every device; and a doubling, where
/// every second weight is 0.
fn hostile(op: &OpDescriptor, kernel: Kernel, antialias: bool, dtype: DType) -> Vec<Case> {
    const SAME: Grid = Grid { from: &[2, 6], to: &[2, 6], scales: &[0.0, 1.0] };
    const TWICE: Grid = Grid { from: &[6], to: &[12], scales: &[2.0] };
    let x = [1.0, f64::INFINITY, -2.0, f64::NAN, 0.5, f64::NEG_INFINITY];
    let twice = [&x[..], &[3.0, -0.0, 1.0, f64::NAN, f64::INFINITY, 2.0]].concat();
    let same = weighted(
        (op, kernel, antialias),
        "special/",
        &attributes(&SAME, coordinates::HALF_PIXEL, 0, kernel),
        &Tensor::float(dtype, SAME.from, &twice),
        &SAME,
    );
    let twice = weighted(
        (op, kernel, antialias),
        "special/",
        &attributes(&TWICE, coordinates::ASYMMETRIC, 0, kernel),
        &Tensor::float(dtype, TWICE.from, &x),
        &TWICE,
    );
    vec![same, twice]
}
