//! Functions of one tensor in f32.

use super::elementary::{erf, exp, fma, sigmoid, tanh};
use super::isa::{Isa, isa};
use super::parallel::{Shared, chunks};
use crate::expect;
use crate::registry::{Registered, kernels, sets::F32};
use serinette_core::op::NoAttributes;
use serinette_core::op::unary as op;
use serinette_core::op::unary::Parameters;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { unary:
    op::RELU => relu, F32 => F32;
    op::SIGMOID => sigmoid_f32, F32 => F32;
    op::EXP => exp_f32, F32 => F32;
    op::TANH => tanh_f32, F32 => F32;
    op::ERF => erf_f32, F32 => F32;
    op::GELU => gelu, F32 => F32;
    op::GELU_TANH => gelu_tanh, F32 => F32;
    op::HARD_SWISH => hard_swish, F32 => F32;
    op::SWISH => swish, F32 => F32;
    op::LEAKY_RELU => leaky_relu, F32 => F32;
    op::HARD_SIGMOID => hard_sigmoid, F32 => F32;
    op::CLIP => clip, F32 => F32;
};

/// A function of a number and two parameters, without branches.
pub(super) trait Function {
    /// Its value.
    fn of<const FMA: bool>(x: f32, p: Parameters) -> f32;
}

/// Applies a function to every element of `x`, or of `y` itself where there is no `x`.
#[inline(always)]
fn map<F: Function, const FMA: bool>(x: Option<&[f32]>, y: &mut [f32], p: Parameters) {
    match x {
        Some(x) => y.iter_mut().zip(x).for_each(|(y, x)| *y = F::of::<FMA>(*x, p)),
        None => y.iter_mut().for_each(|y| *y = F::of::<FMA>(*y, p)),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn map_avx512<F: Function>(x: Option<&[f32]>, y: &mut [f32], p: Parameters) {
    map::<F, true>(x, y, p);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn map_avx2<F: Function>(x: Option<&[f32]>, y: &mut [f32], p: Parameters) {
    map::<F, true>(x, y, p);
}

/// The same with the instruction set in use.
pub(super) fn apply<F: Function>(x: Option<&[f32]>, y: &mut [f32], p: Parameters) {
    match isa() {
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { map_avx512::<F>(x, y, p) },
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { map_avx2::<F>(x, y, p) },
        Isa::Neon => map::<F, true>(x, y, p),
        _ => map::<F, false>(x, y, p),
    }
}

fn run<F: Function>(step: &StepView<'_>, mut ops: Operands<'_>, p: Parameters) -> Result<(), KernelError> {
    let y = ops.output::<f32>(0)?;
    expect("elements of y", step.output(0)?.elements(), y.len())?;
    let x = if ops.in_place(0) == Some(0) { None } else { Some(ops.input::<f32>(0)?) };
    if let Some(x) = x {
        expect("elements of x", y.len(), x.len())?;
    }
    let (n, all) = (y.len(), Shared(y.as_mut_ptr()));
    chunks(n, |range| {
        // SAFETY: the chunks are disjoint parts of `y`.
        let y = unsafe { core::slice::from_raw_parts_mut(all.at(range.start), range.len()) };
        apply::<F>(x.map(|x| &x[range]), y, p);
    });
    Ok(())
}

macro_rules! functions {
    ($($(#[$doc:meta])+ $kernel:ident = $name:ident, $attrs:ident, |$x:ident, $p:ident, $fma:ident| $f:expr;)+) => {$(
        pub(super) struct $name;
        impl Function for $name {
            #[inline(always)]
            fn of<const $fma: bool>($x: f32, $p: Parameters) -> f32 {
                let _ = $p;
                $f
            }
        }
        $(#[$doc])+
        pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            run::<$name>(step, ops, functions!(@parameters $attrs step))
        }
    )+};
    (@parameters none $step:ident) => {{
        $step.attributes::<NoAttributes>()?;
        Parameters::default()
    }};
    (@parameters two $step:ident) => { $step.attributes::<Parameters>()? };
}

/// `x` within `low..=high`; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

functions! {
    /// `Relu` in f32.
    relu = Relu, none, |x, p, FMA| if x <= 0.0 { 0.0 } else { x };
    /// `Sigmoid` in f32.
    sigmoid_f32 = Sigmoid, none, |x, p, FMA| sigmoid::<FMA>(x);
    /// `Exp` in f32.
    exp_f32 = Exp, none, |x, p, FMA| exp::<FMA>(x);
    /// `Tanh` in f32.
    tanh_f32 = Tanh, none, |x, p, FMA| tanh::<FMA>(x);
    /// `Erf` in f32.
    erf_f32 = Erf, none, |x, p, FMA| erf::<FMA>(x);
    /// `Gelu` in f32.
    gelu = Gelu, none, |x, p, FMA| 0.5 * x * (1.0 + erf::<FMA>(x * core::f32::consts::FRAC_1_SQRT_2));
    /// `GeluTanh` in f32.
    gelu_tanh = GeluTanh, none, |x, p, FMA| {
        x * sigmoid::<FMA>(1.595_769 * (x + 0.044715 * x * x * x))
    };
    /// `HardSwish` in f32.
    hard_swish = HardSwish, none, |x, p, FMA| x * clamp(fma::<FMA>(x, 1.0 / 6.0, 0.5), 0.0, 1.0);
    /// `Swish` in f32.
    swish = Swish, two, |x, p, FMA| x * sigmoid::<FMA>(p.alpha * x);
    /// `LeakyRelu` in f32.
    leaky_relu = LeakyRelu, two, |x, p, FMA| if x < 0.0 { p.alpha * x } else { x };
    /// `HardSigmoid` in f32.
    hard_sigmoid = HardSigmoid, two, |x, p, FMA| clamp(p.alpha * x + p.beta, 0.0, 1.0);
    /// `Clip` in f32.
    clip = Clip, two, |x, p, FMA| clamp(x, p.alpha, p.beta);
}
