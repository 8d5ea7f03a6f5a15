//! The functions that the gates of recurrent layers pass through, over whole vectors.

use crate::functions::{self, Elementary};
use serinette_core::op::AttrError;
use serinette_core::op::recurrent::{GateFunction, Recurrent};

/// One function with its parameters and the clamp before it.
pub(crate) struct Gate<T> {
    function: GateFunction,
    alpha: T,
    beta: T,
    clip: T,
}

impl<T: Elementary> Gate<T> {
    /// Function `i` of direction `d` of a layer with `count` of them.
    pub(crate) fn new(a: &Recurrent, d: usize, count: usize, i: usize) -> Result<Gate<T>, AttrError> {
        let (function, alpha, beta) = a.function(d, count, i)?;
        let of = |x: f32| T::of(f64::from(x));
        // The third function takes a state, which is not clamped.
        let clip = if i < 2 { a.clip } else { f32::INFINITY };
        Ok(Gate { function, alpha: of(alpha), beta: of(beta), clip: of(clip) })
    }

    /// The function, unless something is clamped before it.
    #[cfg(feature = "std")]
    pub(crate) fn without_clamp(&self) -> Option<GateFunction> {
        (self.clip >= T::of(f64::INFINITY)).then_some(self.function)
    }

    /// Replaces every element by its function.
    #[inline(never)] // once for each type, not at every call
    pub(crate) fn apply(&self, v: &mut [T]) {
        let (a, b, clip, zero) = (self.alpha, self.beta, self.clip, T::ZERO);
        if clip < T::of(f64::INFINITY) {
            each(v, |x| functions::clamp(x, -clip, clip));
        }
        match self.function {
            GateFunction::Sigmoid => each(v, functions::sigmoid),
            GateFunction::Tanh => each(v, T::tanh),
            GateFunction::Relu => each(v, |x| if x > zero || x.nan() { x } else { zero }),
            GateFunction::Affine => each(v, |x| a * x + b),
            GateFunction::LeakyRelu => each(v, |x| functions::leaky_relu(x, a, b)),
            GateFunction::ThresholdedRelu => each(v, |x| if x < a { zero } else { x }),
            GateFunction::ScaledTanh => each(v, |x| a * (b * x).tanh()),
            GateFunction::HardSigmoid => each(v, |x| functions::hard_sigmoid(x, a, b)),
            GateFunction::Elu => each(v, |x| functions::elu(x, a, b)),
            GateFunction::Softsign => each(v, functions::softsign),
            GateFunction::Softplus => each(v, functions::softplus),
        }
    }
}

fn each<T: Copy>(v: &mut [T], f: impl Fn(T) -> T) {
    v.iter_mut().for_each(|x| *x = f(*x));
}
