//! Floating-point ops between 8-bit tensors become integer ops.
//!
//! `Dequantize → op → Quantize` with known scales is computed on the 8-bit numbers themselves: products and
//! convolutions with a 32-bit accumulator and an exact multiplier, poolings and moves as they are. What does not
//! fit a pattern stays as it is and is computed in f32.

use super::{Nodes, each_block, op_node};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Graph, Node, NodeKind, Value};
use serinette_core::DType;
use serinette_core::op::conv::{CONV2D, Conv2d, QCONV2D, QConv2d};
use serinette_core::op::matmul::{MATMUL, MatMul, QMATMUL, QMatMul, Requantize};
use serinette_core::op::movement::TRANSPOSE;
use serinette_core::op::pool::{AVERAGE_POOL2D, MAX_POOL2D, Pool2d};
use serinette_core::op::quantize::{DEQUANTIZE, PER_TENSOR, QUANTIZE, Quantization};
use serinette_core::op::{Activation, OpDescriptor};

/// Most terms of a sum of products of 8-bit numbers (|x − zero| ≤ 255, |w| ≤ 128) that fits 32 bits.
const MAX_TERMS: u64 = (i32::MAX as u64) / (255 * 128);

/// Rewrites every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    let uses = graph.use_counts();
    each_block(graph, &mut |graph, block, _| {
        let mut nodes = Nodes::take(block);
        let done = rewrite(graph, &mut nodes, &uses);
        nodes.put_back(block);
        done
    })
}

/// One scale and zero point for a tensor.
#[derive(Clone, Copy, PartialEq)]
struct Affine {
    scale: f32,
    zero: i32,
}

fn rewrite(graph: &mut Graph, nodes: &mut Nodes, uses: &[u32]) -> Result<(), Error> {
    for i in 0..nodes.len() {
        hoist(graph, nodes, i, uses);
    }
    for i in 0..nodes.len() {
        let Some(q) = nodes.get(i).filter(|n| n.is(&QUANTIZE)).cloned() else { continue };
        let Some(y) = affine(graph, &q, &QUANTIZE) else { continue };
        let Some((x, output)) = q.input(0).zip(q.outputs.first().copied()) else { continue };
        let Some(node) = nodes.producer(x).map(|(_, n)| n.clone()) else { continue };
        // The float result may have other readers: they keep their float op, which is dropped if it has none.
        let new = if node.is(&DEQUANTIZE) {
            identity(graph, &node, y, output)
        } else if node.is(&MAX_POOL2D) || node.is(&AVERAGE_POOL2D) {
            pool(graph, nodes, &node, y, output)
        } else if uses.get(x.index()) == Some(&1) {
            product(graph, nodes, &node, y, output)?
        } else {
            None
        };
        if let Some(new) = new {
            nodes.set(i, new);
        }
    }
    Ok(())
}

/// Moves a reshape or transposition from behind a dequantisation to before it, and from before a quantisation to
/// behind it, so that it moves 8-bit numbers.
fn hoist(graph: &mut Graph, nodes: &mut Nodes, i: usize, uses: &[u32]) {
    let moves = |n: &Node| matches!(n.kind, NodeKind::Reshape) || n.is(&TRANSPOSE);
    let Some(node) = nodes.get(i).cloned() else { return };
    let Some((x, y)) = node.input(0).zip(node.outputs.first().copied()) else { return };
    let Some((from, before)) = nodes.producer(x).map(|(j, n)| (j, n.clone())) else { return };
    let only = uses.get(x.index()) == Some(&1);
    let (t, scope) = (graph.tensor(y).clone(), graph.tensor(y).scope);
    if moves(&node) && only && per_tensor(&before, &DEQUANTIZE) {
        let Some(q) = before.input(0) else { return };
        let moved = graph.computed(format!("{}:q", t.name), graph.tensor(q).dtype, t.dims, scope);
        nodes.set(from, Node { inputs: vec![Some(q)], outputs: vec![moved], ..node });
        let mut inputs = before.inputs.clone();
        inputs[0] = Some(moved);
        nodes.set(i, Node { inputs, outputs: vec![y], ..before });
    } else if per_tensor(&node, &QUANTIZE) && only && moves(&before) {
        let Some(f) = before.input(0) else { return };
        let dims = graph.tensor(f).dims.clone();
        let q = graph.computed(format!("{}:q", t.name), DType::I8, dims, scope);
        let mut inputs = node.inputs.clone();
        inputs[0] = Some(f);
        // The scales may be computed behind the move, but only constants get this far.
        if affine(graph, &node, &QUANTIZE).is_none() {
            return;
        }
        nodes.set(from, Node { inputs, outputs: vec![q], ..node });
        nodes.set(i, Node { inputs: vec![Some(q)], outputs: vec![y], ..before });
    }
}

fn per_tensor(node: &Node, op: &'static OpDescriptor) -> bool {
    node.attrs::<Quantization>(op).is_some_and(|a| a.axis == PER_TENSOR)
}

/// The known scale and zero point of a per-tensor (de)quantisation of 8-bit numbers.
fn affine(graph: &Graph, node: &Node, op: &'static OpDescriptor) -> Option<Affine> {
    if !per_tensor(node, op) {
        return None;
    }
    let scale = constant(graph, node.input(1)?)?.numbers::<f32>().next()?;
    let zero = match node.input(2) {
        Some(z) if graph.tensor(z).dtype == DType::I8 => {
            i32::from(constant(graph, z)?.numbers::<i8>().next()?)
        }
        Some(_) => return None,
        None => 0,
    };
    (scale.is_finite() && scale > 0.0).then_some(Affine { scale, zero })
}

fn constant(graph: &Graph, v: Value) -> Option<&Data> {
    graph.tensor(v).source.immutable_data()
}

/// The 8-bit tensor behind a dequantised one.
fn source(graph: &Graph, nodes: &Nodes, v: Value) -> Option<(Value, Affine)> {
    let (_, dq) = nodes.producer(v)?;
    let x = dq.input(0).filter(|x| graph.tensor(*x).dtype == DType::I8)?;
    Some((x, affine(graph, dq, &DEQUANTIZE)?))
}

/// Quantising what was dequantised with the same numbers gives it back.
fn identity(graph: &Graph, dq: &Node, y: Affine, output: Value) -> Option<Node> {
    let x = dq.input(0).filter(|x| graph.tensor(*x).dtype == DType::I8)?;
    (affine(graph, dq, &DEQUANTIZE)? == y).then(|| Node::new(&dq.name, NodeKind::Reshape, &[x], &[output]))
}

/// A pooling between equal scales works on the 8-bit numbers.
fn pool(graph: &Graph, nodes: &Nodes, node: &Node, y: Affine, output: Value) -> Option<Node> {
    let (x, affine) = source(graph, nodes, node.input(0)?)?;
    let attrs = node.attrs::<Pool2d>(&MAX_POOL2D).or(node.attrs::<Pool2d>(&AVERAGE_POOL2D))?;
    // Counted padding is the number 0, which the 8-bit kernel takes for the real 0.
    let padded = attrs.count_padding == 1 && attrs.geometry.pads != [0; 4] && affine.zero != 0;
    if affine != y || padded {
        return None;
    }
    Some(Node { inputs: vec![Some(x)], outputs: vec![output], ..node.clone() })
}

/// A product or convolution of 8-bit numbers.
fn product(
    graph: &mut Graph,
    nodes: &Nodes,
    node: &Node,
    y: Affine,
    output: Value,
) -> Result<Option<Node>, Error> {
    let (matmul, conv) = (node.attrs::<MatMul>(&MATMUL), node.attrs::<Conv2d>(&CONV2D));
    let activation = match (matmul, conv) {
        (Some(a), _) => a.activation,
        (_, Some(a)) => a.activation,
        _ => return Ok(None),
    };
    let relu = activation == Activation::Relu as u32;
    let Some((x, x_affine)) = node.input(0).and_then(|v| source(graph, nodes, v)) else { return Ok(None) };
    // The axis of the weights along which results lie.
    let channel = match matmul {
        Some(a) => usize::from(a.transpose_b == 0),
        None => 0,
    };
    let Some(w) = node.input(1).and_then(|v| weights(graph, nodes, v, channel)) else { return Ok(None) };
    if matmul.is_some() && w.dims.len() != 2 {
        return Ok(None);
    }
    let Some(channels) = w.dims.get(channel).map(|n| *n as usize) else { return Ok(None) };
    let terms = w.dims.iter().product::<u64>() / (channels as u64).max(1);
    if terms > MAX_TERMS {
        graph.notes.push(format!("{}: {terms} terms do not fit 32 bits; it stays in f32", node.name));
        return Ok(None);
    }
    let scale_of = |c: usize| {
        let s = w.scales.get(if w.scales.len() == 1 { 0 } else { c }).copied().unwrap_or(0.0);
        // Exact: the product of two f32 fits an f64.
        f64::from(x_affine.scale) * f64::from(s)
    };
    let Some(bias) = bias(graph, nodes, node.input(2), channels, &scale_of) else { return Ok(None) };
    let (mut multipliers, mut shifts) = (Vec::new(), Vec::new());
    for c in 0..channels {
        let Some((m, s)) = multiplier(scale_of(c) / f64::from(y.scale)) else { return Ok(None) };
        multipliers.push(m);
        shifts.push(s);
    }
    let requantize = Requantize {
        x_zero: x_affine.zero,
        y_zero: y.zero,
        low: if relu { y.zero } else { -128 },
        high: 127,
        rounding: 0,
        reserved: 0,
    };
    let n = [channels as u64];
    let mut inputs = vec![Some(x), Some(w.value)];
    for v in [bias, multipliers, shifts] {
        inputs.push(Some(graph.constant(DType::I32, &n, Data::from_slice(&v))?));
    }
    Ok(match (matmul, conv) {
        (Some(a), _) => {
            let attrs = QMatMul { requantize, transpose_b: a.transpose_b, reserved: 0 };
            Some(op_node(&node.name, &QMATMUL, attrs, inputs, output))
        }
        (_, Some(a)) => {
            let attrs = QConv2d { geometry: a.geometry, requantize, groups: a.groups, reserved: 0 };
            Some(op_node(&node.name, &QCONV2D, attrs, inputs, output))
        }
        _ => None,
    })
}

/// Known 8-bit weights, symmetric, with one scale or one for each channel.
struct Weights {
    value: Value,
    dims: Vec<u64>,
    scales: Vec<f32>,
}

fn weights(graph: &Graph, nodes: &Nodes, v: Value, channel: usize) -> Option<Weights> {
    let (_, dq) = nodes.producer(v)?;
    let attrs = dq.attrs::<Quantization>(&DEQUANTIZE)?;
    let value = dq.input(0).filter(|w| graph.tensor(*w).dtype == DType::I8)?;
    constant(graph, value)?;
    if let Some(z) = dq.input(2)
        && constant(graph, z)?.as_bytes().iter().any(|b| *b != 0)
    {
        return None;
    }
    let scales: Vec<f32> = constant(graph, dq.input(1)?)?.numbers().collect();
    let fits = attrs.axis == PER_TENSOR || attrs.axis as usize == channel;
    let good = fits && !scales.is_empty() && scales.iter().all(|s| s.is_finite() && *s > 0.0);
    good.then_some(Weights { value, dims: graph.known_dims(value)?, scales })
}

/// The bias in units of the accumulator.
fn bias(
    graph: &Graph,
    nodes: &Nodes,
    v: Option<Value>,
    channels: usize,
    unit: &dyn Fn(usize) -> f64,
) -> Option<Vec<i32>> {
    let Some(v) = v else { return Some(vec![0; channels]) };
    let to_units = |real: f64, c: usize| {
        let q = (real / unit(c)).round_ties_even();
        (q.abs() < f64::from(i32::MAX)).then_some(q as i32)
    };
    if let Some(d) = constant(graph, v).filter(|_| graph.tensor(v).dtype == DType::F32) {
        return d.numbers::<f32>().enumerate().map(|(c, b)| to_units(f64::from(b), c)).collect();
    }
    let (_, dq) = nodes.producer(v).filter(|(_, n)| n.is(&DEQUANTIZE))?;
    let q = dq.input(0).filter(|q| graph.tensor(*q).dtype == DType::I32)?;
    if let Some(z) = dq.input(2)
        && constant(graph, z)?.as_bytes().iter().any(|b| *b != 0)
    {
        return None;
    }
    let scales: Vec<f32> = constant(graph, dq.input(1)?)?.numbers().collect();
    let numbers = constant(graph, q)?.numbers::<i32>().enumerate();
    numbers
        .map(|(c, n)| {
            let s = f64::from(*scales.get(if scales.len() == 1 { 0 } else { c })?);
            // The file's scale is the product rounded to f32: then the numbers are the accumulator's already.
            if (s / unit(c) - 1.0).abs() < 1e-6 { Some(n) } else { to_units(f64::from(n) * s, c) }
        })
        .collect()
}

/// `m` as `multiplier / 2^(31 + shift)` with the multiplier in `[2^30, 2^31)`; `None` where no shift allows that.
fn multiplier(m: f64) -> Option<(i32, i32)> {
    if !m.is_finite() || m <= 0.0 {
        return None;
    }
    let mut exponent = m.log2().floor() as i32 + 1;
    // `log2` may be off by one at powers of two.
    let mut fraction = m * 2f64.powi(-exponent);
    if fraction >= 1.0 {
        (exponent, fraction) = (exponent + 1, fraction / 2.0);
    } else if fraction < 0.5 {
        (exponent, fraction) = (exponent - 1, fraction * 2.0);
    }
    let mut q = (fraction * 2f64.powi(31)).round_ties_even() as i64;
    if q == 1 << 31 {
        (q, exponent) = (1 << 30, exponent + 1);
    }
    let shift = -exponent;
    // The exponent 31 + shift is kept within 1..=62 by every device.
    if !(-30..=31).contains(&shift) {
        return None;
    }
    Some((i32::try_from(q).ok()?, shift))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn multipliers_are_exact_to_31_bits() {
        let mut seed = 5u64;
        for i in 0..10_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let m = if i < 20 {
                2f64.powi(i - 15)
            } else {
                let f = (seed >> 11) as f64 / 2f64.powi(53) + 0.5;
                f * 2f64.powi((seed % 50) as i32 - 30)
            };
            let (q, s) = multiplier(m).unwrap();
            assert!((1 << 30..=i32::MAX).contains(&q), "{m}: {q}");
            let back = f64::from(q) * 2f64.powi(-31 - s);
            assert!((back / m - 1.0).abs() <= 2f64.powi(-31), "{m}: {back}");
        }
        for m in [0.0, -1.0, f64::NAN, f64::INFINITY, 2f64.powi(31), 2f64.powi(-33)] {
            assert_eq!(multiplier(m), None, "{m}");
        }
    }

    #[test]
    fn the_largest_sum_fits() {
        assert!(MAX_TERMS * 255 * 128 <= i32::MAX as u64);
        assert!((MAX_TERMS + 1) * 255 * 128 > i32::MAX as u64);
    }
}
