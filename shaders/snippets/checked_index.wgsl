// The position of an index in an axis of n elements: an index in [-n, n) wraps once. Any other gives `n` or
// more, and the caller must neither read nor write by it; it also sets the fault word of the run.
fn checked_index(index: i32, n: u32, step: u32) -> u32 {
    var wrapped = index;
    if index < 0i {
        // No overflow: n is below 2^31.
        wrapped = index + bitcast<i32>(n);
    }
    if wrapped < 0i || wrapped >= bitcast<i32>(n) {
        atomicMax(&control[0], step + 1u);
        return 0xffffffffu;
    }
    return bitcast<u32>(wrapped);
}
