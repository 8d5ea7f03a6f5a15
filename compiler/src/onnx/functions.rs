//! Model-local functions: calls are replaced by the nodes of the body.

use super::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::error::Error;
use std::collections::HashMap;

/// How deep calls may nest: functions do not recurse.
const MAX_NESTING: usize = 16;
/// Most nodes that calls are expanded to.
const MAX_NODES: usize = 1 << 20;

/// Replaces every call of a function of the model.
///
/// # Errors
/// Functions that call themselves, calls with more operands than the function has, attributes that are missing.
pub(super) fn inline(model: &mut ModelProto) -> Result<(), Error> {
    if model.functions.is_empty() {
        return Ok(());
    }
    let functions = std::mem::take(&mut model.functions);
    let mut inliner = Inliner { functions: &functions, calls: 0, nodes: 0 };
    if let Some(graph) = &mut model.graph {
        inliner.graph(graph, 0)?;
    }
    Ok(())
}

struct Inliner<'f> {
    functions: &'f [FunctionProto],
    /// Calls so far: their number makes names unique.
    calls: usize,
    nodes: usize,
}

impl Inliner<'_> {
    fn graph(&mut self, graph: &mut GraphProto, depth: usize) -> Result<(), Error> {
        let nodes = std::mem::take(&mut graph.node);
        graph.node = self.expand(nodes, depth)?;
        Ok(())
    }

    fn expand(&mut self, nodes: Vec<NodeProto>, depth: usize) -> Result<Vec<NodeProto>, Error> {
        let mut all = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            for a in &mut node.attribute {
                if let Some(g) = &mut a.g {
                    self.graph(g, depth)?;
                }
            }
            let called = |f: &&FunctionProto| {
                (&f.name, &f.domain, &f.overload) == (&node.op_type, &node.domain, &node.overload)
            };
            match self.functions.iter().find(called) {
                Some(f) => {
                    if depth >= MAX_NESTING {
                        return Err(Error::count(
                            &node.name,
                            "nested calls",
                            MAX_NESTING as u64,
                            depth as u64 + 1,
                        ));
                    }
                    let body = self.call(f, &node)?;
                    all.extend(self.expand(body, depth + 1)?);
                }
                None => all.push(node),
            }
            self.nodes = self.nodes.max(all.len());
            if self.nodes > MAX_NODES {
                return Err(Error::count(
                    "functions",
                    "nodes after expansion",
                    MAX_NODES as u64,
                    self.nodes as u64,
                ));
            }
        }
        Ok(all)
    }

    /// The body of a function for one call: operands under their names outside, all others under names of their own.
    fn call(&mut self, f: &FunctionProto, node: &NodeProto) -> Result<Vec<NodeProto>, Error> {
        let at = if node.name.is_empty() { &f.name } else { &node.name };
        for (what, given, has) in [
            ("inputs of a call", node.input.len(), f.input.len()),
            ("outputs of a call", node.output.len(), f.output.len()),
        ] {
            if given > has {
                return Err(Error::count(at, what, has as u64, given as u64));
            }
        }
        self.calls += 1;
        let mut names = HashMap::new();
        for (inner, outer) in f.input.iter().zip(node.input.iter().map(Some).chain(std::iter::repeat(None))) {
            // An operand that is left out has no name inside either.
            names.insert(inner.clone(), outer.cloned().unwrap_or_default());
        }
        for (inner, outer) in f.output.iter().zip(&node.output).filter(|(_, outer)| !outer.is_empty()) {
            names.insert(inner.clone(), outer.clone());
        }
        let mut scope =
            Scope { prefix: format!("{at}/{}/{}", f.name, self.calls), names, call: node, function: f };
        f.node.iter().map(|n| scope.node(n)).collect()
    }
}

struct Scope<'a> {
    prefix: String,
    names: HashMap<String, String>,
    call: &'a NodeProto,
    function: &'a FunctionProto,
}

impl Scope<'_> {
    fn name(&mut self, inner: &str) -> String {
        if inner.is_empty() {
            return String::new();
        }
        let prefix = &self.prefix;
        self.names.entry(inner.into()).or_insert_with(|| format!("{prefix}/{inner}")).clone()
    }

    fn node(&mut self, n: &NodeProto) -> Result<NodeProto, Error> {
        let mut attributes = Vec::new();
        for a in &n.attribute {
            attributes.extend(self.attribute(a)?);
        }
        Ok(NodeProto {
            input: n.input.iter().map(|i| self.name(i)).collect(),
            output: n.output.iter().map(|o| self.name(o)).collect(),
            name: format!("{}/{}", self.prefix, if n.name.is_empty() { &n.op_type } else { &n.name }),
            attribute: attributes,
            ..n.clone()
        })
    }

    /// An attribute of the body: one of the call where it refers to it. One that the call leaves out, and that has no
    /// default, is left out here too.
    fn attribute(&mut self, a: &AttributeProto) -> Result<Option<AttributeProto>, Error> {
        let mut made = a.clone();
        if !a.ref_attr_name.is_empty() {
            let wanted = |x: &&AttributeProto| x.name == a.ref_attr_name;
            let given = self.call.attribute.iter().find(wanted);
            let Some(found) = given.or(self.function.attribute_proto.iter().find(wanted)) else {
                return Ok(None);
            };
            made = AttributeProto { name: a.name.clone(), ref_attr_name: String::new(), ..found.clone() };
            return Ok(Some(made));
        }
        if let Some(g) = &a.g {
            made.g = Some(Box::new(self.graph(g)?));
        }
        Ok(Some(made))
    }

    fn graph(&mut self, g: &GraphProto) -> Result<GraphProto, Error> {
        let mut made = g.clone();
        for v in made.input.iter_mut().chain(&mut made.output).chain(&mut made.value_info) {
            v.name = self.name(&v.name);
        }
        for t in &mut made.initializer {
            t.name = self.name(&t.name);
        }
        made.node = g.node.iter().map(|n| self.node(n)).collect::<Result<_, _>>()?;
        Ok(made)
    }
}
