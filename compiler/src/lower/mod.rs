//! From a graph to the records of a program.
//!
//! [`steps`] flattens blocks into steps and decides which values share memory by writing straight into their place;
//! [`in_place`] marks results that take over an operand's memory; [`encode`] writes the records.

mod encode;
mod in_place;
mod steps;

use crate::blob::Blob;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Graph;
use serinette_core::DType;
use serinette_core::op::{OpDescriptor, ScratchClass};
use serinette_core::shape::Dim;

/// Writes a program without plans. `scratch` is the class that steps ask for; `names` says whether values that are
/// computed keep their names.
pub fn lower(graph: &Graph, scratch: ScratchClass, names: bool) -> Result<Blob, Error> {
    let mut program = steps::flatten(graph, names)?;
    in_place::mark(&mut program);
    encode::encode(graph, &program, scratch)
}

/// How a value relates to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Its own.
    Own,
    /// Its root's elements under other dimensions.
    Reshape { root: u32 },
    /// A run of its root.
    Window { root: u32, axis: u8, start: Dim },
    /// A tile of its root.
    Part { root: u32, axis: u8, start: Dim, part: u16, parts: u16 },
}

/// A value of the program.
struct LowValue {
    name: String,
    dtype: DType,
    dims: Vec<Dim>,
    role: u8,
    flags: u16,
    place: Place,
    data: Option<Data>,
}

/// A step of the program.
struct LowStep {
    kind: u8,
    name: String,
    op: Option<&'static OpDescriptor>,
    attrs: Vec<u8>,
    inputs: Vec<Option<u32>>,
    outputs: Vec<u32>,
    in_place: [u8; 4],
    /// Partner of a region edge.
    link: u32,
    max_trips: Option<Dim>,
    counter: Option<Dim>,
}

/// An entry of the program.
struct LowEntry {
    name: String,
    prepare: bool,
    first: usize,
    steps: usize,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

/// The flat program.
#[derive(Default)]
struct Program {
    values: Vec<LowValue>,
    steps: Vec<LowStep>,
    entries: Vec<LowEntry>,
}

impl Program {
    /// The value whose memory `v` is or views.
    fn root(&self, v: u32) -> u32 {
        match self.values.get(v as usize).map(|v| v.place) {
            Some(Place::Reshape { root } | Place::Window { root, .. } | Place::Part { root, .. }) => root,
            _ => v,
        }
    }
}
