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

/// The nearest bfloat16, ties to the even one. A bfloat16 is the upper half of an f32, and its neighbours are those of its
/// bits, so the nearest is one of the three around the truncated one.
pub(crate) fn bf16_from_f64(x: f64) -> u16 {
    if x.is_nan() {
        return 0x7fc0;
    }
    let value = |bits: u16| match bits & 0x7fff {
        // For rounding, infinity stands where the next finite number would be: at 2^128.
        0x7f80 => 2f64.powi(128).copysign(if bits >> 15 == 1 { -1.0 } else { 1.0 }),
        _ => f64::from(f32::from_bits(u32::from(bits) << 16)),
    };
    let guess = ((x as f32).to_bits() >> 16) as u16;
    let magnitude = guess & 0x7fff;
    let near = [magnitude.saturating_sub(1), magnitude, (magnitude + 1).min(0x7f80)];
    let distance = |m: &u16| (x - value(guess & 0x8000 | m)).abs();
    let best = near.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)).then((*a % 2).cmp(&(*b % 2))));
    guess & 0x8000 | best.copied().unwrap_or(magnitude)
}

/// Distance between neighbouring binary16 around `x`.
pub(crate) fn spacing(x: f64) -> f64 {
    let exponent = if x == 0.0 || !x.is_finite() { -14.0 } else { x.abs().log2().floor().clamp(-14.0, 15.0) };
    2f64.powi(exponent as i32 - 10)
}
