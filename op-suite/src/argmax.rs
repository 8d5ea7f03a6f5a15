//! `ArgMax`.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::argmax::{ARGMAX, ArgMax};

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(12);
    let mut all = Vec::new();
    let shapes: &[(&[usize], &[u32])] = &[
        (&[1], &[0]),
        (&[1001], &[0]),
        (&[5, 33], &[0, 1]),
        (&[3, 5, 7], &[0, 1, 2]),
        (&[2, 1, 3, 5], &[0, 1, 3]),
        (&[2, 3, 2, 3, 5], &[2]),
        (&[2, 0, 3], &[0, 2]),
    ];
    for (dims, axes) in shapes {
        for axis in *axes {
            for keep_axis in [0, 1] {
                let attrs = ArgMax { axis: *axis, keep_axis };
                let inputs =
                    [random.floats(DType::F32, dims), random.i8s(dims), random.whole(DType::F32, dims, 2)];
                for (kind, x) in ["", "", ", ties"].iter().zip(&inputs) {
                    let what = format!("{}/{dims:?} axis {axis}, keep {keep_axis}{kind}", name(x.dtype));
                    all.push(argmax(what, &attrs, x));
                }
            }
        }
    }
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows: &[(&str, [f32; 6])] = &[
        ("equal", [0.5; 6]),
        ("zeros of both signs", [-0.0, 0.0, -0.0, 0.0, -1.0, 0.0]),
        ("all minus infinity", [-inf; 6]),
        ("infinities", [1.0, inf, 2.0, inf, -inf, 3.0]),
        ("NaN wins over infinity", [1.0, inf, nan, inf, nan, 3.0]),
        ("NaN first", [nan, inf, 5.0, nan, 1.0, 0.0]),
        ("negative NaN", [5.0, 1.0, 2.0, -nan, nan, inf]),
        ("NaN last", [5.0, 1.0, 2.0, 3.0, -inf, nan]),
        ("least first", [f32::MIN, -inf, f32::MIN, -inf, f32::MIN, -inf]),
    ];
    for (what, row) in rows {
        let x = Tensor::f32(&[6], row);
        all.push(argmax(format!("f32/special/{what}"), &ArgMax { axis: 0, keep_axis: 0 }, &x));
    }
    for row in [[-128i8; 5], [127; 5], [-128, -127, -127, -128, -127], [0, 127, -1, 127, 126]] {
        all.push(argmax(
            format!("i8/special/{row:?}"),
            &ArgMax { axis: 0, keep_axis: 1 },
            &Tensor::i8(&[5], &row),
        ));
    }
    all
}

fn argmax(what: String, attrs: &ArgMax, x: &Tensor) -> Case {
    let (axis, numbers) = (attrs.axis as usize, x.numbers());
    let mut kept = x.dims.clone();
    kept[axis] = 1;
    let best = |i: usize| {
        let mut at = position(&kept, i);
        let row: Vec<f64> = (0..x.dims[axis])
            .map(|k| {
                at[axis] = k;
                numbers[offset(&x.dims, &at)]
            })
            .collect();
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = row.iter().position(|x| x.is_nan()).or(row.iter().position(|x| *x == most));
        first.map_or(-1, |i| i as i32)
    };
    let y: Vec<i32> = (0..kept.iter().product()).map(best).collect();
    if attrs.keep_axis == 0 {
        kept.remove(axis);
    }
    Case::new(&ARGMAX, what, attrs).input(x).output(Tensor::i32(&kept, &y))
}
