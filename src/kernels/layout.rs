//! Axes and strides, folded into the few that a kernel needs.

use super::launch::word;
use serinette_core::{MAX_RANK, Shape};
use serinette_dispatch::LowerError;

/// Most axes of a kernel that moves elements: those of a tensor and one for the words of an element.
pub(super) const MOVE_AXES: usize = MAX_RANK + 1;

/// One axis of an iteration over `N` operands: its size, and each operand's step along it in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis<const N: usize> {
    pub(super) size: usize,
    pub(super) strides: [usize; N],
}

/// Axes from the innermost, without those of size 1 and with neighbours joined where every operand allows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Axes<const N: usize>(Vec<Axis<N>>);

/// Axes as parameter words, from the innermost. Unused sizes are 1: kernels divide by them under a condition that
/// some devices evaluate late.
pub(super) struct AxisWords<const N: usize, const R: usize> {
    pub(super) rank: u32,
    pub(super) dims: [u32; R],
    pub(super) strides: [[u32; R]; N],
}

impl<const N: usize> Axes<N> {
    /// Folds axes given from the innermost.
    pub(super) fn fold(axes: impl Iterator<Item = Axis<N>>) -> Axes<N> {
        let mut out: Vec<Axis<N>> = Vec::with_capacity(MOVE_AXES);
        for axis in axes.filter(|a| a.size != 1) {
            match out.last_mut() {
                Some(inner)
                    if (0..N).all(|i| inner.strides[i].checked_mul(inner.size) == Some(axis.strides[i])) =>
                {
                    inner.size *= axis.size;
                }
                _ => out.push(axis),
            }
        }
        Axes(out)
    }

    /// The axes.
    pub(super) fn as_slice(&self) -> &[Axis<N>] {
        &self.0
    }

    /// The axes as parameter words of a kernel that takes up to `R` of them.
    pub(super) fn words<const R: usize>(&self) -> Result<AxisWords<N, R>, LowerError> {
        if self.0.len() > R {
            return Err(LowerError::Invalid("more axes than a tensor may have"));
        }
        let (mut dims, mut strides) = ([1; R], [[0; R]; N]);
        for (axis, a) in self.0.iter().enumerate() {
            dims[axis] = word(a.size)?;
            for (to, from) in strides.iter_mut().zip(a.strides) {
                to[axis] = word(from)?;
            }
        }
        Ok(AxisWords { rank: self.0.len() as u32, dims, strides })
    }
}

/// Distance in elements between neighbours along each axis of a dense tensor; 0 above the rank.
pub(super) fn dense_strides(shape: &Shape) -> [usize; MAX_RANK] {
    let mut out = [0; MAX_RANK];
    for (axis, s) in out.iter_mut().enumerate().take(shape.rank()) {
        *s = shape.inner(axis);
    }
    out
}

/// The axes of `y` with the strides of two operands that are broadcast to it (numpy rule).
pub(super) fn broadcast(y: &Shape, a: &Shape, b: &Shape) -> Axes<2> {
    let stride = |x: &Shape, from_inner: usize| {
        // Aligned at the innermost axis; missing and single axes repeat.
        match x.rank().checked_sub(from_inner + 1) {
            Some(axis) if x.dim(axis) != 1 => x.inner(axis),
            _ => 0,
        }
    };
    Axes::fold(
        (0..y.rank()).map(|i| Axis { size: y.dim(y.rank() - 1 - i), strides: [stride(a, i), stride(b, i)] }),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shape(d: &[usize]) -> Shape {
        Shape::new(d).unwrap()
    }

    #[test]
    fn equal_shapes_become_one_axis() {
        let s = shape(&[2, 3, 1, 5]);
        assert_eq!(broadcast(&s, &s, &s).as_slice(), [Axis { size: 30, strides: [1, 1] }]);
    }

    #[test]
    fn broadcast_axes_stay_apart() {
        let (y, a, b) = (shape(&[4, 3, 5]), shape(&[4, 3, 5]), shape(&[3, 1]));
        let axes = broadcast(&y, &a, &b);
        let want = [
            Axis { size: 5, strides: [1, 0] },
            Axis { size: 3, strides: [5, 1] },
            Axis { size: 4, strides: [15, 0] },
        ];
        assert_eq!(axes.as_slice(), want);
    }

    #[test]
    fn a_scalar_repeats_along_one_axis() {
        let (y, b) = (shape(&[4, 3]), Shape::SCALAR);
        assert_eq!(broadcast(&y, &y, &b).as_slice(), [Axis { size: 12, strides: [1, 0] }]);
    }
}
