//! Vectors of f32 in registers: the few operations that the tiles need, for each instruction set.
//!
//! A function generic over [`Vector`] is `#[inline(always)]` and is called from one function for each instruction set
//! that carries the `target_feature`, so that its operations become single instructions.

/// A register of f32 lanes.
///
/// # Safety
///
/// The methods of an implementation may only be called where the processor has its instruction set.
pub(super) unsafe trait Vector: Copy {
    /// Lanes of a register.
    const LANES: usize;
    /// Rows of the largest tile: with two registers a row, all accumulators and the operands fit the register file.
    const ROWS: usize;

    /// All lanes `x`.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn splat(x: f32) -> Self;
    /// `LANES` floats from `from`, any alignment.
    ///
    /// # Safety
    /// The instruction set is there and the floats are readable.
    unsafe fn load(from: *const f32) -> Self;
    /// Stores `LANES` floats, any alignment.
    ///
    /// # Safety
    /// The instruction set is there and the floats are writable.
    unsafe fn store(self, to: *mut f32);
    /// `self + a · b`; fused where the instruction set can.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn plus(self, other: Self) -> Self;
    /// `self > 0 ? self : 0`; NaN stays NaN.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn relu(self) -> Self;
    /// Sum of the lanes, pairwise.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn sum(self) -> f32;
}

/// The lanes of a vector summed in halves, the same way for each instruction set of a width.
fn pairwise<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Plain arrays, for processors without one of the instruction sets below.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

// SAFETY: no method needs an instruction set.
unsafe impl Vector for Portable {
    const LANES: usize = 4;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: readable as the caller promises; an array of f32 may be read at any alignment by `read_unaligned`.
        Portable(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: writable as the caller promises.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        Portable(core::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Portable(core::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    unsafe fn relu(self) -> Self {
        Portable(self.0.map(serinette_core::op::unary::relu))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        pairwise(self.0)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Vector, pairwise};
    use core::arch::x86_64::*;

    /// Eight lanes of AVX2 with FMA.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256);

    // SAFETY: the operations are those of AVX2 and FMA, which callers make sure of.
    unsafe impl Vector for Avx2 {
        const LANES: usize = 8;
        const ROWS: usize = 6;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: AVX2 is there, the floats are readable.
            Avx2(unsafe { _mm256_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: AVX2 is there, the floats are writable.
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            // SAFETY: FMA is there.
            Avx2(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn relu(self) -> Self {
            // Of a NaN and a number `max` gives its second operand.
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_max_ps(_mm256_setzero_ps(), self.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            let mut lanes = [0.0; 8];
            // SAFETY: eight floats are writable.
            unsafe { self.store(lanes.as_mut_ptr()) };
            pairwise(lanes)
        }
    }

    /// Sixteen lanes of AVX-512.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512);

    // SAFETY: the operations are those of AVX-512F, which callers make sure of.
    unsafe impl Vector for Avx512 {
        const LANES: usize = 16;
        const ROWS: usize = 12;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: AVX-512F is there, the floats are readable.
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: AVX-512F is there, the floats are writable.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn relu(self) -> Self {
            // Of a NaN and a number `max` gives its second operand.
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_max_ps(_mm512_setzero_ps(), self.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            let mut lanes = [0.0; 16];
            // SAFETY: sixteen floats are writable.
            unsafe { self.store(lanes.as_mut_ptr()) };
            pairwise(lanes)
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::Vector;
    use core::arch::aarch64::*;

    /// Four lanes of NEON, which every 64-bit ARM processor has.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Neon(float32x4_t);

    // SAFETY: NEON is part of the target.
    unsafe impl Vector for Neon {
        const LANES: usize = 4;
        const ROWS: usize = 12;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vdupq_n_f32(x) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the floats are readable.
            Neon(unsafe { vld1q_f32(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the floats are writable.
            unsafe { vst1q_f32(to, self.0) }
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vfmaq_f32(self.0, a.0, b.0) })
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vaddq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn relu(self) -> Self {
            // `fmax` gives NaN where an operand is NaN.
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vmaxq_f32(self.0, vdupq_n_f32(0.0)) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: NEON is part of the target.
            unsafe { vaddvq_f32(self.0) }
        }
    }
}
