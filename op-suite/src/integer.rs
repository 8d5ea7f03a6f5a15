//! `ConvInteger`, `MatMulInteger`, `QLinearConv` and `QLinearMatMul`.

use crate::random::Random;
use crate::reference::round::half_even;
use crate::reference::spatial::{convolution, indices};
use crate::spatial::{Shape, shape};
use crate::tensor::offset;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::integer::{CONV_INTEGER, MATMUL_INTEGER, Product, QLINEAR_CONV, QLINEAR_MATMUL};

const SHAPES: &[Shape] = &[
    shape("1-D", &[2, 3, 9], &[4, 3, 3]).pads(&[2], &[1]),
    shape("1-D strided, long", &[1, 2, 150], &[3, 2, 4]).strides(&[2]).pads(&[1], &[2]),
    shape("2-D", &[1, 3, 5, 7], &[5, 3, 3, 2]).pads(&[1, 0], &[1, 2]),
    shape("2-D pointwise", &[2, 5, 4, 5], &[3, 5, 1, 1]),
    shape("2-D dilated and strided", &[1, 2, 9, 8], &[3, 2, 3, 2])
        .strides(&[2, 1])
        .dilations(&[2, 3])
        .pads(&[1, 2], &[2, 0]),
    shape("2-D groups", &[1, 4, 4, 5], &[6, 2, 2, 3]).groups(2).pads(&[0, 1], &[1, 1]),
    shape("2-D depth-wise", &[1, 5, 6, 4], &[5, 1, 3, 3]).groups(5).pads(&[1, 1], &[1, 1]),
    shape("3-D", &[1, 2, 3, 4, 3], &[2, 2, 2, 3, 2]).pads(&[1, 0, 1], &[0, 1, 1]),
    shape("no input channels", &[1, 0, 3, 3], &[2, 0, 2, 2]),
    shape("no output channels", &[1, 2, 3, 3], &[0, 2, 2, 2]),
];

/// `a` and `b` without `transpose_b`.
const PRODUCTS: &[(&[usize], &[usize])] = &[
    (&[1, 1], &[1, 1]),
    (&[3, 17], &[17, 70]),
    (&[5, 33], &[33, 1]),
    (&[2, 3, 9], &[9, 4]),
    (&[2, 3, 9], &[2, 9, 5]),
    (&[3, 0], &[0, 4]),
    (&[0, 3], &[3, 2]),
];

const BYTES: [DType; 2] = [DType::I8, DType::U8];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(242);
    let mut all = Vec::new();
    for x in BYTES {
        for w in BYTES {
            // None, one for all, one for each channel.
            for (zeros, kind) in
                ["no zero points", "zero points", "zero points of channels"].iter().enumerate()
            {
                for s in SHAPES {
                    let what = format!("{} {}/{}, {kind}", name(x), name(w), s.what);
                    all.push(conv(what, s, [x, w], zeros, &mut random));
                }
                for (index, (a, b)) in PRODUCTS.iter().enumerate() {
                    let transposed = (index + zeros) % 2 == 1;
                    let what =
                        format!("{} {}/{a:?}x{b:?}, {kind}, transposed {transposed}", name(x), name(w));
                    all.push(matmul(what, [a, b], transposed, [x, w], zeros, &mut random));
                }
            }
            for y in BYTES {
                for (index, s) in SHAPES.iter().enumerate() {
                    let what = format!("{} {} {}/{}", name(x), name(w), name(y), s.what);
                    all.push(scaled_conv(what, s, [x, w, y], index % 4, &mut random));
                }
                for (index, (a, b)) in PRODUCTS.iter().enumerate() {
                    let what = format!("{} {} {}/{a:?}x{b:?}", name(x), name(w), name(y));
                    all.push(scaled_matmul(what, [a, b], index % 2 == 0, [x, w, y], index % 4, &mut random));
                }
            }
        }
    }
    extremes(&mut all);
    all
}

/// Scales that are not numbers.
fn extremes(all: &mut Vec<Case>) {
    let of = |t: DType, n: usize, v: i128| Tensor::integer(t, &[n], &vec![v; n]);
    for (scale, what) in
        [(f32::NAN, "NaN"), (f32::INFINITY, "infinite"), (0.0, "zero"), (-0.5, "negative"), (1e30, "huge")]
    {
        let a = Tensor::integer(DType::I8, &[4, 1], &[-128, 0, 127, 3]);
        let b = Tensor::integer(DType::I8, &[1, 2], &[127, -1]);
        let numbers = Scales {
            left: Tensor::f32(&[], &[scale]),
            right: Tensor::f32(&[1], &[1.0]),
            result: Tensor::f32(&[], &[1.0]),
            zeros: [of(DType::I8, 1, 3), of(DType::I8, 1, -2), of(DType::I8, 1, 7)],
            exact: true,
        };
        all.push(scaled_product(format!("{what} scale"), false, [&a, &b], DType::I8, &numbers));
    }
}

/// A zero point of the type: none, one, or one for each channel.
fn zero(random: &mut Random, t: DType, kind: usize, channels: usize) -> Option<Tensor> {
    match kind {
        0 => None,
        1 => Some(random.any(t, &[])),
        _ => Some(random.any(t, &[channels])),
    }
}

/// Number `i` of one for all or one for each; 0 where there are none.
fn pick<T: Copy>(list: &[T], i: usize, zero: T) -> T {
    if list.len() == 1 { list[0] } else { list.get(i).copied().unwrap_or(zero) }
}

fn wrapped(sum: i128) -> i128 {
    (sum + (1 << 31)).rem_euclid(1 << 32) - (1 << 31)
}

/// Drops absent inputs at the end.
fn trimmed(mut case: Case) -> Case {
    while matches!(case.inputs.last(), Some(None)) {
        case.inputs.pop();
    }
    case
}

/// The dimensions, sums and channels of a convolution.
fn convolved(s: &Shape, [x, w]: [&Tensor; 2], zeros: [&[i128]; 2]) -> (Vec<usize>, Vec<(usize, i128)>) {
    let (xs, ws) = (x.wide_integers(), w.wide_integers());
    let mut sums = Vec::new();
    let dims = convolution(&s.spatial(), s.groups as usize, s.x, s.w, |channel, pairs| {
        let term =
            |(i, j): &(usize, usize)| (xs[*i] - pick(zeros[0], 0, 0)) * (ws[*j] - pick(zeros[1], channel, 0));
        sums.push((channel, pairs.iter().map(term).sum()));
    });
    (dims, sums)
}

fn conv(what: String, s: &Shape, [tx, tw]: [DType; 2], zeros: usize, random: &mut Random) -> Case {
    let (x, w) = (random.any(tx, s.x), random.any(tw, s.w));
    let x_zero = zero(random, tx, zeros.min(1), 1);
    // The last kind leaves out the first zero point where the index of the shape says so.
    let x_zero = x_zero.filter(|_| zeros < 2 || s.what.starts_with("2-D"));
    let w_zero = zero(random, tw, zeros, s.w[0]).filter(|_| zeros != 1 || !s.what.starts_with("1-D"));
    let of = |z: &Option<Tensor>| z.as_ref().map_or(vec![], Tensor::wide_integers);
    let (dims, sums) = convolved(s, [&x, &w], [&of(&x_zero), &of(&w_zero)]);
    let y: Vec<i128> = sums.iter().map(|(_, sum)| wrapped(*sum)).collect();
    let case = Case::new(&CONV_INTEGER, what, &s.conv(0)).input(&x).input(&w);
    trimmed(case.optional(x_zero.as_ref()).optional(w_zero.as_ref()).output(Tensor::integer(
        DType::I32,
        &dims,
        &y,
    )))
}

/// The dimensions of a product, and row, column and exact sum of each element.
fn multiplied(
    [a, b]: [&Tensor; 2],
    transposed: bool,
    zeros: [&[i128]; 2],
) -> (Vec<usize>, Vec<(usize, usize, i128)>) {
    let (xs, ws) = (a.wide_integers(), b.wide_integers());
    let (rank, k) = (a.dims.len(), a.dims[a.dims.len() - 1]);
    let n = b.dims[b.dims.len() - if transposed { 2 } else { 1 }];
    let mut dims = a.dims[..rank - 1].to_vec();
    dims.push(n);
    let sums = indices(&dims).map(|at| {
        let (row, column) = (at[rank - 2], at[rank - 1]);
        let term = |i: usize| {
            let from = offset(&a.dims, &[&at[..rank - 1], &[i]].concat());
            let inner = if transposed { [column, i] } else { [i, column] };
            let batch = if b.dims.len() == 2 { &[][..] } else { &at[..rank - 2] };
            let weight = ws[offset(&b.dims, &[batch, &inner].concat())];
            (xs[from] - pick(zeros[0], row, 0)) * (weight - pick(zeros[1], column, 0))
        };
        (row, column, (0..k).map(term).sum())
    });
    let sums = sums.collect();
    (dims, sums)
}

fn flipped(b: &[usize], transposed: bool) -> Vec<usize> {
    let mut b = b.to_vec();
    if transposed {
        let rank = b.len();
        b.swap(rank - 1, rank - 2);
    }
    b
}

fn matmul(
    what: String,
    [a, b]: [&[usize]; 2],
    transposed: bool,
    [ta, tb]: [DType; 2],
    zeros: usize,
    random: &mut Random,
) -> Case {
    let (x, w) = (random.any(ta, a), random.any(tb, &flipped(b, transposed)));
    let a_zero = zero(random, ta, zeros, a[a.len() - 2]).filter(|_| zeros < 2 || a.len() == 2);
    let b_zero = zero(random, tb, zeros, b[b.len() - 1]).filter(|_| zeros != 1 || a.len() == 2);
    product_case(what, transposed, [&x, &w], &[a_zero, b_zero])
}

fn product_case(what: String, transposed: bool, [a, b]: [&Tensor; 2], zeros: &[Option<Tensor>; 2]) -> Case {
    let of = |z: &Option<Tensor>| z.as_ref().map_or(vec![], Tensor::wide_integers);
    let (dims, sums) = multiplied([a, b], transposed, [&of(&zeros[0]), &of(&zeros[1])]);
    let y: Vec<i128> = sums.iter().map(|(_, _, sum)| wrapped(*sum)).collect();
    let attrs = Product { transpose_b: u32::from(transposed), reserved: 0 };
    let case = Case::new(&MATMUL_INTEGER, what, &attrs).input(a).input(b);
    let case = case.optional(zeros[0].as_ref()).optional(zeros[1].as_ref());
    trimmed(case.output(Tensor::integer(DType::I32, &dims, &y)))
}

/// Scales and zero points: of the left operand, the right one and the result.
struct Scales {
    left: Tensor,
    right: Tensor,
    result: Tensor,
    zeros: [Tensor; 3],
    /// All scales are powers of two: every device gives the same bits.
    exact: bool,
}

impl Scales {
    /// Kinds: 0 one scale for all, 1 one for each channel, 2 and 3 the same in powers of two, with ties.
    fn new(random: &mut Random, types: [DType; 3], counts: [usize; 2], kind: usize, terms: usize) -> Scales {
        let exact = kind >= 2;
        let counts = if kind % 2 == 1 { counts } else { [1, 1] };
        let mut scales = |n: usize| {
            let list: Vec<f64> = (0..n)
                .map(|_| {
                    if exact {
                        2f64.powi(random.integer(-2, 1) as i32)
                    } else {
                        0.02 + random.real().abs() / 40.0
                    }
                })
                .collect();
            Tensor::float(DType::F32, &[n], &list)
        };
        let (left, right) = (scales(counts[0]), scales(counts[1]));
        // Sums spread over the range of the result.
        let size = 1e4 * (terms.max(1) as f64).sqrt() / 60.0;
        let result = if exact { 2f64.powi(size.log2().round() as i32) } else { size * 1e-3 };
        let zeros = [
            random.any(types[0], &[counts[0]]),
            random.any(types[1], &[counts[1]]),
            random.any(types[2], &[]),
        ];
        Scales { left, right, result: Tensor::float(DType::F32, &[], &[result]), zeros, exact }
    }

    /// The result of a sum, and how far a device may be off: its scale by three units of the last place.
    fn scaled(&self, dtype: DType, sum: i128, row: usize, channel: usize) -> (i128, f64) {
        let round = |x: f64| f64::from(x as f32);
        let of = |t: &Tensor, i: usize| pick(&t.numbers(), i, 0.0);
        let scale = round(round(of(&self.left, row) * of(&self.right, channel)) / of(&self.result, 0));
        let product = round(round(wrapped(sum) as f64) * scale);
        let zero = self.zeros[2].wide_integers()[0] as f64;
        let (low, high) = if dtype == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
        let stored = |x: f64| if x.is_nan() { zero } else { (half_even(x) + zero).clamp(low, high) };
        let off = |units: f64| stored(product * (1.0 + units * 2f64.powi(-23)));
        (stored(product) as i128, (off(4.0) - off(-4.0)).abs())
    }

    fn finish(&self, case: Case, dtype: DType, dims: &[usize], sums: &[(usize, usize, i128)]) -> Case {
        let (y, bounds): (Vec<i128>, Vec<f64>) =
            sums.iter().map(|(row, channel, sum)| self.scaled(dtype, *sum, *row, *channel)).unzip();
        let tolerance = if self.exact { Tolerance::Exact } else { Tolerance::Bounds(bounds) };
        trimmed(case.output(Tensor::integer(dtype, dims, &y)).within(tolerance))
    }
}

fn scaled_conv(what: String, s: &Shape, types: [DType; 3], kind: usize, random: &mut Random) -> Case {
    let (x, w) = (random.any(types[0], s.x), random.any(types[1], s.w));
    let n = Scales::new(random, types, [1, s.w[0]], kind, s.w[1..].iter().product());
    // Some biases make the sums wrap.
    let ends: Vec<i32> = (0..s.w[0]).map(|_| random.pick(&[i32::MAX, i32::MIN, 0, 7_654, -1_234])).collect();
    let bias = match kind {
        1 => None,
        2 => Some(Tensor::i32(&s.w[..1], &ends)),
        _ => Some(random.i32s(&s.w[..1], -30_000, 30_000)),
    };
    let zeros = [n.zeros[0].wide_integers(), n.zeros[1].wide_integers()];
    let (dims, sums) = convolved(s, [&x, &w], [&zeros[0], &zeros[1]]);
    let bs = bias.as_ref().map_or(vec![], Tensor::wide_integers);
    let sums: Vec<_> = sums.iter().map(|(c, sum)| (0, *c, sum + bs.get(*c).copied().unwrap_or(0))).collect();
    let case = Case::new(&QLINEAR_CONV, what, &s.conv(0)).input(&x).input(&n.left).input(&n.zeros[0]);
    let case = case.input(&w).input(&n.right).input(&n.zeros[1]).input(&n.result).input(&n.zeros[2]);
    n.finish(case.optional(bias.as_ref()), types[2], &dims, &sums)
}

fn scaled_matmul(
    what: String,
    [a, b]: [&[usize]; 2],
    transposed: bool,
    types: [DType; 3],
    kind: usize,
    random: &mut Random,
) -> Case {
    let (x, w) = (random.any(types[0], a), random.any(types[1], &flipped(b, transposed)));
    let n = Scales::new(random, types, [a[a.len() - 2], b[b.len() - 1]], kind, a[a.len() - 1]);
    scaled_product(what, transposed, [&x, &w], types[2], &n)
}

fn scaled_product(what: String, transposed: bool, [a, b]: [&Tensor; 2], y: DType, n: &Scales) -> Case {
    let zeros = [n.zeros[0].wide_integers(), n.zeros[1].wide_integers()];
    let (dims, sums) = multiplied([a, b], transposed, [&zeros[0], &zeros[1]]);
    let attrs = Product { transpose_b: u32::from(transposed), reserved: 0 };
    let case = Case::new(&QLINEAR_MATMUL, what, &attrs).input(a).input(&n.left).input(&n.zeros[0]);
    let case = case.input(b).input(&n.right).input(&n.zeros[1]).input(&n.result).input(&n.zeros[2]);
    n.finish(case, y, &dims, &sums)
}
