//! Recurrent layers. All batches take a step together, so that every row of weights is read once for them; with enough
//! scratch, the products with `w` are made for all steps before the first.

use crate::cells::{Cell, Direction, Gru, Lstm, Rnn, Routines, Weights};
use crate::gate::Gate;
use crate::number::{self, Float, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{F16, F32, F64},
};
use crate::{expect, product};
use serinette_core::op;
use serinette_core::op::recurrent::{REVERSE, Recurrent};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { recurrent:
    op::recurrent::RNN => rnn_f32, F32 => F32;
    op::recurrent::RNN => rnn_f16, F16 => F16;
    op::recurrent::RNN => rnn_f64, F64 => F64;
    op::recurrent::GRU => gru_f32, F32 => F32;
    op::recurrent::GRU => gru_f16, F16 => F16;
    op::recurrent::GRU => gru_f64, F64 => F64;
    op::recurrent::LSTM => lstm_f32, F32 => F32;
    op::recurrent::LSTM => lstm_f16, F16 => F16;
    op::recurrent::LSTM => lstm_f64, F64 => F64;
};

macro_rules! typed {
    ($($name:ident = $cell:ident, $t:ty, $doc:literal;)+) => {
        $(#[doc = $doc]
        pub fn $name(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            layer::<$t, $cell>(step, ops, &Routines::REFERENCE)
        })+
    };
}

typed! {
    rnn_f32 = Rnn, f32, "`Rnn` in f32.";
    rnn_f16 = Rnn, number::F16, "`Rnn` of binary16, computed in f32.";
    rnn_f64 = Rnn, f64, "`Rnn` in f64.";
    gru_f32 = Gru, f32, "`Gru` in f32.";
    gru_f16 = Gru, number::F16, "`Gru` of binary16, computed in f32.";
    gru_f64 = Gru, f64, "`Gru` in f64.";
    lstm_f32 = Lstm, f32, "`Lstm` in f32.";
    lstm_f16 = Lstm, number::F16, "`Lstm` of binary16, computed in f32.";
    lstm_f64 = Lstm, f64, "`Lstm` in f64.";
}

/// A layer of cells `C`, computed with `routines`.
pub(crate) fn layer<'m, E: Stored, C: Cell>(
    step: &StepView<'_>,
    mut ops: Operands<'m>,
    routines: &Routines<E>,
) -> Result<(), KernelError>
where
    E::Wide: Stored<Wide = E::Wide>,
{
    let attrs: Recurrent = step.attributes()?;
    let (x_shape, r_shape) = (step.input(0)?, step.input(2)?);
    expect("rank of x", 3, x_shape.rank())?;
    expect("rank of r", 3, r_shape.rank())?;
    let (steps, batch, inputs, hidden) = (x_shape.dim(0), x_shape.dim(1), x_shape.dim(2), r_shape.dim(2));
    let rows = product(&[C::GATES, hidden]);
    let directions = attrs.directions();
    let state = product(&[directions, batch, hidden]);
    let (x, w, r) = (ops.input::<E>(0)?, ops.input::<E>(1)?, ops.input::<E>(2)?);
    let (bias, lengths, h0) = (ops.optional::<E>(3)?, ops.optional::<i32>(4)?, ops.optional::<E>(5)?);
    let (c0, peepholes) = if C::CELL { (ops.optional::<E>(6)?, ops.optional::<E>(7)?) } else { (None, None) };
    let (y, y_h) = (ops.output::<E>(0)?, ops.output::<E>(1)?);
    let y_c: &mut [E] = if C::CELL { ops.output(2)? } else { &mut [] };
    for (what, want, got) in [
        ("elements of x", product(&[steps, batch, inputs]), x.len()),
        ("elements of w", product(&[directions, rows, inputs]), w.len()),
        ("elements of r", product(&[directions, rows, hidden]), r.len()),
        ("elements of y", product(&[steps, state]), y.len()),
        ("elements of y_h", state, y_h.len()),
        ("elements of y_c", if C::CELL { state } else { 0 }, y_c.len()),
    ] {
        expect(what, want, got)?;
    }
    for (what, want, got) in [
        ("elements of b", product(&[directions, 2, rows]), bias.map(<[E]>::len)),
        ("lengths", batch, lengths.map(<[i32]>::len)),
        ("elements of h0", state, h0.map(<[E]>::len)),
        ("elements of c0", state, c0.map(<[E]>::len)),
        ("elements of p", product(&[directions, 3, hidden]), peepholes.map(<[E]>::len)),
    ] {
        expect(what, want, got.unwrap_or(want))?;
    }
    if state == 0 {
        return Ok(());
    }
    let scratch = ops.scratch::<E::Wide>();
    let found = scratch.len();
    let (room, extra) = scratch
        .split_at_mut_checked(product(&[batch, rows + C::VECTORS * hidden]))
        .ok_or(KernelError::new("scratch", product(&[batch, rows + C::VECTORS * hidden]), found))?;
    y.fill(E::zeroed());
    for d in 0..directions {
        let reverse = attrs.direction == REVERSE || d == 1;
        let of = |all: Option<&'m [E]>, size: usize| -> &'m [E] {
            all.and_then(|v| v.get(d * size..(d + 1) * size)).unwrap_or(&[])
        };
        let (w, r, bias) = (of(Some(w), rows * inputs), of(Some(r), rows * hidden), of(bias, 2 * rows));
        let gate = |i: usize| Gate::new(&attrs, d, C::FUNCTIONS, i.min(C::FUNCTIONS - 1));
        let functions = [gate(0)?, gate(1)?, gate(2)?];
        let (gates, states) = room.split_at_mut(batch * rows);
        let (h, more) = states.split_at_mut(batch * hidden);
        start(h, of(h0, batch * hidden));
        start(more, of(c0, batch * hidden));

        // Without enough room for everything, neither `w·x` of all steps nor a wide `r`.
        let narrow = size_of::<E>() < size_of::<E::Wide>();
        let widened = if narrow { rows * hidden } else { 0 };
        let ahead = product(&[steps, batch, rows]);
        let fast = extra.len() >= ahead.saturating_add(widened);
        let (projected, wide) = extra.split_at_mut(if fast { ahead } else { 0 });
        let row_bias = |row: &mut [E::Wide]| start_gates::<E, C>(row, bias, hidden, attrs.variant == 1);
        if fast {
            projected.chunks_exact_mut(rows).for_each(row_bias);
            (routines.inputs)(x, w, inputs, projected, rows);
            wide.iter_mut().zip(r).take(widened).for_each(|(wide, r)| *wide = r.load());
        }
        let weights = match wide.get(..widened) {
            Some(wide) if fast && narrow => Weights::Wide(wide),
            _ => Weights::Stored(r),
        };
        let direction = Direction {
            routines,
            hidden,
            bias: bias.get(rows..).unwrap_or(&[]),
            peepholes: of(peepholes, 3 * hidden),
            gates: &functions,
            variant: attrs.variant == 1,
            weights,
        };

        let length = |n: usize| match lengths.and_then(|l| l.get(n)) {
            Some(l) => usize::try_from(*l).unwrap_or(0).min(steps),
            None => steps,
        };
        for at in 0..steps {
            let active = |n: usize| at < length(n);
            let time = |n: usize| if reverse { length(n).wrapping_sub(at + 1) } else { at };
            if !(0..batch).any(active) {
                break;
            }
            for (n, row) in gates.chunks_exact_mut(rows).enumerate().filter(|(n, _)| active(*n)) {
                let taken = time(n) * batch + n;
                match projected.get(taken * rows..).and_then(|p| p.get(..rows)) {
                    Some(ready) => row.copy_from_slice(ready),
                    None => {
                        row_bias(row);
                        if lengths.is_some() {
                            let x = x.get(taken * inputs..).and_then(|x| x.get(..inputs)).unwrap_or(&[]);
                            (routines.inputs)(x, w, inputs, row, rows);
                        }
                    }
                }
            }
            if !fast && lengths.is_none() {
                // All batches are at one step, so their inputs are neighbours.
                let x =
                    x.get(time(0) * batch * inputs..).and_then(|x| x.get(..batch * inputs)).unwrap_or(&[]);
                (routines.inputs)(x, w, inputs, gates, rows);
            }
            C::step(&direction, gates, h, more, active);
            for (n, h) in h.chunks_exact(hidden).enumerate().filter(|(n, _)| active(*n)) {
                let to = ((time(n) * directions + d) * batch + n) * hidden;
                store(y.get_mut(to..).unwrap_or(&mut []), h);
            }
        }
        store(y_h.get_mut(d * batch * hidden..).unwrap_or(&mut []), h);
        if C::CELL {
            store(y_c.get_mut(d * batch * hidden..).unwrap_or(&mut []), more);
        }
    }
    Ok(())
}

/// Initial states; zeros where there are none.
fn start<E: Stored>(state: &mut [E::Wide], initial: &[E]) {
    state.fill(<E::Wide as Float>::ZERO);
    state.iter_mut().zip(initial).for_each(|(s, i)| *s = i.load());
}

/// The biases of the gates of one batch.
fn start_gates<E: Stored, C: Cell>(row: &mut [E::Wide], bias: &[E], hidden: usize, variant: bool) {
    start(row, bias);
    let both = if C::separate_bias(variant) { row.len() - hidden } else { row.len() };
    let (of_r, row) = (bias.get(row.len()..).unwrap_or(&[]), row.get_mut(..both).unwrap_or(&mut []));
    row.iter_mut().zip(of_r).for_each(|(g, b)| *g = *g + b.load());
}

fn store<E: Stored>(to: &mut [E], from: &[E::Wide]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = E::store(*from));
}
