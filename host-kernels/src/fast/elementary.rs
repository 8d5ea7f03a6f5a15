//! Functions of f32 without branches, so that the compiler makes vector code of a loop over them.
//!
//! `FMA` says whether the code around has fused multiply-adds: without, `mul_add` would be a call. The polynomials are Chebyshev
//! fits made for these ranges; their errors are below a quarter of a unit in the last place. Tested by the op suite to the
//! bounds of the ops.

/// `a · b + c`.
#[inline(always)]
pub(super) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial, highest coefficient first (Horner's scheme).
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = 0.0;
    for c in coefficients {
        sum = fma::<FMA>(sum, x, c);
    }
    sum
}

/// `e^x`: subnormal results are kept, overflow is infinity, NaN stays.
#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity whatever the number.
    let clamped = x.clamp(-110.0, 100.0);
    // Adding 1.5 · 2^23 rounds to a whole number, and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = fma::<FMA>(clamped, core::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, of which the first times `n` is exact (Cody and Waite).
    let r = fma::<FMA>(n, -0.693_359_4, clamped);
    let r = fma::<FMA>(n, 2.121_944_4e-4, r);
    let p = polynomial::<FMA, 6>(
        r,
        [1.989_099_1e-4, 1.393_365e-3, 8.333_310_5e-3, 4.166_646_7e-2, 1.666_666_7e-1, 0.5],
    );
    let y = fma::<FMA>(p, r * r, r) + 1.0;
    // Times 2^n in two steps, since 2^n itself may be out of range.
    let n = shifted.to_bits() as i32 - ROUND.to_bits() as i32;
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    let y = y * power(half) * power(n - half);
    if x.is_nan() { x } else { y }
}

/// `1 / (1 + e^−x)`.
#[inline(always)]
pub(super) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    let e = exp::<FMA>(-x.abs());
    let y = 1.0 / (1.0 + e);
    if x < 0.0 { e * y } else { y }
}

/// The hyperbolic tangent: an odd polynomial near 0, else by the exponential.
#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let size = x.abs();
    let z = x * x;
    let p = polynomial::<FMA, 6>(
        z,
        [2.292_744_8e-3, -8.343_945e-3, 2.176_885_8e-2, -5.395_925_8e-2, 1.333_330_4e-1, -3.333_333_4e-1],
    );
    let near = fma::<FMA>(p, x * z, x);
    let far = (1.0 - 2.0 / (exp::<FMA>(2.0 * size) + 1.0)).copysign(x);
    if size < 0.625 { near } else { far }
}

/// The error function: `x` times a polynomial of `x²` near 0; further out 1 less the exponential of a polynomial, the
/// logarithm of its complement.
#[inline(always)]
pub(super) fn erf<const FMA: bool>(x: f32) -> f32 {
    let size = x.abs();
    let near = x * polynomial::<FMA, 8>(
        x * x,
        [
            -9.667_045e-6,
            1.126_595_9e-4,
            -8.484_080_3e-4,
            5.221_031_6e-3,
            -2.686_543e-2,
            1.128_378_2e-1,
            -3.761_263e-1,
            core::f32::consts::FRAC_2_SQRT_PI,
        ],
    );
    // From 4 on the complement is less than half a unit of 1.
    let u = if size > 4.0 { 1.5 } else { size - 2.5 };
    let log = polynomial::<FMA, 9>(
        u,
        [
            1.637_151_4e-6,
            -1.331_501_4e-5,
            7.729_138e-5,
            -4.201_225_2e-4,
            2.165_303_6e-3,
            -1.085_854_1e-2,
            -9.438_937_3e-1,
            -5.352_680_7,
            -7.806_815,
        ],
    );
    let far = (1.0 - exp::<FMA>(log)).copysign(x);
    let y = if size < 1.0 { near } else { far };
    if x.is_nan() { x } else { y }
}
