// Functions that the built-in ones are too coarse for: an `exp` may be off by 3 + 2·|x| units in the last place on
// Vulkan and WebGPU. These take no NaN: a driver may assume that there is none.

// e^x, less than a unit off: subnormal results may be zero, overflow is infinity.
fn exponential(x: f32) -> f32 {
    // Beyond these the result is zero or infinity whatever the number.
    let c = clamp(x, -110.0, 100.0);
    let n = round(c * 1.442695);
    // ln 2 in two parts, of which the first times n is exact (Cody and Waite).
    let r = (c - n * 0.693359375) - n * -2.1219444e-4;
    var q = 1.9890991e-4;
    q = q * r + 1.393365e-3;
    q = q * r + 8.3333105e-3;
    q = q * r + 4.1666467e-2;
    q = q * r + 1.6666667e-1;
    q = q * r + 0.5;
    let y = (q * (r * r) + r) + 1.0;
    // Times 2^n in two steps, since 2^n itself may be out of range.
    let k = i32(n);
    let half = k >> 1u;
    return y * power_of_two(half) * power_of_two(k - half);
}

// 2^k for k in -126..=127.
fn power_of_two(k: i32) -> f32 {
    return bitcast<f32>((k + 127i) << 23u);
}

// 1 / (1 + e^-x). The exponential is at most 1.
fn sigmoid(x: f32) -> f32 {
    let e = exponential(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}
