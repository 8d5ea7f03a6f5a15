//! The operands of a node: values, constants, sizes.

use super::graph::{Importer, Item};
use super::node::{Fail, Node};
use super::tensor::Constant;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use serinette_core::DType;
use serinette_core::shape::Dim;

impl<'m> Importer<'m> {
    /// The value of an item (`None` for a poisoned one) and whether it was int64.
    pub fn materialise(&mut self, at: &str, item: Item) -> Result<Option<(Value, bool)>, Error> {
        let id = match item {
            Item::Value { value, wide } => return Ok(Some((value, wide))),
            Item::Poisoned => return Ok(None),
            Item::Sizes(id) => {
                let Some(list) = self.size_lists.get(id).cloned() else { return Ok(None) };
                let wide = list.dtype == DType::I64;
                return Ok(Some((self.sizes_as_tensor(at, &list)?, wide)));
            }
            Item::Constant(id) => id,
        };
        let Some(known) = self.constants.get(id) else { return Ok(None) };
        let wide = known.constant.dtype == DType::I64;
        if let Some(v) = known.value {
            return Ok(Some((v, wide)));
        }
        let c = known.constant.clone();
        let value = if wide {
            let narrow: Vec<i32> = c
                .data
                .numbers::<i64>()
                .map(|v| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
                .collect();
            if c.data.numbers::<i64>().zip(&narrow).any(|(a, b)| a != i64::from(*b)) {
                self.b.note(format!("{at}: int64 constant {} does not fit 32 bits; it saturates", c.name));
            }
            self.b.constant(DType::I32, &c.dims, Data::from_slice(&narrow))?
        } else if c.name.is_empty() || c.dims.is_empty() {
            self.b.constant(c.dtype, &c.dims, c.data)?
        } else {
            self.b.weight(&c.name, c.dtype, &c.dims, c.data)?
        };
        if let Some(k) = self.constants.get_mut(id) {
            k.value = Some(value);
        }
        Ok(Some((value, wide)))
    }

    /// Input `i` of a node as a value, and whether it was int64.
    pub fn input(&mut self, node: &Node<'m>, i: usize) -> Result<(Value, bool), Fail> {
        self.optional(node, i)?.ok_or_else(|| node.wrong(format!("input {i} is missing")))
    }

    /// Input `i` as a value, if it is given.
    pub fn optional(&mut self, node: &Node<'m>, i: usize) -> Result<Option<(Value, bool)>, Fail> {
        match self.item(node, i) {
            None => Ok(None),
            Some(item) => match self.materialise(&node.name, item)? {
                Some(found) => Ok(Some(found)),
                None => Err(Fail::Poisoned),
            },
        }
    }

    pub fn item(&self, node: &Node<'m>, i: usize) -> Option<Item> {
        node.proto.input.get(i).filter(|n| !n.is_empty()).and_then(|n| self.lookup(n))
    }

    /// Input `i` as a constant, if its contents are known now.
    pub fn constant(&self, node: &Node<'m>, i: usize) -> Option<&Constant> {
        match self.item(node, i)? {
            Item::Constant(id) => self.constants.get(id).map(|k| &k.constant),
            _ => None,
        }
    }

    /// Input `i` as integers known now; `None` if it is not given.
    pub fn constant_integers(&self, node: &Node<'m>, i: usize, what: &str) -> Result<Option<Vec<i64>>, Fail> {
        if !node.has(i) {
            return Ok(None);
        }
        if matches!(self.item(node, i), Some(Item::Poisoned)) {
            return Err(Fail::Poisoned);
        }
        match self.constant(node, i).and_then(Constant::integers) {
            Some(v) => Ok(Some(v)),
            None => Err(Fail::Unsupported(format!("{what} must be constant integers"))),
        }
    }

    pub fn dims_of(&self, v: Value) -> Vec<Dim> {
        self.b.graph.tensor(v).dims.clone()
    }

    pub fn rank(&self, v: Value) -> usize {
        self.b.graph.tensor(v).dims.len()
    }
}
