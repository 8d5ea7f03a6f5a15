//! `Conv2d` and `QConv2d`.

use crate::matmul::{REQUANTIZE, extreme, ordinary, ties};
use crate::random::Random;
use crate::reference::{conv, sum, winograd};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::conv::{CONV2D, Conv2d, Geometry, QCONV2D, QConv2d};

/// One geometry: dimensions of `x` and `w`, groups, strides, pads (top, left, bottom, right), dilations.
struct Shape {
    what: &'static str,
    x: [usize; 4],
    w: [usize; 4],
    groups: u32,
    strides: [u32; 2],
    pads: [u32; 4],
    dilations: [u32; 2],
}

const fn shape(what: &'static str, x: [usize; 4], w: [usize; 4]) -> Shape {
    Shape { what, x, w, groups: 1, strides: [1; 2], pads: [0; 4], dilations: [1; 2] }
}

impl Shape {
    const fn groups(self, groups: u32) -> Shape {
        Shape { groups, ..self }
    }
    const fn strides(self, strides: [u32; 2]) -> Shape {
        Shape { strides, ..self }
    }
    const fn pads(self, pads: [u32; 4]) -> Shape {
        Shape { pads, ..self }
    }
    const fn dilations(self, dilations: [u32; 2]) -> Shape {
        Shape { dilations, ..self }
    }
    fn geometry(&self) -> Geometry {
        Geometry { strides: self.strides, pads: self.pads, dilations: self.dilations }
    }
}

const SHAPES: &[Shape] = &[
    shape("one number", [1, 1, 1, 1], [1, 1, 1, 1]),
    shape("1x1", [2, 7, 9, 11], [13, 7, 1, 1]),
    shape("1x1, row over several blocks", [1, 3, 13, 17], [2, 3, 1, 1]),
    shape("1x1 strided", [1, 5, 9, 10], [6, 5, 1, 1]).strides([2, 3]),
    shape("1x1 padded", [1, 2, 4, 5], [3, 2, 1, 1]).pads([1, 2, 0, 1]),
    shape("1x1 groups", [2, 6, 5, 7], [9, 2, 1, 1]).groups(3),
    shape("3x3 valid", [1, 3, 10, 13], [5, 3, 3, 3]),
    shape("3x3 same", [2, 4, 9, 7], [6, 4, 3, 3]).pads([1; 4]),
    shape("3x3 same, wide", [1, 2, 5, 141], [5, 2, 3, 3]).pads([1; 4]),
    shape("3x3 same, plane over several blocks", [1, 2, 19, 23], [7, 2, 3, 3]).pads([1; 4]),
    shape("3x3 strided", [1, 3, 11, 14], [4, 3, 3, 3]).strides([2, 2]).pads([1; 4]),
    shape("3x3 strided unevenly", [1, 2, 13, 12], [3, 2, 3, 3]).strides([3, 2]).pads([0, 1, 2, 0]),
    shape("asymmetric pads", [1, 2, 6, 7], [4, 2, 3, 4]).pads([0, 3, 2, 1]),
    shape("dilated", [1, 3, 12, 15], [4, 3, 3, 3]).dilations([2, 3]).pads([2, 3, 1, 0]),
    shape("dilated and strided", [2, 2, 14, 13], [5, 2, 2, 3])
        .dilations([3, 2])
        .strides([2, 3])
        .pads([1, 0, 2, 2]),
    shape("5x5 on a smaller input", [1, 2, 3, 2], [4, 2, 5, 5]).pads([2; 4]),
    shape("kernel larger than the unpadded input", [1, 1, 1, 1], [5, 1, 4, 6]).pads([2, 3, 3, 4]),
    shape("1x7", [1, 3, 4, 19], [5, 3, 1, 7]).pads([0, 3, 0, 3]),
    shape("7x1", [1, 3, 19, 4], [5, 3, 7, 1]).pads([3, 0, 3, 0]),
    shape("groups", [2, 8, 7, 6], [12, 2, 3, 3]).groups(4).pads([1; 4]),
    shape("two groups of one output", [1, 6, 5, 5], [2, 3, 3, 3]).groups(2),
    shape("depth-wise", [2, 7, 9, 8], [7, 1, 3, 3]).groups(7).pads([1; 4]),
    shape("depth-wise strided", [1, 5, 11, 11], [5, 1, 3, 3]).groups(5).strides([2, 2]).pads([0, 0, 1, 1]),
    shape("depth-wise with multiplier", [1, 4, 8, 9], [12, 1, 3, 2]).groups(4).pads([1, 0, 1, 1]),
    shape("depth-wise 5x5 dilated", [1, 3, 15, 14], [3, 1, 5, 5])
        .groups(3)
        .dilations([2, 1])
        .pads([4, 2, 4, 2]),
    shape("wide padding", [1, 2, 3, 4], [4, 2, 2, 2]).pads([3, 4, 5, 6]),
    shape("no batches", [0, 2, 5, 5], [3, 2, 3, 3]),
    shape("no output channels", [1, 2, 5, 5], [0, 2, 3, 3]),
    shape("no input channels", [1, 0, 5, 5], [3, 0, 3, 3]),
    shape("empty image, all padding", [1, 2, 0, 3], [4, 2, 2, 2]).pads([1, 0, 2, 1]),
];

/// Shapes for which a device may have a method of fewer multiplications; in f32 only.
const LARGE: &[Shape] = &[
    shape("3x3 same, many channels", [1, 20, 19, 22], [24, 20, 3, 3]).pads([1; 4]),
    shape("3x3 valid, many channels", [2, 16, 21, 18], [33, 16, 3, 3]),
    shape("3x3 uneven pads, many channels", [1, 17, 16, 37], [24, 17, 3, 3]).pads([2, 0, 1, 3]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(2);
    for (index, s) in SHAPES.iter().enumerate() {
        for with_bias in [false, true] {
            for activation in [0, 1] {
                let (x, w) = (random.floats(DType::F32, &s.x), random.floats(DType::F32, &s.w));
                let bias = with_bias.then(|| random.floats(DType::F32, &[s.w[0]]));
                let what = format!("f32/{}, bias {with_bias}, activation {activation}", s.what);
                all.push(float(what, s, activation, [&x, &w], bias.as_ref(), None));
            }
        }
        // Whole numbers: every partial sum is exact, so there is no tolerance.
        let (x, w) = (random.whole(DType::F32, &s.x, 9), random.whole(DType::F32, &s.w, 9));
        let bias = random.whole(DType::F32, &[s.w[0]], 99);
        let exact = Some(Tolerance::Exact);
        all.push(float(format!("f32/whole numbers/{}", s.what), s, 0, [&x, &w], Some(&bias), exact));
        for kind in ["ordinary", "extreme", "ties"] {
            let requantize = REQUANTIZE[(index + kind.len()) % REQUANTIZE.len()];
            let attrs = QConv2d { geometry: s.geometry(), requantize, groups: s.groups, reserved: 0 };
            let (x, w) = (random.i8s(&s.x), random.i8s(&s.w));
            let terms = s.w[1] * s.w[2] * s.w[3];
            let [bias, multiplier, shift] = match kind {
                "ordinary" => ordinary(&mut random, s.w[0], terms),
                "extreme" => extreme(&mut random, s.w[0]),
                _ => ties(&mut random, s.w[0]),
            };
            let y = conv::quantized(&attrs, [&x, &w, &bias, &multiplier, &shift]);
            let case = Case::new(&QCONV2D, format!("{kind}/{}", s.what), &attrs);
            all.push(case.input(&x).input(&w).input(&bias).input(&multiplier).input(&shift).output(y));
        }
    }
    special(&mut random, &mut all);
    large(&mut all);
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        for (index, s) in SHAPES.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
            let (x, w) = (random.floats(dtype, &s.x), random.floats(dtype, &s.w));
            let bias = (index % 4 == 0).then(|| random.floats(dtype, &[s.w[0]]));
            let activation = u32::from(index % 3 == 0);
            let what =
                format!("{}/{}, bias {}, activation {activation}", name(dtype), s.what, bias.is_some());
            all.push(float(what, s, activation, [&x, &w], bias.as_ref(), None));
        }
    }
    all
}

fn float(
    what: String,
    s: &Shape,
    activation: u32,
    [x, w]: [&Tensor; 2],
    bias: Option<&Tensor>,
    tolerance: Option<Tolerance>,
) -> Case {
    let attrs = Conv2d { geometry: s.geometry(), groups: s.groups, activation };
    let (dims, sums) = conv::float(&attrs.geometry, s.groups, x, w, bias);
    let (y, bounds) = sum::rounded(x.dtype, &dims, &sums, activation == 1);
    let case = Case::new(&CONV2D, what, &attrs).input(x).input(w);
    let case = if bias.is_some() { case.optional(bias) } else { case };
    case.output(y).within(tolerance.unwrap_or(bounds))
}

/// Infinities and NaN in the input, in the middle and at the edge; the weights are finite, so padding stays zero.
fn special(random: &mut Random, all: &mut Vec<Case>) {
    for s in
        SHAPES.iter().filter(|s| ["3x3 same", "dilated", "groups", "depth-wise", "1x1"].contains(&s.what))
    {
        for activation in [0, 1] {
            let mut x: Vec<f32> =
                random.floats(DType::F32, &s.x).numbers().iter().map(|x| *x as f32).collect();
            let n = x.len();
            (x[0], x[n / 3], x[n / 2], x[n - 1]) =
                (f32::INFINITY, f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
            let (x, w) = (Tensor::f32(&s.x, &x), random.floats(DType::F32, &s.w));
            let what = format!("f32/special/{}, activation {activation}", s.what);
            all.push(float(what, s, activation, [&x, &w], None, None));
        }
    }
}

fn large(all: &mut Vec<Case>) {
    let random = &mut Random::new(102);
    for (i, s) in LARGE.iter().enumerate() {
        let (x, w) = (random.floats(DType::F32, &s.x), random.floats(DType::F32, &s.w));
        let bias = random.floats(DType::F32, &[s.w[0]]);
        let (bias, activation) = ((i != 1).then_some(&bias), u32::from(i != 0));
        let mut case = float(format!("f32/{}", s.what), s, activation, [&x, &w], bias, None);
        if let Tolerance::Bounds(bounds) = &mut case.tolerance {
            let fewer = winograd::bounds(&s.geometry(), &x, &w, &case.outputs[0].dims);
            bounds.iter_mut().zip(fewer).for_each(|(bound, fewer)| *bound += fewer);
        }
        all.push(case);
    }
    // Numbers that such a method would lose or spread: to the bounds of sums of products.
    let s = &LARGE[0];
    let w = random.floats(DType::F32, &s.w);
    let scaled = |random: &mut Random, dims: &[usize], by: f64| {
        Tensor::float(
            DType::F32,
            dims,
            &random.floats(DType::F32, dims).numbers().iter().map(|x| x * by).collect::<Vec<_>>(),
        )
    };
    let mut odd: Vec<f64> = random.floats(DType::F32, &s.x).numbers();
    let n = odd.len();
    (odd[7], odd[n / 2], odd[n - 1]) = (f64::INFINITY, f64::NAN, f64::NEG_INFINITY);
    let odd = Tensor::float(DType::F32, &s.x, &odd);
    let (huge, tiny) = (scaled(random, &s.x, 1e36), scaled(random, &s.x, 1e-25));
    let tiny_weights = scaled(random, &s.w, 1e-10);
    for (what, x, w) in
        [("not finite", &odd, &w), ("huge", &huge, &w), ("close to subnormal", &tiny, &tiny_weights)]
    {
        all.push(float(format!("f32/special/{}, {what}", s.what), s, 0, [x, w], None, None));
    }
}
