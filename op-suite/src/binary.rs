//! `Add` and `Mul`.

use crate::random::{Random, SPECIAL, SPECIAL_HALVES, SUBNORMALS, pairs_f16, pairs_f32, pairs_i32};
use crate::reference::broadcast::broadcast;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::binary::{ADD, Binary, MUL};

/// Shapes of `a` and `b`; each pair is used both ways round.
pub(crate) const SHAPES: &[(&[usize], &[usize])] = &[
    (&[], &[]),
    (&[1], &[]),
    (&[37], &[37]),
    (&[131], &[]),
    (&[5, 33], &[33]),
    (&[5, 33], &[5, 1]),
    (&[1, 7], &[9, 1]),
    (&[3, 5, 7], &[3, 5, 7]),
    (&[3, 5, 7], &[5, 7]),
    (&[3, 5, 7], &[3, 1, 7]),
    (&[3, 5, 7], &[1, 5, 1]),
    (&[3, 5, 7], &[5, 1]),
    (&[2, 1, 4, 5], &[3, 1, 5]),
    (&[2, 3, 4, 5], &[1, 3, 1, 1]),
    (&[2, 3, 4, 5], &[2, 1, 4, 1]),
    (&[2, 3, 2, 3, 5], &[3, 1, 3, 1]),
    (&[2, 1, 2, 1, 5], &[1, 3, 1, 3, 1]),
    (&[1, 1, 1, 6], &[6]),
    (&[2, 1, 2, 1, 2, 1, 2, 3], &[1, 2, 1, 2, 1, 2, 1, 3]),
    (&[4, 0, 3], &[1, 3]),
    (&[0], &[1]),
    (&[3, 1], &[1, 0]),
];

const INTEGERS: [i32; 9] = [0, 1, -1, 2, i32::MAX, i32::MIN, 65536, -65537, 123_456_789];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(4);
    for op in [&ADD, &MUL] {
        for (index, (first, second)) in SHAPES.iter().enumerate() {
            for (a, b) in
                [(first, second), (second, first)].into_iter().take(1 + usize::from(first != second))
            {
                for dtype in [DType::F32, DType::F16, DType::I32] {
                    let mut operand = |dims| match dtype {
                        DType::I32 => random.i32s(dims, i32::MIN, i32::MAX),
                        _ => random.floats(dtype, dims),
                    };
                    let operands = [operand(a), operand(b)];
                    let activation = if dtype == DType::I32 { 0 } else { index as u32 % 2 };
                    let what = format!("{}/{a:?} {b:?}, activation {activation}", name(dtype));
                    all.push(binary(op, what, activation, operands));
                }
            }
        }
        for activation in [0, 1] {
            let mut special = |what: &str, (a, b): (Tensor, Tensor)| {
                all.push(binary(op, format!("{what}, activation {activation}"), activation, [a, b]));
            };
            special("f32/special/pairs", pairs_f32(&SPECIAL));
            special("f32/subnormal/pairs", pairs_f32(&SUBNORMALS));
            special("f16/special/pairs", pairs_f16(&SPECIAL_HALVES));
        }
        let (a, b) = pairs_i32(&INTEGERS);
        all.push(binary(op, "i32/wrapping/pairs".into(), 0, [a, b]));
    }
    all
}

fn binary(op: &'static OpDescriptor, what: String, activation: u32, [a, b]: [Tensor; 2]) -> Case {
    let (dims, pairs) = broadcast(&a.dims, &b.dims);
    let add = op.name == ADD.name;
    let y = if a.dtype == DType::I32 {
        let (x, z) = (a.integers(), b.integers());
        // Modulo 2^32: the low half of the 64-bit result.
        let f = |(i, j): &(usize, usize)| (if add { x[*i] + z[*j] } else { x[*i] * z[*j] }) as u32 as i32;
        Tensor::i32(&dims, &pairs.iter().map(f).collect::<Vec<_>>())
    } else {
        let (x, z) = (a.numbers(), b.numbers());
        // One rounding to f32 (f64 has more than twice its digits, so rounding twice is harmless), the activation,
        // then for f16 one more.
        let f = |(i, j): &(usize, usize)| {
            let y = f64::from((if add { x[*i] + z[*j] } else { x[*i] * z[*j] }) as f32);
            if activation == 1 && y <= 0.0 { 0.0 } else { y }
        };
        Tensor::float(a.dtype, &dims, &pairs.iter().map(f).collect::<Vec<_>>())
    };
    Case::new(op, what, &Binary { activation, reserved: 0 }).input(&a).input(&b).output(y).with_in_place(op)
}
