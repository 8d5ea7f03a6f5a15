//! A choice between two tensors.

use crate::registry::{Registered, sized};
use crate::walk::Walk;
use crate::{OUT_OF_RANGE, expect};
use serinette_core::MAX_RANK;
use serinette_core::op::NoAttributes;
use serinette_core::op::select as op;
use serinette_core::schedule::{KernelError, Operands, StepView};
use serinette_core::shape::Shape;

/// The ops of this family.
pub(crate) static OPS: &[&[Registered]] = &[chosen::KERNELS];

sized! { /// `Where`.
select::chosen = op::WHERE, choose, BOOL }

/// A row of an operand: all elements, or one for all.
#[derive(Clone, Copy)]
enum Row<'x, T> {
    Each(&'x [T]),
    One(T),
    /// What the output holds already.
    Kept,
}

fn choose<T: bytemuck::Pod>(step: &StepView<'_>, mut ops: Operands<'_>) -> Result<(), KernelError> {
    step.attributes::<NoAttributes>()?;
    let shape = step.output(0)?;
    let condition = ops.input::<u8>(0)?;
    let operand = |i: usize| match ops.in_place(i) {
        Some(0) => Ok(None),
        _ => ops.input::<T>(i).map(Some),
    };
    let (a, b) = (operand(1)?, operand(2)?);
    let y = ops.output::<T>(0)?;
    expect("elements of y", shape.elements(), y.len())?;
    if y.is_empty() {
        return Ok(());
    }
    let strides = [
        strides(&shape, &step.input(0)?, Some(condition.len()))?,
        strides(&shape, &step.input(1)?, a.map(<[T]>::len))?,
        strides(&shape, &step.input(2)?, b.map(<[T]>::len))?,
    ];
    // The innermost axis is handed out whole.
    let last = shape.rank().saturating_sub(1);
    let mut walk = Walk::new();
    (0..last).rev().try_for_each(|axis| walk.push(shape.dim(axis), strides.map(|s| s[axis])))?;
    let along = strides.map(|s| s[last]);
    let n = shape.dim(last);
    let mut rows = y.chunks_exact_mut(n);
    walk.rows([0; 3], |at| {
        let y = rows.next().ok_or(OUT_OF_RANGE)?;
        let c = row(Some(condition), at[0], along[0], n)?;
        select(c, row(a, at[1], along[1], n)?, row(b, at[2], along[2], n)?, y)
    })
}

/// Distances between neighbours in an operand along each axis of the result, 0 where it is repeated. `length` is the
/// operand's number of elements; an operand in place has those of the result.
fn strides(y: &Shape, operand: &Shape, length: Option<usize>) -> Result<[usize; MAX_RANK], KernelError> {
    expect("elements of an operand", operand.elements(), length.unwrap_or(y.elements()))?;
    let lead = y.rank().checked_sub(operand.rank());
    let lead = lead.ok_or(KernelError::new("rank of an operand", y.rank(), operand.rank()))?;
    let mut strides = [0; MAX_RANK];
    for (axis, own) in operand.dims().iter().enumerate() {
        if *own != 1 {
            expect("broadcast dimension", y.dim(lead + axis), *own)?;
            *strides.get_mut(lead + axis).ok_or(OUT_OF_RANGE)? = operand.inner(axis);
        }
    }
    Ok(strides)
}

fn row<T: Copy>(x: Option<&[T]>, at: usize, stride: usize, n: usize) -> Result<Row<'_, T>, KernelError> {
    match x {
        None => Ok(Row::Kept),
        Some(x) if stride == 0 => x.get(at).map(|x| Row::One(*x)).ok_or(OUT_OF_RANGE),
        Some(x) => x.get(at..).and_then(|x| x.get(..n)).map(Row::Each).ok_or(OUT_OF_RANGE),
    }
}

fn select<T: Copy>(c: Row<'_, u8>, a: Row<'_, T>, b: Row<'_, T>, y: &mut [T]) -> Result<(), KernelError> {
    let c = match c {
        Row::Each(c) => c,
        Row::One(c) => {
            store(if c != 0 { a } else { b }, y);
            return Ok(());
        }
        Row::Kept => return Err(OUT_OF_RANGE),
    };
    match (a, b) {
        (Row::Each(a), Row::Each(b)) => {
            let pairs = a.iter().zip(b);
            y.iter_mut().zip(c).zip(pairs).for_each(|((y, c), (a, b))| *y = if *c != 0 { *a } else { *b });
        }
        (Row::Each(a), Row::One(b)) => {
            y.iter_mut().zip(c).zip(a).for_each(|((y, c), a)| *y = if *c != 0 { *a } else { b });
        }
        (Row::One(a), Row::Each(b)) => {
            y.iter_mut().zip(c).zip(b).for_each(|((y, c), b)| *y = if *c != 0 { a } else { *b });
        }
        (Row::One(a), Row::One(b)) => {
            y.iter_mut().zip(c).for_each(|(y, c)| *y = if *c != 0 { a } else { b });
        }
        (Row::Kept, b) => overwrite(c, b, y, false),
        (a, Row::Kept) => overwrite(c, a, y, true),
    }
    Ok(())
}

fn store<T: Copy>(x: Row<'_, T>, y: &mut [T]) {
    match x {
        Row::Each(x) => y.iter_mut().zip(x).for_each(|(y, x)| *y = *x),
        Row::One(x) => y.fill(x),
        Row::Kept => {}
    }
}

/// Stores `x` where the condition is `when`.
fn overwrite<T: Copy>(c: &[u8], x: Row<'_, T>, y: &mut [T], when: bool) {
    match x {
        Row::Each(x) => y
            .iter_mut()
            .zip(c)
            .zip(x)
            .filter(|((_, c), _)| (**c != 0) == when)
            .for_each(|((y, _), x)| *y = *x),
        Row::One(x) => y.iter_mut().zip(c).filter(|(_, c)| (**c != 0) == when).for_each(|(y, _)| *y = x),
        Row::Kept => {}
    }
}
