//! What can be wrong with a shader template, with its place.

use std::fmt;
use std::path::{Path, PathBuf};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as it was named to the builder.
    pub file: PathBuf,
    /// Line, from 1; 0 where the error is about the file as a whole.
    pub line: usize,
}

impl Place {
    /// Line `line` of `file`.
    pub fn new(file: &Path, line: usize) -> Place {
        Place { file: file.to_path_buf(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            n => write!(f, "{}:{n}", self.file.display()),
        }
    }
}

/// The kinds of errors, for programs; people read [`Error::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A file could not be read or written.
    Io,
    /// A directive that cannot be understood, or is out of place.
    Directive,
    /// A key that has no value, or an expression that has none.
    Expression,
    /// An included snippet that is not there.
    Include,
    /// The expanded source is not WGSL, or not valid.
    Wgsl,
    /// The SPIR-V writer refused the module, or wrote something unreadable.
    Spirv,
    /// A rule of the kernel library is broken.
    Lint,
}

/// Why kernels were not built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Its kind.
    pub kind: ErrorKind,
    /// Where.
    pub place: Place,
    /// The kernel that was being built; empty before there is one.
    pub kernel: String,
    /// What is wrong, in words.
    pub text: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, place: Place, text: impl Into<String>) -> Error {
        Error { kind, place, kernel: String::new(), text: text.into() }
    }

    pub(crate) fn of_kernel(mut self, name: &str) -> Error {
        if self.kernel.is_empty() {
            self.kernel = name.to_string();
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.kernel.is_empty() {
            write!(f, "kernel {}: ", self.kernel)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
