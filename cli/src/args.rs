//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

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
}

/// `compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// The model: an ONNX file
    pub model: PathBuf,
    /// The blob to write
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    #[command(flatten)]
    pub compile: CompileArgs,
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
    /// An input and an output that are one state, kept from run to run
    #[arg(long, value_name = "IN=OUT")]
    pub state: Vec<Pair>,
    /// How files become inputs and what outputs mean; kept in the blob
    #[arg(long, value_name = "FILE.json")]
    pub hint: Option<PathBuf>,
    /// What the memory plan is for
    #[arg(long, value_enum)]
    pub profile: Option<ProfileName>,
}

impl CompileArgs {
    /// The first flag that was given, for a message.
    pub fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            (!self.bound.is_empty(), "--bound"),
            (!self.shape.is_empty(), "--shape"),
            (!self.state.is_empty(), "--state"),
            (self.hint.is_some(), "--hint"),
            (self.profile.is_some(), "--profile"),
        ];
        flags.into_iter().find(|(given, _)| *given).map(|(_, f)| f)
    }
}

/// What a memory plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Hosts and desktop GPUs
    Desktop,
    /// Phones
    Mobile,
    /// Microcontrollers: one step at a time, the least memory
    Mcu,
}

impl ProfileName {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            ProfileName::Desktop => "desktop",
            ProfileName::Mobile => "mobile",
            ProfileName::Mcu => "mcu",
        }
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
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A blob, or an ONNX file, which is compiled in memory
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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

/// `NAME=MAX[:MULTIPLE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Open size.
    pub name: String,
    /// Greatest value.
    pub max: u64,
    /// The value is a multiple of this.
    pub multiple: u64,
}

impl FromStr for Bound {
    type Err = String;
    fn from_str(s: &str) -> Result<Bound, String> {
        let (name, numbers) = named(s, "NAME=MAX[:MULTIPLE], such as batch=16 or length=4096:8")?;
        let (max, multiple) = numbers.split_once(':').unwrap_or((numbers, "1"));
        let bound =
            Bound { name: name.into(), max: number("MAX", max)?, multiple: number("MULTIPLE", multiple)? };
        match bound.multiple {
            0 => Err("MULTIPLE is 0, expected at least 1".into()),
            m if bound.max < m => Err(format!("MAX is {}, expected at least MULTIPLE, {m}", bound.max)),
            _ => Ok(bound),
        }
    }
}

/// `INPUT=DIMS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeOf {
    /// Input.
    pub input: String,
    /// Each a number, the name of an open size, or `?`.
    pub dims: Vec<String>,
}

impl FromStr for ShapeOf {
    type Err = String;
    fn from_str(s: &str) -> Result<ShapeOf, String> {
        let (input, dims) = named(s, "INPUT=DIMS, such as image=1,3,224,224 or x=batch,?")?;
        let dims = dims.trim().trim_start_matches('[').trim_end_matches(']').trim();
        let dims: Vec<String> = match dims {
            "" => Vec::new(),
            _ => dims.split(',').map(|d| d.trim().to_string()).collect(),
        };
        if dims.iter().any(String::is_empty) {
            return Err("a dimension is empty; expected numbers, names or ? with commas between".into());
        }
        Ok(ShapeOf { input: input.into(), dims })
    }
}

/// `IN=OUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Input.
    pub input: String,
    /// Output.
    pub output: String,
}

impl FromStr for Pair {
    type Err = String;
    fn from_str(s: &str) -> Result<Pair, String> {
        let (input, output) = named(s, "IN=OUT")?;
        if output.is_empty() {
            return Err("OUT is empty; expected IN=OUT".into());
        }
        Ok(Pair { input: input.into(), output: output.into() })
    }
}

/// `NAME=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Open size.
    pub name: String,
    /// Its value.
    pub value: u64,
}

impl FromStr for Dim {
    type Err = String;
    fn from_str(s: &str) -> Result<Dim, String> {
        let (name, value) = named(s, "NAME=N, such as batch=4")?;
        Ok(Dim { name: name.into(), value: number("N", value)? })
    }
}

/// Where an input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Random numbers of a seed.
    Random(u64),
}

/// `[NAME=]FILE` or `[NAME=]random:SEED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputOf {
    /// Input (or param); `None`: the next one that is not named elsewhere.
    pub name: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

impl FromStr for InputOf {
    type Err = String;
    fn from_str(s: &str) -> Result<InputOf, String> {
        let (name, rest) = optional_name(s)?;
        let source = match rest.strip_prefix("random:") {
            Some(seed) => Source::Random(number("SEED", seed)?),
            None if rest == "random" => {
                return Err("a seed is missing; expected random:SEED, such as random:1".into());
            }
            None => Source::File(rest.into()),
        };
        Ok(InputOf { name, source })
    }
}

/// `[NAME=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTo {
    /// Output; `None`: all of them.
    pub name: Option<String>,
    /// File to write: `.npy` for one, `.npz` for one or all.
    pub file: PathBuf,
}

impl FromStr for OutputTo {
    type Err = String;
    fn from_str(s: &str) -> Result<OutputTo, String> {
        let (name, file) = optional_name(s)?;
        let file = PathBuf::from(file);
        match (extension(&file).as_str(), &name) {
            ("npz", _) | ("npy", Some(_)) => Ok(OutputTo { name, file }),
            ("npy", None) => Err("a .npy file holds one array; expected NAME=FILE.npy, or FILE.npz".into()),
            (other, _) => Err(format!("the file ends in '.{other}'; expected .npy or .npz")),
        }
    }
}

/// A device as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// Every device found.
    All,
    /// What the library's `Device::open` takes.
    One(String),
}

/// The names that a device may start with.
const DEVICES: [&str; 5] = ["auto", "host", "vulkan", "wgpu", "all"];

impl FromStr for DeviceName {
    type Err = String;
    fn from_str(s: &str) -> Result<DeviceName, String> {
        let (kind, which) = match s.split_once(':') {
            Some((k, w)) => (k, Some(w)),
            None => (s, None),
        };
        match (kind, which) {
            ("all", None) => Ok(DeviceName::All),
            ("auto" | "host", None) => Ok(DeviceName::One(s.into())),
            ("vulkan" | "wgpu", None) => Ok(DeviceName::One(s.into())),
            ("vulkan" | "wgpu", Some(w)) if !w.is_empty() => Ok(DeviceName::One(s.into())),
            ("vulkan" | "wgpu", Some(_)) => Err(format!("a number is missing after '{s}', such as {s}0")),
            ("all" | "auto" | "host", Some(_)) => Err(format!("'{kind}' takes no number")),
            _ => {
                let near =
                    nearest(kind, &DEVICES).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                Err(format!("expected auto, host, vulkan[:N], wgpu[:N] or all{near}"))
            }
        }
    }
}

/// The name that differs from `word` by the fewest letters, if by no more than two or a third of them.
fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let best = names.iter().map(|n| (distance(word, n), *n)).min()?;
    (best.0 <= 2.max(word.len() / 3)).then_some(best.1)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(x != *y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The extension of a file name in lower case; empty without one.
pub fn extension(file: &std::path::Path) -> String {
    file.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn named<'a>(s: &'a str, expected: &str) -> Result<(&'a str, &'a str), String> {
    // Names of tensors may hold '=', values never do.
    match s.rsplit_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name, value)),
        _ => Err(format!("expected {expected}")),
    }
}

/// `NAME=rest` or `rest`. What stands before `=` is part of a path if it has a separator.
fn optional_name(s: &str) -> Result<(Option<String>, &str), String> {
    match s.split_once('=') {
        Some((_, "")) => Err("the file name is missing after '='".into()),
        Some(("", rest)) => Ok((None, rest)),
        Some((name, rest)) if !name.starts_with(['.', '/', '\\']) => Ok((Some(name.into()), rest)),
        _ if s.is_empty() => Err("the file name is empty".into()),
        _ => Ok((None, s)),
    }
}

fn number(what: &str, s: &str) -> Result<u64, String> {
    s.trim().parse().map_err(|_| format!("{what} is '{s}', expected a whole number"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bounds() {
        let b: Bound = "x[0]=64:8".parse().unwrap();
        assert_eq!(b, Bound { name: "x[0]".into(), max: 64, multiple: 8 });
        assert_eq!("n=3".parse::<Bound>().unwrap().multiple, 1);
        for bad in ["n", "=3", "n=", "n=three", "n=3:0", "n=3:4", "n=-1"] {
            assert!(bad.parse::<Bound>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shapes() {
        assert_eq!("x=[1, n,?]".parse::<ShapeOf>().unwrap().dims, ["1", "n", "?"]);
        assert!("x=".parse::<ShapeOf>().unwrap().dims.is_empty());
        assert!("x=1,,2".parse::<ShapeOf>().is_err());
    }

    #[test]
    fn inputs() {
        let named: InputOf = "a=b.png".parse().unwrap();
        assert_eq!(named, InputOf { name: Some("a".into()), source: Source::File("b.png".into()) });
        assert_eq!("random:7".parse::<InputOf>().unwrap().source, Source::Random(7));
        assert_eq!("./a=b.png".parse::<InputOf>().unwrap().source, Source::File("./a=b.png".into()));
        assert!("random".parse::<InputOf>().is_err());
        assert!("a=".parse::<InputOf>().is_err());
    }

    #[test]
    fn devices() {
        assert_eq!("vulkan:1".parse::<DeviceName>().unwrap(), DeviceName::One("vulkan:1".into()));
        assert!("vulcan".parse::<DeviceName>().unwrap_err().contains("'vulkan'"));
        assert!("host:0".parse::<DeviceName>().is_err());
        assert!("wgpu:".parse::<DeviceName>().is_err());
    }

    #[test]
    fn edit_distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(nearest("zzzzzz", &DEVICES), None);
    }
}
