// Conversions between element types, one kernel for each target. An invocation makes one output word, or the two of
// a 64-bit integer. The value passes through bits of single precision, or through a 64-bit integer.
//# include grid
//# include operand
//# include half
//# include convert

//# kernel cast_to_${TO} TO=f32|f16|i8|i32|i64|bool
//# params Cast n x y from_code

// Codes of the element types: 1 f32, 2 f16, 5 i8, 7 i32, 8 i64, 13 bool.
fn integer(i: u32) -> vec2<u32> {
    if p.from_code == 8u {
        return vec2<u32>(word(p.x, i * 2u), word(p.x, i * 2u + 1u));
    }
    if p.from_code == 13u {
        return vec2<u32>(select(0u, 1u, byte_at(p.x, i) != 0u), 0u);
    }
    var low = 0i;
    if p.from_code == 7u {
        low = bitcast<i32>(word(p.x, i));
    } else {
        low = i8_at(p.x, i);
    }
    return vec2<u32>(bitcast<u32>(low), bitcast<u32>(low >> 31u));
}

fn element(i: u32) -> vec2<u32> {
    if p.from_code <= 2u {
        var bits = 0u;
        if p.from_code == 1u {
            bits = word(p.x, i);
        } else {
            bits = half_to_single(half_at(p.x, i));
        }
//# if TO == f32
        return vec2<u32>(bits, 0u);
//# end
//# if TO == f16
        return vec2<u32>(single_to_half(bits), 0u);
//# end
//# if TO == i64
        return single_to_i64(bits);
//# end
//# if TO == i32
        return vec2<u32>(single_to_i32(bits), 0u);
//# end
//# if TO == i8
        let v = bitcast<i32>(single_to_i32(bits));
        return vec2<u32>(bitcast<u32>(select(select(v, 127i, v > 127i), -128i, v < -128i)) & 0xffu, 0u);
//# end
//# if TO == bool
        return vec2<u32>(select(0u, 1u, (bits << 1u) != 0u), 0u);
//# end
    }
    let v = integer(i);
//# if TO == f32
    return vec2<u32>(i64_to_single(v.x, v.y), 0u);
//# end
//# if TO == f16
    // Rounded once: integers below 2^24 are exact in single precision, larger ones are infinite in half.
    return vec2<u32>(single_to_half(i64_to_single(v.x, v.y)), 0u);
//# end
//# if TO == i64
    return v;
//# end
//# if TO == i32
    return vec2<u32>(i64_to_i32(v), 0u);
//# end
//# if TO == i8
    return vec2<u32>(v.x & 0xffu, 0u);
//# end
//# if TO == bool
    return vec2<u32>(select(0u, 1u, (v.x | v.y) != 0u), 0u);
//# end
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
//# if TO in f32|i32
    if w < p.n {
        arena[p.y + w] = element(w).x;
    }
//# end
//# if TO == i64
    if w < p.n {
        let v = element(w);
        arena[p.y + w * 2u] = v.x;
        arena[p.y + w * 2u + 1u] = v.y;
    }
//# end
//# if TO in f16|i8|bool
//# if TO == f16
    let each = 2u;
//# else
    let each = 4u;
//# end
    if w * each < p.n {
        var y = 0u;
        for (var e = 0u; e < each; e += 1u) {
            if w * each + e < p.n {
                y |= element(w * each + e).x << (e * (32u / each));
            }
        }
        arena[p.y + w] = y;
    }
//# end
}
