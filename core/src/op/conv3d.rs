//! 3-D convolution.

use super::matmul::set_output;
use super::spatial::{Conv, conv_shape, per_channel};
use super::unary::FLOATS;
use super::{Cost, OpDescriptor, Operand, StepShapes, attributes};

/// `y = activation(conv(x, w) + bias)`: `x` `[N, C, D, H, W]`, `w` `[O, C/groups, KD, KH, KW]`, `bias` `[O]`, `y`
/// `[N, O, OD, OH, OW]`. Cross-correlation (no kernel flip), zero padding, as ONNX `Conv`. f16 and bf16 are widened,
/// sums are f32 (f64 in f64), over channels, depth, height and width in this order from the bias on, and rounded once.
/// Taps in the padding add nothing, not even where the weight is infinite.
pub static CONV3D: OpDescriptor = OpDescriptor {
    code: 240,
    name: "Conv3d",
    path: "conv3d::CONV3D",
    inputs: &[
        Operand::data("x", 'T', FLOATS),
        Operand::data("w", 'T', FLOATS),
        Operand::data("bias", 'T', FLOATS).optional(),
    ],
    outputs: &[Operand::data("y", 'T', FLOATS)],
    attr_size: core::mem::size_of::<Conv>(),
    check_attrs: |b| attributes::<Conv>(b).map(|_| ()),
    shape_rule: |alg, args, out| {
        let a: Conv = attributes(args.attrs)?;
        args.input(0)?.expect_rank(5)?;
        let y = conv_shape(alg, args, &a, 1)?;
        per_channel(alg, args, 2, y.get(1)?)?;
        set_output(out, y)
    },
    cost: |s| conv_cost(s, 1),
    ..OpDescriptor::BASE
};

/// One multiply-add for each output element and weight of its channel.
pub(super) fn conv_cost(s: &StepShapes<'_>, w_at: usize) -> Cost {
    // Saturating: a tensor without output channels is empty however large its other axes are.
    let taps = s.input(w_at).inner(0) as u64;
    Cost { macs: (s.output(0).elements() as u64).saturating_mul(taps), bytes: s.bytes() }
}
