//! `BitCast8` to `BitCast64`: every pair of types of one width; the bits are those that came.

use crate::random::Random;
use crate::{Case, Tensor};
use serinette_core::op::NoAttributes;
use serinette_core::op::bitcast::{BIT_CAST_8, BIT_CAST_16, BIT_CAST_32, BIT_CAST_64};

const SHAPES: &[&[usize]] = &[&[], &[7, 19], &[3, 0, 2]];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(71);
    let mut all = Vec::new();
    for op in [&BIT_CAST_8, &BIT_CAST_16, &BIT_CAST_32, &BIT_CAST_64] {
        for from in op.inputs[0].dtypes.iter() {
            for to in op.outputs[0].dtypes.iter() {
                for dims in SHAPES {
                    // Any bits at all: among them are NaN with payloads, and bools that are neither 0 nor 1.
                    let x = random.any(from, dims);
                    let y = Tensor::new(to, dims, x.bytes.clone());
                    let what = format!("{from} to {to} {dims:?}");
                    all.push(Case::new(op, what, &NoAttributes {}).input(&x).output(y));
                }
            }
        }
    }
    all
}
