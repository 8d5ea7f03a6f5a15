//! `DepthToSpace` in both orders, `SpaceToDepth`.

use crate::Case;
use crate::movement::{moved, share, take};
use crate::random::Random;
use serinette_core::DType;
use serinette_core::op::blocks::*;

/// Dimensions of the side with more channels, and the block.
const SHAPES: &[([usize; 4], u32)] = &[
    ([1, 8, 2, 3], 2),
    ([2, 12, 3, 1], 2),
    ([1, 9, 2, 2], 3),
    ([2, 3, 2, 5], 1),
    ([1, 18, 1, 1], 3),
    ([0, 4, 2, 2], 2),
    ([2, 0, 2, 3], 2),
    ([1, 4, 0, 3], 2),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(43);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (deep, block) in share(SHAPES, dtype) {
            let b = *block as usize;
            let [n, c, h, w] = *deep;
            let (flat, channels) = ([n, c / (b * b), h * b, w * b], c / (b * b));
            let attrs = Blocks { block: *block, reserved: 0 };
            let what = format!("{deep:?} block {block}");
            let x = random.any(dtype, deep);
            for (op, by_block) in [(&DEPTH_TO_SPACE, true), (&DEPTH_TO_SPACE_CRD, false)] {
                let y = take(&x, &flat, |at| {
                    let inner = at[2] % b * b + at[3] % b;
                    let c = if by_block { inner * channels + at[1] } else { at[1] * b * b + inner };
                    vec![at[0], c, at[2] / b, at[3] / b]
                });
                all.push(moved(op, what.clone(), &attrs, std::slice::from_ref(&x), y));
            }
            let x = random.any(dtype, &flat);
            let y = take(&x, deep, |at| {
                let (inner, c) = (at[1] / channels, at[1] % channels);
                vec![at[0], c, at[2] * b + inner / b, at[3] * b + inner % b]
            });
            all.push(moved(&SPACE_TO_DEPTH, what, &attrs, &[x], y));
        }
    }
    all
}
