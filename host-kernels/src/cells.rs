//! One step of the recurrent layers.

use crate::dots::add_products;
use crate::functions::Elementary;
use crate::gate::Gate;
use crate::number::{Float, Stored};

/// A function like [`add_products`]: rows `a`, rows `b`, their length, sums of type `W`, and the sums of a row of `a`.
pub(crate) type AddProducts<A, B, W> = fn(&[A], &[B], usize, &mut [W], usize);

/// What a layer is computed with: plain loops, or vectors of the processor where they are known.
pub(crate) struct Routines<E: Stored> {
    /// [`add_products`] of inputs and `w`.
    pub(crate) inputs: AddProducts<E, E, E::Wide>,
    /// [`add_products`] of states and `r`.
    pub(crate) states: AddProducts<E::Wide, E, E::Wide>,
    /// [`Gate::apply`].
    pub(crate) gate: fn(&Gate<E::Wide>, &mut [E::Wide]),
}

impl<E: Stored> Routines<E>
where
    E::Wide: Stored<Wide = E::Wide>,
{
    /// Plain loops.
    pub(crate) const REFERENCE: Self =
        Routines { inputs: add_products::<E, E>, states: add_products::<E::Wide, E>, gate: Gate::apply };
}

/// The numbers of one direction.
pub(crate) struct Direction<'a, E: Stored> {
    pub(crate) routines: &'a Routines<E>,
    pub(crate) hidden: usize,
    /// Biases of the products with `r`, or nothing.
    pub(crate) bias: &'a [E],
    pub(crate) peepholes: &'a [E],
    pub(crate) gates: &'a [Gate<E::Wide>],
    pub(crate) variant: bool,
    pub(crate) weights: Weights<'a, E>,
}

/// `r`, as it is stored or widened.
pub(crate) enum Weights<'a, E: Stored> {
    Stored(&'a [E]),
    Wide(&'a [E::Wide]),
}

impl<E: Stored> Direction<'_, E>
where
    E::Wide: Stored<Wide = E::Wide>,
{
    /// Replaces every element by the function of a gate.
    fn apply(&self, gate: &Gate<E::Wide>, v: &mut [E::Wide]) {
        (self.routines.gate)(gate, v);
    }

    /// `out[n][j] += r[first · H + j] · h[n]` for `count · H` rows of `r`; the rows of `out` are `stride` apart.
    fn recur(&self, h: &[E::Wide], [first, count]: [usize; 2], out: &mut [E::Wide], stride: usize) {
        let (k, rows) = (self.hidden, self.hidden * self.hidden);
        let part = first * rows..(first + count) * rows;
        match &self.weights {
            Weights::Stored(r) => (self.routines.states)(h, r.get(part).unwrap_or(&[]), k, out, stride),
            Weights::Wide(r) => add_products(h, r.get(part).unwrap_or(&[]), k, out, stride),
        }
    }
}

/// A step of all batches: `gates` hold biases and `w·x`, `h` and `more` are `[N, H]` and change where the batch is
/// `active`.
pub(crate) trait Cell {
    const GATES: usize;
    /// Functions of a direction.
    const FUNCTIONS: usize;
    /// Vectors of `H` in scratch besides the gates.
    const VECTORS: usize;
    /// Whether `more` is a state, with an initial value and a result.
    const CELL: bool = false;
    /// Whether the bias of `r` for the last gate stays out of the gates.
    fn separate_bias(_: bool) -> bool {
        false
    }
    fn step<E: Stored>(
        d: &Direction<'_, E>,
        gates: &mut [E::Wide],
        h: &mut [E::Wide],
        more: &mut [E::Wide],
        active: impl Fn(usize) -> bool,
    ) where
        E::Wide: Stored<Wide = E::Wide>;
}

pub(crate) struct Rnn;

impl Cell for Rnn {
    const GATES: usize = 1;
    const FUNCTIONS: usize = 1;
    const VECTORS: usize = 1;

    fn step<E: Stored>(
        d: &Direction<'_, E>,
        gates: &mut [E::Wide],
        h: &mut [E::Wide],
        _: &mut [E::Wide],
        active: impl Fn(usize) -> bool,
    ) where
        E::Wide: Stored<Wide = E::Wide>,
    {
        let (size, [f, ..]) = (d.hidden, d.gates) else { return };
        d.recur(h, [0, 1], gates, size);
        for (n, (g, h)) in gates.chunks_exact_mut(size).zip(h.chunks_exact_mut(size)).enumerate() {
            if active(n) {
                d.apply(f, g);
                h.copy_from_slice(g);
            }
        }
    }
}

pub(crate) struct Gru;

impl Cell for Gru {
    const GATES: usize = 3;
    const FUNCTIONS: usize = 2;
    const VECTORS: usize = 2;

    fn separate_bias(variant: bool) -> bool {
        variant
    }

    fn step<E: Stored>(
        d: &Direction<'_, E>,
        gates: &mut [E::Wide],
        h: &mut [E::Wide],
        more: &mut [E::Wide],
        active: impl Fn(usize) -> bool,
    ) where
        E::Wide: Stored<Wide = E::Wide>,
    {
        let (size, [f, g, ..]) = (d.hidden, d.gates) else { return };
        d.recur(h, [0, 2], gates, 3 * size);
        let batches = gates.chunks_exact_mut(3 * size).zip(h.chunks_exact(size));
        for (n, ((zrn, h), more)) in batches.zip(more.chunks_exact_mut(size)).enumerate() {
            let (zr, _) = zrn.split_at_mut(2 * size);
            if active(n) {
                d.apply(f, zr);
            }
            let (_, r) = zr.split_at(size);
            if !d.variant {
                more.iter_mut().zip(r).zip(h).for_each(|((m, r), h)| *m = *r * *h);
            } else if let Some(bias) = d.bias.get(2 * size..) {
                more.iter_mut().zip(bias).for_each(|(m, b)| *m = b.load());
            } else {
                more.fill(E::Wide::ZERO);
            }
        }
        if d.variant {
            d.recur(h, [2, 1], more, size);
        } else if let Some(last) = gates.get_mut(2 * size..) {
            d.recur(more, [2, 1], last, 3 * size);
        }
        let batches = gates.chunks_exact_mut(3 * size).zip(h.chunks_exact_mut(size));
        for (i, ((zrn, h), more)) in batches.zip(more.chunks_exact(size)).enumerate() {
            if !active(i) {
                continue;
            }
            let (zr, n) = zrn.split_at_mut(2 * size);
            let (z, r) = zr.split_at(size);
            if d.variant {
                n.iter_mut().zip(r).zip(more).for_each(|((n, r), m)| *n = *n + *r * *m);
            }
            d.apply(g, n);
            for ((h, z), n) in h.iter_mut().zip(z).zip(n) {
                *h = (E::Wide::of(1.0) - *z) * *n + *z * *h;
            }
        }
    }
}

pub(crate) struct Lstm;

impl Cell for Lstm {
    const GATES: usize = 4;
    const FUNCTIONS: usize = 3;
    const VECTORS: usize = 2;
    const CELL: bool = true;

    fn step<E: Stored>(
        d: &Direction<'_, E>,
        gates: &mut [E::Wide],
        h: &mut [E::Wide],
        cells: &mut [E::Wide],
        active: impl Fn(usize) -> bool,
    ) where
        E::Wide: Stored<Wide = E::Wide>,
    {
        let (size, [f, g, last, ..]) = (d.hidden, d.gates) else { return };
        d.recur(h, [0, 4], gates, 4 * size);
        let batches = gates.chunks_exact_mut(4 * size).zip(h.chunks_exact_mut(size));
        for (n, ((iofc, h), c)) in batches.zip(cells.chunks_exact_mut(size)).enumerate() {
            if !active(n) {
                continue;
            }
            let (io, fc) = iofc.split_at_mut(2 * size);
            let ((input, output), (forget, new)) = (io.split_at_mut(size), fc.split_at_mut(size));
            let peep = |gate: &mut [E::Wide], which: usize, c: &[E::Wide]| {
                let p = d.peepholes.get(which * size..).unwrap_or(&[]);
                gate.iter_mut().zip(p).zip(c).for_each(|((g, p), c)| *g = *g + p.load() * *c);
            };
            peep(input, 0, c);
            d.apply(f, input);
            if d.variant {
                forget.iter_mut().zip(&*input).for_each(|(f, i)| *f = E::Wide::of(1.0) - *i);
            } else {
                peep(forget, 2, c);
                d.apply(f, forget);
            }
            d.apply(g, new);
            for (((c, f), i), n) in c.iter_mut().zip(forget).zip(&*input).zip(new) {
                *c = *f * *c + *i * *n;
            }
            peep(output, 1, c);
            d.apply(f, output);
            input.copy_from_slice(c);
            d.apply(last, input);
            h.iter_mut().zip(output).zip(input).for_each(|((h, o), i)| *h = *o * *i);
        }
    }
}
