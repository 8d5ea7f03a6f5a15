//! The handlers of ONNX ops, one file for each family.

mod control;
mod element;
mod linear;
mod movement;
mod quantize;
mod window;

use super::graph::{Importer, Item};
use super::node::{Fail, Node};
use crate::graph::Value;

/// Imports one node; gives its outputs.
pub(super) type Handler = for<'a, 'm> fn(&'a mut Importer<'m>, &'a Node<'m>) -> Result<Vec<Item>, Fail>;

/// Every op, by family.
pub(super) static TABLES: &[&[(&str, Handler)]] = &[
    linear::HANDLERS,
    window::HANDLERS,
    element::HANDLERS,
    movement::HANDLERS,
    quantize::HANDLERS,
    control::HANDLERS,
];

/// The handler of an op type.
pub(super) fn find(op: &str) -> Option<Handler> {
    TABLES.iter().flat_map(|t| t.iter()).find(|(name, _)| *name == op).map(|(_, h)| *h)
}

/// One output.
fn one(value: Value, wide: bool) -> Result<Vec<Item>, Fail> {
    Ok(vec![Item::Value { value, wide }])
}
