//! `Tile`, `Repeat`, `Expand`.

use crate::Case;
use crate::movement::{moved, share, take};
use crate::random::Random;
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::tile::*;

/// Dimensions of input and result.
const TILES: &[(&[usize], &[usize])] = &[
    (&[3, 5], &[6, 15]),
    (&[5], &[17]),
    (&[1], &[9]),
    (&[], &[]),
    (&[3, 1, 5], &[3, 7, 5]),
    (&[3, 5, 7], &[3, 10, 7]),
    (&[3, 5, 7], &[2, 5, 3]),
    (&[2, 3, 2, 2], &[4, 3, 6, 2]),
    (&[2, 1, 1, 2, 1, 2, 1, 2], &[2, 3, 1, 2, 2, 4, 1, 2]),
    (&[4, 0], &[8, 0]),
    (&[0, 3], &[0, 3]),
    (&[4, 3], &[0, 6]),
];

/// Dimensions, axis, repeats.
const REPEATS: &[(&[usize], u32, u32)] = &[
    (&[3, 5], 0, 3),
    (&[3, 5], 1, 4),
    (&[7], 0, 1),
    (&[3, 5, 7], 1, 2),
    (&[2, 3, 4, 5], 3, 3),
    (&[2, 3, 1, 5], 2, 5),
    (&[4, 3], 1, 0),
    (&[0, 3], 0, 2),
    (&[2, 0], 0, 3),
];

/// Dimensions of input and result.
const EXPANSIONS: &[(&[usize], &[usize])] = &[
    (&[3, 1], &[3, 5]),
    (&[], &[]),
    (&[], &[2, 3]),
    (&[5], &[3, 5]),
    (&[1, 5], &[4, 5]),
    (&[3, 5], &[3, 5]),
    (&[3, 1, 7], &[2, 3, 5, 7]),
    (&[1, 3, 1, 1], &[2, 3, 4, 5]),
    (&[2, 1, 3, 1], &[2, 4, 3, 2]),
    (&[1, 1], &[1, 1]),
    (&[1, 3], &[0, 3]),
    (&[3, 1], &[3, 0]),
    (&[1], &[1, 2, 1, 2, 2, 1, 2, 3]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(41);
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (from, to) in share(TILES, dtype) {
            let x = random.any(dtype, from);
            let y = take(&x, to, |at| at.iter().zip(*from).map(|(i, n)| i % n).collect());
            all.push(moved(&TILE, format!("{from:?} to {to:?}"), &NoAttributes {}, &[x], y));
        }
        for (from, axis, repeats) in share(REPEATS, dtype) {
            let x = random.any(dtype, from);
            let mut to = from.to_vec();
            to[*axis as usize] *= *repeats as usize;
            let y = take(&x, &to, |at| {
                let mut at = at.to_vec();
                at[*axis as usize] /= *repeats as usize;
                at
            });
            let attrs = Repeat { axis: *axis, repeats: *repeats };
            all.push(moved(&REPEAT, format!("{from:?} {repeats} times along {axis}"), &attrs, &[x], y));
        }
        for (from, to) in share(EXPANSIONS, dtype) {
            let x = random.any(dtype, from);
            let y = take(&x, to, |at| {
                let own = &at[to.len() - from.len()..];
                own.iter().zip(*from).map(|(i, n)| if *n == 1 { 0 } else { *i }).collect()
            });
            all.push(moved(&EXPAND, format!("{from:?} to {to:?}"), &NoAttributes {}, &[x], y));
        }
    }
    all
}
