//! Shapes as numbers and the algebra that shape rules are written in.
//!
//! Each op has one shape rule. It is written against [`DimAlgebra`], so that the same rule checks numbers when
//! sizes are bound ([`Numbers`]) and builds dimension expressions in the compiler.

use crate::MAX_RANK;
use core::fmt;

/// The dimensions of a tensor as numbers, outermost first. Row-major: the last axis is contiguous.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape of a scalar: rank 0, one element.
    pub const SCALAR: Shape = Shape { dims: [1; MAX_RANK], rank: 0 };

    /// A shape of up to [`MAX_RANK`] axes; `None` for more.
    pub fn new(dims: &[usize]) -> Option<Shape> {
        let mut s = Shape::SCALAR;
        s.dims.get_mut(..dims.len())?.copy_from_slice(dims);
        s.rank = dims.len() as u8;
        Some(s)
    }

    /// Appends an innermost axis; `None` where there is no room.
    pub(crate) fn push(&mut self, d: usize) -> Option<()> {
        *self.dims.get_mut(usize::from(self.rank))? = d;
        self.rank += 1;
        Some(())
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        self.dims.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// Dimension of `axis`, or 1 where there is no such axis.
    pub fn dim(&self, axis: usize) -> usize {
        self.dims().get(axis).copied().unwrap_or(1)
    }

    /// Number of elements (saturating; bound shapes never saturate).
    pub fn elements(&self) -> usize {
        product(self.dims())
    }

    /// Elements of the axes before `axis`.
    pub fn outer(&self, axis: usize) -> usize {
        product(self.dims().get(..axis).unwrap_or(self.dims()))
    }

    /// Elements of the axes after `axis`.
    pub fn inner(&self, axis: usize) -> usize {
        product(self.dims().get(axis + 1..).unwrap_or(&[]))
    }
}

fn product(dims: &[usize]) -> usize {
    dims.iter().fold(1, |a, d| a.saturating_mul(*d))
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dims()).finish()
    }
}

/// One dimension during a shape rule: a number, or the id of an expression, as its [`DimAlgebra`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim(pub u64);

/// The dimensions of one operand during a shape rule.
#[derive(Clone, Copy, Debug)]
pub struct Dims {
    dims: [Dim; MAX_RANK],
    rank: u8,
}

impl Dims {
    /// No axes.
    pub const SCALAR: Dims = Dims { dims: [Dim(0); MAX_RANK], rank: 0 };

    /// Dimensions from a slice; an error for more than [`MAX_RANK`].
    pub fn new(dims: &[Dim]) -> Result<Dims, ShapeError> {
        let mut d = Dims::SCALAR;
        let space = d.dims.get_mut(..dims.len()).ok_or(ShapeError::rank(MAX_RANK, dims.len()))?;
        space.copy_from_slice(dims);
        d.rank = dims.len() as u8;
        Ok(d)
    }

    /// The dimensions, outermost first.
    pub fn as_slice(&self) -> &[Dim] {
        self.dims.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The dimension of `axis`, an error where there is none.
    pub fn get(&self, axis: usize) -> Result<Dim, ShapeError> {
        self.as_slice().get(axis).copied().ok_or(ShapeError::axis(axis, self.rank()))
    }

    /// Replaces the dimension of `axis`.
    pub fn set(&mut self, axis: usize, d: Dim) -> Result<(), ShapeError> {
        let rank = self.rank();
        *self.dims.get_mut(..rank).and_then(|s| s.get_mut(axis)).ok_or(ShapeError::axis(axis, rank))? = d;
        Ok(())
    }

    /// Appends an innermost axis.
    pub fn push(&mut self, d: Dim) -> Result<(), ShapeError> {
        let rank = self.rank();
        *self.dims.get_mut(rank).ok_or(ShapeError::rank(MAX_RANK, rank + 1))? = d;
        self.rank += 1;
        Ok(())
    }

    /// An error unless the rank is `rank`.
    pub fn expect_rank(&self, rank: usize) -> Result<(), ShapeError> {
        if self.rank() == rank { Ok(()) } else { Err(ShapeError::rank(rank, self.rank())) }
    }
}

/// Why shapes do not fit an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// What was compared.
    pub what: &'static str,
    /// What the rule wants.
    pub expected: u64,
    /// What it was given.
    pub found: u64,
}

impl ShapeError {
    /// `what` should be `expected` but is `found`.
    pub const fn new(what: &'static str, expected: u64, found: u64) -> ShapeError {
        ShapeError { what, expected, found }
    }
    /// Wrong rank.
    pub const fn rank(expected: usize, found: usize) -> ShapeError {
        ShapeError::new("rank", expected as u64, found as u64)
    }
    /// An axis that the operand does not have.
    pub const fn axis(axis: usize, rank: usize) -> ShapeError {
        ShapeError::new("axis below the rank", rank as u64, axis as u64)
    }
    /// A number that does not fit 64 bits.
    pub const OVERFLOW: ShapeError = ShapeError::new("dimension below 2^64", u64::MAX, u64::MAX);
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

impl core::error::Error for ShapeError {}

/// Arithmetic on dimensions. Every operation is monotone (it never falls when an operand rises), which is why
/// the value of an expression at the upper bounds of its symbols is its maximum.
pub trait DimAlgebra {
    /// A known number.
    fn constant(&mut self, value: u64) -> Result<Dim, ShapeError>;
    /// The number, where it is known now.
    fn known(&self, d: Dim) -> Option<u64>;
    /// `a + b`.
    fn add(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError>;
    /// `a × b`.
    fn mul(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError>;
    /// `max(a − c, 0)`.
    fn saturating_sub(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError>;
    /// `⌊a / c⌋`, `c > 0`.
    fn div_floor(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError>;
    /// `⌈a / c⌉`, `c > 0`.
    fn div_ceil(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError>;
    /// An error unless `a = b`; symbolic algebras record a guard when they cannot tell.
    fn require_equal(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError>;
    /// An error unless `a ≤ b`; symbolic algebras record a guard when they cannot tell.
    fn require_at_most(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError>;

    /// The common size of two broadcast dimensions (numpy rule: equal, or one of them 1).
    fn broadcast(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        match (self.known(a), self.known(b)) {
            (Some(1), _) => Ok(b),
            (_, Some(1)) => Ok(a),
            _ => {
                self.require_equal("broadcast dimension", a, b)?;
                Ok(a)
            }
        }
    }
}

/// [`DimAlgebra`] over plain numbers, with every step checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers;

impl DimAlgebra for Numbers {
    fn constant(&mut self, value: u64) -> Result<Dim, ShapeError> {
        Ok(Dim(value))
    }
    fn known(&self, d: Dim) -> Option<u64> {
        Some(d.0)
    }
    fn add(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        a.0.checked_add(b.0).map(Dim).ok_or(ShapeError::OVERFLOW)
    }
    fn mul(&mut self, a: Dim, b: Dim) -> Result<Dim, ShapeError> {
        a.0.checked_mul(b.0).map(Dim).ok_or(ShapeError::OVERFLOW)
    }
    fn saturating_sub(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        Ok(Dim(a.0.saturating_sub(c)))
    }
    fn div_floor(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        a.0.checked_div(c).map(Dim).ok_or(ShapeError::new("divisor", 1, c))
    }
    fn div_ceil(&mut self, a: Dim, c: u64) -> Result<Dim, ShapeError> {
        if c == 0 { Err(ShapeError::new("divisor", 1, c)) } else { Ok(Dim(a.0.div_ceil(c))) }
    }
    fn require_equal(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError> {
        if a == b { Ok(()) } else { Err(ShapeError::new(what, a.0, b.0)) }
    }
    fn require_at_most(&mut self, what: &'static str, a: Dim, b: Dim) -> Result<(), ShapeError> {
        if a.0 <= b.0 { Ok(()) } else { Err(ShapeError::new(what, b.0, a.0)) }
    }
}
