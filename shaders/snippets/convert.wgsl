// Conversions between 64-bit integers (low word, high word) and single precision, by integer arithmetic.

// Round to nearest even.
fn i64_to_single(lo: u32, hi: u32) -> u32 {
    var l = lo;
    var h = hi;
    let sign = hi & 0x80000000u;
    if sign != 0u {
        h = ~hi;
        l = 0u - lo;
        if lo == 0u {
            h += 1u;
        }
    }
    if (l | h) == 0u {
        return 0u;
    }
    // Shift the leading bit to bit 31 of h.
    var zeros = countLeadingZeros(h);
    if h == 0u {
        zeros = 32u + countLeadingZeros(l);
        h = l << (zeros - 32u);
        l = 0u;
    } else if zeros > 0u {
        h = (h << zeros) | (l >> (32u - zeros));
        l = l << zeros;
    }
    let exponent = 127u + 63u - zeros;
    let left = h & 0xffu;
    var m = h >> 8u;
    if left > 0x80u || (left == 0x80u && (l != 0u || (m & 1u) == 1u)) {
        m += 1u;
    }
    // The leading bit of m adds one to the exponent below it, and a carry out of m adds another.
    return sign | (((exponent - 1u) << 23u) + m);
}

fn i32_to_single(v: i32) -> u32 {
    return i64_to_single(bitcast<u32>(v), bitcast<u32>(v >> 31u));
}

// Toward zero, saturating, NaN gives 0.
fn single_to_i64(bits: u32) -> vec2<u32> {
    let a = bits & 0x7fffffffu;
    let negative = (bits & 0x80000000u) != 0u;
    if a > 0x7f800000u || a < 0x3f800000u {
        return vec2<u32>(0u, 0u);
    }
    if a >= 0x5f000000u {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
    }
    let exponent = (a >> 23u) - 127u;
    let m = (a & 0x7fffffu) | 0x800000u;
    var lo = 0u;
    var hi = 0u;
    if exponent <= 23u {
        lo = m >> (23u - exponent);
    } else {
        let by = exponent - 23u;
        if by < 32u {
            lo = m << by;
            hi = m >> (32u - by);
        } else {
            hi = m << (by - 32u);
        }
    }
    if negative {
        hi = ~hi;
        if lo == 0u {
            hi += 1u;
        }
        lo = 0u - lo;
    }
    return vec2<u32>(lo, hi);
}

// A 64-bit integer to 32 bits, saturating.
fn i64_to_i32(v: vec2<u32>) -> u32 {
    if bitcast<u32>(bitcast<i32>(v.x) >> 31u) == v.y {
        return v.x;
    }
    return select(0x7fffffffu, 0x80000000u, (v.y & 0x80000000u) != 0u);
}

fn single_to_i32(bits: u32) -> u32 {
    return i64_to_i32(single_to_i64(bits));
}
