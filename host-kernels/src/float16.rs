//! Conversion between IEEE 754 binary16 (as its bits) and f32, in integer arithmetic.

/// The f32 of the same value; a NaN stays a NaN.
pub(crate) fn to_f32(h: u16) -> f32 {
    let (sign, magnitude) = (u32::from(h & 0x8000) << 16, u32::from(h & 0x7fff));
    let bits = match magnitude {
        // Zeros and subnormals: a multiple of 2^-24, exact in f32.
        0..0x400 => (magnitude as f32 * (1.0 / 16_777_216.0)).to_bits(),
        // The exponent biases are 15 and 127.
        0x400..0x7c00 => (magnitude << 13) + ((127 - 15) << 23),
        // Infinities and NaNs.
        _ => (magnitude << 13) | 0x7f80_0000,
    };
    f32::from_bits(sign | bits)
}

/// The nearest binary16, ties to even: overflow gives infinity, subnormals are kept, a NaN becomes a quiet NaN.
pub(crate) fn from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    let rounded = match magnitude {
        // Below 2^-14 the result is a multiple of 2^-24. At 0.5 the last place of an f32 is 2^-24, so this
        // addition rounds to that multiple, half to even, and leaves it in the low bits.
        0..0x3880_0000 => (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000,
        // Up to the largest f32 that rounds to a finite number or, by carry, to infinity (65520).
        0x3880_0000..0x4780_0000 => {
            let odd = magnitude >> 13 & 1;
            (magnitude - ((127 - 15) << 23) + 0xfff + odd) >> 13
        }
        0x4780_0000..=0x7f80_0000 => 0x7c00,
        _ => 0x7e00,
    };
    sign | rounded as u16
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_half_widens_and_comes_back() {
        for h in 0..=u16::MAX {
            let (ours, theirs) = (super::to_f32(h), half::f16::from_bits(h).to_f32());
            assert!(ours == theirs && ours.is_sign_negative() == theirs.is_sign_negative() || ours.is_nan());
            assert_eq!(ours.is_nan(), theirs.is_nan(), "{h:#x}");
            assert!(super::from_f32(ours) == h || ours.is_nan(), "{h:#x}");
        }
    }

    #[test]
    fn narrowing_agrees_with_another_implementation() {
        // Every f32 whose low 9 bits are one of: zero, one, half-way patterns around the rounding position.
        for high in 0..1u32 << 19 {
            for low in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
                let x = f32::from_bits(high << 13 | low);
                let (ours, theirs) = (super::from_f32(x), half::f16::from_f32(x).to_bits());
                assert!(
                    ours == theirs || x.is_nan() && ours & 0x7fff > 0x7c00,
                    "{x:e}: {ours:#x} {theirs:#x}"
                );
            }
        }
    }
}
