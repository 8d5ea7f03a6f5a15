//! Evaluation of dimension expressions.

use super::error::{Error, Reason};
use super::program::Program;
use super::record::{Expr, SectionId, expr_op};

/// Where the values of symbols come from.
pub trait Symbols {
    /// The value of a symbol; `None` where there is no such symbol.
    fn get(&self, symbol: u32) -> Option<u64>;
}

impl Symbols for [u64] {
    fn get(&self, symbol: u32) -> Option<u64> {
        <[u64]>::get(self, symbol as usize).copied()
    }
}

/// Evaluates every expression in one pass: `values[i]` becomes the value of expression `i`, with `symbols` giving the
/// values of symbols. All arithmetic is checked.
pub fn evaluate<S: Symbols + ?Sized>(
    program: &Program<'_>,
    symbols: &S,
    values: &mut [u64],
) -> Result<(), Error> {
    let count = program.exprs.len();
    if values.len() < count {
        return Err(Error::header(Reason::BufferSize, 0, count as u64, values.len() as u64));
    }
    for id in 0..count as u32 {
        let e = program.exprs.get(id)?;
        let v = one(id, e, symbols, values)?;
        if let Some(slot) = values.get_mut(id as usize) {
            *slot = v;
        }
    }
    Ok(())
}

fn one<S: Symbols + ?Sized>(id: u32, e: &Expr, symbols: &S, values: &[u64]) -> Result<u64, Error> {
    let fail = |reason, expected, found| Error::at(reason, SectionId::Exprs, id, expected, found);
    let overflow = || fail(Reason::Overflow, u64::MAX, e.b);
    let get =
        |of: u64| match usize::try_from(of).ok().filter(|_| of < u64::from(id)).and_then(|i| values.get(i)) {
            Some(v) => Ok(*v),
            None => Err(fail(Reason::ExprOrder, u64::from(id), of)),
        };
    let a = || get(u64::from(e.a));
    Ok(match e.op {
        expr_op::CONSTANT => e.b,
        expr_op::SYMBOL => {
            symbols.get(e.a).ok_or_else(|| fail(Reason::Id, u64::from(e.a) + 1, u64::from(e.a)))?
        }
        expr_op::ADD => a()?.checked_add(get(e.b)?).ok_or_else(overflow)?,
        expr_op::MUL => a()?.checked_mul(get(e.b)?).ok_or_else(overflow)?,
        expr_op::DIV_FLOOR => a()?.checked_div(e.b).ok_or_else(|| fail(Reason::ZeroDivisor, 1, 0))?,
        expr_op::DIV_CEIL if e.b == 0 => return Err(fail(Reason::ZeroDivisor, 1, 0)),
        expr_op::DIV_CEIL => a()?.div_ceil(e.b),
        expr_op::MIN => a()?.min(get(e.b)?),
        expr_op::MAX => a()?.max(get(e.b)?),
        expr_op::SUB => a()?.saturating_sub(e.b),
        code => return Err(fail(Reason::Code, u64::from(expr_op::SUB), u64::from(code))),
    })
}
