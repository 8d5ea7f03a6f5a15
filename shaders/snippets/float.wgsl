// Floating-point rules by their bits: drivers may assume that there is no NaN and no infinity in comparisons.
fn is_nan(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

// x > 0 ? x : 0, NaN stays.
fn relu_bits(bits: u32) -> u32 {
    if is_nan(bits) || (bits & 0x80000000u) == 0u {
        return bits;
    }
    return 0u;
}

// Activation codes of the op table: 0 none, 1 relu.
fn activate(x: f32, code: u32) -> u32 {
    let bits = bitcast<u32>(x);
    if code == 1u {
        return relu_bits(bits);
    }
    return bits;
}

// An integer that orders numbers as the floats are ordered; both zeros are 0. NaN has no place in it.
fn order_key(bits: u32) -> i32 {
    if (bits << 1u) == 0u {
        return 0i;
    }
    if (bits & 0x80000000u) != 0u {
        return bitcast<i32>(bits ^ 0x7fffffffu);
    }
    return bitcast<i32>(bits);
}
