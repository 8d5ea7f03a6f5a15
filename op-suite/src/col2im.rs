//! `Col2Im`: for every element of an image, the elements of all blocks that lie on it.

use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::col2im::*;

/// Batch and channels, image, blocks, strides, dilations, pads before and after.
struct Layout {
    outer: [usize; 2],
    image: &'static [usize],
    blocks: &'static [u32],
    strides: &'static [u32],
    dilations: &'static [u32],
    before: &'static [u32],
    after: &'static [u32],
}

const LAYOUTS: &[Layout] = &[
    Layout {
        outer: [2, 3],
        image: &[5, 7],
        blocks: &[2, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        before: &[0, 0],
        after: &[0, 0],
    },
    Layout {
        outer: [1, 2],
        image: &[6, 8],
        blocks: &[3, 2],
        strides: &[2, 3],
        dilations: &[1, 2],
        before: &[1, 2],
        after: &[0, 1],
    },
    Layout {
        outer: [2, 1],
        image: &[9],
        blocks: &[4],
        strides: &[3],
        dilations: &[2],
        before: &[3],
        after: &[2],
    },
    Layout {
        outer: [1, 2],
        image: &[4, 3, 5],
        blocks: &[2, 1, 2],
        strides: &[1, 2, 2],
        dilations: &[2, 1, 1],
        before: &[0, 1, 1],
        after: &[1, 0, 0],
    },
    // Longer than a row that is summed at a time, and gaps between the blocks.
    Layout {
        outer: [1, 1],
        image: &[2, 150],
        blocks: &[1, 3],
        strides: &[1, 5],
        dilations: &[1, 1],
        before: &[0, 4],
        after: &[0, 1],
    },
    // No block fits.
    Layout {
        outer: [1, 2],
        image: &[2, 3],
        blocks: &[3, 1],
        strides: &[1, 1],
        dilations: &[1, 1],
        before: &[0, 0],
        after: &[0, 0],
    },
    Layout {
        outer: [0, 2],
        image: &[3, 3],
        blocks: &[2, 2],
        strides: &[1, 1],
        dilations: &[1, 1],
        before: &[0, 0],
        after: &[0, 0],
    },
    Layout {
        outer: [1, 1],
        image: &[2, 2, 1, 2, 2, 3],
        blocks: &[1, 2, 1, 1, 2, 2],
        strides: &[1, 1, 1, 2, 1, 1],
        dilations: &[1; 6],
        before: &[0, 0, 0, 0, 0, 1],
        after: &[0; 6],
    },
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(50);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        all.extend(LAYOUTS.iter().map(|layout| case(&mut random, dtype, layout)));
    }
    all
}

fn case(random: &mut Random, dtype: DType, l: &Layout) -> Case {
    let axes = l.image.len();
    let blocks: Vec<usize> = l.blocks.iter().map(|b| *b as usize).collect();
    let positions: Vec<usize> = (0..axes)
        .map(|a| {
            let padded = l.image[a] as i64 + i64::from(l.before[a]) + i64::from(l.after[a]);
            let room = padded - (i64::from(l.blocks[a]) - 1) * i64::from(l.dilations[a]) - 1;
            if room < 0 { 0 } else { (room / i64::from(l.strides[a]) + 1) as usize }
        })
        .collect();
    let (inside, columns): (usize, usize) = (blocks.iter().product(), positions.iter().product());
    let x = random.floats(dtype, &[l.outer[0], l.outer[1] * inside, columns]);
    let list = x.numbers();
    let dims = [&l.outer[..], l.image].concat();
    let (mut y, mut sizes) = (vec![0.0; dims.iter().product()], vec![0.0; dims.iter().product()]);
    for (i, value) in list.iter().enumerate() {
        let at = position(&x.dims, i);
        let (k, block) = (position(&blocks, at[1] % inside), position(&positions, at[2]));
        let place: Vec<i64> = (0..axes)
            .map(|a| {
                block[a] as i64 * i64::from(l.strides[a]) - i64::from(l.before[a])
                    + k[a] as i64 * i64::from(l.dilations[a])
            })
            .collect();
        if place.iter().zip(l.image).all(|(p, n)| (0..*n as i64).contains(p)) {
            let inner = place.iter().map(|p| *p as usize);
            let to: Vec<usize> = [at[0], at[1] / inside].into_iter().chain(inner).collect();
            y[offset(&dims, &to)] += value;
            sizes[offset(&dims, &to)] += value.abs();
        }
    }
    // A sum of at most as many terms as a block has elements, in any order; then a rounding of result and expected value.
    let unit = if dtype == DType::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let stored = match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => unit,
    };
    let bounds = y.iter().zip(&sizes).map(|(y, s)| inside as f64 * unit * s + stored * y.abs()).collect();
    let mut attrs = Col2Im::default();
    attrs.blocks[..axes].copy_from_slice(l.blocks);
    attrs.strides[..axes].copy_from_slice(l.strides);
    attrs.dilations[..axes].copy_from_slice(l.dilations);
    attrs.pads_before[..axes].copy_from_slice(l.before);
    attrs.pads_after[..axes].copy_from_slice(l.after);
    let y = Tensor::float(dtype, &dims, &y);
    let what = format!("{}/{dims:?} of {:?}", name(dtype), l.blocks);
    Case::new(&COL2IM, what, &attrs).input(&x).output(y).within(Tolerance::Bounds(bounds))
}
