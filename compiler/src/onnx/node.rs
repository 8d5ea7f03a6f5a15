//! One node while it is imported: its attributes, and why it may fail.

use super::proto::{AttributeProto, GraphProto, NodeProto, attribute_kind};
use crate::error::Error;
use std::cell::RefCell;
use std::collections::HashSet;

/// Why a node cannot be imported.
pub(super) enum Fail {
    /// The importer cannot express it: goes to the list of all such nodes.
    Unsupported(String),
    /// An input of it could not be imported, which is in the list already.
    Poisoned,
    /// The file is wrong.
    Wrong(Error),
}

impl From<Error> for Fail {
    fn from(e: Error) -> Fail {
        match e {
            // The op table does not take these types or attributes: another version of it might.
            Error::Types { expected, found, .. } => {
                Fail::Unsupported(format!("expected {expected}, found {found}"))
            }
            Error::Attribute { source, .. } => Fail::Unsupported(source.to_string()),
            e => Fail::Wrong(e),
        }
    }
}

/// A refusal with a reason.
pub(super) fn unsupported<T>(reason: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Unsupported(reason.into()))
}

/// A node and which of its attributes were looked at.
pub(super) struct Node<'m> {
    pub proto: &'m NodeProto,
    pub name: String,
    seen: RefCell<HashSet<&'m str>>,
}

impl<'m> Node<'m> {
    pub fn new(proto: &'m NodeProto) -> Node<'m> {
        let first = proto.output.iter().find(|o| !o.is_empty());
        let name =
            if proto.name.is_empty() { first.cloned().unwrap_or_default() } else { proto.name.clone() };
        Node { proto, name, seen: RefCell::new(HashSet::new()) }
    }

    /// Attribute `name`; noted as honoured.
    pub fn attribute(&self, name: &str) -> Option<&'m AttributeProto> {
        let found = self.proto.attribute.iter().find(|a| a.name == name)?;
        self.seen.borrow_mut().insert(&found.name);
        Some(found)
    }

    pub fn int(&self, name: &str, default: i64) -> Result<i64, Fail> {
        match self.attribute(name) {
            None => Ok(default),
            // A zero may be left out of the file: then only the type is there.
            Some(a) if a.i.is_some() || a.kind == attribute_kind::INT => Ok(a.i.unwrap_or(0)),
            Some(_) => Err(self.wrong(format!("attribute {name} is not an integer"))),
        }
    }

    pub fn float(&self, name: &str, default: f32) -> Result<f32, Fail> {
        match self.attribute(name) {
            None => Ok(default),
            Some(a) if a.f.is_some() || a.kind == attribute_kind::FLOAT => Ok(a.f.unwrap_or(0.0)),
            Some(_) => Err(self.wrong(format!("attribute {name} is not a number"))),
        }
    }

    pub fn text(&self, name: &str, default: &str) -> Result<String, Fail> {
        match self.attribute(name) {
            None => Ok(default.into()),
            Some(a) if a.s.is_some() || a.kind == attribute_kind::STRING => {
                let bytes = a.s.clone().unwrap_or_default();
                String::from_utf8(bytes.to_vec())
                    .map_err(|_| self.wrong(format!("attribute {name} is no text")))
            }
            Some(_) => Err(self.wrong(format!("attribute {name} is not a text"))),
        }
    }

    pub fn ints(&self, name: &str) -> Option<&'m [i64]> {
        self.attribute(name).map(|a| a.ints.as_slice())
    }

    pub fn graph(&self, name: &str) -> Result<&'m GraphProto, Fail> {
        match self.attribute(name).and_then(|a| a.g.as_deref()) {
            Some(g) => Ok(g),
            None => Err(self.wrong(format!("graph attribute {name} is missing"))),
        }
    }

    /// An attribute that only has this value.
    pub fn only(&self, name: &str, value: i64) -> Result<(), Fail> {
        let found = self.int(name, value)?;
        if found == value { Ok(()) } else { unsupported(format!("{name} = {found} (only {value})")) }
    }

    /// The first attribute that nothing looked at.
    pub fn ignored(&self) -> Option<&'m str> {
        let seen = self.seen.borrow();
        self.proto.attribute.iter().map(|a| a.name.as_str()).find(|n| !seen.contains(n))
    }

    /// Whether input `i` is given.
    pub fn has(&self, i: usize) -> bool {
        self.proto.input.get(i).is_some_and(|n| !n.is_empty())
    }

    pub fn wrong(&self, what: impl Into<String>) -> Fail {
        Fail::Wrong(Error::malformed(&self.name, what))
    }

    /// An axis attribute or element, counted from the outermost.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize, Fail> {
        let n = rank as i64;
        match usize::try_from(if axis < 0 { axis.saturating_add(n) } else { axis }) {
            Ok(a) if a < rank => Ok(a),
            _ => Err(self.wrong(format!("axis {axis} of a tensor with {rank} axes"))),
        }
    }
}
