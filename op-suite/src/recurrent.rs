//! `Rnn`, `Gru` and `Lstm`.

use crate::random::Random;
use crate::reference::bounded::{Bounded, Precision, stored};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::OpDescriptor;
use serinette_core::op::recurrent::{BIDIRECTIONAL, GRU, LSTM, REVERSE, RNN, Recurrent};

/// A function of ONNX's list with its code and parameters, all monotone.
struct Function {
    code: u32,
    parameters: [f32; 2],
    f: fn(f64, f64, f64) -> f64,
}

const fn function(code: u32, parameters: [f32; 2], f: fn(f64, f64, f64) -> f64) -> Function {
    Function { code, parameters, f }
}

static FUNCTIONS: &[Function] = &[
    function(1, [0.0, 0.0], |x, _, _| 1.0 / (1.0 + (-x).exp())),
    function(2, [0.0, 0.0], |x, _, _| x.tanh()),
    function(3, [0.0, 0.0], |x, _, _| if x < 0.0 { 0.0 } else { x }),
    function(4, [0.75, 0.125], |x, a, b| a * x + b),
    function(5, [0.3, 0.0], |x, a, _| if x < 0.0 { a * x } else { x }),
    function(6, [0.0, 0.0], |x, a, _| if x < a { 0.0 } else { x }),
    function(7, [0.6, 0.9], |x, a, b| a * (b * x).tanh()),
    function(8, [0.2, 0.5], |x, a, b| (a * x + b).clamp(0.0, 1.0)),
    function(9, [0.7, 0.0], |x, a, _| if x < 0.0 { a * x.exp_m1() } else { x }),
    function(10, [0.0, 0.0], |x, _, _| x / (1.0 + x.abs())),
    function(11, [0.0, 0.0], |x, _, _| x.exp().ln_1p()),
];

/// A layer: its op, gates, the functions that are usual.
struct Layer {
    op: &'static OpDescriptor,
    gates: usize,
    usual: &'static [usize],
    /// Optional inputs from input 3 on: `b`, `lengths`, `h0`, `c0`, `p`.
    optional: usize,
}

static LAYERS: &[Layer] = &[
    Layer { op: &RNN, gates: 1, usual: &[1], optional: 3 },
    Layer { op: &GRU, gates: 3, usual: &[0, 1], optional: 3 },
    Layer { op: &LSTM, gates: 4, usual: &[0, 1, 1], optional: 5 },
];

/// The sizes of a case: steps, batches, inputs, hidden elements.
type Sizes = [usize; 4];

const SIZES: &[Sizes] = &[[5, 3, 4, 6], [1, 1, 1, 1], [4, 1, 11, 9], [3, 5, 2, 3], [2, 2, 17, 5]];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(250);
    let mut all = Vec::new();
    for layer in LAYERS {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            // Every set of optional inputs.
            for given in 0..1u32 << layer.optional {
                let index = given as usize;
                let attrs = attributes(layer, given % 3, given / 3 % 2, 0, f32::INFINITY);
                let what = format!("{}/inputs {given:b}, {attrs:?}", name(dtype));
                all.push(case(what, layer, &attrs, SIZES[index % SIZES.len()], dtype, given, &mut random));
            }
        }
        let everything = (1 << layer.optional) - 1;
        for direction in 0..=BIDIRECTIONAL {
            for variant in 0..2u32 {
                for given in [0, everything] {
                    for (s, sizes) in SIZES.iter().enumerate() {
                        let attrs = attributes(layer, direction, variant, 0, f32::INFINITY);
                        let what = format!("f32/{sizes:?}, inputs {given:b}, {direction} {variant}, {s}");
                        all.push(case(what, layer, &attrs, *sizes, DType::F32, given, &mut random));
                    }
                }
            }
        }
        // Every function in every place, with a clamp that matters.
        for shift in 0..FUNCTIONS.len() {
            let clip = [f32::INFINITY, 0.4][shift % 2];
            let attrs = attributes(layer, BIDIRECTIONAL, shift as u32 % 2, shift + 1, clip);
            let what = format!("f32/functions from {shift}, clip {clip}");
            all.push(case(what, layer, &attrs, [3, 2, 3, 4], DType::F32, everything, &mut random));
        }
        for sizes in [[0, 2, 3, 4], [3, 0, 2, 3], [3, 2, 0, 4], [2, 3, 4, 0]] {
            let attrs = attributes(layer, BIDIRECTIONAL, 0, 0, f32::INFINITY);
            all.push(case(
                format!("f32/empty {sizes:?}"),
                layer,
                &attrs,
                sizes,
                DType::F32,
                everything,
                &mut random,
            ));
        }
    }
    all
}

/// With `shift` 0 the usual functions, else others.
fn attributes(layer: &Layer, direction: u32, variant: u32, shift: usize, clip: f32) -> Recurrent {
    let directions = if direction == BIDIRECTIONAL { 2 } else { 1 };
    let variant = if layer.gates == 1 { 0 } else { variant };
    let mut a = Recurrent {
        direction,
        variant,
        functions: [0; 6],
        alpha: [0.0; 6],
        beta: [0.0; 6],
        clip,
        reserved: 0,
    };
    for i in 0..directions * layer.usual.len() {
        let which = if shift == 0 {
            layer.usual[i % layer.usual.len()]
        } else {
            (shift - 1 + i * 4) % FUNCTIONS.len()
        };
        let f = &FUNCTIONS[which];
        (a.functions[i], a.alpha[i], a.beta[i]) = (f.code, f.parameters[0], f.parameters[1]);
    }
    a
}

/// The operands with their numbers, `[direction][row][column]` flattened.
struct Operands<'a> {
    layer: &'a Layer,
    attrs: &'a Recurrent,
    sizes: Sizes,
    precision: Precision,
    x: Vec<f64>,
    w: Vec<f64>,
    r: Vec<f64>,
    b: Vec<f64>,
    p: Vec<f64>,
}

/// The states of one batch: h and c.
type State = [Vec<Bounded>; 2];

impl Operands<'_> {
    /// Function `i` of direction `d`, behind the clamp.
    fn apply(&self, d: usize, i: usize, x: Bounded) -> Bounded {
        let at = d * self.layer.usual.len() + i;
        let found = FUNCTIONS.iter().find(|f| f.code == self.attrs.functions[at]);
        let (a, b) = (f64::from(self.attrs.alpha[at]), f64::from(self.attrs.beta[at]));
        // A cell goes into the third function as it is.
        let clip = if i < 2 { f64::from(self.attrs.clip) } else { f64::INFINITY };
        let whole = |x: f64| found.map_or(f64::NAN, |f| (f.f)(x.clamp(-clip, clip), a, b));
        self.precision.monotone(x, whole)
    }

    /// `W·x + Wb` or `R·h + Rb` of row `row` of gate `gate`.
    fn product(&self, of_r: bool, d: usize, gate: usize, row: usize, v: &[Bounded]) -> Bounded {
        let [_, _, inputs, hidden] = self.sizes;
        let (m, k) = if of_r { (&self.r, hidden) } else { (&self.w, inputs) };
        let line = (d * self.layer.gates + gate) * hidden + row;
        let weights = m[line * k..(line + 1) * k].iter().map(|w| Bounded::from(*w));
        let part = (2 * d + usize::from(of_r)) * self.layer.gates * hidden;
        let bias = self.b.get(part + gate * hidden + row).copied().unwrap_or(0.0);
        let one = [(Bounded::from(bias), Bounded::from(1.0))];
        self.precision.dot(weights.zip(v.iter().copied()).chain(one))
    }

    /// What goes into a gate: both products.
    fn gate(&self, d: usize, gate: usize, row: usize, x: &[Bounded], h: &[Bounded]) -> Bounded {
        self.precision.add(self.product(false, d, gate, row, x), self.product(true, d, gate, row, h))
    }

    /// Peephole `which` times a cell, added.
    fn peep(&self, d: usize, which: usize, row: usize, sum: Bounded, c: Bounded) -> Bounded {
        let hidden = self.sizes[3];
        match self.p.get((d * 3 + which) * hidden + row) {
            Some(p) => self.precision.add(sum, self.precision.mul(Bounded::from(*p), c)),
            None => sum,
        }
    }

    fn step(&self, d: usize, x: &[Bounded], [h, c]: &State) -> State {
        let (u, one) = (self.precision, Bounded::from(1.0));
        let rows = 0..self.sizes[3];
        let coupled = self.attrs.variant == 1;
        match self.layer.gates {
            1 => [rows.map(|j| self.apply(d, 0, self.gate(d, 0, j, x, h))).collect(), vec![]],
            3 => {
                let f = |gate: usize, j: usize| self.apply(d, 0, self.gate(d, gate, j, x, h));
                let reset: Vec<Bounded> = rows.clone().map(|j| u.mul(f(1, j), h[j])).collect();
                let new = |j: usize| {
                    let before = self.product(false, d, 2, j, x);
                    let recurrent = if coupled {
                        u.mul(f(1, j), self.product(true, d, 2, j, h))
                    } else {
                        self.product(true, d, 2, j, &reset)
                    };
                    self.apply(d, 1, u.add(before, recurrent))
                };
                let next = |j: usize| u.add(u.mul(u.sub(one, f(0, j)), new(j)), u.mul(f(0, j), h[j]));
                [rows.map(next).collect(), vec![]]
            }
            _ => {
                let mut next: State = [vec![], vec![]];
                for j in rows {
                    let input = self.apply(d, 0, self.peep(d, 0, j, self.gate(d, 0, j, x, h), c[j]));
                    let forget = if coupled {
                        u.sub(one, input)
                    } else {
                        self.apply(d, 0, self.peep(d, 2, j, self.gate(d, 2, j, x, h), c[j]))
                    };
                    let new = self.apply(d, 1, self.gate(d, 3, j, x, h));
                    let cell = u.add(u.mul(forget, c[j]), u.mul(input, new));
                    let output = self.apply(d, 0, self.peep(d, 1, j, self.gate(d, 1, j, x, h), cell));
                    next[0].push(u.mul(output, self.apply(d, 2, cell)));
                    next[1].push(cell);
                }
                next
            }
        }
    }
}

/// Numbers of a size that keeps gates where they are steep.
fn small(random: &mut Random, dtype: DType, dims: &[usize], size: f64) -> Tensor {
    let numbers: Vec<f64> = random.floats(dtype, dims).numbers().iter().map(|x| x * size).collect();
    Tensor::float(dtype, dims, &numbers)
}

fn case(
    what: String,
    layer: &Layer,
    attrs: &Recurrent,
    sizes: Sizes,
    dtype: DType,
    given: u32,
    random: &mut Random,
) -> Case {
    let [steps, batch, inputs, hidden] = sizes;
    let (d, rows) = (attrs.directions(), layer.gates * hidden);
    let x = random.floats(dtype, &[steps, batch, inputs]);
    let w = small(random, dtype, &[d, rows, inputs], 0.4);
    let r = small(random, dtype, &[d, rows, hidden], 0.3);
    let has = |i: usize| given >> i & 1 == 1;
    let b = has(0).then(|| small(random, dtype, &[d, 2 * rows], 0.5));
    // Lengths below, within and beyond the range.
    let lengths: Vec<i32> = (0..batch)
        .map(|n| [steps as i32 - 1, 0, steps as i32 + 3, 1, -2][(n + given as usize) % 5])
        .collect();
    let lengths = has(1).then(|| Tensor::i32(&[batch], &lengths));
    let h0 = has(2).then(|| small(random, dtype, &[d, batch, hidden], 0.5));
    let c0 = has(3).then(|| small(random, dtype, &[d, batch, hidden], 0.5));
    let p = has(4).then(|| small(random, dtype, &[d, 3 * hidden], 0.5));
    let numbers = |t: &Option<Tensor>| t.as_ref().map_or(vec![], Tensor::numbers);
    let operands = Operands {
        layer,
        attrs,
        sizes,
        precision: Precision::of(dtype),
        x: x.numbers(),
        w: w.numbers(),
        r: r.numbers(),
        b: numbers(&b),
        p: numbers(&p),
    };
    let ends = lengths.as_ref().map_or(vec![steps as i64; batch], Tensor::integers);
    let mut y = vec![Bounded::default(); steps * d * batch * hidden];
    let mut last: [Vec<Bounded>; 2] = [vec![], vec![]];
    for direction in 0..d {
        for (n, end) in ends.iter().enumerate() {
            let initial = |t: &Option<Tensor>| -> Vec<Bounded> {
                let all = numbers(t);
                let at = (direction * batch + n) * hidden;
                (at..at + hidden).map(|i| Bounded::from(all.get(i).copied().unwrap_or(0.0))).collect()
            };
            let mut state = [initial(&h0), initial(&c0)];
            let end = (*end).clamp(0, steps as i64) as usize;
            let reverse = attrs.direction == REVERSE || direction == 1;
            for i in 0..end {
                let t = if reverse { end - 1 - i } else { i };
                let at = (t * batch + n) * inputs;
                let here: Vec<Bounded> =
                    operands.x[at..at + inputs].iter().map(|x| Bounded::from(*x)).collect();
                state = operands.step(direction, &here, &state);
                let to = ((t * d + direction) * batch + n) * hidden;
                y[to..to + hidden].copy_from_slice(&state[0]);
            }
            let [h, c] = state;
            last[0].extend(h);
            last[1].extend(c);
        }
    }
    let mut case = Case::new(layer.op, what, attrs).input(&x).input(&w).input(&r);
    for t in [b, lengths, h0, c0, p].iter().take(layer.optional) {
        case = case.optional(t.as_ref());
    }
    while matches!(case.inputs.last(), Some(None)) {
        case.inputs.pop();
    }
    let (state, mut bounds) = ([d, batch, hidden], vec![]);
    let mut outputs = vec![(vec![steps, d, batch, hidden], y), (state.to_vec(), last[0].clone())];
    if layer.gates == 4 {
        outputs.push((state.to_vec(), last[1].clone()));
    }
    for (dims, all) in outputs {
        let (t, b) = stored(dtype, &dims, &all);
        case = case.output(t);
        bounds.extend(b);
    }
    case.within(Tolerance::Bounds(bounds))
}
