//! The schedule blob: records, reader, verifier, binding, executor.
//!
//! The order of work: [`Program::parse`] finds the tables, [`verify()`] proves a plan, [`bind()`] fixes the sizes,
//! [`Executor`] walks the steps.

pub mod bind;
mod check;
pub mod error;
pub mod exec;
pub mod expr;
mod planned;
pub mod program;
pub mod record;
pub mod verify;

pub use bind::{Bindings, bind};
pub use error::{Error, Reason};
pub use exec::{Executor, Fault, Kernel, KernelError, Memory, Operands, Progress, StepView};
pub use program::{Program, Table};
pub use verify::{Limits, Live, Report, verify};
