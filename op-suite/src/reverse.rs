//! `Reverse`, `ReverseSequence`, `Roll`, `StridedSlice`.

use crate::movement::{moved, share, take};
use crate::random::Random;
use crate::{Case, Tensor};
use serinette_core::DType;
use serinette_core::op::reverse::*;

/// Dimensions and the axes reversed.
const REVERSED: &[(&[usize], u32)] = &[
    (&[3, 5], 0b10),
    (&[7], 1),
    (&[3, 5], 0b01),
    (&[3, 5], 0b11),
    (&[3, 5, 7], 0b010),
    (&[3, 5, 7], 0),
    (&[], 0),
    (&[2, 3, 4, 5], 0b1001),
    (&[2, 1, 2, 1, 2, 3, 1, 2], 0xff),
    (&[3, 0, 2], 0b111),
];

/// Dimensions, time axis, lengths.
const SEQUENCES: &[(&[usize], u32, &[i32])] = &[
    (&[4, 5], 1, &[0, 5, 3, 1]),
    (&[5, 4], 0, &[2, 5, 0, 4]),
    (&[3, 4, 2], 1, &[4, 2, 3]),
    (&[4, 3, 2], 0, &[4, 2, 3]),
    (&[2, 5, 3, 2], 1, &[3, 4]),
    (&[4, 5], 1, &[-1, 6, i32::MAX, i32::MIN]),
    (&[0, 5], 1, &[]),
    (&[3, 0], 1, &[2, 0, -1]),
    (&[1, 1], 1, &[1]),
];

/// Dimensions and shifts.
const SHIFTS: &[(&[usize], &[i32])] = &[
    (&[3, 5], &[1, 2]),
    (&[7], &[3]),
    (&[7], &[-3]),
    (&[7], &[21]),
    (&[7], &[-100]),
    (&[], &[]),
    (&[3, 5, 7], &[0, 2, 0]),
    (&[3, 5, 7], &[-1, 0, 0]),
    (&[2, 4, 4, 3], &[0, -2, -2, 0]),
    (&[5, 1], &[i32::MIN, i32::MAX]),
    (&[0, 3], &[1, 1]),
];

/// Dimensions of the input, starts, steps, dimensions of the result.
type Cut = (&'static [usize], &'static [u32], &'static [i32], &'static [usize]);

const CUTS: &[Cut] = &[
    (&[10], &[9], &[-1], &[10]),
    (&[10], &[8], &[-3], &[3]),
    (&[10], &[2], &[3], &[3]),
    (&[], &[], &[], &[]),
    (&[10], &[0], &[-7], &[1]),
    (&[10], &[6], &[-2], &[4]),
    (&[5, 9], &[4, 1], &[-2, 2], &[3, 4]),
    (&[5, 9], &[1, 8], &[1, -1], &[3, 9]),
    (&[5, 9], &[4, 0], &[-1, 1], &[5, 9]),
    (&[3, 5, 7], &[2, 4, 6], &[-1, -4, -3], &[3, 2, 3]),
    (&[2, 3, 4, 5], &[0, 2, 3, 0], &[1, -1, -2, 1], &[2, 3, 2, 5]),
    (&[4, 6], &[9, 5], &[-1, i32::MIN], &[0, 1]),
    (&[4, 0], &[1, 0], &[1, -5], &[2, 0]),
];

/// Those whose every start is an expression; what is not in the input is zero.
const SYMBOLIC: &[Cut] = &[
    (&[10], &[7], &[1], &[3]),
    (&[10], &[7], &[1], &[5]),
    (&[10], &[3], &[-2], &[4]),
    (&[10], &[12], &[-2], &[4]),
    (&[5, 4], &[3, 2], &[1, -1], &[4, 3]),
    (&[5, 4], &[9, 2], &[1, 1], &[2, 2]),
    (&[0], &[0], &[1], &[2]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(42);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (dims, axes) in share(REVERSED, dtype) {
            let x = random.any(dtype, dims);
            let y = take(&x, dims, |at| {
                let flip = |(axis, (i, n)): (usize, (&usize, &usize))| {
                    if axes >> axis & 1 == 1 { n - i - 1 } else { *i }
                };
                at.iter().zip(*dims).enumerate().map(flip).collect()
            });
            let attrs = Reverse { axes: *axes, reserved: 0 };
            all.push(moved(&REVERSE, format!("{dims:?} axes {axes:b}"), &attrs, &[x], y));
        }
        for (dims, time, lengths) in share(SEQUENCES, dtype) {
            let x = random.any(dtype, dims);
            let (t, b) = (*time as usize, 1 - *time as usize);
            let y = take(&x, dims, |at| {
                let mut at = at.to_vec();
                let length = i64::from(lengths[at[b]]).clamp(0, dims[t] as i64) as usize;
                if at[t] < length {
                    at[t] = length - 1 - at[t];
                }
                at
            });
            let lengths = Tensor::i32(&[lengths.len()], lengths);
            let attrs = ReverseSequence { time_axis: *time, reserved: 0 };
            let what = format!("{dims:?} along {time} {:?}", lengths.integers());
            let mut case = moved(&REVERSE_SEQUENCE, what, &attrs, &[x], y);
            case.inputs.push(Some(lengths));
            all.push(case);
        }
        for (dims, shifts) in share(SHIFTS, dtype) {
            let x = random.any(dtype, dims);
            let y = take(&x, dims, |at| {
                let from = at.iter().zip(*shifts).zip(*dims);
                from.map(|((i, s), n)| (*i as i64 - i64::from(*s)).rem_euclid(*n as i64) as usize).collect()
            });
            let mut attrs = Roll::default();
            attrs.shifts[..shifts.len()].copy_from_slice(shifts);
            all.push(moved(&ROLL, format!("{dims:?} by {shifts:?}"), &attrs, &[x], y));
        }
        all.extend(share(CUTS, dtype).map(|cut| slice(&mut random, dtype, cut, false)));
        all.extend(share(SYMBOLIC, dtype).map(|cut| slice(&mut random, dtype, cut, true)));
    }
    all
}

fn slice(random: &mut Random, dtype: DType, (dims, starts, steps, out): &Cut, symbolic: bool) -> Case {
    let x = random.any(dtype, dims);
    // A position beyond the input is one of the elements that a larger tensor has more.
    let wide: Vec<usize> = dims.iter().map(|n| n + 40).collect();
    let inside = |at: &[usize]| at.iter().zip(*dims).all(|(i, n)| i < n);
    let bytes = (0..wide.iter().product())
        .flat_map(|i| {
            let at = crate::tensor::position(&wide, i);
            if inside(&at) {
                x.element(crate::tensor::offset(dims, &at)).to_vec()
            } else {
                vec![0; dtype.size()]
            }
        })
        .collect();
    let y = take(&Tensor::new(dtype, &wide, bytes), out, |at| {
        let from = at.iter().zip(*starts).zip(*steps).zip(&wide);
        from.map(|(((i, start), step), n)| {
            (i64::from(*start) + *i as i64 * i64::from(*step)).rem_euclid(*n as i64) as usize
        })
        .collect()
    });
    let mut attrs = StridedSlice::default();
    attrs.starts[..starts.len()].copy_from_slice(starts);
    attrs.steps[..steps.len()].copy_from_slice(steps);
    let mut exprs = Vec::new();
    if symbolic {
        attrs.symbolic = (1 << dims.len()) - 1;
        exprs = starts.iter().map(|s| u64::from(*s)).collect();
        (0..starts.len()).for_each(|axis| attrs.starts[axis] = axis as u32);
    }
    let what = format!("{dims:?} from {starts:?} by {steps:?} to {out:?}, symbolic {symbolic}");
    Case { exprs, ..moved(&STRIDED_SLICE, what, &attrs, &[x], y) }
}
