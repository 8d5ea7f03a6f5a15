// Element-wise functions of one tensor, word by word: input and output may be the same range.
//# include grid
//# include operand
//# include float

//# kernel relu_${T} T=f32|f16
//# params Unary words x y

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
