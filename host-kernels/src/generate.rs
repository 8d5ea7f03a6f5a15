//! Tensors made from few numbers.

use crate::number::{BF16, F16, Number, Stored};
use crate::registry::{Registered, kernel_set, sized};
use crate::{OUT_OF_RANGE, expect, product};
use serinette_core::op::NoAttributes;
use serinette_core::op::gather::checked_index;
use serinette_core::op::generate as op;
use serinette_core::op::generate::Diagonal;
use serinette_core::op::softmax::Axis;
use serinette_core::schedule::{KernelError, Operands, StepView};

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] =
    &[fill::KERNELS, range::KERNELS, eye::KERNELS, one_hot::KERNELS, triu::KERNELS, tril::KERNELS];

sized! { /// `Fill`.
generate::fill = op::FILL, filled, same }
sized! { /// `Eye`.
generate::eye = op::EYE, diagonal, same }
sized! { /// `OneHot`.
generate::one_hot = op::ONE_HOT, hot, I32 }
sized! { /// `Triu`.
generate::triu = op::TRIU, upper, same }
sized! { /// `Tril`.
generate::tril = op::TRIL, lower, same }

/// The only element of an operand.
pub(crate) fn only<T: bytemuck::Pod>(ops: &Operands<'_>, i: usize) -> Result<T, KernelError> {
    match ops.input::<T>(i)? {
        [value] => Ok(*value),
        list => Err(KernelError::new("elements of a scalar", 1, list.len())),
    }
}

fn filled<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let value = only::<T>(&ops, 0)?;
    ops.output::<T>(0)?.fill(value);
    Ok(())
}

fn diagonal<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let k = i64::from(step.attributes::<Diagonal>()?.k);
    let (value, shape, y) = (only::<T>(&ops, 0)?, step.output(0)?, ops.output::<T>(0)?);
    expect("rank of y", 2, shape.rank())?;
    expect("elements of y", shape.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    y.fill(T::zeroed());
    for (row, y) in y.chunks_exact_mut(shape.dim(1)).enumerate() {
        let column = usize::try_from((row as i64).wrapping_add(k)).ok();
        if let Some(y) = column.and_then(|column| y.get_mut(column)) {
            *y = value;
        }
    }
    Ok(())
}

fn hot<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    let axis = step.attributes::<Axis>()?.axis as usize;
    let (indices, values) = (ops.input::<i32>(0)?, ops.input::<T>(1)?);
    let (shape, y) = (step.output(0)?, ops.output::<T>(0)?);
    let [off, on] = values else { return Err(KernelError::new("values", 2, values.len())) };
    if axis >= shape.rank() {
        return Err(KernelError::new("axis", shape.rank(), axis));
    }
    expect("elements of y", shape.elements(), y.len())?;
    let (depth, inner) = (shape.dim(axis), shape.inner(axis));
    if y.is_empty() {
        return Ok(());
    }
    expect("elements of indices", y.len() / depth, indices.len())?;
    y.fill(*off);
    let block = product(&[depth, inner]);
    for (y, indices) in y.chunks_exact_mut(block).zip(indices.chunks_exact(inner)) {
        for (i, index) in indices.iter().enumerate() {
            if let Some(at) = checked_index(i64::from(*index), depth) {
                *y.get_mut(at.wrapping_mul(inner).wrapping_add(i)).ok_or(OUT_OF_RANGE)? = *on;
            }
        }
    }
    Ok(())
}

fn upper<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // Columns before the diagonal go.
    triangle::<T>(step, ops, |y, at| y.iter_mut().take(at).for_each(|y| *y = T::zeroed()), 0)
}

fn lower<T: bytemuck::Pod>(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
    // Columns behind the diagonal go.
    triangle::<T>(step, ops, |y, at| y.iter_mut().skip(at).for_each(|y| *y = T::zeroed()), 1)
}

/// Calls `cut` for every row, with the column that is `behind` columns behind the diagonal.
fn triangle<T: bytemuck::Pod>(
    step: &StepView<'_>,
    mut ops: Operands<'_>,
    cut: impl Fn(&mut [T], usize),
    behind: i64,
) -> Result<(), KernelError> {
    let mut k = i64::from(step.attributes::<Diagonal>()?.k);
    if ops.optional::<i32>(1)?.is_some() {
        k += i64::from(only::<i32>(&ops, 1)?);
    }
    let shape = step.output(0)?;
    let in_place = ops.in_place(0) == Some(0);
    let y = ops.output::<T>(0)?;
    expect("elements of y", shape.elements(), y.len())?;
    if !in_place {
        let x = ops.input::<T>(0)?;
        expect("elements of x", y.len(), x.len())?;
        y.copy_from_slice(x);
    }
    let outer = shape.rank().checked_sub(2).ok_or(KernelError::new("rank", 2, shape.rank()))?;
    if y.is_empty() {
        return Ok(());
    }
    let (rows, columns) = (shape.dim(outer), shape.dim(outer + 1));
    for matrix in y.chunks_exact_mut(product(&[rows, columns])) {
        for (row, y) in matrix.chunks_exact_mut(columns).enumerate() {
            let at = (row as i64).saturating_add(k).saturating_add(behind);
            cut(y, usize::try_from(at).unwrap_or(0));
        }
    }
    Ok(())
}

/// `start + i · delta` in the arithmetic of a type.
trait Counted: bytemuck::Pod {
    fn term(start: Self, i: usize, delta: Self) -> Self;
}

macro_rules! counted {
    ($($t:ty)+) => { $(impl Counted for $t {
        #[inline(always)]
        fn term(start: $t, i: usize, delta: $t) -> $t {
            start.plus((i as $t).times(delta))
        }
    })+ };
}

counted!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

// Rounded to the type in the end alone.
macro_rules! counted_in_f32 {
    ($($t:ty)+) => { $(impl Counted for $t {
        fn term(start: $t, i: usize, delta: $t) -> $t {
            <$t>::store(start.load() + i as f32 * delta.load())
        }
    })+ };
}

counted_in_f32!(F16 BF16);

fn count<T: Counted>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let (start, delta) = (only::<T>(&ops, 0)?, only::<T>(&ops, 1)?);
    for (i, y) in ops.output::<T>(0)?.iter_mut().enumerate() {
        *y = T::term(start, i, delta);
    }
    Ok(())
}

macro_rules! ranges {
    ($($kernel:ident: $t:ty = $set:ident),+) => {
        /// `Range`.
        pub mod range {
            use super::*;
            $(
                #[doc = concat!("For ", stringify!($kernel), ".")]
                pub fn $kernel(step: &StepView<'_>, ops: Operands<'_>) -> Result<(), KernelError> {
                    count::<$t>(step, ops)
                }
            )+
            /// One for each element type.
            pub(crate) static KERNELS: &[Registered] = kernel_set!(generate, range, op::RANGE, [$($kernel $set),+], same);
        }
    };
}

ranges! {
    f32: f32 = F32,
    f16: F16 = F16,
    bf16: BF16 = BF16,
    f64: f64 = F64,
    i8: i8 = I8,
    i16: i16 = I16,
    i32: i32 = I32,
    i64: i64 = I64,
    u8: u8 = U8,
    u16: u16 = U16,
    u32: u32 = U32,
    u64: u64 = U64
}
