//! Pooling windows element by element.

use super::conv::{positions, source};
use serinette_core::op::pool::Pool2d;

/// For every output element the input elements in its window and the number of taps that the window has; and the
/// dimensions of the result.
pub(crate) fn windows(attrs: &Pool2d, x: &[usize]) -> (Vec<usize>, Vec<(Vec<usize>, usize)>) {
    let g = &attrs.geometry;
    let taps = if attrs.kernel == [0, 0] { [x[2], x[3]] } else { attrs.kernel.map(|k| k as usize) };
    let (height, width) = (positions(g, 0, x[2], taps[0]), positions(g, 1, x[3], taps[1]));
    let mut all = Vec::new();
    for plane in 0..x[0] * x[1] {
        for oy in 0..height {
            for ox in 0..width {
                let mut found = Vec::new();
                for ky in 0..taps[0] {
                    for kx in 0..taps[1] {
                        let (iy, ix) = (source(g, 0, oy, ky), source(g, 1, ox, kx));
                        if (0..x[2] as i64).contains(&iy) && (0..x[3] as i64).contains(&ix) {
                            found.push((plane * x[2] + iy as usize) * x[3] + ix as usize);
                        }
                    }
                }
                all.push((found, taps[0] * taps[1]));
            }
        }
    }
    (vec![x[0], x[1], height, width], all)
}
