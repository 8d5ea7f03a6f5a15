//! Reading by positions that depend on data.

use super::generated as g;
use super::launch::{Launch, attrs, input, output, word};
use serinette_core::op::softmax::Axis;
use serinette_dispatch::{LowerError, LowerStep};

pub(super) fn lower(step: &LowerStep<'_>, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (data, indices, y) = (input(step, 0)?, input(step, 1)?, output(step)?);
    let axis = attrs::<Axis>(step)?.axis as usize;
    let (size, inner) = (data.dtype.size(), data.shape.inner(axis));
    // The largest piece of which a row is a whole number.
    let (kernel, piece) = match inner.saturating_mul(size) {
        bytes if bytes.is_multiple_of(4) => (g::GATHER_4, 4),
        bytes if bytes.is_multiple_of(2) => (g::GATHER_2, 2),
        _ => (g::GATHER_1, 1),
    };
    let pieces = |elements: usize| word(elements.saturating_mul(size) / piece);
    let n = pieces(y.shape.elements())?;
    let params = g::Gather {
        n,
        data: data.location(),
        indices: indices.location(),
        y: y.location(),
        axis: word(data.shape.dim(axis))?,
        count: word(indices.shape.elements())?,
        inner: pieces(inner)?,
        step: step.step,
    };
    to.items(kernel, params.words(), n.div_ceil(4 / piece as u32))
}
