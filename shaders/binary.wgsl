// Element-wise functions of two tensors with broadcasting. An invocation makes one output word. Axes are counted
// from the innermost here; a broadcast axis has stride 0. Strides are in elements.
//# include grid
//# include operand
//# include float
//# include half
//# exact

//# kernel ${OP}_${T} OP=add|mul T=f32|f16|i32
//# params Binary n a b y activation rank dims[8] a_strides[8] b_strides[8]

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
//# if T == f32
    let a = bitcast<f32>(word(p.a, at.x));
    let b = bitcast<f32>(word(p.b, at.y));
//# end
//# if T == f16
    let a = f16_at(p.a, at.x);
    let b = f16_at(p.b, at.y);
//# end
//# if T == i32
    let a = word(p.a, at.x);
    let b = word(p.b, at.y);
//# end
//# if OP == add
    let y = a + b;
//# else
    let y = a * b;
//# end
//# if T == i32
    return y;
//# else
    return activate(y, p.activation);
//# end
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
//# if T == f16
    if w * 2u >= p.n {
        return;
    }
    var y = single_to_half(element(w * 2u));
    if w * 2u + 1u < p.n {
        y |= single_to_half(element(w * 2u + 1u)) << 16u;
    }
    arena[p.y + w] = y;
//# else
    if w >= p.n {
        return;
    }
    arena[p.y + w] = element(w);
//# end
}
