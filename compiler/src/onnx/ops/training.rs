//! Steps of optimisers (domain `ai.onnx.preview.training`): new parameters from gradients.

use super::Handler;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node};
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::compare::GREATER;
use serinette_core::op::select::WHERE;
use serinette_core::op::{NoAttributes, OpDescriptor, unary};

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("Adagrad", adagrad), ("Adam", adam), ("Momentum", momentum)];

/// Arithmetic with names of its own for every step.
struct Steps<'a, 'm> {
    im: &'a mut Importer<'m>,
    name: &'a str,
    made: usize,
}

impl Steps<'_, '_> {
    fn label(&mut self) -> String {
        self.made += 1;
        format!("{}:step{}", self.name, self.made)
    }

    fn two(&mut self, op: &'static OpDescriptor, a: Value, b: Value) -> Result<Value, Fail> {
        let at = self.label();
        Ok(self.im.b.op(&at, op, Binary::default(), &[a, b])?)
    }

    fn add(&mut self, a: Value, b: Value) -> Result<Value, Fail> {
        self.two(&binary::ADD, a, b)
    }

    fn mul(&mut self, a: Value, b: Value) -> Result<Value, Fail> {
        self.two(&binary::MUL, a, b)
    }

    fn sub(&mut self, a: Value, b: Value) -> Result<Value, Fail> {
        self.two(&binary::SUB, a, b)
    }

    fn div(&mut self, a: Value, b: Value) -> Result<Value, Fail> {
        self.two(&binary::DIV, a, b)
    }

    fn root(&mut self, x: Value) -> Result<Value, Fail> {
        let at = self.label();
        Ok(self.im.b.op(&at, &unary::SQRT, NoAttributes {}, &[x])?)
    }

    /// `x · factor`.
    fn scaled(&mut self, x: Value, factor: f32) -> Result<Value, Fail> {
        let factor = self.im.float_like(x, factor)?;
        self.mul(x, factor)
    }

    /// `x + more`.
    fn plus(&mut self, x: Value, more: f32) -> Result<Value, Fail> {
        let more = self.im.float_like(x, more)?;
        self.add(x, more)
    }

    fn cast(&mut self, x: Value, to: DType) -> Result<Value, Fail> {
        let at = self.label();
        Ok(if self.im.b.graph.tensor(x).dtype == to { x } else { self.im.b.cast(&at, x, to)? })
    }

    /// `a` where the count of updates is above 0, else `b`.
    fn started(&mut self, count: Value, a: Value, b: Value) -> Result<Value, Fail> {
        let zero = self.im.b.constant(DType::I32, &[], Data::from_slice(&[0i32]))?;
        let (test, at) = (self.label(), self.label());
        let started = self.im.b.op(&test, &GREATER, NoAttributes {}, &[count, zero])?;
        Ok(self.im.b.op(&at, &WHERE, NoAttributes {}, &[started, a, b])?)
    }
}

/// The operands: rate, count of updates (i32), and for each parameter its tensors (parameter, gradient, then states).
struct Operands {
    rate: Value,
    count: Value,
    parameters: Vec<Vec<Value>>,
}

fn operands<'m>(im: &mut Importer<'m>, node: &Node<'m>, kinds: usize) -> Result<Operands, Fail> {
    let ((rate, _), (count, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let given = node.proto.input.len().saturating_sub(2);
    let n = given / kinds;
    if n == 0 || n * kinds != given {
        return Err(node.wrong(format!("{given} tensors, {kinds} for each parameter")));
    }
    let mut parameters = Vec::new();
    for i in 0..n {
        let tensors: Result<Vec<Value>, Fail> =
            (0..kinds).map(|kind| im.input(node, 2 + kind * n + i).map(|(v, _)| v)).collect();
        parameters.push(tensors?);
    }
    Ok(Operands { rate, count, parameters })
}

/// The results in the file's order: all parameters, then all states of one kind after the other.
fn results(made: &[Vec<Value>]) -> Vec<Item> {
    let kinds = made.first().map_or(0, Vec::len);
    let values = (0..kinds).flat_map(|kind| made.iter().filter_map(move |p| p.get(kind)));
    values.map(|value| Item::Value { value: *value, wide: false }).collect()
}

/// `gradient + norm · parameter`.
fn regularised(s: &mut Steps<'_, '_>, x: Value, gradient: Value, norm: f32) -> Result<Value, Fail> {
    if norm == 0.0 {
        return Ok(gradient);
    }
    let decay = s.scaled(x, norm)?;
    s.add(gradient, decay)
}

fn adagrad<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (decay, epsilon) = (node.float("decay_factor", 0.0)?, node.float("epsilon", 1e-6)?);
    let norm = node.float("norm_coefficient", 0.0)?;
    let o = operands(im, node, 3)?;
    let mut s = Steps { im, name: &node.name, made: 0 };
    let mut made = Vec::new();
    for tensors in &o.parameters {
        let (x, gradient, squares) = (tensors[0], tensors[1], tensors[2]);
        let dtype = s.im.b.graph.tensor(x).dtype;
        let (rate, count) = (s.cast(o.rate, dtype)?, s.cast(o.count, dtype)?);
        let slower = s.scaled(count, decay)?;
        let slower = s.plus(slower, 1.0)?;
        let rate = s.div(rate, slower)?;
        let gradient = regularised(&mut s, x, gradient, norm)?;
        let square = s.mul(gradient, gradient)?;
        let squares = s.add(squares, square)?;
        let root = s.root(squares)?;
        let divisor = s.plus(root, epsilon)?;
        let step = s.mul(rate, gradient)?;
        let step = s.div(step, divisor)?;
        made.push(vec![s.sub(x, step)?, squares]);
    }
    Ok(results(&made))
}

fn adam<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (alpha, beta) = (node.float("alpha", 0.9)?, node.float("beta", 0.999)?);
    let epsilon = node.float("epsilon", 1e-6)?;
    let (norm, after) = (node.float("norm_coefficient", 0.0)?, node.float("norm_coefficient_post", 0.0)?);
    let o = operands(im, node, 4)?;
    let mut s = Steps { im, name: &node.name, made: 0 };
    let mut made = Vec::new();
    for tensors in &o.parameters {
        let (x, gradient, mean, squares) = (tensors[0], tensors[1], tensors[2], tensors[3]);
        let dtype = s.im.b.graph.tensor(x).dtype;
        let rate = s.cast(o.rate, dtype)?;
        let gradient = regularised(&mut s, x, gradient, norm)?;
        let (kept, new) = (s.scaled(mean, alpha)?, s.scaled(gradient, 1.0 - alpha)?);
        let mean = s.add(kept, new)?;
        let square = s.mul(gradient, gradient)?;
        let (kept, new) = (s.scaled(squares, beta)?, s.scaled(square, 1.0 - beta)?);
        let squares = s.add(kept, new)?;
        let root = s.root(squares)?;
        let divisor = s.plus(root, epsilon)?;
        // What the averages lack as they began with 0: `rate · √(1 − beta^count) / (1 − alpha^count)`.
        let count = s.cast(o.count, dtype)?;
        let mut missing = [rate; 2];
        for (m, factor) in missing.iter_mut().zip([alpha, beta]) {
            let (base, at) = (s.im.float_like(x, factor)?, s.label());
            let power = s.im.b.op(&at, &binary::POW, NoAttributes {}, &[base, count])?;
            let one = s.im.float_like(x, 1.0)?;
            *m = s.sub(one, power)?;
        }
        let root = s.root(missing[1])?;
        let corrected = s.mul(rate, root)?;
        let corrected = s.div(corrected, missing[0])?;
        let rate = s.started(o.count, corrected, rate)?;
        let step = s.mul(rate, mean)?;
        let step = s.div(step, divisor)?;
        let mut new = s.sub(x, step)?;
        if after != 0.0 {
            new = s.scaled(new, 1.0 - after)?;
        }
        made.push(vec![new, mean, squares]);
    }
    Ok(results(&made))
}

fn momentum<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (alpha, beta) = (node.float("alpha", 0.0)?, node.float("beta", 0.0)?);
    let norm = node.float("norm_coefficient", 0.0)?;
    let nesterov = match node.text("mode", "standard")?.as_str() {
        "standard" => false,
        "nesterov" => true,
        other => return Err(node.wrong(format!("mode {other:?}"))),
    };
    let o = operands(im, node, 3)?;
    let mut s = Steps { im, name: &node.name, made: 0 };
    let mut made = Vec::new();
    for tensors in &o.parameters {
        let (x, gradient, momentum) = (tensors[0], tensors[1], tensors[2]);
        let dtype = s.im.b.graph.tensor(x).dtype;
        let rate = s.cast(o.rate, dtype)?;
        let gradient = regularised(&mut s, x, gradient, norm)?;
        // The first gradient counts in full.
        let (share, whole) = (s.im.float_like(x, beta)?, s.im.float_like(x, 1.0)?);
        let share = s.started(o.count, share, whole)?;
        let (kept, new) = (s.scaled(momentum, alpha)?, s.mul(share, gradient)?);
        let momentum = s.add(kept, new)?;
        let direction = if nesterov {
            let ahead = s.scaled(momentum, alpha)?;
            s.add(gradient, ahead)?
        } else {
            momentum
        };
        let step = s.mul(rate, direction)?;
        made.push(vec![s.sub(x, step)?, momentum]);
    }
    Ok(results(&made))
}
