//! What stands for the passes in a program without the compiler: it has none.

use crate::args::{CompileArgs, EntryOf};
use crate::compile;
use crate::facts::Facts;
use crate::failure::Failure;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// No passes.
#[derive(Default)]
pub struct Passes {}

impl Passes {
    /// Refuses.
    pub fn compile(
        &mut self,
        file: &Path,
        entries: &[EntryOf],
        args: &CompileArgs,
    ) -> Result<(Vec<u8>, Vec<String>), Failure> {
        compile::compile(file, entries, args)
    }

    /// Nothing.
    pub fn fate(&self, _: &str) -> Option<String> {
        None
    }

    /// Nothing.
    pub fn print(&self, _: &mut dyn Write, _: bool) -> Result<(), Failure> {
        Ok(())
    }

    /// Nothing.
    pub fn json(&self, _: &Facts) -> Value {
        Value::Null
    }
}
