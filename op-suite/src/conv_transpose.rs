//! `ConvTranspose`.

use crate::random::Random;
use crate::reference::spatial::spread;
use crate::reference::sum::{Sum, rounded};
use crate::spatial::{Shape, shape};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::conv_transpose::{CONV_TRANSPOSE, ConvTranspose};

const SHAPES: &[Shape] = &[
    shape("one number", &[1, 1, 1], &[1, 1, 1]),
    shape("1-D", &[2, 3, 7], &[3, 4, 3]),
    shape("1-D strided", &[1, 2, 9], &[2, 3, 4]).strides(&[3]).pads(&[2], &[1]),
    shape("1-D, stride beyond the kernel", &[1, 2, 5], &[2, 2, 2]).strides(&[5]).output_padding(&[3]),
    shape("1-D, long", &[1, 2, 150], &[2, 1, 5]).strides(&[2]).pads(&[1], &[2]),
    shape("1-D, stride 1, long", &[1, 2, 137], &[2, 1, 4]).pads(&[3], &[0]),
    shape("1-D, dilation and stride share a factor", &[1, 2, 6], &[2, 3, 3]).strides(&[4]).dilations(&[6]),
    shape("2-D", &[1, 3, 4, 5], &[3, 2, 3, 2]),
    shape("2-D doubling", &[2, 4, 5, 3], &[4, 3, 2, 2]).strides(&[2, 2]),
    shape("2-D of decoders", &[1, 3, 5, 4], &[3, 2, 4, 4]).strides(&[2, 2]).pads(&[1, 1], &[1, 1]),
    shape("2-D odd", &[1, 2, 4, 6], &[2, 3, 3, 3])
        .strides(&[2, 3])
        .pads(&[1, 0], &[1, 2])
        .output_padding(&[1, 2]),
    shape("2-D dilated", &[1, 2, 3, 5], &[2, 2, 3, 2])
        .strides(&[2, 3])
        .dilations(&[3, 2])
        .pads(&[2, 1], &[0, 3]),
    shape("2-D groups", &[1, 6, 3, 4], &[6, 2, 2, 3]).groups(3).strides(&[1, 2]),
    shape("2-D depth-wise", &[2, 4, 3, 3], &[4, 1, 3, 3]).groups(4).strides(&[2, 2]).pads(&[1, 1], &[0, 1]),
    shape("2-D, more padding than kernel", &[1, 1, 5, 6], &[1, 2, 2, 2]).pads(&[2, 3], &[1, 2]),
    shape("2-D, everything cut off", &[1, 1, 2, 2], &[1, 2, 2, 2]).pads(&[2, 1], &[1, 1]),
    shape("3-D", &[1, 2, 2, 3, 4], &[2, 3, 2, 3, 2]).strides(&[2, 1, 3]).pads(&[0, 1, 1], &[1, 0, 2]),
    shape("3-D groups, dilated", &[1, 4, 3, 2, 3], &[4, 1, 2, 2, 3])
        .groups(2)
        .strides(&[1, 2, 2])
        .dilations(&[2, 3, 1])
        .output_padding(&[0, 1, 0]),
    shape("no input channels", &[1, 0, 3, 3], &[0, 2, 2, 2]).strides(&[2, 1]),
    shape("no output channels", &[1, 2, 3, 3], &[2, 0, 2, 2]),
    shape("no batches", &[0, 2, 3], &[2, 3, 2]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(241);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (index, s) in SHAPES.iter().enumerate() {
            let (x, w) = (random.floats(dtype, s.x), random.floats(dtype, s.w));
            let bias = (index % 2 == 0).then(|| random.floats(dtype, &[s.w[1] * s.groups as usize]));
            let activation = u32::from(index % 3 == 1);
            let what = format!("{}/{}, activation {activation}", name(dtype), s.what);
            all.push(case(what, s, activation, [&x, &w], bias.as_ref(), false));
            if dtype == DType::F32 || dtype == DType::F64 {
                let (x, w) = (random.whole(dtype, s.x, 9), random.whole(dtype, s.w, 9));
                let what = format!("{}/whole numbers/{}", name(dtype), s.what);
                all.push(case(what, s, 0, [&x, &w], None, true));
            }
        }
    }
    let s = &SHAPES[9];
    let mut x = random.floats(DType::F32, s.x).numbers();
    let n = x.len();
    (x[0], x[n / 2], x[n - 1]) = (f64::INFINITY, f64::NAN, f64::NEG_INFINITY);
    let (x, w) = (Tensor::float(DType::F32, s.x, &x), random.floats(DType::F32, s.w));
    for activation in [0, 1] {
        all.push(case(format!("f32/special, activation {activation}"), s, activation, [&x, &w], None, false));
    }
    all
}

fn case(
    what: String,
    s: &Shape,
    activation: u32,
    [x, w]: [&Tensor; 2],
    bias: Option<&Tensor>,
    exact: bool,
) -> Case {
    let attrs = ConvTranspose {
        spatial: s.spatial(),
        output_padding: s.padding(),
        groups: s.groups,
        activation,
        reserved: 0,
    };
    let (xs, ws, bs) = (x.numbers(), w.numbers(), bias.map(Tensor::numbers));
    let (dims, triples) = spread(&attrs.spatial, &attrs.output_padding, s.groups as usize, s.x, s.w);
    let mut sums = vec![Sum::default(); dims.iter().product()];
    if let Some(b) = &bs {
        let plane: usize = dims[2..].iter().product();
        for (i, sum) in sums.iter_mut().enumerate() {
            sum.add(b[i / plane % dims[1]]);
        }
    }
    triples.iter().for_each(|[y, x, w]| sums[*y].add(xs[*x] * ws[*w]));
    let (y, bounds) = rounded(x.dtype, &dims, &sums, activation == 1);
    let case = Case::new(&CONV_TRANSPOSE, what, &attrs).input(x).input(w);
    let case = if bias.is_some() { case.optional(bias) } else { case };
    case.output(y).within(if exact { Tolerance::Exact } else { bounds })
}
