//! Matrix products.

use crate::arithmetic::{Arithmetic, BLOCK, Quantized, Sums, Taps, Wrapping, dot};
use crate::number::{self, Number, Stored};
use crate::registry::{
    Registered, kernels,
    sets::{BF16, F16, F32, F64, I8, I32, I64, U32, U64},
};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::Shape;
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::matmul::{MatMul, QMatMul};
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(crate) static KERNELS: &[Registered] = kernels! { matmul:
    op::matmul::MATMUL => f32, F32 => F32;
    op::matmul::MATMUL => f16, F16 => F16;
    op::matmul::MATMUL => bf16, BF16 => BF16;
    op::matmul::MATMUL => f64, F64 => F64;
    op::matmul::MATMUL => i32, I32 => I32;
    op::matmul::MATMUL => i64, I64 => I64;
    op::matmul::MATMUL => u32, U32 => U32;
    op::matmul::MATMUL => u64, U64 => U64;
    op::matmul::QMATMUL => i8, I8 => I8;
};

macro_rules! matmul {
    ($($kernel:ident: $call:ident::<$t:ty>, $doc:literal;)+) => {
        $(#[doc = $doc]
        pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
            $call::<$t>(step, ops)
        })+
    };
}

matmul! {
    f32: float::<f32>, "`MatMul` in f32.";
    f16: float::<number::F16>, "`MatMul` of binary16: sums in f32, rounded once.";
    bf16: float::<number::BF16>, "`MatMul` of bfloat16: sums in f32, rounded once.";
    f64: float::<f64>, "`MatMul` in f64.";
    i32: wrapping::<i32>, "`MatMul` modulo 2^32.";
    i64: wrapping::<i64>, "`MatMul` modulo 2^64.";
    u32: wrapping::<u32>, "`MatMul` modulo 2^32, unsigned.";
    u64: wrapping::<u64>, "`MatMul` modulo 2^64, unsigned.";
}

fn float<E: Stored>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let (attrs, sizes) = (step.attributes::<MatMul>()?, Sizes::new(step)?);
    let bias = bias::<E>(&ops, &sizes)?;
    let arithmetic = Sums { bias, activation: Activation::from_code(attrs.activation)? };
    multiply(&arithmetic, &sizes, ops.input(0)?, ops.input(1)?, ops.output(0)?, attrs.transpose_b != 0)
}

fn wrapping<T: Number>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let (attrs, sizes) = (step.attributes::<MatMul>()?, Sizes::new(step)?);
    let bias = bias::<T>(&ops, &sizes)?;
    let arithmetic = Wrapping { bias, activation: Activation::from_code(attrs.activation)? };
    multiply(&arithmetic, &sizes, ops.input(0)?, ops.input(1)?, ops.output(0)?, attrs.transpose_b != 0)
}

fn bias<'m, T: bytemuck::Pod>(ops: &Operands<'m>, sizes: &Sizes) -> Result<Option<&'m [T]>, KernelError> {
    let bias = ops.optional::<T>(2)?;
    if let Some(bias) = bias {
        expect("elements of the bias", sizes.n, bias.len())?;
    }
    Ok(bias)
}

/// `QMatMul`: i8 with i32 sums.
pub fn i8(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: QMatMul = step.attributes()?;
    let sizes = Sizes::new(step)?;
    let (bias, multiplier, shift) = (ops.input(2)?, ops.input(3)?, ops.input(4)?);
    for v in [bias, multiplier, shift] {
        expect("elements of a per-column vector", sizes.n, v.len())?;
    }
    // The rows are those of the weights, the factors are the activations.
    let (x_zero, w_zero) = (0, attrs.requantize.x_zero);
    let arithmetic = Quantized { requantize: attrs.requantize, bias, multiplier, shift, x_zero, w_zero };
    multiply(&arithmetic, &sizes, ops.input(0)?, ops.input(1)?, ops.output(0)?, attrs.transpose_b != 0)
}

/// `batch` products `[m, k] × [k, n]`.
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl Sizes {
    pub(crate) fn new(step: &StepView<'_>) -> Result<Sizes, KernelError> {
        Sizes::of(step.input(0)?, step.input(1)?, step.output(0)?)
    }

    pub(crate) fn of(a: Shape, b: Shape, y: Shape) -> Result<Sizes, KernelError> {
        if a.rank() < 2 || y.rank() != a.rank() || (b.rank() != 2 && b.rank() != a.rank()) {
            return Err(KernelError::new("rank of a product", a.rank(), b.rank()));
        }
        let last = a.rank() - 1;
        let (k, n) = (a.dim(last), y.dim(last));
        // A matrix shared by all batches multiplies one tall matrix.
        let shared = b.rank() == 2;
        let (batch, m) = if shared { (1, a.outer(last)) } else { (a.outer(last - 1), a.dim(last - 1)) };
        Ok(Sizes { batch, m, k, n })
    }
}

/// `y = a · b`, row by row, each with the arithmetic of its row.
pub(crate) fn multiply<A: Arithmetic>(
    arithmetic: &A,
    s: &Sizes,
    a: &[A::W],
    b: &[A::X],
    y: &mut [A::Y],
    transposed: bool,
) -> Result<(), KernelError> {
    multiply_rows(s, a, b, y, transposed, |_, _| arithmetic.at(0))
}

/// The same, each row with an arithmetic that `of` makes from the number of the row and the row of `a`.
pub(crate) fn multiply_rows<A: Arithmetic>(
    s: &Sizes,
    a: &[A::W],
    b: &[A::X],
    y: &mut [A::Y],
    transposed: bool,
    of: impl Fn(usize, &[A::W]) -> A,
) -> Result<(), KernelError> {
    expect("elements of a", product(&[s.batch, s.m, s.k]), a.len())?;
    expect("elements of b", product(&[s.batch, s.k, s.n]), b.len())?;
    expect("elements of y", product(&[s.batch, s.m, s.n]), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    // One column is contiguous either way, and dot products suit it better.
    let transposed = (transposed || s.n == 1) && s.k > 0;
    for (row, y) in y.chunks_exact_mut(s.n).enumerate() {
        let a = a.get(row * s.k..).and_then(|a| a.get(..s.k)).ok_or(OUT_OF_RANGE)?;
        let arithmetic = &of(row, a);
        let matrix = s.k * s.n;
        let b = b.get(row / s.m * matrix..).and_then(|b| b.get(..matrix)).ok_or(OUT_OF_RANGE)?;
        if transposed {
            for (column, (y, b)) in y.iter_mut().zip(b.chunks_exact(s.k)).enumerate() {
                *y = arithmetic.finish(column, dot(arithmetic, arithmetic.start(column), b, a));
            }
        } else {
            columns(arithmetic, a, b, y)?;
        }
    }
    Ok(())
}

/// One row of results: rows of `b` times the elements of `a`, in blocks of columns.
fn columns<A: Arithmetic>(arithmetic: &A, a: &[A::W], b: &[A::X], y: &mut [A::Y]) -> Result<(), KernelError> {
    let n = y.len();
    for (block, y) in y.chunks_mut(BLOCK).enumerate() {
        let first = block * BLOCK;
        let mut acc = [A::ZERO; BLOCK];
        let acc = acc.get_mut(..y.len()).ok_or(OUT_OF_RANGE)?;
        for (column, acc) in acc.iter_mut().enumerate() {
            *acc = arithmetic.start(first + column);
        }
        let mut taps = Taps::new(1);
        for (w, row) in a.iter().zip(b.chunks_exact(n)) {
            let row = row.get(first..).and_then(|r| r.get(..acc.len())).ok_or(OUT_OF_RANGE)?;
            taps.add(arithmetic, acc, row, *w);
        }
        taps.flush(arithmetic, acc);
        for (column, (y, acc)) in y.iter_mut().zip(acc).enumerate() {
            *y = arithmetic.finish(first + column, *acc);
        }
    }
    Ok(())
}
