//! The handlers of ONNX ops, one file for each family.

mod attention;
mod control;
mod conv;
mod einsum;
mod element;
mod flex_attention;
mod gather;
mod generate;
mod linear;
mod linear_attention;
mod loss;
mod ml;
mod movement;
mod ngrams;
mod norm;
mod pad;
mod pools;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod signal;
mod spatial;
mod training;
mod unary;

use super::graph::{Importer, Item};
use super::node::{Fail, Node};
use crate::graph::Value;

/// Imports one node; gives its outputs.
pub(super) type Handler = for<'a, 'm> fn(&'a mut Importer<'m>, &'a Node<'m>) -> Result<Vec<Item>, Fail>;

/// Every op, by family.
pub(super) static TABLES: &[&[(&str, Handler)]] = &[
    linear::HANDLERS,
    einsum::HANDLERS,
    loss::HANDLERS,
    conv::HANDLERS,
    pools::HANDLERS,
    recurrent::HANDLERS,
    attention::HANDLERS,
    element::HANDLERS,
    gather::HANDLERS,
    generate::HANDLERS,
    unary::HANDLERS,
    movement::HANDLERS,
    norm::HANDLERS,
    pad::HANDLERS,
    quantize::HANDLERS,
    reduce::HANDLERS,
    resample::HANDLERS,
    control::HANDLERS,
    scan::HANDLERS,
    linear_attention::HANDLERS,
    signal::HANDLERS,
    random::HANDLERS,
    ngrams::HANDLERS,
];

/// Ops of other domains.
static OTHERS: &[(&str, &[(&str, Handler)])] = &[
    ("ai.onnx.ml", ml::HANDLERS),
    ("ai.onnx.preview", flex_attention::HANDLERS),
    ("ai.onnx.preview.training", training::HANDLERS),
];

/// Whether a domain is that of the standard ops.
pub(super) fn standard(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// The handler of an op type.
pub(super) fn find(domain: &str, op: &str) -> Option<Handler> {
    let of = |table: &'static [(&str, Handler)]| table.iter().find(|(name, _)| *name == op).map(|(_, h)| *h);
    if standard(domain) {
        return TABLES.iter().find_map(|t| of(t));
    }
    OTHERS.iter().filter(|(name, _)| *name == domain).find_map(|(_, t)| of(t))
}

/// One output.
fn one(value: Value, wide: bool) -> Result<Vec<Item>, Fail> {
    Ok(vec![Item::Value { value, wide }])
}
