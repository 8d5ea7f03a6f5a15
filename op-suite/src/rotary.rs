//! `RotaryEmbedding`.

use crate::random::Random;
use crate::reference::bounded::{Bounded, Precision, only};
use crate::reference::spatial::indices;
use crate::tensor::offset;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::rotary::{ROTARY_EMBEDDING, Rotary};

/// Where the angles come from.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Angles {
    /// The row of the step.
    Steps,
    /// The row of a position.
    Positions,
    /// A row for each batch and step.
    Batches,
}

/// Batches, heads, steps, width, half of the turned elements, rows of the caches.
type Sizes = [usize; 6];

const SIZES: &[Sizes] =
    &[[2, 3, 5, 8, 4, 7], [1, 2, 3, 9, 3, 3], [2, 1, 1, 2, 1, 4], [1, 4, 6, 34, 17, 6], [1, 1, 2, 5, 0, 3]];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(254);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (index, sizes) in SIZES.iter().enumerate() {
            for angles in [Angles::Steps, Angles::Positions, Angles::Batches] {
                for flags in 0..4u32 {
                    if dtype != DType::F32 && flags as usize != index % 4 {
                        continue;
                    }
                    let attrs = Rotary { interleaved: flags & 1, heads_inside: flags >> 1 };
                    let what = format!("{}/{sizes:?}, {angles:?}, {flags}", name(dtype));
                    all.push(case(what, &attrs, *sizes, dtype, angles, &mut random));
                }
            }
        }
    }
    for sizes in [[0, 2, 3, 4, 2, 3], [2, 2, 0, 4, 2, 3], [1, 2, 3, 0, 0, 3]] {
        let what = format!("f32/empty {sizes:?}");
        all.push(case(what, &Rotary::default(), sizes, DType::F32, Angles::Positions, &mut random));
    }
    special(&mut all);
    all
}

/// Positions out of range turn the pairs to zero, whatever they hold; the rest of a row is copied bit by bit.
fn special(all: &mut Vec<Case>) {
    let x = Tensor::f32(
        &[1, 1, 4, 3],
        &[f32::NAN, 1.0, -0.0, 2.0, 3.0, f32::INFINITY, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    );
    let cos = Tensor::f32(&[2, 1], &[1.0, 0.0]);
    let sin = Tensor::f32(&[2, 1], &[0.0, 1.0]);
    let positions = Tensor::i32(&[1, 4], &[2, -1, -2, i32::MIN]);
    let y = [0.0, 0.0, -0.0, -3.0, 2.0, f32::INFINITY, 4.0, 5.0, 6.0, 0.0, 0.0, 9.0];
    let case = Case::new(&ROTARY_EMBEDDING, "f32/positions out of range", &Rotary::default());
    let case =
        case.input(&x).input(&cos).input(&sin).optional(Some(&positions)).output(Tensor::f32(&x.dims, &y));
    let mut case = case.within(Tolerance::Exact).with_in_place(&ROTARY_EMBEDDING);
    case.expect_fault = true;
    all.push(case);
}

fn case(what: String, a: &Rotary, sizes: Sizes, dtype: DType, angles: Angles, random: &mut Random) -> Case {
    let [b, h, s, d, half, rows] = sizes;
    let dims = if a.heads_inside == 1 { [b, s, h, d] } else { [b, h, s, d] };
    let x = random.floats(dtype, &dims);
    let caches = if angles == Angles::Batches { vec![b, s, half] } else { vec![rows, half] };
    let (cos, sin) = (random.floats(dtype, &caches), random.floats(dtype, &caches));
    let known = rows as i32;
    let positions = (angles == Angles::Positions).then(|| random.i32s(&[b, s], -known, known - 1));
    let (xs, cs, ss) = (x.numbers(), cos.numbers(), sin.numbers());
    let ps = positions.as_ref().map(Tensor::integers);
    let u = Precision::of(dtype);
    let each = |at: Vec<usize>| {
        let (step, i) = (if a.heads_inside == 1 { at[1] } else { at[2] }, at[3]);
        if i >= 2 * half {
            return Bounded::from(xs[offset(&dims, &at)]);
        }
        let (pair, second) = if a.interleaved == 1 { (i / 2, i % 2 == 1) } else { (i % half, i >= half) };
        let places = if a.interleaved == 1 { [2 * pair, 2 * pair + 1] } else { [pair, pair + half] };
        let row = match &ps {
            Some(p) => p[at[0] * s + step].rem_euclid(rows as i64) as usize,
            None if angles == Angles::Batches => at[0] * s + step,
            None => step,
        };
        let (c, n) = (cs[row * half + pair], ss[row * half + pair]);
        let of = |i: usize| Bounded::from(xs[offset(&dims, &[&at[..3], &[places[i]]].concat())]);
        let (from_a, from_b) = if second { (n, c) } else { (c, -n) };
        u.dot([(of(0), Bounded::from(from_a)), (of(1), Bounded::from(from_b))].into_iter())
    };
    let all: Vec<Bounded> = indices(&dims).map(each).collect();
    let (y, tolerance) = only(dtype, &dims, &all);
    let case = Case::new(&ROTARY_EMBEDDING, what, a).input(&x).input(&cos).input(&sin);
    let case = if positions.is_some() { case.optional(positions.as_ref()) } else { case };
    case.output(y).within(tolerance).with_in_place(&ROTARY_EMBEDDING)
}
