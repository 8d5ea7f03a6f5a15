//! `Size`.

use crate::{Case, Tensor};
use serinette_core::MAX_RANK;
use serinette_core::op::size::{SIZE, Size};

/// Values of the dimension expressions; what an i32 cannot hold saturates.
const EXPRS: [u64; 9] =
    [0, 1, 7, 1000, i32::MAX as u64 - 1, i32::MAX as u64, i32::MAX as u64 + 1, 1 << 32, (1 << 62) + 5];

pub(crate) fn cases() -> Vec<Case> {
    let lists: &[(&[u32], u32)] = &[
        (&[2], 1),
        (&[6], 1),
        (&[3], 0),
        (&[0, 1, 2], 0),
        (&[5, 6, 7, 8], 0),
        (&[8, 4, 4, 0, 3, 1, 7, 2], 0),
    ];
    let each = |(ids, scalar): &(&[u32], u32)| {
        let mut exprs = [0; MAX_RANK];
        exprs[..ids.len()].copy_from_slice(ids);
        let attrs = Size { exprs, count: ids.len() as u32, scalar: *scalar };
        let y: Vec<i32> = ids.iter().map(|id| EXPRS[*id as usize].min(0x7fff_ffff) as i32).collect();
        let dims = if *scalar == 1 { vec![] } else { vec![ids.len()] };
        let case =
            Case::new(&SIZE, format!("{ids:?}, scalar {scalar}"), &attrs).output(Tensor::i32(&dims, &y));
        Case { exprs: EXPRS.to_vec(), ..case }
    };
    lists.iter().map(each).collect()
}
