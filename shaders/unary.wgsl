// Element-wise functions of one tensor, word by word: input and output may be the same range.
//# include grid
//# include operand
//# include float

// By bits alone, and a kernel of its own, as it is the one that every model has.
//# kernel relu_${T} T=f32|f16
//# params Relu words x y

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w >= p.words {
        return;
    }
    let x = word(p.x, w);
//# if T == f32
    arena[p.y + w] = relu_bits(x);
//# else
    var y = 0u;
    for (var e = 0u; e < 32u; e += 16u) {
        let h = (x >> e) & 0xffffu;
        if (h & 0x8000u) == 0u || (h & 0x7fffu) > 0x7c00u {
            y |= h << e;
        }
    }
    arena[p.y + w] = y;
//# end
}

// All other functions of floats.
//# kernel unary_${T} T=f32|f16
//# params Unary op words x y
//# include half
//# include elementary
//# exact

// The function with this code in the op table, of a number that is not NaN.
fn compute(x: f32) -> f32 {
    switch p.op {
        case 24u: { return sigmoid(x); }
        default: { return x; }
    }
}

// The same of bits of single precision. NaN stays.
fn element(bits: u32) -> u32 {
    if is_nan(bits) {
        return bits;
    }
    return bitcast<u32>(compute(bitcast<f32>(bits)));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w >= p.words {
        return;
    }
    let x = word(p.x, w);
//# if T == f32
    arena[p.y + w] = element(x);
//# else
    // An odd number of elements leaves half a word, which belongs to nobody.
    let low = single_to_half(element(half_to_single(x & 0xffffu)));
    let high = single_to_half(element(half_to_single(x >> 16u)));
    arena[p.y + w] = low | (high << 16u);
//# end
}
