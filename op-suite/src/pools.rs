//! `MaxPool`, `MaxPoolIndices`, `AveragePool` and `LpPool`.

use crate::random::{Random, special};
use crate::reference::bounded::{Bounded, Precision, only};
use crate::reference::spatial::{axis, indices, source};
use crate::reference::sum::{storing, unit};
use crate::tensor::offset;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::pools::{AVERAGE_POOL, LP_POOL, MAX_POOL, MAX_POOL_INDICES, Pool};
use serinette_core::op::spatial::{Spatial, aligned};

/// What, dimensions of `x`, kernel, strides, padding before and after, dilations, ceil.
type Shape = (
    &'static str,
    &'static [usize],
    &'static [u32],
    &'static [u32],
    &'static [u32],
    &'static [u32],
    &'static [u32],
    u32,
);

const SHAPES: &[Shape] = &[
    ("1-D", &[2, 3, 11], &[3], &[2], &[], &[], &[], 0),
    ("1-D ceil", &[1, 2, 10], &[3], &[4], &[], &[], &[], 1),
    ("1-D ceil, padded", &[1, 2, 7], &[3], &[3], &[1], &[2], &[], 1),
    // The last window would begin in the padding behind the input: it is dropped.
    ("1-D ceil, window behind dropped", &[1, 2, 4], &[2], &[3], &[1], &[1], &[], 1),
    ("1-D ceil, window wider than the input", &[1, 2, 2], &[4], &[3], &[], &[], &[], 1),
    ("1-D global", &[2, 3, 9], &[], &[], &[], &[], &[], 0),
    ("2-D", &[1, 3, 8, 9], &[2, 3], &[2, 1], &[], &[], &[], 0),
    ("2-D uneven pads", &[2, 1, 6, 7], &[3, 2], &[1, 3], &[2, 1], &[0, 1], &[], 0),
    ("2-D dilated", &[1, 2, 9, 11], &[3, 2], &[2, 1], &[], &[], &[2, 5], 0),
    ("2-D dilated and padded", &[1, 2, 5, 6], &[2, 3], &[1, 2], &[2, 1], &[1, 3], &[3, 2], 0),
    // The taps of some windows miss the one element.
    ("2-D windows without elements", &[1, 1, 1, 3], &[2, 2], &[1, 1], &[2, 1], &[1, 2], &[2, 1], 0),
    ("2-D ceil, dilated and padded", &[1, 2, 6, 8], &[2, 3], &[3, 2], &[1, 2], &[1, 0], &[2, 2], 1),
    ("2-D stride beyond the window", &[1, 2, 7, 8], &[2, 1], &[4, 5], &[], &[], &[], 1),
    ("2-D global", &[2, 2, 5, 7], &[], &[], &[], &[], &[], 0),
    ("3-D", &[1, 2, 4, 5, 6], &[2, 3, 2], &[1, 2, 3], &[1, 0, 1], &[0, 2, 1], &[], 0),
    ("3-D ceil, dilated", &[1, 1, 5, 6, 7], &[2, 2, 3], &[2, 3, 2], &[0, 1, 0], &[1, 0, 1], &[2, 1, 2], 1),
    ("3-D global", &[1, 3, 2, 3, 4], &[], &[], &[], &[], &[], 0),
    ("no planes", &[0, 2, 4], &[2], &[1], &[], &[], &[], 0),
];

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const ORDERED: [DType; 6] = [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::U8];

/// The attributes of all poolings.
fn attributes(s: &Shape) -> Pool {
    let (_, x, kernel, strides, before, after, dilations, ceil) = *s;
    let axes = x.len() - 2;
    if kernel.is_empty() {
        return Pool::GLOBAL;
    }
    let spatial = Spatial::new(axes, strides, before, after, dilations).unwrap_or(Spatial::PLAIN);
    Pool { spatial, kernel: aligned(axes, kernel, 1).unwrap_or([1; 3]), ceil, ..Pool::GLOBAL }
}

/// Of every output element: the elements of its window in row-major order, and the taps within the padded input.
fn windows(a: &Pool, x: &[usize]) -> (Vec<usize>, Vec<(Vec<usize>, usize)>) {
    let axes = x.len() - 2;
    let taps: Vec<usize> =
        (0..axes).map(|i| if a.is_global() { x[i + 2] } else { a.kernel[3 - axes + i] as usize }).collect();
    let mut dims = x[..2].to_vec();
    dims.extend((0..axes).map(|i| {
        let g = axis(&a.spatial, axes, i);
        let padded = x[i + 2] as i64 + g.before + g.after;
        let room = padded - ((taps[i] as i64 - 1) * g.dilation + 1);
        if a.ceil == 0 {
            return (room.div_euclid(g.stride) + 1) as usize;
        }
        let count = -(-room).div_euclid(g.stride) + 1;
        // ONNX: the last window must begin within the input or the padding before it.
        if (count - 1) * g.stride >= x[i + 2] as i64 + g.before { count as usize - 1 } else { count as usize }
    }));
    let mut all = Vec::new();
    for at in indices(&dims) {
        let (mut found, mut padded) = (Vec::new(), 0);
        for tap in indices(&taps) {
            if let Some(p) = source(&a.spatial, &x[2..], &at[2..], &tap) {
                found.push(offset(x, &[&at[..2], &p[..]].concat()));
            }
            let counts = (0..axes).all(|i| {
                let g = axis(&a.spatial, axes, i);
                let p = at[i + 2] as i64 * g.stride + tap[i] as i64 * g.dilation;
                p < x[i + 2] as i64 + g.before + g.after
            });
            padded += usize::from(counts);
        }
        all.push((found, padded));
    }
    (dims, all)
}

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(246);
    let mut all = Vec::new();
    for (index, s) in SHAPES.iter().enumerate() {
        for t in ORDERED {
            let what = format!("{}/{}", name(t), s.0);
            all.push(maximum(what, s, &random.numbers(t, s.1)));
            // Small numbers: equal ones in most windows.
            let x = random.small(t, s.1, if t == DType::U8 { 0 } else { -2 }, 2);
            for positions in [DType::I32, DType::I64] {
                let column_major = (index as u32 + u32::from(positions == DType::I64)) % 2;
                let what = format!("{} {}/{}, column-major {column_major}", name(t), name(positions), s.0);
                all.push(maximum_indices(what, s, &x, positions, column_major));
            }
        }
        for t in FLOATS {
            for count_padding in [0, 1] {
                let what = format!("{}/{}, padding counted {count_padding}", name(t), s.0);
                all.push(average(what, s, &random.floats(t, s.1), count_padding));
            }
            let p = [1, 2, 3, 7][index % 4];
            all.push(norm(format!("{}/{}, p {p}", name(t), s.0), s, &random.floats(t, s.1), p));
        }
        let x = random.floats(DType::F32, s.1);
        all.push(norm(format!("f32/{}, another p", s.0), s, &x, [2, 1, 2, 4][index % 4]));
    }
    for t in ORDERED {
        let x = special(t);
        let line = Tensor::new(t, &[1, 1, x.elements()], x.bytes);
        all.push(maximum_special(t, &line));
        if FLOATS.contains(&t) {
            all.push(least(t));
        }
    }
    all
}

/// The largest element and where it is first.
fn largest(numbers: &[f64], window: &[usize]) -> Option<usize> {
    let nan = window.iter().find(|i| numbers[**i].is_nan());
    let most = window.iter().map(|i| numbers[*i]).fold(f64::NEG_INFINITY, f64::max);
    nan.or(window.iter().find(|i| numbers[**i] == most)).copied()
}

fn results(x: &Tensor, windows: &[(Vec<usize>, usize)]) -> (Vec<u8>, Vec<Option<usize>>) {
    let numbers = x.numbers();
    let found: Vec<_> = windows.iter().map(|(window, _)| largest(&numbers, window)).collect();
    let least = match x.dtype {
        DType::I8 => Tensor::integer(x.dtype, &[1], &[-128]),
        DType::U8 => Tensor::integer(x.dtype, &[1], &[0]),
        t => Tensor::float(t, &[1], &[f64::NEG_INFINITY]),
    };
    let bytes = found.iter().flat_map(|i| i.map_or(least.element(0), |i| x.element(i)).to_vec()).collect();
    (bytes, found)
}

fn maximum(what: String, s: &Shape, x: &Tensor) -> Case {
    let attrs = attributes(s);
    let (dims, windows) = windows(&attrs, &x.dims);
    let (bytes, _) = results(x, &windows);
    Case::new(&MAX_POOL, what, &attrs).input(x).output(Tensor::new(x.dtype, &dims, bytes))
}

fn maximum_indices(what: String, s: &Shape, x: &Tensor, positions: DType, column_major: u32) -> Case {
    let attrs = Pool { column_major, ..attributes(s) };
    let (dims, windows) = windows(&attrs, &x.dims);
    let (bytes, found) = results(x, &windows);
    let volume: usize = x.dims[2..].iter().product();
    let place = |i: usize| {
        let at = crate::tensor::position(&x.dims, i);
        // The first axis varies fastest.
        let within = at[2..].iter().zip(&x.dims[2..]).rev().fold(0, |o, (a, d)| o * d + a);
        (at[0] * x.dims[1] + at[1]) * volume + within
    };
    let all: Vec<i128> = found
        .iter()
        .map(|i| i.map_or(-1, |i| if column_major == 1 { place(i) as i128 } else { i as i128 }))
        .collect();
    let case = Case::new(&MAX_POOL_INDICES, what, &attrs).input(x);
    case.output(Tensor::new(x.dtype, &dims, bytes)).output(Tensor::integer(positions, &dims, &all))
}

/// NaN and infinities among neighbours; zeros of both signs, of which the first stays.
fn maximum_special(t: DType, x: &Tensor) -> Case {
    let s: Shape = ("", &[1, 1, 0], &[3], &[1], &[2], &[1], &[], 0);
    let attrs = attributes(&s);
    let (dims, windows) = windows(&attrs, &x.dims);
    let (bytes, found) = results(x, &windows);
    let all: Vec<i128> = found.iter().map(|i| i.map_or(-1, |i| i as i128)).collect();
    let case = Case::new(&MAX_POOL_INDICES, format!("{}/special", name(t)), &attrs).input(x);
    case.output(Tensor::new(t, &dims, bytes)).output(Tensor::integer(DType::I64, &dims, &all))
}

/// Padding never wins, not even against −∞, whose place is still found.
fn least(t: DType) -> Case {
    let x = Tensor::float(t, &[1, 1, 2, 2], &[f64::NEG_INFINITY; 4]);
    let s: Shape = ("", &[1, 1, 2, 2], &[2, 2], &[1, 1], &[1, 1], &[1, 1], &[], 0);
    maximum_indices(format!("{}/all −∞", name(t)), &s, &x, DType::I32, 0)
}

/// `n` additions with a relative error of at most one unit each on sums below `Σ|x|`, then a division, for which
/// devices allow 2.5 units in the last place, each at most two units of the mean.
fn average(what: String, s: &Shape, x: &Tensor, count_padding: u32) -> Case {
    let attrs = Pool { count_padding, ..attributes(s) };
    let (dims, windows) = windows(&attrs, &x.dims);
    let numbers = x.numbers();
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for (elements, padded) in &windows {
        let n = if count_padding == 1 { *padded } else { elements.len() } as f64;
        let sum: f64 = elements.iter().map(|i| numbers[*i]).sum();
        let magnitude: f64 = elements.iter().map(|i| numbers[*i].abs()).sum();
        y.push(if n == 0.0 { 0.0 } else { sum / n });
        let summed = (elements.len() as f64 + 6.0) * unit(x.dtype) * magnitude / n.max(1.0);
        bounds.push(summed + storing(x.dtype, magnitude / n.max(1.0)) + f64::from(f32::MIN_POSITIVE));
    }
    let case = Case::new(&AVERAGE_POOL, what, &attrs).input(x);
    case.output(Tensor::float(x.dtype, &dims, &y)).within(Tolerance::Bounds(bounds))
}

fn norm(what: String, s: &Shape, x: &Tensor, p: u32) -> Case {
    let attrs = Pool { p, ..attributes(s) };
    let (dims, windows) = windows(&attrs, &x.dims);
    let (numbers, precision) = (x.numbers(), Precision::of(x.dtype));
    let each = |(elements, _): &(Vec<usize>, usize)| {
        let terms = elements.iter().map(|i| {
            let power = precision.monotone(Bounded::from(numbers[*i].abs()), |x| x.powi(p as i32));
            (power, Bounded::from(1.0))
        });
        precision.monotone(precision.dot(terms), |sum| sum.max(0.0).powf(1.0 / f64::from(p)))
    };
    let all: Vec<Bounded> = windows.iter().map(each).collect();
    let (y, tolerance) = only(x.dtype, &dims, &all);
    Case::new(&LP_POOL, what, &attrs).input(x).output(y).within(tolerance)
}
