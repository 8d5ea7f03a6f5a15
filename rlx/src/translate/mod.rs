//! From RLX's graph to the compiler's graph.
//!
//! Each op family has its file with a `claim` function: which ops it takes, and how they are built. The order of
//! work: find what the outputs need, ask the families about every needed node, build, and check each result
//! against the shape that RLX declares for it. Everything that fails on the way is collected, so that one error
//! names all of it.

mod boundary;
mod elementwise;
mod leaves;
mod matmul;
mod movement;
mod softmax;

pub(crate) use boundary::{Boundary, Contents, Signature};

use crate::convert;
use crate::error::{Error, Unsupported};
use rlx_ir::{Graph, Node, NodeId, Op};
use serinette_compiler::{GraphBuilder, Size, Value};
use std::collections::HashMap;

/// The entry of the blob.
pub(crate) const ENTRY: &str = "main";

/// A finished translation.
pub(crate) struct Translated {
    /// The graph, with one entry named [`ENTRY`].
    pub graph: serinette_compiler::Graph,
    /// What goes in and out.
    pub signature: Signature,
}

/// What a family says about an op.
enum Claim {
    /// It belongs to another family.
    Other,
    /// It is taken; this builds it.
    Taken(Lower),
    /// It belongs here and cannot be taken.
    Refused(String),
}

/// Builds one node.
type Lower = fn(&mut Translator<'_>, &Node) -> Result<Value, Refusal>;

/// Why a node was not built.
enum Refusal {
    /// An operand was not built, which is reported where it happened.
    Upstream,
    /// The reason.
    Because(String),
}

impl From<serinette_compiler::Error> for Refusal {
    fn from(e: serinette_compiler::Error) -> Refusal {
        Refusal::Because(e.to_string())
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal::Because(reason)
    }
}

const FAMILIES: &[fn(&Op) -> Claim] =
    &[leaves::claim, elementwise::claim, matmul::claim, movement::claim, softmax::claim];

fn claim(op: &Op) -> Claim {
    let claims = FAMILIES.iter().map(|family| family(op));
    claims.into_iter().find(|c| !matches!(c, Claim::Other)).unwrap_or(Claim::Other)
}

struct Translator<'a> {
    graph: &'a Graph,
    builder: GraphBuilder,
    contents: &'a HashMap<String, Contents>,
    values: HashMap<NodeId, Value>,
    signature: Signature,
}

/// Translates a graph. `contents` are those of params, by name, where they are known already.
pub(crate) fn translate(graph: &Graph, contents: &HashMap<String, Contents>) -> Result<Translated, Error> {
    let mut t = Translator {
        graph,
        builder: GraphBuilder::new(),
        contents,
        values: HashMap::new(),
        signature: Signature::default(),
    };
    if !graph.name.is_empty() {
        t.builder.metadata("name", &graph.name);
    }
    t.builder.entry(ENTRY)?;
    let needed = needed(graph);
    let mut refused = Vec::new();
    for node in graph.nodes() {
        if !needed.get(node.id.0 as usize).copied().unwrap_or(false) {
            // Callers may set them all the same.
            t.signature.note_unused(node);
            continue;
        }
        match t.node(node) {
            Ok(v) => {
                t.values.insert(node.id, v);
            }
            Err(Refusal::Upstream) => {}
            Err(Refusal::Because(reason)) => refused.push(Unsupported {
                node: node.id.0,
                name: node.name.clone(),
                op: node.op.to_string(),
                reason,
            }),
        }
    }
    if !refused.is_empty() {
        return Err(Error::Unsupported(refused));
    }
    t.outputs()?;
    Ok(Translated { graph: t.builder.finish()?, signature: t.signature })
}

/// Which nodes the outputs depend on, and the inputs, which callers give whether or not anything reads them.
fn needed(graph: &Graph) -> Vec<bool> {
    let mut needed: Vec<bool> = graph.nodes().iter().map(|n| matches!(n.op, Op::Input { .. })).collect();
    let mark = |needed: &mut Vec<bool>, id: NodeId| {
        if let Some(n) = needed.get_mut(id.0 as usize) {
            *n = true;
        }
    };
    graph.outputs.iter().for_each(|id| mark(&mut needed, *id));
    // Operands come before what reads them, because RLX's graphs only grow.
    for node in graph.nodes().iter().rev() {
        if needed.get(node.id.0 as usize).copied().unwrap_or(false) {
            node.inputs.iter().for_each(|id| mark(&mut needed, *id));
        }
    }
    needed
}

impl Translator<'_> {
    fn node(&mut self, node: &Node) -> Result<Value, Refusal> {
        let lower = match claim(&node.op) {
            Claim::Taken(lower) => lower,
            Claim::Refused(reason) => return Err(reason.into()),
            Claim::Other => return Err(Refusal::Because("this op is not in the op table".into())),
        };
        // Asked first, so that an op on an unknown type says so rather than something about shapes.
        let (dtype, dims) = declared(node)?;
        let v = lower(self, node)?;
        self.check(v, dtype, &dims)?;
        Ok(v)
    }

    /// The value of operand `i`.
    fn operand(&self, node: &Node, i: usize) -> Result<Value, Refusal> {
        let Some(id) = node.inputs.get(i) else {
            return Err(Refusal::Because(format!("operand {i} is missing, {} given", node.inputs.len())));
        };
        self.values.get(id).copied().ok_or(Refusal::Upstream)
    }

    /// The dimensions of operand `i`.
    fn operand_dims(&self, node: &Node, i: usize) -> Result<Vec<u64>, Refusal> {
        let v = self.operand(node, i)?;
        let id = node.inputs.get(i).copied().ok_or(Refusal::Upstream)?;
        let known = self.builder.tensor(v).is_some() && (id.0 as usize) < self.graph.nodes().len();
        if known { static_dims(self.graph.shape(id)) } else { Err(Refusal::Upstream) }
    }

    /// An error unless the result is what RLX declares: its own kernels would read memory by the declaration.
    fn check(&mut self, v: Value, dtype: serinette::DType, dims: &[u64]) -> Result<(), Refusal> {
        let Some((found_dtype, found)) = self.builder.tensor(v).map(|t| (t.dtype, t.dims.clone())) else {
            return Err(Refusal::Because("value of another graph".into()));
        };
        let algebra = self.builder.dims();
        let found: Vec<Option<u64>> = found.iter().map(|d| algebra.known(*d)).collect();
        let same = found.len() == dims.len() && found.iter().zip(dims).all(|(f, d)| *f == Some(*d));
        if same && found_dtype == dtype {
            return Ok(());
        }
        let found: Vec<u64> = found.into_iter().map(|d| d.unwrap_or(0)).collect();
        Err(format!("declared as {dtype} {dims:?}, but it is {found_dtype} {found:?}").into())
    }

    /// Names the outputs, in the order of the graph.
    fn outputs(&mut self) -> Result<(), Error> {
        let mut seen = Vec::new();
        for (i, id) in self.graph.outputs.iter().enumerate() {
            let Some(v) = self.values.get(id).copied() else {
                let known = vec![format!("0 to {}", self.graph.nodes().len())];
                return Err(Error::Name { what: "output node", name: id.0.to_string(), known });
            };
            let node = self.graph.node(*id);
            let name = self.output_name(i);
            // A value has one name and one role, so one that is an input or param too, or is given out twice, is
            // copied.
            let v = match seen.contains(&v) || self.is_leaf(*id) {
                true => self.builder.copy(&name, v)?,
                false => v,
            };
            seen.push(v);
            self.builder.output(&name, v)?;
            self.signature
                .outputs
                .push(Boundary::of(&name, node).map_err(|reason| unsupported(node, reason))?);
        }
        Ok(())
    }

    /// Whether a value is the memory of an input, param or constant under whatever dimensions.
    fn is_leaf(&self, id: NodeId) -> bool {
        let mut node = self.graph.node(id);
        while let (Op::StopGradient | Op::Reshape { .. } | Op::Cast { .. }, Some(x)) =
            (&node.op, node.inputs.first())
        {
            node = self.graph.node(*x);
        }
        matches!(node.op, Op::Input { .. } | Op::Param { .. } | Op::Constant { .. })
    }

    /// The name that the graph gives output `i`, or else a number; never one that is taken already.
    fn output_name(&self, i: usize) -> String {
        let taken = |name: &str| self.signature.outputs.iter().any(|o| o.name == name);
        let given = self.graph.output_name(i).filter(|n| !n.is_empty());
        let mut name = given.map_or_else(|| format!("output{i}"), String::from);
        while taken(&name) {
            name.push('_');
        }
        name
    }
}

fn unsupported(node: &Node, reason: String) -> Error {
    let (name, op) = (node.name.clone(), node.op.to_string());
    Error::Unsupported(vec![Unsupported { node: node.id.0, name, op, reason }])
}

/// A name for steps and messages.
fn label(node: &Node) -> String {
    node.name
        .clone()
        .filter(|n| !n.is_empty())
        .unwrap_or_else(|| format!("{}_{}", format!("{:?}", node.op.kind()).to_lowercase(), node.id.0))
}

/// Element type and dimensions that RLX declares for a node.
fn declared(node: &Node) -> Result<(serinette::DType, Vec<u64>), Refusal> {
    let t = node.shape.dtype();
    let dtype = convert::dtype(t).ok_or(Refusal::Because(format!("elements of type {t:?}")))?;
    Ok((dtype, static_dims(&node.shape)?))
}

fn static_dims(shape: &rlx_ir::Shape) -> Result<Vec<u64>, Refusal> {
    let number = |d: &rlx_ir::Dim| match d {
        rlx_ir::Dim::Static(n) => Ok(*n as u64),
        rlx_ir::Dim::Dynamic(s) => Err(Refusal::Because(format!("dimension ?{s} is not bound to a number"))),
    };
    shape.dims().iter().map(number).collect()
}

fn sizes(dims: &[u64]) -> Vec<Size> {
    dims.iter().map(|d| Size::Number(*d)).collect()
}
