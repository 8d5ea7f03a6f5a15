//! Which elements go together.

use crate::tensor::{offset, position};

/// For every element of a result in which the axes that are `taken` have size 1: the elements that it comes from, in
/// row-major order. Gives the dimensions of the result first.
pub(crate) fn rows(dims: &[usize], taken: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<Vec<usize>>) {
    let kept: Vec<usize> = dims.iter().enumerate().map(|(i, d)| if taken(i) { 1 } else { *d }).collect();
    let mut all = vec![Vec::new(); kept.iter().product()];
    for i in 0..dims.iter().product() {
        let at: Vec<usize> =
            position(dims, i).iter().enumerate().map(|(axis, p)| if taken(axis) { 0 } else { *p }).collect();
        all[offset(&kept, &at)].push(i);
    }
    (kept, all)
}

/// A result for every element from the row that it is in: `f` is given the row and gives one result for each member.
pub(crate) fn along<T: Clone>(
    dims: &[usize],
    taken: impl Fn(usize) -> bool,
    nothing: T,
    mut f: impl FnMut(&[usize]) -> Vec<T>,
) -> Vec<T> {
    let mut all = vec![nothing; dims.iter().product()];
    for row in rows(dims, taken).1 {
        for (i, y) in row.iter().zip(f(&row)) {
            all[*i] = y;
        }
    }
    all
}
