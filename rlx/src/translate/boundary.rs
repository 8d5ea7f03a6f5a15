//! What goes into a graph and comes out.

use crate::convert;
use rlx_ir::{DType, Node, Op};

/// An input, param or output.
#[derive(Clone, Debug)]
pub(crate) struct Boundary {
    /// Name in the blob.
    pub name: String,
    /// Element type as RLX declares it.
    pub dtype: DType,
    /// The same in the blob.
    pub stored: serinette::DType,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Bytes.
    pub bytes: usize,
    /// Whether the blob has it: params that nothing reads are left out.
    pub in_blob: bool,
    /// Whether the blob brings its contents.
    pub has_contents: bool,
}

/// Contents of a param that are known when the graph is compiled.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// Bytes of the param's element type, fixed for good: the param becomes a weight.
    Fixed(Vec<u8>),
    /// Numbers that it holds until it is set.
    Initial(Vec<f32>),
}

/// Everything that goes in and out, in the order of the graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    pub inputs: Vec<Boundary>,
    pub params: Vec<Boundary>,
    pub outputs: Vec<Boundary>,
}

impl Boundary {
    /// The boundary that a node is. `Err`: the reason why it cannot be one.
    pub fn of(name: &str, node: &Node) -> Result<Boundary, String> {
        let dtype = node.shape.dtype();
        let stored = convert::dtype(dtype).ok_or_else(|| format!("elements of type {dtype:?}"))?;
        let mut dims = Vec::new();
        for d in node.shape.dims() {
            match d {
                rlx_ir::Dim::Static(n) => dims.push(*n),
                rlx_ir::Dim::Dynamic(s) => return Err(format!("dimension ?{s} is not bound to a number")),
            }
        }
        let bytes = dims.iter().try_fold(stored.size(), |n, d| n.checked_mul(*d));
        let bytes = bytes.ok_or_else(|| format!("a tensor of {dims:?} elements"))?;
        Ok(Boundary { name: name.into(), dtype, stored, dims, bytes, in_blob: true, has_contents: false })
    }

    /// How many elements.
    pub fn elements(&self) -> usize {
        self.bytes / self.stored.size()
    }

    fn same_type(&self, other: &Boundary) -> bool {
        self.dtype == other.dtype && self.dims == other.dims
    }
}

impl Signature {
    /// Remembers a param that the blob does not have.
    pub fn note_unused(&mut self, node: &Node) {
        if let Op::Param { name } = &node.op
            && !self.params.iter().any(|p| p.name == *name)
            && let Ok(b) = Boundary::of(name, node)
        {
            self.params.push(Boundary { in_blob: false, ..b });
        }
    }

    /// Adds an input or param. `Ok(false)`: one of this name, type and shape is there already.
    pub fn add(list: &mut Vec<Boundary>, new: Boundary) -> Result<bool, String> {
        match list.iter_mut().find(|b| b.name == new.name) {
            None => list.push(new),
            Some(old) if !old.same_type(&new) => {
                return Err(format!("'{}' is declared twice with different shapes", new.name));
            }
            Some(old) if old.in_blob => return Ok(false),
            Some(old) => *old = new,
        }
        Ok(true)
    }
}
