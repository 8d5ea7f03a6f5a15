//! Evaluation of dimension expressions.

use super::check::{Check, Reader};
use super::error::{Error, Reason};
use super::program::Program;
use super::record::{Expr, SectionId, expr_op};
use crate::wide;

/// Evaluates every expression in one pass: `values[i]` becomes the value of expression `i`, with `symbols` giving the
/// values of symbols. All arithmetic is checked.
pub fn evaluate(program: &Program<'_>, symbols: &[u64], values: &mut [u64]) -> Result<(), Error> {
    let r = Reader::new(program);
    r.finish(evaluate_with(&r, &|s| symbols.get(s as usize).copied(), values))
}

/// [`evaluate`] with the values of symbols from anywhere: no room for a copy is needed.
pub(super) fn evaluate_with(
    r: &Reader<'_, '_>,
    symbols: &dyn Fn(u32) -> Option<u64>,
    values: &mut [u64],
) -> Check {
    if values.len() < r.p.exprs.len() {
        return r.fail_wide(Reason::BufferSize, r.p.exprs.count(), values.len() as u64);
    }
    for (id, e) in r.p.exprs.iter() {
        r.at(SectionId::Exprs, id);
        let v = one(r, id, e, symbols, values)?;
        if let Some(slot) = values.get_mut(id as usize) {
            *slot = v;
        }
    }
    Ok(())
}

fn one(
    r: &Reader<'_, '_>,
    id: u32,
    e: &Expr,
    symbols: &dyn Fn(u32) -> Option<u64>,
    values: &[u64],
) -> Check<u64> {
    match e.op {
        expr_op::CONSTANT => return Ok(e.b),
        expr_op::SYMBOL => {
            return symbols(e.a).ok_or_else(|| r.refuse_wide(Reason::Id, u64::from(e.a) + 1, e.a));
        }
        _ => {}
    }
    let get =
        |of: u64| match usize::try_from(of).ok().filter(|_| of < u64::from(id)).and_then(|i| values.get(i)) {
            Some(v) => Ok(*v),
            None => r.fail_wide(Reason::ExprOrder, id, of),
        };
    let a = get(e.a.into())?;
    let b = match e.op {
        expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => get(e.b)?,
        _ => e.b,
    };
    let result = match e.op {
        expr_op::ADD => a.checked_add(b),
        expr_op::MUL => wide::mul(a, b),
        expr_op::DIV_FLOOR | expr_op::DIV_CEIL => {
            if b == 0 {
                return r.fail(Reason::ZeroDivisor, 1u32, 0u32);
            }
            Some(a / b + u64::from(e.op == expr_op::DIV_CEIL && a % b != 0))
        }
        expr_op::MIN => Some(a.min(b)),
        expr_op::MAX => Some(a.max(b)),
        expr_op::SUB => Some(a.saturating_sub(b)),
        code => return r.fail(Reason::Code, expr_op::SUB, code),
    };
    result.ok_or_else(|| r.refuse_wide(Reason::Overflow, u64::MAX, e.b))
}
