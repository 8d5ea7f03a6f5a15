//! binary16 by its definition: a sign, a whole number below 2^11 and a power of two.

/// The value of the bits.
pub(crate) fn to_f64(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * 2f64.powi(-24),
        e => (1024.0 + fraction) * 2f64.powi(e - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The nearest binary16, ties to the even one: found by bisection among all of them.
pub(crate) fn from_f64(x: f64) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return 0x7e00;
    }
    // For rounding, infinity stands where the next finite number would be: at 65536.
    let value = |bits: u16| if bits == 0x7c00 { 65536.0 } else { to_f64(bits) };
    let (x, mut low, mut high) = (x.abs(), 0u16, 0x7c00u16);
    if x >= 65536.0 {
        return sign | 0x7c00;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if value(middle) <= x {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (below, above) = (x - value(low), value(high) - x);
    let up = above < below || (above == below && low % 2 == 1);
    sign | if up { high } else { low }
}

/// Distance between neighbouring binary16 around `x`.
pub(crate) fn spacing(x: f64) -> f64 {
    let exponent = if x == 0.0 || !x.is_finite() { -14.0 } else { x.abs().log2().floor().clamp(-14.0, 15.0) };
    2f64.powi(exponent as i32 - 10)
}
