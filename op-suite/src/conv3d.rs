//! `Conv3d`.

use crate::random::Random;
use crate::reference::spatial::convolution;
use crate::reference::sum::{Sum, rounded};
use crate::spatial::{Shape, shape};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::conv3d::CONV3D;

const SHAPES: &[Shape] = &[
    shape("1x1x1", &[2, 3, 2, 3, 5], &[7, 3, 1, 1, 1]),
    shape("1x1x1, row over several blocks", &[1, 2, 3, 5, 9], &[2, 2, 1, 1, 1]),
    shape("3x3x3 same", &[1, 2, 4, 5, 6], &[3, 2, 3, 3, 3]).pads(&[1; 3], &[1; 3]),
    shape("wide row", &[1, 1, 1, 2, 141], &[2, 1, 1, 2, 3]).pads(&[0, 1, 1], &[0, 0, 1]),
    shape("strided", &[1, 2, 5, 7, 6], &[3, 2, 2, 3, 2]).strides(&[2, 3, 2]),
    shape("asymmetric pads", &[1, 2, 3, 4, 5], &[2, 2, 2, 3, 3]).pads(&[1, 0, 2], &[0, 2, 1]),
    shape("dilated", &[1, 1, 5, 6, 7], &[2, 1, 2, 3, 2]).dilations(&[3, 2, 4]).pads(&[1, 2, 0], &[0, 1, 3]),
    shape("dilated and strided", &[2, 1, 6, 5, 8], &[1, 1, 2, 2, 3])
        .dilations(&[2, 1, 3])
        .strides(&[1, 2, 2])
        .pads(&[0, 1, 2], &[1, 0, 3]),
    shape("groups", &[1, 4, 3, 3, 4], &[6, 2, 2, 2, 3]).groups(2).pads(&[1, 0, 1], &[0, 1, 1]),
    shape("depth-wise", &[2, 3, 3, 4, 3], &[3, 1, 2, 3, 2]).groups(3).pads(&[0, 1, 0], &[1, 1, 1]),
    shape("kernel larger than the unpadded input", &[1, 1, 1, 1, 1], &[2, 1, 3, 2, 4])
        .pads(&[1, 0, 3], &[1, 1, 1]),
    shape("empty input, all padding", &[1, 2, 2, 0, 3], &[2, 2, 1, 2, 2]).pads(&[0, 1, 0], &[0, 2, 1]),
    shape("no input channels", &[1, 0, 2, 2, 2], &[3, 0, 1, 2, 1]),
    shape("no output channels", &[1, 2, 2, 2, 2], &[0, 2, 1, 1, 1]),
    shape("no batches", &[0, 2, 2, 2, 2], &[3, 2, 1, 1, 1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(240);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (index, s) in SHAPES.iter().enumerate() {
            let (x, w) = (random.floats(dtype, s.x), random.floats(dtype, s.w));
            let bias = (index % 2 == 0).then(|| random.floats(dtype, &s.w[..1]));
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
    // Infinities and NaN in the input; padding stays zero beside them, also where the weight is infinite.
    let s = &SHAPES[2];
    let mut x = random.floats(DType::F32, s.x).numbers();
    let n = x.len();
    (x[0], x[n / 3], x[n / 2], x[n - 1]) = (f64::INFINITY, f64::NAN, f64::NEG_INFINITY, f64::INFINITY);
    let (x, w) = (Tensor::float(DType::F32, s.x, &x), random.floats(DType::F32, s.w));
    for activation in [0, 1] {
        all.push(case(format!("f32/special, activation {activation}"), s, activation, [&x, &w], None, false));
    }
    let x = random.floats(DType::F32, s.x);
    let w = Tensor::float(DType::F32, s.w, &vec![f64::INFINITY; s.w.iter().product()]);
    all.push(case("f32/infinite weights".into(), s, 0, [&x, &w], None, false));
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
    let attrs = s.conv(activation);
    let (xs, ws, bs) = (x.numbers(), w.numbers(), bias.map(Tensor::numbers));
    let mut sums = Vec::new();
    let dims = convolution(&attrs.spatial, s.groups as usize, s.x, s.w, |channel, pairs| {
        let mut sum = Sum::default();
        bs.iter().for_each(|b| sum.add(b[channel]));
        pairs.iter().for_each(|(i, j)| sum.add(xs[*i] * ws[*j]));
        sums.push(sum);
    });
    let (y, bounds) = rounded(x.dtype, &dims, &sums, activation == 1);
    let case = Case::new(&CONV3D, what, &attrs).input(x).input(w);
    let case = if bias.is_some() { case.optional(bias) } else { case };
    case.output(y).within(if exact { Tolerance::Exact } else { bounds })
}
