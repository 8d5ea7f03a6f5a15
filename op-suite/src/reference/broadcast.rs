//! The numpy broadcasting rule by multi-indices.

use crate::tensor::{offset, position};

/// The common shape, and for every element of it the elements of the two operands.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> (Vec<usize>, Vec<(usize, usize)>) {
    let rank = a.len().max(b.len());
    let pad = |d: &[usize]| [vec![1; rank - d.len()], d.to_vec()].concat();
    let (wide_a, wide_b) = (pad(a), pad(b));
    let dims: Vec<usize> = wide_a.iter().zip(&wide_b).map(|(a, b)| if *a == 1 { *b } else { *a }).collect();
    let pick = |operand: &[usize], at: &[usize]| {
        let own: Vec<usize> = at.iter().zip(operand).map(|(i, d)| if *d == 1 { 0 } else { *i }).collect();
        offset(operand, &own)
    };
    let pairs = (0..dims.iter().product())
        .map(|i| {
            let at = position(&dims, i);
            (pick(&wide_a, &at), pick(&wide_b, &at))
        })
        .collect();
    (dims, pairs)
}
