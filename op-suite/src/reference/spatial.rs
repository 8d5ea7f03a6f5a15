//! Windows over any number of spatial axes, by multi-indices.

use crate::tensor::{offset, position};
use serinette_core::op::spatial::Spatial;

/// The numbers of one axis.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) stride: i64,
    pub(crate) before: i64,
    pub(crate) after: i64,
    pub(crate) dilation: i64,
}

/// Axis `i` of `count`.
pub(crate) fn axis(g: &Spatial, count: usize, i: usize) -> Axis {
    let at = 3 - count + i;
    let of = |list: &[u32; 3]| i64::from(list[at]);
    Axis { stride: of(&g.strides), before: of(&g.before), after: of(&g.after), dilation: of(&g.dilations) }
}

/// Every multi-index below `dims`, in row-major order.
pub(crate) fn indices(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..dims.iter().product()).map(move |i| position(dims, i))
}

/// Positions of windows that fit.
fn positions(a: Axis, size: usize, taps: usize) -> usize {
    let span = (taps as i64 - 1) * a.dilation + 1;
    (0..).take_while(|p| p * a.stride + span <= size as i64 + a.before + a.after).count()
}

/// Where in `x` the taps `tap` of the window at `at` lie; `None` in the padding.
pub(crate) fn source(g: &Spatial, x: &[usize], at: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
    (0..at.len())
        .map(|i| {
            let a = axis(g, at.len(), i);
            let p = at[i] as i64 * a.stride - a.before + tap[i] as i64 * a.dilation;
            (0..x[i] as i64).contains(&p).then_some(p as usize)
        })
        .collect()
}

/// Calls `each` for every output element of a convolution in order, with its channel and the pairs of elements of `x`
/// and `w` that it sums. Gives the dimensions of the result.
pub(crate) fn convolution(
    g: &Spatial,
    groups: usize,
    x: &[usize],
    w: &[usize],
    mut each: impl FnMut(usize, &[(usize, usize)]),
) -> Vec<usize> {
    let axes = x.len() - 2;
    let mut dims = vec![x[0], w[0]];
    dims.extend((0..axes).map(|i| positions(axis(g, axes, i), x[i + 2], w[i + 2])));
    for at in indices(&dims) {
        let mut pairs = Vec::new();
        for tap in indices(&w[1..]) {
            let channel = at[1] / (w[0] / groups) * w[1] + tap[0];
            if let Some(p) = source(g, &x[2..], &at[2..], &tap[1..]) {
                let from = offset(x, &[&[at[0], channel], &p[..]].concat());
                pairs.push((from, offset(w, &[&[at[1]], &tap[..]].concat())));
            }
        }
        each(at[1], &pairs);
    }
    dims
}

/// Every triple of elements of `y`, `x`, `w` of a transposed convolution, by spreading `x`; and the dimensions of `y`.
pub(crate) fn spread(
    g: &Spatial,
    output_padding: &[u32; 3],
    groups: usize,
    x: &[usize],
    w: &[usize],
) -> (Vec<usize>, Vec<[usize; 3]>) {
    let axes = x.len() - 2;
    let mut dims = vec![x[0], w[1] * groups];
    dims.extend((0..axes).map(|i| {
        let a = axis(g, axes, i);
        let full = a.stride * (x[i + 2] as i64 - 1) + a.dilation * (w[i + 2] as i64 - 1) + 1;
        (full + i64::from(output_padding[3 - axes + i]) - a.before - a.after) as usize
    }));
    let mut all = Vec::new();
    for from in indices(x) {
        for tap in indices(&w[1..]) {
            let to: Option<Vec<usize>> = (0..axes)
                .map(|i| {
                    let a = axis(g, axes, i);
                    let p = from[i + 2] as i64 * a.stride + tap[i + 1] as i64 * a.dilation - a.before;
                    (0..dims[i + 2] as i64).contains(&p).then_some(p as usize)
                })
                .collect();
            if let Some(to) = to {
                let channel = from[1] / (x[1] / groups) * w[1] + tap[0];
                let y = offset(&dims, &[&[from[0], channel], &to[..]].concat());
                all.push([y, offset(x, &from), offset(w, &[&[from[1]], &tap[..]].concat())]);
            }
        }
    }
    (dims, all)
}
