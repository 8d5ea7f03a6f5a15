//! The command line.

mod values;

pub use values::*;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Compile machine-learning models to schedule blobs; verify, inspect, run, compare and time them.
#[derive(Debug, Parser)]
#[command(name = "serinette", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile an ONNX model to a blob, and say what the blob will need
    Compile(Compile),
    /// Run a model on a device and print its outputs
    Run(Run),
    /// Prove that a blob is safe to run, and that its bytes are those that were written
    Verify(Verify),
    /// Show what is in a model
    Inspect(Inspect),
    /// Time a model, side by side on several devices
    Bench(Bench),
    /// List the devices that can run models
    Devices(Devices),
    /// Run a model step by step on two devices and name the first step whose results differ
    Compare(Compare),
    /// Show in what two models differ: sizes, inputs and outputs, steps, weights, memory
    Diff(Diff),
}

/// `compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// The model: an ONNX file
    pub model: PathBuf,
    /// The blob to write; may be left out with --explain
    #[arg(short, long, value_name = "OUT", required_unless_present = "explain")]
    pub output: Option<PathBuf>,
    /// Show what each pass of the compiler did: a row for each, with 'full' every node, or all of it as JSON
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "rows")]
    pub explain: Option<Explain>,
    /// Another model, which becomes an entry of this name beside 'main'; what has equal names is shared
    #[arg(long, value_name = "NAME=FILE.onnx")]
    pub entry: Vec<EntryOf>,
    /// Keep inputs, and the outputs that the host gives for them, in the blob: random inputs of a seed, or arrays
    #[arg(long, value_name = "SEED|FILE.npz")]
    pub self_test: Vec<TestOf>,
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// How passes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Explain {
    /// A row for each pass.
    Rows,
    /// Every node besides.
    Full,
    /// All of it for programs.
    Json,
}

/// How to compile.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Compiling")]
pub struct CompileArgs {
    /// Greatest value of an open size, and a number it is a multiple of; unnamed sizes are called INPUT[axis]
    #[arg(long, value_name = "NAME=MAX[:MULTIPLE]")]
    pub bound: Vec<Bound>,
    /// Sizes of an input: numbers, names of open sizes, or ? for what the file says: image=1,3,224,224
    #[arg(long, value_name = "INPUT=DIMS")]
    pub shape: Vec<ShapeOf>,
    /// Contents that an input has once and for all, such as what an If depends on: numbers, or an array
    #[arg(long, value_name = "INPUT=N,…|FILE.npy")]
    pub fix: Vec<Fixed>,
    /// An input and an output that are one state, kept from run to run
    #[arg(long, value_name = "IN=OUT")]
    pub state: Vec<Pair>,
    /// An initialiser that can be set at any time
    #[arg(long, value_name = "NAME")]
    pub param: Vec<String>,
    /// Weights and params whose computations are done once rather than in each run [default: all, none for mcu]
    #[arg(long, value_name = "all|none|NAME")]
    pub pack: Vec<String>,
    /// How files become inputs and what outputs mean; kept in the blob
    #[arg(long, value_name = "FILE.json")]
    pub hint: Option<PathBuf>,
    /// What a memory plan is for (desktop, mobile or mcu), and lower bounds of its sizes: mcu:batch=1
    #[arg(long, value_name = "NAME[:SIZE=MAX,…]")]
    pub profile: Vec<ProfileOf>,
}

impl CompileArgs {
    /// The first flag that was given, for a message.
    pub fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            (!self.bound.is_empty(), "--bound"),
            (!self.shape.is_empty(), "--shape"),
            (!self.fix.is_empty(), "--fix"),
            (!self.state.is_empty(), "--state"),
            (!self.param.is_empty(), "--param"),
            (!self.pack.is_empty(), "--pack"),
            (self.hint.is_some(), "--hint"),
            (!self.profile.is_empty(), "--profile"),
        ];
        flags.into_iter().find(|(given, _)| *given).map(|(_, f)| f)
    }
}

/// What to run with.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Inputs")]
pub struct InputArgs {
    /// Entry to run [default: main, or the only one]
    #[arg(long, value_name = "E")]
    pub entry: Option<String>,
    /// An input: .npy, .npz (arrays named like inputs), .png, .jpg, .wav, or random:SEED
    #[arg(long, short, value_name = "[NAME=]FILE")]
    pub input: Vec<InputOf>,
    /// Value of an open size
    #[arg(long, value_name = "NAME=N")]
    pub dim: Vec<Dim>,
}

/// `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// A blob, or an ONNX file, which is compiled in memory
    pub file: PathBuf,
    /// auto, host, vulkan[:N], wgpu[:N], or all: every device found, one after the other, compared
    #[arg(long, short, default_value = "auto")]
    pub device: DeviceName,
    /// Where to write outputs: NAME=FILE.npy one output, FILE.npz all of them
    #[arg(long, short, value_name = "[NAME=]FILE")]
    pub output: Vec<OutputTo>,
    /// Also give what a tensor inside the model holds, by its name in the source model; or what a step gives, by step:NAME
    #[arg(long, value_name = "[step:]NAME")]
    pub tap: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Most elements of each output that are printed as JSON
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub values: usize,
    #[command(flatten)]
    pub inputs: InputArgs,
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The blob
    pub file: PathBuf,
    /// Where to run the self-tests of the blob: a device, or all
    #[arg(long, short, default_value = "host")]
    pub device: DeviceName,
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A blob, or an ONNX file, which is compiled in memory
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with pictures of the memory and tables of ops, steps and weights, rather than print
    #[arg(long, value_name = "OUT.html", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// A blob, or an ONNX file, which is compiled in memory
    pub file: PathBuf,
    /// A device, or all; several take turns [default: auto]
    #[arg(long, short)]
    pub device: Vec<DeviceName>,
    /// Threads of the host kernels
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Timed runs on each device [default: as many as fit in two seconds, between 10 and 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: Option<u32>,
    /// Also time single steps on the host, and show the N that take longest
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "12")]
    pub steps: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub inputs: InputArgs,
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// A blob, or an ONNX file, which is compiled in memory
    pub file: PathBuf,
    /// The first device
    pub first: DeviceName,
    /// The second device
    pub second: DeviceName,
    /// How far floating-point results may differ, relative to the larger magnitude
    #[arg(long, default_value_t = 1e-4)]
    pub relative: f32,
    /// How far floating-point results may always differ
    #[arg(long, default_value_t = 1e-5)]
    pub absolute: f32,
    #[command(flatten)]
    pub inputs: InputArgs,
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// A blob, or an ONNX file, which is compiled in memory
    pub first: PathBuf,
    /// Another
    pub second: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show all that differs rather than the first of each kind
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    #[command(flatten)]
    pub compile: CompileArgs,
}
