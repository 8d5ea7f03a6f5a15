// Between single precision and integers with scales. Channel of element i: (i / inner) % channels.
//# include grid
//# include operand

// y = saturate(round_half_even(x / scale) + zero). The quotient is rounded to single precision first, as the
// op says, by integer division: device quotients may be off by several units in the last place.
//# kernel quantize_f32
//# params Quantize n x scale zero y has_zero inner channels

// A positive finite number as 24 bits with the leading one set, and its exponent: m · 2^(e − 23).
fn split(a: u32) -> vec2<u32> {
    if a >= 0x800000u {
        return vec2<u32>((a & 0x7fffffu) | 0x800000u, a >> 23u);
    }
    // Subnormal: exponents go on below 1, offset by 64 so that they stay positive.
    let zeros = countLeadingZeros(a) - 8u;
    return vec2<u32>(a << zeros, 1u - zeros);
}

// round_half_even(fl(x / s)) for |x / s| below 512, else ±512; NaN gives 0.
fn rounded_quotient(x: u32, s: u32) -> i32 {
    let a = x & 0x7fffffffu;
    let b = s & 0x7fffffffu;
    let negative = ((x ^ s) & 0x80000000u) != 0u;
    let infinite = select(512i, -512i, negative);
    if a > 0x7f800000u || b > 0x7f800000u {
        return 0i;
    }
    if a == 0x7f800000u {
        return select(infinite, 0i, b == 0x7f800000u);
    }
    if b == 0u {
        return select(infinite, 0i, a == 0u);
    }
    if a == 0u || b == 0x7f800000u {
        return 0i;
    }
    let n = split(a);
    let d = split(b);
    // Exponents wrap as unsigned numbers; their difference is right.
    var e = bitcast<i32>(n.y - d.y);
    var m = n.x;
    if m < d.x {
        m <<= 1u;
        e -= 1i;
    }
    if e >= 9i {
        return infinite;
    }
    if e < -1i {
        return 0i;
    }
    // 1 + 24 bits of the quotient: a leading one, 23 more, and one to round by. Remainders stay below 2^24.
    var q = 1u;
    var r = m - d.x;
    for (var i = 0u; i < 3u; i += 1u) {
        r <<= 8u;
        let digit = r / d.x;
        r -= digit * d.x;
        q = (q << 8u) | digit;
    }
    var f = q >> 1u;
    if (q & 1u) == 1u && (r != 0u || (f & 1u) == 1u) {
        f += 1u;
    }
    // Now f · 2^(e − 23), e in -1..=8: to an integer.
    let by = bitcast<u32>(23i - e);
    var y = f >> by;
    let left = f & ((1u << by) - 1u);
    let half = 1u << (by - 1u);
    if left > half || (left == half && (y & 1u) == 1u) {
        y += 1u;
    }
    return select(bitcast<i32>(y), 0i - bitcast<i32>(y), negative);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w * 4u >= p.n {
        return;
    }
    var y = 0u;
    for (var e = 0u; e < 4u; e += 1u) {
        let i = w * 4u + e;
        if i < p.n {
            let c = (i / p.inner) % p.channels;
            var v = rounded_quotient(word(p.x, i), word(p.scale, c));
            if p.has_zero != 0u {
                v += i8_at(p.zero, c);
            }
            v = select(select(v, 127i, v > 127i), -128i, v < -128i);
            y |= (bitcast<u32>(v) & 0xffu) << (e * 8u);
        }
    }
    arena[p.y + w] = y;
}

// y = (x - zero) · scale; the difference wraps (bytes cannot) and is rounded once to single precision.
//# kernel dequantize_${T} T=i8|i32
//# params Quantize n x scale zero y has_zero inner channels
//# include convert
//# exact

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let i = group_number(group, groups) * 64u + t;
    if i >= p.n {
        return;
    }
    let c = (i / p.inner) % p.channels;
//# if T == i8
    var v = i8_at(p.x, i);
    if p.has_zero != 0u {
        v -= i8_at(p.zero, c);
    }
//# else
    var v = bitcast<i32>(word(p.x, i));
    if p.has_zero != 0u {
        v -= bitcast<i32>(word(p.zero, c));
    }
//# end
    let x = bitcast<f32>(i32_to_single(v));
    arena[p.y + i] = bitcast<u32>(x * bitcast<f32>(word(p.scale, c)));
}
