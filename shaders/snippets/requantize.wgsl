// round_half_even(acc * multiplier / 2^(31 + shift)) + y_zero, clamped to low..=high. The product is exact: 64
// bits in two words. Rounding half to even is symmetric, so signs are put aside.
fn requantize(acc: i32, multiplier: i32, shift: i32, y_zero: i32, low: i32, high: i32) -> i32 {
    let a = bitcast<u32>(select(acc, 0i - acc, acc < 0i));
    let b = bitcast<u32>(select(multiplier, 0i - multiplier, multiplier < 0i));
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let p00 = a0 * b0;
    let p01 = a0 * b1;
    let p10 = a1 * b0;
    let middle = (p00 >> 16u) + (p01 & 0xffffu) + (p10 & 0xffffu);
    let lo = (p00 & 0xffffu) | (middle << 16u);
    let hi = a1 * b1 + (p01 >> 16u) + (p10 >> 16u) + (middle >> 16u);

    var by = 31i + shift;
    if shift < -30i {
        by = 1i;
    } else if shift > 31i {
        by = 62i;
    }
    let n = bitcast<u32>(by);
    // q = floor, saturated where it cannot fit 8 bits anyway; `more` and `tie` compare the rest with one half.
    var q = 0u;
    var more = false;
    var tie = false;
    if n < 32u {
        let left = lo & ((1u << n) - 1u);
        let half = 1u << (n - 1u);
        more = left > half;
        tie = left == half;
        q = (lo >> n) | (hi << (32u - n));
        if (hi >> n) != 0u {
            q = 0xffffu;
        }
    } else {
        let m = n - 32u;
        q = hi >> m;
        let left = hi & ((1u << m) - 1u);
        if m == 0u {
            more = lo > 0x80000000u;
            tie = lo == 0x80000000u;
        } else {
            let half = 1u << (m - 1u);
            more = left > half || (left == half && lo != 0u);
            tie = left == half && lo == 0u;
        }
    }
    if q > 0xffffu {
        q = 0xffffu;
    }
    if more || (tie && (q & 1u) == 1u) {
        q += 1u;
    }
    var y = bitcast<i32>(q);
    if (acc < 0i) != (multiplier < 0i) {
        y = 0i - y;
    }
    y += y_zero;
    if y < low {
        y = low;
    }
    if y > high {
        y = high;
    }
    return y;
}
