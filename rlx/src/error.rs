//! Errors of the adapter.

use rlx_ir::DType;
use std::fmt;

/// A node of a graph that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Number of the node in the graph.
    pub node: u32,
    /// Name of the node, if it has one.
    pub name: Option<String>,
    /// The op as RLX prints it.
    pub op: String,
    /// What is missing.
    pub reason: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node)?;
        if let Some(name) = &self.name {
            write!(f, " '{name}'")?;
        }
        write!(f, " ({}): {}", self.op, self.reason)
    }
}

/// Why a graph cannot be compiled or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Every node that cannot be taken.
    Unsupported(Vec<Unsupported>),
    /// An option of RLX that this backend cannot honour.
    Option {
        /// Which.
        option: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// There is no input or param of this name.
    Name {
        /// `input` or `param`.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Data do not have the length of the tensor's shape.
    Length {
        /// Input or param.
        name: String,
        /// Elements of its shape.
        expected: usize,
        /// Element type of the data given.
        dtype: DType,
        /// Bytes given.
        bytes: usize,
    },
    /// Data of an element type that cannot be converted.
    ElementType {
        /// Input or param.
        name: String,
        /// The type.
        dtype: DType,
    },
    /// The graph could not be compiled.
    Compile(serinette_compiler::Error),
    /// The blob could not be opened or run.
    Run(serinette::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported(nodes) => {
                write!(f, "{} node(s) cannot be taken: ", nodes.len())?;
                for (i, n) in nodes.iter().enumerate() {
                    // One line: RLX hands texts on in debug form.
                    write!(f, "{}{n}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Error::Option { option, reason } => write!(f, "compile option '{option}': {reason}"),
            Error::Name { what, name, known } => {
                write!(f, "no {what} named '{name}'; there are: {}", known.join(", "))
            }
            Error::Length { name, expected, dtype, bytes } => {
                write!(f, "'{name}': expected {expected} elements of {dtype:?}, found {bytes} bytes")
            }
            Error::ElementType { name, dtype } => write!(f, "'{name}': data of type {dtype:?} are not taken"),
            Error::Compile(e) => write!(f, "{e}"),
            Error::Run(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Compile(e) => Some(e),
            Error::Run(e) => Some(e),
            _ => None,
        }
    }
}

impl From<serinette_compiler::Error> for Error {
    fn from(e: serinette_compiler::Error) -> Error {
        Error::Compile(e)
    }
}

impl From<serinette::Error> for Error {
    fn from(e: serinette::Error) -> Error {
        Error::Run(e)
    }
}
