//! Rewrites of a graph. Each pass keeps what the graph computes.
//!
//! | pass | what it does |
//! |---|---|
//! | [`regions`] | takes loop-invariant values and known conditions out of control flow |
//! | [`simplify`] | algebra that changes no result, and equal computations once |
//! | [`spell`] | exporters' spellings of activations become one op |
//! | [`normalise`] | exporters' spellings of layer norms become one op |
//! | [`affine`] | products and sums for each channel go into the convolution before them |
//! | [`fuse`] | bias and activation go into the product, convolution or sum before them |
//! | [`qdq`] | floating-point ops between 8-bit tensors become integer ops |
//! | [`fold`] | computes what is known |
//! | [`clean`] | drops what nothing reads |
//! | [`pack`] | moves what depends on weights and params alone into the `prepare` entry |
//! | [`views`] | reshapes, slices and concatenations become views where memory allows |
//! | [`order`] | reorders steps for a low peak of memory |

pub mod affine;
pub mod clean;
pub mod fold;
pub mod fuse;
pub mod normalise;
pub mod order;
pub mod pack;
pub mod qdq;
pub mod regions;
pub mod simplify;
pub mod spell;
pub mod views;

use crate::error::Error;
use crate::graph::{Block, Graph, Node, NodeKind, Value};
use pack::Packing;
use std::collections::HashMap;

/// The graph at a point between passes.
#[derive(Clone, Copy)]
pub struct Stage<'g> {
    /// The pass that has just run, or `import` before the first.
    pub pass: &'static str,
    /// The graph as it is now.
    pub graph: &'g Graph,
}

/// Who is shown the graph before the first pass and after each. [`crate::explain::Explanation`] tells what changed.
pub type Observer<'o> = &'o mut dyn FnMut(Stage<'_>);

/// All passes in their order.
pub fn run(graph: &mut Graph, packing: &Packing, observer: Observer<'_>) -> Result<(), Error> {
    packing.check(graph)?;
    observer(Stage { pass: "import", graph });
    let mut pass = |pass, graph: &mut Graph, run: &dyn Fn(&mut Graph) -> Result<(), Error>| {
        run(graph)?;
        observer(Stage { pass, graph });
        Ok::<(), Error>(())
    };
    pass("regions", graph, &regions::run)?;
    // What is known must be there as such for the passes that look for constants.
    pass("fold", graph, &|g| fold::run(g, packing))?;
    pass("simplify", graph, &simplify::run)?;
    pass("spell", graph, &spell::run)?;
    pass("normalise", graph, &normalise::run)?;
    pass("affine", graph, &affine::run)?;
    pass("fuse", graph, &fuse::run)?;
    pass("qdq", graph, &qdq::run)?;
    pass("fold", graph, &|g| fold::run(g, packing))?;
    // Folding makes conditions known.
    pass("regions", graph, &regions::run)?;
    pass("clean", graph, &infallible(clean::run))?;
    pass("pack", graph, &infallible(|g| pack::run(g, packing)))?;
    pass("views", graph, &views::run)?;
    pass("order", graph, &infallible(order::run))
}

/// A pass that cannot fail, as one that can.
fn infallible(pass: impl Fn(&mut Graph)) -> impl Fn(&mut Graph) -> Result<(), Error> {
    move |graph| {
        pass(graph);
        Ok(())
    }
}

/// Calls `f` for every block, inner ones first. The block is taken out of the graph meanwhile. `f` is told whether
/// it belongs to a `prepare` entry.
fn each_block(
    graph: &mut Graph,
    f: &mut dyn FnMut(&mut Graph, &mut Block, bool) -> Result<(), Error>,
) -> Result<(), Error> {
    fn inner(
        graph: &mut Graph,
        block: &mut Block,
        prepare: bool,
        f: &mut dyn FnMut(&mut Graph, &mut Block, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for node in &mut block.nodes {
            for b in node.blocks_mut() {
                inner(graph, b, prepare, f)?;
            }
        }
        f(graph, block, prepare)
    }
    for i in 0..graph.entries.len() {
        let mut block = std::mem::take(&mut graph.entries[i].block);
        let prepare = graph.entries[i].prepare;
        let done = inner(graph, &mut block, prepare, f);
        graph.entries[i].block = block;
        done?;
    }
    Ok(())
}

/// What two equal computations have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Computation {
    /// Code and version of the op; none for a reshape.
    op: Option<(u16, u16)>,
    attrs: Vec<u8>,
    inputs: Vec<Option<Value>>,
    /// Element types and dimensions of the results.
    outputs: Vec<(u8, Vec<u64>)>,
}

impl Computation {
    /// What a node computes; `None` for nodes that are more than a function of their operands.
    fn of(graph: &Graph, node: &Node) -> Option<Computation> {
        let (op, attrs) = match &node.kind {
            NodeKind::Op { op, attrs } => (Some((op.code, op.version)), attrs.clone()),
            NodeKind::Reshape => (None, Vec::new()),
            _ => return None,
        };
        let output = |v: &Value| {
            let t = graph.tensor(*v);
            (t.dtype.code(), t.dims.iter().map(|d| d.0).collect())
        };
        let outputs = node.outputs.iter().map(output).collect();
        Some(Computation { op, attrs, inputs: node.inputs.clone(), outputs })
    }
}

/// The nodes of a block while they are edited: removed ones leave a hole, so indices stay.
struct Nodes {
    nodes: Vec<Option<Node>>,
    producer: HashMap<Value, usize>,
}

impl Nodes {
    fn take(block: &mut Block) -> Nodes {
        let nodes: Vec<Option<Node>> = std::mem::take(&mut block.nodes).into_iter().map(Some).collect();
        let mut producer = HashMap::new();
        for (i, n) in nodes.iter().enumerate() {
            for o in n.iter().flat_map(|n| &n.outputs) {
                producer.insert(*o, i);
            }
        }
        Nodes { nodes, producer }
    }

    fn put_back(self, block: &mut Block) {
        block.nodes = self.nodes.into_iter().flatten().collect();
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn get(&self, i: usize) -> Option<&Node> {
        self.nodes.get(i).and_then(Option::as_ref)
    }

    /// The node of this block that computes `v`, with its index.
    fn producer(&self, v: Value) -> Option<(usize, &Node)> {
        let i = *self.producer.get(&v)?;
        Some((i, self.get(i)?))
    }

    /// Puts a node at a place, which computes its outputs from now on.
    fn set(&mut self, i: usize, node: Node) {
        for o in &node.outputs {
            self.producer.insert(*o, i);
        }
        if let Some(n) = self.nodes.get_mut(i) {
            *n = Some(node);
        }
    }

    fn remove(&mut self, i: usize) {
        if let Some(n) = self.nodes.get_mut(i) {
            *n = None;
        }
    }
}

/// A node of an op.
fn op_node<A: serinette_core::op::Attributes>(
    name: &str,
    op: &'static serinette_core::op::OpDescriptor,
    attrs: A,
    inputs: Vec<Option<Value>>,
    output: Value,
) -> Node {
    let kind = NodeKind::Op { op, attrs: bytemuck::bytes_of(&attrs).to_vec() };
    Node { name: name.into(), kind, inputs, outputs: vec![output] }
}
