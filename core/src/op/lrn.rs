//! Local response normalisation (Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012).

use super::matmul::set_output;
use super::unary::FLOATS;
use super::{AttrError, Attributes, OpDescriptor, Operand, attributes};

/// Attributes of `Lrn`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Lrn {
    /// Number of channels in a window, at least 1.
    pub size: u32,
    /// Factor of the mean square, finite.
    pub alpha: f32,
    /// Exponent, finite.
    pub beta: f32,
    /// Added to the weighted mean square, finite.
    pub bias: f32,
}

impl Attributes for Lrn {
    fn check(&self) -> Result<(), AttrError> {
        if self.size == 0 {
            return Err(AttrError::new("size", 1, 0));
        }
        for (field, v) in [("alpha", self.alpha), ("beta", self.beta), ("bias", self.bias)] {
            if !v.is_finite() {
                return Err(AttrError::new(field, 0, u64::from(v.to_bits())));
            }
        }
        Ok(())
    }
}

/// `y = x / (bias + alpha / size · Σ x²)^beta` for `x` `[N, C, …]`. The sum goes over the channels from
/// `c − ⌊(size − 1) / 2⌋` to `c + ⌈(size − 1) / 2⌉` that there are, at the same place; the divisor is `size` also where some
/// are missing. f16 and bf16 are computed in f32 and rounded once. NaN spreads as far as the windows; beside an infinity
/// numbers become 0 where `beta` is above 0, and the infinity itself NaN.
pub static LRN: OpDescriptor = OpDescriptor {
    code: 156,
    name: "Lrn",
    path: "lrn::LRN",
    inputs: &[Operand::data("x", 'T', FLOATS)],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Lrn>(),
    check_attrs: |b| attributes::<Lrn>(b).map(|_| ()),
    shape_rule: |_, args, out| {
        let x = args.input(0)?;
        x.get(1)?;
        set_output(out, x)
    },
    cost: |s| {
        let size = attributes::<Lrn>(s.attrs).map_or(1, |a| u64::from(a.size));
        s.element_cost(size.min(s.input(0).dim(1) as u64).saturating_add(4))
    },
    ..OpDescriptor::BASE
};
