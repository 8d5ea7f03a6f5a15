// Half precision by integer arithmetic: subnormals, infinities and NaN do not depend on the driver.
fn half_to_single(h: u32) -> u32 {
    let sign = (h & 0x8000u) << 16u;
    let rest = h & 0x7fffu;
    if rest >= 0x7c00u {
        return sign | 0x7f800000u | ((rest & 0x3ffu) << 13u);
    }
    if rest >= 0x400u {
        return sign | ((rest << 13u) + 0x38000000u);
    }
    // Subnormal: a whole number of 2^-24, exact in single precision.
    return sign | bitcast<u32>(f32(rest) * 5.9604644775390625e-8);
}

// Round to nearest even; overflow gives infinity.
fn single_to_half(bits: u32) -> u32 {
    let sign = (bits >> 16u) & 0x8000u;
    let a = bits & 0x7fffffffu;
    if a > 0x7f800000u {
        return sign | 0x7e00u | ((a >> 13u) & 0x3ffu);
    }
    if a >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if a >= 0x38800000u {
        return sign | ((a + 0xfffu + ((a >> 13u) & 1u) - 0x38000000u) >> 13u);
    }
    if a < 0x33000000u {
        return sign;
    }
    let shift = 126u - (a >> 23u);
    let m = (a & 0x7fffffu) | 0x800000u;
    let floor = m >> shift;
    let left = m & ((1u << shift) - 1u);
    let tie = 1u << (shift - 1u);
    return sign | (floor + select(0u, 1u, left > tie || (left == tie && (floor & 1u) == 1u)));
}

fn f16_at(location: u32, i: u32) -> f32 {
    return bitcast<f32>(half_to_single(half_at(location, i)));
}
