//! Why a command ends without success.

use std::path::Path;

/// What `main` prints, and the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for something that makes no sense: exit code 2.
    Usage(String),
    /// Something else went wrong: exit code 1.
    Failed(String),
}

impl Failure {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::Failed(message.into())
    }

    /// A failure with exit code 2.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::Usage(message.into())
    }

    /// A failure about a file.
    pub fn file(path: &Path, problem: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {problem}", path.display()))
    }

    /// Puts `what` before the message.
    pub fn within(self, what: impl std::fmt::Display) -> Failure {
        match self {
            Failure::Usage(m) => Failure::Usage(format!("{what}: {m}")),
            Failure::Failed(m) => Failure::Failed(format!("{what}: {m}")),
        }
    }

    /// The message.
    pub fn message(&self) -> &str {
        match self {
            Failure::Usage(m) | Failure::Failed(m) => m,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        }
    }
}

impl From<serinette::Error> for Failure {
    fn from(e: serinette::Error) -> Failure {
        Failure::Failed(e.to_string())
    }
}

impl From<serinette::core::schedule::Error> for Failure {
    fn from(e: serinette::core::schedule::Error) -> Failure {
        Failure::Failed(e.to_string())
    }
}

/// Writing to standard output failed (a closed pipe, a full disk).
impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        Failure::Failed(format!("writing the result: {e}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(e: serde_json::Error) -> Failure {
        Failure::Failed(format!("writing the result: {e}"))
    }
}
