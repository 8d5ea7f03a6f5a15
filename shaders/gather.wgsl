// y[outer, i, inner] = data[outer, index[i], inner] in elements of SIZE bytes; a bad index reads as zero. An
// invocation makes one output word.
//# include grid
//# include operand
//# include checked_index

//# kernel gather_${SIZE} SIZE=1|2|4
//# params Gather n data indices y axis count inner step
//# index

// The element of `data` that output element `i` takes, or `0xffffffff`.
fn source(i: u32) -> u32 {
    let row = i / p.inner;
    let outer = row / p.count;
    let index = bitcast<i32>(word(p.indices, row - outer * p.count));
    let at = checked_index(index, p.axis, p.step);
    if at >= p.axis {
        return 0xffffffffu;
    }
    return (outer * p.axis + at) * p.inner + (i - row * p.inner);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w * ${4/SIZE}u >= p.n {
        return;
    }
    var y = 0u;
    for (var e = 0u; e < ${4/SIZE}u; e += 1u) {
        let i = w * ${4/SIZE}u + e;
        if i < p.n {
            let at = source(i);
            if at != 0xffffffffu {
//# if SIZE == 4
                y = word(p.data, at);
//# end
//# if SIZE == 2
                y |= half_at(p.data, at) << (e * 16u);
//# end
//# if SIZE == 1
                y |= byte_at(p.data, at) << (e * 8u);
//# end
            }
        }
    }
    arena[p.y + w] = y;
}
