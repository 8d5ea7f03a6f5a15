//! Values of flags.

use std::path::PathBuf;
use std::str::FromStr;

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

/// `INPUT=N,…|FILE.npy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    /// Input.
    pub input: String,
    /// What is in it.
    pub contents: Contents,
}

/// Contents of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// An array.
    File(PathBuf),
    /// Numbers.
    Numbers(Vec<f64>),
}

impl FromStr for Fixed {
    type Err = String;
    fn from_str(s: &str) -> Result<Fixed, String> {
        let what = "INPUT=N,… or INPUT=FILE.npy, such as rate=16000 or axes=0,2";
        let (input, text) = named(s, what)?;
        let contents = match text.ends_with(".npy") {
            true => Contents::File(text.into()),
            false => {
                let number = |n: &str| match n.trim() {
                    "true" => Ok(1.0),
                    "false" => Ok(0.0),
                    n => n.parse().map_err(|_| format!("'{n}' is no number; expected {what}")),
                };
                Contents::Numbers(text.split(',').map(number).collect::<Result<_, _>>()?)
            }
        };
        Ok(Fixed { input: input.into(), contents })
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

/// The names of profiles.
const PROFILES: [&str; 3] = ["desktop", "mobile", "mcu"];

/// `NAME[:SIZE=MAX,…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOf {
    /// The whole text, which names the plan.
    pub text: String,
    /// `desktop`, `mobile` or `mcu`.
    pub name: String,
    /// Sizes whose greatest value in this plan is lower.
    pub bounds: Vec<(String, u64)>,
}

impl FromStr for ProfileOf {
    type Err = String;
    fn from_str(s: &str) -> Result<ProfileOf, String> {
        let (name, rest) = s.split_once(':').unwrap_or((s, ""));
        if !PROFILES.contains(&name) {
            let near = nearest(name, &PROFILES).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            return Err(format!("expected desktop, mobile or mcu{near}"));
        }
        let mut bounds: Vec<(String, u64)> = Vec::new();
        for b in rest.split(',').filter(|_| s.contains(':')) {
            let (size, max) = named(b, "NAME:SIZE=MAX, such as mcu:batch=1")?;
            if bounds.iter().any(|(n, _)| n == size) {
                return Err(format!("size '{size}' is given twice"));
            }
            bounds.push((size.into(), number("MAX", max)?));
        }
        Ok(ProfileOf { text: s.into(), name: name.into(), bounds })
    }
}

/// `NAME=FILE.onnx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryOf {
    /// Entry.
    pub name: String,
    /// Its model.
    pub file: PathBuf,
}

impl FromStr for EntryOf {
    type Err = String;
    fn from_str(s: &str) -> Result<EntryOf, String> {
        match s.split_once('=') {
            Some((name, file)) if !name.is_empty() && !file.is_empty() => {
                Ok(EntryOf { name: name.into(), file: file.into() })
            }
            _ => Err("expected NAME=FILE.onnx, such as decode=decoder.onnx".into()),
        }
    }
}

/// `SEED|FILE.npz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestOf {
    /// Random inputs for every entry.
    Seed(u64),
    /// Arrays for the entries whose inputs they are.
    File(PathBuf),
}

impl FromStr for TestOf {
    type Err = String;
    fn from_str(s: &str) -> Result<TestOf, String> {
        match s.parse() {
            Ok(seed) => Ok(TestOf::Seed(seed)),
            Err(_) if extension(s.as_ref()) == "npz" => Ok(TestOf::File(s.into())),
            Err(_) => Err("expected a seed, such as 1, or a .npz file".into()),
        }
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

/// The names that are most like a word, the likest first: those it is a part of, then by edit distance.
pub fn likest<'a>(word: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let mut all: Vec<(bool, usize, &str)> =
        names.map(|n| (!n.contains(word), distance(word, n), n)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().take(most).map(|(_, _, n)| n).collect()
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
    fn profiles() {
        let p: ProfileOf = "mcu:batch=1,x[0]=16".parse().unwrap();
        assert_eq!((p.name.as_str(), p.text.as_str()), ("mcu", "mcu:batch=1,x[0]=16"));
        assert_eq!(p.bounds, [("batch".to_string(), 1), ("x[0]".to_string(), 16)]);
        assert!("desktop".parse::<ProfileOf>().unwrap().bounds.is_empty());
        assert!("mobil".parse::<ProfileOf>().unwrap_err().contains("'mobile'"));
        for bad in ["mcu:", "mcu:batch", "mcu:batch=x", "mcu:batch=1,", "mcu:batch=1,batch=2", ""] {
            assert!(bad.parse::<ProfileOf>().is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_and_tests() {
        let e: EntryOf = "decode=a=b.onnx".parse().unwrap();
        assert_eq!(e, EntryOf { name: "decode".into(), file: "a=b.onnx".into() });
        assert_eq!("7".parse::<TestOf>().unwrap(), TestOf::Seed(7));
        assert_eq!("v.npz".parse::<TestOf>().unwrap(), TestOf::File("v.npz".into()));
        for bad in ["a.onnx", "=a.onnx", "a="] {
            assert!(bad.parse::<EntryOf>().is_err(), "{bad}");
        }
        assert!("-1".parse::<TestOf>().is_err() && "v.npy".parse::<TestOf>().is_err());
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
        let names = ["/b/Conv_output_0", "/a/Conv", "/a/Relu", "/a/Conv"];
        assert_eq!(likest("/a/Conw", names.into_iter(), 2), ["/a/Conv", "/a/Relu"]);
        assert_eq!(likest("b/Conv", names.into_iter(), 1), ["/b/Conv_output_0"]);
    }
}
