//! Why a graph cannot be built, imported or compiled.

use serinette_core::op::AttrError;
use serinette_core::schedule;
use serinette_core::shape::ShapeError;
use std::fmt;

/// A node that the importer cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Name of the node (or of its first output where it has none).
    pub node: String,
    /// Op type, with its domain where that is not the default one.
    pub op: String,
    /// What is missing.
    pub reason: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.node, self.op, self.reason)
    }
}

/// An error value of the compiler. `at` names the node or tensor that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Shapes do not fit the op.
    Shape {
        /// Node.
        at: String,
        /// What was compared, what was wanted, what came.
        source: ShapeError,
    },
    /// Attributes that the op cannot have.
    Attribute {
        /// Node.
        at: String,
        /// Field, what was wanted, what came.
        source: AttrError,
    },
    /// Element types that do not fit.
    Types {
        /// Node.
        at: String,
        /// What the op takes.
        expected: String,
        /// What it was given.
        found: String,
    },
    /// A number that does not fit: operands, bytes of data, nesting, sizes.
    Count {
        /// Node or tensor.
        at: String,
        /// What was counted.
        what: &'static str,
        /// What is possible.
        expected: u64,
        /// What was found.
        found: u64,
    },
    /// A name that is missing, empty or used twice.
    Name {
        /// Where it is used.
        at: String,
        /// What is wrong with it.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that nothing has.
    Unknown {
        /// What was looked for: `size`, `input`, …
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Two graphs that shall share a name mean different things by it.
    Conflict {
        /// What the name stands for: `weight`, `state`, …
        what: &'static str,
        /// The name.
        name: String,
        /// What it was first.
        first: String,
        /// What it was then.
        second: String,
    },
    /// A value that is not visible where it is used: made in another entry or inside a closed region.
    Scope {
        /// Node.
        at: String,
        /// The value.
        value: String,
    },
    /// A file that is damaged or contradicts itself.
    Malformed {
        /// Node, tensor or part of the file.
        at: String,
        /// What is wrong.
        what: String,
    },
    /// Every node of the file that cannot be imported.
    Unsupported(Vec<Unsupported>),
    /// The program that was written cannot be planned or read back.
    Schedule(schedule::Error),
}

impl Error {
    pub(crate) fn shape(at: &str, source: ShapeError) -> Error {
        Error::Shape { at: at.into(), source }
    }
    pub(crate) fn count(at: &str, what: &'static str, expected: u64, found: u64) -> Error {
        Error::Count { at: at.into(), what, expected, found }
    }
    pub(crate) fn name(at: &str, what: &'static str, name: &str) -> Error {
        Error::Name { at: at.into(), what, name: name.into() }
    }
    pub(crate) fn unknown(what: &'static str, name: &str, known: Vec<String>) -> Error {
        Error::Unknown { what, name: name.into(), known }
    }
    pub(crate) fn malformed(at: &str, what: impl Into<String>) -> Error {
        Error::Malformed { at: at.into(), what: what.into() }
    }
    pub(crate) fn types(at: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Types { at: at.into(), expected: expected.into(), found: found.into() }
    }
}

impl From<schedule::Error> for Error {
    fn from(e: schedule::Error) -> Error {
        Error::Schedule(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Shape { at, source } => write!(f, "{at}: {source}"),
            Error::Attribute { at, source } => write!(f, "{at}: {source}"),
            Error::Types { at, expected, found } => write!(f, "{at}: expected {expected}, found {found}"),
            Error::Count { at, what, expected, found } => {
                write!(f, "{at}: {what}: expected {expected}, found {found}")
            }
            Error::Name { at, what, name } => write!(f, "{at}: {what}: {name:?}"),
            Error::Unknown { what, name, known } => {
                write!(f, "no {what} named '{name}'")?;
                match closest(name, known) {
                    Some(c) => write!(f, "; did you mean '{c}'?"),
                    None if known.is_empty() => write!(f, "; there are none"),
                    None => write!(f, "; there are: {}", known.join(", ")),
                }
            }
            Error::Conflict { what, name, first, second } => {
                write!(f, "{what} '{name}' is two things: {first}, and {second}")
            }
            Error::Scope { at, value } => write!(f, "{at}: value {value:?} is not visible here"),
            Error::Malformed { at, what } => write!(f, "{at}: {what}"),
            Error::Unsupported(nodes) => {
                write!(f, "{} node(s) cannot be imported", nodes.len())?;
                nodes.iter().try_for_each(|n| write!(f, "\n  {n}"))
            }
            Error::Schedule(e) => write!(f, "the written program: {e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Shape { source, .. } => Some(source),
            Error::Attribute { source, .. } => Some(source),
            Error::Schedule(e) => Some(e),
            _ => None,
        }
    }
}

/// The known name that is nearest to a misspelt one, if any is near.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let scored = known.iter().map(|k| (strsim::jaro_winkler(name, k), k));
    scored.filter(|(s, _)| *s > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, k)| k.as_str())
}
