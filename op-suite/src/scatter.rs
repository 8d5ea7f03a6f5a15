//! The scatter ops.

use crate::gather_nd::{BAD, ELEMENTS, indices, wrapped};
use crate::movement::share;
use crate::random::{Random, special};
use crate::tensor::{offset, position};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::scatter::*;
use serinette_core::op::softmax::Axis;
use serinette_core::op::{NoAttributes, OpDescriptor};

/// How an update changes an element.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Store,
    Add,
    Mul,
    Min,
    Max,
}

static BY_ELEMENT: &[(&OpDescriptor, Change)] = &[
    (&SCATTER_ELEMENTS, Change::Store),
    (&SCATTER_ELEMENTS_ADD, Change::Add),
    (&SCATTER_ELEMENTS_MUL, Change::Mul),
    (&SCATTER_ELEMENTS_MIN, Change::Min),
    (&SCATTER_ELEMENTS_MAX, Change::Max),
];

static BY_TUPLE: &[(&OpDescriptor, Change)] = &[
    (&SCATTER_ND, Change::Store),
    (&SCATTER_ND_ADD, Change::Add),
    (&SCATTER_ND_MUL, Change::Mul),
    (&SCATTER_ND_MIN, Change::Min),
    (&SCATTER_ND_MAX, Change::Max),
];

/// Dimensions of the data and of the tuples.
const TUPLES: &[(&[usize], &[usize])] = &[
    (&[3, 5, 7], &[4, 2]),
    (&[7], &[9, 1]),
    (&[3, 5], &[2, 3, 2]),
    (&[3, 5, 7], &[4, 1]),
    (&[3, 5], &[2]),
    (&[2, 3, 4, 5], &[2, 3, 3]),
    (&[3, 5], &[2, 0]),
    (&[3, 5], &[0, 1]),
    (&[3, 0], &[4, 1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(45);
    let mut all = Vec::new();
    for ((op, change), nd) in BY_ELEMENT.iter().zip(BY_TUPLE) {
        for dtype in op.outputs[0].dtypes.iter() {
            // Numbers where they are combined, any bits where they are stored.
            let mut numbers = |dims: &[usize]| match change {
                Change::Store => random.any(dtype, dims),
                _ => random.numbers(dtype, dims),
            };
            let all_elements: Vec<_> =
                share(ELEMENTS, dtype).map(|e| (e, numbers(e.0), numbers(e.2))).collect();
            let all_tuples: Vec<_> = share(TUPLES, dtype)
                .map(|(dims, shape)| {
                    let k = shape[shape.len() - 1];
                    let updates = [&shape[..shape.len() - 1], &dims[k..]].concat();
                    (dims, shape, numbers(dims), numbers(&updates))
                })
                .collect();
            let bad = [numbers(&[3, 5]), numbers(&[3, 3]), numbers(&[5, 2]), numbers(&[9, 2])];
            for ((dims, axis, shape), data, updates) in all_elements {
                let n = dims[*axis as usize] as i32;
                let at = random.i32s(shape, -n, (n - 1).max(-n));
                let what = format!("{dims:?} axis {axis} at {shape:?}");
                all.push(elements((op, *change), what, *axis, &data, &at, &updates));
            }
            for (dims, shape, data, updates) in all_tuples {
                let at = indices(&mut random, dims, shape);
                all.push(tuples((nd.0, nd.1), format!("{dims:?} at {shape:?}"), &data, &at, &updates));
            }
            let [data, updates, pairs, rows] = bad;
            let at = Tensor::i32(&[3, 3], &BAD);
            all.push(elements((op, *change), "bad indices".into(), 1, &data, &at, &updates));
            let at = Tensor::i32(&[9, 1], &BAD);
            all.push(tuples((nd.0, nd.1), "bad indices".into(), &pairs, &at, &rows));
            if *change != Change::Store {
                // Every special number meets every one, and all of them one element.
                let list = special(dtype);
                let n = list.elements();
                let (a, b) = crate::random::pairs(&list);
                let at = Tensor::i32(&[n, n], &(0..n * n).map(|i| (i / n) as i32).collect::<Vec<_>>());
                all.push(elements((op, *change), "special".into(), 0, &a, &at, &b));
                let at = Tensor::i32(&[n, 1], &vec![0; n]);
                let first = Tensor::new(dtype, &[1], list.element(n / 2).to_vec());
                all.push(tuples((nd.0, nd.1), "special".into(), &first, &at, &list));
            }
        }
    }
    let empty = Tensor::new(DType::F32, &[0], vec![]);
    let (at, updates) = (Tensor::i32(&[2], &[0, -1]), random.floats(DType::F32, &[2]));
    all.push(elements((&SCATTER_ELEMENTS, Change::Store), "empty axis".into(), 0, &empty, &at, &updates));
    all
}

/// The data as it changes: as numbers, or as bits where those are only stored.
struct Place {
    change: Change,
    float: bool,
    numbers: Vec<f64>,
    integers: Vec<i128>,
    data: Tensor,
}

impl Place {
    fn new(change: Change, data: &Tensor) -> Place {
        let float = matches!(data.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
        let (mut numbers, mut integers) = (vec![], vec![]);
        if change != Change::Store {
            if float { numbers = data.numbers() } else { integers = data.wide_integers() }
        }
        Place { change, float, numbers, integers, data: data.clone() }
    }

    /// Applies update `from` to element `to`; every result is rounded or wrapped to the type.
    fn update(&mut self, to: usize, updates: &Tensor, from: usize) {
        let dtype = self.data.dtype;
        if self.change == Change::Store {
            let size = dtype.size();
            self.data.bytes[to * size..(to + 1) * size].copy_from_slice(updates.element(from));
        } else if self.float {
            let (x, u) = (self.numbers[to], updates.number(from).unwrap_or(f64::NAN));
            // In f64, sums and products of narrower numbers round again to what they would have rounded to at once.
            let y = match self.change {
                Change::Add => x + u,
                Change::Mul => x * u,
                _ if x.is_nan() || u.is_nan() => f64::NAN,
                Change::Min => {
                    if u < x {
                        u
                    } else {
                        x
                    }
                }
                _ => {
                    if u > x {
                        u
                    } else {
                        x
                    }
                }
            };
            self.numbers[to] = Tensor::float(dtype, &[], &[y]).number(0).unwrap_or(f64::NAN);
        } else {
            let (x, u) = (self.integers[to], updates.wide_integers()[from]);
            let y = match self.change {
                Change::Add => x + u,
                Change::Mul => x.wrapping_mul(u),
                Change::Min => x.min(u),
                _ => x.max(u),
            };
            self.integers[to] = Tensor::integer(dtype, &[], &[y]).wide_integers()[0];
        }
    }

    fn finish(self) -> Tensor {
        let (dtype, dims) = (self.data.dtype, self.data.dims.clone());
        match (self.change, self.float) {
            (Change::Store, _) => self.data,
            (_, true) => Tensor::float(dtype, &dims, &self.numbers),
            (_, false) => Tensor::integer(dtype, &dims, &self.integers),
        }
    }
}

fn case(
    op: &OpDescriptor,
    what: &str,
    axis: Option<u32>,
    inputs: [&Tensor; 3],
    y: Tensor,
    fault: bool,
) -> Case {
    let what = format!("{}/{what}", name(y.dtype));
    let case = match axis {
        Some(axis) => Case::new(op, what, &Axis { axis, reserved: 0 }),
        None => Case::new(op, what, &NoAttributes {}),
    };
    let stored = op.code == SCATTER_ND.code || op.code == SCATTER_ELEMENTS.code;
    let tolerance = if stored { Tolerance::Bits } else { Tolerance::Exact };
    let case = inputs.into_iter().fold(case, |case, t| case.input(t)).output(y).within(tolerance);
    Case { expect_fault: fault, ..case.with_in_place(op) }
}

fn elements(
    (op, change): (&OpDescriptor, Change),
    what: String,
    axis: u32,
    data: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
) -> Case {
    let (mut place, mut fault) = (Place::new(change, data), false);
    for (i, index) in indices.integers().into_iter().enumerate() {
        let mut at = position(&indices.dims, i);
        match wrapped(index, data.dims[axis as usize]) {
            Some(index) => {
                at[axis as usize] = index;
                place.update(offset(&data.dims, &at), updates, i);
            }
            None => fault = true,
        }
    }
    case(op, &what, Some(axis), [data, indices, updates], place.finish(), fault)
}

fn tuples(
    (op, change): (&OpDescriptor, Change),
    what: String,
    data: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
) -> Case {
    let (mut place, mut fault) = (Place::new(change, data), false);
    let list = indices.integers();
    let (last, k) = (indices.dims.len() - 1, indices.dims[indices.dims.len() - 1]);
    for i in 0..updates.elements() {
        let at = position(&updates.dims, i);
        let tuple: Option<Vec<usize>> = (0..k)
            .map(|j| wrapped(list[offset(&indices.dims, &[&at[..last], &[j]].concat())], data.dims[j]))
            .collect();
        match tuple {
            Some(tuple) => place.update(offset(&data.dims, &[&tuple, &at[last..]].concat()), updates, i),
            None => fault = true,
        }
    }
    case(op, &what, None, [data, indices, updates], place.finish(), fault)
}
