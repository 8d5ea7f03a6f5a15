//! Matrix products.

use super::gemm::{ColumnMajor, Product, Right, RowMajor};
use super::parallel::{Shared, for_each};
use crate::matmul::Sizes;
use crate::registry::{Registered, kernels, sets::F32};
use crate::{expect, product};
use serinette_core::op;
use serinette_core::op::Activation;
use serinette_core::op::matmul::MatMul;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The kernels of this family.
pub(super) static KERNELS: &[Registered] = kernels! { matmul:
    op::matmul::MATMUL => f32, F32 => F32;
};

/// `MatMul` in f32.
pub fn f32(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let attrs: MatMul = step.attributes()?;
    let s = Sizes::new(step)?;
    let relu = Activation::from_code(attrs.activation)? == Activation::Relu;
    let (a, b, bias) = (ops.input::<f32>(0)?, ops.input::<f32>(1)?, ops.optional::<f32>(2)?);
    let y = ops.output::<f32>(0)?;
    let bias = bias.unwrap_or(&[]);
    if !bias.is_empty() {
        expect("elements of the bias", s.n, bias.len())?;
    }
    expect("elements of a", product(&[s.batch, s.m, s.k]), a.len())?;
    expect("elements of b", product(&[s.batch, s.k, s.n]), b.len())?;
    expect("elements of y", product(&[s.batch, s.m, s.n]), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let (a_size, b_size, y_size) = (s.m * s.k, s.k * s.n, s.m * s.n);
    let y = Shared(y.as_mut_ptr());
    for_each(s.batch, |i| {
        let (Some(a), Some(b)) = (part(a, i, a_size), part(b, i, b_size)) else { return };
        // SAFETY: `y` has `batch` matrices of `y_size`, as was checked, and this task alone has the `i`-th.
        let y = unsafe { core::slice::from_raw_parts_mut(y.at(i * y_size), y_size) };
        if attrs.transpose_b != 0 {
            multiply(&s, a, ColumnMajor { elements: b, k: s.k }, bias, relu, y);
        } else {
            multiply(&s, a, RowMajor { elements: b, n: s.n }, bias, relu, y);
        }
    });
    Ok(())
}

fn part(x: &[f32], i: usize, size: usize) -> Option<&[f32]> {
    x.get(i * size..).and_then(|x| x.get(..size))
}

fn multiply<B: Right>(s: &Sizes, a: &[f32], b: B, bias: &[f32], relu: bool, y: &mut [f32]) {
    Product { m: s.m, n: s.n, k: s.k, a, b, per_row: &[], per_column: bias, relu }.run(y);
}
