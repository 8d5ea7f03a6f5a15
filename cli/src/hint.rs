//! Hints: how a file becomes an input, what an output means. One JSON object for each input or output.

use serde::Deserialize;
use serinette::Model;

/// A hint.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Hint {
    /// A picture.
    Image(Image),
    /// Sound.
    Audio(Audio),
    /// One score for each class along the last axis, or class numbers.
    Classes(Classes),
}

/// How a picture becomes an input: `(pixel − mean) · scale`, with pixels from 0 to 255.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Image {
    /// Which channels, in which order.
    pub channels: Channels,
    /// One for each channel, or one for all. Zero if absent.
    #[serde(default)]
    pub mean: Vec<f32>,
    /// One for each channel, or one for all. One if absent.
    #[serde(default)]
    pub scale: Vec<f32>,
    /// Order of the axes.
    #[serde(default)]
    pub layout: Layout,
}

/// Channels of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channels {
    /// One, the luminance.
    Gray,
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

impl Channels {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Channels::Gray => 1,
            Channels::Rgb | Channels::Bgr => 3,
        }
    }
}

/// Order of the axes of a picture. Inputs of fewer axes leave out those in front, and gray ones the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Layout {
    /// Channels before rows and columns.
    #[default]
    #[serde(rename = "NCHW")]
    Nchw,
    /// Channels last.
    #[serde(rename = "NHWC")]
    Nhwc,
}

/// How sound becomes an input: samples from −1 to 1.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Audio {
    /// Samples a second.
    pub rate: u32,
}

/// What the numbers of an output are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Classes {
    /// Names in the order of the classes.
    pub labels: Vec<String>,
    /// How many of the best to show.
    #[serde(default = "one")]
    pub top: usize,
}

fn one() -> usize {
    1
}

/// The hint of a value; `None` without one.
pub fn of(model: &Model, value: u32) -> Result<Option<Hint>, String> {
    let Some(text) = text_of(model, value)? else { return Ok(None) };
    parse(text).map(Some).map_err(|e| format!("hint of '{}': {e}", model.value_name(value)))
}

/// The JSON of the hint of a value.
pub fn text_of(model: &Model, value: u32) -> Result<Option<&str>, String> {
    let program = model.program();
    let found = program.hints.iter().find(|(_, h)| h.value == value);
    found.map(|(_, h)| program.hint(h).map_err(|e| e.to_string())).transpose()
}

fn parse(text: &str) -> Result<Hint, String> {
    let hint: Hint = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Hint::Image(i) = &hint {
        for (what, list) in [("mean", &i.mean), ("scale", &i.scale)] {
            let n = i.channels.count();
            if list.len() > 1 && list.len() != n {
                return Err(format!("'{what}' has {} numbers, expected {n} (one a channel)", list.len()));
            }
        }
    }
    Ok(hint)
}

/// Checks a hint file before it goes into a blob: `{"inputs": {NAME: hint}, "outputs": {NAME: hint}}`.
#[cfg_attr(not(feature = "compiler"), allow(dead_code))]
pub fn check_file(text: &str) -> Result<(), String> {
    let file: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|e| e.to_string())?;
    for (part, hints) in &file {
        let (true, Some(hints)) = (matches!(part.as_str(), "inputs" | "outputs"), hints.as_object()) else {
            return Err(format!("'{part}': expected the objects 'inputs' and 'outputs'"));
        };
        for (name, hint) in hints {
            parse(&hint.to_string()).map_err(|e| format!("{part}: '{name}': {e}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_kinds() {
        let image = parse(r#"{"kind":"image","channels":"bgr","scale":[0.5],"layout":"NHWC"}"#).unwrap();
        let want = Image { channels: Channels::Bgr, mean: vec![], scale: vec![0.5], layout: Layout::Nhwc };
        assert_eq!(image, Hint::Image(want));
        assert_eq!(parse(r#"{"kind":"audio","rate":16000}"#).unwrap(), Hint::Audio(Audio { rate: 16000 }));
        let classes = parse(r#"{"kind":"classes","labels":["a"]}"#).unwrap();
        assert_eq!(classes, Hint::Classes(Classes { labels: vec!["a".into()], top: 1 }));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(parse(r#"{"kind":"imago"}"#).unwrap_err().contains("imago"));
        let counted = parse(r#"{"kind":"image","channels":"rgb","mean":[1,2]}"#).unwrap_err();
        assert!(counted.contains("2 numbers, expected 3"), "{counted}");
        assert!(check_file(r#"{"input":{}}"#).unwrap_err().contains("'input'"));
        assert!(check_file(r#"{"inputs":{"x":{"kind":"audio"}}}"#).unwrap_err().contains("'x'"));
    }
}
