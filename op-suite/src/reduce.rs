//! Reductions.

use crate::random::{Random, special};
use crate::reference::estimate::{Estimate, fit, rounded, sum};
use crate::reference::is_float;
use crate::reference::rows::rows;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::reduce::*;

/// Shapes and the sets of axes to reduce in each.
const SHAPES: &[(&[usize], &[u32])] = &[
    (&[], &[0]),
    (&[1], &[0, 1]),
    (&[257], &[0, 1]),
    (&[5, 33], &[0, 1, 2, 3]),
    (&[3, 4, 5, 7], &[0b0001, 0b0010, 0b0100, 0b1000, 0b0101, 0b1010, 0b0110, 0b1001, 0b1011, 0b1111]),
    // Longer than a block, row by row and column by column.
    (&[2, 1100], &[2]),
    (&[530, 3], &[1]),
    // More columns than are taken together.
    (&[3, 131], &[1]),
    (&[2, 1, 3, 1, 2], &[0b00110, 0b11001]),
    (&[2, 1, 2, 3, 1, 2, 2, 3], &[0b0101_0101, 0b1010_1010]),
    (&[0], &[0, 1]),
    (&[3, 0, 2], &[0b001, 0b010, 0b101, 0b111]),
    (&[0, 3], &[2]),
];

/// Few of them for most types.
const FEW: &[(&[usize], &[u32])] =
    &[(&[3, 5, 7], &[0b010, 0b101]), (&[2, 41], &[2]), (&[3, 0, 2], &[0b010]), (&[], &[0])];

/// A reduction of floats, in f64.
struct Float {
    op: &'static OpDescriptor,
    f: fn(DType, &[f64]) -> Estimate,
    /// Makes ordinary operands of numbers in −2..2.
    operand: fn(f64) -> f64,
}

/// The error of a sum of `n` terms in any order is at most `n − 1` roundings of a partial sum, each of which is at most the
/// sum of the magnitudes.
fn summed(t: DType, x: impl Iterator<Item = f64> + Clone) -> Estimate {
    let n = x.clone().count() as f64;
    Estimate { value: fit(t, sum(x.clone())), error: n * sum(x.map(f64::abs)) }
}

/// `f` of an estimate: the error goes through the derivative.
fn through(e: Estimate, f: fn(f64) -> f64, derivative: f64, own: f64) -> Estimate {
    let value = f(e.value);
    // Devices may be some units off, and for logarithms near 1 some absolute ones.
    Estimate { value, error: e.error * derivative.abs() + own + 8.0 * value.abs() }
}

static FLOATS: &[Float] = &[
    Float { op: &SUM, f: |t, x| summed(t, x.iter().copied()), operand: |x| x },
    Float {
        op: &MEAN,
        f: |t, x| {
            let (e, n) = (summed(t, x.iter().copied()), x.len() as f64);
            // 3 units: the rounding of n and a division.
            Estimate { value: e.value / n, error: e.error / n + 6.0 * (e.value / n).abs() }
        },
        operand: |x| x,
    },
    Float {
        op: &PROD,
        f: |t, x| {
            let value = x.iter().fold(1.0, |p, x| fit(t, p * x));
            Estimate { value, error: x.len() as f64 * value.abs() }
        },
        operand: |x| 1.0 + 0.05 * x,
    },
    Float {
        op: &SUM_SQUARE,
        f: |t, x| {
            let e = summed(t, x.iter().map(|x| fit(t, x * x)));
            Estimate { error: e.error + e.value, ..e }
        },
        operand: |x| x,
    },
    Float { op: &L1, f: |t, x| summed(t, x.iter().map(|x| x.abs())), operand: |x| x },
    Float {
        op: &L2,
        f: |t, x| {
            let e = summed(t, x.iter().map(|x| fit(t, x * x)));
            let e = Estimate { error: e.error + e.value, ..e };
            through(e, f64::sqrt, if e.value == 0.0 { 0.0 } else { 0.5 / e.value.sqrt() }, 0.0)
        },
        operand: |x| x,
    },
    Float {
        op: &LOG_SUM,
        f: |t, x| {
            let e = summed(t, x.iter().copied());
            through(e, f64::ln, 1.0 / e.value, 2.0)
        },
        operand: |x| x.abs() + 0.1,
    },
    Float {
        op: &LOG_SUM_EXP,
        f: |_, x| {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let most = if most.is_finite() { most } else { 0.0 };
            // Each exponential is off by the rounding of its argument d and by `3 + 2·|d|` units in the last place, of two
            // roundings each; what is far below adds nothing.
            let terms = x.iter().map(|x| (x - most).exp() * (6.0 + 5.0 * (most - x).min(104.0)));
            let total = sum(x.iter().map(|x| (x - most).exp()));
            let error = sum(terms) + x.len() as f64 * total;
            let log = through(Estimate { value: total, error }, f64::ln, 1.0 / total, 2.0);
            Estimate { value: most + log.value, error: log.error + (most + log.value).abs() }
        },
        operand: |x| 8.0 * x,
    },
];

/// What an op computes of floats, and of integers in 128 bits. The last argument is the number of bits and whether there is
/// a sign.
struct Exact {
    op: &'static OpDescriptor,
    float: Option<fn(&[f64]) -> f64>,
    whole: fn(&[i128], u32, bool) -> i128,
}

/// The least of all: NaN where there is one, and −0 below 0.
fn least(x: &[f64]) -> f64 {
    let nan = x.iter().copied().find(|x| x.is_nan());
    nan.or(x.iter().copied().min_by(f64::total_cmp)).unwrap_or(f64::INFINITY)
}

fn greatest(x: &[f64]) -> f64 {
    -least(&x.iter().map(|x| -x).collect::<Vec<_>>())
}

/// The ends of a type.
fn ends(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

static EXACT: &[Exact] = &[
    Exact { op: &SUM, float: None, whole: |x, _, _| x.iter().sum() },
    Exact {
        op: &MEAN,
        float: None,
        whole: |x, _, signed| {
            let modulo = x.iter().sum::<i128>().rem_euclid(1 << 64);
            let sum = if signed && modulo >= 1 << 63 { modulo - (1 << 64) } else { modulo };
            sum.checked_div(x.len() as i128).unwrap_or(0)
        },
    },
    Exact { op: &PROD, float: None, whole: |x, _, _| x.iter().fold(1, |p, x| p.wrapping_mul(*x)) },
    Exact { op: &MIN, float: Some(least), whole: |x, b, s| x.iter().copied().min().unwrap_or(ends(b, s).1) },
    Exact {
        op: &MAX,
        float: Some(greatest),
        whole: |x, b, s| x.iter().copied().max().unwrap_or(ends(b, s).0),
    },
    Exact {
        op: &SUM_SQUARE,
        float: None,
        whole: |x, _, _| x.iter().fold(0, |sum: i128, x| sum.wrapping_add(x.wrapping_mul(*x))),
    },
    Exact { op: &L1, float: None, whole: |x, _, _| x.iter().map(|x| x.abs()).sum() },
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(130);
    let mut all = Vec::new();
    for f in FLOATS {
        for t in f.op.inputs[0].dtypes.iter().filter(|t| is_float(*t)) {
            for (x, a, what) in operands(&mut random, t, f.operand) {
                let numbers = x.numbers();
                let (dims, y) =
                    reduced(&x, &a, |row| (f.f)(t, &row.map(|i| numbers[*i]).collect::<Vec<_>>()));
                let (y, tolerance) = rounded(t, &dims, &y);
                all.push(Case::new(f.op, what, &a).input(&x).output(y).within(tolerance));
            }
        }
    }
    for e in EXACT {
        for t in e.op.inputs[0].dtypes.iter() {
            match (is_float(t), e.float) {
                (true, None) => {}
                (true, Some(f)) => {
                    for (x, a, what) in operands(&mut random, t, |x| x) {
                        let numbers = x.numbers();
                        let (dims, y) =
                            reduced(&x, &a, |row| f(&row.map(|i| numbers[*i]).collect::<Vec<_>>()));
                        all.push(Case::new(e.op, what, &a).input(&x).output(Tensor::float(t, &dims, &y)));
                    }
                }
                (false, _) => all.extend(whole(&mut random, e, t)),
            }
        }
    }
    all.extend(truths(&mut random));
    all
}

fn attrs(axes: u32, keep: bool) -> Reduce {
    Reduce { axes, keep_axes: u32::from(keep) }
}

/// The result of every row, and its dimensions.
fn reduced<T>(x: &Tensor, a: &Reduce, f: impl Fn(std::slice::Iter<'_, usize>) -> T) -> (Vec<usize>, Vec<T>) {
    let taken = |axis: usize| a.axes >> axis & 1 == 1;
    let (kept, all) = rows(&x.dims, taken);
    let dims = kept.iter().enumerate().filter(|(axis, _)| a.keep_axes == 1 || !taken(*axis));
    (dims.map(|(_, d)| *d).collect(), all.iter().map(|row| f(row.iter())).collect())
}

fn shapes(few: bool) -> impl Iterator<Item = (&'static [usize], Reduce)> {
    let list = if few { FEW } else { SHAPES };
    list.iter().flat_map(|(dims, masks)| {
        masks.iter().flat_map(|axes| [false, true].map(|keep| (*dims, attrs(*axes, keep))))
    })
}

/// Floats: ordinary ones, and rows of numbers that arithmetic treats specially, none of whose results depends on an order.
fn operands(random: &mut Random, t: DType, f: fn(f64) -> f64) -> Vec<(Tensor, Reduce, String)> {
    let mut all = Vec::new();
    for (dims, a) in shapes(t != DType::F32) {
        // Dropping axes changes nothing but the dimensions.
        if t != DType::F32 && a.keep_axes == 0 && dims.len() > 2 {
            continue;
        }
        let x: Vec<f64> = random.floats(t, dims).numbers().iter().map(|x| f(*x)).collect();
        let what = format!("{}/{dims:?} axes {:b}, keep {}", name(t), a.axes, a.keep_axes);
        all.push((Tensor::float(t, dims, &x), a, what));
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let most = match t {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    };
    let special = [
        [1.0, inf, 2.0, 3.0, 0.5],
        [1.0, 2.0, -inf, 3.0, -1.0],
        [inf, -inf, 1.0, 2.0, 3.0],
        [-inf; 5],
        [inf; 5],
        [1.0, nan, 2.0, -1.0, 0.0],
        [-nan, inf, -inf, 1.0, 2.0],
        [-0.0; 5],
        [-0.0, 0.0, -0.0, 0.0, -0.0],
        [0.0, inf, 1.0, 1.0, 1.0],
        [most, most, 1.0, 1.0, 1.0],
        [1.0, 2.0, 3.0, most, 0.25],
        [0.0, -0.0, 3.0, 1.5, 0.0],
    ];
    for (rows, what) in [(true, "rows"), (false, "columns")] {
        let (n, dims) = (special.len(), if rows { [special.len(), 5] } else { [5, special.len()] });
        let x: Vec<f64> =
            (0..5 * n).map(|i| if rows { special[i / 5][i % 5] } else { special[i % n][i / n] }).collect();
        let a = attrs(if rows { 2 } else { 1 }, false);
        all.push((Tensor::float(t, &dims, &x), a, format!("{}/special/{what}", name(t))));
    }
    all
}

fn whole(random: &mut Random, e: &Exact, t: DType) -> Vec<Case> {
    let (bits, signed) = (8 * t.size() as u32, matches!(t, DType::I8 | DType::I16 | DType::I32 | DType::I64));
    let mut all = Vec::new();
    let mut push = |x: Tensor, a: Reduce, what: String| {
        let numbers = x.wide_integers();
        let (dims, y) =
            reduced(&x, &a, |row| (e.whole)(&row.map(|i| numbers[*i]).collect::<Vec<_>>(), bits, signed));
        let what = format!("{}/{what} axes {:b}, keep {}", name(t), a.axes, a.keep_axes);
        all.push(Case::new(e.op, what, &a).input(&x).output(Tensor::integer(t, &dims, &y)));
    };
    for (dims, a) in shapes(t != DType::I32).filter(|(dims, a)| a.keep_axes == 0 || dims.len() < 3) {
        push(random.numbers(t, dims), a, format!("{dims:?}"));
    }
    // Odd numbers, the product of which is not soon 0.
    let x = Tensor::integer(t, &[2, 9], &(0..18).map(|i| 4 * i + 1 + 2 * (i % 3)).collect::<Vec<_>>());
    push(x, attrs(2, false), "odd".into());
    let x = special(t);
    push(x.clone(), attrs(1, false), "special".into());
    push(x, attrs(0, false), "special".into());
    all
}

fn truths(random: &mut Random) -> Vec<Case> {
    let mut all = Vec::new();
    for (op, every) in [(&ALL, true), (&ANY, false)] {
        for (dims, a) in shapes(false) {
            // One in so many is the other way, so that both results appear.
            let rare = random.small(DType::U8, dims, 0, 5);
            let x: Vec<u8> = rare.bytes.iter().map(|b| u8::from((*b > 0) == every) * (1 + b)).collect();
            let x = Tensor::new(DType::Bool, dims, x);
            let (dims, y) = reduced(&x, &a, |mut row| {
                if every { row.all(|i| x.bytes[*i] != 0) } else { row.any(|i| x.bytes[*i] != 0) }
            });
            let what = format!("{:?} axes {:b}, keep {}", x.dims, a.axes, a.keep_axes);
            let y = Tensor::bool(&dims, &y);
            all.push(Case::new(op, what, &a).input(&x).output(y).within(Tolerance::Bits));
        }
    }
    all
}
