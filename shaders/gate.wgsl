// Evaluates a condition: writes its flag and the grids of the dispatches that depend on it.
//# kernel gate
//# interface gate
//# params GateOf condition trips trip negate parent flag first records table

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) t: u32) {
    var open = true;
    // 0xffffffff: there is none.
    if p.parent != 0xffffffffu {
        open = control[p.parent] != 0u;
    }
    if p.condition != 0xffffffffu {
        let byte = (arena[p.condition >> 2u] >> ((p.condition & 3u) * 8u)) & 0xffu;
        if (byte != 0u) == (p.negate != 0u) {
            open = false;
        }
    } else if p.negate != 0u {
        open = false;
    }
    if p.trips != 0xffffffffu {
        // A negative count runs nothing.
        let count = bitcast<i32>(arena[p.trips >> 2u]);
        if count <= 0i || p.trip >= bitcast<u32>(count) {
            open = false;
        }
    }
    for (var i = t; i < p.records * 3u; i += 64u) {
        var groups = 0u;
        if open {
            groups = control[p.table + i];
        }
        indirect[p.first * 3u + i] = groups;
    }
    if t == 0u {
        control[p.flag] = select(0u, 1u, open);
    }
}
