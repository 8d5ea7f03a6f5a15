//! `Attention`.

use crate::random::Random;
use crate::reference::bounded::{Bounded, Precision, only};
use crate::reference::spatial::indices;
use crate::tensor::offset;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::attention::{ATTENTION, Attention, UNLIMITED};

/// Batches, heads, key heads, queries, keys, width, width of the values.
type Sizes = [usize; 7];

const SIZES: &[Sizes] = &[
    [2, 3, 3, 4, 6, 5, 5],
    [1, 4, 2, 5, 7, 9, 3],
    [2, 6, 1, 1, 11, 4, 70],
    [1, 1, 1, 1, 1, 1, 1],
    [1, 2, 2, 3, 37, 17, 8],
];

const PLAIN: Attention =
    Attention { scale: 0.4, cap: 0.0, offset: 0, align_end: 0, left: UNLIMITED, right: UNLIMITED };

/// Ways to look at keys, by name.
const WINDOWS: &[(&str, Attention)] = &[
    ("all", PLAIN),
    ("causal", Attention { right: 0, ..PLAIN }),
    ("causal behind 3", Attention { right: 0, offset: 3, ..PLAIN }),
    ("causal at the end", Attention { right: 0, align_end: 1, ..PLAIN }),
    ("causal before the first", Attention { right: 0, offset: -2, ..PLAIN }),
    ("sliding", Attention { right: 0, left: 2, align_end: 1, ..PLAIN }),
    ("sliding both ways", Attention { right: 1, left: 2, ..PLAIN }),
    ("window beyond the keys", Attention { right: 5, left: 0, offset: i32::MAX, ..PLAIN }),
    ("capped", Attention { cap: 0.75, ..PLAIN }),
    ("capped, causal", Attention { cap: 2.0, right: 0, align_end: 1, ..PLAIN }),
    ("negative scale", Attention { scale: -1.5, ..PLAIN }),
];

/// Which dimensions of the mask are those of the scores; the others are 1. Lists are aligned at the innermost axis.
const MASKS: &[&[bool]] = &[
    &[true; 4],
    &[true, false, true, true],
    &[true, true],
    &[true],
    &[false, true, false],
    &[true, false, false, true],
    &[],
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(253);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (index, (what, attrs)) in WINDOWS.iter().enumerate() {
            for (m, mask) in [None, Some(DType::F32), Some(DType::Bool)].into_iter().enumerate() {
                for lengths in [false, true] {
                    let sizes = SIZES[(index + m) % SIZES.len()];
                    let kind = mask.map_or("no mask", name);
                    let what = format!("{}/{what}, {sizes:?}, {kind}, lengths {lengths}", name(dtype));
                    let shape = MASKS[(index * 3 + m) % MASKS.len()];
                    let operands =
                        Operands::new(&mut random, sizes, dtype, mask.map(|t| (t, shape)), lengths);
                    all.push(operands.case(what, attrs));
                }
            }
        }
    }
    for shape in MASKS {
        for t in [DType::F32, DType::Bool] {
            let operands = Operands::new(&mut random, SIZES[0], DType::F32, Some((t, shape)), false);
            all.push(operands.case(format!("f32/mask {} {shape:?}", name(t)), &PLAIN));
        }
    }
    for sizes in [
        [0, 2, 1, 3, 4, 2, 2],
        [1, 0, 1, 3, 4, 2, 2],
        [1, 2, 1, 0, 4, 2, 2],
        [1, 2, 1, 3, 0, 2, 2],
        [1, 2, 1, 3, 4, 0, 2],
        [1, 2, 1, 3, 4, 2, 0],
    ] {
        let operands = Operands::new(&mut random, sizes, DType::F32, Some((DType::F32, &[true; 4])), true);
        all.push(operands.case(format!("f32/empty {sizes:?}"), &PLAIN));
    }
    special(&mut random, &mut all);
    all
}

/// Numbers that are none, in keys that are admitted and in others; scores far apart.
fn special(random: &mut Random, all: &mut Vec<Case>) {
    let sizes = [1, 1, 1, 4, 5, 3, 2];
    let operands = || Operands::new(&mut Random::new(7), sizes, DType::F32, None, false);
    let put =
        |t: &mut Tensor, at: usize, x: f32| t.bytes[at * 4..at * 4 + 4].copy_from_slice(&x.to_le_bytes());
    let causal = WINDOWS[1].1;
    for (what, x) in [("NaN", f32::NAN), ("∞", f32::INFINITY), ("−∞", f32::NEG_INFINITY)] {
        let mut o = operands();
        put(&mut o.k, 3 * 3 + 1, x);
        all.push(o.case(format!("f32/special/{what} in a key"), &causal));
        let mut o = operands();
        put(&mut o.v, 3 * 2 + 1, x);
        all.push(o.case(format!("f32/special/{what} in a value"), &causal));
        let mut o = operands();
        put(&mut o.k, 3 * 3 + 1, x);
        put(&mut o.v, 3 * 2, x);
        o.mask = Some(Tensor::bool(&[5], &[true, true, true, false, true]));
        all.push(o.case(format!("f32/special/{what} behind the mask"), &PLAIN));
        o.mask = Some(Tensor::f32(&[5], &[0.0, 0.0, 0.0, f32::NEG_INFINITY, 1.0]));
        all.push(o.case(format!("f32/special/{what} behind −∞"), &PLAIN));
        let mut o = operands();
        o.mask = Some(Tensor::f32(&[4, 1], &[0.5, x, -0.5, 0.0]));
        all.push(o.case(format!("f32/special/{what} in the mask"), &PLAIN));
    }
    let mut o = operands();
    o.mask = Some(Tensor::bool(&[4, 1], &[true, false, true, false]));
    all.push(o.case("f32/special/rows without keys".into(), &PLAIN));
    // Exponentials of −400 are nothing beside 1.
    let mut o = Operands::new(random, sizes, DType::F32, None, false);
    o.mask = Some(Tensor::f32(&[5], &[-400.0, 0.0, -400.0, -1e30, 2.0]));
    all.push(o.case("f32/special/scores far apart".into(), &PLAIN));
}

struct Operands {
    sizes: Sizes,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Option<Tensor>,
    lengths: Option<Tensor>,
}

impl Operands {
    fn new(
        random: &mut Random,
        sizes: Sizes,
        dtype: DType,
        mask: Option<(DType, &[bool])>,
        lengths: bool,
    ) -> Operands {
        let [b, h, kept, s, l, d, dv] = sizes;
        let mask = mask.map(|(t, shape)| {
            let dims: Vec<usize> = shape
                .iter()
                .zip(&[b, h, s, l][4 - shape.len()..])
                .map(|(whole, d)| if *whole { *d } else { 1 })
                .collect();
            if t == DType::Bool { random.small(t, &dims, 0, 1) } else { random.floats(t, &dims) }
        });
        // Lengths below, at and beyond the range.
        let ends: Vec<i32> = (0..b).map(|i| [l as i32 - 1, -3, l as i32 + 2][(i + l) % 3]).collect();
        Operands {
            sizes,
            q: random.floats(dtype, &[b, h, s, d]),
            k: random.floats(dtype, &[b, kept, l, d]),
            v: random.floats(dtype, &[b, kept, l, dv]),
            mask,
            lengths: lengths.then(|| Tensor::i32(&[b], &ends)),
        }
    }

    /// What the mask adds to the score of a key, −∞ where it is shut out.
    fn masked(&self, at: [usize; 4]) -> f64 {
        let Some(m) = &self.mask else { return 0.0 };
        let own = &at[4 - m.dims.len()..];
        let at: Vec<usize> = m.dims.iter().zip(own).map(|(d, i)| if *d == 1 { 0 } else { *i }).collect();
        let x = m.number(offset(&m.dims, &at)).unwrap_or(f64::NAN);
        match m.dtype {
            DType::Bool if x == 0.0 => f64::NEG_INFINITY,
            DType::Bool => 0.0,
            _ => x,
        }
    }

    fn case(&self, what: String, a: &Attention) -> Case {
        let [b, h, kept, s, l, d, dv] = self.sizes;
        let u = Precision::of(self.q.dtype);
        let [q, k, v] = [&self.q, &self.k, &self.v].map(Tensor::numbers);
        let lengths = self.lengths.as_ref().map_or(vec![l as i64; b], Tensor::integers);
        let (scale, cap) = (Bounded::from(f64::from(a.scale)), f64::from(a.cap));
        let mut y = Vec::new();
        for at in indices(&[b, h, s]) {
            let (n, head, row) = (at[0], at[1], at[2]);
            let own = head / (h / kept);
            let keys = lengths[n].clamp(0, l as i64);
            let p = row as i64 + if a.align_end == 1 { keys - s as i64 } else { i64::from(a.offset) };
            let within = |j: i64| {
                (a.left == UNLIMITED || j >= p - i64::from(a.left))
                    && (a.right == UNLIMITED || j <= p + i64::from(a.right))
            };
            let score = |j: usize| {
                let element = |i: usize| {
                    (
                        Bounded::from(q[offset(&[b, h, s, d], &[n, head, row, i])]),
                        Bounded::from(k[offset(&[b, kept, l, d], &[n, own, j, i])]),
                    )
                };
                let scaled = u.mul(u.dot((0..d).map(element)), scale);
                let capped = if cap > 0.0 { u.monotone(scaled, |x| cap * (x / cap).tanh()) } else { scaled };
                u.add(capped, Bounded::from(self.masked([n, head, row, j])))
            };
            let admitted: Vec<(usize, Bounded)> = (0..keys as usize)
                .filter(|j| within(*j as i64) && self.masked([n, head, row, *j]) != f64::NEG_INFINITY)
                .map(|j| (j, score(j)))
                .filter(|(_, score)| score.value != f64::NEG_INFINITY)
                .collect();
            let most = admitted.iter().map(|(_, s)| s.value).fold(f64::NEG_INFINITY, f64::max);
            // The greatest score of a device may be another, off by its error; it cancels out of the quotient.
            let weights: Vec<Bounded> =
                admitted.iter().map(|(_, s)| u.monotone(u.sub(*s, Bounded::from(most)), f64::exp)).collect();
            let sum = u.dot(weights.iter().map(|w| (*w, Bounded::from(1.0))));
            for i in 0..dv {
                let value = |j: usize| Bounded::from(v[offset(&[b, kept, l, dv], &[n, own, j, i])]);
                let pairs = admitted.iter().zip(&weights).map(|((j, _), w)| (*w, value(*j)));
                y.push(match admitted.is_empty() {
                    true => Bounded::default(),
                    false => u.div(u.dot(pairs), sum),
                });
            }
        }
        let (y, tolerance) = only(self.q.dtype, &[b, h, s, dv], &y);
        let case = Case::new(&ATTENTION, what, a).input(&self.q).input(&self.k).input(&self.v);
        let case = if self.mask.is_some() || self.lengths.is_some() {
            case.optional(self.mask.as_ref())
        } else {
            case
        };
        let case = if self.lengths.is_some() { case.optional(self.lengths.as_ref()) } else { case };
        case.output(y).within(tolerance)
    }
}
