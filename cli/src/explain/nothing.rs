//! What stands for the passes in a program without the compiler: it has none.

use crate::args::Compile;
use crate::compile;
use crate::facts::Facts;
use crate::failure::Failure;
use serde_json::Value;
use std::io::Write;

/// No passes.
#[derive(Default)]
pub struct Passes;

impl Passes {
    /// Refuses.
    pub fn compile(&mut self, args: &Compile) -> Result<(Vec<u8>, Vec<String>), Failure> {
        compile::compile(&args.model, &args.entry, &args.compile)
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
