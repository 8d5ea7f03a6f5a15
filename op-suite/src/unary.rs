//! `Relu`.

use crate::random::{Random, SPECIAL, SPECIAL_HALVES, SUBNORMALS};
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::unary::RELU;

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(6);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for dims in [&[][..], &[1], &[257], &[3, 5, 7, 11], &[2, 0, 3]] {
            all.push(relu(format!("{}/{dims:?}", name(dtype)), random.floats(dtype, dims)));
        }
    }
    all.push(relu("f32/special".into(), Tensor::f32(&[SPECIAL.len()], &SPECIAL)));
    all.push(relu("f32/subnormal".into(), Tensor::f32(&[SUBNORMALS.len()], &SUBNORMALS)));
    all.push(relu("f16/special".into(), Tensor::f16_bits(&[SPECIAL_HALVES.len()], &SPECIAL_HALVES)));
    all
}

fn relu(what: String, x: Tensor) -> Case {
    // −0 is not above 0, and what is not above 0 becomes +0, unless it is NaN.
    let y: Vec<f64> = x.numbers().iter().map(|x| if *x <= 0.0 { 0.0 } else { *x }).collect();
    let y = Tensor::float(x.dtype, &x.dims, &y);
    Case::new(&RELU, what, &NoAttributes {}).input(&x).output(y).with_in_place(&RELU)
}
