// A word of an operand. Bit 31 of its location says that it lies in the weights.
fn word(location: u32, i: u32) -> u32 {
    if (location & 0x80000000u) != 0u {
        return weights[(location & 0x7fffffffu) + i];
    }
    return arena[location + i];
}

fn byte_at(location: u32, i: u32) -> u32 {
    return (word(location, i >> 2u) >> ((i & 3u) * 8u)) & 0xffu;
}

fn half_at(location: u32, i: u32) -> u32 {
    return (word(location, i >> 1u) >> ((i & 1u) * 16u)) & 0xffffu;
}

// The signed byte in the low bits of `w`.
fn sign8(w: u32) -> i32 {
    return bitcast<i32>(w << 24u) >> 24u;
}

fn i8_at(location: u32, i: u32) -> i32 {
    return sign8(word(location, i >> 2u) >> ((i & 3u) * 8u));
}
