//! Dimension expressions: interned, simplified, with known ranges.
//!
//! Equal expressions have equal ids as far as linear arithmetic can tell: sums and products are kept as sorted
//! lists of terms, so `2·n + n` and `n·3` are one node. The op table's shape rules run over this algebra
//! directly, because [`DimTable`] implements [`DimAlgebra`].

use serinette_core::schedule::record::{Expr, expr_op, symbol_kind};
use serinette_core::shape::{Dim, DimAlgebra, ShapeError};
use std::collections::{BTreeMap, HashMap};

/// A named size, or the counter of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolInfo {
    /// Name, unique in the graph.
    pub name: String,
    /// [`symbol_kind`] code.
    pub kind: u8,
    /// Least value.
    pub low: u64,
    /// Greatest value.
    pub high: u64,
    /// The value is a multiple of this, at least 1.
    pub multiple_of: u64,
}

/// A relation between two expressions that can only be checked when sizes are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardInfo {
    /// `true`: `a = b`. `false`: `a ≤ b`.
    pub equal: bool,
    /// Left side.
    pub a: Dim,
    /// Right side.
    pub b: Dim,
}

/// One node with its least and greatest value over the bounds of the symbols.
#[derive(Clone, Copy, Debug)]
struct Node {
    expr: Expr,
    low: u64,
    high: u64,
}

/// A linear form `Σ coefficient · base + constant` over nodes that are no sums. The constant may be negative
/// where a saturating difference is known not to saturate.
#[derive(Default)]
struct Linear {
    terms: BTreeMap<u32, u64>,
    constant: i128,
}

impl Linear {
    /// Adds `c · times` to the constant, or takes it away.
    fn shift(&mut self, c: u64, times: u64, down: bool) -> Result<(), ShapeError> {
        let by = c.checked_mul(times).map(i128::from).ok_or(ShapeError::OVERFLOW)?;
        let sum = self.constant.checked_add(if down { -by } else { by });
        self.constant = sum.ok_or(ShapeError::OVERFLOW)?;
        Ok(())
    }
}

/// All dimension expressions of a graph.
#[derive(Clone, Debug, Default)]
pub struct DimTable {
    nodes: Vec<Node>,
    index: HashMap<(u8, u32, u64), u32>,
    symbols: Vec<SymbolInfo>,
    guards: Vec<GuardInfo>,
}

impl DimTable {
    /// A new symbol and the expression that is its value. Bounds are the caller's to check.
    pub(crate) fn symbol(&mut self, info: SymbolInfo) -> Dim {
        let id = self.symbols.len() as u32;
        let (low, high) = (info.low, info.high);
        self.symbols.push(info);
        self.intern(Expr { op: expr_op::SYMBOL, reserved: [0; 3], a: id, b: 0 }, low, high)
    }

    /// The symbols in the order of their making.
    pub fn symbols(&self) -> &[SymbolInfo] {
        &self.symbols
    }

    /// The guards in the order in which rules asked for them.
    pub fn guards(&self) -> &[GuardInfo] {
        &self.guards
    }

    /// Number of expressions.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no expressions.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The record of an expression. Operands have smaller ids.
    pub fn expr(&self, d: Dim) -> Option<Expr> {
        self.nodes.get(usize::try_from(d.0).ok()?).map(|n| n.expr)
    }

    /// The symbol that an expression is, if it is a plain symbol.
    pub fn as_symbol(&self, d: Dim) -> Option<u32> {
        self.expr(d).filter(|e| e.op == expr_op::SYMBOL).map(|e| e.a)
    }

    /// Least and greatest value over the bounds of the symbols.
    pub fn range(&self, d: Dim) -> (u64, u64) {
        self.node(d).map_or((0, u64::MAX), |n| (n.low, n.high))
    }

    /// The expression as text: `batch·16`, for messages.
    pub fn text(&self, d: Dim) -> String {
        self.text_to(d, 16)
    }

    fn text_to(&self, d: Dim, depth: u32) -> String {
        let Some(n) = self.node(d) else { return "?".into() };
        // A message needs no more, and the recursion stays bounded.
        let Some(depth) = depth.checked_sub(1) else { return "…".into() };
        let a = || self.text_to(Dim(u64::from(n.expr.a)), depth);
        let b = || self.text_to(Dim(n.expr.b), depth);
        match n.expr.op {
            expr_op::CONSTANT => n.expr.b.to_string(),
            expr_op::SYMBOL => self.symbols.get(n.expr.a as usize).map_or("?".into(), |s| s.name.clone()),
            expr_op::ADD => format!("{} + {}", a(), b()),
            expr_op::MUL => format!("({})·{}", a(), b()),
            expr_op::DIV_FLOOR => format!("⌊({})/{}⌋", a(), n.expr.b),
            expr_op::DIV_CEIL => format!("⌈({})/{}⌉", a(), n.expr.b),
            expr_op::SUB => format!("({}) − {}", a(), n.expr.b),
            _ => "?".into(),
        }
    }

    fn node(&self, d: Dim) -> Option<&Node> {
        self.nodes.get(usize::try_from(d.0).ok()?)
    }

    fn need(&self, d: Dim) -> Result<Node, ShapeError> {
        self.node(d).copied().ok_or(ShapeError::new("dimension of this graph", self.nodes.len() as u64, d.0))
    }

    fn intern(&mut self, expr: Expr, low: u64, high: u64) -> Dim {
        let next = self.nodes.len() as u32;
        let id = *self.index.entry((expr.op, expr.a, expr.b)).or_insert(next);
        if id == next {
            self.nodes.push(Node { expr, low, high });
        }
        Dim(u64::from(id))
    }

    fn number(&mut self, v: u64) -> Dim {
        self.intern(Expr { op: expr_op::CONSTANT, reserved: [0; 3], a: 0, b: v }, v, v)
    }

    fn make(&mut self, op: u8, a: Dim, b: u64, low: u64, high: u64) -> Dim {
        self.intern(Expr { op, reserved: [0; 3], a: a.0 as u32, b }, low, high)
    }

    /// The linear form of `d`.
    fn linear(&self, d: Dim) -> Result<Linear, ShapeError> {
        let mut form = Linear::default();
        let mut todo = vec![(d, 1u64)];
        while let Some((d, times)) = todo.pop() {
            let n = self.need(d)?;
            let a = Dim(u64::from(n.expr.a));
            match n.expr.op {
                expr_op::CONSTANT => form.shift(n.expr.b, times, false)?,
                expr_op::ADD => todo.extend([(a, times), (Dim(n.expr.b), times)]),
                expr_op::SUB if self.need(a)?.low >= n.expr.b => {
                    form.shift(n.expr.b, times, true)?;
                    todo.push((a, times));
                }
                expr_op::MUL if self.known(Dim(n.expr.b)).is_some() => {
                    let c = self.known(Dim(n.expr.b)).unwrap_or(1);
                    todo.push((a, times.checked_mul(c).ok_or(ShapeError::OVERFLOW)?));
                }
                _ => {
                    let sum = form.terms.entry(d.0 as u32).or_insert(0);
                    *sum = sum.checked_add(times).ok_or(ShapeError::OVERFLOW)?;
                }
            }
        }
        Ok(form)
    }

    /// The node of a linear form whose value is known not to be negative.
    fn build(&mut self, form: &Linear) -> Result<Dim, ShapeError> {
        let mut sum: Option<Dim> = None;
        for (base, times) in form.terms.iter().filter(|(_, t)| **t != 0) {
            let mut term = Dim(u64::from(*base));
            if *times != 1 {
                let n = self.need(term)?;
                let (low, high) = (times.saturating_mul(n.low), times.saturating_mul(n.high));
                let c = self.number(*times);
                term = self.make(expr_op::MUL, term, c.0, low, high);
            }
            sum = Some(match sum {
                None => term,
                Some(s) => self.plus(s, term)?,
            });
        }
        let magnitude = u64::try_from(form.constant.unsigned_abs()).map_err(|_| ShapeError::OVERFLOW)?;
        Ok(match sum {
            None if form.constant >= 0 => self.number(magnitude),
            None => self.number(0),
            Some(s) if form.constant == 0 => s,
            Some(s) if form.constant > 0 => {
                let c = self.number(magnitude);
                self.plus(s, c)?
            }
            Some(s) => {
                let n = self.need(s)?;
                let (low, high) = (n.low.saturating_sub(magnitude), n.high.saturating_sub(magnitude));
                self.make(expr_op::SUB, s, magnitude, low, high)
            }
        })
    }

    fn plus(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        let (x, y) = (self.need(a)?, self.need(b)?);
        Ok(self.make(expr_op::ADD, a, b.0, x.low.saturating_add(y.low), x.high.saturating_add(y.high)))
    }

    /// Factors of a product: a number and nodes that are no products, sorted.
    fn factors(&self, d: Dim) -> Result<(u64, Vec<u32>), ShapeError> {
        let (mut number, mut bases, mut todo) = (1u64, Vec::new(), vec![d]);
        while let Some(d) = todo.pop() {
            let n = self.need(d)?;
            match n.expr.op {
                expr_op::CONSTANT => number = number.checked_mul(n.expr.b).ok_or(ShapeError::OVERFLOW)?,
                expr_op::MUL => todo.extend([Dim(u64::from(n.expr.a)), Dim(n.expr.b)]),
                _ => bases.push(d.0 as u32),
            }
        }
        bases.sort_unstable();
        Ok((number, bases))
    }

    fn record(&mut self, equal: bool, a: Dim, b: Dim) {
        let guard = GuardInfo { equal, a, b };
        if !self.guards.contains(&guard) {
            self.guards.push(guard);
        }
    }
}

impl DimAlgebra for DimTable {
    fn constant(&mut self, value: u64) -> Result<Dim, ShapeError> {
        Ok(self.number(value))
    }

    fn known(&self, d: Dim) -> Option<u64> {
        self.node(d).filter(|n| n.expr.op == expr_op::CONSTANT).map(|n| n.expr.b)
    }

    fn add(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        if let (Some(x), Some(y)) = (self.known(a), self.known(b)) {
            return Ok(self.number(x.checked_add(y).ok_or(ShapeError::OVERFLOW)?));
        }
        let (mut form, other) = (self.linear(a)?, self.linear(b)?);
        form.constant = form.constant.checked_add(other.constant).ok_or(ShapeError::OVERFLOW)?;
        for (base, times) in other.terms {
            let sum = form.terms.entry(base).or_insert(0);
            *sum = sum.checked_add(times).ok_or(ShapeError::OVERFLOW)?;
        }
        self.build(&form)
    }

    fn mul(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        match (self.known(a), self.known(b)) {
            (Some(x), Some(y)) => return Ok(self.number(x.checked_mul(y).ok_or(ShapeError::OVERFLOW)?)),
            (Some(0), _) | (_, Some(0)) => return Ok(self.number(0)),
            (Some(1), _) => return Ok(b),
            (_, Some(1)) => return Ok(a),
            (Some(c), None) | (None, Some(c)) => {
                // A number times a sum is distributed, so that later divisions and comparisons see the terms.
                let mut form = self.linear(if self.known(a).is_some() { b } else { a })?;
                for times in form.terms.values_mut() {
                    *times = times.checked_mul(c).ok_or(ShapeError::OVERFLOW)?;
                }
                form.constant = form.constant.checked_mul(i128::from(c)).ok_or(ShapeError::OVERFLOW)?;
                return self.build(&form);
            }
            (None, None) => {}
        }
        let ((x, mut bases), (y, more)) = (self.factors(a)?, self.factors(b)?);
        bases.extend(more);
        bases.sort_unstable();
        let mut product: Option<Dim> = None;
        for base in bases {
            let base = Dim(u64::from(base));
            product = Some(match product {
                None => base,
                Some(p) => {
                    let (m, n) = (self.need(p)?, self.need(base)?);
                    let (low, high) = (m.low.saturating_mul(n.low), m.high.saturating_mul(n.high));
                    self.make(expr_op::MUL, p, base.0, low, high)
                }
            });
        }
        let number = self.number(x.checked_mul(y).ok_or(ShapeError::OVERFLOW)?);
        match product {
            Some(p) => self.mul(p, number),
            None => Ok(number),
        }
    }

    fn saturating_sub(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        let n = self.need(a)?;
        if let Some(x) = self.known(a) {
            return Ok(self.number(x.saturating_sub(c)));
        }
        let mut form = self.linear(a)?;
        // max(x + k − c, 0) for k ≥ 0 is max(x − (c − k), 0): right whether it saturates or not. A negative k comes
        // from a difference that does not saturate, and moves into c the same way.
        form.constant -= i128::from(c);
        if n.high < c {
            return Ok(self.number(0));
        }
        self.build(&form)
    }

    fn div_floor(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        divide(self, a, c, expr_op::DIV_FLOOR)
    }

    fn div_ceil(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        divide(self, a, c, expr_op::DIV_CEIL)
    }

    fn require_equal(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError> {
        if a == b {
            return Ok(());
        }
        let (x, y) = (self.need(a)?, self.need(b)?);
        if x.high < y.low || y.high < x.low {
            // For numbers the bounds are the values.
            return Err(ShapeError::new(what, x.high, y.high));
        }
        self.record(true, a, b);
        Ok(())
    }

    fn require_at_most(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError> {
        let (x, y) = (self.need(a)?, self.need(b)?);
        if x.low > y.high {
            return Err(ShapeError::new(what, y.high, x.low));
        }
        if a != b && x.high > y.low && !self.always_at_most(a, b)? {
            self.record(false, a, b);
        }
        Ok(())
    }
}

impl DimTable {
    /// `a / b` where the factors of `b` are among those of `a`, so that nothing is left over.
    pub(crate) fn quotient(&mut self, a: Dim, b: Dim) -> Option<Dim> {
        let ((x, mut bases), (y, divisors)) = (self.factors(a).ok()?, self.factors(b).ok()?);
        if y == 0 || x % y != 0 {
            return None;
        }
        for d in divisors {
            let at = bases.iter().position(|base| *base == d)?;
            bases.remove(at);
        }
        let start = self.number(x / y);
        bases.into_iter().try_fold(start, |n, base| self.mul(n, Dim(u64::from(base))).ok())
    }

    /// `a − b` where the terms of `b` are among those of `a` and the rest is not negative.
    pub(crate) fn difference(&mut self, a: Dim, b: Dim) -> Option<Dim> {
        let (mut form, other) = (self.linear(a).ok()?, self.linear(b).ok()?);
        for (base, times) in other.terms {
            let left = form.terms.get_mut(&base)?;
            *left = left.checked_sub(times)?;
        }
        form.constant = form.constant.checked_sub(other.constant)?;
        // What is left must be at least what is taken from it for any sizes within the bounds.
        let least = form.terms.iter().try_fold(0i128, |sum, (base, times)| {
            let low = self.need(Dim(u64::from(*base))).ok()?.low;
            sum.checked_add(i128::from(low) * i128::from(*times))
        })?;
        if least.checked_add(form.constant)? < 0 {
            return None;
        }
        self.build(&form).ok()
    }

    /// Whether `a ≤ b` follows from the linear forms: every term of `a` occurs at least as often in `b`.
    fn always_at_most(&self, a: Dim, b: Dim) -> Result<bool, ShapeError> {
        let (x, y) = (self.linear(a)?, self.linear(b)?);
        let covered = x.terms.iter().all(|(base, times)| y.terms.get(base).is_some_and(|t| t >= times));
        Ok(covered && x.constant <= y.constant)
    }
}

/// `⌊a/c⌋` or `⌈a/c⌉`.
fn divide(t: &mut DimTable, a: Dim, c: u64, op: u8) -> Result<Dim, ShapeError> {
    let of = |v: u64| if op == expr_op::DIV_FLOOR { v.checked_div(c) } else { Some(v.div_ceil(c.max(1))) };
    if c == 0 {
        return Err(ShapeError::new("divisor", 1, 0));
    }
    let n = t.need(a)?;
    if let Some(x) = t.known(a) {
        return Ok(t.number(of(x).unwrap_or(0)));
    }
    if c == 1 {
        return Ok(a);
    }
    let mut form = t.linear(a)?;
    if form.constant % i128::from(c) == 0 && form.terms.values().all(|times| times % c == 0) {
        form.constant /= i128::from(c);
        form.terms.values_mut().for_each(|times| *times /= c);
        return t.build(&form);
    }
    // ⌊⌊x/a⌋/b⌋ = ⌊x/(a·b)⌋, and the same for ⌈ ⌉.
    if n.expr.op == op
        && let Some(both) = n.expr.b.checked_mul(c)
    {
        return divide(t, Dim(u64::from(n.expr.a)), both, op);
    }
    let (low, high) = (of(n.low).unwrap_or(0), of(n.high).unwrap_or(0));
    Ok(t.make(op, a, c, low, high))
}

/// The symbol kinds that callers give.
pub(crate) const INPUT_SYMBOL: u8 = symbol_kind::INPUT;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn table() -> (DimTable, Dim, Dim) {
        let mut t = DimTable::default();
        let mut s = |name: &str, low, high| {
            let info = SymbolInfo { name: name.into(), kind: INPUT_SYMBOL, low, high, multiple_of: 1 };
            t.symbol(info)
        };
        let (n, m) = (s("n", 1, 64), s("m", 3, 9));
        (t, n, m)
    }

    #[test]
    fn equal_expressions_have_equal_ids() {
        let (mut t, n, m) = table();
        let c = |t: &mut DimTable, v| t.constant(v).unwrap();
        let (two, three, zero, one, k24) =
            (c(&mut t, 2), c(&mut t, 3), c(&mut t, 0), c(&mut t, 1), c(&mut t, 24));
        let a = t.mul(n, two).unwrap();
        let a = t.add(a, n).unwrap();
        let b = t.mul(three, n).unwrap();
        assert_eq!(a, b);
        assert_eq!(t.add(n, zero).unwrap(), n);
        assert_eq!(t.mul(one, n).unwrap(), n);
        assert_eq!(t.div_floor(n, 1).unwrap(), n);
        let x = t.mul(n, k24).unwrap();
        assert_eq!(t.div_floor(x, 24).unwrap(), n);
        let (nm, mn) = (t.mul(n, m).unwrap(), t.mul(m, n).unwrap());
        assert_eq!(nm, mn);
        let (s, r) = (t.add(n, m).unwrap(), t.add(m, n).unwrap());
        assert_eq!(s, r);
        // (n + m)·3 = 3n + 3m
        let left = t.mul(s, three).unwrap();
        let (p, q) = (t.mul(n, three).unwrap(), t.mul(m, three).unwrap());
        assert_eq!(left, t.add(p, q).unwrap());
    }

    #[test]
    fn differences_that_cannot_saturate_are_undone() {
        let (mut t, n, m) = table();
        let two = t.constant(2).unwrap();
        // "Same" 3×3 convolution: (n + 2 − 3)/1 + 1 = n, as n ≥ 1.
        let padded = t.add(n, two).unwrap();
        let room = t.saturating_sub(padded, 3).unwrap();
        let one = t.constant(1).unwrap();
        assert_eq!(t.add(room, one).unwrap(), n);
        // n − 5 may saturate (n ≥ 1), so it stays.
        let less = t.saturating_sub(n, 5).unwrap();
        let five = t.constant(5).unwrap();
        assert_ne!(t.add(less, five).unwrap(), n);
        assert_eq!(t.range(less), (0, 59));
        // m − 3 cannot (m ≥ 3).
        let less = t.saturating_sub(m, 3).unwrap();
        let three = t.constant(3).unwrap();
        assert_eq!(t.add(less, three).unwrap(), m);
    }

    #[test]
    fn simplification_keeps_the_value() {
        let (mut t, n, m) = table();
        let mut seed = 9u64;
        let mut next = |k: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % k
        };
        for (vn, vm) in [(1u64, 3u64), (7, 9), (64, 5)] {
            let mut pool = vec![(n, vn), (m, vm)];
            for _ in 0..200 {
                let (a, x) = pool[next(pool.len() as u64) as usize];
                let (b, y) = pool[next(pool.len() as u64) as usize];
                let c = next(7) + 1;
                let made = match next(6) {
                    0 => t.add(a, b).map(|d| (d, x + y)),
                    1 if x.saturating_mul(y) < 1 << 20 => t.mul(a, b).map(|d| (d, x * y)),
                    2 => t.saturating_sub(a, c).map(|d| (d, x.saturating_sub(c))),
                    3 => t.div_floor(a, c).map(|d| (d, x / c)),
                    4 => t.div_ceil(a, c).map(|d| (d, x.div_ceil(c))),
                    _ => t.constant(c).map(|d| (d, c)),
                };
                let (d, want) = made.unwrap();
                assert_eq!(evaluate(&t, d, vn, vm), want, "{}", t.text(d));
                let (low, high) = t.range(d);
                assert!(low <= want && want <= high);
                if want < 1 << 20 {
                    pool.push((d, want));
                }
            }
        }
    }

    fn evaluate(t: &DimTable, d: Dim, n: u64, m: u64) -> u64 {
        let e = t.expr(d).unwrap();
        let a = || evaluate(t, Dim(u64::from(e.a)), n, m);
        match e.op {
            expr_op::CONSTANT => e.b,
            expr_op::SYMBOL => [n, m][e.a as usize],
            expr_op::ADD => a() + evaluate(t, Dim(e.b), n, m),
            expr_op::MUL => a() * evaluate(t, Dim(e.b), n, m),
            expr_op::DIV_FLOOR => a() / e.b,
            expr_op::DIV_CEIL => a().div_ceil(e.b),
            expr_op::SUB => a().saturating_sub(e.b),
            _ => unreachable!(),
        }
    }

    #[test]
    fn unknown_relations_become_guards() {
        let (mut t, n, m) = table();
        t.require_equal("x", n, m).unwrap();
        t.require_equal("x", n, m).unwrap();
        let big = t.constant(100).unwrap();
        assert_eq!(t.require_equal("x", n, big), Err(ShapeError::new("x", 64, 100)));
        t.require_at_most("y", n, big).unwrap();
        t.require_at_most("y", m, n).unwrap();
        assert_eq!(t.guards().len(), 2);
    }
}
