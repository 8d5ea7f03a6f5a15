//! Products of matrices whose rows both are contiguous along the sum: `a · bᵀ`, four dot products at a time.

use crate::number::{Float, Stored};

/// Interleaved sums of one dot product, which the compiler can keep in a register.
const LANES: usize = 8;

/// Adds the products of eight pairs to as many sums.
#[inline(always)]
fn lanes<T: Float, B: Stored<Wide = T>>(sums: &mut [T; LANES], a: &[T; LANES], b: &[B; LANES]) {
    for i in 0..LANES {
        sums[i] = sums[i] + a[i] * b[i].load();
    }
}

#[inline(always)]
fn widened<A: Stored>(a: &[A; LANES]) -> [A::Wide; LANES] {
    core::array::from_fn(|i| a[i].load())
}

/// `Σ a[i] · b[i]` in eight interleaved sums.
#[inline]
pub(crate) fn dot<A: Stored, B: Stored<Wide = A::Wide>>(a: &[A], b: &[B]) -> A::Wide {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [A::Wide::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        lanes(&mut sums, &widened(a), b);
    }
    total::<A, B>(sums, a_rest, b_rest)
}

#[inline(always)]
fn total<A: Stored, B: Stored<Wide = A::Wide>>(sums: [A::Wide; LANES], a: &[A], b: &[B]) -> A::Wide {
    let rest = a.iter().zip(b).fold(A::Wide::ZERO, |sum, (a, b)| sum + a.load() * b.load());
    sums.into_iter().fold(rest, |sum, s| sum + s)
}

/// The dot products of one row with four, each with the bits of [`dot`].
#[inline]
pub(crate) fn dots<A: Stored, B: Stored<Wide = A::Wide>>(a: &[A], [p, q, r, s]: [&[B]; 4]) -> [A::Wide; 4] {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let ((p, p_rest), (q, q_rest)) = (p.as_chunks::<LANES>(), q.as_chunks::<LANES>());
    let ((r, r_rest), (s, s_rest)) = (r.as_chunks::<LANES>(), s.as_chunks::<LANES>());
    let zero = [A::Wide::ZERO; LANES];
    let (mut sum_p, mut sum_q, mut sum_r, mut sum_s) = (zero, zero, zero, zero);
    for ((((a, p), q), r), s) in a.iter().zip(p).zip(q).zip(r).zip(s) {
        let a = widened(a);
        lanes(&mut sum_p, &a, p);
        lanes(&mut sum_q, &a, q);
        lanes(&mut sum_r, &a, r);
        lanes(&mut sum_s, &a, s);
    }
    [
        total::<A, B>(sum_p, a_rest, p_rest),
        total::<A, B>(sum_q, a_rest, q_rest),
        total::<A, B>(sum_r, a_rest, r_rest),
        total::<A, B>(sum_s, a_rest, s_rest),
    ]
}

/// `out[i · stride + j] += a[i] · b[j]` for all rows of `k` elements in `a` and `b`. Whatever is too short is left out.
pub(crate) fn add_products<A: Stored, B: Stored<Wide = A::Wide>>(
    a: &[A],
    b: &[B],
    k: usize,
    out: &mut [A::Wide],
    stride: usize,
) {
    if k == 0 || stride == 0 {
        return;
    }
    let mut left = a.chunks_exact(4 * k);
    let mut outs = out.chunks_mut(4 * stride);
    for (a, out) in left.by_ref().zip(outs.by_ref()) {
        // Four rows of `a` at a time: each row of `b` is read once for them.
        let rows: [&[A]; 4] = core::array::from_fn(|i| a.get(i * k..(i + 1) * k).unwrap_or(&[]));
        for (j, b) in b.chunks_exact(k).enumerate() {
            for (i, sum) in dots(b, rows).into_iter().enumerate() {
                if let Some(out) = out.get_mut(i * stride + j) {
                    *out = *out + sum;
                }
            }
        }
    }
    for (a, out) in left.remainder().chunks_exact(k).zip(outs.flat_map(|rest| rest.chunks_mut(stride))) {
        let mut rows = b.chunks_exact(4 * k);
        let mut to = out.chunks_mut(4);
        for (rows, out) in rows.by_ref().zip(to.by_ref()) {
            let rows: [&[B]; 4] = core::array::from_fn(|i| rows.get(i * k..(i + 1) * k).unwrap_or(&[]));
            for (out, sum) in out.iter_mut().zip(dots(a, rows)) {
                *out = *out + sum;
            }
        }
        for (b, out) in rows.remainder().chunks_exact(k).zip(to.flatten()) {
            *out = *out + dot(a, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{add_products, dot};
    use std::vec::Vec;

    #[test]
    fn products_are_dot_products() {
        for (m, n, k, stride) in
            [(1, 1, 1, 1), (3, 7, 5, 9), (4, 4, 8, 4), (9, 13, 27, 13), (8, 3, 16, 5), (2, 6, 0, 6)]
        {
            let number = |i: usize| (i * 37 % 101) as f32 * 0.37 - 11.0;
            let a: Vec<f32> = (0..m * k).map(number).collect();
            let b: Vec<f32> = (0..n * k).map(|i| number(i + 7)).collect();
            let mut out: Vec<f32> = (0..m * stride).map(|i| number(i + 3)).collect();
            let mut want = out.clone();
            for i in 0..m {
                for j in 0..n {
                    want[i * stride + j] += dot(&a[i * k..(i + 1) * k], &b[j * k..(j + 1) * k]);
                }
            }
            add_products(&a, &b, k, &mut out, stride);
            assert_eq!(out, want);
        }
    }
}
