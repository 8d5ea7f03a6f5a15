//! One test: compile, run, compare.

use crate::compare::compare;
use serinette::compile::{CompileOptions, compile_onnx};
use serinette::{Device, Model, SessionOptions, TensorView};
use serinette_compiler::onnx::{AxisSize, Contents, Tensor, graph_io, read_tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What became of a test.
pub enum Outcome {
    /// The results are right. `fixed` are the inputs whose contents were given to the compiler, because shapes depend on
    /// them.
    Passed { fixed: Vec<String> },
    /// They are wrong, or there are none.
    Failed(String),
    /// The test holds no data that this runner reads.
    Skipped(String),
}

/// Runs a test.
pub fn run(folder: &Path) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| attempt(folder))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Outcome::Failed(format!("panic: {text}"))
    })
}

fn attempt(folder: &Path) -> Outcome {
    let sets: Vec<PathBuf> =
        (0..).map(|i| folder.join(format!("test_data_set_{i}"))).take_while(|p| p.is_dir()).collect();
    if sets.is_empty() {
        return Outcome::Skipped("no test_data_set_0".into());
    }
    let mut all_fixed = Vec::new();
    for set in &sets {
        match one_set(folder, set) {
            Ok(fixed) => all_fixed = fixed,
            Err(why) => return Outcome::Failed(why),
        }
    }
    Outcome::Passed { fixed: all_fixed }
}

fn tensors(set: &Path, what: &str) -> Result<Vec<Tensor>, String> {
    let files = (0..).map(|i| set.join(format!("{what}_{i}.pb"))).take_while(|p| p.is_file());
    files
        .map(|p| {
            let bytes = std::fs::read(&p).map_err(|e| format!("{}: {e}", p.display()))?;
            read_tensor(bytes).map_err(|e| format!("{what} data: {e}"))
        })
        .collect()
}

/// Gives the inputs that had to be fixed.
fn one_set(folder: &Path, set: &Path) -> Result<Vec<String>, String> {
    let file = std::fs::read(folder.join("model.onnx")).map_err(|e| format!("model.onnx: {e}"))?;
    let (names, _) = graph_io(&file).map_err(|e| e.to_string())?;
    let (inputs, outputs) = (tensors(set, "input")?, tensors(set, "output")?);
    if names.len() < inputs.len() {
        return Err(format!("{} inputs of data, the graph has {}", inputs.len(), names.len()));
    }
    let mut options = CompileOptions::default();
    for (name, t) in names.iter().zip(&inputs) {
        let sizes = t.dims.iter().map(|d| AxisSize::Number(*d)).collect();
        options.import.shapes.insert(name.clone(), sizes);
    }
    let mut fixed = Vec::new();
    let compiled = match compile_onnx(file.clone(), &options) {
        Ok(compiled) => compiled,
        // Shapes, axes, repeats and the like may be inputs here. Their contents are part of the test.
        Err(first) => {
            for (name, t) in names.iter().zip(&inputs) {
                if t.dims.len() <= 1 {
                    options.import.shapes.remove(name);
                    options.import.constants.insert(name.clone(), Contents::Tensor(t.clone()));
                    fixed.push(name.clone());
                }
            }
            compile_onnx(file, &options).map_err(|_| first.to_string())?
        }
    };
    let model = Model::from_bytes(compiled.bytes).map_err(|e| format!("verify: {e}"))?;
    let mut session =
        model.session(&Device::Host, &SessionOptions::default()).map_err(|e| format!("open: {e}"))?;
    let shapes: Vec<Vec<usize>> =
        inputs.iter().map(|t| t.dims.iter().map(|d| *d as usize).collect()).collect();
    let views: Vec<(&str, TensorView<'_>)> = names
        .iter()
        .zip(inputs.iter().zip(&shapes))
        .filter(|(name, _)| !fixed.contains(name))
        .map(|(name, (t, shape))| {
            (name.as_str(), TensorView { dtype: t.dtype, shape, bytes: t.data.as_bytes() })
        })
        .collect();
    let results = session.run("main", &views).map_err(|e| format!("run: {e}"))?;
    if results.len() < outputs.len() {
        return Err(format!("{} outputs, expected {}", results.len(), outputs.len()));
    }
    for (got, want) in results.iter().zip(&outputs) {
        compare(&got.view(), want).map_err(|e| format!("output {}: {e}", got.name))?;
    }
    Ok(fixed)
}
