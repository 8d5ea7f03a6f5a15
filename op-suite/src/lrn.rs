//! Local response normalisation.

use crate::random::Random;
use crate::reference::estimate::{Estimate, fit, rounded, sum};
use crate::tensor::{offset, position};
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::lrn::{LRN, Lrn};

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(156);
    let mut all = Vec::new();
    let (alexnet, strong) = ((1e-4, 0.75, 1.0), (2.5, 0.5, 0.3));
    let shapes: &[(&[usize], &[u32])] = &[
        (&[2, 7, 3, 5], &[1, 2, 3, 4, 5, 6, 13, 14, u32::MAX]),
        (&[1, 5, 70], &[3]),
        (&[3, 4], &[2]),
        (&[1, 1, 3], &[5]),
        (&[2, 0, 3], &[3]),
        (&[2, 3, 0], &[3]),
    ];
    for t in LRN.inputs[0].dtypes.iter() {
        let few: &[(&[usize], &[u32])] = &[(&[2, 5, 2, 3], &[3, 4])];
        for (dims, sizes) in if t == DType::F32 { shapes } else { few } {
            for size in *sizes {
                for (alpha, beta, bias) in [alexnet, strong, (1.0, -1.5, 2.0)] {
                    let x = random.floats(t, dims);
                    all.push(case(
                        format!("{}/{dims:?}", name(t)),
                        &Lrn { size: *size, alpha, beta, bias },
                        &x,
                    ));
                }
            }
        }
        // One special number in each column, between others.
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 3e4];
        let x: Vec<f64> = (0..30).map(|i| if i / 6 == 2 { special[i % 6] } else { random.real() }).collect();
        let x = Tensor::float(t, &[1, 5, 6], &x);
        all.push(case(
            format!("{}/special", name(t)),
            &Lrn { size: 3, alpha: 0.5, beta: 0.75, bias: 1.0 },
            &x,
        ));
        // A negative base has no power.
        all.push(case(
            format!("{}/special", name(t)),
            &Lrn { size: 3, alpha: 1.0, beta: 0.5, bias: -2.0 },
            &x,
        ));
    }
    all
}

/// A sum of `n` squares has `n + 1` roundings, the base 4 more, all times the exponent; a power is off by 16 units where a
/// device computes `2^(beta · log2 base)`, and more where the logarithm is large, the quotient by 2.5.
fn case(what: String, attrs: &Lrn, x: &Tensor) -> Case {
    let (t, numbers) = (x.dtype, x.numbers());
    let [alpha, beta, bias] = [attrs.alpha, attrs.beta, attrs.bias].map(f64::from);
    let (size, channels) = (i64::from(attrs.size), x.dims[1] as i64);
    let of = |i: usize| {
        let at = position(&x.dims, i);
        let channel = at[1] as i64;
        let window = (channel - (size - 1) / 2).max(0)..=(channel + size / 2).min(channels - 1);
        let squares: Vec<f64> = window
            .map(|c| {
                let mut at = at.clone();
                at[1] = c as usize;
                let x = numbers[offset(&x.dims, &at)];
                fit(t, x * x)
            })
            .collect();
        let weighted = alpha / f64::from(attrs.size) * sum(squares.iter().copied());
        let base = bias + weighted;
        let (power, n) = (base.powf(beta), squares.len() as f64);
        let value = numbers[i] / power;
        let cancelled = (weighted.abs() * (n + 8.0) + base.abs()) / base.abs();
        let error = value.abs() * (beta.abs() * cancelled + 40.0 + 4.0 * (beta * base.log2()).abs());
        Estimate { value, error }
    };
    let y: Vec<Estimate> = (0..numbers.len()).map(of).collect();
    let (y, tolerance) = rounded(t, &x.dims, &y);
    let what = format!("{what}, size {}, {alpha} {beta} {bias}", attrs.size);
    Case::new(&LRN, what, attrs).input(x).output(y).within(tolerance)
}
