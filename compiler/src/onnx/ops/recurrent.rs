//! Recurrent layers.

use super::Handler;
use super::conv::trimmed;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use serinette_core::op::OpDescriptor;
use serinette_core::op::recurrent::{self, GateFunction, Recurrent};
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[("RNN", rnn), ("GRU", gru), ("LSTM", lstm)];

fn rnn<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    layer(im, node, &recurrent::RNN, &["Tanh"], 0)
}

fn gru<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let variant = u32::from(node.int("linear_before_reset", 0)? != 0);
    layer(im, node, &recurrent::GRU, &["Sigmoid", "Tanh"], variant)
}

fn lstm<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let variant = u32::from(node.int("input_forget", 0)? != 0);
    layer(im, node, &recurrent::LSTM, &["Sigmoid", "Tanh", "Tanh"], variant)
}

/// A function by its name, with the parameters that it has where the file gives none.
fn function(name: &str) -> Option<(GateFunction, Option<f32>, Option<f32>)> {
    use GateFunction::*;
    // ONNX leaves the names' case open.
    Some(match name.to_ascii_lowercase().as_str() {
        "sigmoid" => (Sigmoid, None, None),
        "tanh" => (Tanh, None, None),
        "relu" => (Relu, None, None),
        "affine" => (Affine, Some(1.0), Some(0.0)),
        "leakyrelu" => (LeakyRelu, Some(0.01), None),
        "thresholdedrelu" => (ThresholdedRelu, Some(1.0), None),
        "scaledtanh" => (ScaledTanh, Some(1.0), Some(1.0)),
        "hardsigmoid" => (HardSigmoid, Some(0.2), Some(0.5)),
        "elu" => (Elu, Some(1.0), None),
        "softsign" => (Softsign, None, None),
        "softplus" => (Softplus, None, None),
        _ => return None,
    })
}

/// The attributes of a layer whose functions in each direction are `defaults` where the file names none.
fn attributes(node: &Node<'_>, defaults: &[&str], variant: u32) -> Result<Recurrent, Fail> {
    let direction = match node.text("direction", "forward")?.as_str() {
        "forward" => recurrent::FORWARD,
        "reverse" => recurrent::REVERSE,
        "bidirectional" => recurrent::BIDIRECTIONAL,
        other => return Err(node.wrong(format!("direction {other:?}"))),
    };
    let clip = match node.attribute("clip") {
        Some(_) => node.float("clip", 0.0)?,
        None => f32::INFINITY,
    };
    if clip.is_nan() || clip <= 0.0 {
        return Err(node.wrong(format!("clip {clip}")));
    }
    let mut attrs = Recurrent {
        direction,
        variant,
        functions: [0; 6],
        alpha: [0.0; 6],
        beta: [0.0; 6],
        clip,
        reserved: 0,
    };
    let needed = defaults.len() * attrs.directions();
    let given = node.attribute("activations").map_or(&[][..], |a| a.strings.as_slice());
    let names: Vec<String> = match given.len() {
        0 => defaults.iter().cycle().take(needed).map(|n| n.to_string()).collect(),
        n if n == needed => given.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect(),
        n => return Err(node.wrong(format!("{n} activations; {needed} are needed"))),
    };
    // Functions take the numbers in their order, those without parameters none.
    let list = |name: &str| node.attribute(name).map_or(vec![], |a| a.floats.clone()).into_iter();
    let (mut alphas, mut betas) = (list("activation_alpha"), list("activation_beta"));
    for (i, name) in names.iter().enumerate() {
        let Some((function, alpha, beta)) = function(name) else {
            return Err(node.wrong(format!("activation {name:?}")));
        };
        attrs.functions[i] = function as u32;
        attrs.alpha[i] = alpha.map_or(0.0, |default| alphas.next().unwrap_or(default));
        attrs.beta[i] = beta.map_or(0.0, |default| betas.next().unwrap_or(default));
    }
    Ok(attrs)
}

fn layer<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    op: &'static OpDescriptor,
    defaults: &[&str],
    variant: u32,
) -> Result<Vec<Item>, Fail> {
    let attrs = attributes(node, defaults, variant)?;
    let batch_first = node.int("layout", 0)? != 0;
    let mut inputs = Vec::new();
    for i in 0..op.inputs.len() {
        let given = im.optional(node, i)?.map(|(v, _)| v);
        inputs.push(match given {
            // The sequences and the initial states.
            Some(v) if batch_first && matches!(i, 0 | 5 | 6) => {
                Some(im.b.transpose(&format!("{}:input{i}", node.name), v, &[1, 0, 2])?)
            }
            given => given,
        });
    }
    let size = node.int("hidden_size", 0)?;
    let hidden = inputs.get(2).copied().flatten().and_then(|r| im.dims_of(r).get(2).copied());
    let hidden = hidden.and_then(|d| im.b.graph.dims.known(d));
    if size != 0 && hidden.is_some_and(|h| u64::try_from(size) != Ok(h)) {
        return Err(node.wrong(format!("hidden_size {size}, but the recurrence weights have {hidden:?}")));
    }
    let outputs = im.b.op_with(&node.name, op, attrs, trimmed(&inputs), &[], None)?;
    let mut items = Vec::new();
    for (i, value) in outputs.into_iter().enumerate() {
        let axes: &[usize] = if i == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
        let read = node.proto.output.get(i).is_some_and(|o| !o.is_empty());
        let value = match batch_first && read {
            true => im.b.transpose(&format!("{}:output{i}", node.name), value, axes)?,
            false => value,
        };
        items.push(item(value));
    }
    Ok(items)
}

fn item(value: Value) -> Item {
    Item::Value { value, wide: false }
}
