//! Arithmetic of two tensors in f32, row by row under broadcasting.

use super::elementary::sigmoid;
use super::isa::{Isa, isa};
use crate::broadcast::{Broadcast, Row};
use crate::registry::{Registered, kernels, sets::F32};
use crate::{OUT_OF_RANGE, expect};
use serinette_core::op::binary as op;
use serinette_core::op::binary::Binary;
use serinette_core::op::{Activation, NoAttributes};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { binary:
    op::ADD => add, F32 => F32;
    op::MUL => mul, F32 => F32;
    op::SUB => sub, F32 => F32;
    op::DIV => div, F32 => F32;
    op::SILU_MUL => silu_mul, F32 => F32;
};

/// A function of two numbers, without branches.
trait Function {
    /// Its value.
    fn of<const FMA: bool>(a: f32, b: f32) -> f32;
}

/// An operand of a row: its own elements, one for all, or what the result holds.
#[derive(Clone, Copy)]
enum Side<'a> {
    Each(&'a [f32]),
    One(f32),
    Result,
}

#[inline(always)]
fn row<F: Function, const FMA: bool>(a: Side<'_>, b: Side<'_>, y: &mut [f32], relu: bool) {
    // NaN stays.
    let finish = |y: f32| if relu && y <= 0.0 { 0.0 } else { y };
    let f = |a: f32, b: f32| finish(F::of::<FMA>(a, b));
    match (a, b) {
        (Side::Each(a), Side::Each(b)) => y.iter_mut().zip(a).zip(b).for_each(|((y, a), b)| *y = f(*a, *b)),
        (Side::Each(a), Side::One(b)) => y.iter_mut().zip(a).for_each(|(y, a)| *y = f(*a, b)),
        (Side::One(a), Side::Each(b)) => y.iter_mut().zip(b).for_each(|(y, b)| *y = f(a, *b)),
        (Side::One(a), Side::One(b)) => y.fill(f(a, b)),
        (Side::Result, Side::Each(b)) => y.iter_mut().zip(b).for_each(|(y, b)| *y = f(*y, *b)),
        (Side::Result, Side::One(b)) => y.iter_mut().for_each(|y| *y = f(*y, b)),
        (Side::Each(a), Side::Result) => y.iter_mut().zip(a).for_each(|(y, a)| *y = f(*a, *y)),
        (Side::One(a), Side::Result) => y.iter_mut().for_each(|y| *y = f(a, *y)),
        (Side::Result, Side::Result) => y.iter_mut().for_each(|y| *y = f(*y, *y)),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn row_avx512<F: Function>(a: Side<'_>, b: Side<'_>, y: &mut [f32], relu: bool) {
    row::<F, true>(a, b, y, relu);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn row_avx2<F: Function>(a: Side<'_>, b: Side<'_>, y: &mut [f32], relu: bool) {
    row::<F, true>(a, b, y, relu);
}

fn apply<F: Function>(a: Side<'_>, b: Side<'_>, y: &mut [f32], relu: bool) {
    match isa() {
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { row_avx512::<F>(a, b, y, relu) },
        // SAFETY: `isa` gives what the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { row_avx2::<F>(a, b, y, relu) },
        Isa::Neon => row::<F, true>(a, b, y, relu),
        _ => row::<F, false>(a, b, y, relu),
    }
}

fn run<F: Function>(step: &StepView<'_>, mut ops: Operands<'_>, relu: bool) -> Result<(), KernelError> {
    let y = ops.output::<f32>(0)?;
    let shared = [0, 1].map(|i| ops.in_place(i) == Some(0));
    let input = |i: usize| if shared[i] { Ok(&[][..]) } else { ops.input::<f32>(i) };
    let (a, b) = (input(0)?, input(1)?);
    let length = |i: usize, x: &[f32]| if shared[i] { y.len() } else { x.len() };
    if y.is_empty() {
        return expect("elements of y", step.output(0)?.elements(), 0);
    }
    let walk = Broadcast::new(step, [length(0, a), length(1, b)], y.len())?;
    let mut out = y.chunks_exact_mut(walk.row());
    walk.rows(|at| {
        let y = out.next().ok_or(OUT_OF_RANGE)?;
        let side = |i: usize, x| -> Result<Side<'_>, KernelError> {
            if shared[i] {
                return Ok(Side::Result);
            }
            Ok(match walk.cut(i, x, at[i])? {
                Row::Each(x) => Side::Each(x),
                Row::One(x) => Side::One(x),
            })
        };
        apply::<F>(side(0, a)?, side(1, b)?, y, relu);
        Ok(())
    })
}

macro_rules! functions {
    ($($(#[$doc:meta])+ $kernel:ident = $name:ident, |$a:ident, $b:ident, $fma:ident| $f:expr, $attrs:ident;)+) => {$(
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn of<const $fma: bool>($a: f32, $b: f32) -> f32 {
                $f
            }
        }
        $(#[$doc])+
        pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            run::<$name>(step, ops, functions!(@relu $attrs step))
        }
    )+};
    (@relu activated $step:ident) => {
        Activation::from_code($step.attributes::<Binary>()?.activation)? == Activation::Relu
    };
    (@relu plain $step:ident) => {{
        $step.attributes::<NoAttributes>()?;
        false
    }};
}

functions! {
    /// `Add` in f32.
    add = Add, |a, b, FMA| a + b, activated;
    /// `Mul` in f32.
    mul = Mul, |a, b, FMA| a * b, activated;
    /// `Sub` in f32.
    sub = Sub, |a, b, FMA| a - b, activated;
    /// `Div` in f32.
    div = Div, |a, b, FMA| a / b, activated;
    /// `SiluMul` in f32.
    silu_mul = SiluMul, |a, b, FMA| a * sigmoid::<FMA>(a) * b, plain;
}
