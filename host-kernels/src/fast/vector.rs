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
    /// `self − other`.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn minus(self, other: Self) -> Self;
    /// `self · other`.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn times(self, other: Self) -> Self;
    /// `self > 0 ? self : 0`; NaN stays NaN.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn relu(self) -> Self;
    /// `other > self ? other : self`; NaN where either is.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn greater(self, other: Self) -> Self;
    /// `self / other`.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn over(self, other: Self) -> Self;
    /// The lanes of even number of this vector, then those of the other.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn evens(self, other: Self) -> Self;
    /// The lanes of odd number of this vector, then those of the other.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn odds(self, other: Self) -> Self;
    /// The lanes of both in turns: those of the first halves, those of the second.
    ///
    /// # Safety
    /// The instruction set is there.
    unsafe fn zip(self, other: Self) -> (Self, Self);
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
    unsafe fn greater(self, other: Self) -> Self {
        let one = |a: f32, b: f32| if (b > a) | b.is_nan() { b } else { a };
        Portable(core::array::from_fn(|i| one(self.0[i], other.0[i])))
    }
    #[inline(always)]
    unsafe fn over(self, other: Self) -> Self {
        Portable(core::array::from_fn(|i| self.0[i] / other.0[i]))
    }
    #[inline(always)]
    unsafe fn evens(self, other: Self) -> Self {
        Portable([self.0[0], self.0[2], other.0[0], other.0[2]])
    }
    #[inline(always)]
    unsafe fn odds(self, other: Self) -> Self {
        Portable([self.0[1], self.0[3], other.0[1], other.0[3]])
    }
    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        (Portable([a[0], b[0], a[1], b[1]]), Portable([a[2], b[2], a[3], b[3]]))
    }
    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        Portable(core::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        Portable(core::array::from_fn(|i| self.0[i] * other.0[i]))
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
        unsafe fn greater(self, other: Self) -> Self {
            // Of equals and with a NaN `max` gives its second operand, which leaves a NaN of the first to be put back.
            // SAFETY: AVX2 is there.
            unsafe {
                let none = _mm256_cmp_ps::<_CMP_UNORD_Q>(other.0, other.0);
                Avx2(_mm256_blendv_ps(_mm256_max_ps(other.0, self.0), other.0, none))
            }
        }
        #[inline(always)]
        unsafe fn over(self, other: Self) -> Self {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_div_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn evens(self, other: Self) -> Self {
            // Evens of both within each half, then the halves in order.
            // SAFETY: AVX2 is there.
            unsafe {
                let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(self.0, other.0));
                Avx2(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs)))
            }
        }
        #[inline(always)]
        unsafe fn odds(self, other: Self) -> Self {
            // SAFETY: AVX2 is there.
            unsafe {
                let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(self.0, other.0));
                Avx2(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs)))
            }
        }
        #[inline(always)]
        unsafe fn zip(self, other: Self) -> (Self, Self) {
            // In turns within each half, then the halves in order.
            // SAFETY: AVX2 is there.
            unsafe {
                let low = _mm256_unpacklo_ps(self.0, other.0);
                let high = _mm256_unpackhi_ps(self.0, other.0);
                let first = _mm256_permute2f128_ps::<0x20>(low, high);
                (Avx2(first), Avx2(_mm256_permute2f128_ps::<0x31>(low, high)))
            }
        }
        #[inline(always)]
        unsafe fn minus(self, other: Self) -> Self {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_mul_ps(self.0, other.0) })
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
        unsafe fn greater(self, other: Self) -> Self {
            // Of equals and with a NaN `max` gives its second operand, which leaves a NaN of the first to be put back.
            // SAFETY: AVX-512F is there.
            unsafe {
                let none = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
                Avx512(_mm512_mask_max_ps(other.0, !none, other.0, self.0))
            }
        }
        #[inline(always)]
        unsafe fn over(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_div_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn evens(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            unsafe {
                let places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                Avx512(_mm512_permutex2var_ps(self.0, places, other.0))
            }
        }
        #[inline(always)]
        unsafe fn odds(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            unsafe {
                let places = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
                Avx512(_mm512_permutex2var_ps(self.0, places, other.0))
            }
        }
        #[inline(always)]
        unsafe fn zip(self, other: Self) -> (Self, Self) {
            // SAFETY: AVX-512F is there.
            unsafe {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                (
                    Avx512(_mm512_permutex2var_ps(self.0, first, other.0)),
                    Avx512(_mm512_permutex2var_ps(self.0, second, other.0)),
                )
            }
        }
        #[inline(always)]
        unsafe fn minus(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: AVX-512F is there.
            Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
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
        unsafe fn greater(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vmaxq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn over(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vdivq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn evens(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vuzp1q_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn odds(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vuzp2q_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn zip(self, other: Self) -> (Self, Self) {
            // SAFETY: NEON is part of the target.
            unsafe { (Neon(vzip1q_f32(self.0, other.0)), Neon(vzip2q_f32(self.0, other.0))) }
        }
        #[inline(always)]
        unsafe fn minus(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vsubq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: NEON is part of the target.
            Neon(unsafe { vmulq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: NEON is part of the target.
            unsafe { vaddvq_f32(self.0) }
        }
    }
}
