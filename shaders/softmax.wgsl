// Softmax along an axis, one workgroup for each row. Sums go in a fixed order. An element is read and written by
// one invocation only, so input and output may be the same range.
//# include grid
//# include operand
//# include float

//# kernel softmax_f32
//# params Softmax rows x y axis inner

var<workgroup> keys: array<i32, 64>;
var<workgroup> sums: array<f32, 64>;

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
    // The largest key; NaN has a key above the one of infinity.
    var best = -0x7fffffffi;
    for (var i = t; i < p.axis; i += 64u) {
        let bits = word(p.x, base + i * p.inner);
        var key = 0x7fffffffi;
        if !is_nan(bits) {
            key = order_key(bits);
        }
        if key > best {
            best = key;
        }
    }
    keys[t] = best;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if t < half && keys[t + half] > keys[t] {
            keys[t] = keys[t + half];
        }
        workgroupBarrier();
    }
    best = keys[0];
    // NaN, infinity, or nothing but negative infinities: the row is NaN.
    let bad = best >= 0x7f800000i || best == order_key(0xff800000u);
    var top_bits = bitcast<u32>(best);
    if best < 0i {
        top_bits = bitcast<u32>(best) ^ 0x7fffffffu;
    }
    let top = bitcast<f32>(top_bits);
    var sum = 0.0;
    if !bad {
        for (var i = t; i < p.axis; i += 64u) {
            let bits = word(p.x, base + i * p.inner);
            if bits != 0xff800000u {
                sum += exp(bitcast<f32>(bits) - top);
            }
        }
    }
    sums[t] = sum;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if t < half {
            sums[t] += sums[t + half];
        }
        workgroupBarrier();
    }
    let total = sums[0];
    for (var i = t; i < p.axis; i += 64u) {
        let at = base + i * p.inner;
        let bits = word(p.x, at);
        var y = 0u;
        if bad {
            y = 0x7fc00000u;
        } else if bits != 0xff800000u {
            y = bitcast<u32>(exp(bitcast<f32>(bits) - top) / total);
        }
        arena[p.y + at] = y;
    }
}
