// Values of dimension expressions, which come as parameters.
//# kernel size
//# params SizeOf count y values[8]

@compute @workgroup_size(1)
fn main() {
//# for I in 0..8
    if p.count > ${I}u {
        arena[p.y + ${I}u] = p.values${I};
    }
//# end
}
