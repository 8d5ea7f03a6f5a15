// The position of the largest element along an axis. A workgroup finds one: NaN is the largest, of equal ones the
// first wins, whatever the order in which invocations compare.
//# include grid
//# include operand
//# include float

//# kernel argmax_${T} T=f32|i8
//# params ArgMaxOf rows x y axis inner

var<workgroup> keys: array<i32, 64>;
var<workgroup> places: array<u32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let outer = row / p.inner;
    let base = outer * p.axis * p.inner + (row - outer * p.inner);
    // Below every key: the key of negative infinity is 0x807fffff, and bytes are small.
    var best = -0x7fffffffi;
    var place = 0xffffffffu;
    for (var i = t; i < p.axis; i += 64u) {
//# if T == f32
        let bits = word(p.x, base + i * p.inner);
        var key = 0x7fffffffi;
        if !is_nan(bits) {
            key = order_key(bits);
        }
//# else
        let key = i8_at(p.x, base + i * p.inner);
//# end
        if key > best {
            best = key;
            place = i;
        }
    }
    keys[t] = best;
    places[t] = place;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if t < half {
            let other = keys[t + half];
            let other_place = places[t + half];
            if other > keys[t] || (other == keys[t] && other_place < places[t]) {
                keys[t] = other;
                places[t] = other_place;
            }
        }
        workgroupBarrier();
    }
    if t == 0u {
        arena[p.y + row] = places[0];
    }
}
