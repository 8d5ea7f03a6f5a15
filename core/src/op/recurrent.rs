//! Recurrent layers: `Rnn`, `Gru` and `Lstm`, each over whole sequences, in one or both directions. What they share is
//! said at [`Recurrent`].

use super::matmul::{flag, set_output};
use super::{
    AttrError, Attributes, Cost, OpDescriptor, Operand, ScratchClass, ShapeArgs, StepShapes, attributes,
};
use crate::dtype::{DType, DTypeSet};
use crate::shape::{DimAlgebra, Dims, ShapeError};

/// The functions that a gate may pass through, by their codes. `α` and `β` are its two parameters; those that a
/// function has not are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GateFunction {
    /// `1 / (1 + e^−x)`.
    Sigmoid = 1,
    /// `tanh x`.
    Tanh = 2,
    /// `x > 0 ? x : 0`; NaN stays NaN.
    Relu = 3,
    /// `α·x + β`.
    Affine = 4,
    /// `x < 0 ? α·x : x`.
    LeakyRelu = 5,
    /// `x < α ? 0 : x`; NaN stays NaN.
    ThresholdedRelu = 6,
    /// `α · tanh(β·x)`.
    ScaledTanh = 7,
    /// `min(max(α·x + β, 0), 1)`; NaN stays NaN.
    HardSigmoid = 8,
    /// `x < 0 ? α·(e^x − 1) : x`.
    Elu = 9,
    /// `x / (1 + |x|)`.
    Softsign = 10,
    /// `ln(1 + e^x)`, without overflow.
    Softplus = 11,
}

impl GateFunction {
    /// The function of a code.
    pub const fn from_code(code: u32) -> Result<GateFunction, AttrError> {
        Ok(match code {
            1 => GateFunction::Sigmoid,
            2 => GateFunction::Tanh,
            3 => GateFunction::Relu,
            4 => GateFunction::Affine,
            5 => GateFunction::LeakyRelu,
            6 => GateFunction::ThresholdedRelu,
            7 => GateFunction::ScaledTanh,
            8 => GateFunction::HardSigmoid,
            9 => GateFunction::Elu,
            10 => GateFunction::Softsign,
            11 => GateFunction::Softplus,
            _ => return Err(AttrError::new("function", 11, code as u64)),
        })
    }

    /// Whether `α` and `β` mean something.
    const fn parameters(self) -> [bool; 2] {
        match self {
            GateFunction::Affine | GateFunction::ScaledTanh | GateFunction::HardSigmoid => [true, true],
            GateFunction::LeakyRelu | GateFunction::ThresholdedRelu | GateFunction::Elu => [true, false],
            _ => [false, false],
        }
    }
}

/// [`Recurrent::direction`]: from the first step to the last.
pub const FORWARD: u32 = 0;
/// [`Recurrent::direction`]: from the last step to the first.
pub const REVERSE: u32 = 1;
/// [`Recurrent::direction`]: direction 0 forward, direction 1 in reverse.
pub const BIDIRECTIONAL: u32 = 2;

/// Attributes of the recurrent layers.
///
/// Shapes are those of ONNX with layout 0 (layout 1 is transposed first): `x` `[T, N, I]`, `w` `[D, G·H, I]`, `r`
/// `[D, G·H, H]`, `b` `[D, 2·G·H]` (the biases of `w`, then those of `r`), `lengths` i32 `[N]`, `h0` and `c0`
/// `[D, N, H]`; results `y` `[T, D, N, H]`, `y_h` and `y_c` `[D, N, H]`. `D` is the number of directions, `G` that of
/// gates (1, 3, 4), which lie one after another.
///
/// A sequence takes `lengths[n]` steps (all of `T` where `lengths` is absent; clamped to `0..=T`): a forward layer goes
/// from step 0 up, a reverse one from step `lengths[n] − 1` down to 0. `y` is 0 behind the end of a sequence. `y_h` and
/// `y_c` are the states after the last step taken, the initial ones where none is. Absent initial states, biases and
/// peepholes are 0.
///
/// Numbers are f32 (f64 in f64): states stay so between steps, and f16 alone rounds, once, when `y`, `y_h`, `y_c` are
/// stored. A gate starts from the sum of its two biases, to which `w·x`, then `r·h` are added, each the sum of eight
/// interleaved ones, whose error is at most that of summing along the row.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Recurrent {
    /// 0 forward, 1 reverse, 2 both: direction 0 forward and direction 1 in reverse.
    pub direction: u32,
    /// `Lstm`: 1 if the forget gate is 1 − the input gate. `Gru`: 1 if the reset gate is applied behind the product
    /// with `r` (ONNX `linear_before_reset`). Else 0.
    pub variant: u32,
    /// Functions of direction 0, then those of direction 1; `Lstm` has three for each (f, g, h), `Gru` two (f, g),
    /// `Rnn` one (f). What is not needed is 0. With α from `alpha` and β from `beta`: 1 sigmoid `1 / (1 + e^−x)`; 2
    /// `tanh x`; 3 relu `x > 0 ? x : 0`; 4 affine `α·x + β`; 5 leaky relu `x < 0 ? α·x : x`; 6 thresholded relu
    /// `x < α ? 0 : x`; 7 scaled tanh `α · tanh(β·x)`; 8 hard sigmoid `min(max(α·x + β, 0), 1)`; 9 elu
    /// `x < 0 ? α·(e^x − 1) : x`; 10 softsign `x / (1 + |x|)`; 11 softplus `ln(1 + e^x)`.
    pub functions: [u32; 6],
    /// First parameters of the functions; 0 for those that have none.
    pub alpha: [f32; 6],
    /// Second parameters of the functions; 0 for those that have none.
    pub beta: [f32; 6],
    /// What goes into `f` and `g` is clamped to `−clip..=clip` (NaN stays NaN); above 0, infinite for no clamp. What
    /// goes into `h` is not (as in ONNX Runtime; ONNX leaves it open).
    pub clip: f32,
    /// Zero.
    pub reserved: u32,
}

impl Recurrent {
    /// Directions that are run.
    pub fn directions(&self) -> usize {
        if self.direction == BIDIRECTIONAL { 2 } else { 1 }
    }

    /// Functions and their parameters for direction `d` of a layer with `count` functions.
    pub fn function(&self, d: usize, count: usize, i: usize) -> Result<(GateFunction, f32, f32), AttrError> {
        let at = (d * count + i).min(5);
        Ok((GateFunction::from_code(self.functions[at])?, self.alpha[at], self.beta[at]))
    }
}

impl Attributes for Recurrent {
    fn check(&self) -> Result<(), AttrError> {
        if self.direction > BIDIRECTIONAL {
            return Err(AttrError::new("direction", u64::from(BIDIRECTIONAL), u64::from(self.direction)));
        }
        flag("variant", self.variant)?;
        for (i, code) in self.functions.iter().enumerate() {
            let has = if *code == 0 { [false; 2] } else { GateFunction::from_code(*code)?.parameters() };
            for (field, v, has) in [("alpha", self.alpha[i], has[0]), ("beta", self.beta[i], has[1])] {
                if v.is_nan() || (!has && v.to_bits() != 0) {
                    return Err(AttrError::new(field, 0, u64::from(v.to_bits())));
                }
            }
        }
        if self.clip.is_nan() || self.clip <= 0.0 {
            return Err(AttrError::new(
                "clip",
                u64::from(f32::INFINITY.to_bits()),
                u64::from(self.clip.to_bits()),
            ));
        }
        super::matmul::reserved(self.reserved)
    }
}

/// What tells the layers apart.
struct Layer {
    gates: u64,
    functions: usize,
    variants: u32,
    /// States of a sequence in scratch (h, c) and vectors besides the gates, each of `H`.
    vectors: u64,
    peepholes: Option<usize>,
}

const RNN_LAYER: Layer = Layer { gates: 1, functions: 1, variants: 0, vectors: 1, peepholes: None };
const GRU_LAYER: Layer = Layer { gates: 3, functions: 2, variants: 1, vectors: 2, peepholes: None };
const LSTM_LAYER: Layer = Layer { gates: 4, functions: 3, variants: 1, vectors: 2, peepholes: Some(7) };

const TYPES: DTypeSet = DTypeSet::of(&[DType::F32, DType::F16, DType::F64]);
const X: Operand = Operand::data("x", 'T', TYPES);
const W: Operand = Operand::data("w", 'T', TYPES);
const R: Operand = Operand::data("r", 'T', TYPES);
const B: Operand = Operand::data("b", 'T', TYPES).optional();
const LENGTHS: Operand = Operand::data("lengths", '-', DTypeSet::of(&[DType::I32])).length().optional();
const H0: Operand = Operand::data("h0", 'T', TYPES).optional();
const C0: Operand = Operand::data("c0", 'T', TYPES).optional();
const P: Operand = Operand::data("p", 'T', TYPES).optional();
const Y: Operand = Operand::data("y", 'T', TYPES);
const Y_H: Operand = Operand::data("y_h", 'T', TYPES);
const Y_C: Operand = Operand::data("y_c", 'T', TYPES);

const LAYER: OpDescriptor = OpDescriptor {
    inputs: &[X, W, R, B, LENGTHS, H0],
    outputs: &[Y, Y_H],
    attr_size: core::mem::size_of::<Recurrent>(),
    cost,
    ..OpDescriptor::BASE
};

/// The plain recurrent layer: `h' = f(W·x + R·h + Wb + Rb)`. As RNN of ONNX; see [`Recurrent`].
pub static RNN: OpDescriptor = OpDescriptor {
    code: 250,
    name: "Rnn",
    path: "recurrent::RNN",
    check_attrs: |b| check(b, &RNN_LAYER),
    shape_rule: |alg, args, out| shapes(alg, args, &RNN_LAYER, out),
    scratch: |s, class| scratch(s, class, &RNN_LAYER),
    ..LAYER
};

/// The gated recurrent unit, gates in the order z, r, h: `z = f(Wz·x + Rz·h + Wbz + Rbz)`,
/// `r = f(Wr·x + Rr·h + Wbr + Rbr)`, `n = g(Wh·x + Rh·(r ⊙ h) + Wbh + Rbh)`, or with variant 1
/// `n = g(Wh·x + r ⊙ (Rh·h + Rbh) + Wbh)`; `h' = (1 − z) ⊙ n + z ⊙ h`. As GRU of ONNX; see [`Recurrent`].
pub static GRU: OpDescriptor = OpDescriptor {
    code: 251,
    name: "Gru",
    path: "recurrent::GRU",
    check_attrs: |b| check(b, &GRU_LAYER),
    shape_rule: |alg, args, out| shapes(alg, args, &GRU_LAYER, out),
    scratch: |s, class| scratch(s, class, &GRU_LAYER),
    ..LAYER
};

/// The long short-term memory, gates in the order i, o, f, c: `i = f(Wi·x + Ri·h + Pi ⊙ c + Wbi + Rbi)`,
/// `f = f(Wf·x + Rf·h + Pf ⊙ c + Wbf + Rbf)` (variant 1: `1 − i`), `n = g(Wc·x + Rc·h + Wbc + Rbc)`,
/// `c' = f ⊙ c + i ⊙ n`, `o = f(Wo·x + Ro·h + Po ⊙ c' + Wbo + Rbo)`, `h' = o ⊙ h(c')`. The peepholes `p` are `[D, 3·H]`
/// in the order i, o, f. As LSTM of ONNX; see [`Recurrent`].
pub static LSTM: OpDescriptor = OpDescriptor {
    code: 252,
    name: "Lstm",
    path: "recurrent::LSTM",
    inputs: &[X, W, R, B, LENGTHS, H0, C0, P],
    outputs: &[Y, Y_H, Y_C],
    check_attrs: |b| check(b, &LSTM_LAYER),
    shape_rule: |alg, args, out| shapes(alg, args, &LSTM_LAYER, out),
    scratch: |s, class| scratch(s, class, &LSTM_LAYER),
    ..LAYER
};

fn check(bytes: &[u8], layer: &Layer) -> Result<(), AttrError> {
    let a: Recurrent = attributes(bytes)?;
    if a.variant > layer.variants {
        return Err(AttrError::new("variant", u64::from(layer.variants), u64::from(a.variant)));
    }
    let needed = layer.functions * a.directions();
    for (i, code) in a.functions.iter().enumerate() {
        if (*code == 0) == (i < needed) {
            return Err(AttrError::new("functions", needed as u64, i as u64));
        }
    }
    Ok(())
}

fn shapes(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    layer: &Layer,
    out: &mut [Dims],
) -> Result<(), ShapeError> {
    let a: Recurrent = attributes(args.attrs)?;
    let (x, w, r) = (args.input(0)?, args.input(1)?, args.input(2)?);
    for v in [&x, &w, &r] {
        v.expect_rank(3)?;
    }
    let (t, n, i, h) = (x.get(0)?, x.get(1)?, x.get(2)?, r.get(2)?);
    let d = alg.constant(a.directions() as u64)?;
    let gates = alg.constant(layer.gates)?;
    let rows = alg.mul(h, gates)?;
    let expect = |alg: &mut dyn DimAlgebra, at: usize, what, dims: &[crate::Dim]| {
        let Some(v) = args.optional(at) else { return Ok(()) };
        v.expect_rank(dims.len())?;
        dims.iter().zip(v.as_slice()).try_for_each(|(want, got)| alg.require_equal(what, *want, *got))
    };
    expect(alg, 1, "dimension of w", &[d, rows, i])?;
    expect(alg, 2, "dimension of r", &[d, rows, h])?;
    let two = alg.constant(2)?;
    let biases = alg.mul(rows, two)?;
    expect(alg, 3, "dimension of b", &[d, biases])?;
    expect(alg, 4, "dimension of the lengths", &[n])?;
    expect(alg, 5, "dimension of h0", &[d, n, h])?;
    if let Some(at) = layer.peepholes {
        expect(alg, 6, "dimension of c0", &[d, n, h])?;
        let three = alg.constant(3)?;
        let peepholes = alg.mul(h, three)?;
        expect(alg, at, "dimension of p", &[d, peepholes])?;
    }
    let state = Dims::new(&[d, n, h])?;
    for y in out.iter_mut().skip(1) {
        *y = state;
    }
    set_output(out, Dims::new(&[t, d, n, h])?)
}

fn cost(s: &StepShapes<'_>) -> Cost {
    let (x, w, r) = (s.input(0), s.input(1), s.input(2));
    let weights = (w.elements() as u64).saturating_add(r.elements() as u64);
    let steps = (x.dim(0) as u64).saturating_mul(x.dim(1) as u64);
    Cost { macs: weights.saturating_mul(steps), bytes: s.bytes() }
}

/// The states and gates of one step of one direction; [`ScratchClass::Fast`] adds `w·x` for all its steps and, where
/// storage is narrower than f32, `r` in f32.
fn scratch(s: &StepShapes<'_>, class: ScratchClass, layer: &Layer) -> u64 {
    let (x, r) = (s.input(0), s.input(2));
    let (t, n, h) = (x.dim(0) as u64, x.dim(1) as u64, r.dim(2) as u64);
    let dtype = s.dtypes.first().copied().unwrap_or(DType::F32);
    let size = if dtype == DType::F64 { 8 } else { 4 };
    let gates = layer.gates.saturating_mul(h);
    let mut elements = n.saturating_mul(gates.saturating_add(layer.vectors.saturating_mul(h)));
    if class == ScratchClass::Fast {
        elements = elements.saturating_add(t.saturating_mul(n).saturating_mul(gates));
        if dtype.size() < 4 {
            elements = elements.saturating_add(gates.saturating_mul(h));
        }
    }
    elements.saturating_mul(size)
}
