//! What each pass did to a graph: which nodes are gone and what became of them, which are new, what constants take.
//!
//! ```
//! # use serinette_compiler::{CompileOptions, Error, Graph, compile_observed, explain::Explanation};
//! # fn show(graph: Graph) -> Result<(), Error> {
//! let mut told = Explanation::default();
//! compile_observed(graph, &CompileOptions::default(), &mut |stage| told.observe(stage))?;
//! for p in &told.passes {
//!     println!("{}: {} nodes → {}", p.pass, p.before.nodes, p.after.nodes);
//! }
//! # Ok(()) }
//! ```

mod snapshot;

use crate::passes::Stage;
use snapshot::{Kind, Snapshot, Step};
use std::collections::{BTreeMap, BTreeSet};

/// A node as a person knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLabel {
    /// Its op, or `Reshape`, `Window`, `Join`, `If`, `Loop`.
    pub op: &'static str,
    /// Its name; where it has none, that of its result.
    pub name: String,
}

/// A graph in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Nodes, those of inner blocks included.
    pub nodes: usize,
    /// Bytes of constants and weights that something reads. Equal ones are stored once in a blob, but count here.
    pub constant_bytes: u64,
    /// Largest sum of bytes that are live at once, as [`crate::passes::order::peak`] finds it.
    pub peak_bytes: u64,
}

/// What became of a node that is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Its result was computed: a constant of so many bytes.
    Constant(u64),
    /// It is part of this node now.
    Into(NodeLabel),
    /// This value is read instead of its result.
    Replaced(String),
    /// Nothing read its result.
    Dropped,
}

/// A node that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The node.
    pub node: NodeLabel,
    /// What its results were called.
    pub results: Vec<String>,
    /// What became of it.
    pub fate: Fate,
}

/// What a pass changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// The pass.
    pub pass: &'static str,
    /// The graph before.
    pub before: Measure,
    /// The graph after.
    pub after: Measure,
    /// How many nodes of each op there were before, and after.
    pub ops: BTreeMap<&'static str, (usize, usize)>,
    /// Nodes that are gone.
    pub gone: Vec<Gone>,
    /// Nodes that are new.
    pub new: Vec<NodeLabel>,
    /// Nodes whose attributes or number of operands changed.
    pub altered: Vec<NodeLabel>,
    /// Nodes that are in another block or entry now.
    pub moved: Vec<NodeLabel>,
    /// Results, by name, of nodes that stayed but give something else now: an activation went into them, say.
    pub lost: Vec<(String, NodeLabel)>,
    /// Nodes of which nothing changed but which values they read.
    pub rewired: usize,
    /// Whether nodes that stayed are in another order.
    pub reordered: bool,
}

impl Change {
    /// Whether the pass left everything as it was.
    pub fn is_nothing(&self) -> bool {
        let lists = self.gone.is_empty() && self.new.is_empty() && self.altered.is_empty();
        lists && self.moved.is_empty() && self.rewired == 0 && !self.reordered && self.before == self.after
    }

    /// How many more nodes of each op there are; those without a difference are left out.
    pub fn differences(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        let each = self.ops.iter().map(|(op, (before, after))| (*op, *after as i64 - *before as i64));
        each.filter(|(_, d)| *d != 0)
    }
}

/// What all passes did, in their order. Its [`observe`](Self::observe) is for an [`Observer`](crate::Observer).
#[derive(Default)]
pub struct Explanation {
    /// The graph before the first pass.
    pub start: Measure,
    /// How many nodes of each op there were before the first pass.
    pub ops: BTreeMap<&'static str, usize>,
    /// The passes.
    pub passes: Vec<Change>,
    last: Option<Snapshot>,
}

impl Explanation {
    /// Takes down what changed since the last stage.
    pub fn observe(&mut self, stage: Stage<'_>) {
        let now = Snapshot::of(stage.graph);
        match &self.last {
            None => (self.start, self.ops) = (now.measure, now.ops()),
            Some(last) => self.passes.push(change(stage.pass, last, &now)),
        }
        self.last = Some(now);
    }
}

fn change(pass: &'static str, before: &Snapshot, after: &Snapshot) -> Change {
    let pairs = before.pairs(after);
    let taken: BTreeSet<usize> = pairs.iter().flatten().copied().collect();
    let mut c = Change {
        pass,
        before: before.measure,
        after: after.measure,
        ops: BTreeMap::new(),
        gone: Vec::new(),
        new: Vec::new(),
        altered: Vec::new(),
        moved: Vec::new(),
        lost: Vec::new(),
        rewired: 0,
        reordered: false,
    };
    let stayed = |(old, pair): (&Step, &Option<usize>)| {
        let i = (*pair)?;
        after.steps.get(i).filter(|new| new.place == old.place).map(|_| i)
    };
    c.reordered = !before.steps.iter().zip(&pairs).filter_map(stayed).is_sorted();
    for (op, n) in before.ops() {
        c.ops.entry(op).or_default().0 = n;
    }
    for (op, n) in after.ops() {
        c.ops.entry(op).or_default().1 = n;
    }
    let fates = fates(before, after, &pairs);
    for ((old, pair), fate) in before.steps.iter().zip(&pairs).zip(fates) {
        let new = pair.and_then(|i| after.steps.get(i));
        if let Some(new) = new {
            let lost = old.outputs.iter().filter(|o| !new.outputs.contains(o));
            c.lost.extend(lost.map(|o| (before.value(*o), after.label(new))));
        }
        match (new, fate) {
            (None, Some(fate)) => {
                let results = old.outputs.iter().map(|o| before.value(*o)).collect();
                c.gone.push(Gone { node: before.label(old), results, fate });
            }
            (Some(new), _) if old.place != new.place => c.moved.push(after.label(new)),
            (Some(new), _) if old.differs(new) => c.altered.push(after.label(new)),
            (Some(new), _) if old.inputs != new.inputs => c.rewired += 1,
            _ => {}
        }
    }
    let new = after.steps.iter().enumerate().filter(|(i, s)| !taken.contains(i) && s.kind == Kind::Node);
    c.new = new.map(|(_, s)| after.label(s)).collect();
    c
}

/// What became of the nodes that have no partner.
fn fates(before: &Snapshot, after: &Snapshot, pairs: &[Option<usize>]) -> Vec<Option<Fate>> {
    let readers = before.readers();
    let mut fates: Vec<Option<Fate>> = vec![None; before.steps.len()];
    // Readers stand behind what they read, so what became of them is known first.
    for (i, step) in before.steps.iter().enumerate().rev() {
        if pairs.get(i).is_none_or(Option::is_some) {
            continue;
        }
        let constant = step.outputs.iter().find_map(|o| after.constants.get(o));
        let other = || step.outputs.iter().find_map(|o| after.producer(*o));
        let fate = match constant {
            Some(bytes) => Some(Fate::Constant(*bytes)),
            None => other().map(|s| Fate::Into(after.label(s))),
        };
        let fate = fate.or_else(|| {
            let read = step.outputs.iter().filter_map(|o| readers.get(o)).flatten();
            let all: Vec<Fate> = read
                .filter_map(|(r, operand)| {
                    let reader = before.steps.get(*r)?;
                    match pairs.get(*r)?.and_then(|n| after.steps.get(n)) {
                        None => fates.get(*r)?.clone(),
                        Some(now) if reader.differs(now) => Some(Fate::Into(after.label(now))),
                        Some(now) => now.inputs.get(*operand)?.map(|v| Fate::Replaced(after.value(v))),
                    }
                })
                .collect();
            // What lives on in a node says more than that some readers went too.
            all.into_iter().min_by_key(|f| match f {
                Fate::Into(_) => 0,
                Fate::Replaced(_) => 1,
                Fate::Constant(_) => 2,
                Fate::Dropped => 3,
            })
        });
        if let Some(f) = fates.get_mut(i) {
            *f = Some(fate.unwrap_or(Fate::Dropped));
        }
    }
    fates
}

impl Snapshot {
    fn ops(&self) -> BTreeMap<&'static str, usize> {
        let mut ops = BTreeMap::new();
        self.nodes().for_each(|s| *ops.entry(s.op).or_default() += 1);
        ops
    }

    fn label(&self, s: &Step) -> NodeLabel {
        let result = || s.outputs.first().map(|o| self.value(*o)).unwrap_or_default();
        NodeLabel { op: s.op, name: if s.name.is_empty() { result() } else { s.name.clone() } }
    }

    /// For each step, which step of another snapshot is the same: it has the same op and the same result, else the same
    /// op and a name that no other has.
    fn pairs(&self, other: &Snapshot) -> Vec<Option<usize>> {
        let mut pairs: Vec<Option<usize>> = self.steps.iter().map(|s| other.same_result(s)).collect();
        let taken: BTreeSet<usize> = pairs.iter().flatten().copied().collect();
        let free: BTreeSet<usize> = (0..other.steps.len()).filter(|i| !taken.contains(i)).collect();
        let (ours, theirs) =
            (self.names(|i| pairs.get(i) == Some(&None)), other.names(|i| free.contains(&i)));
        for (key, found) in ours {
            if let ([i], Some([j])) = (found.as_slice(), theirs.get(&key).map(Vec::as_slice))
                && let Some(p) = pairs.get_mut(*i)
            {
                *p = Some(*j);
            }
        }
        pairs
    }

    fn names(&self, wanted: impl Fn(usize) -> bool) -> BTreeMap<(&'static str, &str), Vec<usize>> {
        let mut names: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (i, s) in self.steps.iter().enumerate().filter(|(i, s)| wanted(*i) && !s.name.is_empty()) {
            names.entry((s.op, s.name.as_str())).or_default().push(i);
        }
        names
    }
}
