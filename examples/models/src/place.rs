//! Where models run: the flags that all programs have, and sessions.

use anyhow::{Context, Result};
use serinette::compile::{CompileOptions, compile_files};
use serinette::{Device, Model, Outputs, Session, SessionOptions};
use std::path::Path;

/// Flags of every program.
#[derive(clap::Args, Clone, Debug)]
pub struct PlaceArgs {
    /// Device: host, auto, vulkan[:N], wgpu[:N] (the latter with the features of these names)
    #[arg(long, default_value = "host")]
    device: String,
    /// Threads of the host kernels
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// A device, and how sessions on it are opened.
#[derive(Clone)]
pub struct Place {
    device: Device,
    options: SessionOptions,
}

impl PlaceArgs {
    /// Opens the device.
    ///
    /// # Errors
    /// No such device.
    pub fn open(&self) -> Result<Place> {
        let options = SessionOptions { threads: self.threads.max(1), ..Default::default() };
        Ok(Place { device: Device::open(&self.device)?, options })
    }
}

impl Place {
    /// The host with one thread.
    pub fn host() -> Place {
        Place { device: Device::Host, options: SessionOptions::default() }
    }

    /// Compiles an ONNX file to the entry `main` of a blob in memory and opens a session.
    ///
    /// # Errors
    /// Whatever the compiler or the device refuses, with the file's name.
    pub fn compile(&self, file: &Path, options: &CompileOptions) -> Result<Session> {
        self.compile_entries(&[("main", file)], options)
    }

    /// Compiles ONNX files to one blob in memory, each to the entry of its name, and opens a session.
    ///
    /// # Errors
    /// Whatever the compiler or the device refuses, with the files' names.
    pub fn compile_entries(&self, files: &[(&str, &Path)], options: &CompileOptions) -> Result<Session> {
        let within = || files.iter().map(|(_, f)| f.display().to_string()).collect::<Vec<_>>().join(", ");
        let compiled = compile_files(files, options).with_context(within)?;
        self.session(&Model::from_bytes(compiled.bytes).with_context(within)?).with_context(within)
    }

    /// Opens a session of a model.
    ///
    /// # Errors
    /// Whatever the device refuses.
    pub fn session(&self, model: &Model) -> Result<Session> {
        Ok(model.session(&self.device, &self.options)?)
    }
}

/// An output as numbers.
///
/// # Errors
/// No output of this name, or none of numbers.
pub fn numbers(outputs: &Outputs<'_>, name: &str) -> Result<Vec<f32>> {
    let output = outputs.named(name)?;
    output.view().to_f32().with_context(|| format!("output '{name}' has no numbers"))
}
