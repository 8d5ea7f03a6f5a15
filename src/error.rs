//! Errors of the facade.

use serinette_core::DType;
use serinette_core::schedule;
use serinette_dispatch::ShellError;
use std::path::PathBuf;

/// Why a model could not be opened or run. Every variant says what was expected, what came, and where.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A blob was refused, or sizes do not fit it.
    Blob(schedule::Error),
    /// The records do not have the digest that the header states, or a weight section does not.
    Digest {
        /// What was compared: `records`, or the name of a weight section.
        what: String,
    },
    /// Ops or element types that the host kernels do not have.
    NoKernel {
        /// One line for each signature.
        missing: Vec<String>,
    },
    /// A device failed.
    Device(ShellError),
    /// Only the host can do this.
    HostOnly {
        /// What was asked for.
        what: &'static str,
    },
    /// There is no device of this description.
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// Why not.
        reason: String,
    },
    /// There is no entry, input, output, param, state or dimension of this name.
    Name {
        /// What was looked for: `entry`, `input`, …
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An input of the entry was not given.
    MissingInput {
        /// Entry.
        entry: String,
        /// Input.
        input: String,
    },
    /// A param without initial contents was never set.
    MissingParam {
        /// Param.
        param: String,
    },
    /// A tensor has the wrong element type.
    ElementType {
        /// Input, param or state.
        name: String,
        /// What it should be.
        expected: DType,
        /// What was given.
        found: DType,
    },
    /// A tensor has the wrong shape.
    Shape {
        /// Input, param or state.
        name: String,
        /// What it should be, as text (`[batch, 1, 28, 28]`).
        expected: String,
        /// What was given.
        found: Vec<usize>,
    },
    /// The bytes of a tensor do not have the length of its shape.
    Length {
        /// Input, param or state.
        name: String,
        /// Bytes of the shape.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The threads asked for cannot be had.
    Threads {
        /// Threads asked for.
        wanted: usize,
        /// What the system says.
        reason: String,
    },
    /// Opening would take more memory than allowed.
    Budget {
        /// Bytes allowed.
        budget: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// A step met an index out of range (it read zero, or dropped a write).
    BadIndex {
        /// Step in the program.
        step: u32,
        /// Its source name, if the blob has one.
        name: Option<String>,
    },
    /// An earlier run failed half-way, so the state cannot be trusted: reset or restore it.
    Poisoned,
    /// A loop is too long to be recorded for this device.
    LongLoop {
        /// The `Loop` step.
        step: u32,
        /// Dispatches that unrolling it would take.
        dispatches: u64,
        /// The most allowed.
        limit: u64,
    },
    /// Saved state of another program.
    OtherProgram,
    /// A device does not give what a self-test of the blob expects.
    SelfTest(Box<crate::self_test::Deviation>),
    /// Compilation failed.
    #[cfg(feature = "compiler")]
    Compile(serinette_compiler::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Blob(e) => write!(f, "{e}"),
            Error::Digest { what } => {
                write!(f, "{what}: the contents do not have the digest that the file states")
            }
            Error::NoKernel { missing } => write!(f, "no host kernel for: {}", missing.join("; ")),
            Error::Device(e) => write!(f, "{e}"),
            Error::HostOnly { what } => write!(f, "{what}: only on the host"),
            Error::NoDevice { wanted, reason } => write!(f, "no device '{wanted}': {reason}"),
            Error::Name { what, name, known } => {
                write!(f, "no {what} named '{name}'")?;
                match closest(name, known) {
                    Some(c) => write!(f, "; did you mean '{c}'?"),
                    None if known.is_empty() => write!(f, "; there are none"),
                    None => write!(f, "; there are: {}", known.join(", ")),
                }
            }
            Error::MissingInput { entry, input } => {
                write!(f, "entry '{entry}': input '{input}' was not given")
            }
            Error::MissingParam { param } => write!(f, "param '{param}' was never set"),
            Error::ElementType { name, expected, found } => {
                write!(f, "'{name}': expected elements of type {expected}, found {found}")
            }
            Error::Shape { name, expected, found } => {
                write!(f, "'{name}': expected shape {expected}, found {found:?}")
            }
            Error::Length { name, expected, found } => {
                write!(f, "'{name}': expected {expected} bytes for its shape, found {found}")
            }
            Error::Budget { budget, needed } => {
                write!(f, "opening needs {needed} bytes, the budget is {budget}")
            }
            Error::BadIndex { step, name } => {
                write!(f, "step {step}")?;
                if let Some(n) = name {
                    write!(f, " ({n})")?;
                }
                f.write_str(": an index was out of range")
            }
            Error::Threads { wanted, reason } => write!(f, "cannot start {wanted} threads: {reason}"),
            Error::Poisoned => f.write_str("an earlier run failed half-way; reset or restore the state"),
            Error::LongLoop { step, dispatches, limit } => {
                write!(f, "loop at step {step}: {dispatches} dispatches when unrolled, the limit is {limit}")
            }
            Error::SelfTest(d) => write!(f, "{d}"),
            Error::OtherProgram => f.write_str("the saved state belongs to another program"),
            #[cfg(feature = "compiler")]
            Error::Compile(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Blob(e) => Some(e),
            Error::Device(e) => Some(e),
            _ => None,
        }
    }
}

impl From<schedule::Error> for Error {
    fn from(e: schedule::Error) -> Error {
        Error::Blob(e)
    }
}

impl From<ShellError> for Error {
    fn from(e: ShellError) -> Error {
        Error::Device(e)
    }
}

#[cfg(feature = "compiler")]
impl From<serinette_compiler::Error> for Error {
    fn from(e: serinette_compiler::Error) -> Error {
        Error::Compile(e)
    }
}

/// The known name that is nearest to a misspelt one, if any is near.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let scored = known.iter().map(|k| (strsim::jaro_winkler(name, k), k));
    scored.filter(|(s, _)| *s > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, k)| k.as_str())
}
