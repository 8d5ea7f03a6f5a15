//! `RoiAlign` in both kinds, `NonMaxSuppression`, `MaxUnpool`.

use crate::gather_nd::{BAD, wrapped};
use crate::movement::share;
use crate::random::Random;
use crate::tensor::offset;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::OpDescriptor;
use serinette_core::op::region::*;

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(51);
    let mut all = Vec::new();
    for (op, mean) in [(&ROI_ALIGN, true), (&ROI_ALIGN_MAX, false)] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            for (i, (dims, output, samples, scale)) in ROIS.iter().enumerate() {
                for half_pixel in [0, 1] {
                    let attrs = RoiAlign {
                        output: *output,
                        samples: *samples,
                        half_pixel,
                        scale: *scale,
                        reserved: 0,
                    };
                    let x = random.floats(dtype, dims);
                    let count = if i == 3 { 0 } else { REGIONS.len() };
                    let list: Vec<f64> = REGIONS.iter().take(count).flatten().copied().collect();
                    let regions = Tensor::float(dtype, &[count, 4], &list);
                    let n = dims[0] as i32;
                    let indices = random.i32s(&[count], -n, (n - 1).max(-n));
                    all.push(pooled((op, mean), "", &attrs, &x, &regions, &indices));
                }
            }
            all.extend(hostile(&mut random, op, mean, dtype));
        }
    }
    all.extend(suppressions(&mut random));
    for dtype in DType::ALL {
        all.extend(share(UNPOOLED, dtype).map(|shapes| unpooled(&mut random, dtype, shapes, None)));
        all.push(unpooled(&mut random, dtype, &(&[3, 3], &[5]), Some(&BAD)));
    }
    all
}

/// Dimensions of the input, of the result, samples, scale. Numbers whose positions are exact in f32.
const ROIS: &[([usize; 4], [u32; 2], u32, f32)] = &[
    ([2, 3, 8, 10], [4, 2], 2, 1.0),
    ([1, 18, 6, 5], [2, 2], 0, 0.5),
    ([2, 2, 5, 4], [1, 1], 3, 2.0),
    ([1, 2, 4, 4], [2, 2], 1, 1.0),
    ([1, 1, 1, 1], [2, 4], 2, 0.25),
    ([1, 0, 4, 4], [2, 2], 2, 1.0),
    ([0, 2, 4, 4], [2, 1], 1, 1.0),
];

/// Inside, beyond the ends, of no extent, the wrong way round, far outside.
const REGIONS: [[f64; 4]; 7] = [
    [1.0, 2.0, 5.0, 6.0],
    [0.0, 0.0, 8.0, 8.0],
    [-3.0, -1.5, 2.0, 12.0],
    [2.25, 3.75, 2.25, 3.75],
    [6.0, 5.0, 2.0, 1.0],
    [60.0, 60.0, 68.0, 64.0],
    [0.5, 0.25, 3.5, 7.25],
];

fn hostile(random: &mut Random, op: &OpDescriptor, mean: bool, dtype: DType) -> Vec<Case> {
    let big = if dtype == DType::F16 { 3e4 } else { 1e20 };
    let list = [
        [f64::NAN, 0.0, 4.0, 4.0],
        [0.0, 0.0, f64::INFINITY, 4.0],
        [f64::NEG_INFINITY, 0.0, 4.0, f64::INFINITY],
        [-big, -big, big, big],
    ];
    let list: Vec<f64> = list.into_iter().flatten().collect();
    let regions = Tensor::float(dtype, &[4, 4], &list);
    let attrs =
        |half_pixel, samples| RoiAlign { output: [2, 2], samples, half_pixel, scale: 1.0, reserved: 0 };
    let x = random.floats(dtype, &[2, 2, 4, 4]);
    let indices = Tensor::i32(&[4], &[0, 1, -1, -2]);
    let mut all: Vec<Case> = [(0, 0), (1, 0), (0, 2)]
        .map(|(half, samples)| pooled((op, mean), "special/", &attrs(half, samples), &x, &regions, &indices))
        .into();
    let regions = random.floats(dtype, &[9, 4]);
    let x = random.floats(dtype, &[5, 2, 3, 3]);
    all.push(pooled((op, mean), "bad indices/", &attrs(1, 2), &x, &regions, &Tensor::i32(&[9], &BAD)));
    // Samples on whole positions beside elements that are no numbers.
    let mut values: Vec<f64> = (0..16).map(|i| f64::from(i) - 7.5).collect();
    (values[5], values[10], values[3]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
    let x = Tensor::float(dtype, &[1, 1, 4, 4], &values);
    let regions = Tensor::float(dtype, &[1, 4], &[-0.5, -0.5, 3.5, 3.5]);
    let attrs = RoiAlign { output: [4, 4], samples: 1, half_pixel: 0, scale: 1.0, reserved: 0 };
    all.push(pooled((op, mean), "no numbers/", &attrs, &x, &regions, &Tensor::i32(&[1], &[0])));
    all
}

/// Where samples of bin `p` along an axis fall: for each the neighbours with their weights, or none outside.
fn samples(a: &RoiAlign, [start, end]: [f64; 2], bins: u32, p: u32, n: usize) -> Vec<Vec<(usize, f64)>> {
    let shift = if a.half_pixel == 1 { 0.5 } else { 0.0 };
    let (start, end) = (start * f64::from(a.scale) - shift, end * f64::from(a.scale) - shift);
    let mut extent = end - start;
    if a.half_pixel == 0 && !extent.is_nan() {
        extent = extent.max(1.0);
    }
    let bin = extent / f64::from(bins);
    let adaptive = (bin.ceil().max(0.0) as usize).min(2 * n + 1);
    let count = if a.samples > 0 { a.samples as usize } else { adaptive };
    let sample = |i: usize| {
        let at = start + f64::from(p) * bin + (i as f64 + 0.5) * bin / count as f64;
        if at.is_nan() || at < -1.0 || at > n as f64 || n == 0 {
            return vec![];
        }
        let at = at.max(0.0).min(n as f64 - 1.0);
        let low = at.floor();
        let rest = at - low;
        let high = (low as usize + 1).min(n - 1);
        vec![(low as usize, 1.0 - rest), (high, rest)]
    };
    (0..count).map(sample).collect()
}

fn pooled(
    (op, mean): (&OpDescriptor, bool),
    kind: &str,
    attrs: &RoiAlign,
    x: &Tensor,
    regions: &Tensor,
    indices: &Tensor,
) -> Case {
    let (values, corners, which) = (x.numbers(), regions.numbers(), indices.integers());
    let (channels, [oh, ow]) = (x.dims[1], attrs.output);
    let (mut y, mut bounds, mut fault) = (Vec::new(), Vec::new(), false);
    for (r, index) in which.iter().enumerate() {
        let image = wrapped(*index, x.dims[0]);
        // Without a result nothing is looked at.
        fault |= image.is_none() && channels > 0;
        for c in 0..channels {
            for p in 0..oh {
                for q in 0..ow {
                    let Some(image) = image else {
                        y.push(0.0);
                        bounds.push(0.0);
                        continue;
                    };
                    let corner = |i: usize| corners[r * 4 + i];
                    let rows = samples(attrs, [corner(1), corner(3)], oh, p, x.dims[2]);
                    let columns = samples(attrs, [corner(0), corner(2)], ow, q, x.dims[3]);
                    let (mut sum, mut sizes, mut most) = (0.0, 0.0, None::<f64>);
                    let greater = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
                    for row in &rows {
                        for column in &columns {
                            let mut terms = vec![];
                            for (h, a) in row {
                                for (w, b) in column {
                                    let value = values[offset(&x.dims, &[image, c, *h, *w])];
                                    terms.push(if a * b == 0.0 { 0.0 } else { a * b * value });
                                }
                            }
                            sum += terms.iter().sum::<f64>();
                            sizes += terms.iter().map(|t| t.abs()).sum::<f64>();
                            let best = terms.into_iter().reduce(greater).unwrap_or(0.0);
                            most = Some(most.map_or(best, |m| greater(m, best)));
                        }
                    }
                    let count = (rows.len() * columns.len()).max(1) as f64;
                    let result = if mean { sum / count } else { most.unwrap_or(0.0) };
                    y.push(result);
                    bounds.push(bound(x, result, sizes, count, mean));
                }
            }
        }
    }
    let dims = [indices.elements(), channels, oh as usize, ow as usize];
    let y = Tensor::float(x.dtype, &dims, &y);
    let what = format!(
        "{}/{kind}{:?} to {:?}, {} samples, half pixel {}, {} regions",
        name(x.dtype),
        x.dims,
        attrs.output,
        attrs.samples,
        attrs.half_pixel,
        indices.elements()
    );
    let case = Case::new(op, what, attrs).input(x).input(regions).input(indices).output(y);
    Case { expect_fault: fault, ..case.within(Tolerance::Bounds(bounds)) }
}

/// A position of at most 16 is off by a few roundings of numbers of that size, 2^-18 in all, and so is a weight; elements
/// are below 2. Then sums of four products for each sample.
fn bound(x: &Tensor, y: f64, sizes: f64, count: f64, mean: bool) -> f64 {
    if !y.is_finite() || !sizes.is_finite() {
        return 1e-3;
    }
    let (unit, place) = match x.dtype {
        DType::F64 => (2f64.powi(-52), 2f64.powi(-47)),
        _ => (2f64.powi(-24), 2f64.powi(-18)),
    };
    let stored = match x.dtype {
        DType::F16 => 2f64.powi(-10) * y.abs() + 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-7) * y.abs(),
        _ => 0.0,
    };
    let terms = if mean { sizes / count } else { sizes };
    8.0 * 2.0 * place + (4.0 * count + 8.0) * unit * terms + stored
}

/// Batches, classes, boxes, rows of the result, most of one class, least score, overlap, centred.
type Boxes = (usize, usize, usize, usize, u32, f32, f32, u32);

const SUPPRESSED: &[Boxes] = &[
    (1, 1, 40, 40, 40, 0.25, 0.3, 0),
    (2, 3, 25, 60, 5, 0.0, 0.4, 0),
    (2, 2, 30, 120, 100, f32::NEG_INFINITY, 0.5, 1),
    (1, 4, 20, 7, 3, 0.1, 0.2, 1),
    (1, 1, 20, 20, 20, 0.0, 0.0, 0),
    (1, 2, 12, 24, 12, -1.0, 1.0, 0),
    (1, 2, 12, 24, 0, 0.0, 0.5, 0),
    (1, 2, 12, 0, 12, 0.0, 0.5, 0),
    (1, 2, 12, 24, 12, f32::INFINITY, 0.5, 0),
    (0, 2, 12, 4, 12, 0.0, 0.5, 0),
    (2, 0, 12, 4, 12, 0.0, 0.5, 0),
    (2, 2, 0, 4, 12, 0.0, 0.5, 1),
];

fn suppressions(random: &mut Random) -> Vec<Case> {
    let mut all = Vec::new();
    for (i, shape) in SUPPRESSED.iter().enumerate() {
        let (b, c, n) = (shape.0, shape.1, shape.2);
        let corners: Vec<f64> = (0..b * n * 4)
            .map(|k| match (shape.7, k % 4) {
                (1, 2..) => random.real().abs() + 0.5,
                _ => random.real() * 2.0,
            })
            .collect();
        let boxes = Tensor::float(DType::F32, &[b, n, 4], &corners);
        // Few different scores, so that equal ones are common.
        let scores: Vec<f64> = (0..b * c * n).map(|_| random.integer(-2, 9) as f64 / 8.0).collect();
        let scores = Tensor::float(DType::F32, &[b, c, n], &scores);
        all.push(suppression(&format!("random {i}"), shape, &boxes, &scores));
    }
    let nan = f32::NAN;
    let boxes = [
        [0.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
        [nan, 0.0, 1.0, 1.0],
        [0.0, 0.0, f32::INFINITY, 1.0],
        [1.0, 0.0, 2.0, 1.0],
    ];
    let scores = [0.5, 0.5, 0.75, f32::NEG_INFINITY, f32::INFINITY, nan, 0.5];
    let boxes = Tensor::f32(&[1, 7, 4], boxes.as_flattened());
    let scores = Tensor::f32(&[1, 1, 7], &scores);
    for (score, overlap) in [(0.0, 0.5), (f32::NEG_INFINITY, 0.5), (0.5, 0.0), (f32::NEG_INFINITY, 1.0)] {
        let shape = (1, 1, 7, 7, 7, score, overlap, 0);
        all.push(suppression(&format!("special, score {score}, overlap {overlap}"), &shape, &boxes, &scores));
    }
    all
}

fn suppression(what: &str, shape: &Boxes, boxes: &Tensor, scores: &Tensor) -> Case {
    let (batches, classes, n, rows, most, score, overlap, centred) = *shape;
    let (corners, points) = (boxes.numbers(), scores.numbers());
    let edges = |b: usize, i: usize| {
        let k = &corners[(b * n + i) * 4..][..4];
        match centred {
            1 => [k[0] - k[2] / 2.0, k[0] + k[2] / 2.0, k[1] - k[3] / 2.0, k[1] + k[3] / 2.0],
            _ if k.iter().any(|k| k.is_nan()) => [f64::NAN; 4],
            _ => [k[0].min(k[2]), k[0].max(k[2]), k[1].min(k[3]), k[1].max(k[3])],
        }
    };
    let shared = |p: [f64; 4], q: [f64; 4]| {
        let side = |i: usize| p[i + 1].min(q[i + 1]) - p[i].max(q[i]);
        let area = |r: [f64; 4]| (r[1] - r[0]) * (r[3] - r[2]);
        let (both, all) = (side(0) * side(2), area(p) + area(q) - side(0) * side(2));
        let counts = side(0) > 0.0 && side(2) > 0.0 && area(p) > 0.0 && area(q) > 0.0 && all > 0.0;
        if counts { both / all } else { f64::NEG_INFINITY }
    };
    let mut chosen: Vec<[i32; 3]> = Vec::new();
    for b in 0..batches {
        for c in 0..classes {
            let point = |i: usize| points[(b * classes + c) * n + i];
            let mut left: Vec<usize> = (0..n)
                .filter(|i| {
                    let p = point(*i);
                    !p.is_nan() && (p > f64::from(score) || score == f32::NEG_INFINITY)
                })
                .collect();
            let mut kept: Vec<usize> = Vec::new();
            while !left.is_empty() && chosen.len() < rows && kept.len() < most as usize {
                // The first of the best.
                let best = left.iter().map(|i| point(*i)).fold(f64::NEG_INFINITY, f64::max);
                let at = left.iter().position(|i| point(*i) == best).unwrap_or(0);
                let i = left.remove(at);
                if kept.iter().all(|k| shared(edges(b, i), edges(b, *k)) <= f64::from(overlap)) {
                    kept.push(i);
                    chosen.push([b as i32, c as i32, i as i32]);
                }
            }
        }
    }
    let count = chosen.len() as i32;
    chosen.resize(rows, [0; 3]);
    let attrs = NonMaxSuppression { most, centred, overlap, score };
    let case = Case::new(&NON_MAX_SUPPRESSION, what, &attrs).input(boxes).input(scores);
    let chosen = Tensor::i32(&[rows, 3], chosen.as_flattened());
    case.output(chosen).output(Tensor::i32(&[], &[count])).within(Tolerance::Bits)
}

/// Dimensions of the input and of the result.
const UNPOOLED: &[(&[usize], &[usize])] = &[
    (&[1, 2, 3, 3], &[1, 2, 6, 6]),
    (&[7], &[3]),
    (&[2, 3], &[2, 2, 5]),
    (&[], &[4]),
    (&[0, 3], &[2, 2]),
    (&[0], &[0, 3]),
    (&[2, 1, 2, 1, 2, 1, 1, 2], &[33]),
];

fn unpooled(
    random: &mut Random,
    dtype: DType,
    (from, to): &(&[usize], &[usize]),
    list: Option<&[i32]>,
) -> Case {
    let x = random.any(dtype, from);
    let n = to.iter().product::<usize>();
    let indices = match list {
        Some(list) => Tensor::i32(from, list),
        None => random.i32s(from, -(n as i32), (n as i32 - 1).max(-(n as i32))),
    };
    let (size, mut fault) = (dtype.size(), false);
    let mut bytes = vec![0; n * size];
    for (i, index) in indices.integers().into_iter().enumerate() {
        match wrapped(index, n) {
            Some(at) => bytes[at * size..(at + 1) * size].copy_from_slice(x.element(i)),
            None => fault = true,
        }
    }
    let y = Tensor::new(dtype, to, bytes);
    let what = format!("{}/{from:?} to {to:?}", name(dtype));
    let case = Case::new(&MAX_UNPOOL, what, &NoAttributes {}).input(&x).input(&indices).output(y);
    Case { expect_fault: fault, ..case.within(Tolerance::Bits) }
}
