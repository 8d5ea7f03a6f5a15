//! Blocks become steps.
//!
//! Results of `If` arms and of loop bodies, and initial values of loops, must end up in memory that something
//! outside decides. Where the step that computes such a value may write it there directly, it does; else a `Copy`
//! follows. Loop-carried values come in pairs that share memory: `in`, read by the body and by whatever follows the
//! loop, and `out`, written at the end of the body.

use super::{LowEntry, LowStep, LowValue, Place, Program};
use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Source, Value, each_use};
use serinette_core::op::OpDescriptor;
use serinette_core::op::movement::COPY;
use serinette_core::schedule::record::{role, step_kind, value_flag};
use serinette_core::shape::{Dim, DimAlgebra};
use std::collections::{HashMap, HashSet};

pub(super) fn flatten(graph: &Graph, names: bool) -> Result<Program, Error> {
    let mut dims = graph.dims.clone();
    let mut views = Views::default();
    for e in &graph.entries {
        views.collect(graph, &mut dims, &e.block)?;
    }
    let (program, ids, alias) = (Program::default(), HashMap::new(), HashMap::new());
    let mut l = Lowering { graph, names, program, ids, alias, views };
    l.globals();
    for e in &graph.entries {
        let inputs: Vec<u32> = e.inputs.iter().map(|v| l.id(*v)).collect();
        let first = l.program.steps.len();
        if e.prepare {
            l.write_derived_directly(&e.block);
        }
        l.block(&e.block)?;
        let outputs: Vec<u32> = e.block.results.iter().map(|v| l.id(*v)).collect();
        for (id, name) in outputs.iter().zip(&e.outputs) {
            if let Some(v) = l.program.values.get_mut(*id as usize) {
                v.name.clone_from(name);
            }
        }
        let moves: Vec<(Value, u32)> = e.updates.iter().map(|(s, new)| (*new, l.id(*s))).collect();
        l.parallel_copies("update", &moves);
        let steps = l.program.steps.len() - first;
        let (name, prepare) = (e.name.clone(), e.prepare);
        l.program.entries.push(LowEntry { name, prepare, first, steps, inputs, outputs });
    }
    Ok(l.program)
}

/// Which values are views, found before any of them gets an id.
#[derive(Default)]
struct Views {
    /// Reshapes and windows: root and, for a window, axis and start.
    of: HashMap<Value, (Value, Option<(u8, Dim)>)>,
    /// Parts → their whole.
    part_of: HashMap<Value, Value>,
    /// Wholes → axis, parts with their starts.
    joins: HashMap<Value, (u8, Vec<(Value, Dim)>)>,
}

impl Views {
    fn collect(
        &mut self,
        graph: &Graph,
        dims: &mut crate::dims::DimTable,
        block: &Block,
    ) -> Result<(), Error> {
        for n in &block.nodes {
            n.blocks().into_iter().try_for_each(|b| self.collect(graph, dims, b))?;
            let (Some(x), Some(y)) = (n.input(0), n.outputs.first().copied()) else { continue };
            match &n.kind {
                NodeKind::Reshape => {
                    self.of.insert(y, (x, None));
                }
                NodeKind::Window { axis, start } => {
                    self.of.insert(y, (x, Some((*axis, *start))));
                }
                NodeKind::Join { axis } => {
                    let fail = |e| Error::shape(&n.name, e);
                    let mut start = dims.constant(0).map_err(fail)?;
                    let mut parts = Vec::new();
                    for v in n.inputs.iter().flatten() {
                        self.part_of.insert(*v, y);
                        parts.push((*v, start));
                        let length = graph.tensor(*v).dims.get(usize::from(*axis)).copied();
                        let length = length.ok_or(Error::count(&n.name, "axes", u64::from(*axis) + 1, 0))?;
                        // The sums were made by the pass that chose to join, so their ids are the graph's.
                        start = dims.add(start, length).map_err(fail)?;
                    }
                    self.joins.insert(y, (*axis, parts));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The value whose memory `v` is or views.
    fn root(&self, v: Value) -> Value {
        let mut v = v;
        loop {
            v = match (self.of.get(&v), self.part_of.get(&v)) {
                (Some((r, _)), _) => *r,
                (None, Some(whole)) => *whole,
                (None, None) => return v,
            }
        }
    }

    fn has_own_memory(&self, v: Value) -> bool {
        self.root(v) == v
    }
}

struct Lowering<'g> {
    graph: &'g Graph,
    /// Whether values that are computed keep their names.
    names: bool,
    program: Program,
    ids: HashMap<Value, u32>,
    /// Values that are stored as another one.
    alias: HashMap<Value, Value>,
    views: Views,
}

impl Lowering<'_> {
    /// Ids of everything that lives longer than a run, in the order of the graph.
    fn globals(&mut self) {
        let uses = self.graph.use_counts();
        for (i, t) in self.graph.tensors.iter().enumerate() {
            let used = uses.get(i).is_some_and(|n| *n > 0);
            let wanted = match t.source {
                Source::Param(_) | Source::State | Source::Derived => true,
                Source::Constant(_) | Source::Weight(_) => used,
                _ => false,
            };
            if wanted {
                self.id(Value(i as u32));
            }
        }
    }

    /// The id of a value, given to it (and to what it views, and to its sister parts) when it is first asked for.
    fn id(&mut self, v: Value) -> u32 {
        let mut v = v;
        while let Some(a) = self.alias.get(&v) {
            v = *a;
        }
        if let Some(id) = self.ids.get(&v) {
            return *id;
        }
        if let Some((root, window)) = self.views.of.get(&v).copied() {
            let root = self.id(root);
            let place = match window {
                Some((axis, start)) => Place::Window { root, axis, start },
                None => Place::Reshape { root },
            };
            return self.new_value(v, place);
        }
        if let Some(whole) = self.views.part_of.get(&v).copied() {
            let root = self.id(whole);
            let (axis, parts) = self.views.joins.get(&whole).cloned().unwrap_or_default();
            let count = parts.len() as u16;
            for (i, (part, start)) in parts.iter().enumerate() {
                self.new_value(
                    *part,
                    Place::Part { root, axis, start: *start, part: i as u16, parts: count },
                );
            }
            return self.ids.get(&v).copied().unwrap_or(root);
        }
        self.new_value(v, Place::Own)
    }

    fn new_value(&mut self, v: Value, place: Place) -> u32 {
        let t = self.graph.tensor(v);
        let mut low = LowValue {
            name: String::new(),
            dtype: t.dtype,
            dims: t.dims.clone(),
            role: role::INTERMEDIATE,
            flags: 0,
            place,
            data: None,
        };
        let named = |low: &mut LowValue, role| {
            (low.role, low.name) = (role, t.name.clone());
        };
        match &t.source {
            Source::Computed if self.names => low.name.clone_from(&t.name),
            Source::Computed => {}
            Source::Input { keep } => {
                named(&mut low, role::INPUT);
                low.flags = if *keep { value_flag::KEEP } else { 0 };
            }
            Source::Constant(d) => (low.role, low.data) = (role::CONSTANT, Some(d.clone())),
            Source::Weight(d) => {
                named(&mut low, role::WEIGHT);
                low.data = Some(d.clone());
            }
            Source::Param(d) => {
                named(&mut low, role::PARAM);
                low.data = d.clone();
            }
            Source::State => named(&mut low, role::STATE),
            Source::Derived => named(&mut low, role::DERIVED),
        }
        if let Place::Reshape { root } | Place::Window { root, .. } | Place::Part { root, .. } = place {
            // A view has its root's role, and no data of its own.
            low.role = self.program.values.get(root as usize).map_or(role::INTERMEDIATE, |r| r.role);
            low.data = None;
        }
        self.program.values.push(low);
        let id = self.program.values.len() as u32 - 1;
        self.ids.insert(v, id);
        id
    }

    /// A new value like `like`, that no graph value stands for.
    fn extra(&mut self, like: u32) -> u32 {
        let (dtype, dims) = self
            .program
            .values
            .get(like as usize)
            .map_or((serinette_core::DType::F32, vec![]), |v| (v.dtype, v.dims.clone()));
        self.program.values.push(LowValue {
            name: String::new(),
            dtype,
            dims,
            role: role::INTERMEDIATE,
            flags: 0,
            place: Place::Own,
            data: None,
        });
        self.program.values.len() as u32 - 1
    }

    /// Gives the name of a value that is computed to what stands for it.
    fn call(&mut self, id: u32, v: Value) {
        let name = &self.graph.tensor(v).name;
        if let Some(low) = self.program.values.get_mut(id as usize)
            && self.names
            && !name.is_empty()
        {
            low.name.clone_from(name);
        }
    }

    fn push(&mut self, kind: u8, name: &str, op: Option<&'static OpDescriptor>) -> &mut LowStep {
        self.program.steps.push(LowStep {
            kind,
            name: name.into(),
            op,
            attrs: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            in_place: [0; 4],
            link: 0,
            max_trips: None,
            counter: None,
        });
        let last = self.program.steps.len() - 1;
        &mut self.program.steps[last]
    }

    fn copy(&mut self, name: &str, from: u32, to: u32) {
        let s = self.push(step_kind::OP, name, Some(&COPY));
        (s.inputs, s.outputs) = (vec![Some(from)], vec![to]);
    }

    /// The value whose memory `v` is as a whole: reshapes name it under other dimensions.
    fn whole(&self, v: u32) -> u32 {
        match self.program.values.get(v as usize).map(|v| v.place) {
            Some(Place::Reshape { root }) => root,
            _ => v,
        }
    }

    /// Copies all at once: a source that is itself one of the targets is saved first. A source that is its own
    /// target already, under whatever dimensions, needs nothing.
    fn parallel_copies(&mut self, name: &str, moves: &[(Value, u32)]) {
        let targets: HashSet<u32> = moves.iter().map(|(_, to)| *to).collect();
        let mut ready = Vec::new();
        for (from, to) in moves {
            let mut from = self.id(*from);
            if self.whole(from) == *to {
                continue;
            }
            if targets.contains(&self.program.root(from)) {
                let saved = self.extra(from);
                self.copy(name, from, saved);
                from = saved;
            }
            ready.push((from, *to));
        }
        for (from, to) in ready {
            self.copy(name, from, to);
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        self.write_initials_directly(block);
        for node in &block.nodes {
            match &node.kind {
                NodeKind::Op { op, attrs } => {
                    let inputs: Vec<_> = node.inputs.iter().map(|v| v.map(|v| self.id(v))).collect();
                    let outputs: Vec<_> = node.outputs.iter().map(|v| self.id(*v)).collect();
                    // A copy to the very place that its source was computed into.
                    if node.is(&COPY) && inputs.first() == outputs.first().map(|o| Some(*o)).as_ref() {
                        continue;
                    }
                    let s = self.push(step_kind::OP, &node.name, Some(*op));
                    (s.attrs, s.inputs, s.outputs) = (attrs.clone(), inputs, outputs);
                }
                NodeKind::Reshape | NodeKind::Window { .. } | NodeKind::Join { .. } => {}
                NodeKind::If { then, otherwise } => self.conditional(node, then, otherwise)?,
                NodeKind::Loop { body, max_trips, counter, condition } => {
                    self.initial_copies(node, body);
                    self.repeated(node, body, *max_trips, *counter, *condition)?;
                }
            }
        }
        Ok(())
    }

    fn conditional(&mut self, node: &Node, then: &Block, otherwise: &Block) -> Result<(), Error> {
        let results: Vec<u32> = node.outputs.iter().map(|o| self.id(*o)).collect();
        let condition = node.input(0).map(|v| self.id(v));
        let open = self.program.steps.len();
        let s = self.push(step_kind::IF, &node.name, None);
        (s.inputs, s.outputs) = (vec![condition], results.clone());
        self.arm(node, then, &results)?;
        let other = self.program.steps.len();
        self.push(step_kind::ELSE, &node.name, None);
        self.arm(node, otherwise, &results)?;
        let end = self.program.steps.len();
        self.push(step_kind::END, &node.name, None).link = open as u32;
        self.program.steps[open].link = other as u32;
        self.program.steps[other].link = end as u32;
        Ok(())
    }

    fn arm(&mut self, node: &Node, block: &Block, results: &[u32]) -> Result<(), Error> {
        for (o, r) in node.outputs.iter().zip(&block.results) {
            let once = block.results.iter().filter(|x| *x == r).count() == 1;
            if once && self.producer(block, *r).is_some() {
                self.alias.insert(*r, *o);
            }
        }
        self.block(block)?;
        let moves: Vec<(Value, u32)> = block.results.iter().copied().zip(results.iter().copied()).collect();
        self.parallel_copies(&node.name, &moves);
        Ok(())
    }

    /// The node of this very block that computes `v` into memory of its own, if `v` is free to be stored elsewhere.
    fn producer(&self, block: &Block, v: Value) -> Option<usize> {
        let free = self.views.has_own_memory(v)
            && !self.alias.contains_key(&v)
            && !self.ids.contains_key(&v)
            && self.graph.tensor(v).source == Source::Computed;
        let i = block.nodes.iter().position(|n| n.outputs.contains(&v))?;
        let by_op = matches!(block.nodes.get(i)?.kind, NodeKind::Op { .. });
        (free && by_op).then_some(i)
    }

    /// Whether a node reads `v`, itself or through a view.
    fn reads(&self, node: &Node, v: Value) -> bool {
        // Views are read where their readers are, not where they are named.
        if matches!(node.kind, NodeKind::Reshape | NodeKind::Window { .. }) {
            return false;
        }
        let mut found = false;
        each_use(node, &mut |u| found |= self.views.root(u) == v);
        found
    }

    /// Initial values that are computed in this block just for a loop are computed into the carried memory.
    fn write_initials_directly(&mut self, block: &Block) {
        for (at, node) in block.nodes.iter().enumerate() {
            let NodeKind::Loop { body, .. } = &node.kind else { continue };
            for (k, arg) in body.args.iter().enumerate() {
                let Some(v) = node.input(k + 1) else { continue };
                let once = node.inputs.iter().filter(|i| **i == Some(v)).count() == 1;
                let mut inside = false;
                body.each_use(&mut |u| inside |= self.views.root(u) == v);
                let later = block.nodes.iter().skip(at + 1).any(|n| self.reads(n, v));
                let result = block.results.iter().any(|r| self.views.root(*r) == v);
                let update =
                    self.graph.entries.iter().any(|e| e.updates.iter().any(|u| self.views.root(u.1) == v));
                if once && !inside && !later && !result && !update && self.producer(block, v).is_some() {
                    self.alias.insert(v, *arg);
                }
            }
        }
    }

    /// The other initial values are copied.
    fn initial_copies(&mut self, node: &Node, body: &Block) {
        let mut moves = Vec::new();
        for (k, arg) in body.args.iter().enumerate() {
            let Some(v) = node.input(k + 1) else { continue };
            let to = self.id(*arg);
            moves.push((v, to));
        }
        self.parallel_copies(&node.name, &moves);
    }

    fn repeated(
        &mut self,
        node: &Node,
        body: &Block,
        max_trips: Dim,
        counter: Dim,
        condition: Option<usize>,
    ) -> Result<(), Error> {
        let before: Vec<u32> = body.args.iter().map(|a| self.id(*a)).collect();
        // Behind the loop the carried memory holds `in`.
        for (o, a) in node.outputs.iter().zip(&body.args) {
            self.alias.insert(*o, *a);
        }
        let after: Vec<u32> = before.iter().map(|id| self.extra(*id)).collect();
        for ((o, id), (r, out)) in node.outputs.iter().zip(&before).zip(body.results.iter().zip(&after)) {
            self.call(*id, *o);
            self.call(*out, *r);
        }
        let mut inputs = vec![condition.and_then(|c| before.get(c).copied())];
        inputs.push(node.inputs.first().copied().flatten().map(|v| self.id(v)));
        inputs.extend(before.iter().map(|b| Some(*b)));
        let open = self.program.steps.len();
        let used = uses_counter(body, counter);
        let s = self.push(step_kind::LOOP, &node.name, None);
        (s.inputs, s.outputs) = (inputs, after.clone());
        (s.max_trips, s.counter) = (Some(max_trips), used.then_some(counter));
        for (k, r) in body.results.iter().enumerate() {
            if self.may_write_out(body, k) {
                self.ids.insert(*r, after[k]);
            }
        }
        self.block(body)?;
        self.carry(node, body, &before, &after);
        let end = self.program.steps.len();
        self.push(step_kind::END, &node.name, None).link = open as u32;
        self.program.steps[open].link = end as u32;
        Ok(())
    }

    /// Copies at the end of a body. Reading an `in` there is reading memory that a copy may have overwritten.
    fn carry(&mut self, node: &Node, body: &Block, before: &[u32], after: &[u32]) {
        let mut ready = Vec::new();
        for (r, to) in body.results.iter().zip(after) {
            let mut from = self.id(*r);
            if from == *to {
                continue;
            }
            if before.contains(&self.program.root(from)) {
                let saved = self.extra(from);
                self.copy(&node.name, from, saved);
                from = saved;
            }
            ready.push((from, *to));
        }
        for (from, to) in ready {
            self.copy(&node.name, from, to);
        }
    }

    /// Whether the step that computes result `k` of a body may write it over argument `k`: nothing reads the
    /// argument at that step or later, except the step itself where its op allows to store in place.
    fn may_write_out(&self, body: &Block, k: usize) -> bool {
        let (Some(r), Some(arg)) = (body.results.get(k).copied(), body.args.get(k).copied()) else {
            return false;
        };
        let once = body.results.iter().filter(|x| **x == r).count() == 1;
        let Some(at) = self.producer(body, r).filter(|_| once) else { return false };
        let read_at_end = body.results.iter().any(|x| self.views.root(*x) == arg);
        let read_later = body.nodes.iter().skip(at + 1).any(|n| self.reads(n, arg));
        if read_at_end || read_later {
            return false;
        }
        let Some(node) = body.nodes.get(at) else { return false };
        if !self.reads(node, arg) {
            return true;
        }
        // Exactly one operand is the argument itself, with the same dimensions, and the op allows it.
        let NodeKind::Op { op, .. } = &node.kind else { return false };
        let o = node.outputs.iter().position(|x| *x == r);
        let touching: Vec<usize> = (0..node.inputs.len())
            .filter(|i| node.input(*i).is_some_and(|v| self.views.root(v) == arg))
            .collect();
        let (Some(o), [i]) = (o, touching.as_slice()) else { return false };
        let (x, y) = (self.graph.tensor(arg), self.graph.tensor(r));
        node.input(*i) == Some(arg) && op.allows_in_place(*i, o) && x.dims == y.dims && x.dtype == y.dtype
    }

    /// In a `prepare` entry: what is copied to a derived value is computed there at once.
    fn write_derived_directly(&mut self, block: &Block) {
        for n in &block.nodes {
            let Some((x, y)) = n.input(0).zip(n.outputs.first().copied()) else { continue };
            let derived = n.is(&COPY) && self.graph.tensor(y).source == Source::Derived;
            let same = self.graph.tensor(x).dims == self.graph.tensor(y).dims;
            if derived && same && self.producer(block, x).is_some() {
                self.alias.insert(x, y);
            }
        }
    }
}

/// Whether anything in a body reads the loop's counter.
fn uses_counter(body: &Block, counter: Dim) -> bool {
    body.nodes.iter().any(|n| {
        let mut found = false;
        if let NodeKind::Op { op, attrs } = &n.kind {
            (op.attr_exprs)(attrs, &mut |e| found |= u64::from(e) == counter.0);
        }
        found || n.blocks().into_iter().any(|b| uses_counter(b, counter))
    })
}
