// Comparisons with broadcasting; the result is bytes, four in the word of an invocation. NaN compares as false.
//# include grid
//# include operand
//# include float

//# kernel compare_${T} T=f32|i32
//# params Compare n a b y relation rank dims[8] a_strides[8] b_strides[8]

fn places(i: u32) -> vec2<u32> {
    if p.rank <= 1u {
        return i * vec2<u32>(p.a_strides0, p.b_strides0);
    }
    var rest = i;
    var at = vec2<u32>(0u);
//# for D in 0..8
    if p.rank > ${D}u {
        let next = rest / p.dims${D};
        at += (rest - next * p.dims${D}) * vec2<u32>(p.a_strides${D}, p.b_strides${D});
        rest = next;
    }
//# end
    return at;
}

fn element(i: u32) -> u32 {
    let at = places(i);
    let x = word(p.a, at.x);
    let z = word(p.b, at.y);
//# if T == f32
    if is_nan(x) || is_nan(z) {
        return 0u;
    }
    let a = order_key(x);
    let b = order_key(z);
//# else
    let a = bitcast<i32>(x);
    let b = bitcast<i32>(z);
//# end
    // The relation's bits: 1 less, 2 equal, 4 greater.
    let holds = select(select(2u, 4u, a > b), 1u, a < b);
    return select(0u, 1u, (holds & p.relation) != 0u);
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
        if w * 4u + e < p.n {
            y |= element(w * 4u + e) << (e * 8u);
        }
    }
    arena[p.y + w] = y;
}
