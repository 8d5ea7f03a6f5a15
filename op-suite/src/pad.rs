//! The pads, for every element type, compared bit by bit.

use crate::movement::{moved, share};
use crate::random::Random;
use crate::tensor::{offset, position};
use crate::{Case, Tensor};
use serinette_core::op::OpDescriptor;
use serinette_core::op::pad::*;
use serinette_core::{DType, MAX_RANK};

/// Dimensions of the input, starts, dimensions of the result.
type Border = (&'static [usize], &'static [i32], &'static [usize]);

/// For every pad.
const BORDERS: &[Border] = &[
    (&[3, 5, 7], &[1, 2, 3], &[5, 8, 13]),
    (&[5], &[2], &[9]),
    (&[5], &[-2], &[3]),
    (&[3, 5, 7], &[0, 2, 0], &[3, 9, 7]),
    (&[3, 5, 7], &[2, 0, 0], &[4, 5, 7]),
    (&[], &[], &[]),
    (&[5], &[-2], &[7]),
    (&[5], &[9], &[31]),
    (&[5], &[-7], &[4]),
    (&[5], &[0], &[0]),
    (&[4, 6], &[-1, 1], &[2, 8]),
    (&[4, 6], &[1, -3], &[6, 2]),
    (&[1, 3], &[2, 1], &[5, 6]),
    (&[3, 1], &[1, 3], &[4, 9]),
    (&[2, 3, 4, 5], &[0, 0, 1, 2], &[2, 3, 6, 8]),
    (&[2, 3, 2, 5, 2], &[1, 0, 1, 0, 0], &[3, 4, 4, 5, 2]),
    (&[2, 1, 2, 1, 3, 1, 2, 2], &[0, 1, 0, 0, -1, 0, 1, 0], &[2, 3, 2, 1, 3, 1, 4, 2]),
    (&[0, 3], &[0, 1], &[0, 5]),
    (&[7], &[7], &[7]),
    (&[7], &[i32::MIN], &[3]),
    (&[7], &[i32::MAX], &[3]),
];

/// For the constant pad alone: nothing to take from, and a result that lies beside the input.
const OUTSIDE: &[Border] = &[(&[0, 3], &[1, 1], &[2, 4]), (&[5, 3], &[-6, 0], &[3, 4]), (&[4], &[3], &[2])];

/// The position along an axis of `n` elements that position `p` stands for.
type Rule = fn(p: i64, n: i64) -> Option<i64>;

static PADS: &[(&OpDescriptor, Rule)] = &[
    (&PAD, |p, n| Some(p).filter(|p| (0..n).contains(p))),
    (&PAD_REFLECT, |p, n| {
        // Bouncing between the ends, a pair of bounces at a time while far off.
        let mut p = p % (2 * (n - 1)).max(1);
        while n > 1 && !(0..n).contains(&p) {
            p = if p < 0 { -p } else { 2 * (n - 1) - p };
        }
        Some(if n > 1 { p } else { 0 })
    }),
    (&PAD_EDGE, |p, n| Some(p.max(0).min(n - 1))),
    (&PAD_WRAP, |p, n| Some(((p % n) + n) % n)),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(40);
    let mut all = Vec::new();
    for (op, rule) in PADS {
        for dtype in DType::ALL {
            let own: &[Border] = if op.code == PAD.code { OUTSIDE } else { &[] };
            for (i, border) in share(BORDERS, dtype).chain(own).enumerate() {
                let x = random.any(dtype, border.0);
                let value = (op.code == PAD.code && i % 2 == 0)
                    .then(|| random.any(dtype, if i % 4 == 0 { &[] } else { &[1, 1] }));
                all.push(pad(op, *rule, &x, value, border, 0));
            }
        }
        // Starts that are expressions.
        for (i, border) in BORDERS[..2].iter().enumerate() {
            let x = random.any(DType::F16, border.0);
            all.push(pad(op, *rule, &x, None, border, 1 + i as u32));
        }
    }
    all
}

fn pad(
    op: &OpDescriptor,
    rule: Rule,
    x: &Tensor,
    value: Option<Tensor>,
    (dims, starts, out): &Border,
    symbolic: u32,
) -> Case {
    let filler = value.as_ref().map_or(vec![0; x.dtype.size()], |v| v.element(0).to_vec());
    let bytes = (0..out.iter().product())
        .flat_map(|i| {
            let at = position(out, i);
            let from = at.iter().zip(*starts).zip(*dims);
            let from: Option<Vec<usize>> = from
                .map(|((i, s), n)| rule(*i as i64 - i64::from(*s), *n as i64).map(|p| p as usize))
                .collect();
            from.map_or(filler.clone(), |from| x.element(offset(dims, &from)).to_vec())
        })
        .collect();
    let y = Tensor::new(x.dtype, out, bytes);
    let mut attrs = Pad { symbolic: symbolic & ((1 << dims.len()) - 1), ..Pad::default() };
    attrs.starts[..starts.len()].copy_from_slice(starts);
    let mut exprs = Vec::new();
    for axis in (0..MAX_RANK).filter(|axis| attrs.symbolic >> axis & 1 == 1) {
        exprs.push(attrs.starts[axis] as u64);
        attrs.starts[axis] = exprs.len() as i32 - 1;
    }
    let filled = value.as_ref().map_or(String::new(), |v| format!(", value {:?}", v.dims));
    let what = format!("{dims:?} from {starts:?} to {out:?}{filled}, symbolic {symbolic}");
    let mut case = moved(op, what, &attrs, std::slice::from_ref(x), y);
    case.inputs.extend(value.map(Some));
    Case { exprs, ..case }
}
