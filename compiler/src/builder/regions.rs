//! Conditional and repeated regions.

use super::{Frame, GraphBuilder, Size};
use crate::data::Data;
use crate::error::Error;
use crate::graph::{Block, Node, NodeKind, Value};
use serinette_core::op::NoAttributes;
use serinette_core::op::generate::FILL;
use serinette_core::schedule::record::symbol_kind;
use serinette_core::shape::{Dim, DimAlgebra};
use serinette_core::{DType, MAX_DEPTH};

/// How often a loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Trips {
    /// Most trips, whatever the data say.
    pub most: Size,
    /// The trip count (i32, one element), where data say it.
    pub count: Option<Value>,
}

/// A loop to be built.
pub struct LoopSpec<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// How often it runs.
    pub trips: Trips,
    /// Which carried value is the condition (bool, one element), read before each trip.
    pub condition: Option<usize>,
    /// What the carried values hold before the first trip.
    pub initial: &'a [Value],
}

impl GraphBuilder {
    fn one_element(&mut self, at: &str, v: Value, dtype: DType) -> Result<(), Error> {
        self.visible(at, v)?;
        let t = self.graph.tensor(v).clone();
        if t.dtype != dtype {
            return Err(Error::types(at, dtype.name(), t.dtype.name()));
        }
        // The element count must be certain: control flow reads exactly one.
        let elements: Option<u64> = t.dims.iter().map(|d| self.graph.dims.known(*d)).product();
        if elements == Some(1) {
            return Ok(());
        }
        Err(Error::count(at, "elements of a condition or count", 1, elements.unwrap_or(u64::MAX)))
    }

    /// Opens a block; everything made until [`end_region`](Self::end_region) belongs to it.
    pub(crate) fn begin_region(&mut self, at: &str) -> Result<(), Error> {
        if self.frames.is_empty() || self.frames.len() > MAX_DEPTH {
            return Err(Error::count(at, "nested regions", MAX_DEPTH as u64, self.frames.len() as u64));
        }
        let scope = self.scope_id();
        self.frames.push(Frame { block: Block::default(), scope });
        Ok(())
    }

    /// Closes the block opened last.
    pub(crate) fn end_region(&mut self, at: &str, results: Vec<Value>) -> Result<Block, Error> {
        let seen = results.iter().try_for_each(|v| self.visible(at, *v));
        let frame = self.frames.pop().ok_or(Error::count(at, "open regions", 1, 0))?;
        seen?;
        Ok(Block { results, ..frame.block })
    }

    /// Runs `build` inside a new block; closes the block whatever happens.
    fn region(
        &mut self,
        at: &str,
        build: impl FnOnce(&mut Self) -> Result<Vec<Value>, Error>,
    ) -> Result<Block, Error> {
        self.begin_region(at)?;
        match build(self) {
            Ok(results) => self.end_region(at, results),
            Err(e) => {
                self.frames.pop();
                Err(e)
            }
        }
    }

    /// `then` if `condition` (bool, one element) is true, else `otherwise`. Both give the same number of values
    /// with the same types and shapes.
    pub fn if_(
        &mut self,
        name: &str,
        condition: Value,
        then: impl FnOnce(&mut Self) -> Result<Vec<Value>, Error>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<Value>, Error>,
    ) -> Result<Vec<Value>, Error> {
        let then = self.region(name, then)?;
        let otherwise = self.region(name, otherwise)?;
        self.push_if(name, condition, then, otherwise)
    }

    /// The node of two closed blocks.
    pub(crate) fn push_if(
        &mut self,
        name: &str,
        condition: Value,
        then: Block,
        otherwise: Block,
    ) -> Result<Vec<Value>, Error> {
        self.one_element(name, condition, DType::Bool)?;
        let outputs = self.merged(name, &then.results, &otherwise.results)?;
        self.push_node(Node::new(name, NodeKind::If { then, otherwise }, &[condition], &outputs))?;
        Ok(outputs)
    }

    /// New values for results that come from either of two places with equal types and shapes.
    fn merged(&mut self, name: &str, a: &[Value], b: &[Value]) -> Result<Vec<Value>, Error> {
        let scope = self.scope(name)?;
        if a.len() != b.len() {
            return Err(Error::count(name, "results of a block", a.len() as u64, b.len() as u64));
        }
        let mut outputs = Vec::new();
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let (x, y) = (self.graph.tensor(*a).clone(), self.graph.tensor(*b).clone());
            if x.dtype != y.dtype {
                return Err(Error::types(name, x.dtype.name(), y.dtype.name()));
            }
            self.same_shape(name, &x.dims, &y.dims)?;
            outputs.push(self.graph.computed(format!("{name}:{i}"), x.dtype, x.dims, scope));
        }
        Ok(outputs)
    }

    /// Repeats a body. It is given the counter (an expression, from 0) and the carried values, and gives what they
    /// hold after the trip; the outputs are what they hold after the last one.
    pub fn loop_(
        &mut self,
        spec: LoopSpec<'_>,
        body: impl FnOnce(&mut Self, Dim, &[Value]) -> Result<Vec<Value>, Error>,
    ) -> Result<Vec<Value>, Error> {
        let open = self.begin_loop(&spec)?;
        match body(self, open.counter, &open.args) {
            Ok(results) => self.end_loop(&spec, open, results),
            Err(e) => {
                self.frames.pop();
                Err(e)
            }
        }
    }

    /// Opens the body of a loop.
    pub(crate) fn begin_loop(&mut self, spec: &LoopSpec<'_>) -> Result<OpenLoop, Error> {
        let name = spec.name;
        for v in spec.initial {
            self.visible(name, *v)?;
        }
        if let Some(count) = spec.trips.count {
            self.one_element(name, count, DType::I32)?;
        }
        if let Some(c) = spec.condition {
            let n = spec.initial.len() as u64;
            let v = spec.initial.get(c).ok_or(Error::count(name, "number of the condition", n, c as u64))?;
            self.one_element(name, *v, DType::Bool)?;
        }
        let max_trips = self.sizes(name, &[spec.trips.most])?;
        let max_trips = *max_trips.first().ok_or(Error::count(name, "trip counts", 1, 0))?;
        let (_, most) = self.graph.dims.range(max_trips);
        let label = format!("{name}[trip {}]", self.graph.dims.symbols().len());
        let counter = self.new_symbol(&label, symbol_kind::COUNTER, 0, most.saturating_sub(1), 1)?;
        self.begin_region(name)?;
        let inner = self.scope(name)?;
        let mut args = Vec::new();
        for (i, v) in spec.initial.iter().enumerate() {
            let t = self.graph.tensor(*v).clone();
            args.push(self.graph.computed(format!("{name}:in{i}"), t.dtype, t.dims, inner));
        }
        Ok(OpenLoop { counter, args, max_trips })
    }

    /// One more carried value of a loop whose body is open, zeros at first: for what only the body says the type of. Gives
    /// what it holds before the first trip, for [`LoopSpec::initial`] at the end of the loop; in the body it is the last of
    /// the arguments. The dimensions must mean something outside of the body.
    pub(crate) fn carry_zeros(
        &mut self,
        name: &str,
        open: &mut OpenLoop,
        dtype: DType,
        dims: &[Size],
    ) -> Result<Value, Error> {
        let inner = self.scope(name)?;
        let zero = self.constant(dtype, &[], Data::from(vec![0u8; dtype.size()]))?;
        let body = self.frames.pop().ok_or(Error::count(name, "open regions", 1, 0))?;
        let zeros = self.single(name, &FILL, NoAttributes {}, &[Some(zero)], &[], Some(dims));
        self.frames.push(body);
        let zeros = zeros?;
        let t = self.graph.tensor(zeros).clone();
        let arg = self.graph.computed(format!("{name}:in{}", open.args.len()), dtype, t.dims, inner);
        open.args.push(arg);
        Ok(zeros)
    }

    /// Closes the body of a loop and makes its node.
    pub(crate) fn end_loop(
        &mut self,
        spec: &LoopSpec<'_>,
        open: OpenLoop,
        results: Vec<Value>,
    ) -> Result<Vec<Value>, Error> {
        let name = spec.name;
        let block = self.end_region(name, results)?;
        let outputs = self.merged(name, &open.args, &block.results)?;
        let mut inputs = vec![spec.trips.count];
        inputs.extend(spec.initial.iter().map(|v| Some(*v)));
        let kind = NodeKind::Loop {
            body: Block { args: open.args, ..block },
            max_trips: open.max_trips,
            counter: open.counter,
            condition: spec.condition,
        };
        self.push_node(Node { name: name.into(), kind, inputs, outputs: outputs.clone() })?;
        Ok(outputs)
    }
}

/// A loop whose body is being built.
pub(crate) struct OpenLoop {
    /// Expression of the counter.
    pub counter: Dim,
    /// Arguments of the body.
    pub args: Vec<Value>,
    max_trips: Dim,
}
