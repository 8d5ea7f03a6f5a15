//! The error function by its definitions: a power series near zero, a continued fraction further out.

use std::f64::consts::PI;

/// `erf(x)`, relative error about 1e-15.
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    // 1 − erfc loses nothing where erf is not small.
    if x.abs() > 1.5 { (1.0 - erfc(x.abs())).copysign(x) } else { series(x) }
}

/// `erfc(x) = 1 − erf(x)`, relative error about 1e-14, also where it is tiny.
pub(crate) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < 1.5 {
        1.0 - series(x)
    } else if x > 27.5 {
        0.0
    } else {
        // Lentz's method backwards: e^−x²/√π · 1/(x + 1/2/(x + 2/2/(x + 3/2/(x + …)))).
        let mut tail = x;
        for k in (1..=400).rev() {
            tail = x + f64::from(k) / 2.0 / tail;
        }
        // e^−x² with the rounding error of x² put back.
        let square = x * x;
        let rest = x.mul_add(x, -square);
        (-square).exp() * (-rest).exp() / (PI.sqrt() * tail)
    }
}

/// `2/√π · e^−x² · Σ 2^n x^(2n+1) / (1·3·…·(2n+1))`: all terms of one sign, so nothing cancels.
fn series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::{erf, erfc};

    #[test]
    fn known_values() {
        // Abramowitz and Stegun, table 7.1, and Olver et al., NIST Handbook.
        for (x, want) in
            [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (2.0, 0.995_322_265_018_952_7)]
        {
            assert!((erf(x) - want).abs() < 4e-16 && (erf(-x) + want).abs() < 4e-16, "{x}");
        }
        for (x, want) in [
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_035e-12),
            (10.0, 2.088_487_583_762_545e-45),
        ] {
            assert!((erfc(x) / want - 1.0).abs() < 1e-13, "{x} {}", erfc(x));
        }
        assert!(
            (erf(1.5) + erfc(1.5) - 1.0).abs() < 1e-15
                && erf(f64::INFINITY) == 1.0
                && erfc(f64::NEG_INFINITY) == 2.0
        );
    }
}
