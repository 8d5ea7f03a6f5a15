// Moving elements of 1, 2 or 4 bytes (larger ones are several words). An invocation makes one output word.
//# include grid
//# include operand

// y[i…] = x[base + Σ i · stride]: transposes, slices and copies. Axes from the innermost, strides in elements.
//# kernel move_${SIZE} SIZE=1|2|4
//# params Move n x y base rank dims[9] strides[9]

fn place(i: u32) -> u32 {
    if p.rank <= 1u {
        return p.base + i * p.strides0;
    }
    var rest = i;
    var at = p.base;
//# for D in 0..9
    if p.rank > ${D}u {
        let next = rest / p.dims${D};
        at += (rest - next * p.dims${D}) * p.strides${D};
        rest = next;
    }
//# end
    return at;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
//# if SIZE == 4
    if w >= p.n {
        return;
    }
    arena[p.y + w] = word(p.x, place(w));
//# else
    if w * ${4/SIZE}u >= p.n {
        return;
    }
    var y = 0u;
    for (var e = 0u; e < ${4/SIZE}u; e += 1u) {
        let i = w * ${4/SIZE}u + e;
        if i < p.n {
//# if SIZE == 1
            y |= byte_at(p.x, place(i)) << (e * 8u);
//# else
            y |= half_at(p.x, place(i)) << (e * 16u);
//# end
        }
    }
    arena[p.y + w] = y;
//# end
}

// One input of a concatenation whose parts are whole words: rows of `part` words go to `offset` in rows of `row`
// words.
//# kernel place_rows
//# params PlaceRows n x y part row offset

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let w = group_number(group, groups) * 64u + t;
    if w >= p.n {
        return;
    }
    let r = w / p.part;
    arena[p.y + r * p.row + p.offset + (w - r * p.part)] = word(p.x, w);
}

// Up to eight inputs of a concatenation whose parts are not whole words, in elements of SIZE bytes. Every output
// word is made by one invocation, which finds the source of each element. Elements past the last end, and those
// before `first`, belong to another dispatch and keep what they hold.
//# kernel concat_${SIZE} SIZE=1|2
//# params Concat n y row first inputs x[8] ends[8]

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
    let old = arena[p.y + w];
    var y = 0u;
    for (var e = 0u; e < ${4/SIZE}u; e += 1u) {
        let i = w * ${4/SIZE}u + e;
        let r = i / p.row;
        let column = i - r * p.row;
        let mask = ${255 * (1 + (SIZE - 1) * 256)}u << (e * ${SIZE*8}u);
        var value = old & mask;
        if i < p.n && column >= p.first {
            var start = p.first;
            var found = false;
//# for K in 0..8
            if !found && p.inputs > ${K}u {
                if column < p.ends${K} {
                    let at = r * (p.ends${K} - start) + column - start;
//# if SIZE == 1
                    value = byte_at(p.x${K}, at) << (e * 8u);
//# else
                    value = half_at(p.x${K}, at) << (e * 16u);
//# end
                    found = true;
                }
                start = p.ends${K};
            }
//# end
        }
        y |= value;
    }
    arena[p.y + w] = y;
}
